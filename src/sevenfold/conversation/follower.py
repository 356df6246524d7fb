"""Taking in a conversation that is kept elsewhere, message by message, and going another way where it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sevenfold.conversation import history
from sevenfold.conversation import sync as following
from sevenfold.conversation.exchange import Exchange
from sevenfold.conversation.queries import Finder
from sevenfold.conversation.sync import Given
from sevenfold.conversation.transcript import Transcript
from sevenfold.errors import Refused
from sevenfold.record import calls, redact
from sevenfold.record.blocks import Block
from sevenfold.record.layout import Item
from sevenfold.record.log import Answer


class Follower:
    """Brings messages from elsewhere into a session."""

    def __init__(
        self,
        transcript: Transcript,
        exchange: Exchange,
        finder: Finder,
        *,
        masks: bool,
        user: Callable[[Sequence[Block]], object],
        results: Callable[[Sequence[Block]], object],
        rewind: Callable[[str | None], object],
    ) -> None:
        self._transcript = transcript
        self._exchange = exchange
        self._finder = finder
        self._masks = masks
        self._user = user
        self._results = results
        self._rewind = rewind

    def adopt(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Take in a conversation from elsewhere, once, before anything was said here."""
        view = self._transcript.view
        if len(view) or view.boundary:
            raise Refused("messages are taken in once, into an empty session; use sync() to follow a list")
        self._take_in(following.read(messages))

    def sync(self, messages: Iterable[Mapping[str, Any]]) -> int:
        """Follow a list kept elsewhere; returns how many of its messages are new."""
        given = [self._as_recorded(message) for message in following.read(messages)]
        items = self._all_items()
        common = following.common(items, given)
        fresh = common.rest(given)
        if common.records < len(items):
            self._no_other_results(fresh)
            self._rewind(items[common.records - 1].said.uuid if common.records else None)
        self._take_in(fresh)
        return len(fresh)

    def _all_items(self) -> list[Item]:
        """Everything that led to the present, also what was compacted since."""
        view = self._transcript.view
        return (view if view.boundary is None else history.whole(self._transcript.log)).items

    def _as_recorded(self, given: Given) -> Given:
        """A message as it would be recorded: secrets masked, if they are, in what is not the model's."""
        if given.role == "assistant" or not self._masks:
            return given
        return Given(given.role, tuple(redact.mask_blocks(given.blocks).blocks))

    def _no_other_results(self, fresh: Sequence[Given]) -> None:
        """A call has one result for good, also on another branch; a counted name may mean another call there."""
        results = (block for message in fresh for block in message.results)
        for block in filter(lambda block: calls.drawn(block.id), results):
            if not self._finder.same_result(block):
                raise Refused(
                    f"the call {block.id} has a result already, and the list gives another one; what a tool said once "
                    "stays. Bring the list into a new session with messages()"
                )

    def _take_in(self, given: Sequence[Given]) -> None:
        for message in given:
            if message.role == "assistant":
                if message.blocks:
                    name = f"imported_{self._transcript.new_id()}"
                    answer = Answer(name, self._exchange.frame.model, message.blocks)
                    self._transcript.model(self._transcript.distinct(answer))
                continue
            fitting, _ = calls.matched(message.results, self._transcript.view.pending_calls)
            if fitting:
                self._results(list(fitting.values()))
            if message.words:
                self._user(message.words)
        if any(message.thinks for message in given):
            # Reasoning from elsewhere is bound to what preceded it there.
            self._exchange.open("imported", drops_thinking=True)
