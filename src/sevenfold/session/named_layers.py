"""Layers that are chosen by name: those that installed packages bring."""

from __future__ import annotations

from collections.abc import Sequence

from sevenfold.conversation.layer import Layer
from sevenfold.errors import InputError
from sevenfold.plugins import LAYERS, Plugin, plugins


def resolved(layers: Sequence[Layer | str], *, where: str = "layers") -> list[Layer]:
    """The layers, with each name replaced by the layer of that name; one that is broken is left out with a warning.

    ``where`` says in an error where the names come from.
    """
    chosen: list[Layer] = []
    for layer in layers:
        if isinstance(layer, str):
            chosen += _named(layer, where)
        else:
            chosen.append(layer)
    return chosen


def _named(name: str, where: str) -> list[Layer]:
    installed = plugins(LAYERS, name)
    if not installed:
        names = ", ".join(sorted(plugin.name for plugin in plugins(LAYERS))) or "none"
        raise InputError(
            f"{where} has the name {name!r}, and no installed package brings a layer of that name; "
            f"installed are {names}. Install its package, or pass the layer itself"
        )
    layer = _made(installed[0])
    return [] if layer is None else [layer]


def _made(plugin: Plugin) -> Layer | None:
    loaded = plugin.load()
    if loaded is None:
        return None
    try:
        layer: Layer = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:  # noqa: BLE001 (whatever a plugin does, the program continues without it)
        plugin.warn(f"{type(error).__name__}: {error}")
        return None
    if not isinstance(getattr(layer, "name", None), str) or not callable(getattr(layer, "on", None)):
        plugin.warn("a layer needs a name and the method on")
        return None
    return layer
