"""The filter of system calls, run here as the kernel would run it, for both architectures."""

from __future__ import annotations

import errno
import struct

import pytest

from stoker.runtime.seccomp import filter_for

ALLOWED = 0
# The kernel's own numbers of what a filter must not get wrong: x86_64 and aarch64.
X86_64, AARCH64 = 0xC000003E, 0xC00000B7
CALLS = {
    "read": (0, 63),
    "mount": (165, 40),
    "unshare": (272, 97),
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
    "socket": (41, 198),
    "ptrace": (101, 117),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "execve": (59, 221),
}


def answer(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel would answer: 0 if the call is allowed, or the number of an error."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    words = list(struct.iter_unpack("=HBBI", program))
    at = loaded = 0
    while True:
        operation, skip_if, skip_else, value = words[at]
        at += 1
        if operation == 0x20:
            loaded = struct.unpack_from("=I", data, value)[0]
        elif operation == 0x06:
            return 0 if value == 0x7FFF0000 else value - 0x00050000
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[operation]
            at += skip_if if holds else skip_else


@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("read", (), ALLOWED),
        ("execve", (), ALLOWED),
        ("ptrace", (), ALLOWED),
        ("mount", (), errno.EPERM),
        ("bpf", (), errno.EPERM),
        ("clone3", (), errno.ENOSYS),
        ("io_uring_setup", (), errno.ENOSYS),
        ("unshare", (0x10000000,), errno.EPERM),  # CLONE_NEWUSER
        ("unshare", (0x00020000,), errno.EPERM),  # CLONE_NEWNS
        ("unshare", (0x80,), errno.EPERM),  # CLONE_NEWTIME
        ("unshare", (0x400,), ALLOWED),  # CLONE_FILES
        ("clone", (0x10000000 | 17,), errno.EPERM),
        ("clone", (0x003D0F00,), ALLOWED),  # a thread
        ("clone", (17,), ALLOWED),  # a process, with SIGCHLD at its end
        ("ioctl", (0, 0x5412), errno.EPERM),  # TIOCSTI
        ("ioctl", (0, 0x5412 | 1 << 32), errno.EPERM),  # the kernel looks at the lower half alone
        ("ioctl", (0, 0x541C), errno.EPERM),  # TIOCLINUX
        ("ioctl", (0, 0x5413), ALLOWED),  # TIOCGWINSZ
        ("socket", (2, 1), ALLOWED),
        ("socket", (1, 1), ALLOWED),
        ("socket", (38, 5), errno.EAFNOSUPPORT),
        ("socket", (40, 1), errno.EAFNOSUPPORT),
    ],
)
@pytest.mark.parametrize(("machine", "architecture", "column"), [("x86_64", X86_64, 0), ("aarch64", AARCH64, 1)])
def test_what_is_answered(
    machine: str, architecture: int, column: int, call: str, arguments: tuple[int, ...], expected: int
) -> None:
    assert answer(filter_for(machine), architecture, CALLS[call][column], *arguments) == expected


def test_calls_in_the_way_of_another_architecture_are_not_known() -> None:
    assert answer(filter_for("x86_64"), 0x40000003, 3) == errno.ENOSYS  # i386
    assert answer(filter_for("x86_64"), X86_64, 0x40000000) == errno.ENOSYS  # x32, the same numbers for the most part
    assert answer(filter_for("aarch64"), X86_64, 0) == errno.ENOSYS


def test_a_machine_that_is_not_in_the_tables_has_no_filter() -> None:
    assert filter_for("riscv64") == b""


def test_a_pipe_holds_it() -> None:
    assert all(0 < len(filter_for(machine)) <= 4096 for machine in ("x86_64", "aarch64"))
