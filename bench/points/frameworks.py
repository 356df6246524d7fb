"""Agents of other frameworks, kept in a window that is too small for them; with `--clients`."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec

from bench.clients.judging import LEAST_COMPACTIONS, LEAST_REQUESTS
from bench.framework_keeping import ROOT, FrameworkFigures, holds
from bench.page_examples import PAGES, ExampleOutcome
from bench.points import Outcome, Point

LED = (
    *(("langchain", wire) for wire in ("messages", "chat", "responses")),
    ("deepagents", "messages"),
    *(("pydantic-ai", wire) for wire in ("messages", "chat", "responses")),
    *(("openai-agents", wire) for wire in ("chat", "responses")),
    *(("litellm", wire) for wire in ("messages", "chat")),
    ("hermes", "chat"),
)
STUBBORN = (("langchain", "messages"), ("pydantic-ai", "chat"), ("openai-agents", "responses"))
"""Agents whose provider refuses every changed request."""


def led(framework: str, wire: str, *options: str) -> FrameworkFigures:
    """Lead an agent through the conversation, in a process and a network namespace of its own."""
    command = [sys.executable, "-m", "bench.framework_keeping", framework, wire, "--json", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr[-1000:])
    return msgspec.json.decode(done.stdout, type=FrameworkFigures)


def kept(framework: str, wire: str, _: Path | None) -> list[Outcome]:
    """Whether an agent is kept within its window, and nothing is lost."""
    figures = led(framework, wire)
    figure = (
        f"{figures.requests} requests, {figures.refused} refused, {figures.compactions} compactions; "
        f"sentences missing {len(figures.missing)}, codewords behind compactions {len(figures.missing_after)}, "
        f"tags among the user's words {len(figures.tags)}; "
        f"system prompt {'as at first' if figures.head_same else 'CHANGED'}"
    )
    bar = f"none lost or refused, {LEAST_REQUESTS} requests, {LEAST_COMPACTIONS} compactions"
    return [Outcome(f"{framework} {figures.version} over {wire}", holds(figures), figure, bar)]


def refused(framework: str, wire: str, _: Path | None) -> list[Outcome]:
    """Whether an agent finishes if the provider refuses everything that is not as the agent wrote it."""
    figures = led(framework, wire, "--stubborn")
    is_whole = figures.finished and not figures.missing and not figures.error
    figure = (
        f"{figures.refused} changed requests refused, {len(figures.missing)} sentences missing at the end"
    )
    name = f"{framework} over {wire}, every change refused"
    return [Outcome(name, is_whole and figures.refused > 0, figure, "finishes")]


def bound(_: Path | None) -> list[Outcome]:
    """A model whose thinking is bound: LangChain's own summarisation, deepagents' own, and ours for both."""
    runs = {
        "langchain's own": led("langchain", "messages", "--bound", "--by", "own"),
        "langchain, ours": led("langchain", "messages", "--bound"),
        "deepagents' own": led("deepagents", "messages", "--bound", "--by", "own"),
        "deepagents, ours": led("deepagents", "messages", "--bound"),
    }
    outcomes: list[Outcome] = []
    for name, figures in runs.items():
        cost = f"${figures.usd:.3f}" if figures.usd is not None else "cost unknown"
        ended = "finished" if figures.finished else "did not finish"
        figure = f"{ended}, {figures.refused} refused, {cost}, {len(figures.missing)} sentences missing at the end"
        met = holds(figures)
        bar = "none lost or refused"
        if name == "langchain's own":
            met = figures.refused > 0
            bar = "refused: else the other lines show nothing"
        elif name == "deepagents' own":
            met = figures.finished
            bar = "for comparison"
        outcomes.append(Outcome(f"bound thinking: {name}", met, figure, bar))
    return outcomes


def example(page: str, _: Path | None) -> list[Outcome]:
    """Whether the example of a page runs in a new environment with what the page says."""
    command = [sys.executable, "-m", "bench.page_examples", page, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr[-1000:])
    outcomes = msgspec.json.decode(done.stdout, type=list[ExampleOutcome])
    return [
        Outcome(f"the example of docs/{outcome.page}.md", outcome.ended_well, outcome.detail, "ends well")
        for outcome in outcomes
    ]


POINTS: list[Point] = [
    *((f"{framework} over {wire}", partial(kept, framework, wire)) for framework, wire in LED),
    *(
        (f"{framework} with changes refused", partial(refused, framework, wire))
        for framework, wire in STUBBORN
    ),
    ("frameworks with bound thinking", bound),
    *((f"example of the page {page}", partial(example, page)) for page in PAGES),
]
