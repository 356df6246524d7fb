"""What a gateway that keeps tells the status line: what it saved in a session, and what its own calls cost.

The program counts only its own calls, so it cannot show this. The gateway and the status line are processes of their
own; between them is a small file for each session, by the program's own name for it.
"""

from __future__ import annotations

from contextlib import suppress

from sevenfold.doors.plugins import folder

_KIND = "gateway"
LEAST_USD = 0.005
"""What is shown as a cent at least."""


def tell(session: str, saved_usd: float, own_usd: float) -> None:
    """Write down the figures of a session; a status line without them is no reason to fail."""
    with suppress(OSError):
        folder.write(folder.file_for(_KIND, session), {"saved_usd": saved_usd, "own_usd": own_usd})


def forget_old() -> None:
    """Remove the figures of sessions that had none for a day."""
    folder.tidy(_KIND)


def figures_line(session: str) -> str:
    """What the gateway did in a session, in a few words; empty if it did nothing, or no gateway is in between."""
    figures = folder.read(folder.file_for(_KIND, session))
    saved = figures.get("saved_usd")
    own = figures.get("own_usd")
    if not isinstance(saved, int | float) or not isinstance(own, int | float):
        return ""
    parts: list[str] = []
    if abs(saved) >= LEAST_USD:
        parts.append(f"saved ${saved:.2f}" if saved > 0 else f"cost ${-saved:.2f} more")
    if own >= LEAST_USD:
        parts.append(f"own calls ${own:.2f}")
    return f"gateway: {', '.join(parts)}" if parts else ""
