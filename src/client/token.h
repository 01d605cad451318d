// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "sandbar/result.h"

namespace sandbar::client {

/// A token file's contents without the white space around. Errc::invalid, naming the file, for one on which others than
/// its owner have any rights, that is empty, larger than 8 KiB, or holds what cannot go into an HTTP header; Errc::os
/// where it cannot be read. The token itself is in no error. Pipes (`<(command)`) are read to their end.
Result<std::string> read_token_file(const std::string& path);

/// SANDBOX_TOKEN, empty where it is not set.
Result<std::string> token_from_environment();

/// True for what can be sent as a bearer token: not empty, at most 8 KiB of ASCII without white space.
bool is_token(std::string_view text);

/// Removes SANDBOX_TOKEN, also from what /proc/PID/environ shows, so that no child and nobody who may look at the
/// process gets it. Before threads start.
void forget_token_in_environment();

/// No core of this process is written, which would have its tokens. Children inherit it. Before a token is read.
void keep_tokens_out_of_cores();

/// The file's where a file is given, else the environment's.
Result<std::string> find_token(const std::string& token_file);

}  // namespace sandbar::client
