"""What was done to keep conversations within their windows, and what that saved and cost."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.events import Acted


class KeptFigures(Struct, frozen=True):
    """What our layers did, and what it saved and cost."""

    summaries: int = 0
    moved: int = 0
    """Tool results that are shown as previews."""
    cleared: int = 0
    """Tool results that were cleared."""
    saved_usd: float = 0.0
    """What changed requests cost less than the program's own would have, by the usage that providers reported."""
    own_usd: float = 0.0
    """What our own calls cost, as far as their prices are known."""

    def __add__(self, other: KeptFigures) -> KeptFigures:
        """The figures of both."""
        return KeptFigures(
            self.summaries + other.summaries,
            self.moved + other.moved,
            self.cleared + other.cleared,
            self.saved_usd + other.saved_usd,
            self.own_usd + other.own_usd,
        )

    def after(self, acted: Acted) -> KeptFigures:
        """The figures after a layer has acted."""
        match acted.layer:
            case "compact":
                return replace(self, summaries=self.summaries + 1)
            case "offload":
                return replace(self, moved=self.moved + acted.items)
            case "clear":
                return replace(self, cleared=self.cleared + acted.items)
            case _:
                return self
