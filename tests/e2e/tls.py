# SPDX-License-Identifier: Apache-2.0
"""wss://: mounts and commands by TLS, certificates that change while mounted, and what is refused."""

import hashlib
import os
import signal

from harness import EXEC, MOUNT, SANDBOXD, Case, is_mounted, main, run, wait_for

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class Tls(Case):
    def setUp(self):
        super().setUp()
        self.keys = self.folder("keys")
        self.ca = self.authority("ca")
        self.certificate, self.key = self.keys / "server.crt", self.keys / "server.key"
        self.issue(self.ca)

    def authority(self, name):
        """A CA of the test's own; returns its certificate, beside which is its key."""
        certificate = self.keys / f"{name}.crt"
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
            "-subj", f"/CN={name}", "-keyout", certificate.with_suffix(".key"), "-out", certificate)
        return certificate

    def issue(self, ca):
        """Puts a new certificate of this CA where the agent looks."""
        request, extensions = self.keys / "request", self.keys / "extensions"
        extensions.write_text(NAMES + "\n")
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=agent",
            "-keyout", self.key, "-out", request)
        run("openssl", "x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca.with_suffix(".key"), "-CAcreateserial",
            "-days", 1, "-extfile", extensions, "-out", self.certificate)

    def tls_agent(self, listen="127.0.0.1:0", **options):
        return self.agent(listen=listen, extra=("--tls-cert", self.certificate, "--tls-key", self.key), **options)

    def said(self, agent):
        return (agent.token_file.parent / "agent.log").read_text()

    def reaches(self, agent, ca):
        return self.exec(agent, "true", options=["--ca-file", ca])

    def test_mount_and_exec(self):
        agent = self.tls_agent()
        self.assertTrue(agent.url.startswith("wss://127.0.0.1:"), agent.url)
        point = self.mount(agent, options=f"ca_file={self.ca}")
        data = os.urandom(20 << 20)
        (point / "data").write_bytes(data)
        self.assertEqual(hashlib.sha256((agent.root / "data").read_bytes()).digest(), hashlib.sha256(data).digest())
        self.assertEqual((point / "data").read_bytes(), data)
        done = self.exec(agent, "cat", options=["--ca-file", self.ca], input="through and back")
        self.assertEqual((done.returncode, done.stdout), (0, "through and back"), done.stderr)
        done = self.exec(agent, "head", "-c", 20 << 20, "data", options=["--ca-file", self.ca], text=False)
        self.assertEqual(done.stdout, data)

    def test_the_mount_says_whom_it_trusts(self):
        agent = self.tls_agent()
        point = self.folder("mnt")
        run(MOUNT, agent.url, "mnt", "--token-file", agent.token_file, "--ca-file", "keys/ca.crt", cwd=self.work)
        self.addCleanup(self.unmount, point)
        self.assertEqual(os.getxattr(point, "user.sandbar.ca-file"), str(self.ca).encode())
        with self.assertRaises(OSError):
            os.getxattr(point, "user.sandbar.insecure")
        done = run(EXEC, "--", "pwd", cwd=point)
        self.assertEqual(done.stdout, f"{agent.root}\n")

    def test_what_is_not_trusted_is_refused(self):
        agent = self.tls_agent()
        elsewhere = self.tls_agent("127.0.0.2:0", name="elsewhere")
        other = self.authority("other")
        point = self.folder("mnt")
        token = f"token_file={agent.token_file}"
        for target, options, says in (
            (agent.url, [], "--ca-file"),
            (agent.url, ["-o", f"ca_file={other}"], f"not from an issuer in the CA file {other}"),
            (agent.url, ["--ca-file", self.keys / "none"], "keys/none"),
            (elsewhere.url, ["--ca-file", self.ca], "not for 127.0.0.2 but for localhost, 127.0.0.1"),
            (agent.url.replace("wss:", "ws:"), [], "use wss://"),
        ):
            done = run(MOUNT, target, point, "-o", token, *options, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn(says, done.stderr)
            self.assertFalse(is_mounted(point))
        done = self.reaches(agent, other)
        self.assertEqual(done.returncode, 125)
        self.assertIn("not from an issuer in the CA file", done.stderr)
        plain = self.agent(name="plain", listen="127.0.0.1:0")
        done = self.exec(plain.url.replace("ws:", "wss:"), "true", options=["--token-file", plain.token_file])
        self.assertEqual(done.returncode, 125)
        self.assertIn("try ws://", done.stderr)

    def test_a_new_certificate_while_mounted(self):
        agent = self.tls_agent()
        point = self.mount(agent, options=f"ca_file={self.ca}")
        new = self.authority("new")
        self.issue(new)
        self.assertEqual(self.reaches(agent, self.ca).returncode, 0, "it was not told to look yet")
        agent.process.send_signal(signal.SIGHUP)
        wait_for("the new certificate", lambda: self.reaches(agent, new).returncode == 0)
        self.assertEqual(self.reaches(agent, self.ca).returncode, 125)
        (point / "f").write_text("as before")
        self.assertEqual((agent.root / "f").read_text(), "as before")
        # One that cannot be used changes nothing.
        self.key.write_text("nonsense")
        agent.process.send_signal(signal.SIGHUP)
        wait_for("the message", lambda: "there is no private key in it" in self.said(agent))
        self.assertIn("the old certificate stays in use", self.said(agent))
        self.assertEqual(self.reaches(agent, new).returncode, 0)
        (point / "g").write_text("and on")
        self.assertEqual((agent.root / "g").read_text(), "and on")
        self.assertEqual(agent.stop(), 0)

    def test_plaintext_beyond_this_machine(self):
        root, token = self.folder("root"), self.folder("t") / "token"
        token.write_text("secret")
        token.chmod(0o600)
        command = (SANDBOXD, "agent", "--root", root, "--listen", "0.0.0.0:0", "--token-file", token)
        done = run(*command, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("--tls-cert", done.stderr)
        self.assertIn("--insecure", done.stderr)
        # 0.0.0.0 is no loopback address, but leads here.
        agent = self.agent(listen="0.0.0.0:0", extra=("--insecure",))
        point = self.folder("mnt")
        done = run(MOUNT, agent.url, point, "-o", f"token_file={agent.token_file}", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("use wss://, or --insecure", done.stderr)
        self.assertFalse(is_mounted(point))
        done = self.exec(agent, "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("use wss://, or --insecure", done.stderr)
        self.assertEqual(self.exec(agent, "true", options=["--insecure"]).returncode, 0)
        point = self.mount(agent, options="insecure")
        self.assertEqual(run(EXEC, "--", "pwd", cwd=point).stdout, f"{agent.root}\n")


if __name__ == "__main__":
    main()
