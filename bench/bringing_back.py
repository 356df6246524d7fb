"""How many of the facts that real compactions hid are in the context again once they are brought back.

    python -m bench.bringing_back FILE…

Each compaction is looked at as a hook sees it: the boundary is not on record yet, so everything said before counts as
leaving. The facts that are looked for come from `sevenfold.archive.fidelity`, which shares no code with what brings
them back: those that this compaction hid, and those that any compaction so far has hidden.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean

from sevenfold.archive import facts, search
from sevenfold.archive.audit import CompactionMoment, by_recall, compactions
from sevenfold.archive.fidelity import Probe, Score, judge, sample, texts
from sevenfold.conversation.resume import read
from sevenfold.ports import Log
from sevenfold.record.entries import Boundary, Link, Said
from sevenfold.record.layout import Item
from sevenfold.record.view import View

THREE_BLOCKS: dict[facts.Part, int] = dict.fromkeys(facts.PARTS, 9_500)
ONE_BLOCK = 8_000


def said_before(log: Log, boundary: str) -> list[Item]:
    """Everything on the live branch before a compaction, whatever earlier compactions hid."""
    view = View()
    for position, entry in read(log):
        match entry:
            case Boundary(uuid=uuid) if uuid == boundary:
                break
            case Boundary(uuid=uuid, logical_parent=parent):
                known = parent is not None and view.entry(parent) is not None
                view.add(Link(uuid, parent if known else view.tip), position)
            case Said(summary=True, uuid=uuid, parent=parent):
                view.add(Link(uuid, parent), position)
            case _:
                view.add(entry, position)
    return list(view.items)


def share(score: Score) -> float:
    states = [state for _, state in score.states]
    return 100 * states.count("in_context") / len(states) if states else 100.0


def measure(path: Path, show: bool) -> list[dict[str, float]]:
    rows = []
    with search.indexed(path) as (log, index):
        reachable = by_recall(index)
        for moment in compactions(log):
            before = said_before(log, moment.boundary.uuid)
            rows.append(measured(moment, before, reachable, show))
            print(path.stem[:12], " ".join(f"{name} {value:.1f}" for name, value in rows[-1].items()))
    return rows


def measured(
    moment: CompactionMoment, before: list[Item], reachable: Callable[[Probe], bool], show: bool
) -> dict[str, float]:
    kept = {item.record.uuid for item in moment.after}
    probes = sample(moment.hidden, later_rounds_visible=moment.later_rounds_visible).probes
    ever = [item for item in before if item.record.uuid not in kept]
    all_probes = sample(ever, later_rounds_visible=moment.later_rounds_visible).probes
    context = texts(moment.after)
    three = list(facts.parts(before, facts.StillSeen(), THREE_BLOCKS).values())
    rooms = {part: int(ONE_BLOCK * portion) for part, portion in facts.SHARES.items()}
    one = list(facts.parts(before, facts.StillSeen(), rooms).values())
    assert all(len(block) <= 9_500 for block in three), [len(block) for block in three]
    row = {
        "facts": float(len(probes)),
        "summary": share(judge(probes, context, reachable)),
        "three": share(judge(probes, [*context, *three], reachable)),
        "one": share(judge(probes, [*context, *one], reachable)),
        "ever": share(judge(all_probes, [*context, *three], reachable)),
    }
    if show:
        for probe, state in judge(all_probes, [*context, *three], reachable).states:
            if state != "in_context":
                print("    ", probe.kind, "|", " ".join(probe.text.split())[:150])
        print([len(block) for block in three])
    return row


def main() -> None:
    show = "--show" in sys.argv
    rows = []
    for name in sys.argv[1:]:
        if not name.startswith("--"):
            rows += measure(Path(name), show)
    for column in ("summary", "three", "one", "ever"):
        values = [row[column] for row in rows]
        print(f"{column}: {mean(values):.1f} on average, {min(values):.1f} in the worst of {len(values)}")


if __name__ == "__main__":
    main()
