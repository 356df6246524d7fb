"""Where proposals wait for a person: other terminals and the inspector see them, and their orders are carried out.

The program that a gateway serves has the terminal for itself, so the decision is made in another one. It comes as an
order of the user's, sealed and meant for this opening of the session; see `sevenfold.agent.team.orders`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Self

from sevenfold.agent.team.orders import Action, OrderTaker
from sevenfold.agent.team.presence import TaskFile, TaskList
from sevenfold.agent.team.proposals import PendingProposal, described
from sevenfold.doors.follower.consent import Consent
from sevenfold.doors.follower.keeper import KeepingFollower
from sevenfold.doors.follower.keeping import KeptConversation
from sevenfold.doors.gateway.recorder import Recorder
from sevenfold.errors import Refused, SevenfoldError
from sevenfold.stores.folder import FileFolder
from sevenfold.stores.jsonl.mailbox import SqliteMailbox
from sevenfold.stores.jsonl.store import JsonlStore

BEAT = 0.25
"""Seconds between two looks at what is proposed and ordered."""
UNDO_SECONDS = 15.0
"""How long an undo may wait for requests that are being prepared."""
Say = Callable[[str], None]


class ProposalDesk:
    """Shows what is proposed in each conversation, and takes the user's orders, in a thread of its own."""

    def __init__(
        self, follower: KeepingFollower | None, recorder: Recorder, store: JsonlStore, say: Say
    ) -> None:
        """``say`` is told of each new proposal, and of orders that are ignored; without a follower, there are none."""
        self._follower = follower
        self._recorder = recorder
        self._store = store
        self._mailbox: SqliteMailbox | None = None
        self._say = say
        self._trays: dict[str, Tray] = {}
        """By the name of the session."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="gateway desk", daemon=True)

    def __enter__(self) -> Self:
        if self._follower is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take no more orders; what still waits is not decided any more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for tray in self._trays.values():
            tray.file.remove()
        self._trays.clear()
        if self._mailbox is not None:
            self._mailbox.close()
            self._mailbox = None

    def decide(self, line: str) -> str:
        """Carry out a line that the user typed where the gateway runs; returns what became of it."""
        verb, _, name = line.strip().partition(" ")
        if verb not in ("agree", "decline") or not name:
            return "type `agree ID` or `decline ID`"
        refusal = f"no proposal {name} waits for a decision"
        for conversation in self._kept():
            consent = conversation.consent
            if any(proposal.id == name for proposal in consent.waiting):
                try:
                    return consent.agree(name) if verb == "agree" else consent.decline(name)
                except Refused as error:
                    refusal = str(error)
        return refusal

    def look(self) -> None:
        """Show what is proposed now, and carry out what was ordered."""
        for conversation in self._kept():
            consent = conversation.consent
            if not (consent.waiting or consent.done):
                continue
            tray = self._trays.get(conversation.name)
            if tray is None or tray.conversation is not conversation:
                tray = self._trays[conversation.name] = self._tray(conversation, consent)
            tray.look()

    def _kept(self) -> Sequence[KeptConversation]:
        return self._follower.kept if self._follower is not None else ()

    def _tray(self, conversation: KeptConversation, consent: Consent) -> Tray:
        if self._mailbox is None:
            self._mailbox = self._store.mailbox()
        files = self._store.files(conversation.name)
        file = TaskFile(FileFolder(files.agent), files.name, self._mailbox)
        return Tray(conversation, consent, file, partial(self._undone, conversation), self._say)

    def _undone(self, conversation: KeptConversation, decision: str) -> str:
        """Undo a decision where all requests are prepared, so between two of them."""
        outcome: Future[str] = Future()

        def undo() -> None:
            try:
                outcome.set_result(conversation.undo(decision))
            except Exception as error:  # noqa: BLE001 (who ordered it is told)
                outcome.set_exception(error)

        if not self._recorder.submit(0, undo):
            raise Refused("the gateway has too much to record at the moment; try again in a minute")
        try:
            return outcome.result(UNDO_SECONDS)
        except TimeoutError:
            raise Refused(
                "the gateway did not get to it in time; it may still be undone, so look again"
            ) from None

    def _work(self) -> None:
        while not self._stop.wait(BEAT):
            try:
                self.look()
            except (SevenfoldError, OSError) as error:
                self._recorder.say_once(f"proposals cannot be shown: {error}")


class Tray:
    """What is proposed in one conversation, and the orders about it."""

    def __init__(
        self,
        conversation: KeptConversation,
        consent: Consent,
        file: TaskFile,
        undone: Callable[[str], str],
        say: Say,
    ) -> None:
        self.conversation = conversation
        self.file = file
        self._consent = consent
        self._say = say
        self._told: set[str] = set()
        acts: Mapping[Action, Callable[[str], str]] = {
            "agree": consent.agree,
            "decline": consent.decline,
            "undo": undone,
        }
        self._orders = OrderTaker(file.box, acts, say)

    def look(self) -> None:
        """Carry out what was ordered, then show what is proposed."""
        self._orders.take("agree", "decline", "undo")
        waiting = self._consent.waiting
        outcomes = tuple(self._orders.outcomes)
        self.file.publish(
            TaskList(os.getpid(), (), self._orders.run, outcomes, waiting, self._consent.done)
        )
        for proposal in waiting:
            self._tell(proposal)

    def _tell(self, proposal: PendingProposal) -> None:
        if proposal.id not in self._told:
            self._told.add(proposal.id)
            self._say(f"proposal {proposal.id} in {self.conversation.name}: {described(proposal)}")
