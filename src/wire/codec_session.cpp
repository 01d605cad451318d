// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/text.h"
#include "wire/codec.h"
#include "wire/field_reader.h"
#include "wire/field_writer.h"
#include "wire/fields.h"

namespace sandbar::wire {
namespace {

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

/// The kernel's own bound for error numbers (MAX_ERRNO, include/linux/err.h).
constexpr std::uint32_t kMaxErrno = 4095;
/// EIO on Linux, written out because the wire's numbers are Linux's wherever this is built.
constexpr std::uint32_t kEio = 5;

template <class Message>
base::Bytes write_message(const Message& message) {
  FieldWriter writer;
  fields(writer, message);
  return writer.take();
}

template <class Message>
Result<Message> read_message(const char* what, base::BytesView head) {
  const std::string operation = std::string("read a ") + what;
  json::Document document;
  if (const char* why = document.parse(head)) return make_error(Errc::protocol, operation, why);
  FieldReader reader(document.root());
  Message message;
  fields(reader, message);
  if (!reader.ok()) return make_error(Errc::protocol, operation, reader.fault());
  return message;
}

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

base::Bytes encode_hello(const Hello& hello) { return write_message(hello); }

Result<Hello> decode_hello(base::BytesView head) {
  auto hello = read_message<Hello>("hello", head);
  if (!hello) return hello;
  const Limits& limits = hello->limits;
  // Nothing could ever be sent to such a peer.
  for (std::uint64_t limit :
       {limits.max_body, limits.max_requests, limits.request_window, limits.max_channels, limits.channel_window})
    if (limit == 0) return make_error(Errc::protocol, "read a hello", "a limit is 0");
  return hello;
}

base::Bytes encode_goodbye(const Goodbye& goodbye) {
  return write_message(Goodbye{goodbye.code, bounded_text(goodbye.message)});
}

Result<Goodbye> decode_goodbye(base::BytesView head) { return read_message<Goodbye>("goodbye", head); }

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
  return write_message(head);
}

Result<void> decode_error(base::BytesView head, Error& into) {
  auto read = read_message<ErrorHead>("error", head);
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

base::Bytes encode_credit(std::uint64_t bytes) { return write_message(Credit{bytes}); }

Result<std::uint64_t> decode_credit(base::BytesView head) {
  auto credit = read_message<Credit>("credit", head);
  if (!credit) return std::move(credit).error();
  return credit->bytes;
}

}  // namespace sandbar::wire
