"""What recorded sessions would have cost under different ways of clearing old tool results.

    python bench/policies.py [FOLDER] [--window TOKENS]      default: ../shared/corpus

Every session of the folder is held once more, answer by answer and result by result, pauses included, with a
simulated provider that enforces its rules and bills by its price list. Four policies:

    nothing       every result is sent for ever
    keep last 3   before each request all results but the newest three are cleared, as most engines do it
    pauses only   results are cleared when the cache has expired anyway, never in between
    planner       ours, as it comes

A session may not cost more than 1% above doing nothing, and in total the planner has to be the cheapest. With
``--window`` the model is treated as if its window were that small: then most sessions do not fit without
clearing, and only those are compared that every policy could hold to their end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from msgspec import Struct

from sevenfold.lab.replay.recording import Recording, read
from sevenfold.lab.replay.run import Hook, ReplayRun, replay
from sevenfold.record.decisions import MicrocompactMetadata
from sevenfold.session.session import Session

CORPUS = Path(__file__).resolve().parent.parent.parent / "shared" / "corpus"
MODELS = ("claude-opus-4-6", "claude-sonnet-5-5")
"""One whose reasoning is not bound to what precedes it, and one whose reasoning is."""
KEPT = 3
MOST_ABOVE = 0.01
"""By how much a session may cost more than with nothing done."""
WORKERS = 2


class Policy(Struct, frozen=True):
    """A way of clearing: settings, or somebody else's rule with the engine's own layers switched off."""

    settings: Mapping[str, object]
    before: Hook | None = None


class Figures(Struct, frozen=True):
    """What a session, or several, came to under a policy."""

    usd: float
    prompt: int
    read: int
    peak: int
    breaks: int
    requests: int
    whole: bool = True

    @property
    def read_share(self) -> float:
        """Of all tokens sent, those read from the cache."""
        return self.read / max(1, self.prompt)


Row = dict[str, Figures]
"""By policy."""


def keep_last(session: Session) -> None:
    """Clear all results but the newest three, whatever that costs."""
    core = session.conversation
    stock = core.stock
    stock.follow(core.transcript.view)
    targets = [held for held in stock.results[:-KEPT] if held.place < stock.answered]
    if not targets:
        return
    if core.profile.thinking.bound and core.transcript.view.weight.thoughts:
        # A provider that binds reasoning to what precedes it would refuse the request otherwise.
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
    """The recorded sessions in a folder."""
    return [path for path in sorted(folder.rglob("*.jsonl")) if _is_session(path)]


def _is_session(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(100_000)
    return b'"parentUuid"' in head and b'"sessionId"' in head


def figures(run: ReplayRun) -> Figures:
    """What a replay came to."""
    prompts = run.prompts
    return Figures(
        run.usd, sum(prompts), run.read, max(prompts, default=0), len(run.broken), len(prompts), run.whole
    )


def compared(recording: Recording, model: str, window: int | None = None) -> Row:
    """One session under every policy."""
    small = {} if window is None else {"context_window": window}
    return {
        name: figures(replay(recording, model, settings={**policy.settings, **small}, before=policy.before))
        for name, policy in POLICIES.items()
    }


def total(rows: Iterable[Row]) -> Row:
    """All sessions that every policy could hold to their end, together."""
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
    """By what share the planner costs more than nothing, in the session where that is most, and which."""
    both = {name: row for name, row in rows.items() if row[NOTHING].whole and row[OURS].whole}
    return max((row[OURS].usd / row[NOTHING].usd - 1, name) for name, row in both.items())


def measure(folder: Path = CORPUS, model: str = MODELS[0], window: int | None = None) -> dict[str, Row]:
    """All sessions of a folder under every policy."""
    paths = sessions(folder)
    with ProcessPoolExecutor(WORKERS) as pool:
        rows = pool.map(_one, paths, [model] * len(paths), [window] * len(paths))
        return {path.stem: row for path, row in zip(paths, rows, strict=True)}


def _one(path: Path, model: str, window: int | None) -> Row:
    return compared(read(path), model, window)


def show(model: str, rows: Mapping[str, Row]) -> None:
    """Print what each session cost, and all of them together."""
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
    """What must hold: (name, figure, met)."""
    together = total(rows.values())
    others = min(one.usd for name, one in together.items() if name != OURS)
    above, name = worst(rows)
    return [
        (f"planner above nothing, at worst ({name[:12]})", above, above <= MOST_ABOVE),
        ("planner / cheapest other, in total", together[OURS].usd / others, together[OURS].usd <= others),
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and say by the exit status whether all bars are met."""
    parser = argparse.ArgumentParser(description="What recorded sessions cost under different policies.")
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--window", type=int, default=None, help="treat the window as this small")
    parser.add_argument("--model", action="append", help=f"default: {', '.join(MODELS)}")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        print(f"There is no folder {options.folder}: name one that holds transcripts.", file=sys.stderr)
        return 2
    met = True
    for model in options.model or MODELS:
        rows = measure(options.folder, model, options.window)
        show(model, rows)
        for name, figure, held in bars(rows):
            print(f"{'pass' if held else 'FAIL'}  {name}: {figure:.4f}")
            met = met and held
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
