"""Messages typed while the agent works: each is read once, where it entered the conversation."""

from __future__ import annotations

import json
from typing import Any

from sevenfold.record import entries
from sevenfold.record.authorship import Queue, users_words
from sevenfold.record.entries import Entry


def line(kind: str, **fields: Any) -> Entry:
    return entries.read(json.dumps({"type": kind, "timestamp": "2026-02-03T12:00:00Z", **fields}).encode())


def queued(operation: str, content: str | None = None) -> Entry:
    said = {} if content is None else {"content": content}
    return line("queue-operation", operation=operation, sessionId="s", **said)


def answer(name: str) -> Entry:
    message = {"role": "assistant", "id": name, "content": [{"type": "text", "text": "Well."}]}
    return line("assistant", uuid=name, parentUuid=None, message=message)


def typed(text: str) -> Entry:
    return line("user", uuid=text, parentUuid=None, message={"role": "user", "content": text})


def came(*recorded: Entry) -> list[list[str]]:
    """For each entry, the queued messages that belong before it."""
    queue = Queue()
    return [
        [users_words(said) for _, said in queue.due(position, entry)]
        for position, entry in enumerate(recorded)
    ]


def test_a_message_that_joined_the_running_turn_stands_before_the_next_answer_once() -> None:
    assert came(queued("enqueue", "mind the tide"), queued("remove"), answer("a"), answer("b")) == [
        [],
        [],
        ["mind the tide"],
        [],
    ]


def test_of_several_the_oldest_joins_first_and_the_others_wait() -> None:
    assert came(
        queued("enqueue", "one"),
        queued("enqueue", "two"),
        queued("remove"),
        answer("a"),
        queued("remove"),
        answer("b"),
    ) == [[], [], [], ["one"], [], ["two"]]


def test_a_message_that_became_a_record_of_its_own_is_not_told_twice() -> None:
    assert came(
        queued("enqueue", "mind the tide"), queued("dequeue"), typed("mind the tide"), answer("a")
    ) == [
        [],
        [],
        [],
        [],
    ]


def test_messages_taken_back_into_the_editor_are_gone() -> None:
    assert came(queued("enqueue", "one"), queued("popAll"), queued("remove"), answer("a")) == [
        [],
        [],
        [],
        [],
    ]
