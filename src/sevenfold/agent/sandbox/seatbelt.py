"""Profiles for sandbox-exec, the sandbox of macOS.

Written to the documentation of the profile language, and untested: `sevenfold doctor` and the docs say so. Later rules
count more than earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sevenfold.agent.sandbox.bubblewrap import PrivatePlaces
from sevenfold.agent.sandbox.policy import SandboxPolicy

PROGRAM = "/usr/bin/sandbox-exec"
_SYSTEM = ("/System", "/Library", "/private/etc", "/private/var/db", "/dev", "/Applications/Xcode.app")


def command_line(policy: SandboxPolicy, private: PrivatePlaces, argv: Sequence[str]) -> list[str]:
    """The command line that runs ``argv`` with the rules of the policy."""
    return [PROGRAM, "-p", profile(policy, private), *argv]


def profile(policy: SandboxPolicy, private: PrivatePlaces) -> str:
    """The profile: nothing is allowed but what the policy names; there is no network."""
    return "\n".join(_lines(policy, private)) + "\n"


def _lines(policy: SandboxPolicy, private: PrivatePlaces) -> Iterator[str]:
    yield "(version 1)"
    yield "(deny default)"
    yield '(import "system.sb")'
    yield "(allow process-exec process-fork signal (target same-sandbox))"
    yield "(allow sysctl-read file-read-metadata)"
    yield from (f"(allow file-read* (subpath {_quoted(folder)}))" for folder in _SYSTEM)
    for folder in (private.home, private.temporary):
        yield f"(allow file-read* file-write* (subpath {_quoted(str(folder))}))"
    for rule in policy.rules:
        path = f"(subpath {_quoted(str(rule.path))})"
        match rule.access:
            case "read":
                yield f"(allow file-read* {path})"
                yield f"(deny file-write* {path})"
            case "write":
                yield f"(allow file-read* file-write* {path})"
            case "hidden":
                yield f"(deny file-read* file-write* {path})"
            case "absent":
                yield f"(deny file-write* {path})"
    yield "(deny network*)"


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
