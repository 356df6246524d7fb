"""Runs a command with the access rules of Landlock, and without a network where the kernel lets it.

It is a program of its own that imports nothing of Sevenfold, so that it starts quickly. Arguments: the rules as JSON
(`sevenfold.agent.sandbox.landlock` writes them), and the command. Whatever cannot be enforced ends it: the command
then does not run.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

CREATE_RULESET = 444
ADD_RULE = 445
RESTRICT_SELF = 446
ASK_VERSION = 1
PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38
PR_CAPBSET_DROP = 24
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
CLONE_NEWIPC = 0x08000000
MOST_CAPABILITIES = 64
CANNOT = 125

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
ALL_OF_ABI_1 = (1 << 13) - 1
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEVICE = 1 << 15
READING = EXECUTE | READ_FILE | READ_DIR
FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
TCP = 0b11
SCOPES = 0b11

LIBC = ctypes.CDLL(None, use_errno=True)


class Ruleset(ctypes.Structure):
    """``struct landlock_ruleset_attr``."""

    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class PathBeneath(ctypes.Structure):
    """``struct landlock_path_beneath_attr``."""

    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def call(number: int, *arguments: object) -> int:
    """A system call; raises OSError if it fails."""
    result: int = LIBC.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}: {os.strerror(ctypes.get_errno())}")
    return result


def without_network() -> bool:
    """Move to a network of one's own, which has no way out; False if the kernel does not allow it."""
    user = os.getuid()
    group = os.getgid()
    if LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) != 0:
        return False
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path(f"/proc/self/{name}").write_text(text)
    return True


def drop_capabilities() -> None:
    """Give up for good what a namespace of one's own would allow."""
    for capability in range(MOST_CAPABILITIES):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def restrict(rules: dict[str, list[str]], *, tcp: bool) -> None:
    """Apply the rules to this process and all it starts."""
    version = call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(ASK_VERSION))
    handled = ALL_OF_ABI_1
    for least, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEVICE)):
        handled |= right if version >= least else 0
    attributes = Ruleset(handled, TCP if tcp and version >= 4 else 0, SCOPES if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = call(CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    for kind, allowed in (
        ("read", READING),
        ("write", handled),
        ("device", READ_FILE | WRITE_FILE | IOCTL_DEVICE),
    ):
        for path in rules[kind]:
            try:
                parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue  # what does not exist cannot be used either
            rights = allowed & handled if Path(path).is_dir() else allowed & handled & FOR_FILES
            beneath = PathBeneath(rights, parent)
            call(
                ADD_RULE,
                ctypes.c_int(ruleset),
                ctypes.c_int(PATH_BENEATH),
                ctypes.byref(beneath),
                ctypes.c_uint32(0),
            )
            os.close(parent)
    if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")
    call(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


class Filter(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = [("count", ctypes.c_uint16), ("program", ctypes.c_char_p)]


def filter_calls(program: bytes) -> None:
    """Refuse the system calls that the program names; an empty one names none."""
    if not program:
        return
    described = Filter(len(program) // 8, program)
    if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "system calls cannot be filtered")


def main() -> None:
    """Confine this process, and become the command."""
    rules = json.loads(sys.argv[1])
    argv = sys.argv[2:]
    try:
        isolated = without_network() if rules["network"] == "none" else False
        drop_capabilities()
        restrict(rules, tcp=rules["network"] != "open" and not isolated)
        filter_calls(bytes.fromhex(rules["calls"]))
    except OSError as error:
        sys.stderr.write(f"sandbox: the command was not run: {error}\n")
        sys.exit(CANNOT)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
