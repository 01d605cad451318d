// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/text.h"
#include "wire/codec.h"
#include "wire/fields.h"
#include "wire/head_codec.h"

namespace sandbar::wire {

struct Credit {
  std::uint64_t bytes = 0;
};
void fields(auto& a, Of<Credit> auto& m) { a.need("bytes", m.bytes); }

struct ErrorHead {
  std::string code;
  std::uint32_t os_errno = 0;
  std::string message;
};
void fields(auto& a, Of<ErrorHead> auto& m) {
  a.need("code", Text{m.code, kMaxLabel});
  a.may("errno", m.os_errno);
  a.may("message", Text{m.message, kMaxErrorText});
}

namespace {

/// The kernel's own bound for error numbers (MAX_ERRNO, include/linux/err.h).
constexpr std::uint32_t kMaxErrno = 4095;
/// EIO on Linux, written out because the wire's numbers are Linux's wherever this is built.
constexpr std::uint32_t kEio = 5;

/// At most kMaxErrorText bytes of valid UTF-8 without control characters.
std::string bounded_text(std::string_view text) {
  // Escaping only makes it longer; a character that this cut splits lies beyond the second one.
  std::string shown = base::printable(text.substr(0, 2 * kMaxErrorText));
  if (shown.size() <= kMaxErrorText) return shown;
  std::size_t size = kMaxErrorText;
  while (size > 0 && (static_cast<unsigned char>(shown[size]) & 0xC0) == 0x80) --size;
  shown.resize(size);
  return shown;
}

}  // namespace

base::Bytes encode_hello(const Hello& hello) { return write_head(hello); }

Result<Hello> decode_hello(base::BytesView head) {
  auto hello = read_head<Hello>("read a hello", head);
  if (!hello) return hello;
  const Limits& limits = hello->limits;
  // Nothing could ever be sent to such a peer.
  for (std::uint64_t limit :
       {limits.max_body, limits.max_requests, limits.request_window, limits.max_channels, limits.channel_window})
    if (limit == 0) return make_error(Errc::protocol, "read a hello", "a limit is 0");
  return hello;
}

base::Bytes encode_goodbye(const Goodbye& goodbye) {
  return write_head(Goodbye{goodbye.code, bounded_text(goodbye.message)});
}

Result<Goodbye> decode_goodbye(base::BytesView head) { return read_head<Goodbye>("read a goodbye", head); }

base::Bytes encode_error(const Error& error) {
  ErrorHead head;
  head.code = errc_name(error.code);
  if (error.code == Errc::os) {
    const bool in_range = error.os_errno > 0 && error.os_errno <= static_cast<int>(kMaxErrno);
    head.os_errno = in_range ? static_cast<std::uint32_t>(error.os_errno) : kEio;
  }
  // Without strerror's text: the reader's Error::message() adds it.
  const bool both = !error.operation.empty() && !error.detail.empty();
  head.message = bounded_text(error.operation + (both ? ": " : "") + error.detail);
  return write_head(head);
}

Result<void> decode_error(base::BytesView head, Error& into) {
  auto read = read_head<ErrorHead>("read an error", head);
  if (!read) return std::move(read).error();
  Error error = make_error(errc_from_name(read->code), {}, std::move(read->message));
  if (error.code == Errc::os) {
    if (read->os_errno == 0 || read->os_errno > kMaxErrno)
      return make_error(Errc::protocol, "read an error", "errno is not 1..4095");
    error.os_errno = static_cast<int>(read->os_errno);
  }
  into = std::move(error);
  return {};
}

base::Bytes encode_credit(std::uint64_t bytes) { return write_head(Credit{bytes}); }

Result<std::uint64_t> decode_credit(base::BytesView head) {
  auto credit = read_head<Credit>("read a credit", head);
  if (!credit) return std::move(credit).error();
  return credit->bytes;
}

}  // namespace sandbar::wire
