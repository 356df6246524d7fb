"""A store that takes its time does not hold up the event loop of an async session or agent."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest

import sevenfold
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.stores.memory import MemoryStore

PLAIN = (str, bytes, int, float, bool, Path, tuple, list, dict, type(None))


class Watched:
    """A part of a store; it notes which thread uses it, for each method, also of what its methods return."""

    def __init__(self, part: Any, calls: dict[str, set[int]]) -> None:
        self._part = part
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        if not callable(value):
            return value

        def method(*args: Any, **options: Any) -> Any:
            self._calls.setdefault(name, set()).add(threading.get_ident())
            result = value(*args, **options)
            if isinstance(result, GeneratorType):
                return self._each(name, result)
            public = type(result).__module__.startswith("sevenfold.record")
            return result if isinstance(result, PLAIN) or public else Watched(result, self._calls)

        return method

    def _each(self, name: str, items: Any) -> Any:
        for item in items:
            self._calls[name].add(threading.get_ident())
            yield item

    def __enter__(self) -> Any:
        return self._part.__enter__()

    def __exit__(self, *error: object) -> Any:
        return self._part.__exit__(*error)


def watched() -> tuple[Any, dict[str, set[int]]]:
    calls: dict[str, set[int]] = {}
    return Watched(MemoryStore(), calls), calls


BUILD = sevenfold.tool({"name": "Build", "input_schema": {"type": "object"}}, kind="shell")


SURE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5-5",
    "content": [{"type": "text", "text": "Sure."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 20_000, "output_tokens": 5},
}


def building(number: int) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "name": "Build", "id": f"toolu_{number}", "input": {}}]


@pytest.mark.spec("S25.20")
def test_an_async_session_uses_its_store_in_another_thread_than_its_loops() -> None:
    store, calls = watched()
    script = sevenfold.Script([building(1), building(2), "It builds.", "Summary.", "Yes.", "And again."])

    async def main() -> int:
        opened = await sevenfold.AsyncSession.open(
            "s",
            model="claude-sonnet-5-5",
            store=store,
            tools=[BUILD],
            client=sevenfold.AsyncOfflineClient(script),
            clock=VirtualClock(),
        )
        async with opened as session:
            first = await session.user("Does it build?")
            for call in ("toolu_1", "toolu_2"):
                await session.complete()
                await session.tool_results({call: f"compiled {call}\n" * 40_000})
            await session.complete()
            assert (await session.fetch("toolu_1")).startswith(b"compiled")
            await session.recall("compiled")
            await session.pin(first)
            await session.unpin(first)
            await session.notes()
            await session.at()
            await session.why()
            assert session.gauge.requests == 3
            await session.user("Sure?")
            request = await session.prepare()
            before = {name: set(threads) for name, threads in calls.items()}
            assert request["model"]
            assert request.body
            assert calls == before
            await session.observe(SURE)
            await session.compact(engine="extractive")
            await session.undo()
            await session.redo()
            await session.user("Really?")
            await session.complete()
            await session.undo()
            await session.rewind(first)
            await session.settle()
        return threading.get_ident()

    loop = asyncio.run(main())
    assert {"append", "read", "open", "keep", "fetch", "record", "close"} <= set(calls)
    assert [name for name, threads in calls.items() if loop in threads] == []


@pytest.mark.spec("S25.20")
def test_an_async_agent_uses_its_store_in_another_thread_than_its_loops_while_it_runs(
    tmp_path: Path,
) -> None:
    store, calls = watched()

    def build() -> str:
        """Build it."""
        return "compiled\n" * 40_000

    call = {"type": "tool_use", "name": "build", "id": "toolu_1", "input": {}}
    script = sevenfold.Script([[call], "It builds."])

    async def main() -> int:
        agent = sevenfold.AsyncAgent(
            "claude-sonnet-5-5",
            name="s",
            store=store,
            folder=tmp_path,
            tools=[build],
            mode="autonomous",
            client=sevenfold.AsyncOfflineClient(script),
            clock=VirtualClock(),
        )
        opening = {name: set(threads) for name, threads in calls.items()}
        assert opening
        calls.clear()
        async with agent:
            finished = await agent.run("Does it build?")
            assert finished.end == "done"
        return threading.get_ident()

    loop = asyncio.run(main())
    assert {"append", "write", "close"} <= set(calls)
    assert [name for name, threads in calls.items() if loop in threads] == []
