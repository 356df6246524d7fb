"""OpenAI Agents: sessions in SQLite, which are read whole before every run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from importlib import import_module
from typing import Any

from bench.peers.adapters import SUMMARY, SYSTEM
from bench.peers.sessions import Message, Session
from bench.peers.timing import Adapter, Bench, Case


def _model() -> Any:
    responses = import_module("openai.types.responses")
    usage = import_module("agents.usage").Usage(
        requests=1, input_tokens=1000, output_tokens=400, total_tokens=1400
    )
    text = responses.ResponseOutputText(text=SUMMARY, type="output_text", annotations=[])
    said = responses.ResponseOutputMessage(
        id="msg_1", type="message", role="assistant", status="completed", content=[text]
    )
    response = import_module("agents.items").ModelResponse(output=[said], usage=usage, response_id="resp_1")

    async def answer(self: Any, *_: Any, **__: Any) -> Any:
        return response

    base = import_module("agents.models.interface").Model
    return type("Scripted", (base,), {"get_response": answer, "stream_response": answer})()


def _converted(said: list[Message]) -> list[Message]:
    """The messages as items of the Responses API; an answer with a tool call becomes two items."""
    return [_item(message, block) for message in said for block in message["content"]]


def _item(message: Message, block: Message) -> Message:
    match block["type"], message["role"]:
        case "text", "user":
            return {"role": "user", "content": block["text"]}
        case "text", _:
            text = {"type": "output_text", "text": block["text"], "annotations": []}
            whole = {"type": "message", "role": "assistant", "status": "completed"}
            return {"id": "msg_" + message["id"], **whole, "content": [text]}
        case "tool_use", _:
            call = {"call_id": block["id"], "name": block["name"], "arguments": json.dumps(block["input"])}
            return {"type": "function_call", **call, "status": "completed"}
        case _:
            result = {"call_id": block["tool_use_id"], "output": block["content"]}
            return {"type": "function_call_output", **result}


class _Store:
    """A session in a file, and an event loop to run its coroutines."""

    def __init__(self, bench: Bench) -> None:
        self._path = bench.folder / "session.db"
        self._loop = asyncio.new_event_loop()
        self.session = self.open()

    def open(self) -> Any:
        return import_module("agents").SQLiteSession("bench", self._path)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def add(self, messages: list[Message]) -> None:
        self.run(self.session.add_items(_converted(messages)))

    def close(self) -> None:
        self.session.close()
        self._loop.close()


def _read(session: Session, bench: Bench) -> None:
    store = _Store(bench)
    store.add(session.history)
    bench.loop(lambda _: store.run(store.session.get_items()), lambda turn: store.add(session.turns[turn]))
    store.close()


def _persist(session: Session, bench: Bench) -> None:
    store = _Store(bench)
    store.add(session.history)
    bench.loop(store.add, lambda turn: session.turns[turn])
    store.close()


def _whole_turn(session: Session, bench: Bench) -> None:
    agents, store = import_module("agents"), _Store(bench)
    store.add(session.finished)
    agent = agents.Agent(name="bench", instructions=SYSTEM, model=_model())
    plain = agents.RunConfig(tracing_disabled=True)
    bench.loop(
        lambda _: store.run(agents.Runner.run(agent, "continue", session=store.session, run_config=plain)),
        lambda turn: None,
    )
    store.close()


def _resume(session: Session, bench: Bench) -> None:
    store = _Store(bench)
    store.add(session.all)

    def step(_: None) -> None:
        opened = store.open()
        store.run(opened.get_items())
        opened.close()

    bench.loop(step, lambda turn: None, turns=6)
    store.close()


ADAPTER = Adapter(
    "openai-agents",
    (
        Case("turn: read", "all items of the session from SQLite, as before every run", _read),
        Case("turn: store", "the new items into SQLite", _persist),
        Case("whole: agent, SQLite", "a turn of an agent with its session in SQLite", _whole_turn),
        Case("resume: SQLite", "the session opened and read", _resume),
    ),
    ("openai-agents",),
)
