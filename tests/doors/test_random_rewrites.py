"""Whatever a program does to its own list, what is sent in its place is never refused, and nothing we did is undone.

In the proof 20,000 rewrites are made; here, 120.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from sevenfold import profiles
from sevenfold.conversation.resume import read
from sevenfold.doors.follower.follower import FollowedCall
from sevenfold.doors.follower.keeper import KeepingFollower
from sevenfold.doors.follower.keeping import KeptConversation
from sevenfold.doors.follower.recording import RecordedConversation
from sevenfold.lab.rules import refusals
from sevenfold.lab.rules.base import RuleFacts
from sevenfold.record.authorship import is_users
from sevenfold.record.decisions import Rewound, Undone
from sevenfold.record.entries import Boundary, Said
from tests.doors.keeping import MODEL, TOOLS, answered, following, prepared
from tests.support import PROVING

FILLER = "It was a long day, and the harbour was calm. " * 30
SESSIONS = 500 if PROVING else 3
REWRITES = 40
"""Rewrites in each session."""


class RewritingProgram:
    """A program that keeps a list, and does to it what programs do."""

    def __init__(self, seed: int, follower: KeepingFollower) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.follower = follower
        self.messages: list[dict[str, Any]] = []
        self.number = 0
        self.sent: list[dict[str, Any]] = []
        self.calls: list[FollowedCall] = []

    @property
    def conversation(self) -> KeptConversation:
        conversation = self.calls[-1].conversation
        assert isinstance(conversation, KeptConversation)
        return conversation

    def name(self) -> str:
        self.number += 1
        return f"toolu_{self.number:04}"

    def say(self) -> None:
        self.messages.append({"role": "user", "content": f"Question {self.number}: {self._words()}"})
        self.number += 1
        self._turn()

    def _turn(self) -> None:
        for _ in range(self.chance.randint(0, 2)):
            names = [self.name() for _ in range(self.chance.randint(1, 3))]
            self._ask([{"type": "tool_use", "id": name, "name": "Read", "input": {}} for name in names])
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": name,
                    "content": f"{name}: {FILLER[: self.chance.randint(1, 900)]}",
                }
                for name in names
            ]
            self.messages.append({"role": "user", "content": results})
        self._ask([{"type": "text", "text": f"Answer {self.number}. {self._words()}"}])

    def _words(self) -> str:
        return FILLER[: self.chance.randint(10, 1_300)]

    def _ask(self, answer: list[dict[str, Any]]) -> None:
        followed, sent = prepared(self.follower, self.messages, {"x-sevenfold-session": "work"})
        self.calls.append(followed)
        self.sent.append(json.loads(sent))
        answered(self.follower, followed, sent, f"msg_{len(self.sent)}", answer)
        self.messages.append({"role": "assistant", "content": answer})

    # -- what programs do to their own past --------------------------------------------------------

    def _results(self) -> list[dict[str, Any]]:
        lists = [one["content"] for one in self.messages if isinstance(one["content"], list)]
        return [part for parts in lists for part in parts if part["type"] == "tool_result"]

    def clear_a_result(self) -> None:
        if results := self._results():
            self.chance.choice(results)["content"] = "[cleared]"

    def shorten_a_result(self) -> None:
        if results := self._results():
            result = self.chance.choice(results)
            result["content"] = result["content"][: len(result["content"]) // 2]

    def write_blocks_for_text(self) -> None:
        message = self.chance.choice(self.messages)
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]

    def add_a_reminder(self) -> None:
        texts = [one for one in self.messages if isinstance(one["content"], str)]
        if texts:
            message = self.chance.choice(texts)
            reminder = {
                "type": "text",
                "text": f"<system-reminder>The time is {self.number}.</system-reminder>",
            }
            message["content"] = [{"type": "text", "text": message["content"]}, reminder]

    def go_back(self) -> None:
        turns = [place for place, one in enumerate(self.messages) if _begins_turn(one)]
        if len(turns) > 2:
            del self.messages[self.chance.choice(turns[1:]) :]

    def drop_the_oldest(self) -> None:
        turns = [place for place, one in enumerate(self.messages) if _begins_turn(one)]
        if len(turns) > 3:
            del self.messages[: turns[len(turns) // 2]]

    def summarise(self) -> None:
        beginning = "This session is being continued from a previous conversation that ran out of context."
        summary = f"{beginning} Summary {self.number}: all is well."
        self.messages[:] = [{"role": "user", "content": summary}]
        self._turn()

    def results_in_another_order(self) -> None:
        lists = [one["content"] for one in self.messages if isinstance(one["content"], list)]
        for parts in lists:
            if len(parts) > 1 and all(part["type"] == "tool_result" for part in parts):
                self.chance.shuffle(parts)


Rewriting = Callable[[RewritingProgram], None]
GIVES_UP: tuple[Rewriting, ...] = (
    RewritingProgram.go_back,
    RewritingProgram.drop_the_oldest,
    RewritingProgram.summarise,
)
"""What gives up a part of the conversation."""
SMALL: tuple[Rewriting, ...] = (
    RewritingProgram.clear_a_result,
    RewritingProgram.shorten_a_result,
    RewritingProgram.write_blocks_for_text,
    RewritingProgram.add_a_reminder,
    RewritingProgram.results_in_another_order,
)
"""What leaves the conversation as it is."""


def _begins_turn(message: dict[str, Any]) -> bool:
    content = message["content"]
    if message["role"] != "user":
        return False
    return isinstance(content, str) or all(part["type"] == "text" for part in content)


def _texts(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"])


def _taken_back(program: RewritingProgram) -> list[Undone | Rewound]:
    """Our compactions that were undone, and what was rewound."""
    log = program.conversation.transcript.log
    return [*(undone for _, undone in log.decisions(Undone)), *(back for _, back in log.decisions(Rewound))]


def _own_compactions(program: RewritingProgram) -> int:
    """How many compactions of the program's own are on record."""
    return sum(
        isinstance(entry, Boundary) and not entry.own
        for _, entry in read(program.conversation.transcript.log)
    )


