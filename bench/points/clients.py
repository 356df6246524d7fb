"""Real Claude Code and Codex with the plugin, without it (the control), and below the gateway; with `--clients`."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec

from bench import interactive_keeping, interim_answers
from bench.clients import programs
from bench.clients.judging import LEAST_COMPACTIONS, LEAST_REQUESTS
from bench.points import Measurement, Outcome, Point
from bench.real_clients import Figures
from bench.real_keeping import KeptFigures, finishes, holds, shown


def driven(program: str, *options: str) -> Figures:
    """Drive a program in a process and a network namespace of its own."""
    command = [sys.executable, "-m", "bench.real_clients", program, "--json", *options]
    done = subprocess.run(command, cwd=programs.ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr[-1000:])
    return msgspec.json.decode(done.stdout, type=Figures)


def with_plugin(program: str, _: Path | None) -> list[Outcome]:
    """What the user said is in every first request after a compaction, and the plugin leaves nothing behind."""
    figures = driven(program)
    name = f"{program} ({figures.version}) with the plugin"
    outcomes = [
        *_codewords(name, figures),
        Outcome(f"{name}: settings after uninstalling", figures.settings_same, "compared to the byte"),
    ]
    if figures.recalled is not None:
        outcomes.append(
            Outcome(f"{name}: a lost fact found by the MCP tool", figures.recalled, "in one call")
        )
    return outcomes


def without_plugin(program: str, _: Path | None) -> list[Outcome]:
    """The control: if nothing is lost without the plugin, the other points show nothing."""
    figures = driven(program, "--without-plugin")
    lost = sum(len(compaction.missing) for compaction in figures.compactions)
    return [Outcome(f"{program} without the plugin", lost > 0, f"{lost} codewords lost", "at least 1")]


def below_gateway(program: str, _: Path | None) -> list[Outcome]:
    """What the gateway recorded is what the program's own transcript says, call by call."""
    figures = driven(program, "--gateway")
    name = f"{program} below the gateway"
    figure = (
        f"{figures.calls_of_both} of {figures.calls_own} calls found, {figures.calls_that_differ} differ"
    )
    same = figures.calls_of_both == figures.calls_own > 0 and not figures.calls_that_differ
    only = figures.calls_gateway - figures.calls_of_both
    return [
        *_codewords(name, figures),
        Outcome(
            f"{name}: figures of its transcript", same, f"{figure}; {only} that only the gateway saw", "all"
        ),
    ]


def kept_by_gateway(program: str, _: Path | None) -> list[Outcome]:
    """A gateway that keeps serves a program whose conversation is larger than the window."""
    command = [sys.executable, "-m", "bench.real_keeping", program, "--json"]
    done = subprocess.run(command, cwd=programs.ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr[-1000:])
    figures = msgspec.json.decode(done.stdout, type=KeptFigures)
    bar = f"none lost or refused, {LEAST_REQUESTS} requests, {LEAST_COMPACTIONS} compactions"
    return [Outcome(f"{program} kept by the gateway", holds(figures), shown(figures), bar)]


def with_changes_refused(program: str, _: Path | None) -> list[Outcome]:
    """Whether a program finishes if the provider refuses everything that is not as the program wrote it."""
    command = [sys.executable, "-m", "bench.real_keeping", program, "--stubborn", "--json"]
    done = subprocess.run(command, cwd=programs.ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr[-1000:])
    figures = msgspec.json.decode(done.stdout, type=KeptFigures)
    missing = len(figures.judgement.missing)
    figure = f"{figures.refused} changed requests refused, {missing} sentences missing at the end"
    return [Outcome(f"{program}, every change refused", finishes(figures), figure, "finishes")]


def in_terminal(_: Path | None) -> list[Outcome]:
    """The same for Claude Code in front of a terminal, led through what people do there."""
    command = [sys.executable, "-m", "bench.interactive_keeping", "--json"]
    done = subprocess.run(command, cwd=programs.ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr[-3000:])
    figures = msgspec.json.decode(done.stdout, type=interactive_keeping.InteractiveFigures)
    name = "claude-code in a terminal kept by the gateway"
    bar = f"none lost or refused, {LEAST_REQUESTS} requests, {LEAST_COMPACTIONS} compactions"
    figure = interactive_keeping.shown(figures)
    return [Outcome(name, interactive_keeping.holds(figures), figure, bar)]


def interim(_: Path | None) -> list[Outcome]:
    """Which programs read over the interim answers that a gateway sends while a summary is under way."""
    command = [sys.executable, "-m", "bench.interim_answers", "--json"]
    done = subprocess.run(command, cwd=programs.ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr[-1000:])
    outcomes = msgspec.json.decode(done.stdout, type=list[interim_answers.ProgramOutcome])
    return [
        Outcome(
            f"{outcome.program} reads over interim answers",
            outcome.answered is (outcome.program != interim_answers.CONTROL),
            outcome.detail or "it has the provider's answer",
            "it does not: the control" if outcome.program == interim_answers.CONTROL else "the answer",
        )
        for outcome in outcomes
    ]


def _codewords(name: str, figures: Figures) -> list[Outcome]:
    number = len(figures.compactions)
    missing = sorted({word for compaction in figures.compactions for word in compaction.missing})
    said = ", ".join(missing) or "none missing"
    return [
        Outcome(
            f"{name}: compactions",
            number >= LEAST_COMPACTIONS,
            str(number),
            f"at least {LEAST_COMPACTIONS}",
        ),
        Outcome(f"{name}: codewords after each of them", not missing, said),
    ]


KINDS = {
    "with the plugin": with_plugin,
    "without the plugin": without_plugin,
    "below the gateway": below_gateway,
    "kept by the gateway": kept_by_gateway,
    "with changes refused": with_changes_refused,
}
MEASUREMENTS: list[Point] = [
    *(
        (f"{program} {kind}", partial(measurement, program))
        for program in programs.CLIENTS
        for kind, measurement in KINDS.items()
    ),
    ("claude-code in a terminal kept by the gateway", in_terminal),
    ("programs and interim answers", interim),
]


def if_possible(name: str, measurement: Measurement, corpus: Path | None) -> list[Outcome]:
    """Measure a point, or say why it is not tested here."""
    missing = programs.missing_here()
    return [Outcome(name, None, f"not tested: {missing}")] if missing else measurement(corpus)


POINTS: list[Point] = [
    (name, partial(if_possible, name, measurement)) for name, measurement in MEASUREMENTS
]
