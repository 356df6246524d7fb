"""Compaction: check whether it loses, invents or breaks anything, and measure the remaining size and the cost.

    python bench/compaction.py [FOLDER] [--points 5]     default: ../shared/corpus next to the project

Every Claude session in the folder is opened as it was before some of its calls, spread evenly, and compacted: by
code alone, and with models that each summarise badly in their own way. Code independent of the summarisers then
searches for the facts in the next context and by recall: by a fact's own words, and by a question. Also measured: ten
compactions in a row, the time for 1 MB, and what the engines ask of a model, with the simulated provider. The exit
status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from sevenfold.errors import Refused
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.layers.compact.check import HEADING
from sevenfold.layers.compact.compaction import Compacted, EngineName
from sevenfold.layers.compact.offline import summarise, take_notes
from sevenfold.record import entries
from sevenfold.session.session import Session

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.peers import sessions  # noqa: E402 - started as a script, the project's folder is not on the path
from bench.points.recount import kind_of  # noqa: E402
from bench.replay.run import ReplayProvider  # noqa: E402
from bench.trials import chain  # noqa: E402
from bench.trials.bad_models import FAILURES, HABITS, Habit, Misleading  # noqa: E402
from bench.trials.cut import Cut, cuts  # noqa: E402
from bench.trials.trial import ALONE, MODEL, SYSTEM, Accepted, Trial, run_trial, send, tool_named  # noqa: E402

CORPUS = ROOT.parent / "shared" / "corpus"
POINTS = 5
LINKS = 10
MOST_MILLISECONDS = 300
MEGABYTE = 1_000_000
BYTES_A_MESSAGE = 3_150
CACHED = 0.95
IN_CONTEXT = 0.96
BY_CODE, BADLY, NOT_AT_ALL, BY_PROVIDER = (
    "by code alone",
    "by a model that summarises badly",
    "by a model that does not summarise",
    "by a provider that summarises badly",
)
Bar = tuple[str, str, str, bool]
"""The name of a measurement, its figure, the required value, and whether it is met."""


# Real sessions


class Tally(Struct):
    """The totals over all compactions of one sort."""

    trials: int = 0
    in_context: int = 0
    reachable: int = 0
    by_question: int = 0
    lost: int = 0
    repaired: int = 0
    """Summaries to which lost facts had to be appended."""
    invented: list[str] = field(default_factory=list)
    refused: int = 0
    moved: int = 0
    forgotten: int = 0
    """Sessions that show something else after reopening."""
    shares: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    """Why more than a quarter of the context remained, and how often."""

    def add(self, trial: Trial) -> None:
        """Add the result of one compaction."""
        total = trial.score.total
        self.trials += 1
        self.in_context += total.in_context
        self.reachable += total.reachable
        self.by_question += trial.by_question
        self.lost += total.lost
        self.repaired += HEADING in trial.summary
        self.invented += trial.invented
        self.refused += bool(trial.refused)
        self.moved += trial.moved
        self.forgotten += not trial.reopened
        self.shares.append(trial.share)
        if trial.why_large:
            self.reasons[trial.why_large] += 1

    def bars(self, sort: str) -> Iterator[Bar]:
        """Yield the acceptance bars for these compactions."""
        facts = f"{self.in_context:,} in context, {self.reachable:,} by recall"
        facts += f", by its own words; {self.by_question:,} by a question"
        yield f"{sort}: facts lost", f"{self.lost} ({facts})", "0", self.lost == 0 < self.trials
        share = self.in_context / max(1, self.in_context + self.reachable + self.lost)
        figure = f"{share:.1%}, {self.repaired} repaired"
        met = share >= IN_CONTEXT and not self.repaired
        yield f"{sort}: facts in context before any repair", figure, f"at least {IN_CONTEXT:.0%}", met
        yield f"{sort}: planted claims without a mark", str(len(self.invented)), "0", not self.invented
        broken = self.refused + self.moved + self.forgotten
        yield f"{sort}: next request refused, moved or not found again", str(broken), "0", broken == 0
        reasons = ", ".join(f"{times} for {why}" for why, times in self.reasons.most_common())
        small = sum(share <= 0.25 for share in self.shares)
        figure = f"{small} of {self.trials} at most 25%" + (f", {reasons}" if reasons else "")
        yield f"{sort}: what is left", figure, "25%, or a reason", not self.reasons["?"]


def jobs(place: int) -> Iterator[tuple[str, EngineName, Habit | None]]:
    """Yield the ways to compact a session at one point: sort, engine and the model's habit."""
    engines: tuple[EngineName, EngineName] = ("fork", "plain")
    yield BY_CODE, "extractive", None
    for number, habit in enumerate(HABITS.values()):
        yield BADLY, engines[(place + number) % 2], habit
    yield NOT_AT_ALL, engines[place % 2], [*FAILURES.values()][place % len(FAILURES)]
    yield BY_PROVIDER, "provider", [*HABITS.values()][place % len(HABITS)]


