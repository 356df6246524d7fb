"""The cost of memory: replays recorded sessions with extraction and dreams, and prints their share of the bill.

    python bench/memory_cost.py FOLDER_OF_TRANSCRIPTS [MODEL]

The model's answers are the recorded ones; requests for lasting facts are answered by fixed rules. Tokens and dollars
are the simulator's. The exit status is 1 if the median share is over 3%, the largest over 8%, that of any
session above a dollar over 3%, or a request waits. Sessions with fewer than ten requests are left out, because a share
of a tiny bill says little. A dream normally needs five other sessions; here every session with enough entries pays for
one a day by itself, five times as often.
"""

from __future__ import annotations

import argparse
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

from sevenfold.events import Answered, Event
from sevenfold.layers.dream import layer as dreams
from sevenfold.layers.remember.reports import SOURCE

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.policies import sessions  # noqa: E402 - started as a script, the project's folder is not on the path
from bench.replay.run import replay  # noqa: E402
from sevenfold.lab.replay.recording import read  # noqa: E402

MODEL = "claude-sonnet-5-5"
MEDIAN, WORST = 0.03, 0.08
LARGE, LARGEST_SHARE = 1.0, 0.03
"""The bill in dollars from which a share counts by itself, and the most it may be."""
FEWEST = 10
WORKERS = 2
SETTINGS = {"extraction": True, "dream": True, "compaction": True, "memory_daily_budget": None}
OWN = (SOURCE, dreams.SOURCE)
dreams.SESSIONS = 0


class Share(NamedTuple):
    """The cost of one session, and the part of it spent on memory."""

    name: str
    requests: int
    usd: float
    asked: int
    """How often the model was asked to extract facts, or to name entries to consolidate."""
    memory_usd: float
    waited: int
    """How often the conversation waited for such a request."""
    dreams: int

    @property
    def part(self) -> float:
        """The share of the bill spent on memory."""
        return self.memory_usd / self.usd if self.usd else 0.0


def measure(path: Path, model: str = MODEL) -> Share:
    """Replay one session."""
    waited: list[Event] = []

    def listen(_: int, event: Event) -> None:
        if isinstance(event, Answered) and event.source in OWN:
            waited.extend([event] if threading.current_thread() is threading.main_thread() else [])

    run = replay(read(path), model, settings=SETTINGS, listen=listen)
    answers = [answer for _, answer in run.events_of(Answered)]
    memory = [answer for answer in answers if answer.source in OWN]
    dreamt = sum(answer.source == dreams.SOURCE for answer in memory)
    usd = [sum(answer.usd or 0.0 for answer in found) for found in (answers, memory)]
    return Share(path.stem, len(answers) - len(memory), usd[0], len(memory), usd[1], len(waited), dreamt)


def main() -> int:
    """Print the share of every session; return exit status 0 if all bars are met, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="with recorded sessions, at any depth")
    parser.add_argument("model", nargs="?", default=MODEL)
    options = parser.parse_args()
    model = options.model
    paths = sessions(options.folder)
    with ProcessPoolExecutor(WORKERS) as pool:
        found = [one for one in pool.map(measure, paths, [model] * len(paths)) if one.requests >= FEWEST]
    print(
        f"{model}\n{'session':14}{'requests':>9}{'bill':>10}{'asked':>7}{'dreams':>8}{'memory':>10}{'share':>8}"
    )
    for one in sorted(found, key=lambda one: -one.part):
        print(
            f"{one.name[:12]:14}{one.requests:>9}{one.usd:>10.3f}{one.asked:>7}{one.dreams:>8}"
            f"{one.memory_usd:>10.3f}{one.part:>8.1%}"
        )
    middle, most = median(one.part for one in found), max(one.part for one in found)
    waited = sum(one.waited for one in found)
    whole = sum(one.memory_usd for one in found) / sum(one.usd for one in found)
    print(
        f"\n{len(found)} sessions: median {middle:.1%} (at most {MEDIAN:.0%}), largest {most:.1%} (at most {WORST:.0%})"
    )
    print(f"of all bills together {whole:.1%}; requests that had to wait: {waited} (0)")
    above = max((one.part for one in found if one.usd > LARGE), default=0.0)
    print(f"largest of those above ${LARGE:.0f}: {above:.1%} (at most {LARGEST_SHARE:.0%})")
    met = middle <= MEDIAN and most <= WORST and above <= LARGEST_SHARE
    return 0 if met and not waited else 1


if __name__ == "__main__":
    sys.exit(main())
