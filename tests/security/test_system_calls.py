"""What a program in a sandbox asks of the kernel and is not given, call by call; and what it needs, and has."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import pytest

from stoker.core.states import FINAL_REPLICA_STATES
from stoker.runtime import seccomp
from tests.contract.engine_contract import ATTEMPT, until
from tests.contract.test_engines import a_local_engine
from tests.engines.test_isolation import a_level, python

MACHINES = seccomp._ARCHITECTURES
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sandboxes are known on Linux alone")

# argv: the calls as [name, number, [arguments]]. Arguments that would do no harm if the call were let through.
ASKS = """
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
for name, number, arguments in json.loads(sys.argv[1]):
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    if name == "clone" and result == 0:
        os._exit(0)  # we are the child that must not be
    print(json.dumps([name, errno.errorcode[ctypes.get_errno()] if result < 0 else "done"]), flush=True)
print(json.dumps(["filters", [line.split()[1] for line in open("/proc/self/status") if line.startswith("Seccomp:")][0]]))
"""
NEEDED = """
import ctypes, fcntl, json, mmap, multiprocessing, os, pty, select, signal, socket, subprocess, sys, tempfile, threading, time

def doubled(pipe):
    pipe.send(2 * pipe.recv())

def by(method):
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    process = context.Process(target=doubled, args=(theirs,))
    process.start()
    ours.send(21)
    return ours.recv() == 42

def child_traces_itself():
    pid = os.fork()
    if pid == 0:
        os._exit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) != 0)
    return os.waitpid(pid, 0)[1] == 0

def reads_memory():
    libc, text, found = ctypes.CDLL(None), ctypes.create_string_buffer(b"text"), ctypes.create_string_buffer(4)
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
    here, there = Vector(ctypes.addressof(found), 4), Vector(ctypes.addressof(text), 4)
    return libc.process_vm_readv(os.getpid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0) == 4

def in_a_thread():
    said = []
    thread = threading.Thread(target=said.append, args=(1,))
    thread.start()
    thread.join()
    return said == [1]

def main():
    tried = {
        "fork": lambda: by("fork"),
        "spawn": lambda: by("spawn"),
        "forkserver": lambda: by("forkserver"),
        "thread": in_a_thread,
        "shell": lambda: subprocess.run(["bash", "-c", "exit $(( $(echo 3 | cat) - 3 ))"]).returncode == 0,
        "terminal": lambda: os.isatty(pty.openpty()[1]),
        "shared memory": lambda: bool(mmap.mmap(-1, 4096)) and bool(os.memfd_create("x")),
        "sockets": lambda: all(socket.socket(family).fileno() for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)),
        "poll": lambda: select.epoll().close() is None,
        "trace of a child": child_traces_itself,
        "memory of a process": reads_memory,
        "affinity": lambda: bool(os.sched_getaffinity(0)),
        "timers": lambda: signal.setitimer(signal.ITIMER_REAL, 0) == (0.0, 0.0),
    }
    for name, how in tried.items():
        print(json.dumps([name, how()]), flush=True)

if __name__ == "__main__":
    main()
"""


def harmless(name: str) -> list[int]:
    """Arguments by which a call that is let through does nothing, or fails otherwise."""
    flags = {"unshare": 0x10000000, "clone": 0x10000000 | 17, "socket": 38}  # CLONE_NEWUSER, SIGCHLD, AF_ALG
    return {"ioctl": [0, 0x5412, 0]}.get(name, [flags.get(name, -1), *[0] * 5])


@pytest.mark.skipif(not seccomp.filter_for(), reason="no filter is known for this machine")
@pytest.mark.parametrize("level", [1, 2])
def test_each_call_that_is_refused_is_refused_in_a_sandbox(tmp_path: Path, level: int) -> None:
    column = MACHINES[platform.machine()][0]
    expected = dict.fromkeys(seccomp._NOT_PERMITTED, "EPERM") | dict.fromkeys(seccomp._NOT_KNOWN, "ENOSYS")
    expected |= {"unshare": "EPERM", "clone": "EPERM", "ioctl": "EPERM", "socket": "EAFNOSUPPORT"}
    numbers = {name: by[column] for name, by in (seccomp._NOT_PERMITTED | seccomp._NOT_KNOWN).items()}
    numbers |= {name: by[column] for name, by, *_ in seccomp._BY_ARGUMENT}
    asked = [[name, number, harmless(name)] for name, number in numbers.items() if number >= 0]
    engine = a_local_engine(tmp_path, isolation=a_level(level, tmp_path))
    engine.start(engine.render(python(ASKS, json.dumps(asked))))
    until(engine, *FINAL_REPLICA_STATES)
    found = dict(json.loads(line["m"]) for line in engine.logs(ATTEMPT, "chief-0", 0) if line["s"] == "out")
    assert found.pop("filters") == "2"
    assert found == {name: expected[name] for name, _, _ in asked}


@pytest.mark.parametrize("level", [1, 2])
def test_what_programs_need_is_let_through(tmp_path: Path, level: int) -> None:
    engine = a_local_engine(tmp_path, isolation=a_level(level, tmp_path))
    script = (
        f"open('needed.py', 'w').write({NEEDED!r}); import runpy, sys; sys.argv = ['needed.py']; sys.path[0] = '.';"
    )
    engine.start(engine.render(python(script + " runpy.run_path('needed.py', run_name='__main__')")))
    seen = until(engine, *FINAL_REPLICA_STATES)
    lines = [line["m"] for line in engine.logs(ATTEMPT, "chief-0", 0)]
    assert seen.state.name == "SUCCEEDED", lines
    found = dict(json.loads(line) for line in lines if line.startswith("["))
    assert len(found) == 13 and all(found.values()), found
