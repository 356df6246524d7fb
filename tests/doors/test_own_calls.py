"""Our own calls stand behind exactly what was sent last, where that is what they show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sevenfold.doors.follower.follower import ClientCall
from sevenfold.doors.follower.growth import ConversationGrowth
from sevenfold.doors.follower.own_calls import behind_sent
from sevenfold.ports import Call, Reply, Watcher
from tests.doors.keeping import following, prepared

pytestmark = pytest.mark.spec("S40.9")

FRONT: dict[str, Any] = {"system": [{"type": "text", "text": "s"}], "tools": [{"name": "Read"}]}
INSTRUCTION = {"role": "user", "content": [{"type": "text", "text": "Summarise."}]}


def message(role: str, text: str, *, marked: bool = False) -> dict[str, Any]:
    block = {"type": "text", "text": text}
    return {"role": role, "content": [block | ({"cache_control": {"type": "ephemeral"}} if marked else {})]}


def behind(own: dict[str, Any], sent: dict[str, Any]) -> Any:
    body = behind_sent(json.dumps(own).encode(), json.dumps(sent).encode())
    return None if body is None else json.loads(body)


def test_what_was_sent_stands_in_front_of_the_instruction_with_its_cache_markers() -> None:
    head = message("user", "<reminder>the rules</reminder>")
    newest = message("user", "And now?")
    own = {**FRONT, "max_tokens": 9, "messages": [newest, INSTRUCTION]}
    sent = {**FRONT, "stream": True, "messages": [head, message("user", "And now?", marked=True)]}
    body = behind(own, sent)
    assert body["messages"] == [*sent["messages"], INSTRUCTION]
    assert body["max_tokens"] == 9
    assert "stream" not in body


def test_an_answer_that_came_since_is_shown_too() -> None:
    newest = {"role": "user", "content": "And now?"}
    answer = message("assistant", "It rains.")
    own = {**FRONT, "messages": [message("user", "And now?"), answer, INSTRUCTION]}
    body = behind(own, {**FRONT, "messages": [newest]})
    assert body["messages"] == [newest, answer, INSTRUCTION]


@pytest.mark.parametrize(
    "sent",
    [
        {**FRONT, "messages": [message("user", "Something else")]},
        {**FRONT, "tools": [], "messages": [message("user", "And now?")]},
        {**FRONT, "system": "another", "messages": [message("user", "And now?")]},
    ],
    ids=["other messages", "other tools", "another system prompt"],
)
def test_a_call_that_shows_something_else_stays_as_it_is(sent: dict[str, Any]) -> None:
    own = {**FRONT, "messages": [message("user", "And now?"), INSTRUCTION]}
    assert behind(own, sent) is None


def test_no_summary_is_begun_that_the_program_would_forestall_by_its_own() -> None:
    growth = ConversationGrowth()
    growth.answered(70)
    growth.answered(85)
    assert not growth.is_time_for_summary(100)
    assert growth.is_time_for_summary(101)
    assert growth.is_last_chance(115)
    assert not growth.is_last_chance(116)


def test_a_program_that_goes_on_beyond_the_threshold_does_not_compact_by_itself() -> None:
    growth = ConversationGrowth()
    growth.answered(90)
    growth.answered(105)
    assert not growth.is_time_for_summary(100)
    growth.answered(110)
    assert growth.is_time_for_summary(100)
    growth.answered(20)
    assert growth.is_time_for_summary(100)
    assert not growth.went_on_beyond(100)


def test_what_is_left_behind_a_compaction_is_known_by_who_made_it() -> None:
    growth = ConversationGrowth()
    for size in (20, 50, 60):
        growth.answered(size)
    assert growth.first == 20
    assert growth.usual == 20
    growth.compacted_by("program")
    growth.answered(45)
    growth.answered(55)
    growth.compacted_by("we")
    growth.answered(30)
    assert growth.behind == {"program": 45, "we": 30}
    assert growth.first == 20


def test_of_a_conversation_that_went_on_before_the_first_size_is_not_known() -> None:
    growth = ConversationGrowth(is_new=False)
    growth.answered(90)
    assert growth.first == 0


class CountedClient:
    """A client that is never asked, and says whether it was closed."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.closed = 0

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        raise AssertionError("nothing is to be asked")

    def close(self) -> None:
        self.closed += 1


def test_all_requests_with_one_credential_share_a_client_which_the_follower_closes() -> None:
    clients: list[CountedClient] = []

    def made(call: ClientCall, address: str) -> CountedClient:
        clients.append(CountedClient(address))
        return clients[-1]

    follower = following([], made)
    for session in ("first", "second"):
        for number in range(3):
            messages = [message("user", f"{session} {turn}") for turn in range(number + 1)]
            prepared(follower, messages, {"x-sevenfold-session": session})
    assert len(clients) == 1
    prepared(follower, [message("user", "Hello?")], {"x-sevenfold-session": "third", "x-api-key": "other"})
    assert [client.closed for client in clients] == [0, 0]
    follower.close()
    assert [client.closed for client in clients] == [1, 1]
