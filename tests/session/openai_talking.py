"""Sessions held in an own loop with OpenAI's SDK and a simulated provider, over a socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import openai
import pytest

import sevenfold
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.provider import Received, Setup, Simulator
from sevenfold.lab.simulator.server import serve

KEY = "simulated-key"
MODELS = {"chat": "gpt-5", "responses": "gpt-5.6"}
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = {"type": "function", "function": {"name": "read", "description": "reads", "parameters": PARAMETERS}}
SYSTEM = "You are careful. " * 400
USAGE = {"prompt_tokens": 900, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 640}}
both = pytest.mark.parametrize("wire", MODELS)


def worker() -> ScriptedBrain:
    """A model that thinks, speaks and makes two calls at once, and every third time is done."""
    numbers = count(1)

    def reply(prompt: ModelPrompt) -> list[dict[str, Any]]:
        number = next(numbers)
        said = [
            {"type": "thinking", "thinking": f"step {number}"},
            {"type": "text", "text": f"Part {number}."},
        ]
        if number % 3 == 0:
            return said
        calls = [(f"call_{number}_{name}_0123abcd", name) for name in "ab"]
        return [
            *said,
            *(
                {"type": "tool_use", "id": call, "name": "read", "input": {"path": name}}
                for call, name in calls
            ),
        ]

    return ScriptedBrain(reply)


class World:
    """A simulated provider and clients of the official SDK."""

    def __init__(self, url: str, simulator: Simulator) -> None:
        self.url, self.simulator = f"{url}/v1", simulator
        self.sdk = openai.OpenAI(api_key=KEY, base_url=self.url, max_retries=0)
        self.events: list[Any] = []

    def awaited(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(api_key=KEY, base_url=self.url, max_retries=0)

    def options(self, api: str, **more: Any) -> dict[str, Any]:
        given = {"model": MODELS[api], "system": SYSTEM, "tools": [sevenfold.tool(READ, kind="read")]}
        settings = {"model_listing": False, **more.pop("settings", {})}
        return {**given, "client": self.sdk, "listen": [self.events.append], **more, "settings": settings}

    def session(self, wire: str, **more: Any) -> sevenfold.Session:
        return sevenfold.Session.in_memory(**self.options(wire, **more))

    def open(self, file: Path, api: str, **more: Any) -> sevenfold.Session:
        return sevenfold.Session.open("s", file=file, folder=file.parent, **self.options(api, **more))

    @property
    def taken(self) -> list[Received]:
        """The requests that were answered."""
        return [request for request in self.simulator.requests if request.status == 200]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.taken]


@contextmanager
def world(brain: ScriptedBrain | None = None, setup: Setup | None = None) -> Iterator[World]:
    simulator = Simulator(brain or worker(), setup)
    with serve(simulator) as url:
        here = World(url, simulator)
        yield here
        here.sdk.close()


def ask(sdk: Any, request: Any, *, stream: bool = False) -> Any:
    """The plain call a program makes; what comes back is the SDK's own."""
    if request.wire == "responses":
        return sdk.responses.create(**request, **({"stream": True} if stream else {}))
    more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    return sdk.chat.completions.create(**request, **more)


def results(done: sevenfold.Completion, words: str = "x = 1") -> list[dict[str, str]]:
    return [{"role": "tool", "tool_call_id": call.id, "content": words} for call in done.calls]


def go_on(session: sevenfold.Session, done: sevenfold.Completion) -> None:
    if done.calls:
        assert session.tool_results(results(done)) == []
    else:
        session.user("Go on.")


def asked(body: dict[str, Any]) -> dict[str, Any]:
    """A request without the wish for a stream."""
    return {name: value for name, value in body.items() if name not in ("stream", "stream_options")}


def completion(message: dict[str, Any], reason: str = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    head = {"id": "chatcmpl-0123456789abcdef", "object": "chat.completion", "model": "gpt-5", "created": 1}
    return {**head, "choices": [choice], "usage": USAGE, **more}


def response(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    counted = {"input_tokens": 900, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 640}}
    head = {"id": "resp_0123456789abcdef", "object": "response", "model": "gpt-5.6", "error": None}
    return {**head, "status": status, "output": list(output), "usage": counted, **more}


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": list(parts)}


def started(**options: Any) -> sevenfold.Session:
    session = sevenfold.Session.in_memory(**{"model": "gpt-5", **options})
    session.user("begin")
    _ = session.prepare().body
    return session
