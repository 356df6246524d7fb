"""From things rich prints to the characters a terminal gets: for a width, with as much colour as is wanted."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from rich.console import Console, RenderableType

Colours = Literal["none", "plain", "some", "many", "all"]
_SYSTEMS: dict[Colours, Literal["standard", "256", "truecolor"] | None] = {
    "none": None,
    "plain": "standard",
    "some": "standard",
    "many": "256",
    "all": "truecolor",
}
NARROWEST = 20


class Paper(Struct, frozen=True):
    """How much a terminal can show."""

    colours: Colours = "none"
    """none: characters only; plain: bold and dim, but no colour."""

    def ansi(self, *shown: RenderableType, width: int) -> str:
        """The characters for it."""
        target = io.StringIO()
        console = Console(
            file=target,
            width=max(NARROWEST, width),
            force_terminal=True,
            color_system=_SYSTEMS[self.colours],
            no_color=self.colours in ("none", "plain"),
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )
        for one in shown:
            console.print(one)
        return target.getvalue()


def colours_of(environ: Mapping[str, str]) -> Colours:
    """How much colour the environment asks for; see https://no-color.org."""
    term = environ.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        return "none"
    if environ.get("NO_COLOR"):
        return "plain"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "all"
    return "many" if "256" in term else "some"
