"""What other packages add to the engine: entry points in their metadata.

    sevenfold.layers      a layer, or a class of layers, by the name it is chosen with
    sevenfold.providers   a `Provider`, or a function that makes one
    sevenfold.stores      a function that makes a store from its URL, by the scheme
    sevenfold.agents      a function that makes an agent, by the name that jobs give
    sevenfold.tools       a function or a tool that a server can carry out, by the name it is chosen with
    sevenfold.commands    a module with `arguments` and `run`, by the command's name

They are looked for only when something is named that the engine itself does not have. A plugin that cannot be loaded
costs one warning, and the program continues without it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

LAYERS = "sevenfold.layers"
PROVIDERS = "sevenfold.providers"
AGENTS = "sevenfold.agents"
COMMANDS = "sevenfold.commands"
TOOLS = "sevenfold.tools"

_log = logging.getLogger(__name__)


# A tuple, not a Struct: `sevenfold --help` looks for commands here and is not to load msgspec.
class Plugin(NamedTuple):
    """An entry point that a package has in its metadata."""

    group: str
    name: str
    package: str
    """The name of the package that brings it."""
    entry: Any

    def load(self) -> Any:
        """What the entry point names; None, and a warning, if it cannot be loaded."""
        try:
            return self.entry.load()
        except Exception as error:  # noqa: BLE001 (whatever a plugin does, the program continues without it)
            self.warn(f"{type(error).__name__}: {error}")
            return None

    def warn(self, problem: str) -> None:
        """Warn that the plugin is left out, and why."""
        _log.warning(
            "the plugin %s (%s) of the package %s is left out: %s; update or uninstall the package",
            self.name,
            self.group,
            self.package,
            problem,
        )


def plugins(group: str, name: str | None = None) -> list[Plugin]:
    """The plugins of a group that are installed, or those with this name; nothing of theirs is imported."""
    from importlib.metadata import entry_points  # slow to import, and most programs use no plugins

    entries = entry_points(group=group) if name is None else entry_points(group=group, name=name)
    return [Plugin(group, entry.name, _package(entry), entry) for entry in entries]


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value
