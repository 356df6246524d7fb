"""Layer 1: a tool result on its way into the conversation; it is never empty, and offloaded if it is too big.

Whatever goes wrong here, no result is lost and nothing is raised into an agent's loop: one that cannot be stored
stays in the transcript whole and is sent cut. If the transcript takes no decision either, the result is decided about
when the next request is prepared, as are results that are too much only together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.conversation.flow import Flow
from sevenfold.conversation.layer import TooFull
from sevenfold.conversation.results import filled, nothing
from sevenfold.conversation.room import unsent_results
from sevenfold.errors import ModelError, TranscriptError, TranscriptFull
from sevenfold.events import Acted, Proposed, SteppedAside
from sevenfold.layers.offload import policy as offload
from sevenfold.layers.offload.policy import Big, Budget
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import Keep
from sevenfold.record.decisions import Offloaded as OffloadDecision
from sevenfold.record.entries import Stored
from sevenfold.record.gauge import Check
from sevenfold.settings import Settings

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

CHARACTERS_PER_TOKEN = 3
"""To report about how much an offload saves; the gauge knows better once it is in view."""
SAFE_CHARACTERS_PER_TOKEN = 2
"""To be on the safe side when so many tokens must go."""


class Offload:
    """Big tool results go to disk, a preview stays."""

    name = "offload"

    def on(self, settings: Settings) -> bool:
        """Always: with offloading switched off results are still recorded, and none is left empty."""
        return True

    def settle(self, c: Conversation) -> Flow[None]:
        """Decide about results that are too much together."""
        c.state(Offloader).freeze()
        yield from ()

    def admit(self, c: Conversation, results: Sequence[Block]) -> None:
        """Record results; those over their tool's threshold as a preview."""
        c.state(Offloader).admit(results)

    def freeze(self, c: Conversation) -> None:
        """Decide about all results that no request has held yet."""
        c.state(Offloader).freeze()

    def on_refusal(self, c: Conversation, error: ModelError | TooFull) -> Flow[bool]:
        """Over the blocking limit, results that were never sent can still go to disk."""
        yield from ()
        if isinstance(error, TooFull) and error.check.budget == "tokens":
            return c.state(Offloader).squeeze(error.check)
        return False

    def propose(self, c: Conversation) -> Sequence[Proposed]:
        """The results that would go to disk."""
        return c.state(Offloader).propose()


class StorageProblem(Struct, frozen=True):
    """Why a result could not be stored."""

    says: str


