"""The signs lines begin with, in a rich and in a poor alphabet; each says by itself what colour only underlines."""

from __future__ import annotations

from msgspec import Struct


class Signs(Struct, frozen=True):
    """One alphabet."""

    prompt: str = "›"
    working: tuple[str, ...] = ("◐", "◓", "◑", "◒")
    done: str = "✓"
    failed: str = "✗"
    layer: str = "◆"
    note: str = "·"
    warning: str = "▲"
    error: str = "✗"
    queued: str = "⋯"
    pointer: str = "❯"
    full: str = "█"
    free: str = "░"
    mark: str = "┊"
    bar: str = "│"
    dot: str = " · "
    cut: str = "…"
    arrow: str = "→"


RICH = Signs()
POOR = Signs(
    prompt=">",
    working=("|", "/", "-", "\\"),
    done="+",
    failed="x",
    layer="*",
    note="-",
    warning="!",
    error="x",
    queued="~",
    pointer=">",
    full="#",
    free=".",
    mark=":",
    bar="|",
    dot=" - ",
    cut="...",
    arrow="->",
)


def signs_for(encoding: str | None) -> Signs:
    """The alphabet an encoding can write."""
    try:
        "".join(one if isinstance(one, str) else "".join(one) for one in _values(RICH)).encode(
            encoding or "ascii"
        )
    except (UnicodeEncodeError, LookupError):
        return POOR
    return RICH


def _values(signs: Signs) -> tuple[str | tuple[str, ...], ...]:
    return tuple(getattr(signs, name) for name in Signs.__struct_fields__)