def _play(program: RewritingProgram, rewrites: int) -> None:
    """Talk and rewrite in turn, and check after each rewrite what was made of it."""
    program.say()
    for _ in range(rewrites):
        while program.chance.random() < 0.5:
            program.say()
        rewriting = program.chance.choice(GIVES_UP if program.chance.random() < 0.2 else SMALL)
        taken_back = _taken_back(program)
        compactions = _own_compactions(program)
        turns = len(program.messages)
        rewriting(program)
        is_shorter = len(program.messages) < turns
        program.say()
        what = f"seed {program.seed}, rewrite {rewriting.__name__} before request {len(program.sent)}"
        if rewriting in SMALL:
            assert _taken_back(program) == taken_back, what
            assert _own_compactions(program) == compactions, what
        elif rewriting is RewritingProgram.go_back and is_shorter:
            assert len(_taken_back(program)) > len(taken_back), what
        elif rewriting is RewritingProgram.summarise:
            assert _own_compactions(program) > compactions, what


@pytest.mark.spec("S40.5", "S40.8")
@pytest.mark.parametrize("seed", range(SESSIONS))
def test_no_rewriting_of_a_list_is_refused_or_undoes_a_compaction_and_what_the_program_decided_is_on_record(
    seed: int,
) -> None:
    failures: list[Exception] = []
    program = RewritingProgram(seed, following(failures))
    _play(program, REWRITES)
    program.follower.close()
    facts = RuleFacts.of(profiles.find(MODEL))
    for number, sent in enumerate(program.sent):
        refused = refusals(sent["messages"], facts=facts, tools=TOOLS, system="s")
        assert refused == [], f"seed {seed}, request {number}"
    assert failures == []


@pytest.mark.spec("S40.8")
def test_two_conversations_that_begin_alike_and_have_no_names_are_never_taken_for_each_other() -> None:
    failures: list[Exception] = []
    follower = following(failures)
    lists: tuple[list[dict[str, Any]], ...] = ([], [])
    conversations: set[str] = set()
    changed = 0
    for turn in range(30):
        question = "Please look after the harbour." if not turn else f"And what about day {turn}? {FILLER}"
        for messages in lists:
            messages.append({"role": "user", "content": question})
        calls = [prepared(follower, messages, {}) for messages in lists]
        for whose, (followed, sent) in enumerate(calls):
            changed += followed.body is not None
            conversations.add(followed.conversation.name)
            answer = [{"type": "text", "text": f"Day {turn} was calm for number {whose}. {FILLER}"}]
            answered(follower, followed, sent, f"msg_{whose}_{turn}", answer)
            lists[whose].append({"role": "assistant", "content": answer})
    records = [_recorded(call.conversation) for call, _ in calls]
    follower.close()
    assert failures == []
    assert len(conversations) == 2
    assert changed > 0
    for whose, (said, answers) in enumerate(records):
        assert said == 30
        assert answers == [f"msg_{whose}_{turn}" for turn in range(30)]


def _recorded(conversation: RecordedConversation) -> tuple[int, list[str | None]]:
    """How much the user said that is on record, and the ids of all answers; one that was imported has another."""
    records = [entry for _, entry in read(conversation.transcript.log) if isinstance(entry, Said)]
    said = sum(is_users(record) for record in records)
    return said, [record.message_id for record in records if record.role == "assistant"]
