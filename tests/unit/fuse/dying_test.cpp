// SPDX-License-Identifier: Apache-2.0
#include "fuse/dying.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace sandbar::fuse {
namespace {

std::string mask(int signal) {
  std::string text(16, '0');
  const unsigned bit = static_cast<unsigned>(signal) - 1;
  text[15 - bit / 4] = "1248"[bit % 4];
  return text;
}

std::string status(const std::string& thread, const std::string& process, const std::string& blocked,
                   const std::string& ignored, const std::string& caught) {
  return "Name:\tcat\nState:\tD (disk sleep)\nSigQ:\t1/62818\nSigPnd:\t" + thread + "\nShdPnd:\t" + process +
         "\nSigBlk:\t" + blocked + "\nSigIgn:\t" + ignored + "\nSigCgt:\t" + caught + "\nCapInh:\t0\n";
}

const std::string kNone(16, '0');
const std::string kAll(16, 'f');

TEST(StatusShowsDying, NothingPending) { EXPECT_FALSE(status_shows_dying(status(kNone, kNone, kNone, kNone, kNone))); }

TEST(StatusShowsDying, KillWhateverTheMasksSay) {
  EXPECT_TRUE(status_shows_dying(status(mask(SIGKILL), kNone, kAll, kAll, kAll)));
  EXPECT_TRUE(status_shows_dying(status(kNone, mask(SIGKILL), kAll, kAll, kAll)));
}

TEST(StatusShowsDying, AFatalSignalThatNobodyCatches) {
  EXPECT_TRUE(status_shows_dying(status(kNone, mask(SIGQUIT), kNone, kNone, kNone)));
  EXPECT_FALSE(status_shows_dying(status(kNone, mask(SIGQUIT), kNone, kNone, mask(SIGQUIT))));
  EXPECT_FALSE(status_shows_dying(status(kNone, mask(SIGQUIT), kNone, mask(SIGQUIT), kNone)));
  EXPECT_FALSE(status_shows_dying(status(kNone, mask(SIGQUIT), mask(SIGQUIT), kNone, kNone)));
}

TEST(StatusShowsDying, SignalsThatKillNobody) {
  for (const int signal : {SIGCHLD, SIGURG, SIGWINCH, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU})
    EXPECT_FALSE(status_shows_dying(status(mask(signal), kNone, kNone, kNone, kNone))) << signal;
}

TEST(StatusShowsDying, AnythingElse) {
  EXPECT_FALSE(status_shows_dying(""));
  EXPECT_FALSE(status_shows_dying("SigPnd:\nShdPnd:\tzz\n"));
}

TEST(IsDying, KnowsTheLivingFromTheDead) {
  EXPECT_FALSE(is_dying(::getpid()));
  EXPECT_FALSE(is_dying(0)) << "of another pid namespace: not known";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(is_dying(child));
}

TEST(IsDying, SeesAPendingKill) {
  // A stopped process keeps a signal pending until it goes on; SIGKILL alone would end it, so this is one that waits.
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  ::kill(child, SIGSTOP);
  int state = 0;
  ::waitpid(child, &state, WUNTRACED);
  EXPECT_FALSE(is_dying(child));
  ::kill(child, SIGUSR1);
  EXPECT_TRUE(is_dying(child));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace sandbar::fuse
