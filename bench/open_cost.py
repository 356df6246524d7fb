"""The cost of opening a long, never compacted session up to its first request body, compared with other engines.

    python bench/open_cost.py [MESSAGES]      default: 10000

Every engine stores the same conversation its own way: ours in a transcript with the requests and answers of every
turn, a peer as the JSON of its messages, as its documentation recommends. A fresh process then opens it and builds the
first request without sending it. The process has opened a short session before, so imports are not timed. There is no
pause before opening: after one, our layers would clear old results, and our body would be a sixth of the others' size.
The fastest peer is a loop around the SDK, which stores the messages as they are sent and neither counts nor checks
anything. Times are CPU milliseconds, medians of several processes. A peer that is not installed is left out.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.peers import sessions  # noqa: E402 - started as a script, the project's folder is not on the path

MESSAGES = 10_000
WARM_UP = 20
"""Messages in the session that every process opens first, to load modules and fill caches."""
RUNS = 5
MOST = 2.0
"""The highest acceptable ratio of our time to the fastest peer's."""
MODEL, MAX_TOKENS = "claude-sonnet-5-5", 8_192
SYSTEM = "You are a careful engineer who reads before writing."
TOOLS = [
    {"name": name, "description": f"The tool {name}.", "input_schema": {"type": "object"}}
    for name in sessions.TOOLS
]

Message = sessions.Message
Opens = Callable[[], bytes]


# Ways to store a session: `save_…` writes it, `open_…` returns the function that is timed


def save_ours(folder: Path, said: list[Message]) -> None:
    """Write the transcript that such a session would leave, without building its bodies: they would be 75 GB."""
    import msgspec

    from sevenfold.record import blocks
    from sevenfold.record.decisions import Request, Why
    from sevenfold.record.log import Answer

    with _ours(folder) as session:
        transcript = session.conversation.transcript
        epoch = transcript.view.epoch
        assert epoch is not None
        for number, message in enumerate(said):
            parts = tuple(blocks.read(msgspec.json.encode(block)) for block in message["content"])
            if message["role"] == "user":
                transcript.user(parts)
                continue
            why = Why(
                used=message["usage"]["input_tokens"], band=900, threshold=10**9, rule="everything fits"
            )
            markers = [("system", 0, 0, "5m"), ("messages", number - 1, 0, "5m")]
            transcript.decide(
                Request(
                    epoch=epoch.id,
                    tip=transcript.view.tip,
                    markers=markers,
                    sha256="0" * 64,
                    why=why,
                    spent=0.01 * number,
                    number=number // 2,
                )
            )
            usage = msgspec.Raw(msgspec.json.encode(message["usage"]))
            transcript.model(Answer(f"msg_{message['id']}", MODEL, parts, usage, "tool_use"))


def open_ours(folder: Path) -> Opens:
    """Return a function that opens our session, with a window that is never full, as with the peers."""
    return lambda: bytes(_ours(folder).prepare().body)


def _ours(folder: Path) -> Any:
    import sevenfold

    return sevenfold.Session.open(
        "bench",
        model=MODEL,
        file=folder / "ours.jsonl",
        folder=folder,
        system=SYSTEM,
        tools=[sevenfold.tool(tool, kind="read") for tool in TOOLS],
        max_tokens=MAX_TOKENS,
        settings={"context_window": 10**9, "fsync": "never"},
    )


def save_sdk(folder: Path, said: list[Message]) -> None:
    """Write what a loop around the SDK stores: the list of messages."""
    kept = [{"role": message["role"], "content": message["content"]} for message in said]
    (folder / "sdk.json").write_text(json.dumps(kept, ensure_ascii=False), "utf-8")


def open_sdk(folder: Path) -> Opens:
    """Return a function that reads the list and encodes the body as the SDK does."""
    return lambda: _encoded({"system": SYSTEM, "tools": TOOLS, "messages": _read(folder / "sdk.json")})


def save_pydantic_ai(folder: Path, said: list[Message]) -> None:
    """Write the message history with the library's own type adapter."""
    from bench.peers.adapters.pydantic_ai_ import converted

    adapter = import_module("pydantic_ai.messages").ModelMessagesTypeAdapter
    (folder / "pydantic_ai.json").write_bytes(adapter.dump_json(converted(said)))


def open_pydantic_ai(folder: Path) -> Opens:
    """Return a function that validates the history and maps it to API messages."""
    import asyncio

    adapter = import_module("pydantic_ai.messages").ModelMessagesTypeAdapter
    provider = import_module("pydantic_ai.providers.anthropic").AnthropicProvider(api_key="none")
    model = import_module("pydantic_ai.models.anthropic").AnthropicModel(MODEL, provider=provider)
    parameters = import_module("pydantic_ai.models").ModelRequestParameters()

    def opens() -> bytes:
        history = adapter.validate_json((folder / "pydantic_ai.json").read_bytes())
        _, messages = asyncio.run(model._map_message(history, parameters, {}))
        return _encoded({"system": SYSTEM, "tools": TOOLS, "messages": messages})

    return opens


