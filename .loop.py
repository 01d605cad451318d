import sys; sys.path.insert(0,"tests/e2e")
from harness import *
class T(Case):
    def test(self):
        root=self.folder("root")
        for d in "a/b","again","x": (root/d).mkdir(parents=True)
        (root/"a/f").write_text("f")
        agent=self.agent(root, command=("unshare","--mount","sh","-ec",f'mount --bind {root} {root}/again; mount --bind {root}/a {root}/x; exec "$@"',"sh"))
        m=self.mount(agent)
        for c in ("ls -la {m}","ls -la {m}/again","ls -la {m}/again/again","ls {m}/x {m}/a","find {m}","cd {m}/x && ls {m}/a && pwd -P","cd {m}/a/b && ls -l {m}/x/b/../f; pwd -P", "stat -c '%i %n' {m}/a {m}/x {m}/again {m}", "du -a {m}", "rm -rf {m}/x/b"):
            d=run("sh","-c",c.format(m=m),check=False); print(c,d.returncode,d.stdout.replace(str(m),"M"),d.stderr.replace(str(m),"M"))
main()
