"""What recorded sessions would have cost under different policies for clearing old tool results.

    python bench/policies.py [FOLDER] [--window TOKENS]      default: ../shared/corpus

Every session of the folder is replayed, answer by answer and result by result, pauses included, with a simulated
provider that enforces the provider's rules and bills by its price list. Four policies:

    nothing       no result is ever cleared
    keep last 3   before each request all results but the newest three are cleared, as most engines do
    pauses only   results are cleared only when the cache has expired anyway
    planner       ours, with default settings

With the planner, no session may cost over 1% more than with "nothing", and in total it must be the cheapest policy.
``--window`` treats the model's window as that small: most sessions then do not fit without clearing, and only those
are compared that ran to their end under every policy.

    python bench/policies.py [FOLDER] --long [--drawn SEED]  long sessions, with compaction

``--long`` compares the planner with compaction at the threshold only, in windows of 100,000, 200,000 and 1,000,000
tokens, with synthetic sessions besides the recorded ones. In total it must cost at most 0.97 times as much; a planner
that never acts fails. At the threshold the order of the layers decides and not the price, so what that costs is only
reported. A session that was never cleared there may cost at most 1.03 times as much, and 1.10 times if it ends right
after a decision.
Notes and background compaction are off on both sides: they run in parallel to the session, and a replay takes no real
time in which they could run. ``--drawn`` uses random, previously unseen sessions instead.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from msgspec import Struct

from sevenfold.events import Acted, Answered
from sevenfold.layers.clear import policy
from sevenfold.record import blocks
from sevenfold.record.decisions import MicrocompactMetadata
from sevenfold.session.session import Session

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.replay.run import Hook, ReplayRun, replay  # noqa: E402
from sevenfold.lab.replay.recording import RecordedStep, Recording, read  # noqa: E402 - started as a script, the project's folder is not on the path

CORPUS = ROOT.parent / "shared" / "corpus"
MODELS = ("claude-opus-4-6", "claude-sonnet-5-5")
"""One model without bound thinking, and one with it."""
KEPT = 3
MOST_ABOVE = 0.01
"""The largest share by which a session may cost more than with the policy "nothing"."""
WORKERS = 2


class Policy(Struct, frozen=True):
    """A way of clearing: settings, or another engine's rule with our own layers switched off."""

    settings: Mapping[str, object]
    before: Hook | None = None


class Figures(Struct, frozen=True):
    """The cost and usage of one or more sessions under a policy."""

    usd: float
    prompt: int
    read: int
    peak: int
    breaks: int
    requests: int
    whole: bool = True

    @property
    def read_share(self) -> float:
        """The share of all prompt tokens that was read from the cache."""
        return self.read / max(1, self.prompt)


Row = dict[str, Figures]
"""The figures of a session, by policy."""


def keep_last(session: Session) -> None:
    """Clear all results but the newest three, regardless of the cost."""
    core = session.conversation
    clearable = core.clearable
    clearable.follow(core.transcript.view)
    targets = [held for held in clearable.results[:-KEPT] if held.place < clearable.answered]
    if not targets:
        return
    if core.profile.thinking.bound and core.transcript.view.weight.thoughts:
        # With bound thinking, the provider would refuse the request otherwise.
        core.open_epoch("clear", drops_thinking=True)
    else:
        core.announce("clear")
    core.transcript.clear(MicrocompactMetadata(compacted_tool_ids=[held.call for held in targets]))


POLICIES: Mapping[str, Policy] = {
    "nothing": Policy({"layers": False}),
    "keep last 3": Policy({"layers": False}, keep_last),
    "pauses only": Policy({"size_clearing": False, "provider_edits": False}),
    "planner": Policy({}),
}
NOTHING, OURS = "nothing", "planner"


def sessions(folder: Path) -> list[Path]:
    """Return the recorded sessions in a folder."""
    return [path for path in sorted(folder.rglob("*.jsonl")) if _is_session(path)]


