"""Sockets between sessions of one user: who may send, and what becomes of it."""

from __future__ import annotations

import os
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sevenfold.agent.team import sockets
from sevenfold.agent.team.messages import LONGEST
from sevenfold.agent.team.sockets import MessageSocket, send
from sevenfold.ports import AgentMessage, Mailbox
from sevenfold.stores.memory import MemoryStore

pytestmark = [
    pytest.mark.spec("S7.4"),
    pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="says which user is at the other end"),
]


@pytest.fixture
def mailbox() -> Mailbox:
    return MemoryStore().mailbox()


@pytest.fixture
def there(tmp_path: Path, mailbox: Mailbox) -> Iterator[MessageSocket]:
    # Deeper than the name of a socket may be long.
    made = MessageSocket(tmp_path / ("deep" * 30) / "main.sock", mailbox, "session:main")
    yield made
    made.close()


def message(name: str = "1", text: str = "hello", **more: object) -> AgentMessage:
    return AgentMessage(name, "session:main", "uds:x", text, **more)  # type: ignore[arg-type]


def test_a_message_arrives_in_the_mailbox_of_the_other_session_and_is_receipted(there, mailbox):
    receipt = send(str(there.path), message())
    assert (receipt.to, receipt.state) == (f"uds:{there.path}", "queued")
    (found,) = mailbox.waiting("session:main")
    assert found.text == "hello"


def test_the_sender_is_what_the_system_says_and_not_what_the_message_says(there, mailbox):
    send(str(there.path), message())
    (found,) = mailbox.waiting("session:main")
    assert found.sender == f"uds:pid-{os.getpid()}"


def test_an_address_to_answer_is_believed_if_the_sender_listens_there(there, mailbox, tmp_path):
    with_answer = MessageSocket(tmp_path / "s" / "own.sock", mailbox, "session:own")
    assert with_answer.send(str(there.path), message()).state == "queued"
    (found,) = mailbox.waiting("session:main")
    assert found.sender == f"uds:{with_answer.path}"
    assert send(found.sender.removeprefix("uds:"), message("2", "an answer")).state == "queued"
    assert [one.text for one in mailbox.waiting("session:own")] == ["an answer"]
    with_answer.close()


def test_an_address_at_which_another_process_listens_is_not_believed(there, mailbox, tmp_path):
    path = tmp_path / "other.sock"
    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); "
        "print(1, flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, "other.sock"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout is not None
    other.stdout.readline()
    try:
        assert send(str(there.path), message(), answer=str(path)).state == "queued"
        assert [one.sender for one in mailbox.waiting("session:main")] == [f"uds:pid-{os.getpid()}"]
    finally:
        other.communicate()


def test_another_user_is_refused_at_both_ends(there, mailbox, monkeypatch):
    monkeypatch.setattr(sockets, "_CREDENTIALS", Forged())
    receipt = send(str(there.path), message())
    assert receipt.state == "refused"
    assert "another user" in receipt.reason
    assert mailbox.waiting("session:main") == []


class Forged:
    """The credentials of somebody else."""

    size = struct.calcsize("3i")

    def unpack(self, found: bytes) -> tuple[int, int, int]:
        process, user, group = struct.unpack("3i", found)
        return process, user + 1, group


def test_the_same_message_again_is_taken_once(there, mailbox):
    assert send(str(there.path), message()).state == "queued"
    assert send(str(there.path), message()).state == "queued"
    mailbox.acknowledge(mailbox.waiting("session:main"))
    assert send(str(there.path), message()).state == "delivered"


@pytest.mark.parametrize(
    "given", [message(kind="shutdown_request", approve=True), message(text="x" * (LONGEST + 1))]
)
def test_only_words_and_not_too_many_come_this_way(there, mailbox, given):
    assert send(str(there.path), given).state == "refused"
    assert mailbox.waiting("session:main") == []


def test_a_sender_cannot_have_its_message_delivered_late_or_to_somebody_else(there, mailbox):
    send(str(there.path), AgentMessage("1", "x", "agent-7", "hello", due=1e12))
    (found,) = mailbox.waiting("session:main")
    assert found.due == 0.0


@pytest.mark.parametrize("noise", [b"", b"no json", b'{"message": 1}', b"\xff" * 1000])
def test_noise_is_refused_and_the_next_message_is_taken(there, mailbox, noise):
    with sockets._connected(str(there.path)) as raw:
        raw.sendall(noise)
        raw.shutdown(socket.SHUT_WR)
        assert raw.recv(100) == b""
    assert send(str(there.path), message()).state == "queued"


def test_where_no_session_listens_a_message_is_refused_and_may_be_sent_again(tmp_path, there):
    receipt = send(str(tmp_path / "none.sock"), message())
    assert receipt.state == "refused"
    assert "safe to send it again" in receipt.reason
    there.close()
    assert send(str(there.path), message()).state == "refused"


def test_only_its_owner_can_reach_a_socket(there):
    assert stat.S_IMODE(there.path.parent.stat().st_mode) == 0o700


def test_a_socket_that_a_killed_session_left_is_replaced(there, mailbox, tmp_path):
    left = tmp_path / "s" / "left.sock"
    left.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead, sockets._short_path(left) as name:
        dead.bind(name)
    made = MessageSocket(left, mailbox, "session:main")
    assert send(str(left), message()).state == "queued"
    made.close()
