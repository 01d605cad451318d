// SPDX-License-Identifier: Apache-2.0
#include "cli/app.h"

#include <gtest/gtest.h>

#include <sstream>

namespace sandbar::cli {
namespace {

/// A tool like sandbox-mount, and what it said.
struct MountLike {
  MountLike() : app({.program = "sandbox-mount", .summary = "Mounts."}) {
    app.argument("TARGET", target, "which sandbox").argument("DIR", dir, "where");
    app.option("-o", options, "OPT[,OPT...]", "mount options").flag("-f,--foreground", foreground, "stay");
    app.option("--token-file", token_file, "FILE", "the token");
    app.number("--rows", rows, "N", "rows", 1, 65535);
    app.choice("--output", output, {"text", "json"}, "the form");
  }

  std::optional<int> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "/usr/bin/sandbox-mount");
    return app.parse(static_cast<int>(words.size()), words.data(), Io{in, out, err});
  }

  std::string target;
  std::string dir;
  std::vector<std::string> options;
  bool foreground = false;
  std::optional<std::string> token_file;
  std::uint64_t rows = 24;
  std::string output = "text";
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  App app;
};

TEST(App, TakesOptionsBeforeBetweenAndAfterArguments) {
  MountLike tool;
  ASSERT_EQ(tool.parse({"-o", "a,b", "ws://h", "--token-file=t", "dir", "-o", "c", "-f"}), std::nullopt);
  EXPECT_EQ(tool.target, "ws://h");
  EXPECT_EQ(tool.dir, "dir");
  EXPECT_EQ(tool.options, (std::vector<std::string>{"a,b", "c"}));
  EXPECT_EQ(tool.token_file, "t");
  EXPECT_TRUE(tool.foreground);
  EXPECT_EQ(tool.err.str(), "");
}

TEST(App, LeavesAloneWhatIsNotGiven) {
  MountLike tool;
  ASSERT_EQ(tool.parse({"t", "d"}), std::nullopt);
  EXPECT_FALSE(tool.foreground);
  EXPECT_EQ(tool.token_file, std::nullopt);
  EXPECT_EQ(tool.rows, 24U);
  EXPECT_TRUE(tool.options.empty());
}

TEST(App, TakesValuesAsTheyAre) {
  MountLike tool;
  ASSERT_EQ(tool.parse({"t", "-", "--token-file=", "-o", "[a,b]", "-o", "-x", "-o", "", "-o", "%%"}), std::nullopt);
  EXPECT_EQ(tool.dir, "-") << "a dash alone is an argument";
  EXPECT_EQ(tool.token_file, "");
  EXPECT_EQ(tool.options, (std::vector<std::string>{"[a,b]", "-x", "", "%%"}));
}

TEST(App, TheLastOfASingleOptionCounts) {
  MountLike tool;
  ASSERT_EQ(tool.parse({"t", "d", "--token-file", "a", "--token-file", "b", "-f", "-f"}), std::nullopt);
  EXPECT_EQ(tool.token_file, "b");
}

TEST(App, WordsAfterDashesAreArguments) {
  MountLike tool;
  ASSERT_EQ(tool.parse({"t", "--", "-odd"}), std::nullopt);
  EXPECT_EQ(tool.dir, "-odd");
}

TEST(App, UnknownOptionNamesTheNearestAndShowsTheLine) {
  MountLike tool;
  EXPECT_EQ(tool.parse({"--tokenfile=my f", "t", "d"}), 2);
  EXPECT_EQ(tool.err.str(),
            "sandbox-mount: unknown option --tokenfile; did you mean --token-file?\n"
            "  sandbox-mount '--token-file=my f' t d\n");
}

TEST(App, UnknownOptionWithNothingNearPointsToHelp) {
  MountLike tool;
  EXPECT_EQ(tool.parse({"t", "d", "--recursive"}), 2);
  EXPECT_EQ(tool.err.str(), "sandbox-mount: unknown option --recursive\n  see: sandbox-mount --help\n");
}

TEST(App, LongOptionWithOneDashIsUnderstood) {
  MountLike tool;
  EXPECT_EQ(tool.parse({"t", "d", "-token-file", "x"}), 2);
  EXPECT_EQ(tool.err.str(),
            "sandbox-mount: unknown option -token-file; did you mean --token-file?\n"
            "  sandbox-mount t d --token-file x\n");
}

