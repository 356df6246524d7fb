"""The overhead of the client for each request: ours, given bytes, compared with the SDK, given Python objects.

    python bench/client_overhead.py [BYTES]      default: 1000000, the size of the conversation

Both send the same conversation through the same official SDK client over the same mock connection, which
accepts the body and returns the same short answer, so only the work on this machine is measured, not a
network. They alternate, streamed and not, and medians of CPU time are compared. `bench/turn_cost.py`
measures building the bytes.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import msgspec

from sevenfold.ports import Call
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.wire.messages_events import message_events

SIZE = 1_000_000
ROUNDS = 25
LEAST_RATIO = 5.0
MODEL = "claude-sonnet-5-5"
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "content": [
        {"type": "text", "text": "Reading the file you named, then the test beside it. " * 4},
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "src/main.py"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "cache_read_input_tokens": 9, "output_tokens": 9},
}


def conversation(size: int) -> dict[str, Any]:
    """Return a request with tools and a conversation of calls and results, of about that many bytes."""
    result = "\n".join(
        f"{line:4}  value_{line} = compute(input[{line}], seed={line * 7})" for line in range(40)
    )
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "Mend the tests."}]}
    ]
    while len(messages) * (len(result) + 350) / 2 < size:
        name = f"toolu_{len(messages):05}"
        call = {
            "type": "tool_use",
            "id": name,
            "name": "Read",
            "input": {"path": f"src/{name}.py", "from": 1},
        }
        said = {"type": "text", "text": "Now the next file."}
        messages.append({"role": "assistant", "content": [said, call]})
        answered = {
            "type": "tool_result",
            "tool_use_id": name,
            "content": [{"type": "text", "text": result}],
        }
        messages.append({"role": "user", "content": [answered]})
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools = [
        {"name": f"Tool{number}", "description": "does it " * 20, "input_schema": schema}
        for number in range(20)
    ]
    system = [{"type": "text", "text": "You are careful. " * 200}]
    return {"model": MODEL, "max_tokens": 8_000, "system": system, "tools": tools, "messages": messages}


def official() -> anthropic.Anthropic:
    """Return the official client over a mock connection that answers at once."""
    streamed = b"".join(message_events(ANSWER, 24))
    whole = msgspec.json.encode(ANSWER)

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked = request.read()
        if asked.endswith(b'"stream":true}'):
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=streamed)
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=whole)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return anthropic.Anthropic(api_key="unused", base_url="http://nowhere", http_client=http)


def contenders(request: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return the functions to compare, by name; each makes one request."""
    sdk, call = official(), Call(msgspec.json.encode(request))
    ours = {stream: AnthropicClient(sdk, stream=stream) for stream in (True, False)}

    def sdk_streamed() -> object:
        with sdk.messages.stream(**request) as stream:
            return stream.get_final_message()

    return {
        "ours_streamed": lambda: ours[True].ask(call),
        "sdk_streamed": sdk_streamed,
        "ours_whole": lambda: ours[False].ask(call),
        "sdk_whole": lambda: sdk.messages.create(**request),
    }


def measure(size: int = SIZE, rounds: int = ROUNDS) -> dict[str, float]:
    """Return the median CPU milliseconds per request by contender, and the ratios of the SDK's to ours."""
    request = conversation(size)
    asking = contenders(request)
    spent: dict[str, list[float]] = {name: [] for name in asking}
    for number in range(rounds + 2):
        for name, ask in asking.items():
            gc.collect()
            begun = time.process_time()
            ask()
            if number >= 2:
                spent[name].append(1000 * (time.process_time() - begun))
    figures: dict[str, float] = {name: statistics.median(times) for name, times in spent.items()}
    for kind in ("streamed", "whole"):
        figures[f"ratio_{kind}"] = figures[f"sdk_{kind}"] / figures[f"ours_{kind}"]
    return {"bytes": float(len(msgspec.json.encode(request))), **figures}


def main() -> int:
    """Print the figures; return 1 if ours is not faster by the required ratio, else 0."""
    figures = measure(int(sys.argv[1]) if len(sys.argv) > 1 else SIZE)
    print(f"conversation of {figures['bytes'] / 1e6:.2f} MB, CPU per request, medians of {ROUNDS}")
    print(f"{'':10} {'ours':>10} {'SDK':>10} {'ratio':>8}")
    for kind in ("streamed", "whole"):
        ours, theirs, ratio = (figures[f"{name}_{kind}"] for name in ("ours", "sdk", "ratio"))
        print(f"{kind:10} {ours:>7.2f} ms {theirs:>7.2f} ms {ratio:>7.1f}x")
    low = min(figures["ratio_streamed"], figures["ratio_whole"])
    print(f"{'pass' if low >= LEAST_RATIO else 'FAIL'}: at least {LEAST_RATIO:.0f}x less is asked for")
    return 0 if low >= LEAST_RATIO else 1


if __name__ == "__main__":
    raise SystemExit(main())
