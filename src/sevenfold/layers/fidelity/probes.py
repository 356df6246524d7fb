"""The facts in a stretch of records, as a bounded sample.

How many facts of a kind are looked for is limited, so that the check costs milliseconds however long the
conversation was; which ones follows from the records alone: what matters most first, and of equals the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from sevenfold.layers.fidelity import asking, working
from sevenfold.layers.fidelity.names import names
from sevenfold.layers.fidelity.probe import (
    CORRECTION,
    CURRENT_STEP,
    DECISION,
    EDITED_FILE,
    ERROR,
    IDENTIFIER,
    KINDS,
    PENDING_TASK,
    PREFERENCE,
    USER_MESSAGE,
    Probe,
)
from sevenfold.layers.fidelity.reading import Account, account
from sevenfold.record.layout import Item

MOST = {
    USER_MESSAGE: 120,
    CORRECTION: 30,
    PREFERENCE: 30,
    DECISION: 30,
    PENDING_TASK: 30,
    CURRENT_STEP: 2,
    EDITED_FILE: 40,
    ERROR: 20,
    IDENTIFIER: 40,
}
"""Facts of each kind at most."""


class Sample(Struct, frozen=True):
    """Facts to look for, and how many of each kind there are beyond these."""

    probes: tuple[Probe, ...]
    left_out: dict[str, int] = {}


def probes(items: Iterable[Item], *, goes_on: bool = False) -> tuple[Probe, ...]:
    """The facts in the records a compaction hides, by kind.

    ``goes_on`` says that later rounds stay in view: then the last of these is not the present step.
    """
    return sample(items, goes_on=goes_on).probes


def sample(items: Iterable[Item], *, goes_on: bool = False) -> Sample:
    """The same with the number of facts of each kind that were left out."""
    chosen: list[Probe] = []
    left_out: dict[str, int] = {}
    by_kind: dict[str, dict[str, Probe]] = {kind: {} for kind in KINDS}
    for probe in _all(account(items), goes_on):
        by_kind[probe.kind].setdefault(probe.text, probe)
    for kind, found in by_kind.items():
        # Within a kind they come with what matters most at the end.
        kept: Sequence[Probe] = list(found.values())[-MOST[kind] :]
        chosen += kept
        if len(found) > len(kept):
            left_out[kind] = len(found) - len(kept)
    return Sample(tuple(chosen), left_out)


def _all(told: Account, goes_on: bool) -> Iterator[Probe]:
    yield from asking.messages(told)
    yield from asking.wishes(told)
    yield from asking.decisions(told)
    yield from working.pending_tasks(told)
    if not goes_on:
        yield from working.current_step(told)
    yield from working.edited_files(told)
    yield from working.errors(told)
    yield from _identifiers(told)


def _identifiers(told: Account) -> Iterator[Probe]:
    files = {way for probe in working.edited_files(told) for way in (probe.text, *probe.accepts)}
    found = names([*told.user, *told.refusals], told.model, told.calls)
    for name in sorted(found, key=lambda name: name.importance):
        if name.text not in files:
            *others, newest = name.records
            sought = tuple(sorted(name.known_as))
            yield Probe(IDENTIFIER, name.text, newest, sought, "exact", others=tuple(others))
