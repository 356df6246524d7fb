"""A client as plain as can be: bodies in, status and JSON out, in process and without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx2
import msgspec

from sevenfold.lab.simulator.brains import Brain, ModelPrompt, ModelReply, ScriptedBrain
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.faults import Faults
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import create_app
from sevenfold.lab.simulator.tokens import Counter
from sevenfold.profiles import Profile, find

KEY = "simulated-key"
BINDING = "thinking-binding-controls-2026-08-01"
EDITS = "context-management-2025-06-27"
THRESHOLD = "compact-2026-01-12"
ON_DEMAND = "compact-2026-09-04"
CLEAR_AT = "mid-conversation-system-clear-at-2026-08-21"
EFFORT = "mid-conversation-output-config-2026-07-01"
TOOL_CHANGES = "mid-conversation-tool-changes-2026-07-01"

BY_HAND = Counter(
    pieces=len,
    ratios={"claude-a": 1.0, "claude-b": 1.0, "openai": 1.0, "unknown": 1.0},
    image=100,
    document=100,
    per_message=0,
    per_call=0,
    per_result=0,
    tool_prompt=0,
)
"""A counter for sums done by hand: one token for each character."""


class Answer:
    """A response as a test looks at it."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.raw = response.content

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.raw)

    @property
    def error(self) -> str:
        return str(self.body["error"]["message"])

    @property
    def code(self) -> str | None:
        code: str | None = self.body["error"].get("details", {}).get("error_code")
        return code

    @property
    def usage(self) -> dict[str, Any]:
        usage: dict[str, Any] = self.body["usage"]
        return usage

    @property
    def content(self) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = self.body["content"]
        return content

    @property
    def events(self) -> list[tuple[str, Any]]:
        found = []
        for block in self.raw.decode().strip().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines())
            found.append((fields["event"], msgspec.json.decode(fields["data"])))
        return found


class Wire:
    """Sends requests to one simulator."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self._app = create_app(simulator)

    def post(self, path: str, body: Any, headers: dict[str, str]) -> Answer:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return Answer(asyncio.run(self._send("POST", path, raw, headers)))

    def get(self, path: str, headers: dict[str, str]) -> Answer:
        return Answer(asyncio.run(self._send("GET", path, b"", headers)))

    def messages(self, messages: Any = "hi", **fields: Any) -> Answer:
        """Post a request to answer; ``betas``, ``version`` and ``path`` are not fields of the body."""
        path = fields.pop("path", "/v1/messages")
        betas, version = fields.pop("betas", ()), fields.pop("version", "2026-10-21")
        said = [user(messages)] if isinstance(messages, str) else list(messages)
        body = {"model": "claude-sonnet-5-5", "max_tokens": 1_000, "messages": said, **fields}
        body = {key: value for key, value in body.items() if value is not ...}
        return self.post(path, body, headers(betas, version))

    def count(self, messages: Any = "hi", **fields: Any) -> Answer:
        return self.messages(messages, path="/v1/messages/count_tokens", max_tokens=..., **fields)

    async def _send(self, method: str, path: str, raw: bytes, headers: dict[str, str]) -> httpx2.Response:
        transport = httpx2.ASGITransport(self._app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://simulator") as client:
            return await client.request(method, path, content=raw, headers=headers)


def headers(betas: Sequence[str] = (), version: str = "2026-10-21") -> dict[str, str]:
    sent = {"x-api-key": KEY, "anthropic-version": version}
    return {**sent, "anthropic-beta": ",".join(betas)} if betas else sent


def simulated(
    brain: Brain | None = None,
    *,
    setup: Setup | None = None,
    clock: VirtualClock | None = None,
    faults: Faults | None = None,
    **more: Any,
) -> Wire:
    """A wire to a simulator whose tokens are characters and whose time stands still."""
    chosen = setup or Setup(counter=BY_HAND)
    return Wire(Simulator(brain, chosen, clock=clock or VirtualClock(), faults=faults, **more))


def small(name: str = "claude-sonnet-5-5", **facts: Any) -> Profile:
    """A known model with other facts, such as a window small enough for a test."""
    return msgspec.structs.replace(find(name), **facts)


class Witness:
    """A brain that says ok and remembers every prompt it saw."""

    def __init__(self) -> None:
        self.prompts: list[ModelPrompt] = []

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        self.prompts.append(prompt)
        return ModelReply([text("ok")])


def always(*blocks: Any) -> ScriptedBrain:
    """A brain that always says the same."""
    return ScriptedBrain(lambda prompt: ModelReply(list(blocks)))


def thinker(prompt: ModelPrompt) -> ModelReply:
    """A brain that thinks before it answers with the number of messages it saw."""
    thought = {"type": "thinking", "thinking": f"thought {len(prompt.messages)}"}
    return ModelReply([thought, {"type": "text", "text": f"answer {len(prompt.messages)}"}])


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [text(b) if isinstance(b, str) else b for b in blocks]}


def system(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "system", "content": [text(b) if isinstance(b, str) else b for b in blocks], **fields}


def text(words: str, ttl: str | None = None) -> dict[str, Any]:
    """A text block; with a lifetime, or ``-`` for none named, it is marked."""
    return mark({"type": "text", "text": words}, ttl) if ttl else {"type": "text", "text": words}


def mark(block: dict[str, Any], ttl: str = "-") -> dict[str, Any]:
    control = {"type": "ephemeral"} if ttl == "-" else {"type": "ephemeral", "ttl": ttl}
    return {**block, "cache_control": control}


def call(name: str, tool: str = "Read", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def result(name: str, content: Any = "done") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content}


def tool(name: str = "Read", description: str = "reads") -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": {"type": "object"}}
