"""How often a session waits for a summary at the threshold, with and without background compaction.

Simulated sessions with different windows and growth: each turn adds results of a random size, sometimes a large one,
and a summary made in the background is ready a fixed number of turns after it was started. The figure is the number
of summary calls during which the next request had to wait for the model. No provider is called.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator
from itertools import count
from typing import Any

from sevenfold.conversation.flow import drive
from sevenfold.conversation.turn import turn
from sevenfold.events import Compacted, Event
from sevenfold.layers.compact.offline import summarise
from sevenfold.providers.offline import OfflineClient, Script
from sevenfold.session import factory as opened
from sevenfold.session.factory import Options, tool

MODELS = ("claude-sonnet-5-5", "claude-opus-4-6")
WINDOWS = (32_000, 200_000)
SESSIONS = 10
"""The number of sessions for each model and window."""
COMPACTIONS = 2
"""The number of compactions after which a session ends."""
TURNS_FOR_A_SUMMARY = 4
SHARE = 0.95
"""The least share of sessions that must not wait at all."""
TOOLS = [tool({"name": "Ask", "description": "asks somebody", "input_schema": {"type": "object"}})]


class Later:
    """A background runner that finishes work a fixed number of turns after it was started."""

    def __init__(self, client: OfflineClient) -> None:
        self._client = client
        self._begun: list[tuple[int, Generator[Any, Any, Any], Callable[[Any], None]]] = []
        self._turn = 0

    def __call__(self, work: Generator[Any, Any, Any], done: Callable[[Any], None]) -> None:
        """Start the work."""
        self._begun.append((self._turn + TURNS_FOR_A_SUMMARY, work, done))

    def every(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Do nothing: no time passes here."""
        return lambda: None

    def turn(self) -> None:
        """End a turn: finish the work that is due and deliver its results."""
        self._turn += 1
        due = [one for one in self._begun if one[0] <= self._turn]
        self._begun = [one for one in self._begun if one[0] > self._turn]
        for _, work, done in due:
            done(drive(work, self._client))


def run(model: str, window: int, seed: int, *, ahead: bool) -> tuple[int, int]:
    """Run one session; return the number of compactions, and how often a request waited for a summary."""
    numbers, chance, events = count(1), random.Random(seed), list[Event]()
    waiting, waits = False, 0

    def answer(request: Any) -> list[dict[str, Any]]:
        number = next(numbers)
        return [
            {"type": "text", "text": f"Part {number}."},
            {"type": "tool_use", "id": f"toolu_{number}", "name": "Ask", "input": {"n": number}},
        ]

    def summary(request: Any) -> str:
        nonlocal waits
        waits += waiting
        return summarise(request)

    client = OfflineClient(Script([], jobs={"main": answer, "compact": summary}))
    settings = {"context_window": window, "notes": False, "background_compaction": ahead}
    options: Options = {"tools": TOOLS, "max_tokens": 1_000, "listen": [lambda event: events.append(event)]}
    c = opened.conversation(opened.in_memory("s", settings), model, options)
    later = Later(client)
    c.set_background_runner(later)
    c.user("Go through everything, one by one.")
    while sum(isinstance(event, Compacted) for event in events) < COMPACTIONS:
        waiting = True
        outcome = drive(turn(c), client)
        waiting = False
        tokens = window // 100 * chance.choice((0.3, 0.6, 1.0, 1.5, 4.0))
        calls = [block.id for block in outcome.reply.answer.blocks if block.kind == "tool_use"]
        c.tool_results({call: "some words " * int(tokens / 3) for call in calls})
        later.turn()
    return COMPACTIONS, waits


def measure(sessions: int = SESSIONS) -> dict[bool, tuple[int, int, int]]:
    """Return, without and with background compaction: sessions, sessions that waited, and waits in total."""
    found = {}
    for ahead in (False, True):
        waits = [
            run(model, window, seed, ahead=ahead)[1]
            for model in MODELS
            for window in WINDOWS
            for seed in range(sessions)
        ]
        found[ahead] = len(waits), sum(wait > 0 for wait in waits), sum(waits)
    return found


def main() -> int:
    """Print the figures; return 1 if too many sessions had to wait, else 0."""
    found = measure()
    for ahead, (sessions, waited, waits) in found.items():
        name = "ahead of need" if ahead else "at the threshold"
        print(f"{name}: {sessions} sessions, {waited} waited for a model, {waits} times in all")
    sessions, waited, _ = found[True]
    share = 1 - waited / sessions
    print(f"sessions in which nobody waited: {share:.1%} (bar: {SHARE:.0%})")
    return 0 if share >= SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
