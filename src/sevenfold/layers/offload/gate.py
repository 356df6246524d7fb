"""The way of a tool result into the session: never empty, and offloaded if too big.

Whatever goes wrong here, no result is lost and nothing is raised into an agent's loop: one that cannot be stored
stays in the transcript whole and is sent cut. Should the transcript take no decision either, the result is decided
about when the next request is prepared, as are those that are too much only together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from msgspec import Struct

from sevenfold.conversation.events import Announcer
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import TranscriptError, TranscriptFull
from sevenfold.events import Acted, Proposed, SteppedAside
from sevenfold.layers.offload import policy as offload
from sevenfold.layers.offload.policy import Big, Budget
from sevenfold.ports import Results
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import Keep, Offload
from sevenfold.record.entries import Stored

CHARACTERS_PER_TOKEN = 3
"""To tell about how much an offload saves; the gauge knows better once it is in view."""

ToolOf = Callable[[str], str]


class Problem(Struct, frozen=True):
    """Why a result could not be stored."""

    says: str


class Gate:
    """Lets results into the transcript."""

    def __init__(self, transcript: Transcript, results: Results, announcer: Announcer) -> None:
        self._transcript = transcript
        self._results = results
        self._announcer = announcer

    def admit(self, given: Sequence[Block], tool_of: ToolOf, budget: Budget, *, key: str = "") -> str:
        """Record results as they will be sent; returns the record's id."""
        shown: list[Block] = []
        stored: dict[str, Stored] = {}
        refused: list[str] = []
        failed: list[tuple[Big, Problem]] = []
        for block in given:
            block = offload.filled(block) if offload.nothing(block) else block
            big = offload.too_big(block, tool_of(block.id), budget) if budget.settings.offload else None
            match self._put_away(big, budget) if big else None:
                case Stored(path=path) as place if big:
                    stored[block.id] = place
                    block = blocks.with_words(block, offload.stored(big, path, budget))
                case Problem() as problem if big:
                    failed.append((big, problem))
                case None if big:
                    refused.append(block.id)
            shown.append(block)
        return self._record(shown, stored, failed, refused, key)

    def due(self, unsent: Sequence[Block], tool_of: ToolOf, budget: Budget) -> list[Big]:
        """Of results that no request has held yet, those that must still go."""
        if not budget.settings.offload:
            return []
        tools = [(tool_of(block.id), block) for block in unsent]
        alone = [big for tool, block in tools if (big := offload.too_big(block, tool, budget))]
        others = {block.id for block in unsent} - {big.block.id for big in alone}
        due = alone + offload.too_much_together([one for one in tools if one[1].id in others], budget)
        kept = self._kept() if due else set()
        return [big for big in due if big.block.id not in kept]

    def settle(self, unsent: Sequence[Block], tool_of: ToolOf, budget: Budget) -> None:
        """Decide about results that go out for the first time, for good."""
        due = self.due(unsent, tool_of, budget)
        if not due:
            return
        gone = {big.block.id for big in due if self._replace(big, budget)}
        self._try(Keep(tool_use_ids=[block.id for block in unsent if block.id not in gone]))

    def proposal(self, big: Big, budget: Budget) -> Proposed:
        """What would be done with a result."""
        return Proposed(
            layer="offload",
            mechanism=big.mechanism,
            what=big.what,
            why=big.why,
            items=1,
            tokens=max(0, len(big.found.text) - budget.preview) // CHARACTERS_PER_TOKEN,
            targets=(big.block.id,),
        )

    def _replace(self, big: Big, budget: Budget) -> bool:
        """Put a recorded result away; says whether something else stands in its place now."""
        match self._put_away(big, budget):
            case Stored(path=path) as place:
                return self._decide(big, offload.stored(big, path, budget), place)
            case Problem(says=says) if big.mechanism == "store":
                return self._decide(big, offload.truncated(big, says), _nowhere(big))
            case _:
                return False

    def _put_away(self, big: Big, budget: Budget) -> Stored | Problem | None:
        """Where the whole is now; None if a listener refuses."""
        if not self._announcer.may(self.proposal(big, budget)):
            return None
        content = big.found.content
        try:
            path = self._results.keep(big.block.id + big.found.name_ending, content)
        except TranscriptError as error:
            self._stepped_aside(error)
            return Problem(str(error))
        self._tell(big, budget, path)
        return Stored(path, len(content), hashlib.sha256(content).hexdigest())

    def _record(
        self,
        shown: list[Block],
        stored: dict[str, Stored],
        failed: Sequence[tuple[Big, Problem]],
        refused: list[str],
        key: str,
    ) -> str:
        cut = {big.block.id: offload.truncated(big, problem.says) for big, problem in failed}
        try:
            uuid = self._transcript.user(shown, key=key, stored=stored)
        except TranscriptFull:
            if not cut:
                raise
            # The disk took neither the file nor the record: what fits of the result is still worth having.
            short = [
                blocks.with_words(block, cut[block.id]) if block.id in cut else block for block in shown
            ]
            return self._transcript.user(short, key=key, stored=stored)
        for big, _ in failed:
            self._decide(big, cut[big.block.id], _nowhere(big))
        if refused:
            self._try(Keep(tool_use_ids=refused))
        return uuid

    def _decide(self, big: Big, shown: str, place: Stored) -> bool:
        call = big.block.id
        return self._try(
            Offload(tool_use_id=call, preview=shown, path=place.path, size=place.size, sha256=place.sha256)
        )

    def _try(self, decision: Offload | Keep) -> bool:
        """Write a decision down; one that cannot be written is made again before the next request."""
        try:
            self._transcript.decide(decision)
        except TranscriptError as error:
            self._stepped_aside(error)
            return False
        return True

    def _kept(self) -> set[str]:
        """Results that were looked at and stay."""
        made = self._transcript.view.decisions()
        return {call for one in made if isinstance(one, Keep) for call in one.tool_use_ids}

    def _stepped_aside(self, error: TranscriptError) -> None:
        self._announcer.tell(SteppedAside(layer="offload", reason=str(error), error=type(error).__name__))

    def _tell(self, big: Big, budget: Budget, path: str) -> None:
        before = len(big.found.text)
        self._announcer.tell(
            Acted(
                layer="offload",
                mechanism=big.mechanism,
                what=big.what,
                why=big.why,
                items=1,
                tokens_before=before // CHARACTERS_PER_TOKEN,
                tokens_after=min(before, budget.preview) // CHARACTERS_PER_TOKEN,
                reference=path,
                undoable=False,
            )
        )


def _nowhere(big: Big) -> Stored:
    """The place of a result that is only in the transcript."""
    content = big.found.content
    return Stored("", len(content), hashlib.sha256(content).hexdigest())
