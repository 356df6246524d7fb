"""The session with the layers that need no model call: recorded sessions replayed, checked and priced."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from msgspec import Struct

from bench import loop_stall, policies, prepare_cost
from bench.points import Outcome, Point, all_of, at_most, is_quick, without_corpus
from bench.replay.checks import CheckFindings, ReplayChecker, Saving, savings
from bench.replay.run import ReplayRun, replay
from sevenfold.events import Checked
from sevenfold.lab.replay.recording import read

SMALL = 100_000
"""A window too small for almost all of the sessions, so that the layers have to act."""
HELD, MONEY, PAUSES = "sessions held once more", "money", "what a pause saves"
QUICK_STALL_TURNS = 4
MOST_ERROR = 0.10
"""The largest allowed error in forecasts of what clearing after a pause saves."""


class Held(Struct, frozen=True):
    """A replayed session and the results of its checks."""

    run: ReplayRun
    found: CheckFindings

    @property
    def over(self) -> int:
        """The number of prompts above the blocking limit."""
        limit = max(check.blocking for _, check in self.run.events_of(Checked))
        return sum(prompt > limit for prompt in self.run.prompts)

    @property
    def well_ended(self) -> bool:
        """Whether it reached its end, or stopped at a full window with an error that names the next step."""
        return self.run.whole or (self.run.full and names_next_step(self.run.ended))


def names_next_step(problem: str) -> bool:
    """Whether an error message says what to do next."""
    return "; next: " in problem or "take a model with a larger window" in problem


def hold(path: Path, model: str, window: int | None) -> Held:
    """Replay and check one session."""
    recording = read(path)
    checker = ReplayChecker(recording)
    settings = {} if window is None else {"context_window": window}
    return Held(replay(recording, model, settings=settings, before=checker), checker.found)


def sessions(corpus: Path | None) -> list[Outcome]:
    """Every session with each model, in the model's own window and in a small one."""
    if corpus is None:
        return without_corpus(HELD)
    paths = policies.sessions(corpus)
    outcomes = []
    for model in policies.MODELS:
        for window in (None, SMALL):
            with ProcessPoolExecutor(policies.WORKERS) as pool:
                held = list(pool.map(hold, paths, [model] * len(paths), [window] * len(paths)))
            outcomes += judged(held, model if window is None else f"{model} in {window:,} tokens")
    return outcomes


def judged(held: Sequence[Held], where: str) -> list[Outcome]:
    """The outcomes of sessions that were replayed with one model and window."""
    runs, found = [one.run for one in held], [one.found for one in held]
    requests = sum(len(run.prompts) for run in runs)
    refused = [failed.reason for run in runs for failed in run.refused]
    surprises = [
        f"{broke.cause} {broke.part}" for run in runs for broke in run.broken if not broke.expected
    ]
    altered = [one for each in found for one in each.altered]
    lost = [one for each in found for one in each.lost]
    undone, fetched = sum(each.undone for each in found), sum(each.fetched for each in found)
    ended = [one.run for one in held if one.run.full]
    return [
        _none(f"{where}: requests refused", refused, f"in {requests:,} requests"),
        _none(f"{where}: cache breaks nobody announced", surprises, f"in {requests:,} requests"),
        _none(f"{where}: prompts over the limit", ["" for one in held for _ in range(one.over)], ""),
        all_of(
            f"{where}: held to the end, or to a full window ({len(ended)}) with the next step named",
            sum(one.well_ended for one in held),
            len(held),
        ),
        _none(f"{where}: undone and redone otherwise than before", altered, f"in {undone:,} clearings"),
        _none(f"{where}: results that left and cannot be fetched", lost, f"in {fetched:,} results"),
    ]


def _none(name: str, found: Sequence[str], looked: str) -> Outcome:
    shown = f"{len(found)} {looked}".strip() + (f", first: {found[0]}" if found and found[0] else "")
    return Outcome(name, not found, shown, "none")


def money(corpus: Path | None) -> list[Outcome]:
    """What sessions cost under each clearing policy."""
    if corpus is None:
        return without_corpus(MONEY)
    outcomes = []
    for model in policies.MODELS:
        rows = policies.measure(corpus, model)
        for name, one in policies.total(rows.values()).items():
            figure = f"${one.usd:.2f}, {one.read_share:.1%} read, peak {one.peak:,}, {one.breaks} breaks"
            print(f"      {model}, {name}: {figure}", flush=True)
        outcomes += [
            Outcome(f"{model}: {name}", met, f"{figure:.4f}", bar)
            for (name, figure, met), bar in zip(
                policies.bars(rows), ("at most 0.01", "at most 1"), strict=True
            )
        ]
    return outcomes


def pauses(corpus: Path | None) -> list[Outcome]:
    """What clearing after a pause saves, compared with the forecast."""
    if corpus is None:
        return without_corpus(PAUSES)
    outcomes = []
    for model in policies.MODELS:
        paths = policies.sessions(corpus)
        with ProcessPoolExecutor(policies.WORKERS) as pool:
            found = [one for each in pool.map(_savings, paths, [model] * len(paths)) for one in each]
        worst = max((one.error for one in found), default=1.0)
        outcomes.append(
            at_most(
                f"{model}: saved by {len(found)} clearings after a pause, worst forecast", worst, MOST_ERROR
            )
        )
    return outcomes


def _savings(path: Path, model: str) -> list[Saving]:
    return savings(read(path), model)


def preparing(_: Path | None) -> list[Outcome]:
    """What preparing the next request costs, compared with peers."""
    table = prepare_cost.measure()
    return [
        Outcome(name, met, f"{figure:,.3g}", f"{'at least' if '/ ours' in name else 'at most'} {bar:g}")
        for name, figure, bar, met in prepare_cost.bars(table)
    ]


def stalling(_: Path | None) -> list[Outcome]:
    """How long a slow store holds up an event loop."""
    table = loop_stall.measure(QUICK_STALL_TURNS if is_quick() else loop_stall.TURNS)
    return [Outcome(bar.name, bar.met, bar.figure, bar.limit) for bar in loop_stall.bars(table)]


POINTS: list[Point] = [
    (HELD, sessions),
    (MONEY, money),
    (PAUSES, pauses),
    ("cost of getting a request ready", preparing),
    ("a slow store and an event loop", stalling),
]
