// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "unit/agent/files_fixture.h"
#include "wire/codec.h"

namespace sandbar::agent {

inline Errc code_of(const Result<FileAnswer>& answer) { return answer ? Errc::internal : answer.error().code; }
inline std::string detail_of(const Result<FileAnswer>& answer) { return answer ? "" : answer.error().detail; }

/// All of an answer but the count of changes.
inline std::string text_of(const Result<FileAnswer>& answer) {
  if (!answer) return wire::encode_error(answer.error());
  EXPECT_EQ("", answer->body) << "what is recorded has no body";
  return wire::encode_reply({{}, answer->reply.body});
}

}  // namespace sandbar::agent
