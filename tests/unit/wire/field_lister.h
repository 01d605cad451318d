// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "filler.h"
#include "wire/field_writer.h"

namespace sandbar::wire {

enum class Holds { number32, text, bytes, other };

/// A field of a message as its list describes it, with the JSON text of its filled value.
struct ListedField {
  std::string name;
  bool needed = false;
  std::string json;
  Holds holds = Holds::other;
  std::size_t most = 0;  ///< bytes of a text or bytes
};

/// An archive that describes the fields of a message, so that a test can put every kind of bad value into each.
class FieldLister {
 public:
  template <class T>
  void need(std::string_view name, T&& field) {
    list(name, field, true);
  }
  template <class T>
  void may(std::string_view name, T&& field) {
    list(name, field, false);
  }
  std::vector<ListedField> listed;

 private:
  template <class T>
  void list(std::string_view name, T& field, bool needed) {
    FieldWriter writer;
    writer.need(name, field);
    const std::string object = writer.take();  // {"name":value}
    ListedField entry{std::string(name), needed, object.substr(name.size() + 4), Holds::other, 0};
    entry.json.pop_back();
    describe(field, entry);
    listed.push_back(std::move(entry));
  }
  template <class T>
  static void describe(T&, ListedField& entry) {
    if constexpr (std::same_as<T, std::uint32_t> || std::same_as<T, std::optional<std::uint32_t>>)
      entry.holds = Holds::number32;
  }
  static void describe(Text<std::string>& field, ListedField& entry) {
    entry.holds = Holds::text;
    entry.most = field.most;
  }
  static void describe(ByteString<base::Bytes>& field, ListedField& entry) {
    entry.holds = Holds::bytes;
    entry.most = field.most;
  }
};

template <class Message>
std::vector<ListedField> list_fields() {
  Message message = filled<Message>(true).first;
  FieldLister lister;
  fields(lister, message);
  return lister.listed;
}

/// The text of a head with `kind` ("op":"lookup") first and field `which` replaced by `instead` ("" leaves it out).
inline std::string head_with(const std::string& kind, const std::vector<ListedField>& listed, std::size_t which,
                             const std::string& instead) {
  std::string head = "{" + kind;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const std::string& json = i == which ? instead : listed[i].json;
    if (json.empty()) continue;
    if (head.size() > 1) head += ',';
    head += "\"" + listed[i].name + "\":" + json;
  }
  return head + "}";
}

}  // namespace sandbar::wire
