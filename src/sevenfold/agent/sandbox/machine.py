"""Which mechanism for confining commands works on this machine, found out by trying."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct

from sevenfold.agent.sandbox import landlock, seatbelt
from sevenfold.agent.sandbox.bubblewrap import NAMESPACES

Kind = Literal["bubblewrap", "landlock", "seatbelt"]
PLACES = (
    "/usr/bin",
    "/bin",
    "/usr/local/bin",
    "/run/current-system/sw/bin",
    "/nix/var/nix/profiles/default/bin",
)
"""Where bubblewrap may be. Not the search path: a folder in it may belong to a workspace."""
SECONDS = 10.0
INSTALL = "install the package bubblewrap (for example: sudo apt-get install bubblewrap)"
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000


class Mechanism(Struct, frozen=True):
    """A way to confine commands."""

    kind: Kind
    program: str = ""
    nested: bool = False
    """Whether commands can create namespaces of their own, because this bubblewrap cannot forbid it."""
    isolates_network: bool = True
    """Whether commands can be kept from the network altogether."""


class Machine(Struct, frozen=True):
    """What this machine offers."""

    mechanism: Mechanism | None
    """The strongest that works; None if none does."""
    problems: tuple[str, ...] = ()
    """Why stronger ones do not, and what to do about it."""


@cache
def this_machine() -> Machine:
    """What this machine offers; tried once in a process."""
    if sys.platform == "darwin":
        if Path(seatbelt.PROGRAM).exists():
            return Machine(Mechanism("seatbelt", seatbelt.PROGRAM))
        return Machine(None, (f"{seatbelt.PROGRAM} is missing",))
    if not sys.platform.startswith("linux"):
        return Machine(None, (f"there is no sandbox for {sys.platform}",))
    found, problem = _bubblewrap()
    if found is not None:
        return Machine(found)
    version = landlock.version()
    if version == 0:
        return Machine(None, (problem, "this kernel has no Landlock (Linux 5.13 or newer, switched on)"))
    isolates = can_isolate_network()
    return Machine(Mechanism("landlock", isolates_network=isolates), (problem,))


def _bubblewrap() -> tuple[Mechanism | None, str]:
    """Bubblewrap, if it works; else why not."""
    program = next((path for folder in PLACES if os.access(path := f"{folder}/bwrap", os.X_OK)), None)
    if program is None:
        return None, f"bubblewrap is not installed; {INSTALL}"
    problem = ""
    for nested in (False, True):
        problem = _try(program, nested=nested)
        if not problem:
            return Mechanism("bubblewrap", program, nested), ""
    hint = ""
    if (
        "permission" in problem.lower()
        or "namespace" in problem.lower()
        or "not permitted" in problem.lower()
    ):
        hint = (
            "; this system forbids namespaces to users (on Ubuntu, a profile of AppArmor for bwrap allows them; in a "
            "container, its options do)"
        )
    return None, f"{program} does not work here: {problem}{hint}"


def _try(program: str, *, nested: bool) -> str:
    """Why bubblewrap does not work; empty if it does."""
    line = [program, *NAMESPACES, *([] if nested else ["--disable-userns"]), "--ro-bind", "/", "/"]
    line += ["--proc", "/proc", "--dev", "/dev", "--", "/bin/sh", "-c", "exit 0"]
    try:
        ran = subprocess.run(
            line, capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL, cwd="/", check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if ran.returncode == 0:
        return ""
    return ran.stderr.decode(errors="replace").strip().partition("\n")[0] or f"exit code {ran.returncode}"


def can_isolate_network() -> bool:
    """Whether an ordinary process may create a network of its own."""
    code = (
        "import ctypes, sys; "
        f"sys.exit(ctypes.CDLL(None).unshare({_CLONE_NEWUSER | _CLONE_NEWNET}) != 0 or "
        "open('/proc/self/setgroups', 'w').write('deny') != 4)"
    )
    line = [os.path.realpath(sys.executable), "-I", "-S", "-c", code]
    try:
        ran = subprocess.run(
            line, capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL, cwd="/", check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0
