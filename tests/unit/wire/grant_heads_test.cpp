// SPDX-License-Identifier: Apache-2.0
#include "wire/grant_heads.h"

#include <gtest/gtest.h>

#include "wire/codec.h"

namespace sandbar::wire {
namespace {

GrantPayload payload() {
  GrantPayload all;
  all.kind = "port";
  all.sandbox = "box";
  all.port = 8080;
  all.subject = "me";
  all.uids = {{1, 2}};
  all.gids = {{3}};
  all.issued.seconds = 100;
  all.expires.seconds = 200;
  return all;
}

TEST(GrantPayload, ComesBack) {
  EXPECT_EQ(*decode_grant_payload(encode_grant_payload(payload())), payload());
  GrantPayload least;
  least.kind = "files";
  least.subject = "s";
  EXPECT_EQ(*decode_grant_payload(encode_grant_payload(least)), least);
  GrantPayload nobody = payload();
  nobody.uids = std::vector<std::uint32_t>();
  EXPECT_EQ(*decode_grant_payload(encode_grant_payload(nobody)), nobody);
}

TEST(GrantPayload, RefusesWrongFieldsByName) {
  const std::string good = R"({"kind":"files","subject":"s","issued":1,"expires":2)";
  EXPECT_TRUE(decode_grant_payload(good + "}").ok());
  EXPECT_TRUE(decode_grant_payload(good + R"(,"newer":[1]})").ok());
  for (const auto& [more, field] : {std::pair{R"(,"uids":[-1]})", "uids"},
                                    {R"(,"uids":7})", "uids"},
                                    {R"(,"gids":["a"]})", "gids"},
                                    {R"(,"port":"80"})", "port"},
                                    {R"(,"sandbox":1})", "sandbox"},
                                    {R"(,"kind":"files"})", "twice"}}) {
    const auto result = decode_grant_payload(good + more);
    ASSERT_FALSE(result.ok()) << more;
    EXPECT_EQ(result.error().code, Errc::protocol);
    EXPECT_NE(result.error().detail.find(field), std::string::npos) << result.error().detail;
  }
  for (const char* missing :
       {R"({"subject":"s","issued":1,"expires":2})", R"({"kind":"files","issued":1,"expires":2})",
        R"({"kind":"files","subject":"s","expires":2})", R"({"kind":"files","subject":"s","issued":1})", "", "[]", "{"})
    EXPECT_FALSE(decode_grant_payload(missing).ok()) << missing;
}

TEST(GrantPayload, IsBounded) {
  GrantPayload most = payload();
  most.subject = std::string(kMaxGrantName, 's');
  most.sandbox = std::string(kMaxGrantName, 'b');
  most.uids = std::vector<std::uint32_t>(kMaxGrantIds, 7);
  most.gids = most.uids;
  EXPECT_TRUE(decode_grant_payload(encode_grant_payload(most)).ok());
  for (auto beyond : {0, 1, 2, 3}) {
    GrantPayload more = most;
    if (beyond == 0) more.subject += "s";
    if (beyond == 1) more.sandbox += "b";
    if (beyond == 2) more.uids->push_back(7);
    if (beyond == 3) more.gids->push_back(7);
    EXPECT_FALSE(decode_grant_payload(encode_grant_payload(more)).ok()) << beyond;
  }
}

TEST(GrantAnswer, TakesTimesAsNumbersAndAsText) {
  const auto number = decode_grant_answer(R"({"url":"ws://a","token":"t","expires_at":1769860800})");
  ASSERT_TRUE(number.ok());
  EXPECT_EQ(number->url, "ws://a");
  EXPECT_EQ(number->token, "t");
  EXPECT_EQ(number->expires_at.seconds, 1769860800U);
  for (const char* text : {"2026-01-31T12:00:00Z", "2026-01-31t12:00:00z", "2026-01-31 12:00:00.999999Z",
                           "2026-01-31T14:00:00+02:00", "2026-01-31T06:30:00-05:30", "2026-01-31T11:59:60Z"}) {
    const auto answer = decode_grant_answer(R"({"token":"t","expires_at":")" + std::string(text) + R"("})");
    ASSERT_TRUE(answer.ok()) << text;
    EXPECT_EQ(answer->expires_at.seconds, 1769860800U) << text;
  }
}

TEST(GrantAnswer, RefusesWhatIsNoTime) {
  for (const char* time :
       {"-1", "1.5", "null", R"("")", R"("2026-01-31")", R"("2026-01-31T12:00:00")", R"("2026-02-30T12:00:00Z")",
        R"("2026-13-01T12:00:00Z")", R"("2026-01-31T24:00:00Z")", R"("2026-01-31T12:60:00Z")",
        R"("1969-12-31T23:59:59Z")", R"("2026-01-31T12:00:00.Z")", R"("2026-01-31T12:00:00Z ")",
        R"("2026-01-31T12:00:00+2:00")", R"("2026-01-31T12:00:00+24:00")"})
    EXPECT_FALSE(decode_grant_answer(R"({"token":"t","expires_at":)" + std::string(time) + "}").ok()) << time;
}

TEST(GrantAnswer, NamesTheFieldAndNeverTheToken) {
  const auto answer = decode_grant_answer(R"({"token":"s3cret","expires_at":"s3cret"})");
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.error().message().find("expires_at"), std::string::npos);
  EXPECT_EQ(answer.error().message().find("s3cret"), std::string::npos);
  EXPECT_FALSE(decode_grant_answer(R"({"expires_at":1})").ok());
  EXPECT_FALSE(decode_grant_answer(R"({"token":"t"})").ok());
}

TEST(GrantAnswer, IsBounded) {
  const auto of = [](std::size_t token, std::size_t url) {
    GrantAnswer answer;
    answer.token = std::string(token, 't');
    answer.url = std::string(url, 'u');
    return decode_grant_answer(encode_grant_answer(answer)).ok();
  };
  EXPECT_TRUE(of(kMaxToken, kMaxUrl));
  EXPECT_FALSE(of(kMaxToken + 1, 1));
  EXPECT_FALSE(of(1, kMaxUrl + 1));
  const std::string good = R"({"token":"t","expires_at":1})";
  EXPECT_TRUE(decode_grant_answer(good + std::string(kMaxGrantAnswer - good.size(), ' ')).ok());
  EXPECT_FALSE(decode_grant_answer(good + std::string(kMaxGrantAnswer - good.size() + 1, ' ')).ok());
}

TEST(GrantAnswer, TheCachesComesBack) {
  GrantAnswer answer{"ws://a", "t", {5}, {4}};
  EXPECT_EQ(*decode_grant_answer(encode_grant_answer(answer)), answer);
}

TEST(Authorize, RefusesATokenThatIsTooLong) {
  const auto of = [](std::size_t size) {
    return decode_request(encode_request({{}, Authorize{std::string(size, 't')}})).ok();
  };
  EXPECT_TRUE(of(kMaxToken));
  EXPECT_FALSE(of(kMaxToken + 1));
}

}  // namespace
}  // namespace sandbar::wire
