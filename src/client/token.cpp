// SPDX-License-Identifier: Apache-2.0
#include "client/token.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/read_file.h"
#include "base/text.h"

namespace sandbar::client {
namespace {

constexpr std::size_t kMaxToken = 8 * 1024;
constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

/// It goes into an HTTP header: a line break in it would be a header of its own (RFC 9110, 5.5).
bool fits_a_header(std::string_view token) {
  return std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace

Result<std::string> read_token_file(const std::string& path) {
  const std::string operation = "read token file " + base::printable(path);
  const auto fd = base::open_to_read(path, true, operation);
  if (!fd) return fd.error();
  auto text = base::read_up_to(fd->get(), kMaxToken, operation);
  if (!text) return text;
  if (text->size() > kMaxToken) return make_error(Errc::invalid, operation, "it is larger than 8 KiB: not a token");
  const std::string_view token = trimmed(*text);
  if (token.empty()) return make_error(Errc::invalid, operation, "it is empty");
  if (!fits_a_header(token))
    return make_error(Errc::invalid, operation, "it holds white space or characters that no token has");
  return std::string(token);
}

Result<std::string> token_from_environment() {
  const char* value = std::getenv("SANDBOX_TOKEN");  // NOLINT(concurrency-mt-unsafe): before threads start
  if (value == nullptr) return std::string();
  const std::string_view token = trimmed(value);
  if (token.size() > kMaxToken || !fits_a_header(token))
    return make_error(Errc::invalid, "read SANDBOX_TOKEN", "it holds white space or characters that no token has");
  return std::string(token);
}

bool is_token(std::string_view text) { return !text.empty() && text.size() <= kMaxToken && fits_a_header(text); }

/// The environment as the kernel shows it in /proc/PID/environ is the block that the process was started with.
void forget_token_in_environment() {
  char* token = std::getenv("SANDBOX_TOKEN");  // NOLINT(concurrency-mt-unsafe): before threads start
  if (token == nullptr) return;
  ::explicit_bzero(token, std::strlen(token));
  ::unsetenv("SANDBOX_TOKEN");  // NOLINT(concurrency-mt-unsafe)
}

void keep_tokens_out_of_cores() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) < 0) return;
  // Not 0: a core that goes to a program (core_pattern with a pipe, core(5)) is stopped by a limit of 1 only.
  limit.rlim_cur = std::min<rlim_t>(1, limit.rlim_max);
  ::setrlimit(RLIMIT_CORE, &limit);
}

Result<std::string> find_token(const std::string& token_file) {
  return token_file.empty() ? token_from_environment() : read_token_file(token_file);
}

}  // namespace sandbar::client