class Offloader:
    """Records the tool results of one conversation, and decides for good how each is sent."""

    def __init__(self, c: Conversation) -> None:
        self._c = c
        self._frozen: tuple[object, ...] = ()
        """What the conversation was when results were last decided about."""

    @property
    def budget(self) -> Budget:
        """How much of tool results may stay in the context."""
        return Budget(self._c.settings, self._c.window, self._c.kinds)

    def admit(self, given: Sequence[Block]) -> str:
        """Record results as they will be sent; returns the record's id."""
        self._c.stock.follow(self._c.transcript.view)
        tool_of, budget = self._c.stock.tool_of, self.budget
        shown: list[Block] = []
        stored: dict[str, Stored] = {}
        refused: list[str] = []
        failed: list[tuple[Big, StorageProblem]] = []
        for block in given:
            block = filled(block) if nothing(block) else block
            big = offload.too_big(block, tool_of(block.id), budget) if budget.settings.offload else None
            match self._put_away(big, budget) if big else None:
                case Stored(path=path) as place if big:
                    stored[block.id] = place
                    block = blocks.with_words(block, offload.stored(big, path, budget))
                case StorageProblem() as problem if big:
                    failed.append((big, problem))
                case None if big:
                    refused.append(block.id)
            shown.append(block)
        return self._record(shown, stored, failed, refused)

    def due(self, unsent: Sequence[Block], budget: Budget) -> list[Big]:
        """Of results that no request has held yet, those that must still go."""
        if not unsent or not budget.settings.offload:
            return []
        tools = [(self._c.stock.tool_of(block.id), block) for block in unsent]
        alone = [big for tool, block in tools if (big := offload.too_big(block, tool, budget))]
        others = {block.id for block in unsent} - {big.block.id for big in alone}
        due = alone + offload.too_much_together([one for one in tools if one[1].id in others], budget)
        kept = self._kept() if due else set()
        return [big for big in due if big.block.id not in kept]

    def freeze(self) -> None:
        """Decide about results that go out for the first time: what is sent now is sent the same from then on."""
        view = self._c.transcript.view
        now = (view, view.version, len(view), self._c.settings, self._c.account.tip)
        if now != self._frozen:
            self._settle(unsent_results(self._c), self.budget)
            self._frozen = now

    def squeeze(self, check: Check) -> bool:
        """Results that no request has held yet can still go to disk, which costs nothing."""
        c, unsent = self._c, unsent_results(self._c)
        over = check.used + check.band - c.window.blocking + 1
        allowed = sum(len(block.raw) for block in unsent) - over * SAFE_CHARACTERS_PER_TOKEN
        if not unsent or not c.settings.offload:
            return False
        tight = replace(c.settings, round_characters=max(1, int(allowed / c.window.scale)))
        before = c.size().tokens
        self._settle(unsent, Budget(tight, c.window, c.kinds))
        return c.size().tokens < before

    def propose(self) -> list[Proposed]:
        """What would be decided now."""
        budget = self.budget
        return [self._proposal(big, budget) for big in self.due(unsent_results(self._c), budget)]

    def _settle(self, unsent: Sequence[Block], budget: Budget) -> None:
        due = self.due(unsent, budget)
        if not due:
            return
        gone = {big.block.id for big in due if self._replace(big, budget)}
        self._try(Keep(tool_use_ids=[block.id for block in unsent if block.id not in gone]))

    def _proposal(self, big: Big, budget: Budget) -> Proposed:
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
            case StorageProblem(says=says) if big.mechanism == "store":
                return self._decide(big, offload.truncated(big, says), _nowhere(big))
            case _:
                return False

    def _put_away(self, big: Big, budget: Budget) -> Stored | StorageProblem | None:
        """Where the whole is now; None if a listener refuses."""
        if not self._c.events.may(self._proposal(big, budget)):
            return None
        gate, content = self._c.gate, big.found.content
        content = gate.content(content) if gate else content
        try:
            path = self._c.services.results.keep(big.block.id + big.found.name_ending, content)
        except TranscriptError as error:
            self._stepped_aside(error)
            return StorageProblem(str(error))
        self._tell(big, budget, path)
        return Stored(path, len(content), hashlib.sha256(content).hexdigest())

    def _record(
        self,
        shown: list[Block],
        stored: dict[str, Stored],
        failed: Sequence[tuple[Big, StorageProblem]],
        refused: list[str],
    ) -> str:
        cut = {big.block.id: offload.truncated(big, problem.says) for big, problem in failed}
        try:
            uuid = self._c.transcript.user(shown, stored=stored)
        except TranscriptFull:
            if not cut:
                raise
            # The disk took neither the file nor the record: what fits of the result is still worth having.
            short = [
                blocks.with_words(block, cut[block.id]) if block.id in cut else block for block in shown
            ]
            return self._c.transcript.user(short, stored=stored)
        for big, _ in failed:
            self._decide(big, cut[big.block.id], _nowhere(big))
        if refused:
            self._try(Keep(tool_use_ids=refused))
        return uuid

    def _decide(self, big: Big, shown: str, place: Stored) -> bool:
        call = big.block.id
        return self._try(
            OffloadDecision(
                tool_use_id=call, preview=shown, path=place.path, size=place.size, sha256=place.sha256
            )
        )

    def _try(self, decision: OffloadDecision | Keep) -> bool:
        """Write a decision down; one that cannot be written is made again before the next request."""
        try:
            self._c.transcript.decide(decision)
        except TranscriptError as error:
            self._stepped_aside(error)
            return False
        return True

    def _kept(self) -> set[str]:
        """Results that were looked at and stay."""
        made = self._c.transcript.view.decisions()
        return {call for one in made if isinstance(one, Keep) for call in one.tool_use_ids}

    def _stepped_aside(self, error: TranscriptError) -> None:
        self._c.events.tell(SteppedAside(layer="offload", reason=str(error), error=type(error).__name__))

    def _tell(self, big: Big, budget: Budget, path: str) -> None:
        before = len(big.found.text)
        self._c.events.tell(
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
