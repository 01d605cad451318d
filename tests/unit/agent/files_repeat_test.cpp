// SPDX-License-Identifier: Apache-2.0
// Mutations whose numbers come again, in the same session and in another one.
#include <sys/xattr.h>

#include <functional>

#include "unit/agent/answers.h"

namespace sandbar::agent {
namespace {

class RepeatTest : public FilesTest {
 protected:
  /// Another session of the same client.
  void reconnect() {
    service.core.reset();
    service.core =
        std::make_shared<FileCore>(service.loop, service.root(), service.pool(), service.journals, "journal");
    root = service.attach();
  }
  wire::ObjectId root = service.attach();
};

/// A mutation: how its names come about, what is sent, how a hand undoes it, so that a second execution would show.
struct Case {
  const char* name;
  std::function<void(RepeatTest&, Service&, TempTree&)> prepare;
  std::function<wire::RequestBody(Service&, wire::ObjectId root, wire::ObjectId file, wire::HandleId handle)> request;
  std::function<void(TempTree&)> undo;
  std::function<bool(TempTree&)> is_undone;
};

const auto kNothing = [](RepeatTest&, Service&, TempTree&) {};
const auto kRewriteFile = [](TempTree& tree) { tree.write("file", "as it was"); };
const auto kFileIsRewritten = [](TempTree& tree) { return tree.read("file") == "as it was"; };

std::vector<Case> cases() {
  using wire::HandleId, wire::ObjectId;
  const auto gone = [](const char* name) { return [name](TempTree& tree) { return !tree.exists(name); }; };
  const auto there = [](const char* name) { return [name](TempTree& tree) { return tree.exists(name); }; };
  const auto remove = [](const char* name) {
    return [name](TempTree& tree) { std::filesystem::remove(tree.path(name)); };
  };
  const auto make = [](const char* name) { return [name](TempTree& tree) { tree.write(name, ""); }; };
  return {
      {"set_attributes", kNothing,
       [](Service&, ObjectId, ObjectId file, HandleId) -> wire::RequestBody {
         wire::SetAttributes request;
         request.object = file;
         request.size = 2;
         return request;
       },
       kRewriteFile, kFileIsRewritten},
      {"make_directory", kNothing,
       [](Service& s, ObjectId root, ObjectId, HandleId) -> wire::RequestBody {
         return wire::MakeDirectory{root, "made", 0755, s.new_object()};
       },
       remove("made"), gone("made")},
      {"make_node", kNothing,
       [](Service& s, ObjectId root, ObjectId, HandleId) -> wire::RequestBody {
         return wire::MakeNode{root, "made", S_IFIFO | 0644, 0, s.new_object()};
       },
       remove("made"), gone("made")},
      {"make_symlink", kNothing,
       [](Service& s, ObjectId root, ObjectId, HandleId) -> wire::RequestBody {
         return wire::MakeSymlink{root, "made", "target", s.new_object()};
       },
       remove("made"), gone("made")},
      {"make_link", kNothing,
       [](Service&, ObjectId root, ObjectId file, HandleId) -> wire::RequestBody {
         return wire::MakeLink{file, root, "made"};
       },
       remove("made"), gone("made")},
      {"unlink", kNothing,
       [](Service&, ObjectId root, ObjectId, HandleId) -> wire::RequestBody {
         return wire::Unlink{root, "victim"};
       },
       make("victim"), there("victim")},
      {"remove_directory", kNothing,
       [](Service&, ObjectId root, ObjectId, HandleId) -> wire::RequestBody {
         return wire::RemoveDirectory{root, "empty"};
       },
       [](TempTree& tree) { std::filesystem::create_directory(tree.path("empty")); }, there("empty")},
      {"rename", kNothing,
       [](Service&, ObjectId root, ObjectId, HandleId) -> wire::RequestBody {
         return wire::Rename{root, "victim", root, "made", 0};
       },
       make("victim"), there("victim")},
      {"open", kNothing,
       [](Service& s, ObjectId, ObjectId file, HandleId) -> wire::RequestBody {
         return wire::Open{file, s.new_handle(), O_RDWR | O_TRUNC};
       },
       kRewriteFile, kFileIsRewritten},
      {"create", kNothing,
       [](Service& s, ObjectId root, ObjectId, HandleId) -> wire::RequestBody {
         return wire::Create{root, "made", 0644, O_RDWR | O_EXCL, s.new_object(), s.new_handle()};
       },
       remove("made"), gone("made")},
      {"write", kNothing,
       [](Service&, ObjectId, ObjectId, HandleId handle) -> wire::RequestBody {
         return wire::Write{handle, 1};
       },
       kRewriteFile, kFileIsRewritten},
      {"append", kNothing,
       [](Service&, ObjectId, ObjectId, HandleId handle) -> wire::RequestBody {
         return wire::Write{handle, 0, true};
       },
       kRewriteFile, kFileIsRewritten},
      {"set_xattr", kNothing,
       [](Service&, ObjectId, ObjectId file, HandleId) -> wire::RequestBody {
         return wire::SetXattr{file, "user.x", 0};
       },
       [](TempTree& tree) { ::removexattr(tree.path("file").c_str(), "user.x"); },
       [](TempTree& tree) { return ::getxattr(tree.path("file").c_str(), "user.x", nullptr, 0) < 0; }},
      {"remove_xattr",
       [](RepeatTest&, Service&, TempTree& tree) { ::setxattr(tree.path("file").c_str(), "user.y", "v", 1, 0); },
       [](Service&, ObjectId, ObjectId file, HandleId) -> wire::RequestBody {
         return wire::RemoveXattr{file, "user.y"};
       },
       [](TempTree& tree) { ::setxattr(tree.path("file").c_str(), "user.y", "v", 1, 0); },
       // A file system without them refuses all of it.
       [](TempTree& tree) {
         return ::getxattr(tree.path("file").c_str(), "user.y", nullptr, 0) == 1 || errno == EOPNOTSUPP;
       }},
      {"allocate", kNothing,
       [](Service&, ObjectId, ObjectId, HandleId handle) -> wire::RequestBody {
         return wire::Allocate{handle, 0, 0, 5000};
       },
       kRewriteFile, kFileIsRewritten},
      {"copy_range", kNothing,
       [](Service& s, ObjectId root, ObjectId, HandleId handle) -> wire::RequestBody {
         return wire::CopyRange{s.open(s.lookup(root, "victim")), 0, handle, 0, 4};
       },
       kRewriteFile, kFileIsRewritten},
  };
}

// No kind is executed twice, and each is answered the same, whatever has become of its effect.
TEST_F(RepeatTest, NoMutationIsExecutedTwice) {
  std::uint64_t number = 0;
  std::size_t kinds = 0;
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    std::filesystem::remove(tree.path("made"));
    tree.write("file", "as it was");
    tree.write("victim", "victim");
    std::filesystem::create_directory(tree.path("empty"));
    one.prepare(*this, service, tree);
    const auto send = [&] {
      const wire::ObjectId file = service.lookup(root, "file");
      const wire::HandleId handle = service.open(file, O_RDWR);
      return service.send(one.request(service, root, file, handle), mutation(number), "DATA");
    };
    ++number;
    const auto first = send();
    const std::string answer = text_of(service.wait(first));
    EXPECT_EQ(std::string::npos, answer.find("\"code\":\"unknown\""));
    one.undo(tree);
    ASSERT_TRUE(one.is_undone(tree));
    EXPECT_EQ(answer, text_of(service.wait(send()))) << "in the same session";
    reconnect();
    tree.write("victim2", "");
    std::filesystem::rename(tree.path("victim2"), tree.path("victim"));
    EXPECT_EQ(answer, text_of(service.wait(send()))) << "in another session";
    EXPECT_TRUE(one.is_undone(tree));
    kinds += std::string(one.name) != "append";
  }
  // Each request that is a mutation has its row: Open only with O_TRUNC, Write in two forms.
  std::size_t mutations = 0;
  const auto count = [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto is_one = []<class R>(R request) {
      if constexpr (std::is_same_v<R, wire::Open>) request.flags = O_TRUNC;
      return wire::is_mutation(request);
    };
    mutations = (static_cast<std::size_t>(is_one(std::variant_alternative_t<I, wire::RequestBody>{})) + ...);
  };
  count(std::make_index_sequence<std::variant_size_v<wire::RequestBody>>{});
  EXPECT_EQ(mutations, kinds);
}

TEST_F(RepeatTest, ErrorsAreRepeatedAndSoAreTheirIds) {
  const auto ask = [&](std::uint64_t object) {
    return service.ask(wire::MakeDirectory{root, "no/name", 0755, wire::ObjectId(object)}, mutation(1));
  };
  const std::string answer = text_of(ask(80));
  reconnect();
  EXPECT_EQ(answer, text_of(ask(81)));
  EXPECT_EQ(EINVAL, service.error_of(wire::GetAttributes{wire::ObjectId(81), {}}));
}

TEST_F(RepeatTest, ARepeatBindsItsIdsInItsSession) {
  const auto make = [&](std::uint64_t id) {
    return service.send(wire::MakeDirectory{root, "dir", 0755, wire::ObjectId(id)}, mutation(1));
  };
  const auto create = [&](std::uint64_t id) {
    return service.send(wire::Create{wire::ObjectId(id), "file", 0644, O_RDWR | O_EXCL | O_TRUNC,
                                     wire::ObjectId(id + 1), wire::HandleId(id + 1)},
                        mutation(2));
  };
  make(80);
  create(80);
  EXPECT_TRUE(service.ask(wire::Write{wire::HandleId(81), 0}, mutation(3), "data"));
  reconnect();
  // Without waiting for one another, as a client sends them again.
  const auto made = make(90);
  const auto created = create(90);
  const auto read = service.send(wire::Read{wire::HandleId(91), 0, 100});
  const auto write = service.send(wire::Write{wire::HandleId(91), 4}, mutation(4), " more");
  EXPECT_TRUE(service.wait(made));
  EXPECT_TRUE(service.wait(created));
  // Opened again, and not truncated. The write may come before the read: they are done side by side.
  EXPECT_EQ("data", service.wait(read)->body.substr(0, 4));
  EXPECT_TRUE(service.wait(write));
  EXPECT_EQ("data more", tree.read("dir/file"));
  EXPECT_EQ(0, service.error_of(wire::GetAttributes{wire::ObjectId(91), {}}));
  EXPECT_EQ(0, service.error_of(wire::Close{wire::HandleId(91)}));
}

TEST_F(RepeatTest, ATruncatingOpenBindsItsHandleWithoutTruncating) {
  tree.write("file", "old");
  const auto open = [&](std::uint64_t id) {
    return service.ask(wire::Open{service.lookup(root, "file"), wire::HandleId(id), O_RDWR | O_TRUNC}, mutation(1));
  };
  EXPECT_TRUE(open(80));
  EXPECT_EQ("", tree.read("file"));
  tree.write("file", "new");
  reconnect();
  EXPECT_TRUE(open(81));
  EXPECT_EQ("new", service.read(wire::HandleId(81)));
  // Another file meanwhile.
  std::filesystem::rename(tree.path("file"), tree.path("kept"));
  tree.write("file", "other");
  reconnect();
  EXPECT_TRUE(open(82));
  EXPECT_EQ(ESTALE, service.error_of(wire::Read{wire::HandleId(82), 0, 1}));
  EXPECT_EQ("other", tree.read("file"));
}

TEST_F(RepeatTest, IdsOfWhatIsAnotherNowAreStale) {
  const auto create = [&](std::uint64_t id) {
    return service.ask(wire::Create{root, "file", 0644, O_RDWR, wire::ObjectId(id), wire::HandleId(id)}, mutation(1));
  };
  const auto link = [&](std::uint64_t id) {
    return service.ask(wire::MakeSymlink{root, "link", "x", wire::ObjectId(id)}, mutation(2));
  };
  const std::string created = text_of(create(80));
  const std::string linked = text_of(link(90));
  // The old ones live on, so that nobody gets their inode numbers.
  std::filesystem::rename(tree.path("file"), tree.path("kept"));
  std::filesystem::rename(tree.path("link"), tree.path("kept too"));
  tree.write("file", "another");
  reconnect();
  EXPECT_EQ(created, text_of(create(81)));
  EXPECT_EQ(linked, text_of(link(91)));
  EXPECT_EQ(ESTALE, service.error_of(wire::GetAttributes{wire::ObjectId(81), {}}));
  EXPECT_EQ(ESTALE, service.error_of(wire::Read{wire::HandleId(81), 0, 1}));
  EXPECT_EQ(ESTALE, service.error_of(wire::GetAttributes{wire::ObjectId(91), {}}));
  EXPECT_EQ("another", tree.read("file"));
}

TEST_F(RepeatTest, ARepeatThatIsAnotherRequestOrHasBadIds) {
  EXPECT_TRUE(service.ask(wire::Write{service.open(service.create(root, "file").first, O_RDWR), 0}, mutation(1), "x"));
  EXPECT_EQ(Errc::protocol,
            code_of(service.ask(wire::MakeDirectory{root, "d", 0755, wire::ObjectId(80)}, mutation(1))));
  EXPECT_FALSE(tree.exists("d"));
  EXPECT_TRUE(service.ask(wire::MakeDirectory{root, "d", 0755, wire::ObjectId(81)}, mutation(2)));
  EXPECT_EQ(Errc::protocol, code_of(service.ask(wire::MakeDirectory{root, "d", 0755, wire::ObjectId(81)}, mutation(2))))
      << "the id is in use";
  // Names that are not there (any more) do not matter to an answer, but what they lead to cannot be bound.
  EXPECT_TRUE(service.ask(wire::Write{wire::HandleId(999), 0}, mutation(1), "x"));
  EXPECT_TRUE(service.ask(wire::MakeDirectory{wire::ObjectId(999), "d", 0755, wire::ObjectId(82)}, mutation(2)));
  EXPECT_EQ(ESTALE, service.error_of(wire::GetAttributes{wire::ObjectId(82), {}}));
}

TEST_F(RepeatTest, OnlyMutationsHaveNumbers) {
  EXPECT_EQ(Errc::protocol, code_of(service.ask(wire::GetAttributes{root, {}}, mutation(1))));
  EXPECT_EQ(Errc::protocol, code_of(service.ask(wire::Release{{root}}, mutation(2))));
  EXPECT_EQ(0, service.error_of(wire::GetAttributes{root, {}}));
  EXPECT_TRUE(service.ask(wire::MakeDirectory{root, "d", 0755, wire::ObjectId(80)}, mutation(3)));
}

TEST_F(RepeatTest, ARepeatOfWhatAnotherSessionExecutesGetsItsResult) {
  // The first waits for an id that nobody binds; then its session ends, and the second executes it.
  auto other = std::make_shared<FileCore>(service.loop, service.root(), service.pool(), service.journals, "journal");
  other.swap(service.core);
  const wire::ObjectId root_there = service.attach();
  const auto second = service.send(wire::MakeDirectory{root_there, "d", 0755, wire::ObjectId(80)}, mutation(2));
  const auto again = service.send(wire::MakeDirectory{root_there, "d", 0755, wire::ObjectId(81)}, mutation(2));
  EXPECT_TRUE(service.ask(wire::MakeDirectory{root_there, "c", 0755, wire::ObjectId(82)}, mutation(1)));
  EXPECT_TRUE(service.wait(second));
  EXPECT_EQ(text_of(service.wait(second)), text_of(service.wait(again)));
  EXPECT_EQ(0, service.error_of(wire::GetAttributes{wire::ObjectId(81), {}}));

  const auto never = service.send(wire::MakeDirectory{root_there, "never", 0755, wire::ObjectId(500)}, mutation(6));
  const auto waits = service.send(wire::Unlink{wire::ObjectId(500), "c"}, mutation(4));
  other.swap(service.core);
  const auto repeated = service.send(wire::RemoveDirectory{root, "c"}, mutation(4));
  EXPECT_TRUE(service.ask(wire::RemoveDirectory{root, "d"}, mutation(3)));
  other.reset();
  EXPECT_EQ(Errc::cancelled, code_of(service.wait(waits)));
  EXPECT_EQ(R"({"is":"empty"})", text_of(service.wait(repeated)));
  EXPECT_FALSE(tree.exists("c"));
  EXPECT_EQ(4U, service.journals.last_finished("journal").value);
}

TEST_F(RepeatTest, ASessionThatEndsLeavesItsNumbersToTheNext) {
  // Its turn has come, and it waits for an id.
  const auto turn_of = [&](std::uint64_t n) { return service.journals.last_begun("journal").value == n; };
  const auto never = service.send(wire::MakeDirectory{root, "never", 0755, wire::ObjectId(70)}, mutation(3));
  const auto lost = service.send(wire::Unlink{wire::ObjectId(70), "x"}, mutation(1));
  ASSERT_TRUE(service.loop.run_until([&] { return turn_of(1); }));
  EXPECT_EQ(0, service.error_of(wire::GetAttributes{root, {}}));
  EXPECT_FALSE(lost->answer);
  reconnect();
  tree.write("x", "");
  EXPECT_TRUE(service.ask(wire::Unlink{root, "x"}, mutation(1)));
  EXPECT_FALSE(tree.exists("x"));
  EXPECT_EQ(Errc::cancelled, code_of(service.wait(lost)));
}

}  // namespace
}  // namespace sandbar::agent
