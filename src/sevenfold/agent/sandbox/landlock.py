"""Rules for Landlock, the access control that a Linux process can put on itself.

Landlock only allows: what is allowed for a folder holds for everything below it. So a file in the workspace cannot be
guarded, and where something below a folder is hidden, the folder's other entries are allowed one by one. It knows
neither hosts nor UDP, so commands get a network of their own where the kernel lets them create one.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sevenfold.agent.sandbox.bubblewrap import PrivatePlaces
from sevenfold.agent.sandbox.calls import call_filter
from sevenfold.agent.sandbox.policy import SandboxPolicy

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
"""Without the terminals (/dev/pts) and the memory (/dev/shm) of other programs of the user's."""
_CREATE_RULESET = 444
_ASK_VERSION = 1
_PROGRAM = Path(__file__).with_name("confine.py")


def version() -> int:
    """The version of Landlock in this kernel; 0 if there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.syscall(
        ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION)
    )
    return max(0, found)


def command_line(policy: SandboxPolicy, private: PrivatePlaces, argv: Sequence[str]) -> list[str]:
    """The command line that runs ``argv`` with the rules of the policy."""
    hidden = [rule.path for rule in policy.rules if rule.access == "hidden"]
    rules: dict[str, object] = {"network": "none", "device": [f"/dev/{name}" for name in DEVICES]}
    read: list[str] = ["/proc"]
    write: list[str] = [str(private.home), str(private.temporary)]
    for rule in policy.rules:
        if rule.access == "read":
            read += map(str, _without(rule.path, hidden))
        elif rule.access == "write":
            write += map(str, _without(rule.path, hidden))
    rules |= {"read": read, "write": write, "calls": call_filter().hex()}
    program = [os.path.realpath(sys.executable), "-I", "-S", str(_PROGRAM)]
    return [*program, msgspec.json.encode(rules).decode(), *argv]


def _without(path: Path, hidden: Sequence[Path]) -> Iterator[Path]:
    """The path, or the entries below it that are not hidden, if some are."""
    if path in hidden:
        return
    if not any(other.is_relative_to(path) for other in hidden):
        yield path
        return
    try:
        entries = sorted(path.iterdir())
    except OSError:
        return
    for entry in entries:
        if not entry.is_symlink():
            yield from _without(entry, hidden)
