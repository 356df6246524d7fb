"""Where facts may be within reach once they have left the context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sevenfold.layers.compact.fidelity import Probe, judge
from sevenfold.recall.index import RecallIndex

MOST_HITS = 10
"""A fact is within reach if its record is among so many hits of recall."""

Reachable = Callable[[Probe], bool]


def by_recall(index: RecallIndex) -> Reachable:
    """Whatever recall finds."""

    def reachable(probe: Probe) -> bool:
        return probe.found_among(index.search(probe.text, kind=probe.sought, k=MOST_HITS, around=0))

    return reachable


def by_reading(probes: Iterable[Probe], texts: Sequence[str]) -> Reachable:
    """Whatever stands in texts the model may open, as if it knew where to look."""
    score = judge(probes, texts, nowhere)
    held = {one.probe for one in score.judged if one.state == "in_context"}
    return held.__contains__


def nowhere(probe: Probe) -> bool:
    """Nothing at all."""
    return False
