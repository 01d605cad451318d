// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sandbar/result.h"
#include "wire/field_reader.h"
#include "wire/field_writer.h"

/// A message of one JSON object, by its list of fields: `fields(archive, message)` in this namespace.
namespace sandbar::wire {

template <class Message>
base::Bytes write_head(const Message& message) {
  FieldWriter writer;
  fields(writer, message);
  return writer.take();
}

/// Errc::protocol, with `operation`, for what is not such an object.
template <class Message>
Result<Message> read_head(const std::string& operation, base::BytesView head) {
  json::Document document;
  if (const char* why = document.parse(head)) return make_error(Errc::protocol, operation, why);
  FieldReader reader(document.root());
  Message message;
  fields(reader, message);
  if (!reader.ok()) return make_error(Errc::protocol, operation, reader.fault());
  return message;
}

}  // namespace sandbar::wire
