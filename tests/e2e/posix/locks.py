# SPDX-License-Identifier: Apache-2.0
"""Locks: POSIX records, open file descriptions' records, flock; between processes."""

import errno
import fcntl
import os
import select
import signal

from calls import F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, LIBC, checked, flock_bytes, flock_fields
from runner import case

R, W, RW, CREAT = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT
READ, WRITE, UNLOCK = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
KINDS = {READ: "read", WRITE: "write", UNLOCK: "none"}


def record(fd, kind, start=0, length=0, command=fcntl.F_SETLK, whence=0, pid=0):
    """One fcntl on a range."""
    fcntl.fcntl(fd, command, flock_bytes(kind, whence, start, length, pid))


def holder(fd, kind, start=0, length=0, command=fcntl.F_GETLK, whence=0):
    return flock_fields(fcntl.fcntl(fd, command, flock_bytes(kind, whence, start, length)))


def held(*arguments, **named):
    """What would be in the way: kind, whence, start and length. Who holds it has a case of its own."""
    kind, whence, start, length, _ = holder(*arguments, **named)
    return "nothing" if kind == UNLOCK else (KINDS[kind], whence, start, length)


def opened(box, flags=RW, name="f"):
    return box.open(name, flags | CREAT)


@case(each=[(f"{KINDS[a]} and {KINDS[b]}", a, b) for a in (READ, WRITE) for b in (READ, WRITE)])
def two_processes(box, first, second):
    fd = opened(box)
    os.pwrite(fd, b"0123456789", 0)
    box(record, fd, first, 2, 4)

    def act():
        for start, length in ((0, 2), (0, 3), (2, 4), (5, 10), (6, 0), (0, 0)):
            box(held, fd, second, start, length)
            box(record, fd, second, start, length)
        record(fd, UNLOCK)

    box.child(act)
    box(record, fd, UNLOCK, 2, 4)
    box.child(lambda: box(record, fd, second, 0, 0))


@case
def who_holds_it(box):
    """l_pid."""
    fd = opened(box)
    record(fd, WRITE, 0, 10)
    box.child(lambda: box.say("holder", "the parent" if holder(fd, WRITE)[4] == os.getppid() else "somebody"))


@case
def who_holds_an_ofd_lock(box):
    """l_pid is -1."""
    fd = opened(box)
    record(fd, WRITE, 0, 10, command=F_OFD_SETLK)
    box.child(lambda: box.say("holder", "nobody" if holder(opened(box), WRITE)[4] == -1 else "somebody"))


@case
def own_locks_are_never_in_the_way(box):
    fd = opened(box)
    box(record, fd, WRITE, 0, 10)
    box(held, fd, WRITE, 0, 10)
    box(record, fd, READ, 3, 4)
    box.child(lambda: [box(held, fd, WRITE, start, 1) for start in (0, 3, 6, 7, 9, 10)])
    other = opened(box)
    box(record, other, WRITE, 0, 5)
    box.child(lambda: [box(held, fd, READ, start, 1) for start in (0, 4, 5, 6)])


@case
def splitting_and_joining(box):
    fd = opened(box)
    record(fd, WRITE, 0, 100)
    record(fd, UNLOCK, 40, 20)

    def act():
        for start in (0, 39, 40, 59, 60, 99, 100):
            box(held, fd, WRITE, start, 1)
        box(held, fd, WRITE, 0, 0)

    box.child(act)
    record(fd, WRITE, 40, 20)
    box.child(lambda: box(held, fd, WRITE, 45, 1))
    record(fd, READ, 10, 10)
    box.child(lambda: [box(held, fd, WRITE, start, 1) for start in (5, 15, 25)])


@case
def whence_and_lengths(box):
    fd = opened(box)
    os.pwrite(fd, b"0123456789", 0)
    os.lseek(fd, 4, os.SEEK_SET)
    last = (1 << 63) - 1
    for start, length, whence in ((0, 2, 1), (-2, 2, 2), (5, -3, 0), (-1, 0, 1), (-20, 1, 2), (0, -1, 0), (last, 1, 0),
                                  (last, 2, 0)):  # fmt: skip
        box(record, fd, WRITE, start, length, whence=whence)
        box.child(lambda: box(held, fd, READ))
        record(fd, UNLOCK)


