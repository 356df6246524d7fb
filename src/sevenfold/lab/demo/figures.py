"""The reports of the agent's process, the costs of the demo, and the checks it must pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import fsum
from typing import Any

from msgspec import Struct

from sevenfold.events import Acted, Answered
from sevenfold.lab.demo.harbour import GATES, INCIDENT
from sevenfold.lab.simulator.prompt import read_prompt
from sevenfold.lab.simulator.tokens import Counter, Scales
from sevenfold.profiles import find
from sevenfold.record.usage import Usage

MODEL = "claude-opus-4-6"
TURN_SECONDS = 8.0
"""How long an answer takes, on the clocks of the provider and the agent."""
ANSWER = ("HV-4417", INCIDENT)
"""Texts that the last answer must contain."""
NEXT_DAY = "the harbour master's"
"""A text that the answer on the next day must contain."""
MOST_ABOVE_IDEAL = 1.15
MOST_OF_NAIVE = 0.40
COUNTER = Counter()


class AgentStarted(Struct, frozen=True, tag_field="event"):
    """The agent's process is ready."""

    threshold: int
    resumed: bool


class UserSpoke(Struct, frozen=True, tag_field="event"):
    """A message of the user, and the command for the agent's process; with an empty text, it just continues."""

    text: str
    now: float


class ToolUsed(Struct, frozen=True, tag_field="event"):
    """A tool was used; ``tokens`` is the size of its result."""

    tool: str
    about: str
    tokens: int


class TaskEnded(Struct, frozen=True, tag_field="event"):
    """The agent finished a task."""

    end: str
    text: str


class FactsJudged(Struct, frozen=True, tag_field="event"):
    """The last report: how many facts are in the context, how many recall finds, and which are lost."""

    in_context: int
    reachable: int
    lost: tuple[str, ...]


class HandedOver(Struct, frozen=True, tag_field="event"):
    """Work was delegated to other agents, and all of them have ended."""

    text: str
    """The last words of the agent that delegated the work."""
    agents: list[str]
    """The names of the agents started."""
    once: int
    """How many of them ran exactly once and completed."""
    delivered: int
    """How many results were delivered."""
    at_work: int = 0
    """How many were at work when the process was killed."""
    findings: tuple[str, ...] = ()
    """The lines they wrote to a file: one for each piece of work, each time it was done."""


Report = AgentStarted | UserSpoke | Answered | Acted | ToolUsed | TaskEnded | FactsJudged | HandedOver


class Figures(Struct, frozen=True):
    """The figures that are output as JSON."""

    turns: int
    peak_context_tokens: int
    threshold_tokens: int
    cost_usd: float
    naive_cost_usd: float
    ideal_cost_usd: float
    cache_read_share: float
    layers: dict[str, int]
    facts: dict[str, int]


class DemoOutcome(Struct, frozen=True):
    """The result of a finished demo."""

    figures: Figures
    sizes: list[int]
    """The size of the prompt in tokens, turn by turn."""
    acted: list[tuple[int, str]]
    """The layers that acted, each with the number of turns before it."""
    needed_tokens: int
    """The size of the whole conversation."""
    side_requests: int
    """Requests for notes and summaries."""
    killed: int
    """The turn in which the agent's process was killed while waiting for an answer."""
    same_request: bool
    """Whether the first request after the kill was, byte for byte, the one that was unanswered."""
    answer: str
    """The answer to the last question, which is about what the user said at the start."""
    tests: str
    """The last line of the project's own tests."""
    next_day: str = ""
    """A new session's answer on the next day, from memory alone."""
    lost: tuple[str, ...] = ()
    handed: HandedOver | None = None