def compact_all(corpus: Path, points: int = POINTS, most: int | None = None) -> dict[str, Tally]:
    """Compact every session at this many points, in all ways; skip cuts with nothing to compact."""
    tallies: dict[str, Tally] = {}
    for place, cut in enumerate(all_cuts(corpus, points)[:most]):
        for sort, engine, habit in jobs(place):
            try:
                trial = run_trial(cut, engine, client=Misleading(habit) if habit else None)
            except Refused:
                break
            tallies.setdefault(sort, Tally()).add(trial)
    return tallies


def send_some(corpus: Path, most: int | None = None) -> list[Accepted]:
    """Compact each session once and send its next request to the simulated provider."""
    return [send(cut) for cut in all_cuts(corpus, 1)[:most]]


def all_cuts(corpus: Path, points: int) -> list[Cut]:
    """Return every session, cut before this many of its calls."""
    return [cut for path in claude_files(corpus) for cut in cuts(path, points)]


def claude_files(corpus: Path) -> list[Path]:
    """Return the Claude sessions in a folder."""
    return [path for path in sorted(corpus.rglob("*.jsonl")) if kind_of(path) == "claude"]


def sent_bars(sent: Sequence[Accepted]) -> list[Bar]:
    """Return the acceptance bars for the requests that were sent."""
    good = sum(one.holds for one in sent)
    name = "after it the request is taken, system and tools read from the cache"
    return [(name, f"{good} of {len(sent)}", "all", good == len(sent) > 0)]


# Repeated compactions


def chained(links: int = LINKS, rounds: int = 12) -> dict[str, list[chain.ChainLink]]:
    """Run compactions in a row: by code alone, by a model that forgets half, and by one that invents."""
    models = {"by a forgetful model": "forgets half", "by a model that invents": "invents requests"}
    return {
        "by code alone": chain.run(links, model=MODEL, rounds=rounds),
        **{
            sort: chain.run(links, "fork", client=Misleading(HABITS[habit]), model=MODEL, rounds=rounds)
            for sort, habit in models.items()
        },
    }


