"""Summaries that invent: how many lies are taken out of them, and how much of the truth?

    python bench/inventing.py [FOLDER]     default: ../shared/corpus beside the project

Lies in many styles and languages are told in a summary of every Claude session in the folder, at two points: those the
check was made by, and fresh ones nothing was made by. Then honest summaries are checked: the ones models wrote in these
sessions, and ones of made-up sessions.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sevenfold.lab.audit import compactions
from sevenfold.lab.retention.bad_models import PLAIN_LIES, VEILED_LIES
from sevenfold.lab.retention.catch_rate import (
    Caught,
    Removed,
    honest_removed,
    lies_caught,
    real_removed,
)
from sevenfold.lab.retention.honest import FRESH_HONEST, KNOWN_HONEST
from sevenfold.lab.retention.lies import FRESH_LIES, KNOWN_LIES
from sevenfold.lab.retention.trial import open_session
from sevenfold.layers.compact import fidelity
from sevenfold.stores.jsonl.log import JsonlLog

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.compaction import CORPUS, all_cuts, claude_files  # noqa: E402 - started as a script, the project's folder is not on the path


def catch(corpus: Path) -> dict[str, dict[str, Caught]]:
    """Lies told in a summary of every session at two points: those the check was made by, and fresh ones."""
    sets: dict[str, Mapping[str, Sequence[str]]] = {
        "lies the check was made by": {"in all": (*PLAIN_LIES, *VEILED_LIES), **KNOWN_LIES},
        "lies nothing was made by": FRESH_LIES,
    }
    found: dict[str, dict[str, Caught]] = {name: {} for name in sets}
    for cut in all_cuts(corpus, 2):
        session, _ = open_session(cut)
        with session:
            items = list(session.conversation.transcript.view.items)
        for name, lies in sets.items():
            for style, one in lies_caught(lies, items):
                caught = found[name].setdefault(style, Caught())
                caught.told += one.told
                caught.engine += one.engine
                caught.check += one.check
    return found


def spare(corpus: Path) -> dict[str, Removed]:
    """What is taken out of honest summaries: those models wrote in real sessions, and ones of made-up sessions."""
    real = Removed()
    for path in claude_files(corpus):
        for compaction in compactions(JsonlLog(path)):
            for text in fidelity.texts(compaction.summary):
                real_removed(text, compaction.before, real)
    return {
        "summaries models wrote in real sessions": real,
        "made-up sessions the check was made by": honest_removed(KNOWN_HONEST),
        "made-up sessions nothing was made by": honest_removed(FRESH_HONEST),
    }


def show_check(corpus: Path) -> None:
    """Print how well the check of summaries tells lies from the truth."""
    for name, styles in catch(corpus).items():
        told, engine = (sum(getattr(one, part) for one in styles.values()) for part in ("told", "engine"))
        print(f"      {name}: {engine} of {told} taken out")
        print(*(f"        {style}: {caught}" for style, caught in styles.items()), sep="\n")
    for name, removed in spare(corpus).items():
        print(f"      {name}: {removed}")


def main(arguments: Sequence[str]) -> int:
    """Measure all of it."""
    folder = Path(arguments[0]) if arguments else CORPUS
    if folder.is_dir():
        show_check(folder)
    else:
        print(f"no transcripts in {folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
