"""Sessions that are opened, asked and closed the wrong way: nothing is ignored, lost, or left locked."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.hooks.registry import run_command
from sevenfold.conversation.flow import Signal, drive, drive_async
from sevenfold.errors import InputError, Refused, TranscriptError
from sevenfold.ports import Call, Reply, Watcher
from sevenfold.providers.offline import AsyncOfflineClient, OfflineClient, Script
from tests.session.talking import BOUND, alone, calling, fake_reply, said

DEEP = 5_000
HOOKS: dict[str, Any] = {"run": run_command, "environ": {}, "project_dir": "."}


def nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def can_be_opened(file: Path) -> bool:
    with sevenfold.Session.open("s", model=BOUND, file=file):
        return True


# Options


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sytem": "x"}, "there is no option 'sytem'; did you mean 'system'"),
        ({"max_token": 5}, "did you mean 'max_tokens'"),
        ({"qqq": 5}, "there is no option 'qqq'; there are system, tools, "),
        ({"lifetime": "9m"}, "lifetime is '9m'; it must be 5m or 1h"),
        ({"listen": [3]}, r"listen is \[3\]; it must be a list of functions"),
        ({"listen": print}, "it must be a list of functions"),
        ({"hooks": 3}, "hooks is 3; it must be a sevenfold.Hooks"),
        ({"hooks": sevenfold.AsyncHooks(**HOOKS)}, "it must be a sevenfold.Hooks"),
        ({"tools": [3]}, r"tools\[0\] is a int; pass a mapping"),
        ({"tools": "Read"}, "it must be a list of tools"),
        ({"max_tokens": "5"}, "max_tokens is '5'; it must be a whole number"),
        ({"max_tokens": True}, "it must be a whole number"),
        ({"settings": 3}, "it must be a mapping from settings"),
        ({"betas": "one"}, "it must be a list of names"),
        ({"thinking": "adaptive"}, "thinking is 'adaptive'; it must be a mapping"),
        ({"clock": 3}, r"a method now\(\)"),
        ({"client": object()}, "is not a client"),
    ],
)
def test_an_option_that_is_none_or_has_no_fitting_value_is_named(
    file: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        sevenfold.Session.in_memory(model=BOUND, **given)
    with pytest.raises(InputError, match=words):
        sevenfold.Session.open("s", model=BOUND, file=file, **given)
    assert can_be_opened(file)


def test_an_option_that_is_none_is_as_good_as_left_out() -> None:
    left: dict[str, Any] = dict.fromkeys(("system", "tools", "max_tokens", "client", "hooks", "listen"))
    with sevenfold.Session.in_memory(model=BOUND, **left) as session:
        session.user("hello")
        assert b"hello" in session.prepare().body


def test_listeners_that_can_be_gone_through_once_are_all_called() -> None:
    heard: list[object] = []

    def listeners() -> Iterator[Any]:
        yield lambda event: heard.append(event)

    with sevenfold.Session.in_memory(model=BOUND, listen=listeners()) as session:
        session.user("hello")
        assert session.prepare().body
    assert heard


# Locks


@pytest.mark.spec("S8.4")
def test_an_awaited_session_that_cannot_be_made_leaves_no_lock(file: Path) -> None:
    async def opened(**given: Any) -> None:
        await sevenfold.AsyncSession.open("s", model=BOUND, file=file, **given)

    for given, words in (
        ({"client": object()}, "is not a client"),
        ({"hooks": sevenfold.Hooks(**HOOKS)}, "it must be a sevenfold.AsyncHooks"),
        ({"sytem": "x"}, "did you mean 'system'"),
    ):
        with pytest.raises(InputError, match=words):
            asyncio.run(opened(**given))
    assert can_be_opened(file)


@pytest.mark.spec("S8.4")
def test_a_session_whose_closing_fails_half_way_is_closed_all_the_same(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sevenfold.Session.open("s", model=BOUND, file=file)
    session.user("hello")
    session.recall("hello")

    def failing(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing)
        with pytest.raises(TranscriptError, match="Input/output error"):
            session.close()
    assert can_be_opened(file)


@pytest.mark.spec("S8.4")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_is_refused_and_does_not_let_go_of_the_lock(file: Path) -> None:
    with sevenfold.Session.open("s", model=BOUND, file=file) as session:
        session.user("before")
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                session.user("from the child")
                os.write(write, b"written")
            except TranscriptError as error:
                os.write(write, str(error).encode())
            finally:
                session.conversation.transcript.log.close()
                os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        told = os.read(read, 10_000)
        os.close(read)
        assert b"is a fork; two that write would lose what the other said" in told
        with pytest.raises(TranscriptError, match="being written by"):
            can_be_opened(file)
        session.user("after")
        assert b"from the child" not in file.read_bytes()
        assert [part["text"] for part in said(session.prepare().body)[0]["content"]] == ["before", "after"]


# One request at a time


class Slow(OfflineClient):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__(Script(["yes"] * 4))
        self.asked, self.go, self.calls = threading.Event(), threading.Event(), 0

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        self.calls += 1
        self.asked.set()
        assert self.go.wait(10)
        return super().ask(call, watch)


def test_a_second_request_at_the_same_time_is_refused_before_it_is_sent() -> None:
    client = Slow()
    with sevenfold.Session.in_memory(model=BOUND, client=client) as session:
        session.user("hello")
        done: list[str] = []
        first = threading.Thread(target=lambda: done.append(session.complete().text))
        first.start()
        assert client.asked.wait(10)
        with pytest.raises(Refused, match="another request of this session is under way"):
            session.complete()
        client.go.set()
        first.join(10)
        assert (done, client.calls) == (["yes"], 1)
        session.user("again")
        assert session.complete().text == "yes"


def test_the_same_for_those_who_await() -> None:
    class Counting(AsyncOfflineClient):
        calls = 0

        async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
            self.calls += 1
            await asyncio.sleep(0)
            return await super().ask(call, watch)

    async def both() -> tuple[Any, int]:
        client = Counting(Script(["yes"] * 4))
        async with sevenfold.AsyncSession.in_memory(model=BOUND, client=client) as session:
            await session.user("hello")
            came = await asyncio.gather(session.complete(), session.complete(), return_exceptions=True)
            return came, client.calls

    (first, second), calls = asyncio.run(both())
    assert first.text == "yes"
    assert isinstance(second, Refused)
    assert calls == 1


# What nobody can read


def test_what_is_nested_too_deeply_is_refused_and_nothing_is_lost() -> None:
    with alone() as session:
        for given in (
            [{"type": "text", "text": "x", "more": nested(DEEP)}],
            {"type": "text", "x": nested(DEEP)},
        ):
            with pytest.raises(InputError, match=r"content\[0\]: it is nested too deeply"):
                session.user(given)
        session.user("hello")
        body = session.prepare().body
        for place in (b'"more":%b', b'"diagnostics":%b', b'"content":[{"type":"text","text":%b}]'):
            deep = b"[" * 100_000 + b"]" * 100_000
            with pytest.raises(InputError, match="nested too deeply"):
                session.observe(b'{"id":"m","type":"message","role":"assistant",' + place % deep + b"}")
        assert session.observe(fake_reply()).text == "answer 1"
        assert len(said(body)) == 1


@pytest.mark.spec("S0.6")
@pytest.mark.parametrize(
    "usage",
    [
        '{"input_tokens":1e400,"output_tokens":7}',
        '{"input_tokens":100000000000000000000000,"output_tokens":7}',
        '{"input_tokens":-1,"output_tokens":7}',
        '{"output_tokens":7,"iterations":[{"type":"message","input_tokens":1e400}]}',
        '{"output_tokens":7,"cache_creation":{"ephemeral_5m_input_tokens":1e400}}',
        '{"output_tokens":7,"cache_deleted_input_tokens":1e400}',
    ],
)
def test_counts_that_are_none_count_nothing_and_the_answer_stays(usage: str) -> None:
    reply = json.dumps(fake_reply(calling("toolu_01", amount=1))).replace('"amount": 1', '"amount": 1e400')
    raw = reply.replace(json.dumps(fake_reply()["usage"]), usage)
    with alone() as session:
        session.user("hello")
        assert session.prepare().body
        done = session.observe(raw)
        assert (done.outcome.usage.prompt, done.outcome.usage.output_tokens) == (0, 7)
        session.tool_results({call.id: "done" for call in done.calls})
        assert [message["role"] for message in said(session.prepare().body)] == [
            "user",
            "assistant",
            "user",
        ]


# Flows


def test_what_no_driver_knows_is_an_error_and_not_taken_for_done() -> None:
    def flow() -> Iterator[Any]:
        yield "something new"

    with pytest.raises(AssertionError, match="'something new'"):
        drive(flow(), None)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="'something new'"):
        asyncio.run(drive_async(flow(), None))  # type: ignore[arg-type]


def test_a_signal_remembers_nobody_who_has_stopped_waiting() -> None:
    signal = Signal()

    def events() -> int:
        gc.collect()
        return sum(isinstance(one, asyncio.Event) for one in gc.get_objects())

    async def wait() -> None:
        before = events()
        for _ in range(5):
            assert not await signal.wait_async(0)
        assert events() <= before

    # What there is already is not looked through.
    gc.freeze()
    try:
        asyncio.run(wait())
    finally:
        gc.unfreeze()
    assert not signal.wait(0)
