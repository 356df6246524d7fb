"""A gateway that asks: it proposes what it would do, and without a decision the program's own bytes are sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sevenfold.agent.team.presence import TaskFile, TaskList
from sevenfold.agent.team.proposals import PendingProposal, described
from sevenfold.clock import RandomIds, SystemClock
from sevenfold.doors.follower.consent import AtHand, Consent
from sevenfold.doors.follower.follower import FollowedCall
from sevenfold.doors.follower.keeper import KeepingFollower, KeepingOptions
from sevenfold.doors.gateway.desk import ProposalDesk
from sevenfold.doors.gateway.recorder import Recorder
from sevenfold.doors.inspector import orders
from sevenfold.doors.inspector.proposal_view import proposals_view
from sevenfold.errors import Refused
from sevenfold.events import Acted, Proposed
from sevenfold.settings import Settings
from sevenfold.stores.folder import FileFolder
from sevenfold.stores.home import Project, SessionFiles
from sevenfold.stores.jsonl.mailbox import SqliteMailbox
from sevenfold.stores.jsonl.store import JsonlStore
from tests.doors.keeping import answered, offline, prepared

pytestmark = pytest.mark.spec("S40.14")

FILLER = "The build ran, and nobody had anything to add to it. " * 24
HEADERS = {"x-sevenfold-session": "work"}


class AskingGateway:
    """A follower that only proposes, a desk, and a program that talks."""

    def __init__(self, folder: Path, *, only_proposes: bool = True) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.problems: list[Exception] = []
        options = KeepingOptions(
            Settings(context_window=10_000),
            client=offline,
            failed=self.problems.append,
            only_proposes=only_proposes,
        )
        store = JsonlStore(folder)
        self.follower = KeepingFollower(store, "", b"s" * 32, options, clock=SystemClock(), ids=RandomIds())
        self.recorder = Recorder(self.follower, self.said.append)
        self.desk = ProposalDesk(self.follower, self.recorder, store, self.said.append)
        self.messages: list[dict[str, Any]] = []
        self.calls: list[FollowedCall] = []

    def say(self, text: str, answer: str = FILLER) -> bytes:
        """Send a message and take the answer; returns what was sent."""
        self.messages.append({"role": "user", "content": text})
        followed, sent = prepared(self.follower, self.messages, HEADERS)
        self.calls.append(followed)
        content = [{"type": "text", "text": f"So it is. {answer}"}]
        answered(self.follower, followed, sent, f"msg_{len(self.calls)}", content)
        self.messages.append({"role": "assistant", "content": content})
        self.desk.look()
        return sent

    def talk_until(self, condition: Callable[[], bool]) -> None:
        """Talk on until something holds."""
        for _ in range(60):
            self.say(f"This is day {len(self.messages) // 2}. {FILLER}")
            if condition():
                return
        raise AssertionError("it never came to that")

    def listed(self) -> TaskList:
        """What other processes see."""
        with closing(SqliteMailbox(Project(self.folder).mailbox)) as mailbox:
            listed = self._file(mailbox).read()
        assert listed is not None
        return listed

    def _file(self, mailbox: SqliteMailbox) -> TaskFile:
        files = SessionFiles(self.folder, "work")
        return TaskFile(FileFolder(files.agent), files.name, mailbox)

    def order(self, action: Any, target: str) -> str:
        """Order something as another terminal does; returns what became of it."""
        with closing(SqliteMailbox(Project(self.folder).mailbox)) as mailbox:
            message = self._file(mailbox).box.send(self.listed().run, action, target)
            self.desk.look()
            outcome = self._file(mailbox).outcome(message.id)
        assert outcome is not None
        return outcome.text

    def waiting(self) -> tuple[PendingProposal, ...]:
        """What is proposed at the moment."""
        return self.follower.kept[0].consent.waiting


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AskingGateway]:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    asking = AskingGateway(tmp_path / "projects" / "pier")
    yield asking
    asking.desk.close()
    asking.recorder.close()
    assert asking.problems == []


def test_what_nobody_decides_does_not_happen(gateway: AskingGateway) -> None:
    gateway.talk_until(lambda: bool(gateway.waiting()))
    for number in range(8):
        gateway.say(f"And now {number}? {FILLER}")
    assert all(call.body is None for call in gateway.calls)
    (proposal,) = gateway.listed().proposals
    assert proposal.layer == "compact"
    assert proposal.tokens > 1_000
    assert proposal.usd
    assert proposal.saves_usd
    assert len(gateway.said) == 1
    assert f"proposal {proposal.id} in work: summarise" in gateway.said[0]


def test_a_summary_that_was_agreed_to_is_made_and_used_and_can_be_undone(gateway: AskingGateway) -> None:
    gateway.talk_until(lambda: bool(gateway.waiting()))
    (proposal,) = gateway.waiting()
    assert gateway.order("agree", proposal.id).startswith("agreed: ")
    gateway.talk_until(lambda: gateway.calls[-1].body is not None)
    done = gateway.listed().done
    assert [act.layer for act in done] == ["compact"]
    sent = gateway.say("Is all of it still there?")
    assert json.loads(sent)["messages"] != gateway.messages[:-1]
    assert "is undone" in gateway.order("undo", done[0].id)
    assert json.loads(gateway.say("And now?"))["messages"] == gateway.messages[:-1]
    gateway.talk_until(lambda: len(gateway.calls) % 7 == 0)
    assert gateway.calls[-1].body is None


def test_what_a_gateway_did_that_asks_nobody_can_be_undone_too(tmp_path: Path) -> None:
    keeping = AskingGateway(tmp_path / "projects" / "pier", only_proposes=False)
    keeping.talk_until(lambda: keeping.calls[-1].body is not None)
    (done,) = keeping.listed().done
    assert "is undone" in keeping.order("undo", done.id)
    assert json.loads(keeping.say("And now?"))["messages"] == keeping.messages[:-1]
    keeping.desk.close()
    keeping.recorder.close()


def test_what_was_declined_is_proposed_again_once_the_conversation_has_grown(
    gateway: AskingGateway,
) -> None:
    gateway.talk_until(lambda: bool(gateway.waiting()))
    (proposal,) = gateway.waiting()
    assert "declined" in gateway.order("decline", proposal.id)
    assert gateway.waiting() == ()
    gateway.talk_until(lambda: bool(gateway.waiting()))
    assert all(call.body is None for call in gateway.calls)


def test_an_order_about_something_that_does_not_wait_says_so(gateway: AskingGateway) -> None:
    gateway.talk_until(lambda: bool(gateway.waiting()))
    assert "no proposal nothing waits" in gateway.order("agree", "nothing")
    assert gateway.desk.decide("agree nothing") == "no proposal nothing waits for a decision"
    assert "agree ID" in gateway.desk.decide("yes please")
    assert gateway.desk.decide(f"decline {gateway.waiting()[0].id}").startswith("declined")


def test_what_is_shown_to_other_processes_is_gone_with_the_gateway(gateway: AskingGateway) -> None:
    gateway.talk_until(lambda: bool(gateway.waiting()))
    path = SessionFiles(gateway.folder, "work").agent / TaskFile.NAME
    assert path.exists()
    gateway.desk.close()
    assert not path.exists()


def test_the_inspector_shows_what_waits_and_decides_it(gateway: AskingGateway) -> None:
    gateway.talk_until(lambda: bool(gateway.waiting()))
    path = SessionFiles(gateway.folder, "work").transcript
    (row,) = proposals_view(path)["proposals"]
    assert row["id"] == gateway.waiting()[0].id
    assert "tokens would leave the context" in row["text"]
    looking = threading.Thread(target=_look_until_decided, args=(gateway,))
    looking.start()
    assert orders.agree(path, row["id"]).done
    looking.join()
    assert proposals_view(path) == {"proposals": []}
    with pytest.raises(Refused, match="no gateway has this session open"):
        orders.decline(path.with_name("other.jsonl"), row["id"])


def _look_until_decided(gateway: AskingGateway) -> None:
    while gateway.waiting():
        gateway.desk.look()
    gateway.desk.look()


def proposed(layer: str, **facts: Any) -> Proposed:
    return Proposed(layer=layer, mechanism="m", what=f"do {layer}", why="it is large", **facts)


def test_an_answer_about_large_results_holds_from_then_on() -> None:
    ids = iter(("first-id", "second-id"))
    consent = Consent(lambda: next(ids), lambda: 0.0)
    at_hand = AtHand(size=1_000, window=10_000, read_usd=0.000_001)
    assert not consent.may(proposed("offload", tokens=5_000), at_hand)
    (proposal,) = consent.waiting
    assert proposal.stands
    consent.agree(proposal.id)
    assert consent.may(proposed("offload", tokens=5_000), at_hand)
    assert consent.may(proposed("offload", tokens=9_000), at_hand)


def test_an_agreement_holds_for_one_act() -> None:
    ids = iter(("first-id", "second-id"))
    consent = Consent(lambda: next(ids), lambda: 0.0)
    at_hand = AtHand(size=1_000, window=10_000, read_usd=None)
    assert not consent.may(proposed("clear"), at_hand)
    consent.agree(consent.waiting[0].id)
    assert consent.may(proposed("clear"), at_hand)
    consent.acted(Acted(layer="clear", mechanism="m", what="clear", why="w", reference="d1"))
    assert not consent.may(proposed("clear"), at_hand)
    assert [done.id for done in consent.done] == ["d1"]
    with pytest.raises(Refused, match="no proposal first-"):
        consent.decline("first-")


def test_a_proposal_says_what_would_leave_how_much_and_what_it_costs_and_saves() -> None:
    proposal = PendingProposal(
        id="4f21c3", layer="compact", what="summarise 212 records", why="auto", at=0.0,
        tokens=148_000, usd=0.31, own_usd=0.09, saves_usd=0.07,
    )  # fmt: skip
    assert described(proposal) == (
        "summarise 212 records (auto): about 148,000 tokens would leave the context; it costs about $0.31 once, "
        "$0.09 of it for our own call, then about $0.07 less with each request"
    )