def save_langchain(folder: Path, said: list[Message]) -> None:
    """Write the library's messages as dicts."""
    kinds = import_module("langchain_core.messages")

    def made(message: Message) -> Any:
        content = message["content"]
        if message["role"] == "assistant":
            calls = [block for block in content if block["type"] == "tool_use"]
            called = [{"name": one["name"], "args": one["input"], "id": one["id"]} for one in calls]
            return kinds.AIMessage(content=content, tool_calls=called, id=message["id"])
        first = content[0]
        if first["type"] == "tool_result":
            return kinds.ToolMessage(content=first["content"], tool_call_id=first["tool_use_id"])
        return kinds.HumanMessage(content=first["text"])

    kept = kinds.messages_to_dict([made(message) for message in said])
    (folder / "langchain.json").write_text(json.dumps(kept, ensure_ascii=False), "utf-8")


def open_langchain(folder: Path) -> Opens:
    """Return a function that rebuilds the messages and lets the library's model class build the payload."""
    kinds = import_module("langchain_core.messages")
    made = import_module("langchain_anthropic").ChatAnthropic
    model = made(model=MODEL, api_key="none", max_tokens=MAX_TOKENS)

    def opens() -> bytes:
        messages = kinds.messages_from_dict(_read(folder / "langchain.json"))
        return _encoded(model._get_request_payload([kinds.SystemMessage(SYSTEM), *messages], tools=TOOLS))

    return opens


def _read(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _encoded(fields: dict[str, Any]) -> bytes:
    """Encode a body as httpx does."""
    body = {"model": MODEL, "max_tokens": MAX_TOKENS, **fields}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


OURS = "sevenfold"
WAYS: dict[str, tuple[Callable[[Path, list[Message]], None], Callable[[Path], Opens]]] = {
    OURS: (save_ours, open_ours),
    "SDK loop": (save_sdk, open_sdk),
    "pydantic-ai": (save_pydantic_ai, open_pydantic_ai),
    "langchain": (save_langchain, open_langchain),
}


# Measuring


def conversation(messages: int) -> list[Message]:
    """Return the conversation that all engines store; it ends with a user message."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "session.jsonl")
        sessions.write(path, messages)
        said: list[Message] = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    said = said[:messages]
    return said if said[-1]["role"] == "user" else said[:-1]


def child(way: str, folder: Path) -> None:
    """Open a short session to warm up, then open the real one in the given way and print its cost."""
    with tempfile.TemporaryDirectory() as name:
        WAYS[way][0](Path(name), conversation(WARM_UP))
        WAYS[way][1](Path(name))()
    opens = WAYS[way][1](folder)
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    body = opens()
    spent = {
        "cpu_ms": (time.process_time() - cpu) * 1e3,
        "wall_ms": (time.perf_counter() - wall) * 1e3,
        "mb": len(body) / 1e6,
    }
    print(json.dumps(spent))


def measure(
    messages: int = MESSAGES, ways: Sequence[str] = tuple(WAYS), runs: int = RUNS
) -> dict[str, Any]:
    """Return the figures of each way by name; the ways alternate, so that other load affects all of them."""
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, said = Path(name), conversation(messages)
        for way in ways:
            try:
                WAYS[way][0](folder, said)
            except ModuleNotFoundError as error:
                print(f"{way}: left out, {error.name} is not installed", file=sys.stderr)
            else:
                found[way] = []
        original = (folder / "ours.jsonl").read_bytes() if OURS in found else b""
        for _ in range(runs):
            for way, rows in found.items():
                if way == OURS:
                    # Opening appends records; the next process must start from the original file.
                    (folder / "ours.jsonl").write_bytes(original)
                command = [sys.executable, str(Path(__file__).resolve()), "--child", way, str(folder)]
                shown = subprocess.run(command, check=True, capture_output=True)
                rows.append(json.loads(shown.stdout.splitlines()[-1]))
    return {
        way: {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        for way, rows in found.items()
    }


def bars(found: dict[str, Any]) -> list[tuple[str, float, float, bool | None]]:
    """Return the acceptance bars: (name, figure, bar, met); met is None if there is no peer to compare with."""
    peers = {way: row["cpu_ms"] for way, row in found.items() if way != OURS}
    if not peers:
        return [("open and first body, x quickest peer", 0.0, MOST, None)]
    quickest = min(peers, key=lambda way: peers[way])
    times = found[OURS]["cpu_ms"] / peers[quickest]
    return [(f"open and first body, x {quickest}", times, MOST, times <= MOST)]


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return exit status 0 if the bar is met, else 1."""
    parser = argparse.ArgumentParser(
        description="What opening a long session costs up to its first request."
    )
    parser.add_argument("messages", nargs="?", type=int, default=MESSAGES)
    found = measure(parser.parse_args(arguments).messages)
    print(f"{'':20}{'CPU ms':>10}{'wall ms':>10}{'body MB':>10}{'x ours':>9}")
    for way, row in found.items():
        ratio = row["cpu_ms"] / found[OURS]["cpu_ms"]
        print(f"{way:20}{row['cpu_ms']:>10,.0f}{row['wall_ms']:>10,.0f}{row['mb']:>10.1f}{ratio:>9.2f}")
    verdicts = {True: "pass", False: "FAIL", None: "not measured"}
    for name, figure, bar, met in bars(found):
        print(f"{verdicts[met]}  {name}: {figure:.2f} (at most {bar})")
    return 0 if all(met for *_, met in bars(found)) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], Path(sys.argv[3]))
    else:
        raise SystemExit(main(sys.argv[1:]))
