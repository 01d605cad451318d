// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "filler.h"
#include "wire/codec.h"

namespace sandbar::wire {
namespace {

constexpr bool kBoth[] = {true, false};

/// What GoogleTest shows of an Error.
std::string said(const auto& result) { return result.ok() ? "ok" : result.error().message(); }

TEST(RoundTrip, ListsNameEveryField) {
  auto check = []<class Message>() { EXPECT_EQ(filled<Message>(true).second, arity<Message>()) << kWireName<Message>; };
  each_alternative<RequestBody>(check);
  each_alternative<ReplyBody>(check);
  EXPECT_EQ(filled<Hello>(true).second, arity<Hello>());
  EXPECT_EQ(filled<Limits>(true).second, arity<Limits>());
  EXPECT_EQ(filled<Goodbye>(true).second, arity<Goodbye>());
  EXPECT_EQ(filled<RequestContext>(true).second, arity<RequestContext>());
  EXPECT_EQ(filled<Spawn::After>(true).second, arity<Spawn::After>());
  // These two are arrays and have no list: the number of elements stands here for the readers of both archives.
  EXPECT_EQ(arity<Attributes>(), 15);
  EXPECT_EQ(arity<Caller>(), 4);
}

TEST(RoundTrip, EveryRequestFilled) {
  for (const bool utf8 : kBoth) {
    each_alternative<RequestBody>([&]<class Message>() {
      const Request request{filled<RequestContext>(utf8).first, filled<Message>(utf8).first};
      const base::Bytes head = encode_request(request);
      const auto back = decode_request(head);
      ASSERT_TRUE(back.ok()) << said(back) << "\n" << head;
      EXPECT_TRUE(*back == request) << head;
      EXPECT_EQ(encode_request(*back), head);
    });
  }
}

TEST(RoundTrip, EveryRequestAtItsDefaults) {
  each_alternative<RequestBody>([&]<class Message>() {
    const Request request{{}, Message{}};
    const base::Bytes head = encode_request(request);
    const auto back = decode_request(head);
    ASSERT_TRUE(back.ok()) << said(back) << "\n" << head;
    EXPECT_TRUE(*back == request) << head;
    EXPECT_EQ(head.find("caller"), base::Bytes::npos) << head;
  });
}

TEST(RoundTrip, EveryReply) {
  for (const bool utf8 : kBoth) {
    each_alternative<ReplyBody>([&]<class Message>() {
      for (const Reply& reply :
           {Reply{ChangeNumber(UINT64_MAX), filled<Message>(utf8).first}, Reply{ChangeNumber(), Message{}}}) {
        const base::Bytes head = encode_reply(reply);
        const auto back = decode_reply(head);
        ASSERT_TRUE(back.ok()) << said(back) << "\n" << head;
        EXPECT_TRUE(*back == reply) << head;
      }
    });
  }
}

TEST(RoundTrip, HelloAndGoodbye) {
  for (const bool utf8 : kBoth) {
    const Hello hello = filled<Hello>(utf8).first;
    const auto back = decode_hello(encode_hello(hello));
    ASSERT_TRUE(back.ok()) << said(back);
    EXPECT_TRUE(*back == hello);
  }
  Hello least;
  least.limits = {1, 1, 1, 1, 1};
  const auto hello = decode_hello(encode_hello(least));
  ASSERT_TRUE(hello.ok()) << said(hello);
  EXPECT_TRUE(*hello == least);

  const Goodbye goodbye{"protocol", "sent \xC3\xA4 wrong frame"};
  const auto back = decode_goodbye(encode_goodbye(goodbye));
  ASSERT_TRUE(back.ok()) << said(back);
  EXPECT_TRUE(*back == goodbye);
}

TEST(RoundTrip, Credit) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, UINT64_MAX}) {
    const auto back = decode_credit(encode_credit(bytes));
    ASSERT_TRUE(back.ok()) << said(back);
    EXPECT_EQ(*back, bytes);
  }
}

TEST(RoundTrip, NamesOfRequestsAreTheWires) {
  std::set<std::string> names;
  each_alternative<RequestBody>([&]<class Message>() {
    const Request request{{}, Message{}};
    const std::string name = request_name(request.body);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(encode_request(request).rfind("{\"op\":\"" + name + "\"", 0), 0U);
  });
  EXPECT_EQ(std::string(request_name(MakeDirectory{})), "make_directory");
}

// What is on the wire must not change by accident: these are sandbox-mux.7's examples.
TEST(RoundTrip, TextOfHeads) {
  Request lookup{{Caller{1000, 100, {4, 27}, 022}, {}, MutationNumber(7)}, Lookup{ObjectId(1), "a.txt", ObjectId(12)}};
  EXPECT_EQ(encode_request(lookup),
            R"({"op":"lookup","parent":1,"name":"a.txt","object":12,"caller":[1000,100,[4,27],18],"after":7})");
  Request odd{{}, Unlink{ObjectId(1), "\xFF"}};
  EXPECT_EQ(encode_request(odd), R"({"op":"unlink","parent":1,"name":{"b64":"/w=="}})");
  Attributes a{2049, 12, {1700000000, 5}, 0100644, 1, 1000, 100, 0, 3, 8, 4096, {1, 2}, {3, 4}, {-5, 6}, true};
  EXPECT_EQ(encode_reply({ChangeNumber(9), AttributesReply{a}}),
            R"({"is":"attributes","attributes":[2049,12,[1700000000,5],33188,1,1000,100,0,3,8,4096,)"
            R"([1,2],[3,4],[-5,6],true],"change":9})");
  EXPECT_EQ(encode_error(os_error(2, "open", "a.txt")), R"({"code":"os","errno":2,"message":"open: a.txt"})");
}

}  // namespace
}  // namespace sandbar::wire
