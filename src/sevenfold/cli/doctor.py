"""`sevenfold doctor`: what this machine offers, and how to get the rest."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from msgspec import Struct

import sevenfold
from sevenfold.agent.sandbox.machine import this_machine
from sevenfold.agent.sandbox.policy import make_policy
from sevenfold.agent.sandbox.sandbox import Sandbox
from sevenfold.agent.tools.searchers import find_ripgrep
from sevenfold.cli.text import clean, folder_path, size, write
from sevenfold.providers import registry
from sevenfold.stores.home import user_home
from sevenfold.stores.settings_files import FILE, load
from sevenfold.stores.trust import Trust, user_folder

EXTRAS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "agent": "tree_sitter_bash",
    "chat": "prompt_toolkit",
    "mcp": "mcp",
    "gateway": "h11",
    "postgres": "psycopg",
    "objects": "obstore",
}
"""An extra and a module that it brings."""
LEAST_FREE = 1_000_000_000
"""Bytes on the disk below which sessions may soon not be kept any more."""
_SIGNS = {"good": "ok ", "weak": "-- ", "bad": "!! "}


class Checkup(Struct, frozen=True):
    """One line of the report."""

    subject: str
    says: str
    verdict: Literal["good", "weak", "bad"] = "good"
    """``weak``: something is missing that one can do without. ``bad``: something will not work."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("folder", nargs="?", type=folder_path, default=".", metavar="FOLDER")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns 1 if something will not work, else 0."""
    checkups = list(_checkups(options.folder))
    lines = [
        f"{_SIGNS[checkup.verdict]} {checkup.subject:<10} {clean(checkup.says)}\n" for checkup in checkups
    ]
    write("".join(lines))
    return int(any(checkup.verdict == "bad" for checkup in checkups))


def _checkups(folder: Path) -> Iterator[Checkup]:
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    yield Checkup("sevenfold", f"{sevenfold.__version__}; {system}")
    yield _sandbox(folder)
    yield from _programs()
    yield _provider()
    yield _settings(folder)
    yield _store()
    yield _extras()


def _sandbox(folder: Path) -> Checkup:
    settings = load(folder).settings
    sandbox = Sandbox(
        settings.sandbox, lambda: make_policy(folder), user_home().root, hosts=settings.sandbox_hosts
    )
    return sandbox_checkup(sandbox)


def sandbox_checkup(sandbox: Sandbox) -> Checkup:
    """What to say about a sandbox."""
    state = sandbox.state
    if sandbox.is_off and this_machine().mechanism is not None:
        return Checkup("sandbox", f"{state.details}; it would work here: set it to auto", "weak")
    if sandbox.refusal:
        return Checkup("sandbox", state.details, "bad")
    return Checkup("sandbox", state.details, "weak" if state.weak else "good")


def _programs() -> Iterator[Checkup]:
    bash = shutil.which("bash")
    yield Checkup("bash", bash) if bash else Checkup("bash", "missing: an agent cannot run commands", "bad")
    git = shutil.which("git")
    missing = "missing: no worktrees, and nothing is known about a repository"
    yield Checkup("git", git) if git else Checkup("git", missing, "weak")
    if find_ripgrep() is None:
        slower = "ripgrep is missing, so searches are slower: pip install 'sevenfold[agent]'"
        yield Checkup("search", slower, "weak")
    else:
        yield Checkup("search", "ripgrep")


def _provider() -> Checkup:
    configured: list[str] = []
    missing: list[str] = []
    for provider in registry.providers():
        problem = provider.unconfigured()
        if not problem:
            configured.append(provider.name)
        elif provider.name != registry.OFFLINE.name:
            missing.append(problem)
    if configured:
        return Checkup("model", f"configured: {', '.join(dict.fromkeys(configured))}")
    missing = list(dict.fromkeys(missing))
    return Checkup(
        "model", f"{'; '.join(missing)}; until then an offline model repeats what you say", "weak"
    )


def _settings(folder: Path) -> Checkup:
    path = user_folder(os.environ) / FILE
    resolved = load(folder)
    if resolved.notes:
        return Checkup("settings", f"{path}: {'; '.join(resolved.notes)}", "weak")
    trusted = ", folder trusted" if Trust(user_folder(os.environ)).covers(folder) else ""
    return Checkup(
        "settings", f"{path}{'' if path.exists() else ' (not there, so all are defaults)'}{trusted}"
    )


def _store() -> Checkup:
    root = user_home().root
    existing = next(path for path in (root, *root.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        return Checkup(
            "sessions", f"{root} cannot be written; set SEVENFOLD_HOME to a folder of yours", "bad"
        )
    free = shutil.disk_usage(existing).free
    if free < LEAST_FREE:
        return Checkup(
            "sessions", f"{root}: only {size(free)} free; 'sevenfold gc' removes old results", "weak"
        )
    return Checkup("sessions", f"{root}, {size(free)} free")


def _extras() -> Checkup:
    absent = [extra for extra, module in EXTRAS.items() if find_spec(module) is None]
    if not absent:
        return Checkup("extras", "all installed")
    return Checkup("extras", f"not installed: pip install 'sevenfold[{','.join(absent)}]'", "weak")
