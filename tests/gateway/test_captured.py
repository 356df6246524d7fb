"""What real programs sent through sessions with compactions and resumes, followed again.

The captures are our own, made by ``python -m bench.real_clients PROGRAM --capture FILE`` and shortened. Every message
of the user in them begins with a codeword; each run of the program resumed the session of the one before.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sevenfold.archive import compressed
from sevenfold.archive.audit import compactions
from sevenfold.archive.formats import open_log
from sevenfold.conversation import history
from sevenfold.doors.follower.answer_reading import BodyReading
from sevenfold.doors.follower.follower import CallEnd, ClientCall
from sevenfold.doors.follower.identity import api_of
from sevenfold.record.authorship import users_words
from sevenfold.record.decisions import Billed
from sevenfold.record.entries import KEPT_MESSAGE
from sevenfold.record.layout import Item
from tests.gateway.standing import follower

CAPTURED = Path(__file__).with_name("captured")
CODEWORD = "The codeword of this request is beacon-"
MESSAGES = 7
PROGRAMS = {"claude-code": 6, "codex": 3}
"""The programs, and how often each compacted."""


class Exchange(msgspec.Struct):
    path: str
    headers: dict[str, str]
    body: msgspec.Raw
    status: int
    answer: msgspec.Raw


class Followed:
    """A capture, and the session that it became."""

    def __init__(self, program: str, folder: Path) -> None:
        lines = compressed.scan(CAPTURED / f"{program}.jsonl.zst")
        self.exchanges = [msgspec.json.decode(line.raw, type=Exchange) for line in lines]
        follow = follower(folder)
        for exchange in self.exchanges:
            body = bytes(exchange.body)
            api = api_of("POST", exchange.path)
            assert api is not None
            headers = {name.lower(): value for name, value in exchange.headers.items()}
            call = follow.sent(ClientCall(api, exchange.path, {**headers, "x-api-key": "k"}, body))
            reading = BodyReading(api, exchange.path, body, {"content-type": "application/json"})
            reading.take(bytes(exchange.answer))
            answer, problem = reading.ended(exchange.status)
            assert problem == ""
            follow.ended(call, CallEnd(exchange.status, answer))
        follow.close()
        [self.path] = folder.glob("*.jsonl")
        self.log = open_log(self.path)
        self.items: Sequence[Item] = history.every_record(self.log)

    def blocks(self, kind: str) -> Counter[str]:
        return Counter(
            block.id
            for item in self.items
            for block in item.record.blocks
            if block.kind == kind and block.id
        )


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def followed(program: str, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    return Followed(program, tmp_path_factory.mktemp(program))


@pytest.mark.spec("S30.6")
def test_each_message_of_the_user_is_on_record_once_and_nothing_else_is_the_users(
    followed: Followed,
) -> None:
    # What a compaction keeps of the user's messages is shown again, and marked as that.
    items = [item for item in followed.items if item.record.attachment != KEPT_MESSAGE]
    said = [users_words(item.record).strip() for item in items]
    spoken = [words for words in said if words]
    assert len(spoken) == MESSAGES
    assert all(words.startswith(CODEWORD) for words in spoken)
    assert len({words.split(".")[0] for words in spoken}) == MESSAGES


@pytest.mark.spec("S30.7")
def test_each_compaction_of_the_program_is_on_record(program: str, followed: Followed) -> None:
    assert len(list(compactions(followed.log))) == PROGRAMS[program]


@pytest.mark.spec("S30.4")
def test_each_call_and_each_result_is_on_record_once(followed: Followed) -> None:
    calls = followed.blocks("tool_use")
    results = followed.blocks("tool_result")
    assert len(calls) >= MESSAGES * 3
    assert set(calls.values()) == {1}
    assert results == calls


@pytest.mark.spec("S30.2")
def test_every_answer_is_billed_with_what_the_provider_reported(followed: Followed) -> None:
    recorded = {item.record.message_id: item.record.usage for item in followed.items if item.record.usage}
    aside = [made for _, made in followed.log.decisions(Billed)]
    answered: list[Any] = [json.loads(bytes(exchange.answer)) for exchange in followed.exchanges]
    assert len(recorded) + len(aside) == len(answered)
    output = sum(answer["usage"]["output_tokens"] for answer in answered)
    billed = sum(msgspec.json.decode(made.usage, type=dict[str, Any])["output_tokens"] for made in aside)
    said = sum(usage.output_tokens for usage in recorded.values() if usage is not None)
    assert said + billed == output
