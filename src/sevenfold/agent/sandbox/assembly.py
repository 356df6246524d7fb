"""The sandbox of an agent: what is visible and hidden follows from its folders, settings and rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sevenfold.agent.permissions.engine import Permissions
from sevenfold.agent.sandbox.policy import SandboxPolicy, make_policy
from sevenfold.agent.sandbox.sandbox import Sandbox
from sevenfold.errors import Refused
from sevenfold.stores.home import user_home
from sevenfold.stores.trust import user_folder

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly

MOST_FILES = 200_000
"""How many files of a workspace are compared with rules that forbid reading."""


def make_sandbox(agent: Assembly, permissions: Callable[[], Permissions]) -> Sandbox:
    """The sandbox for an agent's commands, as the settings wish."""
    settings = agent.store.settings.current()
    home = agent.home
    workspace = agent.workspace
    readable = tuple(Path(entry).expanduser() for entry in settings.sandbox_read)
    own = [folder for folder in (home.results, home.folder / "tasks") if folder is not None]
    store = agent.options.get("store")
    hidden = [user_folder(os.environ), user_home().root, home.folder]
    if isinstance(store, Path) or (isinstance(store, str) and "://" not in store):
        hidden.append(Path(store))

    def policy() -> SandboxPolicy:
        now = permissions()
        return make_policy(
            workspace,
            writable=agent.roots,
            unguarded=[home.scratch],
            readable=[path.resolve() for path in (*readable, *own) if path.exists()],
            hidden=[path.expanduser().resolve() for path in hidden],
            denied=_denied(now, (workspace, *agent.roots)) if now.denies_some_reading else (),
            hosts=settings.sandbox_hosts,
        )

    return Sandbox(settings.sandbox, policy, home.folder, hosts=settings.sandbox_hosts)


def _denied(permissions: Permissions, roots: tuple[Path, ...]) -> Iterator[Path]:
    """The files of the workspace that rules forbid to read; raises `Refused` if there are too many files to look at."""
    looked_at = 0
    for root in roots:
        for folder, _, files in os.walk(root):
            looked_at += len(files)
            if looked_at > MOST_FILES:
                raise Refused(
                    f"The workspace has more than {MOST_FILES:,} files, too many to hide those from a command "
                    "that your rules forbid to read."
                )
            for name in files:
                path = Path(folder, name)
                if permissions.denies_reading(str(path)):
                    yield path.resolve()
