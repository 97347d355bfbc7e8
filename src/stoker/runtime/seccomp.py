"""The filter of system calls that every program in a sandbox runs under: a small program of the kernel's own (seccomp(2)).

Refused is what a training program has no use for, and what most ways out of a sandbox have begun with: mounts, namespaces, keys,
programs and counters in the kernel, io_uring, modules. Without its powers (capabilities) a program could use little of that
anyway; here the kernel's code for it is not even reached. What a library tries first and can do without is answered "not known"
(ENOSYS), so that it takes the older way; all else "not permitted" (EPERM). Nothing is killed.

To trace processes (gdb, py-spy) is allowed: those of other sandboxes have no number in this one's PID namespace.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import Dict, List, Optional, Tuple

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the tables, AUDIT_ARCH_*
_FIRST_OF_X32 = 0x40000000

# name: its numbers on x86_64 and aarch64; -1 where it is not known.
_NOT_PERMITTED: Dict[str, Tuple[int, int]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "open_by_handle_at": (304, 265),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "vhangup": (153, 58),
}
_NOT_KNOWN: Dict[str, Tuple[int, int]] = {
    "clone3": (435, 435),  # its flags lie in memory, where no filter can look; the C library falls back to clone
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET
_NEW_TIME = 0x80  # CLONE_NEWTIME; to clone these bits are a signal

# (name, numbers, which argument, its bits that are refused, the values that are refused, the answer)
_BY_ARGUMENT: Tuple[Tuple[str, Tuple[int, int], int, int, Tuple[int, ...], int], ...] = (
    ("unshare", (272, 97), 0, _NEW_NAMESPACES | _NEW_TIME, (), errno.EPERM),
    ("clone", (56, 220), 0, _NEW_NAMESPACES, (), errno.EPERM),
    ("ioctl", (16, 29), 1, 0, (0x5412, 0x541C), errno.EPERM),  # TIOCSTI, TIOCLINUX: to type into a terminal
    (
        "socket",
        (41, 198),
        0,
        0,
        (38, 40),
        errno.EAFNOSUPPORT,
    ),  # AF_ALG: ciphers of the kernel's; AF_VSOCK: the hypervisor
)

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = (
    0x20,
    0x15,
    0x35,
    0x45,
    0x06,
)  # BPF_LD|W|ABS, BPF_JMP|JEQ, JGE, JSET|K, BPF_RET
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # where they lie in struct seccomp_data
_ALLOW, _ANSWER = 0x7FFF0000, 0x00050000  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO

_made: Dict[str, bytes] = {}


def filter_for(machine: Optional[str] = None) -> bytes:
    """The filter for a machine (as `uname -m` says; this one's if none is said); empty where none is known."""
    machine = machine or os.uname().machine
    if machine not in _ARCHITECTURES:
        return b""
    if machine not in _made:
        _made[machine] = b"".join(_assemble(*_ARCHITECTURES[machine]))
    return _made[machine]


def _assemble(column: int, architecture: int) -> List[bytes]:
    """The instructions. A call in the way of another architecture is not known: it would have other numbers."""
    words = [
        _word(_LOAD, _ARCHITECTURE),
        _word(_EQUAL, architecture, skip_if=1),
        _answer(errno.ENOSYS),
        _word(_LOAD, _NUMBER),
    ]
    if column == 0:
        words += [_word(_AT_LEAST, _FIRST_OF_X32, skip_else=1), _answer(errno.ENOSYS)]
    for table, code in ((_NOT_PERMITTED, errno.EPERM), (_NOT_KNOWN, errno.ENOSYS)):
        for numbers in table.values():
            if numbers[column] >= 0:
                words += [_word(_EQUAL, numbers[column], skip_else=1), _answer(code)]
    for _, numbers, argument, bits, values, code in _BY_ARGUMENT:
        tests = [(_ANY_BIT, bits)] if bits else [(_EQUAL, value) for value in values]
        looks = [_word(_LOAD, _ARGUMENTS + 8 * argument)]  # its lower half: the kernel takes no more of these
        for test, value in tests:
            looks += [_word(test, value, skip_else=1), _answer(code)]
        looks += [_word(_RETURN, _ALLOW)]
        words += [_word(_EQUAL, numbers[column], skip_else=len(looks)), *looks]
    return [*words, _word(_RETURN, _ALLOW)]


def _answer(code: int) -> bytes:
    return _word(_RETURN, _ANSWER | code)


def _word(operation: int, value: int, *, skip_if: int = 0, skip_else: int = 0) -> bytes:
    """One instruction; a test skips as many of the next if it holds, or if not (struct sock_filter)."""
    return struct.pack("=HBBI", operation, skip_if, skip_else, value)
