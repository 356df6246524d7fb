"""Command lines for bubblewrap: a file system in which only what the policy names exists."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from sevenfold.agent.sandbox.policy import PathRule, SandboxPolicy

INSIDE = Path("/run/sevenfold")
"""Where the sandbox has what it needs itself."""
SOCKET = INSIDE / "proxy.sock"
FORWARD = INSIDE / "forward.py"
PORT = 3128
ROOT = Path("/")
NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")


class PrivatePlaces(Struct, frozen=True):
    """Folders outside the sandbox that commands see in place of others, for as long as the agent lives."""

    folder: Path

    @property
    def home(self) -> Path:
        """The private home."""
        return self.folder / "home"

    @property
    def temporary(self) -> Path:
        """What commands see as /tmp."""
        return self.folder / "tmp"

    @property
    def nothing(self) -> Path:
        """An empty folder, in place of those that must not exist."""
        return self.folder / "nothing"

    def create(self) -> None:
        """Create the folders."""
        for path in (self.home, self.temporary, self.nothing):
            path.mkdir(mode=0o700, exist_ok=True)


def command_line(
    program: str,
    policy: SandboxPolicy,
    private: PrivatePlaces,
    argv: Sequence[str],
    *,
    cwd: str,
    proxy: Path | None = None,
    nested: bool = False,
    call_filter: int | None = None,
) -> list[str]:
    """The command line that runs ``argv`` in the sandbox; ``proxy`` is the socket of the way out, if there is one.

    With ``nested``, commands may create namespaces of their own, because this bubblewrap cannot forbid it.
    ``call_filter`` is the descriptor from which it reads the filter of system calls.
    """
    line = [program, *NAMESPACES, "--unshare-cgroup-try", "--hostname", "sandbox", "--cap-drop", "ALL"]
    if not nested:
        line.append("--disable-userns")
    # A user may have made the whole file system part of the workspace. It must not cover what comes after it.
    root = [rule for rule in policy.rules if rule.path == ROOT]
    for rule in root:
        line += _mount(rule, policy, private)
    if call_filter is not None:
        line += ["--seccomp", str(call_filter)]
    # Settings of the whole machine are files in /proc, which the administrator may write without any capability.
    line += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--tmpfs", "/run"]
    for entry in sorted(ROOT.iterdir()):
        if entry.is_symlink() and not root:
            line += ["--symlink", str(entry.readlink()), str(entry)]
    line += ["--bind", str(private.temporary), "/tmp", "--bind", str(private.temporary), "/var/tmp"]
    line += ["--bind", str(private.home), str(policy.home)]
    for rule in policy.rules:
        if rule.path != ROOT:
            line += _mount(rule, policy, private)
    if proxy is not None:
        line += ["--ro-bind", str(proxy), str(SOCKET)]
        line += ["--ro-bind", str(Path(__file__).with_name("forward.py")), str(FORWARD)]
        line += _interpreter(policy)
        argv = [_python(), "-I", "-S", str(FORWARD), str(SOCKET), str(PORT), *argv]
    if not root:
        line += ["--remount-ro", "/"]
    return [*line, "--chdir", cwd, "--", *argv]


def _mount(rule: PathRule, policy: SandboxPolicy, private: PrivatePlaces) -> Iterator[str]:
    path = str(rule.path)
    match rule.access:
        case "read":
            yield from ("--ro-bind-try", path, path)
        case "write":
            yield from ("--bind", path, path)
        case "absent":
            yield from ("--ro-bind", str(private.nothing), path)
        case "hidden" if not _shown_around(rule, policy):
            pass  # nothing around it is shown, so it does not exist anyway
        case "hidden" if rule.path.is_dir():
            yield from ("--perms", "0700", "--tmpfs", path, "--remount-ro", path)
        case "hidden" if rule.path.exists():
            yield from ("--ro-bind", os.devnull, path)


def _shown_around(rule: PathRule, policy: SandboxPolicy) -> bool:
    return any(
        other.access in ("read", "write")
        and other.path != rule.path
        and rule.path.is_relative_to(other.path)
        for other in policy.rules
    )


def _python() -> str:
    return os.path.realpath(sys.executable)


def _interpreter(policy: SandboxPolicy) -> list[str]:
    """What the forwarder needs of Python, where the policy does not show it anyway."""
    base = Path(sys.base_prefix).resolve()
    shown = policy.access(base) in ("read", "write")
    return [] if shown else ["--ro-bind", str(base), str(base)]