def _is_session(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(100_000)
    return b'"parentUuid"' in head and b'"sessionId"' in head


def figures(run: ReplayRun) -> Figures:
    """Return the figures of a replay."""
    prompts = run.prompts
    return Figures(
        run.usd, sum(prompts), run.read, max(prompts, default=0), len(run.broken), len(prompts), run.whole
    )


def compared(recording: Recording, model: str, window: int | None = None) -> Row:
    """Replay one session under every policy."""
    small = {} if window is None else {"context_window": window}
    return {
        name: figures(replay(recording, model, settings={**policy.settings, **small}, before=policy.before))
        for name, policy in POLICIES.items()
    }


def total(rows: Iterable[Row]) -> Row:
    """Return the totals, by policy, over the sessions that ran to their end under every policy."""
    held = [row for row in rows if all(one.whole for one in row.values())]
    return {name: _sum([row[name] for row in held]) for name in POLICIES}


def _sum(found: Sequence[Figures]) -> Figures:
    return Figures(
        sum(one.usd for one in found),
        sum(one.prompt for one in found),
        sum(one.read for one in found),
        max((one.peak for one in found), default=0),
        sum(one.breaks for one in found),
        sum(one.requests for one in found),
    )


def worst(rows: Mapping[str, Row]) -> tuple[float, str]:
    """Return the largest share by which the planner costs more than "nothing", and the session's name."""
    both = {name: row for name, row in rows.items() if row[NOTHING].whole and row[OURS].whole}
    return max((row[OURS].usd / row[NOTHING].usd - 1, name) for name, row in both.items())


def measure(folder: Path = CORPUS, model: str = MODELS[0], window: int | None = None) -> dict[str, Row]:
    """Replay all sessions of a folder under every policy."""
    paths = sessions(folder)
    with ProcessPoolExecutor(WORKERS) as pool:
        rows = pool.map(_one, paths, [model] * len(paths), [window] * len(paths))
        return {path.stem: row for path, row in zip(paths, rows, strict=True)}


def _one(path: Path, model: str, window: int | None) -> Row:
    return compared(read(path), model, window)


def show(model: str, rows: Mapping[str, Row]) -> None:
    """Print the cost of each session, and the totals."""
    print(f"\n{model}\n{'session':14}{'requests':>9}" + "".join(f"{name:>13}" for name in POLICIES))
    for name, row in rows.items():
        cells = "".join(f"{_usd(one):>13}" for one in row.values())
        print(f"{name[:12]:14}{row[NOTHING].requests:>9}{cells}")
    print(f"\n{'in total':14}{'cost':>10}{'cache reads':>13}{'peak context':>14}{'breaks':>8}")
    for name, one in total(rows.values()).items():
        print(f"{name:14}${one.usd:>9.3f}{one.read_share:>13.2%}{one.peak:>14,}{one.breaks:>8}")


def _usd(found: Figures) -> str:
    return f"${found.usd:.3f}" if found.whole else "does not fit"


def bars(rows: Mapping[str, Row]) -> list[tuple[str, float, bool]]:
    """Return the acceptance bars: (name, figure, met)."""
    together = total(rows.values())
    others = min(one.usd for name, one in together.items() if name != OURS)
    above, name = worst(rows)
    return [
        (f"planner above nothing, at worst ({name[:12]})", above, above <= MOST_ABOVE),
        ("planner / cheapest other, in total", together[OURS].usd / others, together[OURS].usd <= others),
    ]


# -- long sessions ---------------------------------------------------------------------------------

WINDOWS = (100_000, 200_000, 1_000_000)
COMPACTS: Mapping[str, object] = {"compaction": True, "background_compaction": False, "notes": False}
THRESHOLD_ONLY: Mapping[str, object] = {
    **COMPACTS,
    "size_clearing": False,
    "gap_clearing": False,
    "provider_edits": False,
}
IN_ORDER = (policy.AT_THRESHOLD, policy.OVERDUE)
"""The reasons of clearings that are made although a compaction may cost less."""
MOST_TOTAL, MOST_EACH, MOST_EARLY = 0.97, 1.03, 1.10


class LongSession(Struct, frozen=True):
    """The cost of a session with the planner, and with compaction at the threshold only (the baseline)."""

    name: str
    model: str
    window: int
    usd: float
    baseline: float
    decisions: Mapping[str, int]
    early: float
    """The highest ratio of the planner's cost to the baseline's, each up to the request after a decision."""
    at_threshold: int
    """The number of clearings that took the place of a compaction."""

    @property
    def share(self) -> float:
        """The planner's cost over the baseline's."""
        return self.usd / self.baseline


def made(rounds: int, characters: int, pause_every: int) -> Recording:
    """Make a session of calls with results of this length, and a ten-minute pause every ``pause_every`` rounds."""
    pauses = [600 if number % pause_every == pause_every - 1 else 20 for number in range(rounds)]
    return recorded(f"made {rounds}x{characters}", [characters] * rounds, pauses)


def drawn(seed: int) -> Recording:
    """Make a random session of several phases, which differ in length, result size and frequency of pauses."""
    dice, sizes, pauses = random.Random(seed), list[int](), list[int]()
    for _ in range(dice.randint(1, 6)):
        usual, rests = dice.choice((500, 2_000, 6_000, 15_000, 40_000)), dice.choice((0.0, 0.02, 0.1, 0.3))
        for _ in range(dice.randint(10, 80)):
            sizes.append(int(usual * dice.lognormvariate(0, 0.7)))
            pauses.append(dice.choice((600, 5_000)) if dice.random() < rests else dice.randint(5, 60))
    return recorded(f"drawn {seed}", sizes, pauses)


def recorded(name: str, sizes: Sequence[int], pauses: Sequence[int]) -> Recording:
    """Make a session of calls from the characters of each result and the seconds before each answer."""
    steps, now = [], 1_000_000.0
    for number, (characters, pause) in enumerate(zip(sizes, pauses, strict=True)):
        now += pause
        results = (
            (blocks.result(f"toolu_{number - 1}", "a line of output\n" * (characters // 17)),)
            if number
            else ()
        )
        words = () if number else (blocks.text("Go through the files one by one."),)
        call = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": "Read",
            "input": {"path": f"f{number}.py"},
        }
        answer = ({"type": "text", "text": f"Next is f{number}.py."}, call)
        steps.append(RecordedStep(results, words, now, answer, now + 5))
    return Recording(name, tuple(steps))


MADE = ((120, 4_000, 30), (200, 8_000, 1_000), (80, 30_000, 15))
"""The shapes of the synthetic sessions: rounds, characters per result, and rounds between pauses."""
DRAWN = 12
"""The number of random sessions in a run."""


def held(recording: Recording, model: str, window: int) -> LongSession:
    """Replay one session with the planner and with the baseline."""
    both = [
        replay(recording, model, settings={**settings, "context_window": window})
        for settings in (COMPACTS, THRESHOLD_ONLY)
    ]
    ours, baseline = ({**_so_far(run)} for run in both)
    acted = both[0].events_of(Acted)
    early = [ours[step] / baseline[step] for step, _ in acted if step in ours and step in baseline]
    return LongSession(
        recording.name,
        model,
        window,
        both[0].usd,
        both[1].usd,
        Counter(f"{one.layer} {one.mechanism}" for _, one in acted),
        max(early, default=0.0),
        sum(one.layer == "clear" and one.why in IN_ORDER for _, one in acted),
    )


def _so_far(run: ReplayRun) -> dict[int, float]:
    spent, found = 0.0, {}
    for step, answer in run.events_of(Answered):
        spent += answer.usd or 0.0
        found[step] = spent
    return found


def long_sessions(folder: Path | None, seed: int | None = None) -> list[Recording]:
    """Return the synthetic sessions and those of a folder; with a seed, random ones instead."""
    if seed is not None:
        return [drawn(seed + number) for number in range(DRAWN)]
    return [*(made(*shape) for shape in MADE), *map(read, sessions(folder) if folder else ())]


def measure_long(recordings: Sequence[Recording], models: Sequence[str] = MODELS) -> list[LongSession]:
    """Replay all these sessions with every model in every window."""
    cases = [(one, model, window) for one in recordings for model in models for window in WINDOWS]
    with ProcessPoolExecutor(WORKERS) as pool:
        return list(pool.map(held, *zip(*cases, strict=True)))


def long_bars(rows: Sequence[LongSession]) -> list[tuple[str, float, bool]]:
    """Return the acceptance bars for long sessions: (name, figure, met)."""
    total_share = sum(row.usd for row in rows) / sum(row.baseline for row in rows)
    decisions = sum(sum(row.decisions.values()) for row in rows)
    by_price = [row for row in rows if not row.at_threshold]
    each = max((row.share for row in by_price), default=0.0)
    early = max((row.early for row in by_price), default=0.0)
    return [
        ("planner / compaction only, in total", total_share, total_share <= MOST_TOTAL),
        ("the same, in the worst session never cleared at the threshold", each, each <= MOST_EACH),
        ("the same, if it ends right after a decision", early, early <= MOST_EARLY),
        ("decisions", decisions, decisions > 0),
    ]


def long_order(rows: Sequence[LongSession]) -> str:
    """Say what it costs that results are cleared at the threshold before anything is summarised."""
    ordered = [row for row in rows if row.at_threshold]
    if not ordered:
        return "no session was cleared at the threshold"
    share = sum(row.usd for row in ordered) / sum(row.baseline for row in ordered)
    worst_row = max(ordered, key=lambda row: row.share)
    return (
        f"{len(ordered)} sessions were cleared at the threshold, {sum(row.at_threshold for row in ordered)} times: "
        f"{share:.4f} in total, at worst {worst_row.share:.4f} "
        f"({worst_row.name}, {worst_row.model}, {worst_row.window:,})"
    )


def show_long(rows: Sequence[LongSession]) -> None:
    """Print the cost of each session with the planner and with the baseline."""
    print(
        f"{'session':16}{'model':20}{'window':>10}{'planner':>10}{'baseline':>10}{'share':>7}{'early':>7}  decisions"
    )
    for row in rows:
        acted = ", ".join(f"{count} {what}" for what, count in row.decisions.items())
        cells = f"{row.window:>10,}{row.usd:>10.3f}{row.baseline:>10.3f}{row.share:>7.3f}{row.early:>7.3f}"
        print(f"{row.name[:14]:16}{row.model:20}{cells}  {acted}")


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return exit status 0 if all bars are met, 1 if not, 2 if there is no such folder."""
    parser = argparse.ArgumentParser(description="What recorded sessions cost under different policies.")
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--window", type=int, default=None, help="treat the window as this small")
    parser.add_argument("--model", action="append", help=f"default: {', '.join(MODELS)}")
    parser.add_argument("--long", action="store_true", help="long sessions, with compaction")
    parser.add_argument("--drawn", type=int, metavar="SEED", help="with --long: random sessions")
    options = parser.parse_args(arguments)
    if options.long:
        folder = options.folder if options.folder.is_dir() else None
        rows = measure_long(long_sessions(folder, options.drawn), options.model or MODELS)
        show_long(rows)
        print(long_order(rows))
        judged = long_bars(rows)
        for name, figure, held_true in judged:
            print(f"{'pass' if held_true else 'FAIL'}  {name}: {figure:.4f}")
        return 0 if all(held_true for *_, held_true in judged) else 1
    if not options.folder.is_dir():
        print(f"There is no folder {options.folder}: name one that holds transcripts.", file=sys.stderr)
        return 2
    met = True
    for model in options.model or MODELS:
        found = measure(options.folder, model, options.window)
        show(model, found)
        for name, figure, is_met in bars(found):
            print(f"{'pass' if is_met else 'FAIL'}  {name}: {figure:.4f}")
            met = met and is_met
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