def chain_bars(chains: Mapping[str, Sequence[chain.ChainLink]]) -> Iterator[Bar]:
    """Yield the acceptance bars for repeated compactions."""
    for sort, links in chains.items():
        head, last = f"{len(links)} in a row, {sort}", links[-1].score.total
        lost = sum(link.score.total.lost for link in links)
        facts = f"{last.in_context:,} in context, {last.reachable:,} by recall"
        yield f"{head}: facts lost", f"{lost} (at the end {facts})", "0", lost == 0
        changed = sum(len(link.drifted) + len(link.dangling) + len(link.invented) for link in links)
        yield (
            f"{head}: entries that changed, records not found by their short ids",
            str(changed),
            "0",
            not changed,
        )
        sizes = [link.after for link in links]
        bound = max(sizes[len(sizes) // 2 :]) / max(sizes[: len(sizes) // 2])
        yield (
            f"{head}: largest of the second half, x the first half",
            f"{bound:.2f}",
            "at most 1.5",
            bound <= 1.5,
        )


# Time


def timed(runs: int = 5, size: int = MEGABYTE) -> dict[str, float]:
    """Return the CPU milliseconds to compact a conversation of that size by code alone, and to decode its records.

    Compaction is timed with recall's index up to date (the default), and with recall having to read everything first.
    """
    spent: dict[str, list[float]] = {"followed": [], "unread": [], "decode": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "session.jsonl")
        sessions.write(path, size // BYTES_A_MESSAGE)
        said = [_bare(message) for message in sessions.Session(path, size // BYTES_A_MESSAGE).all]
        for run in range(2 * runs):
            name, file = ("followed", "unread")[run % 2], Path(folder, f"{run}.jsonl")
            settings = {**ALONE, "recall_ahead": name == "followed"}
            with Session.open("bench", model=MODEL, file=file, folder=folder, settings=settings) as session:
                session.messages(said)
                session.settle(60)
                lines = [line for _, line in session.conversation.transcript.log.read()]
                spent[name].append(_cpu(partial(session.compact, engine="extractive")))
            spent["decode"].append(_cpu(partial(list, map(entries.read, lines))))
    return {"mb": sum(map(len, lines)) / MEGABYTE, **{name: min(times) for name, times in spent.items()}}


def _bare(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": message["role"], "content": message["content"]}


def _cpu(work: Any) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def time_bars(found: Mapping[str, float]) -> list[Bar]:
    """Return the acceptance bars for the time."""
    figure = (
        f"{found['followed']:.0f} ms for {found['mb']:.1f} MB, {found['unread']:.0f} ms if recall must read it first, "
        f"decoding its records {found['decode']:.1f} ms"
    )
    bar = f"at most {MOST_MILLISECONDS} ms either way"
    met = max(found["followed"], found["unread"]) <= MOST_MILLISECONDS
    return [("compacting 1 MB by code alone, CPU", figure, bar, met)]


# Cost in model calls


class Cost(Struct, frozen=True):
    """The model calls that a compaction made."""

    engine: EngineName
    calls: int
    cached: float
    """The share of its prompt that was read from the cache."""


def costs(turns: int = 12) -> dict[EngineName, Cost]:
    """Run a working session with the simulated provider and compact it, once for each engine."""
    wanted: tuple[EngineName, ...] = ("fork", "notes", "extractive")
    return {engine: _cost(engine, turns) for engine in wanted}


def _cost(engine: EngineName, turns: int) -> Cost:
    provider, numbers = ReplayProvider(), cycle(range(10_000))

    def reply(prompt: ModelPrompt) -> Any:
        if "<analysis>" in prompt.last_text and "<summary>" in prompt.last_text:
            return summarise({"messages": prompt.messages})
        if "session notes below" in prompt.last_text:
            return take_notes({"messages": prompt.messages})
        number = next(numbers)
        given = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "Read",
            "input": {"path": f"{number}.py"},
        }
        return [{"type": "text", "text": f"Reading part {number}."}, given]

    provider.simulator.brain = ScriptedBrain(reply)
    done = _held(provider, engine, turns)
    usage = done.usage
    cached = usage.cache_read_input_tokens / max(1, usage.prompt) if usage else 0.0
    return Cost(done.engine, done.calls, cached)


def _held(provider: ReplayProvider, engine: EngineName, turns: int) -> Compacted:
    with (
        provider.client(socket=True) as client,
        Session.in_memory(
            model=MODEL,
            client=client,
            clock=provider.clock,
            system=SYSTEM,
            tools=[tool_named("Read")],
            settings={**ALONE, "notes": engine == "notes"},
        ) as session,
    ):
        session.user("Please read all parts, and never change config/prod.yaml; the port is 8443.")
        for turn in range(turns):
            answer = session.complete()
            provider.clock.advance(10)
            words = "".join(f"line {line} of part {turn}: nothing of note\n" for line in range(300))
            session.tool_results({call.id: words for call in answer.calls})
        if engine == "notes":
            session.settle(10)
        done = session.compact(engine=engine)
        assert done is not None, "no listener is there to refuse a compaction"
        return done


def cost_bars(found: Mapping[EngineName, Cost]) -> Iterator[Bar]:
    """Yield the acceptance bars for the cost."""
    fork = found["fork"]
    met = fork.engine == "fork" and fork.cached >= CACHED
    yield "a fork's prompt read from the cache", f"{fork.cached:.1%}", f"at least {CACHED:.0%}", met
    for engine in ("notes", "extractive"):
        cost = found[engine]
        yield (
            f"model calls of a compaction by {engine}",
            str(cost.calls),
            "0",
            (cost.engine, cost.calls) == (engine, 0),
        )


# All of it


def show(bars: Sequence[Bar]) -> bool:
    """Print the bars; return whether all are met."""
    for name, figure, asked, met in bars:
        print(f"{'ok  ' if met else 'MISS'}  {name}: {figure}  ({asked})", flush=True)
    return all(met for *_, met in bars)


def main(arguments: Sequence[str]) -> int:
    """Measure everything and print it; return exit status 0 if all bars are met, else 1."""
    parser = argparse.ArgumentParser(description="What compactions keep, break and cost.")
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--points", type=int, default=POINTS, help="points at which a session is compacted")
    options = parser.parse_args(arguments)
    met = [
        show(list(chain_bars(chained()))),
        show(time_bars(timed())),
        show(list(cost_bars(costs()))),
    ]
    if options.folder.is_dir():
        for sort, tally in compact_all(options.folder, options.points).items():
            print(f"\n{tally.trials} compactions {sort}: share left {_spread(tally.shares)}")
            met.append(show(list(tally.bars(sort))))
            print(*(f"      {one[:150]}" for one in dict.fromkeys(tally.invented)), sep="\n")
        met.append(show(sent_bars(send_some(options.folder))))
    else:
        print(f"no transcripts in {options.folder}: real sessions were not compacted")
    return 0 if all(met) else 1


def _spread(shares: Sequence[float]) -> str:
    ordered = sorted(shares)
    return f"{ordered[0]:.0%} to {ordered[-1]:.0%}, half of them at most {ordered[len(ordered) // 2]:.0%}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