@case
def wrong_descriptors_and_types(box):
    for flags in (R, W, RW):
        fd = opened(box, flags)
        for kind in (READ, WRITE, UNLOCK):
            box(record, fd, kind)
        box(held, fd, READ)
        box(held, fd, WRITE)
        for command in (F_OFD_SETLK, fcntl.F_SETLK):
            box(record, fd, WRITE, command=command)
        record(fd, UNLOCK)
    box(record, fd, 77)
    box(held, fd, UNLOCK)
    box(record, fd, READ, command=F_OFD_SETLK, pid=1)
    box(record, fd, READ, whence=9)
    folder = box.open(".", R)
    box(record, folder, READ)
    box(record, folder, WRITE)
    os.mkfifo("p")
    pipe = box.open("p", RW)
    box(record, pipe, WRITE)
    box.child(lambda: box(held, pipe, WRITE))


@case
def closing_any_descriptor_drops_posix_locks(box):
    fd, other = opened(box), opened(box)
    box(record, fd, WRITE)
    os.close(other)
    box.child(lambda: box(held, fd, WRITE))
    box(record, fd, WRITE)
    os.close(os.dup(fd))
    box.child(lambda: box(held, fd, WRITE))
    record(fd, WRITE)
    os.close(os.open("f", R))
    box.child(lambda: box(held, fd, WRITE))


@case
def exit_drops_posix_locks(box):
    fd = opened(box)
    box.child(lambda: box(record, fd, WRITE))
    box(record, fd, WRITE)


@case
def forks_inherit_no_posix_locks(box):
    fd = opened(box)
    record(fd, WRITE)

    def act():
        box(held, fd, WRITE)
        box(record, fd, UNLOCK)
        box(held, fd, WRITE)
        os.close(fd)

    box.child(act)
    box.child(lambda: box(held, fd, WRITE))


@case
def ofd_locks_belong_to_the_description(box):
    fd, other = opened(box), opened(box)
    box(record, fd, WRITE, 0, 10, command=F_OFD_SETLK)
    box(held, other, WRITE, 0, 10, command=F_OFD_GETLK)
    box(record, other, READ, 0, 10, command=F_OFD_SETLK)
    box(record, other, READ, 10, 10, command=F_OFD_SETLK)
    box(held, fd, WRITE, 5, 10, command=F_OFD_GETLK)
    copy = os.dup(fd)
    box(record, copy, READ, 0, 5, command=F_OFD_SETLK, label="by a copy")
    os.close(copy)
    box(held, other, WRITE, 0, 10, command=F_OFD_GETLK)
    os.close(fd)
    box(record, other, WRITE, 0, 20, command=F_OFD_SETLKW)


@case
def ofd_locks_are_inherited(box):
    fd = opened(box)
    box(record, fd, WRITE, command=F_OFD_SETLK)

    def act():
        box(record, fd, WRITE, command=F_OFD_SETLK)
        other = opened(box)
        box(held, other, WRITE, command=F_OFD_GETLK)
        box(record, fd, UNLOCK, command=F_OFD_SETLK)

    box.child(act)
    other = opened(box)
    box(held, other, WRITE, command=F_OFD_GETLK)


@case
def ofd_and_posix_locks_meet(box):
    fd, other = opened(box), opened(box)
    box(record, fd, WRITE, 0, 10)
    box(record, other, WRITE, 0, 10, command=F_OFD_SETLK)
    box(held, other, READ, 0, 10, command=F_OFD_GETLK, label="get")
    box(record, other, WRITE, 20, 10, command=F_OFD_SETLK)
    box(held, fd, WRITE, 15, 20)
    box(record, fd, WRITE, 20, 1)


@case(each=[(f"{a} and {b}", a, b) for a in ("LOCK_SH", "LOCK_EX") for b in ("LOCK_SH", "LOCK_EX")])
def flocks(box, first, second):
    fd, other = opened(box), opened(box)
    box(fcntl.flock, fd, getattr(fcntl, first) | fcntl.LOCK_NB)
    box(fcntl.flock, other, getattr(fcntl, second) | fcntl.LOCK_NB)
    box.child(lambda: box(fcntl.flock, opened(box), getattr(fcntl, second) | fcntl.LOCK_NB))
    box(fcntl.flock, fd, fcntl.LOCK_UN)
    box(fcntl.flock, other, getattr(fcntl, second) | fcntl.LOCK_NB)
    os.close(other)
    box(fcntl.flock, fd, fcntl.LOCK_EX)  # waits: on a mount the kernel tells of the last close behind close(2)


