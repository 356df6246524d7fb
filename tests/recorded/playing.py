"""What scenarios have in common: a list of them, tools, and ways to work for a while."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import sevenfold
from tests.recorded.form import CARE, LINE
from tests.recorded.rig import Rig

BOUND, FREE, GPT, CHAT = "claude-sonnet-5-5", "claude-opus-4-6", "gpt-5.6", "gpt-5"
"""A model whose reasoning is bound to what precedes it; one whose is not; one of Responses; one of Chat Completions."""
ASKED = "Port the billing service. Never touch config/prod.yaml, and keep port 8443."
SYSTEM = CARE * 200
SMALL = 24_000
QUIET: Mapping[str, Any] = {
    "notes": False,
    "background_compaction": False,
    "provider_edits": False,
    "size_clearing": False,
    "gap_clearing": False,
    "model_listing": False,
    "recall_ahead": False,
    "fsync": "never",
    "context_window": SMALL,
}
"""Nothing but what a scenario asks for."""

Scenario = Callable[[Rig], Coroutine[Any, Any, None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(play: Scenario) -> Scenario:
    """Put a scenario on the list."""
    name = getattr(play, "__name__", "")
    assert name not in SCENARIOS, name
    SCENARIOS[name] = play
    return play


def tool(name: str, kind: str) -> Any:
    schema = {"name": name, "description": f"{name} something.", "input_schema": {"type": "object"}}
    return sevenfold.tool(schema, kind=kind)


TOOLS = [tool("Read", "read"), tool("Edit", "edit"), tool("Shell", "shell"), tool("Ask", "")]


def output(size: int) -> str:
    return (LINE * (size // len(LINE) + 1))[:size]


def options(rig: Rig, wire: str = "messages", **more: Any) -> dict[str, Any]:
    """What most sessions here are opened with."""
    models = {"messages": BOUND, "chat": CHAT, "responses": GPT}
    given = {"model": models[wire], "system": SYSTEM, "tools": TOOLS, "max_tokens": 2_000, **more}
    if "client" not in given:
        given["client"] = rig.client(wire)
    return {**given, "settings": {**QUIET, **more.get("settings", {})}}


async def work(rig: Rig, session: Any, rounds: int, size: int = 1_000, *, settle: bool = False) -> Any:
    """So many requests, the calls of each answered with so many characters, five seconds apart."""
    done = None
    for _ in range(rounds):
        done = await session.complete()
        if settle:
            await session.settle(60)
        rig.clock.advance(5)
        if done.calls:
            await session.tool_results({call.id: output(size) for call in done.calls})
        else:
            await session.user("Go on.")
    return done


async def reopened(rig: Rig, given: dict[str, Any], words: str = "") -> None:
    """Open the session once more and note the bytes of its next request."""
    async with rig.open(**given) as session:
        if words:
            await session.user(words)
        rig.note("reopened", (await session.prepare()).body)


async def refused(rig: Rig, asked: Any, kind: type[Exception] = sevenfold.errors.SevenfoldError) -> None:
    """Await something that must fail, and note how."""
    try:
        await asked
    except kind as error:
        rig.note(type(error).__name__, str(error))
        return
    raise AssertionError("it was to fail")


async def gauge(rig: Rig, session: Any) -> None:
    rig.note("gauge", session.gauge)


async def summary(rig: Rig, done: Any) -> None:
    """Note what a compaction came to; its text is in the transcript."""
    rig.note("compacted", done if done is None else done.line)
