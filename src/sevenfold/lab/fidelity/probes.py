"""The facts in a stretch of records, as a bounded sample.

How many facts of a kind are looked for is limited, so that the check costs milliseconds however long the
conversation was; which ones follows from the records alone: what matters most first, and of equals the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from sevenfold.lab.fidelity import requests as asking
from sevenfold.lab.fidelity import work as working
from sevenfold.lab.fidelity.names import Names
from sevenfold.lab.fidelity.probe import (
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
from sevenfold.lab.fidelity.reader import Account, account
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
    told = account(items)
    chosen: list[Probe] = []
    left_out: dict[str, int] = {}
    by_kind: dict[str, dict[str, Probe]] = {kind: {} for kind in KINDS}
    for probe in _all(told, goes_on):
        by_kind[probe.kind].setdefault(probe.text, probe)
    for kind, found in by_kind.items():
        # Within a kind they come with what matters most at the end.
        chosen += list(found.values())[-MOST[kind] :]
        if len(found) > MOST[kind]:
            left_out[kind] = len(found) - MOST[kind]
    identifiers, beyond = _identifiers(told, by_kind[EDITED_FILE].values())
    if beyond:
        left_out[IDENTIFIER] = beyond
    return Sample((*chosen, *identifiers), left_out)


def _all(told: Account, goes_on: bool) -> Iterator[Probe]:
    yield from asking.messages(told)
    yield from asking.wishes(told)
    yield from asking.decisions(told)
    yield from working.pending_tasks(told)
    if not goes_on:
        yield from working.current_step(told)
    yield from working.edited_files(told)
    yield from working.errors(told)


def _identifiers(told: Account, edited: Iterable[Probe]) -> tuple[list[Probe], int]:
    """Exact names other than those of the changed files, and how many there are beyond the limit."""
    files = {way for probe in edited for way in (probe.text, *probe.accepts)}
    names = Names([*told.user, *told.refusals], told.model, told.calls)
    telling = [text for text in names.telling() if text not in files]
    chosen = telling[-MOST[IDENTIFIER] :]
    found = [(text, *names.newest(text)) for text in chosen]
    made = [Probe(IDENTIFIER, text, record, (known_as,), "exact") for text, record, known_as in found]
    return made, len(telling) - len(chosen)
