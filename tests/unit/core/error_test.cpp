#include "samerun/core/error.h"

#include <gtest/gtest.h>

namespace samerun {
namespace {

TEST(ErrorTest, MessageStandsAloneWithoutContextAndRank) {
  const Error error(ErrorCode::kConfig, "The port is taken");
  EXPECT_STREQ(error.what(), "The port is taken");
  EXPECT_EQ(error.code(), ErrorCode::kConfig);
  EXPECT_EQ(error.rank(), -1);
  EXPECT_TRUE(error.context().empty());
}

TEST(ErrorTest, ContextAndRankFollowTheMessage) {
  const Error error(ErrorCode::kTimeout, "No answer", {{"seconds", "30"}, {"host", "b"}}, 2);
  EXPECT_STREQ(error.what(), "No answer (host=b, seconds=30) [rank 2]");
  EXPECT_EQ(error.context().at("host"), "b");
  EXPECT_EQ(error.rank(), 2);
}

TEST(ErrorTest, RankZeroIsARank) {
  EXPECT_STREQ(Error(ErrorCode::kLaunch, "Gone", {}, 0).what(), "Gone [rank 0]");
}

TEST(ErrorTest, ForeignMessagesOfManyLinesBecomeOne) {
  const Error error(ErrorCode::kTorch, "shapes differ\n  at frame 0\r\n\tat frame 1\n", {{"text", "a\nb"}});
  EXPECT_STREQ(error.what(), "shapes differ at frame 0 at frame 1 (text=a b)");
  EXPECT_EQ(error.context().at("text"), "a\nb");
}

TEST(ErrorTest, TextBeyondAsciiIsKept) {
  EXPECT_STREQ(Error(ErrorCode::kConfig, "no file \xc3\xa4").what(), "no file \xc3\xa4");
}

TEST(ErrorTest, EveryCodeHasItsWord) {
  EXPECT_EQ(to_string(ErrorCode::kInvalidArgument), "invalid_argument");
  EXPECT_EQ(to_string(ErrorCode::kConfig), "config");
  EXPECT_EQ(to_string(ErrorCode::kLaunch), "launch");
  EXPECT_EQ(to_string(ErrorCode::kRendezvous), "rendezvous");
  EXPECT_EQ(to_string(ErrorCode::kCommunication), "communication");
  EXPECT_EQ(to_string(ErrorCode::kTimeout), "timeout");
  EXPECT_EQ(to_string(ErrorCode::kCheckpoint), "checkpoint");
  EXPECT_EQ(to_string(ErrorCode::kStorage), "storage");
  EXPECT_EQ(to_string(ErrorCode::kCorruption), "corruption");
  EXPECT_EQ(to_string(ErrorCode::kTorch), "torch");
  EXPECT_EQ(to_string(ErrorCode::kInternal), "internal");
}

}  // namespace
}  // namespace samerun
