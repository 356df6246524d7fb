"""Pydantic AI with its harness: tiered compaction before a request, and steps stored in SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from bench.peers.adapters import SUMMARY, SYSTEM
from bench.peers.sessions import Message, Session
from bench.peers.timing import Adapter, Bench, Case

NEVER = 10**9
NOW = datetime(2026, 11, 15, tzinfo=UTC)


def _model() -> Any:
    kinds, usage = import_module("pydantic_ai.messages"), import_module("pydantic_ai.usage")
    used = usage.RequestUsage(input_tokens=1000, output_tokens=400)

    def answer(*_: Any) -> Any:
        return kinds.ModelResponse(parts=[kinds.TextPart(SUMMARY)], usage=used, timestamp=NOW)

    return import_module("pydantic_ai.models.function").FunctionModel(answer)


def converted(said: list[Message]) -> list[Any]:
    """The messages converted to Pydantic AI's classes."""
    kinds, usage = import_module("pydantic_ai.messages"), import_module("pydantic_ai.usage")
    return [_message(kinds, usage, message) for message in said]


def _message(kinds: Any, usage: Any, message: Message) -> Any:
    content = message["content"]
    if message["role"] == "assistant":
        parts = [
            kinds.TextPart(block["text"])
            if block["type"] == "text"
            else kinds.ToolCallPart(block["name"], block["input"], block["id"])
            for block in content
        ]
        used = usage.RequestUsage(**message["usage"])
        return kinds.ModelResponse(parts=parts, usage=used, model_name="claude-sonnet-5-5", timestamp=NOW)
    first = content[0]
    if first["type"] == "tool_result":
        part = kinds.ToolReturnPart("tool", first["content"], first["tool_use_id"], timestamp=NOW)
    else:
        part = kinds.UserPromptPart(first["text"], timestamp=NOW)
    return kinds.ModelRequest(parts=[part])


def _growing(session: Session) -> Callable[[int], list[Any]]:
    messages, turns = converted(session.history), [converted(turn) for turn in session.turns]

    def prepare(turn: int) -> list[Any]:
        messages.extend(turns[turn])
        return messages

    return prepare


def _capability(session: Session, bench: Bench, capability: Any) -> None:
    """Time what a capability does before a request, called the way the agent calls it."""
    models, usage = import_module("pydantic_ai.models"), import_module("pydantic_ai.usage")
    context = import_module("pydantic_ai.tools").RunContext
    grow, scripted, loop = _growing(session), _model(), asyncio.new_event_loop()

    def prepare(turn: int) -> tuple[Any, Any]:
        messages = list(grow(turn))
        run = context(deps=None, model=scripted, usage=usage.RunUsage(), messages=messages, run_step=turn)
        request = models.ModelRequestContext(
            model=scripted,
            messages=list(messages),
            model_settings=None,
            model_request_parameters=models.ModelRequestParameters(),
        )
        return run, request

    bench.loop(lambda given: loop.run_until_complete(capability.before_model_request(*given)), prepare)
    loop.close()


def _check(session: Session, bench: Bench) -> None:
    harness = import_module("pydantic_ai_harness.compaction")
    tiers = [
        harness.ClearToolResults(max_tokens=1),
        harness.SummarizingCompaction(max_tokens=1, model=_model()),
    ]
    _capability(session, bench, harness.TieredCompaction(tiers=tiers, target_tokens=NEVER))


def _clear(session: Session, bench: Bench) -> None:
    harness = import_module("pydantic_ai_harness.compaction")
    _capability(session, bench, harness.ClearToolResults(max_tokens=20_000, keep_pairs=3))


def _whole_turn(session: Session, bench: Bench) -> None:
    harness = import_module("pydantic_ai_harness.compaction")
    capability = harness.SummarizingCompaction(max_tokens=NEVER, model=_model())
    agent = import_module("pydantic_ai").Agent(_model(), instructions=SYSTEM, capabilities=[capability])
    loop = asyncio.new_event_loop()
    bench.loop(
        lambda messages: loop.run_until_complete(agent.run("continue", message_history=messages)),
        _growing(session),
    )
    loop.close()


def _store(bench: Bench) -> Any:
    return import_module("pydantic_ai_harness.step_persistence").SqliteStepStore(
        database=bench.folder / "steps.db"
    )


def _snapshot(step: int, messages: list[Any]) -> Any:
    return import_module("pydantic_ai_harness.step_persistence").ContinuableSnapshot(
        run_id="bench", step_index=step, messages=messages
    )


def _persist(session: Session, bench: Bench) -> None:
    store, grow, loop = _store(bench), _growing(session), asyncio.new_event_loop()
    bench.loop(
        lambda snapshot: loop.run_until_complete(store.save_snapshot(snapshot)),
        lambda turn: _snapshot(turn, list(grow(turn))),
    )
    loop.close()


def _resume(session: Session, bench: Bench) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(_store(bench).save_snapshot(_snapshot(0, converted(session.all))))
    bench.loop(
        lambda _: loop.run_until_complete(_store(bench).latest_snapshot(run_id="bench")),
        lambda turn: None,
        turns=6,
    )
    loop.close()


ADAPTER = Adapter(
    "pydantic-ai",
    (
        Case("turn: tier check", "tiered compaction, its target not reached", _check),
        Case("turn: store", "a snapshot of the session into the SQLite step store", _persist),
        Case("clear: tool results", "clearing at work", _clear),
        Case("whole: agent", "a turn of an agent with compaction, its threshold not reached", _whole_turn),
        Case("resume: SQLite", "the latest snapshot from the step store", _resume),
    ),
    ("pydantic-ai-slim", "pydantic-ai-harness"),
)
