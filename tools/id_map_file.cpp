// SPDX-License-Identifier: Apache-2.0
#include "id_map_file.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "base/read_file.h"
#include "base/text.h"

namespace sandbar::tools {
namespace {

/// uid_t's (and gid_t's) largest; the next one means "no change" in chown(2).
constexpr std::uint32_t kLargestId = 0xfffffffe;
constexpr std::string_view kBlanks = " \t\r";

/// A range and where it stands.
struct Entry {
  vfs::IdRange range;
  std::size_t line = 0;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  for (std::size_t at = line.find_first_not_of(kBlanks); at != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

bool is_number(std::string_view word) { return word.find_first_not_of("0123456789") == word.npos; }

std::optional<std::uint32_t> number(std::string_view word, std::uint32_t most = kLargestId) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value > most) return std::nullopt;
  return value;
}

class Parser {
 public:
  Parser(const std::string& file, const LocalNames& names) : file_(file), names_(names) {}

  Result<IdMapFile> parse(std::string_view text) {
    if (text.size() > IdMapFile::kMaxSize)
      return make_error(Errc::invalid, base::printable(file_),
                        "it is larger than " + std::to_string(IdMapFile::kMaxSize) + " bytes");
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ++line_;
      if (line_ > IdMapFile::kMaxLines)
        return wrong("more than " + std::to_string(IdMapFile::kMaxLines) + " lines are not taken");
      if (auto taken = take(words_of(text.substr(0, end))); !taken) return std::move(taken).error();
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    IdMapFile map;
    for (const auto& [entries, ranges] : {std::pair{&uids_, &map.uids}, std::pair{&gids_, &map.gids}}) {
      for (const auto side : {&vfs::IdRange::local, &vfs::IdRange::remote})
        if (auto apart = check_overlap(*entries, side); !apart) return std::move(apart).error();
      for (const Entry& entry : *entries) ranges->push_back(entry.range);
    }
    return map;
  }

 private:
  [[nodiscard]] Error wrong(const std::string& reason) const {
    return make_error(Errc::invalid, base::printable(file_) + ":" + std::to_string(line_), reason);
  }

  Result<void> take(const std::vector<std::string_view>& words) {
    if (words.empty()) return {};
    const bool users = words[0] == "uid";
    if (!users && words[0] != "gid") return wrong("expected uid or gid, not " + base::printable(std::string(words[0])));
    if (words.size() < 3 || words.size() > 4)
      return wrong("expected " + std::string(words[0]) + " LOCAL REMOTE [COUNT]");
    Entry entry{{}, line_};
    if (auto taken = take_local(users, words[1], entry.range.local); !taken) return taken;
    const auto remote = number(words[2]);
    if (!remote)
      return wrong("REMOTE " + base::printable(std::string(words[2])) + " is not a number between 0 and 4294967294");
    entry.range.remote = *remote;
    entry.range.count = 1;
    if (words.size() == 4) {
      const auto count = number(words[3], kLargestId + 1);
      const std::uint32_t room = kLargestId - std::max(entry.range.local, entry.range.remote);
      if (!count || *count == 0 || *count - 1 > room)
        return wrong("COUNT " + base::printable(std::string(words[3])) +
                     " is not a number from 1 on with which the range ends at 4294967294 or before");
      entry.range.count = *count;
    }
    (users ? uids_ : gids_).push_back(entry);
    return {};
  }

  Result<void> take_local(bool users, std::string_view word, std::uint32_t& local) const {
    const std::string name(word);
    const auto id = is_number(word) ? number(word) : users ? names_.uid(name) : names_.gid(name);
    if (!id && is_number(word)) return wrong("LOCAL " + name + " is not between 0 and 4294967294");
    if (!id) return wrong("there is no " + std::string(users ? "user " : "group ") + base::printable(name) + " here");
    local = *id;
    return {};
  }

  Result<void> check_overlap(std::vector<Entry> entries, std::uint32_t vfs::IdRange::*side) {
    std::sort(entries.begin(), entries.end(),
              [&](const Entry& a, const Entry& b) { return a.range.*side < b.range.*side; });
    for (std::size_t i = 1; i < entries.size(); ++i) {
      const Entry& before = entries[i - 1];
      const Entry& here = entries[i];
      if (here.range.*side - before.range.*side >= before.range.count) continue;
      line_ = std::max(before.line, here.line);
      return wrong(std::string(side == &vfs::IdRange::local ? "LOCAL" : "REMOTE") + " overlaps that of line " +
                   std::to_string(std::min(before.line, here.line)));
    }
    return {};
  }

  const std::string& file_;
  const LocalNames& names_;
  std::size_t line_ = 0;
  std::vector<Entry> uids_;
  std::vector<Entry> gids_;
};

/// Before threads start.
class SystemNames final : public LocalNames {
 public:
  [[nodiscard]] std::optional<std::uint32_t> uid(const std::string& name) const override {
    const passwd* found = ::getpwnam(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    return found == nullptr ? std::nullopt : std::optional<std::uint32_t>(found->pw_uid);
  }
  [[nodiscard]] std::optional<std::uint32_t> gid(const std::string& name) const override {
    const group* found = ::getgrnam(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    return found == nullptr ? std::nullopt : std::optional<std::uint32_t>(found->gr_gid);
  }
};

}  // namespace

Result<IdMapFile> parse_id_map(std::string_view text, const std::string& file, const LocalNames& names) {
  return Parser(file, names).parse(text);
}

Result<IdMapFile> read_id_map(const std::string& file) {
  const std::string operation = "read map file " + base::printable(file);
  const auto fd = base::open_regular(file, "it is not a regular file", operation);
  if (!fd) return fd.error();
  const auto text = base::read_up_to(fd->get(), IdMapFile::kMaxSize, operation);
  if (!text) return text.error();
  return parse_id_map(*text, file, SystemNames());
}

}  // namespace sandbar::tools
