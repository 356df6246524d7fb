"""A long recorded session is resumed after its cache has expired: what was quoted, and what is then paid."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sevenfold.events import Answered
from sevenfold.lab.simulator.brains import ModelPrompt
from sevenfold.layers.idle import Choice
from tests.engine.working import (
    BOUND,
    FREE,
    Mind,
    Said,
    World,
    output,
    summarised,
    wants_notes,
    wants_summary,
    world,
)

RULES = (
    "Never touch config/prod.yaml.",
    "The port is 8443, and it stays 8443.",
    "Write every message to the user in English.",
    "Ask before a migration is run.",
)
NOTHING_BY_ITSELF = {"auto_compact": False, "notes": False, "extraction": False, "idle_compaction": False}
"""The settings of the session that is resumed: it grew beyond the threshold, and nothing was noted or remembered."""


GO_ON = "Go on with the next part."
LONG_ANSWER = "The part is ported, and its tests pass. " * 700
"""So much that notes are due after it."""


class Porting(Mind):
    """A model that reads six files for each message of the user, and looks for lasting facts when it is asked to."""

    def __init__(self, summary_words: int) -> None:
        super().__init__(summary=self._summary)
        self._calls = 0
        self._summary_words = summary_words

    def reply(self, prompt: ModelPrompt) -> Said:
        if "<nothing/>" in prompt.last_text:
            return "<nothing/>"
        if GO_ON in prompt.last_text and not wants_summary(prompt) and not wants_notes(prompt):
            return LONG_ANSWER
        return super().reply(prompt)

    def _summary(self, prompt: ModelPrompt) -> str:
        thoughts = "The parts were ported one after another. " * (self._summary_words // 7)
        return f"<analysis>{thoughts}</analysis>\n{summarised(prompt)}"

    def _work(self) -> list[dict[str, Any]]:
        self._calls += 1
        return super()._work() if self._calls % 7 else [{"type": "text", "text": LONG_ANSWER}]


def recorded(here: World, file: Path, model: str, size: int) -> None:
    """Record a session of this many tokens, in a window in which nothing had to be compacted."""
    settings = {**NOTHING_BY_ITSELF, "context_window": 400_000}
    with here.open(file, model=model, max_tokens=16_000, settings=settings) as session:
        for number in count():
            session.user(f"Port part {number} of the billing service. {RULES[number % len(RULES)]}")
            while (done := session.complete()).calls:
                here.clock.advance(5)
                session.tool_results({call.id: output(9_000) for call in done.calls})
            if session.gauge.seen >= size:
                break
    here.events.clear()


def quoted_and_paid(here: World, file: Path, model: str, **settings: Any) -> tuple[Choice, float]:
    """Resume the session and send one message: the price quoted for it, and what it cost until all was done."""
    known = {"context_window": 120_000, "notes": True, **settings}
    with here.open(file, model=model, max_tokens=16_000, memory=True, settings=known) as session:
        quoted = session.next_costs()
        before = session.conversation.account.usd or 0.0
        session.user(GO_ON)
        session.complete()
        session.settle(30)
        conversation = session.conversation
    return quoted[0], (conversation.account.usd or 0.0) - before


@pytest.mark.spec("S22.23", "S17.22")
@pytest.mark.parametrize("model", [BOUND, FREE])
@pytest.mark.parametrize(("tokens", "summary_words"), [(100_000, 0), (108_000, 2_000), (112_000, 9_000)])
def test_a_resume_that_compacts_takes_notes_and_looks_for_facts_costs_what_was_quoted(
    model: str, tokens: int, summary_words: int, tmp_path: Path
) -> None:
    with world(Porting(summary_words)) as here:
        recorded(here, tmp_path / "s.jsonl", model, tokens)
        here.clock.advance(4_000)
        going, paid = quoted_and_paid(here, tmp_path / "s.jsonl", model)
        assert going.layers == ("compaction", "notes", "memory")
        sources = {event.source for event in here.told(Answered)}
        assert sources == {"compact", "main", "session_memory", "extract_memories"}
        assert going.low is not None
        assert going.high is not None
        assert going.low <= paid <= going.high


@pytest.mark.spec("S22.23", "S17.22")
@pytest.mark.parametrize("model", [BOUND, FREE])
@pytest.mark.parametrize("edits", [False, True])
def test_the_quote_names_a_compaction_only_if_clearing_does_not_make_the_room(
    model: str, edits: bool, tmp_path: Path
) -> None:
    clears = {"gap_clearing": True, "size_clearing": True, "provider_edits": edits}
    with world(Porting(2_000)) as here:
        recorded(here, tmp_path / "s.jsonl", model, 108_000)
        here.clock.advance(4_000)
        going, paid = quoted_and_paid(here, tmp_path / "s.jsonl", model, **clears)
        sources = {event.source for event in here.told(Answered)}
        assert ("compaction" in going.layers) == ("compact" in sources)
        assert going.low is not None
        assert going.high is not None
        assert going.low <= paid <= going.high
