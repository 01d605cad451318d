// SPDX-License-Identifier: Apache-2.0
#include "wire/codec.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "wire/field_reader.h"
#include "wire/field_writer.h"
#include "wire/fields.h"

namespace sandbar::wire {
namespace {

template <class Variant>
struct Kind {
  std::string_view name;
  void (*read)(FieldReader& reader, Variant& into);
};

template <class Variant, std::size_t I>
void read_alternative(FieldReader& reader, Variant& into) {
  fields(reader, into.template emplace<I>());
}

/// A row for each alternative of the variant, so that none can be forgotten; sorted by name.
template <class Variant>
constexpr auto kKinds = []<std::size_t... I>(std::index_sequence<I...>) {
  std::array<Kind<Variant>, sizeof...(I)> rows{
      Kind<Variant>{kWireName<std::variant_alternative_t<I, Variant>>, &read_alternative<Variant, I>}...};
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return rows;
}
(std::make_index_sequence<std::variant_size_v<Variant>>{});

template <class Variant>
constexpr bool names_are_distinct() {
  for (std::size_t i = 1; i < kKinds<Variant>.size(); ++i)
    if (kKinds<Variant>[i - 1].name == kKinds<Variant>[i].name) return false;
  return !kKinds<Variant>[0].name.empty();
}
static_assert(names_are_distinct<RequestBody>() && names_are_distinct<ReplyBody>());

template <class Variant>
const Kind<Variant>* find_kind(std::string_view name) {
  const auto& rows = kKinds<Variant>;
  const auto* row = std::lower_bound(rows.begin(), rows.end(), name,
                                     [](const Kind<Variant>& r, std::string_view wanted) { return r.name < wanted; });
  return row != rows.end() && row->name == name ? row : nullptr;
}

Error fault(const char* what, std::string detail) {
  return make_error(Errc::protocol, std::string("read a ") + what, std::move(detail));
}

constexpr std::size_t kMaxKindName = 64;

/// Reads the alternative that `key` names, then the envelope's own fields.
template <class Variant, class Envelope>
Result<void> read_message(const char* what, const char* key, base::BytesView head, Variant& body, Envelope envelope) {
  json::Document document;
  if (const char* why = document.parse(head)) return fault(what, why);
  FieldReader reader(document.root());
  std::string name;
  reader.need(key, Text{name, kMaxKindName});
  if (!reader.ok()) return fault(what, reader.fault());
  const Kind<Variant>* kind = find_kind<Variant>(name);
  if (kind == nullptr) return fault(what, std::string(key) + " is unknown: " + base::printable(name));
  kind->read(reader, body);
  envelope(reader);
  if (!reader.ok()) return fault(what, name + ": " + reader.fault());
  return {};
}

template <class Variant>
std::string_view name_of(const Variant& body) {
  return std::visit([](const auto& message) { return kWireName<std::decay_t<decltype(message)>>; }, body);
}

template <class Variant>
void write_body(FieldWriter& writer, const char* key, const Variant& body) {
  const std::string_view name = name_of(body);
  writer.need(key, Text{name, kMaxKindName});
  std::visit([&](const auto& message) { fields(writer, message); }, body);
}

}  // namespace

base::Bytes encode_request(const Request& request) {
  FieldWriter writer;
  write_body(writer, "op", request.body);
  fields(writer, request.context);
  return writer.take();
}

Result<Request> decode_request(base::BytesView head) {
  Request request;
  auto read =
      read_message("request", "op", head, request.body, [&](FieldReader& reader) { fields(reader, request.context); });
  if (!read) return std::move(read).error();
  return request;
}

base::Bytes encode_reply(const Reply& reply) {
  FieldWriter writer;
  write_body(writer, "is", reply.body);
  writer.may("change", reply.change);
  return writer.take();
}

Result<Reply> decode_reply(base::BytesView head) {
  Reply reply;
  auto read =
      read_message("reply", "is", head, reply.body, [&](FieldReader& reader) { reader.may("change", reply.change); });
  if (!read) return std::move(read).error();
  return reply;
}

const char* request_name(const RequestBody& body) { return name_of(body).data(); }

}  // namespace sandbar::wire
