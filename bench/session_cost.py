"""The provider's bill for a long tool-using session: our engine, a naive loop, and the SDK's own tool runner.

All three have the same conversation, answer by answer and result by result, with a simulated provider over
HTTP whose prompt cache and prices follow the published rules. The ideal cost writes every token to the cache
once and reads it afterwards. All figures come from the simulator; no real provider is called.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import anthropic
from anthropic import beta_tool

from sevenfold.clock import RandomIds, SystemClock
from sevenfold.conversation.flow import drive
from sevenfold.conversation.transcript import Transcript
from sevenfold.conversation.turn import turn
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.provider import RateLimits, Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.profiles import find
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.record import blocks
from sevenfold.record.log import Place
from sevenfold.record.usage import BilledCall, Usage, ideal_cost
from sevenfold.request.frame import Frame
from sevenfold.stores.memory import MemoryLog
from tests.support import bare_conversation

MODEL = "claude-sonnet-5-5"
TURNS = 200
SYSTEM = "You are a careful engineer who reads before writing. " * 200
PROMPT = "Please look through the files one by one."
WORDS = [
    "return",
    "value",
    "=",
    "self.items[index]",
    "if",
    "found",
    "else",
    "None",
    "",
    "#",
    "see",
    "notes\n",
]


def listing(number: int) -> str:
    """Return the file that the model reads in step ``number``: about 2 to 7 KB."""
    chance = random.Random(number)
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(300, 1300)))


def brain(turns: int) -> ScriptedBrain:
    """Return a simulated model that reads one file per turn, then says that it is done."""

    def reply(prompt: ModelPrompt) -> Any:
        number = 1 + sum(message["role"] == "assistant" for message in prompt.messages)
        if number > turns:
            return "Done."
        call = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "read_file",
            "input": {"number": number},
        }
        return [{"type": "thinking", "thinking": "", "signature": ""}, call]

    return ScriptedBrain(reply)


@beta_tool
def read_file(number: int) -> str:
    """Read a file by its number."""
    return listing(number)


def ours(url: str, turns: int) -> None:
    """Run the session with our engine."""
    script = Transcript(MemoryLog(), Place("bench"), clock=SystemClock(), ids=RandomIds())
    frame = Frame.of(
        MODEL,
        2_000,
        system=[blocks.text(SYSTEM).raw],
        tools=[read_file.to_dict()],
        thinking={"type": "adaptive"},
    )
    exchange = bare_conversation(script, frame, SystemClock())
    client = AnthropicClient(api_key="simulated-key", base_url=url)
    script.user([blocks.text(PROMPT)])
    for number in range(1, turns + 2):
        drive(turn(exchange), client)
        for call in script.view.pending_calls:
            script.user([blocks.result(call, listing(number))])
    client.close()


def naive(url: str, turns: int) -> None:
    """Run the session in the simplest loop: the SDK, a list of messages, no cache markers."""
    said: list[Any] = [{"role": "user", "content": PROMPT}]
    with anthropic.Anthropic(base_url=url, api_key="simulated-key") as client:
        for number in range(1, turns + 2):
            answer = client.messages.create(
                model=MODEL,
                max_tokens=2_000,
                system=SYSTEM,
                tools=[read_file.to_dict()],
                messages=said,
                thinking={"type": "adaptive"},
            )
            said.append({"role": "assistant", "content": answer.content})
            calls = [block.id for block in answer.content if block.type == "tool_use"]
            if calls:
                results = [
                    {"type": "tool_result", "tool_use_id": call, "content": listing(number)}
                    for call in calls
                ]
                said.append({"role": "user", "content": results})


def runner(url: str, turns: int, **caching: Any) -> None:
    """Run the session with the SDK's tool runner."""
    with anthropic.Anthropic(base_url=url, api_key="simulated-key") as client:
        client.beta.messages.tool_runner(
            model=MODEL,
            max_tokens=2_000,
            system=SYSTEM,
            tools=[read_file],
            messages=[{"role": "user", "content": PROMPT}],
            thinking={"type": "adaptive"},
            thread=False,
            **caching,
        ).until_done()


WAYS: dict[str, Callable[[str, int], None]] = {
    "sevenfold": ours,
    "naive loop": naive,
    "SDK tool runner": runner,
    "SDK tool runner, automatic caching": lambda url, turns: runner(
        url, turns, cache_control={"type": "ephemeral"}
    ),
}


def measure(way: Callable[[str, int], None], turns: int = TURNS) -> dict[str, float]:
    """Run the session one way; return the usage that the provider reports, and its cost."""
    simulator = Simulator(brain(turns), Setup(limits=RateLimits(input_tokens=10**12)))
    start = time.process_time()
    with serve(simulator) as url:
        way(url, turns)
    spent = time.process_time() - start
    used = [
        Usage.of(request.usage) for request in simulator.requests if request.status == 200 and request.usage
    ]
    calls = [BilledCall(usage.prompt, usage.output_tokens, 300) for usage in used]
    profile = find(MODEL)
    ideal = ideal_cost(calls, profile) or 0.0
    paid = sum(Usage.cost(usage, profile) or 0.0 for usage in used)
    prompt = sum(usage.prompt for usage in used)
    return {
        "calls": len(used),
        "prompt_tokens": prompt,
        "read_share": sum(usage.cache_read_input_tokens for usage in used) / prompt,
        "usd": paid,
        "ideal_usd": ideal,
        "times_ideal": paid / ideal,
        "cpu_seconds": spent,
    }


def main(turns: int = TURNS) -> dict[str, dict[str, float]]:
    """Measure and print the table; return its rows by name."""
    print(f"{turns} turns with {MODEL}, simulated; cpu is client and simulator together")
    print(
        f"{'':36} {'calls':>6} {'prompt tokens':>14} {'cache reads':>12} {'cost':>9} {'x ideal':>8} {'cpu s':>6}"
    )
    rows = {}
    for name, way in WAYS.items():
        row = rows[name] = measure(way, turns)
        print(
            f"{name:36} {row['calls']:>6.0f} {row['prompt_tokens']:>14,.0f} {row['read_share']:>12.2%} "
            f"${row['usd']:>8.3f} {row['times_ideal']:>8.3f} {row['cpu_seconds']:>6.1f}",
            flush=True,
        )
    return rows


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TURNS)
