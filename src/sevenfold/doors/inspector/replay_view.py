"""What a session would have cost under other policies: it is replayed with the simulated provider.

The curves are comparable with each other, not with the recorded one: the simulator counts tokens in its own way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sevenfold.errors import InputError
from sevenfold.lab import replay
from sevenfold.lab.replay import Replayed
from sevenfold.lab.replay.run import model_of
from sevenfold.profiles import find

POLICIES = (
    ("nothing", "everything sent"),
    ("claude-code", "Claude Code's defaults"),
    ("ours", "Sevenfold's defaults"),
)
MOST_BYTES = 20_000_000
"""Larger sessions are for the command line: a replay takes a second for each megabyte or two."""
POINTS = 600


def replay_view(path: Path, window: int | None = None) -> dict[str, Any]:
    """The cost so far at each request, replayed under three policies, and what was kept; raises `UserError`.

    ``window`` is the session's own, as far as it is known.
    """
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise InputError(f"this session is too large to be replayed here; run: sevenfold replay {path}")
    recording = replay.read(path)
    smaller = window if window and window < find(model_of(recording)).window else None
    replays = {name: replay.replay(recording, replay.policy(name), window=smaller) for name, _ in POLICIES}
    last = len(recording.steps)
    step = max(1, -(-last // POINTS))
    # The last request is always drawn.
    places = sorted({*range(0, last, step), last - 1})
    return {
        "request": [index + 1 for index in places],
        "curves": [
            {
                "name": name,
                "label": _label(label, replays[name]),
                "usd": _costs(replays[name], places),
                "tokens": _sizes(replays[name], places),
            }
            for name, label in POLICIES
        ],
        "model": next(iter(replays.values())).model,
        "window": next(iter(replays.values())).window,
    }


def _label(label: str, replayed: Replayed) -> str:
    rules = replayed.figures.rules
    lost = f", {rules.lost} of {rules.lost + rules.in_context} rules lost" if rules.lost else ""
    return f"{label}{lost}" if replayed.completed else f"{label}: does not fit the window"


def _sizes(replayed: Replayed, places: list[int]) -> list[int | None]:
    """The sizes of the prompts of these requests; None where the policy did not come to."""
    sizes = replayed.series.context_tokens
    return [sizes[index] if index < len(sizes) else None for index in places]


def _costs(replayed: Replayed, places: list[int]) -> list[float | None]:
    """The costs at these requests; None where the policy did not come to, or where a price is unknown."""
    costs = replayed.series.cost_usd
    return [costs[index] if index < len(costs) else None for index in places]
