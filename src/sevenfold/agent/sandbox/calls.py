"""The system calls that commands in the sandbox may not make, as a program for the kernel (seccomp).

File systems and networks of one's own do not cover everything: keys in the kernel are inherited, sockets of some kinds
belong to no network (those between a virtual machine and its host), and a ring of requests makes calls that no filter
sees. What is refused here looks as if this kernel did not have it.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping

from msgspec import Struct

_LOAD = 0x20
"""Load a word of the call's description."""
_IF_EQUAL = 0x15
_IF_AT_LEAST = 0x35
_RETURN = 0x06
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000
_NUMBER = 0
_ARCHITECTURE = 4
_FIRST_ARGUMENT = 16
_SECOND_ARGUMENT = 24

FAMILIES = (1, 2, 10, 16)
"""Sockets that may be made: in files, of both internet protocols, and to ask the kernel about one's own network."""
TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which type into a terminal in the user's place."""


class _Architecture(Struct, frozen=True):
    code: int
    socket: int
    ioctl: int
    refused: Mapping[str, int]


_SINCE_ALL_AGREE = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
}
_ARCHITECTURES = {
    "x86_64": _Architecture(
        0xC000003E,
        41,
        16,
        {"add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, **_SINCE_ALL_AGREE},
    ),
    "aarch64": _Architecture(
        0xC00000B7,
        198,
        29,
        {"add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, **_SINCE_ALL_AGREE},
    ),
}
_OTHER_ABI = 0x40000000
"""From here on numbers are those of another convention (x32), which would go around the list."""


def call_filter(machine: str = "") -> bytes:
    """The program for this processor, or for the one that is named; empty where its calls are not known."""
    architecture = _ARCHITECTURES.get(machine or platform.machine())
    if architecture is None:
        return b""
    refuse = _instruction(_RETURN, 0, 0, _REFUSE | errno.ENOSYS)
    allow = _instruction(_RETURN, 0, 0, _ALLOW)
    program = [
        # Programs for another processor, such as those of 32 bits, have other numbers: none of their calls is known.
        _instruction(_LOAD, 0, 0, _ARCHITECTURE),
        _instruction(_IF_EQUAL, 1, 0, architecture.code),
        refuse,
        _instruction(_LOAD, 0, 0, _NUMBER),
        _instruction(_IF_AT_LEAST, 0, 1, _OTHER_ABI),
        refuse,
    ]
    for number in sorted(architecture.refused.values()):
        program += [_instruction(_IF_EQUAL, 0, 1, number), refuse]
    families = [_instruction(_LOAD, 0, 0, _FIRST_ARGUMENT)]
    for position, family in enumerate(FAMILIES):
        # To the permission at the end, over the other comparisons and the refusal.
        families.append(_instruction(_IF_EQUAL, len(FAMILIES) - position, 0, family))
    families += [_instruction(_RETURN, 0, 0, _REFUSE | errno.EAFNOSUPPORT), allow]
    program += [_instruction(_IF_EQUAL, 0, len(families), architecture.socket), *families]
    terminal = [_instruction(_LOAD, 0, 0, _SECOND_ARGUMENT)]
    for request in TERMINAL_INPUT:
        terminal += [
            _instruction(_IF_EQUAL, 0, 1, request),
            _instruction(_RETURN, 0, 0, _REFUSE | errno.EPERM),
        ]
    program += [_instruction(_IF_EQUAL, 0, len(terminal), architecture.ioctl), *terminal, allow]
    return b"".join(program)


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
