#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The structure tests find what they are there to find: each rule is broken once in a tree of the test's own."""

import os
import tempfile
import unittest

import headers
import includes
import manual
import sources
import tree

HEAD = "// SPDX-License-Identifier: Apache-2.0\n"


class Planted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def plant(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as out:
            out.write(text)

    def includes_of(self, path, line):
        self.plant(path, f"{HEAD}#include {line}\n")
        problems, checked = includes.check(self.root)
        self.assertEqual(checked, 1)
        os.remove(os.path.join(self.root, path))
        return problems

    def test_includes_upwards(self):
        for path, header in [
            ("src/base/a.h", "wire/frame.h"),
            ("src/wire/a.h", "net/transport.h"),
            ("src/net/a.cpp", "wire/frame.h"),
            ("src/net/a.cpp", "mux/session.h"),
            ("src/vfs/a.cpp", "client/connection.h"),
            ("src/vfs/a.cpp", "wire/codec.h"),
            ("src/fuse/a.cpp", "agent/root.h"),
            ("src/fuse/a.cpp", "client/remote_fs.h"),
            ("src/agent/a.cpp", "fuse/session.h"),
            ("src/agent/a.cpp", "client/connection.h"),
            ("src/cli/a.cpp", "net/connect.h"),
            ("src/mux/a.h", "sandbar/target.h"),
            ("src/new/a.h", "base/text.h"),
            ("include/sandbar/a.h", "base/text.h"),
        ]:
            self.assertEqual(len(self.includes_of(path, f'"{header}"')), 1, (path, header))

    def test_third_party_elsewhere(self):
        for path, header in [
            ("src/mux/a.cpp", "rapidjson/document.h"),
            ("src/mux/a.cpp", "boost/asio.hpp"),
            ("src/client/a.cpp", "websocketpp/server.hpp"),
            ("src/vfs/a.cpp", "fuse3/fuse_lowlevel.h"),
            ("src/vfs/a.cpp", "fuse_lowlevel.h"),
            ("src/net/a.cpp", "CLI/CLI.hpp"),
            ("src/net/a.cpp", "gtest/gtest.h"),
            ("src/net/a.cpp", "absl/strings.hpp"),
            ("tests/unit/vfs/a.cpp", "fuse3/fuse_lowlevel.h"),
            ("tests/e2e/a.cpp", "boost/asio.hpp"),
        ]:
            self.assertEqual(len(self.includes_of(path, f"<{header}>")), 1, (path, header))

    def test_what_is_allowed(self):
        for path, line in [
            ("src/mux/a.cpp", '"net/transport.h"'),
            ("src/vfs/a.cpp", '"client/remote_fs.h"'),
            ("src/wire/a.cpp", '"sandbar/result.h"'),
            ("src/client/a.cpp", '"sandbar/target.h"'),
            ("src/wire/a.cpp", "<rapidjson/reader.h>"),
            ("src/net/a.cpp", "<boost/asio/io_context.hpp>"),
            ("src/fuse/a.cpp", "<fuse3/fuse_lowlevel.h>"),
            ("tests/unit/fuse/a.cpp", "<fuse3/fuse_lowlevel.h>"),
            ("tests/unit/net/a.cpp", "<gtest/gtest.h>"),
            ("src/agent/a.cpp", "<linux/openat2.h>"),
            ("src/agent/a.cpp", "<sys/syscall.h>"),
            ("tools/a.cpp", '"agent/server.h"'),
        ]:
            self.assertEqual(self.includes_of(path, line), [], (path, line))

    def source_problems(self, path, text):
        self.plant(path, text)
        problems, _, _ = sources.check(self.root)
        os.remove(os.path.join(self.root, path))
        return problems

    def test_sources(self):
        body = "#pragma once\nnamespace sandbar::net {\n}\n"
        good = HEAD + body
        self.assertEqual(self.source_problems("src/net/a.h", good), [])
        for name, text in {
            "licence": body,
            "using": good + "using namespace std;\n",
            "pragma": good.replace("#pragma once", ""),
            "namespace of another": good.replace("net", "mux"),
            "lines": good + "\n" * 497,
            "leftover": good + "// TO" + "DO: later\n",
        }.items():
            self.assertTrue(self.source_problems("src/net/a.h", text), name)
        at_the_bound = good + "\n" * 496
        self.assertEqual(len(at_the_bound.splitlines()), 500)
        self.assertEqual(self.source_problems("src/net/a.h", at_the_bound), [])
        for script in ("tools/x.py", "tools/check", ".ci/run"):
            self.assertTrue(self.source_problems(script, "#!/bin/sh\nexit\n"), script)
            self.assertEqual(self.source_problems(script, "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"), [])

    def test_long_functions_are_warned_of(self):
        text = "int f() {\n" + "  g();\n" * 59 + "}\n"
        self.assertEqual(list(sources.long_functions(text)), [(1, 61)])
        self.assertEqual(list(sources.long_functions(text.replace("  g();\n", "", 1))), [])

    def test_headers_that_do_not_compile_alone(self):
        self.plant("src/net/a.h", "inline std::string f();\n")
        self.plant("src/net/b.h", "#include <string>\ninline std::string f() { return {}; }\n")
        command = headers.with_standard(["c++", "-Wall", "-Werror"], "c++20")
        self.assertIn("src/net/a.h as c++20", headers.compile_alone(self.root, "src/net/a.h", command))
        self.assertIsNone(headers.compile_alone(self.root, "src/net/b.h", command))

    def test_flags_only(self):
        command = "/usr/bin/ccache /usr/bin/c++ -DX -Wall -MD -MT a.o -MF a.d -o a.o -c a.cpp".split()
        self.assertEqual(headers.flags_only(command), ["/usr/bin/c++", "-DX", "-Wall"])

    def manual_problems(self, help_text, page):
        self.plant("bin/sandboxd", f"#!/bin/sh\ncat <<'END'\n{help_text}END\n")
        os.chmod(os.path.join(self.root, "bin/sandboxd"), 0o755)
        self.plant("man/sandboxd.8", page)
        all_pages, manual.PAGES = manual.PAGES, {"sandboxd": "sandboxd.8"}
        try:
            return manual.compare(self.root, os.path.join(self.root, "bin"))
        finally:
            manual.PAGES = all_pages

    def test_manual_and_help_differ(self):
        shown = "Usage: x\n\nOptions:\n  --root DIR        what, not --other\n  -h, --help  help\n"
        page = ".TH X 8\n.TP\n\\fB\\-\\-root\\fR \\fIDIR\\fR\nwhat\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nhelp\n"
        self.assertEqual(self.manual_problems(shown, page), [])
        self.assertEqual(len(self.manual_problems(shown + "  --more N  more\n", page)), 1)
        self.assertEqual(len(self.manual_problems(shown, page + ".TP\n\\fB\\-\\-gone\\fR\n")), 1)
        mount = shown + "\nMount options:\n  token_file=FILE  the token\n"
        self.assertEqual(len(self.manual_problems(mount, page)), 1)
        self.assertEqual(self.manual_problems(mount, page + "\\fBtoken_file=\\fR\n"), [])

    def test_pages_with_warnings(self):
        self.plant("man/a.1", '.TH A 1 "" "sandbar 1.2"\n.SH NAME\na \\- b\n')
        self.assertEqual(manual.render(self.root, "a.1", "1.2"), [])
        self.assertEqual(len(manual.render(self.root, "a.1", "1.3")), 1)
        self.plant("man/a.1", '.TH A 1 "" "sandbar 1.2"\n.SH NAME\n.NOSUCH x\na \\- b\n')
        self.assertTrue(manual.render(self.root, "a.1", "1.2"))

    def test_nothing_found_is_a_failure(self):
        self.assertEqual(tree.report("x", [], 0), 1)
        self.assertEqual(tree.report("x", ["p"], 1), 1)
        self.assertEqual(tree.report("x", [], 1), 0)


if __name__ == "__main__":
    unittest.main()
