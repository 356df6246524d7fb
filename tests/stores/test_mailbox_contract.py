"""What every mailbox must do: each message arrives once, in the order of its sender, whichever side is killed when."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from bench.mailbox import soak
from sevenfold.archive.upkeep.purge import mask, survey
from sevenfold.archive.upkeep.rewrite import RecordStamper
from sevenfold.archive.upkeep.secrets import Leak
from sevenfold.clock import RandomIds, SystemClock
from sevenfold.errors import TranscriptDenied, TranscriptForeign
from sevenfold.ports import AgentMessage, Mailbox, Store
from sevenfold.stores.home import Home
from sevenfold.stores.jsonl.mailbox import SqliteMailbox
from sevenfold.stores.jsonl.store import JsonlStore
from sevenfold.stores.memory import MemoryStore
from tests.stores.servers import in_postgres

MAKERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "jsonl": lambda folder: JsonlStore(folder / "sessions"),
    "postgres": in_postgres,
}


@pytest.fixture(params=MAKERS)
def mailbox(request, tmp_path) -> Mailbox:
    return MAKERS[request.param](tmp_path).mailbox()


def module_of(mailbox: Mailbox) -> ModuleType:
    return sys.modules[type(mailbox).__module__]


def message(name: str, sender: str = "a", to: str = "b", **more: Any) -> AgentMessage:
    return AgentMessage(name, sender, to, f"text of {name}", **more)


def names(found: Any) -> list[str]:
    return [one.id for one in found]


@pytest.mark.spec("S7.4")
def test_messages_wait_in_their_order_until_they_are_acknowledged(mailbox):
    for name in ("1", "2", "3"):
        assert mailbox.send(message(name)) == "queued"
    assert names(mailbox.waiting("b")) == names(mailbox.waiting("b")) == ["1", "2", "3"]
    mailbox.acknowledge(mailbox.waiting("b", 2))
    assert names(mailbox.waiting("b")) == ["3"]
    assert mailbox.waiting("a") == mailbox.waiting("c") == []


def test_every_field_arrives_as_it_was_sent(mailbox):
    sent = AgentMessage("é\n", "s", "b", "a\u2028b", "few words", "kill", True, 1.5, 2.5)
    mailbox.send(sent)
    assert list(mailbox.waiting("b")) == [sent]


@pytest.mark.spec("S7.4")
def test_the_same_message_is_taken_once_even_after_it_has_arrived(mailbox):
    assert mailbox.send(message("1")) == mailbox.send(message("1")) == "queued"
    assert names(mailbox.waiting("b")) == ["1"]
    mailbox.acknowledge(mailbox.waiting("b"))
    assert mailbox.send(message("1")) == "delivered"
    assert mailbox.waiting("b") == []


def test_two_senders_may_use_the_same_id(mailbox):
    mailbox.send(message("1", "a"))
    mailbox.send(message("1", "c"))
    assert [one.sender for one in mailbox.waiting("b")] == ["a", "c"]
    mailbox.acknowledge([message("1", "a")])
    assert [one.sender for one in mailbox.waiting("b")] == ["c"]


@pytest.mark.spec("S7.4")
def test_a_full_queue_refuses_messages_and_others_still_get_theirs(mailbox, monkeypatch):
    monkeypatch.setattr(module_of(mailbox), "MOST_MESSAGES_WAITING", 3)
    assert [mailbox.send(message(str(n))) for n in range(5)] == ["queued"] * 3 + ["refused"] * 2
    assert mailbox.send(message("0")) == "queued", "one that is waiting already is not refused"
    assert mailbox.send(message("9", to="c")) == "queued"
    mailbox.acknowledge(mailbox.waiting("b", 1))
    assert mailbox.send(message("3")) == "queued"


def test_old_ids_are_forgotten_and_waiting_messages_are_not(mailbox, monkeypatch):
    monkeypatch.setattr(module_of(mailbox), "IDS_KEPT", 4)
    monkeypatch.setattr(module_of(mailbox), "MOST_MESSAGES_WAITING", 10)
    mailbox.send(message("kept", to="c"))
    for n in range(29):
        mailbox.send(message(str(n)))
        mailbox.acknowledge(mailbox.waiting("b"))
    assert names(mailbox.waiting("c")) == ["kept"]
    mailbox.send(message("28"))
    assert mailbox.waiting("b") == []
    mailbox.send(message("0"))
    assert names(mailbox.waiting("b")) == ["0"]


def test_threads_may_share_it(mailbox):
    def send(sender: str) -> None:
        for n in range(50):
            mailbox.send(message(str(n), sender))

    threads = [Thread(target=send, args=(sender,)) for sender in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = mailbox.waiting("b", 1_000)
    for sender in "xyz":
        assert [one.id for one in found if one.sender == sender] == [str(n) for n in range(50)]


def test_it_can_be_used_again_after_it_was_closed(tmp_path):
    mailbox = JsonlStore(tmp_path).mailbox()
    mailbox.send(message("1"))
    mailbox.close()
    mailbox.close()
    assert names(mailbox.waiting("b")) == ["1"]


# -- in a file ---------------------------------------------------------------------------------------


def test_looking_for_mail_creates_nothing(tmp_path):
    assert JsonlStore(tmp_path / "p").mailbox().waiting("b") == ()
    assert not (tmp_path / "p").exists()


def test_its_file_is_its_owners_alone(tmp_path):
    JsonlStore(tmp_path / "p").mailbox().send(message("1"))
    found = list((tmp_path / "p").iterdir())
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    assert stat.S_IMODE((tmp_path / "p").stat().st_mode) == 0o700


def test_a_file_that_is_no_mailbox_is_named_and_left_alone(tmp_path):
    (tmp_path / "mailbox.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(TranscriptForeign, match=r"mailbox\.sqlite.*move it away"):
        JsonlStore(tmp_path).mailbox().send(message("1"))
    assert (tmp_path / "mailbox.sqlite").read_bytes() == b"no database" * 100
    (tmp_path / "mailbox.sqlite").unlink()
    (tmp_path / "mailbox.sqlite").mkdir()
    with pytest.raises(Exception, match="directory"):
        JsonlStore(tmp_path).mailbox().send(message("1"))


def test_a_file_that_cannot_be_written_is_an_error_that_says_so(tmp_path):
    with closing(SqliteMailbox(tmp_path / "mailbox.sqlite")) as mailbox:
        mailbox.send(message("1"))
        assert mailbox._db is not None
        mailbox._db.execute("PRAGMA query_only = ON")
        with pytest.raises(TranscriptDenied, match="permissions"):
            mailbox.send(message("2"))
        assert names(mailbox.waiting("b")) == ["1"]


def test_a_purge_masks_secrets_in_messages_and_leaves_the_mailbox_whole(tmp_path):
    home = Home(tmp_path)
    secret = "sk-" + "Zx9" * 12
    store = JsonlStore(home.project(tmp_path).folder)
    mailbox = store.mailbox()
    mailbox.send(AgentMessage("0", "a", "b", f"it was {secret}, too"))
    mailbox.acknowledge(mailbox.waiting("b"))
    mailbox.send(AgentMessage("1", "a", "b", f"the key is {secret}"))
    mailbox.send(message("2"))
    leaks = [Leak(secret, "key")]
    assert mask(home, leaks, survey(home, leaks), RecordStamper(SystemClock(), RandomIds())) > 0
    first, second = mailbox.waiting("b")
    assert secret not in first.text
    assert first.text.startswith("the key is ")
    assert second == message("2")
    mailbox.close()
    assert not any(secret.encode() in path.read_bytes() for path in store.folder.iterdir())


# -- any order of things -----------------------------------------------------------------------------


class Mailboxes(RuleBasedStateMachine):
    """Agents that send, resend, receive and are cut off between any two steps, and what their logs should hold."""

    make: Callable[[], Callable[[], Mailbox]]
    agents = st.sampled_from("abc")

    @initialize()
    def begin(self) -> None:
        self.open = self.make()
        self.mailbox = self.open()
        self.sent: dict[tuple[str, str], list[str]] = {}
        self.logs: dict[str, list[tuple[str, str]]] = {agent: [] for agent in "abc"}
        self.names = 0

    @rule(sender=agents, to=agents, again=st.booleans())
    def send(self, sender: str, to: str, again: bool) -> None:
        self.names += 1
        name = f"{sender}{self.names}"
        for _ in range(1 + again):
            assert self.mailbox.send(message(name, sender, to)) == "queued"
        self.sent.setdefault((sender, to), []).append(name)

    @rule(to=agents, most=st.integers(1, 4), cut_off=st.booleans())
    def receive(self, to: str, most: int, cut_off: bool) -> None:
        found = self.mailbox.waiting(to, most)
        self.logs[to] += [mark for one in found if (mark := (one.sender, one.id)) not in self.logs[to]]
        if not cut_off:
            self.mailbox.acknowledge(found)

    @rule()
    def reopen(self) -> None:
        self.mailbox = self.open()

    @invariant()
    def everything_arrives_once_and_in_order(self) -> None:
        for (sender, to), sent in self.sent.items():
            arrived = [name for by, name in self.logs[to] if by == sender]
            waiting = [one.id for one in self.mailbox.waiting(to) if one.sender == sender]
            assert arrived == sent[: len(arrived)]
            assert [*arrived, *(name for name in waiting if name not in arrived)] == sent


@pytest.mark.spec("S7.4")
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_in_any_order_of_steps_every_message_arrives_once(make, tmp_path_factory):
    class Machine(Mailboxes):
        make = staticmethod(lambda: make(tmp_path_factory.mktemp("mail")).mailbox)

    run_state_machine_as_test(Machine)


@pytest.mark.spec("S7.4")
def test_nothing_is_lost_doubled_or_out_of_order_when_either_side_is_killed(tmp_path):
    found = soak(tmp_path, messages=12_000, seed=3, longest=0.1)
    assert found.problems == []
    assert found.kills >= 4
