"""What a user decides about the conversation: what is pinned, what is taken out of sight, where it goes on."""

from __future__ import annotations

from sevenfold.conversation import history
from sevenfold.conversation import undo_ as undoing
from sevenfold.conversation.events import Announcer
from sevenfold.conversation.exchange import Exchange
from sevenfold.conversation.pins import pinned
from sevenfold.conversation.queries import Finder
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import Refused
from sevenfold.events import Acted, Proposed
from sevenfold.profiles import Profile
from sevenfold.record.decisions import Pin, Rewound, Snip
from sevenfold.record.layout import Item
from sevenfold.record.weight import NOTHING
from sevenfold.record.wire import Message


class Decider:
    """Makes the decisions that only a user makes."""

    def __init__(
        self,
        transcript: Transcript,
        exchange: Exchange,
        profile: Profile,
        announcer: Announcer,
        finder: Finder,
    ) -> None:
        self._transcript = transcript
        self._exchange = exchange
        self._profile = profile
        self._announcer = announcer
        self._finder = finder

    def pin(self, record: str, budget: int) -> None:
        """Keep a record word for word, if the ``budget`` for pins has room for it."""
        item = self._finder.in_view(record)
        pins = pinned(self._transcript) - {record}
        held = [one for one in self._transcript.view.items if one.said.uuid in pins]
        tokens, used = self._tokens([item]), self._tokens(held)
        if used + tokens > budget:
            raise Refused(
                f"this record has about {tokens:,} tokens, {used:,} are pinned already, and the budget for pins is "
                f"{budget:,} (pins_tokens); unpin another one, or raise the budget"
            )
        self._transcript.decide(Pin(record=record))

    def unpin(self, record: str) -> None:
        """Let a pinned record go again."""
        if record not in pinned(self._transcript):
            raise Refused(f"{record} is not pinned")
        self._transcript.decide(Pin(record=record, off=True))

    def snip(self, first: str, last: str) -> str:
        """Take whole rounds out of sight; returns the decision's name."""
        span = self._span(first, last)
        before = self._exchange.size().tokens
        what, tokens = f"remove {len(span)} records", self._tokens(span)
        proposed = Proposed(
            layer="snip", mechanism="span", what=what, why="asked for", items=len(span), tokens=tokens
        )
        if not self._announcer.may(proposed):
            raise Refused("a listener refused the snip")
        if self._profile.thinking.bound and self._transcript.view.weight.thoughts:
            self._exchange.open(undoing.CLEARED, drops_thinking=True)
        else:
            self._exchange.announce("snip")
        made = self._transcript.decide(Snip(first=first, last=last))
        self._announcer.tell(
            Acted(
                layer="snip",
                mechanism="span",
                what=what,
                why="asked for",
                items=len(span),
                tokens_before=before,
                tokens_after=self._exchange.size().tokens,
                reference=made.id,
            )
        )
        return made.id

    def rewind(self, record: str | None) -> None:
        """Go on from an earlier record, or from the start."""
        transcript = self._transcript
        if record is not None and not history.holds(transcript.log, record):
            raise Refused(f"there is no record {record} in this session that it could go on from")
        before = transcript.view.messages()
        self._exchange.announce("rewound")
        transcript.decide(Rewound(to=record))
        if _begins(before, transcript.view.messages()):
            self._exchange.vouch()
        elif self._profile.thinking.bound and transcript.view.weight.thoughts:
            # Other decisions hold there, so reasoning would stand behind other bytes than it was produced behind.
            self._exchange.open("rewound", drops_thinking=True)

    def _tokens(self, items: list[Item]) -> int:
        return round(self._exchange.gauge.estimator.tokens(sum((item.weight for item in items), NOTHING)))

    def _span(self, first: str, last: str) -> list[Item]:
        view = self._transcript.view
        items = view.items
        places = [
            next((n for n, item in enumerate(items) if item.said.uuid == end), -1) for end in (first, last)
        ]
        if -1 in places or places[0] > places[1]:
            raise Refused(f"{first} to {last} is no span of records in view")
        after = items[places[1] + 1] if places[1] + 1 < len(items) else None
        if not view.begins_round(first) or (after is not None and not view.begins_round(after.said.uuid)):
            raise Refused("a span must hold whole rounds: an answer together with all its results")
        if after is None:
            raise Refused("the newest round cannot be removed: rewind to before it instead")
        span = items[places[0] : places[1] + 1]
        if held := pinned(self._transcript) & {item.said.uuid for item in span}:
            raise Refused(f"{sorted(held)[0]} in that span is pinned; unpin it first")
        return span


def _begins(longer: list[Message], shorter: list[Message]) -> bool:
    """Is the one list the beginning of the other? Only the last message may be cut."""
    if len(shorter) > len(longer):
        return False
    if not shorter:
        return True
    here, there = shorter[-1], longer[len(shorter) - 1]
    cut = here.role == there.role and there.parts[: len(here.parts)] == here.parts
    return cut and shorter[:-1] == longer[: len(shorter) - 1]