def bars(outcome: DemoOutcome) -> dict[str, bool]:
    """The checks of a demo, each with whether it passes."""
    figures, lost = outcome.figures, outcome.figures.facts["lost"]
    times_ideal = figures.cost_usd / figures.ideal_cost_usd
    share_of_naive = figures.cost_usd / figures.naive_cost_usd
    peak = figures.peak_context_tokens
    turn = max((next_size - size for size, next_size in pairwise(outcome.sizes)), default=0)
    allowed_peak = figures.threshold_tokens + turn
    return {
        f"{lost} facts lost (0)": lost == 0,
        f"peak context {peak:,} tokens (at most {allowed_peak:,}: the threshold and a turn)": peak
        <= allowed_peak,
        f"cost {times_ideal:.2f} × ideal (at most {MOST_ABOVE_IDEAL})": times_ideal <= MOST_ABOVE_IDEAL,
        f"cost {share_of_naive:.0%} of naive (at most {MOST_OF_NAIVE:.0%})": share_of_naive
        <= MOST_OF_NAIVE,
        "killed once; resumed with the same request, byte for byte": outcome.same_request,
        "asked at the end about the start, the agent knew": all(fact in outcome.answer for fact in ANSWER),
        f"the next day, in a new session, it knew from memory: {outcome.next_day}": NEXT_DAY
        in outcome.next_day,
        f"the work is done: {outcome.tests}": " 0 failed" in outcome.tests,
        **(_handed_bar(outcome.handed) if outcome.handed else {}),
    }


def _handed_bar(handed: HandedOver) -> dict[str, bool]:
    agents = len(handed.agents)
    lines = len(handed.findings)
    label = (
        f"killed with {handed.at_work} agents at work: {agents} started, {handed.once} ran once, {handed.delivered} "
        f"results delivered, {lines} findings for {len(GATES)} gates"
    )
    met = agents == handed.once == handed.delivered == len(GATES) + 1 and handed.at_work > 0
    gates_found = sorted(finding.partition(":")[0] for finding in handed.findings)
    return {label: met and gates_found == sorted(GATES)}


def prompt_tokens(answer: Answered) -> int:
    """The size of the answered prompt."""
    return answer.input_tokens + answer.cache_read_tokens + answer.cache_write_tokens


def costs(requests: Iterable[tuple[Mapping[str, Any], Usage]]) -> tuple[float, float, float]:
    """The cost of the requests, their cost with a perfect cache, and the share of prompt tokens read from the cache.

    A perfect cache reads every token that was ever sent after the same prefix, and writes all others once.
    """
    profile = find(MODEL)
    scales = Scales(COUNTER)
    step_ids = dict[tuple[int, bytes], int]()
    paid = list[float]()
    ideal = list[float]()
    prompt = 0
    read = 0
    for body, usage in requests:
        sent = read_prompt(body, scales, profile.tokenizer)
        position = 0
        fresh = 0
        for part in (*sent.tools, *sent.system, *sent.items):
            step = position, part.digest
            fresh += 0 if step in step_ids else part.tokens
            position = step_ids.setdefault(step, len(step_ids) + 1)
        fresh = min(fresh, usage.prompt)
        output = usage.output_tokens
        cached = usage.prompt - fresh
        best = Usage(cache_read_input_tokens=cached, cache_creation_5m=fresh, output_tokens=output)
        paid.append(Usage.cost(usage, profile) or 0.0)
        ideal.append(Usage.cost(best, profile) or 0.0)
        prompt = prompt + usage.prompt
        read = read + usage.cache_read_input_tokens
    # `fsum` is exact, so the order in which concurrent requests were answered makes no difference.
    return fsum(paid), fsum(ideal), read / max(1, prompt)


def naive(reports: Iterable[Report], room: int) -> tuple[float, int]:
    """The naive cost of the same conversation, and its total tokens.

    Naive means: sent whole with every turn, nothing cached, the oldest messages dropped when it no longer fits.
    """
    profile = find(MODEL)
    message_sizes = deque[int]()
    usd = 0.0
    fixed = total = results = 0
    for report in reports:
        match report:
            case UserSpoke(text=text) if text:
                message_sizes.append(COUNTER.text(text, profile.tokenizer) + COUNTER.per_message)
                total += message_sizes[-1]
            case ToolUsed(tokens=tokens):
                results += tokens  # The results of one turn are one message, in whatever order they come.
            case Answered(output_tokens=output):
                # System and tools, which are part of every request.
                fixed = fixed or prompt_tokens(report) - total
                message_sizes.extend([results] if results else [])
                total = total + results + output
                results = 0
                while fixed + sum(message_sizes) > room and len(message_sizes) > 1:
                    message_sizes.popleft()
                usd += (
                    Usage.cost(
                        Usage(input_tokens=fixed + sum(message_sizes), output_tokens=output), profile
                    )
                    or 0.0
                )
                message_sizes.append(output)
            case _:
                pass
    return usd, fixed + total
