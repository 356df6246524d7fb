"""The request after a compaction, sent: does the provider take it, and what of it does it know already?"""

from __future__ import annotations

from msgspec import Struct

from sevenfold.errors import ModelError
from sevenfold.events import Answered, Event
from sevenfold.lab.replay.provider import Cue, Provider
from sevenfold.lab.retention.cut import Cut
from sevenfold.lab.retention.trial import MODEL, opened_at, opening_tokens
from sevenfold.layers.compact.request import Engine

ANSWER = ({"type": "text", "text": "I see, and go on from there."},)


class Accepted(Struct, frozen=True):
    """What the simulated provider said to the request after a compaction."""

    refused: str
    """Its error; empty if it took the request."""
    shared: int
    """Tokens of system and tools, which are the same in every request…"""
    read: int
    """…and tokens it read from the cache."""

    @property
    def holds(self) -> bool:
        """Was it taken, and everything read from the cache that could be?"""
        return not self.refused and self.read >= self.shared > 0


def send(cut: Cut, engine: Engine = "extractive", *, model: str = MODEL) -> Accepted:
    """Go on with a recorded session for a request, compact it, and go on again."""
    provider, told = Provider(), list[Event]()
    provider.cue = Cue(ANSWER)

    def hear(event: Event) -> None:
        told.append(event)

    with provider.client() as client:
        session, _ = opened_at(cut, client=client, model=model, clock=provider.clock, listen=[hear])
        with session:
            try:
                session.complete()
                session.compact(engine=engine)
                session.user("Please go on.")
                session.complete()
            except ModelError as error:
                return Accepted(f"{type(error).__name__}: {error}", 0, 0)
            shared = opening_tokens(session.at(-1), session.core.profile.tokenizer)
    answered = [event for event in told if isinstance(event, Answered)]
    return Accepted("", shared, answered[-1].cache_read_tokens)