@case
def flock_details(box):
    fd, other = opened(box), opened(box, R)
    box(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    box(fcntl.flock, other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    box(fcntl.flock, fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    box(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)
    box(fcntl.flock, fd, fcntl.LOCK_EX)
    box(fcntl.flock, fd, 77)
    box(fcntl.flock, fd, fcntl.LOCK_UN)
    box(fcntl.flock, fd, fcntl.LOCK_UN)
    folder = box.open(".", R)
    box(fcntl.flock, folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    box.child(lambda: box(fcntl.flock, box.open(".", R), fcntl.LOCK_SH | fcntl.LOCK_NB))


@case
def flock_is_inherited_and_ends_with_the_last_descriptor(box):
    fd = opened(box)
    fcntl.flock(fd, fcntl.LOCK_EX)
    box.child(lambda: box(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
    other = opened(box)
    box(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    copy = os.dup(fd)
    os.close(fd)
    box(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(copy)
    box(fcntl.flock, other, fcntl.LOCK_EX)


@case
def flock_and_records_do_not_meet(box):
    fd = opened(box)
    fcntl.flock(fd, fcntl.LOCK_EX)

    def act():
        box(record, fd, WRITE)
        box(held, fd, WRITE)

    box.child(act)


@case
def locks_are_the_inodes(box):
    fd = opened(box)
    os.link("f", "g")
    record(fd, WRITE)
    fcntl.flock(fd, fcntl.LOCK_EX)

    def act():
        other = box.open("g", RW)
        box(held, other, WRITE)
        box(fcntl.flock, other, fcntl.LOCK_SH | fcntl.LOCK_NB)

    box.child(act)
    os.rename("f", "h")
    os.unlink("g")
    box.child(lambda: box(held, box.open("h", RW), WRITE))
    os.unlink("h")
    box.child(lambda: box(held, fd, WRITE))


WAITS = {
    "posix": (lambda fd: record(fd, WRITE), lambda fd: record(fd, WRITE, command=fcntl.F_SETLKW),
              lambda fd: record(fd, UNLOCK)),
    "ofd": (lambda fd: record(fd, WRITE, command=F_OFD_SETLK), lambda fd: record(fd, WRITE, command=F_OFD_SETLKW),
            lambda fd: record(fd, UNLOCK, command=F_OFD_SETLK)),
    "flock": (lambda fd: fcntl.flock(fd, fcntl.LOCK_EX), lambda fd: fcntl.flock(fd, fcntl.LOCK_EX),
              lambda fd: fcntl.flock(fd, fcntl.LOCK_UN)),
}  # fmt: skip


def waiting(pid):
    """Waits until the child sleeps in the call that it announced."""
    while True:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            if file.read().rsplit(")", 1)[1].split()[0] == "S":
                return


def waiter(box, wait, told):
    """A child that announces its wait, then waits and says what came of it."""

    def act():
        fd = os.open("f", RW)
        os.write(told, b"x")
        box(wait, fd, label="wait")
        os.pwrite(fd, b"locked", 0)

    return box.start(act)


@case(each=[(f"{kind} until {how}", kind, how) for kind in WAITS for how in ("unlock", "close", "exit")])
def blocking(box, kind, how):
    lock, wait, unlock = WAITS[kind]
    reader, writer = os.pipe()
    go_reader, go_writer = os.pipe()

    def holder():
        fd = os.open("f", RW | CREAT)
        lock(fd)
        os.write(writer, b"x")
        os.read(go_reader, 1)
        box.say("content", os.pread(fd, 10, 0))
        if how == "unlock":
            unlock(fd)
            os.read(go_reader, 1)
        elif how == "close":
            os.close(fd)
            os.read(go_reader, 1)

    first = box.start(holder)
    os.read(reader, 1)
    second = waiter(box, wait, writer)
    os.read(reader, 1)
    waiting(second)
    os.write(go_writer, b"x")
    box.say("waiter's end", os.waitstatus_to_exitcode(os.waitpid(second, 0)[1]))
    os.write(go_writer, b"x")
    os.waitpid(first, 0)
    box.read("f")


# Waits that Python does not begin again after a signal.
RAW_WAITS = {
    "posix": lambda fd: LIBC.fcntl(fd, fcntl.F_SETLKW, flock_bytes(WRITE)),
    "ofd": lambda fd: LIBC.fcntl(fd, F_OFD_SETLKW, flock_bytes(WRITE)),
    "flock": lambda fd: LIBC.flock(fd, fcntl.LOCK_EX),
}


@case(each=[(kind, kind) for kind in WAITS])
def a_signal_ends_the_wait(box, kind):
    lock = WAITS[kind][0]
    fd = opened(box)
    lock(fd)
    reader, writer = os.pipe()

    def act():
        signal.signal(signal.SIGUSR1, lambda *_: None)
        mine = os.open("f", RW)
        os.write(writer, b"x")
        box(lambda: checked(RAW_WAITS[kind](mine)), label="wait")

    pid = box.start(act)
    os.read(reader, 1)
    ended = select.poll()
    ended.register(os.pidfd_open(pid), select.POLLIN)
    # Again and again: one may come just before the call.
    while not ended.poll(20):
        os.kill(pid, signal.SIGUSR1)
    os.waitpid(pid, 0)
    box(lock, fd, label="still held")


@case(each=[(kind, kind) for kind in WAITS])
def a_killed_waiter_gets_nothing(box, kind):
    lock, wait, unlock = WAITS[kind]
    fd = opened(box)
    lock(fd)
    reader, writer = os.pipe()
    pid = waiter(box, wait, writer)
    os.read(reader, 1)
    waiting(pid)
    os.kill(pid, signal.SIGKILL)
    box.say("end", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    unlock(fd)
    other = opened(box)
    box(wait, other, label="lock again")
    box.read("f")


@case
def deadlock(box):
    """EDEADLK for the one who closes the circle, whichever that is; the other gets the lock."""
    fd = opened(box)
    record(fd, WRITE, 0, 1)
    reader, writer = os.pipe()

    def refused(start):
        try:
            record(fd, WRITE, start, 1, command=fcntl.F_SETLKW)
        except OSError as error:
            return error.errno
        return 0

    pid = os.fork()
    if pid == 0:
        record(fd, WRITE, 1, 1)
        os.write(writer, b"x")
        os._exit(refused(0))
    os.read(reader, 1)
    mine = refused(1)
    record(fd, UNLOCK)
    both = sorted([mine, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])])
    box.say("errors", ["none" if number == 0 else errno.errorcode[number] for number in both])


@case
def readers_before_a_writer(box):
    """Two read locks go at different times; the writer gets its turn after the second."""
    fd = opened(box)
    gates = [os.pipe() for _ in range(2)]
    reader, writer = os.pipe()

    def hold(gate):
        record(fd, READ)
        os.write(writer, b"x")
        os.read(gate, 1)

    pids = [box.start(lambda gate=gate: hold(gate)) for gate, _ in gates]
    for _ in pids:
        os.read(reader, 1)
    box(record, fd, WRITE)
    os.write(gates[0][1], b"x")
    os.waitpid(pids[0], 0)
    box(record, fd, WRITE)
    os.write(gates[1][1], b"x")
    os.waitpid(pids[1], 0)
    box(record, fd, WRITE)


@case
def ranges_of_many_processes(box):
    fd = opened(box)
    reader, writer = os.pipe()
    gate_reader, gate_writer = os.pipe()

    def hold(i):
        record(fd, WRITE, i * 10, 10)
        os.write(writer, b"x")
        os.read(gate_reader, 1)

    pids = [box.start(lambda i=i: hold(i)) for i in range(8)]
    for _ in pids:
        os.read(reader, 1)
    for start in (0, 35, 79, 80):
        box(held, fd, READ, start, 1)
    box(record, fd, WRITE, 0, 0)
    os.close(gate_writer)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    box(record, fd, WRITE, 0, 0)