TEST(App, MissingValueIsNamed) {
  MountLike tool;
  EXPECT_EQ(tool.parse({"t", "d", "--token-file"}), 2);
  EXPECT_EQ(tool.err.str(), "sandbox-mount: --token-file needs a value\n  sandbox-mount t d --token-file FILE\n");
}

TEST(App, FlagTakesNoValue) {
  MountLike tool;
  EXPECT_EQ(tool.parse({"t", "d", "--foreground=no"}), 2);
  EXPECT_EQ(tool.err.str(), "sandbox-mount: --foreground takes no value\n  sandbox-mount t d --foreground\n");
}

TEST(App, MissingArgumentShowsTheUsage) {
  MountLike tool;
  EXPECT_EQ(tool.parse({"t", "-f"}), 2);
  EXPECT_EQ(tool.err.str(), "sandbox-mount: DIR is missing\n  sandbox-mount [options] TARGET DIR\n");
}

TEST(App, OneArgumentTooManyIsLeftOut) {
  MountLike tool;
  EXPECT_EQ(tool.parse({"t", "d", "e\x1b"}), 2);
  EXPECT_EQ(tool.err.str(), "sandbox-mount: 'e\\x1b' is one argument too many\n  sandbox-mount t d\n");
}

TEST(App, NumbersAreBoundedAtTheBound) {
  for (const auto* good : {"1", "65535"}) {
    MountLike tool;
    EXPECT_EQ(tool.parse({"t", "d", "--rows", good}), std::nullopt) << good;
    EXPECT_EQ(std::to_string(tool.rows), good);
  }
  for (const auto* bad : {"0", "65536", "", "-1", "1x", " 1", "99999999999999999999999"}) {
    MountLike tool;
    EXPECT_EQ(tool.parse({"t", "d", "--rows", bad}), 2) << bad;
    EXPECT_EQ(tool.rows, 24U);
    EXPECT_NE(tool.err.str().find("is not a number between 1 and 65535"), std::string::npos) << tool.err.str();
  }
}

TEST(App, ChoiceRefusesOtherWords) {
  MountLike tool;
  EXPECT_EQ(tool.parse({"t", "d", "--output", "xml"}), 2);
  EXPECT_NE(tool.err.str().find("--output: 'xml' is none of text, json"), std::string::npos) << tool.err.str();
  MountLike good;
  EXPECT_EQ(good.parse({"t", "d", "--output", "json"}), std::nullopt);
  EXPECT_EQ(good.output, "json");
}

TEST(App, HelpGoesToOutAndWinsOverMissingArguments) {
  MountLike tool;
  EXPECT_EQ(tool.parse({"--help"}), 0);
  EXPECT_EQ(tool.err.str(), "");
  const std::string help = tool.out.str();
  EXPECT_TRUE(help.starts_with("Usage: sandbox-mount [options] TARGET DIR\n\nMounts.\n")) << help;
  for (const auto* line : {"\n  -f, --foreground ", "\n  --token-file FILE ", "\n  --version ", "\n  TARGET "}) {
    EXPECT_NE(help.find(line), std::string::npos) << line << help;
  }
  EXPECT_EQ(tool.app.help(), help);
}

TEST(App, VersionIsTheProjects) {
  MountLike tool;
  EXPECT_EQ(tool.parse({"t", "--version"}), 0);
  EXPECT_EQ(tool.out.str(), "sandbox-mount " SANDBAR_VERSION "\n");
}

TEST(App, ToolsReportTheirOwnUsageErrorsAlike) {
  MountLike tool;
  ASSERT_EQ(tool.parse({"wx://h", "d"}), std::nullopt);
  const Io io{tool.in, tool.out, tool.err};
  EXPECT_EQ(tool.app.usage_error(io, "TARGET wx://h: no such scheme", "wx://h", "ws://h"), 2);
  EXPECT_EQ(tool.err.str(),
            "sandbox-mount: TARGET wx://h: no such scheme; did you mean ws://h?\n  sandbox-mount ws://h d\n");
}

/// A tool like sandbox-exec.
struct ExecLike {
  ExecLike() : app({.program = "sandbox-exec", .summary = "Runs.", .rest = "CMD [ARG...]", .usage_code = 125}) {
    app.argument("TARGET", target, "which sandbox");
    app.option("--cwd", cwd, "DIR", "where");
  }

  std::optional<int> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "sandbox-exec");
    return app.parse(static_cast<int>(words.size()), words.data(), Io{in, out, err});
  }

  std::optional<std::string> target;
  std::string cwd;
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  App app;
};

