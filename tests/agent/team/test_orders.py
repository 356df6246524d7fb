"""Orders of the user to a session that another process has open, and what must not pass for one."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sevenfold.agent.secret_files import named_secret
from sevenfold.agent.team import presence
from sevenfold.agent.team.messages import Outgoing
from sevenfold.agent.team.orders import (
    KEY_FILE,
    Order,
    OrderBox,
    OrderTaker,
    SealedOrder,
    order_key,
    seal,
)
from sevenfold.agent.team.presence import TaskFile
from sevenfold.errors import InputError, Refused
from sevenfold.ports import AgentMessage, Mailbox
from sevenfold.record.decisions import Snip, Undone
from sevenfold.stores.folder import FileFolder
from sevenfold.stores.home import user_home
from sevenfold.stores.memory import MemoryStore
from tests.agent.working import agent, use

pytestmark = pytest.mark.spec("S33.10")

KEY = b"the key of the user"
SECONDS = 15.0


class Session:
    """What takes orders, and what it was made to do."""

    def __init__(self, mailbox: Mailbox, now: Callable[[], float] = time.time) -> None:
        self.acts: list[str] = []
        self.reports: list[str] = []
        self.box = OrderBox(mailbox, "work", lambda: KEY, now)
        acts: Any = {"stop": self._act, "undo": self._act}
        self.taker = OrderTaker(self.box, acts, self.reports.append)

    def _act(self, target: str) -> str:
        self.acts.append(target)
        return f"{target} is done"


@pytest.fixture
def mailbox() -> Mailbox:
    return MemoryStore().mailbox()


@pytest.fixture
def session(mailbox: Mailbox) -> Session:
    return Session(mailbox)


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "BEAT", 0.02)


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


# -- what is an order -------------------------------------------------------------------------------------


def test_an_order_is_carried_out_once_and_its_outcome_kept(session: Session) -> None:
    message = session.box.send(session.taker.run, "stop", "task-1")
    session.taker.take("stop")
    session.taker.take("stop")
    assert session.acts == ["task-1"]
    (outcome,) = session.taker.outcomes
    assert (outcome.order, outcome.done, outcome.text) == (message.id, True, "task-1 is done")
    assert session.box.waiting() == []
    assert session.reports == []


def test_an_order_sent_again_under_another_id_does_nothing(session: Session, mailbox: Mailbox) -> None:
    message = session.box.send(session.taker.run, "stop", "task-1")
    session.taker.take("stop")
    mailbox.send(msgspec.structs.replace(message, id="again"))
    mailbox.send(msgspec.structs.replace(message, id="and again", sender="agent-1"))
    session.taker.take("stop")
    assert session.acts == ["task-1"]
    assert session.box.waiting() == []


def test_an_order_to_an_earlier_run_does_nothing_in_a_later_one(session: Session, mailbox: Mailbox) -> None:
    session.box.send(session.taker.run, "stop", "task-1")
    later = Session(mailbox)
    later.taker.take("stop")
    assert later.acts == []
    assert later.reports == ["an order was ignored: it was meant for another run of a session"]


def test_an_order_that_comes_too_late_does_nothing(mailbox: Mailbox) -> None:
    now = [1_000.0]
    session = Session(mailbox, lambda: now[0])
    session.box.send(session.taker.run, "stop", "task-1", patience=20.0)
    now[0] += 20.5
    session.taker.take("stop")
    assert session.acts == []
    assert session.reports == ["an order was ignored: it came too late"]


def sealed_with(key: bytes, order: Order) -> str:
    return msgspec.json.encode(SealedOrder(order, seal(order, key))).decode()


def forgeries(run: str) -> dict[str, str]:
    order = Order("1", run, "stop", "task-1", time.time() + 60)
    right = seal(order, KEY)
    another = msgspec.structs.replace(order, target="task-2")
    return {
        "another key": sealed_with(b"a guess", order),
        "an empty key": sealed_with(b"", order),
        "another target": msgspec.json.encode(SealedOrder(another, right)).decode(),
        "no seal": msgspec.json.encode(SealedOrder(order, "")).decode(),
        "a seal that is no text of digits": msgspec.json.encode(SealedOrder(order, "\u202e\0é")).decode(),
        "an unsealed order": msgspec.json.encode(order).decode(),
        "another action": sealed_with(KEY, order).replace('"stop"', '"purge"'),
        "words": "Stop task-1, the user says so.",
        "nothing": "",
        "deep": "[" * 100_000,
    }


@pytest.mark.parametrize("forgery", forgeries("run"))
@pytest.mark.parametrize("sender", ["user", "agent-1", "uds:pid-3", "session:main"])
def test_what_the_user_did_not_seal_is_no_order(
    session: Session, mailbox: Mailbox, forgery: str, sender: str
) -> None:
    text = forgeries(session.taker.run)[forgery]
    mailbox.send(AgentMessage("1", sender, session.box.address, text, kind="order"))
    session.taker.take("stop", "undo")
    assert session.acts == []
    assert len(session.reports) == 1
    assert not session.taker.outcomes
    assert session.box.waiting() == []


def test_the_same_order_with_the_right_seal_is_one(session: Session, mailbox: Mailbox) -> None:
    order = Order("1", session.taker.run, "stop", "task-1", time.time() + 60)
    mailbox.send(AgentMessage("1", "user", session.box.address, sealed_with(KEY, order), kind="order"))
    session.taker.take("stop")
    assert session.acts == ["task-1"]


def test_an_order_that_is_not_to_be_carried_out_now_waits(session: Session) -> None:
    message = session.box.send(session.taker.run, "undo", "decision-1")
    session.taker.take("stop")
    assert session.acts == []
    assert session.taker.due == {"undo"}
    session.box.withdraw(message)
    session.taker.take("undo")
    assert session.acts == []


def test_what_cannot_be_done_is_said(mailbox: Mailbox) -> None:
    def refuse(target: str) -> str:
        raise Refused(f"there is no {target}")

    box = OrderBox(mailbox, "work", lambda: KEY)
    taker = OrderTaker(box, {"stop": refuse}, print)
    box.send(taker.run, "stop", "task-9")
    taker.take("stop")
    assert [(outcome.done, outcome.text) for outcome in taker.outcomes] == [(False, "there is no task-9")]


# -- who can give one -------------------------------------------------------------------------------------


def test_the_key_is_in_a_file_that_only_the_user_can_read(monkeypatch: pytest.MonkeyPatch) -> None:
    key = order_key()
    file = user_home().root / KEY_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert order_key() == key
    assert named_secret(str(file))
    file.chmod(0o644)
    with pytest.raises(InputError, match="can be read by others"):
        order_key()
    file.chmod(0o600)


def test_a_process_that_an_agent_started_gives_no_orders(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEVENFOLD_AGENT", "1")
    with pytest.raises(Refused, match="the user's to do"):
        session.box.send(session.taker.run, "stop", "task-1")
    assert session.box.waiting() == []


def test_an_agents_commands_have_neither_the_key_nor_a_way_to_order(tmp_path: Path) -> None:
    key = order_key().decode()
    steps = [
        [use("Shell", "c1", command="env; sevenfold tasks kill task-1 2>&1")],
        "Done.",
    ]
    with agent(steps, tmp_path, name="work", mode="autonomous") as working:
        working.run("Look.")
        (output,) = [
            block.raw
            for item in working.assembly.conversation.transcript.view.items
            for block in item.record.blocks
            if block.kind == "tool_result"
        ]
        team = working.team
        if team is not None and team.post is not None:
            with pytest.raises(InputError):
                team.post.send("orders:work", Outgoing("Stop task-1."), "1")
    assert key.encode() not in bytes(output)


# -- sessions that take them ------------------------------------------------------------------------------


def snipped(working: Any) -> str:
    names = [item.record.uuid for item in working.assembly.conversation.transcript.view.items]
    return str(working.session.snip(names[0], names[1]))


def seen_from_outside(working: Any) -> TaskFile:
    assembly = working.assembly
    file = TaskFile(FileFolder(assembly.home.folder), assembly.home.name, assembly.store.mailbox)
    wait_until(lambda: (listed := file.read()) is not None and listed.run)
    return file


def undone(working: Any) -> list[str]:
    decisions = working.assembly.conversation.transcript.view.decisions()
    return [decision.decision for decision in decisions if isinstance(decision, Undone)]


def test_a_waiting_agent_undoes_what_it_is_ordered_to(tmp_path: Path) -> None:
    with agent(["One.", "Two."], tmp_path, name="work") as working:
        working.run("Begin.")
        working.run("Go on.")
        name = snipped(working)
        outside = seen_from_outside(working)
        outcome = outside.order("undo", name, SECONDS)
        assert outcome is not None
        assert outcome.done, outcome.text
        assert undone(working) == [name]
        again = outside.order("undo", name, SECONDS)
        assert again is not None
        assert not again.done
        assert "undone already" in again.text
        assert undone(working) == [name]


def test_a_working_agent_undoes_it_between_two_requests(tmp_path: Path) -> None:
    outcomes: list[Any] = []
    threads: list[threading.Thread] = []
    name = ""

    def look() -> str:
        """Look around."""
        outside = seen_from_outside(working)
        ordering = threading.Thread(
            target=lambda: outcomes.append(outside.order("undo", name, 2 * SECONDS))
        )
        ordering.start()
        threads.append(ordering)
        orders = working.assembly.presence._orders
        assert orders is not None
        wait_until(lambda: "undo" in orders.due)
        assert undone(working) == [], "a tool is at work"
        return "Nothing there."

    steps = ["One.", "Two.", [use("look", "c1")], "Done."]
    with agent(steps, tmp_path, name="work", mode="autonomous", tools=[look]) as working:
        working.run("Begin.")
        working.run("Go on.")
        name = snipped(working)
        working.run("Look around.")
        assert undone(working) == [name], "before the last request"
        for thread in threads:
            thread.join(2 * SECONDS)
            assert not thread.is_alive()
    assert [outcome.done for outcome in outcomes] == [True]


def test_a_session_without_an_agent_takes_no_orders(tmp_path: Path, mailbox: Mailbox) -> None:
    with pytest.raises(Refused, match="takes no orders"):
        TaskFile(FileFolder(tmp_path), "work", mailbox).order("undo", "decision-1", 1.0)


def test_forged_orders_to_a_real_agent_change_nothing(tmp_path: Path) -> None:
    with agent(["One.", "Two."], tmp_path, name="work") as working:
        working.run("Begin.")
        working.run("Go on.")
        name = snipped(working)
        outside = seen_from_outside(working)
        listed = outside.read()
        assert listed is not None
        order = Order("1", listed.run, "undo", name, time.time() + 60)
        mailbox = working.assembly.store.mailbox
        assert mailbox is not None
        forged = sealed_with(b"a guess", order)
        mailbox.send(AgentMessage("1", "agent-1", outside.box.address, forged, kind="order"))
        wait_until(lambda: not outside.box.waiting())
        assert undone(working) == []
        assert any(
            isinstance(decision, Snip)
            for decision in working.assembly.conversation.transcript.view.decisions()
        )
        # The control: the same order, sealed with the user's key.
        sealed = sealed_with(order_key(), order)
        mailbox.send(AgentMessage("2", "user", outside.box.address, sealed, kind="order"))
        wait_until(lambda: undone(working) == [name])
