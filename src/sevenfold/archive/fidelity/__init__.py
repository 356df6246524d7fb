"""Checks what a compaction lost, by code that shares no parsing of records with the code that writes summaries.

    reader      who said what in the records a compaction hides
    sentences   words, sentences, the patterns that find facts, and how two texts are compared
    facts       what to look for: corrections, preferences, decisions; files changed, failures, open tasks, the step
    probes      all of these, and exact identifiers, as a bounded sample of facts to look for
    judge       each fact: in context, reachable, or lost

Usage::

    facts = probes(hidden_items)
    score = judge(facts, texts(new_items), reachable)       # reachable: whether recall finds a fact

    def reachable(probe: Probe) -> bool:
        return probe.found_among(index.search(probe.text, kind=probe.sought, k=10, around=0, weak=True))

Everything here is a pure function of its arguments: the same records give the same probes and the same score.
"""

from sevenfold.archive.fidelity.facts import KINDS, Probe
from sevenfold.archive.fidelity.judge import Score, judge
from sevenfold.archive.fidelity.probes import Sample, probes, sample
from sevenfold.archive.fidelity.reader import texts
from sevenfold.record.coverage import Count

__all__ = ["KINDS", "Count", "Probe", "Sample", "Score", "judge", "probes", "sample", "texts"]