TEST(AppRest, KeepsTheCommandApart) {
  ExecLike tool;
  ASSERT_EQ(tool.parse({"t", "--cwd", "/", "--", "ls", "--help", "--", "-x"}), std::nullopt);
  EXPECT_EQ(tool.target, "t");
  EXPECT_TRUE(tool.app.has_rest());
  EXPECT_EQ(tool.app.rest(), (std::vector<std::string>{"ls", "--help", "--", "-x"}));
}

TEST(AppRest, TheTargetMayBeLeftOut) {
  ExecLike tool;
  ASSERT_EQ(tool.parse({"--", "make"}), std::nullopt);
  EXPECT_EQ(tool.target, std::nullopt);
  EXPECT_EQ(tool.app.rest(), std::vector<std::string>{"make"});
}

TEST(AppRest, TellsDashesWithoutACommandFromNone) {
  ExecLike with;
  ASSERT_EQ(with.parse({"t", "--"}), std::nullopt);
  EXPECT_TRUE(with.app.has_rest());
  EXPECT_TRUE(with.app.rest().empty());
  ExecLike without;
  ASSERT_EQ(without.parse({"t"}), std::nullopt);
  EXPECT_FALSE(without.app.has_rest());
}

TEST(AppRest, AForgottenDashesIsShown) {
  ExecLike tool;
  EXPECT_EQ(tool.parse({"t", "ls", "-l"}), 125);
  EXPECT_EQ(tool.err.str(),
            "sandbox-exec: ls is one argument too many: the command comes after --\n  sandbox-exec t -- ls -l\n");
}

TEST(AppRest, UsageShowsIt) {
  ExecLike tool;
  EXPECT_TRUE(tool.app.help().starts_with("Usage: sandbox-exec [options] [TARGET] -- CMD [ARG...]\n"));
}

/// A tool like sandboxd.
struct DaemonLike {
  DaemonLike() : app({.program = "sandboxd", .summary = "Serves."}) {
    app.verb("agent", "serve a directory").option("--root", root, "DIR", "what");
    app.verb("serve", "the control plane");
  }

  std::optional<int> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "sandboxd");
    return app.parse(static_cast<int>(words.size()), words.data(), Io{in, out, err});
  }

  std::string root;
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  App app;
};

TEST(AppVerbs, TheVerbHasItsOptions) {
  DaemonLike tool;
  ASSERT_EQ(tool.parse({"agent", "--root", "/srv"}), std::nullopt);
  EXPECT_EQ(tool.app.chosen(), "agent");
  EXPECT_EQ(tool.root, "/srv");
}

TEST(AppVerbs, UnknownVerbNamesTheNearest) {
  DaemonLike tool;
  EXPECT_EQ(tool.parse({"agnet", "--root", "/"}), 2);
  EXPECT_EQ(tool.err.str(), "sandboxd: unknown command agnet; did you mean agent?\n  sandboxd agent --root /\n");
}

TEST(AppVerbs, UnknownOptionOfAVerb) {
  DaemonLike tool;
  EXPECT_EQ(tool.parse({"agent", "--rot", "/"}), 2);
  EXPECT_EQ(tool.err.str(), "sandboxd: unknown option --rot; did you mean --root?\n  sandboxd agent --root /\n");
}

TEST(AppVerbs, OneMustBeGiven) {
  DaemonLike tool;
  EXPECT_EQ(tool.parse({}), 2);
  EXPECT_EQ(tool.err.str(), "sandboxd: a command is missing: agent, serve\n  see: sandboxd --help\n");
}

TEST(AppVerbs, EachHasItsHelp) {
  DaemonLike all;
  EXPECT_EQ(all.parse({"--help"}), 0);
  EXPECT_NE(all.out.str().find("Commands:\n  agent "), std::string::npos) << all.out.str();
  DaemonLike one;
  EXPECT_EQ(one.parse({"agent", "--help"}), 0);
  EXPECT_TRUE(one.out.str().starts_with("Usage: sandboxd agent [options]\n")) << one.out.str();
  EXPECT_NE(one.out.str().find("  --root DIR"), std::string::npos);
  DaemonLike version;
  EXPECT_EQ(version.parse({"agent", "--version"}), 0);
  EXPECT_EQ(version.out.str(), "sandboxd " SANDBAR_VERSION "\n");
}

}  // namespace
}  // namespace sandbar::cli
