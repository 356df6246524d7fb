"""Opening a transcript from its end.

What the model sees now begins at the last compaction of the live branch, so that is how far back reading
goes: from the end of the file to that boundary, and to the messages it kept. A boundary on a branch that
was given up is recognised because the way from the newest record does not lead to it; then the one before
is tried. Time and memory depend on what is in view, not on how long the session has been running.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from sevenfold.ports import Log
from sevenfold.record import entries
from sevenfold.record.authorship import Queue
from sevenfold.record.decisions import Carry, Commit, Epoch, OwnDecision
from sevenfold.record.entries import Boundary, Damaged, Decision, Entry
from sevenfold.record.layout import Measured
from sevenfold.record.view import View
from sevenfold.record.weight import Weight


class Foreseen(Struct, frozen=True):
    """What a compaction of ours was expected to leave, by all that was known of sizes then."""

    tokens: int
    weight: Weight
    model: str


SizeReport = Measured | Epoch | Foreseen
"""What a reader learns about sizes: reports, what preceded the messages when they were made, and expectations."""


def resume(log: Log, reports: list[SizeReport] | None = None, unwritten: Sequence[Entry] = ()) -> View:
    """The view at the end of the log, and of what is about to be written to it.

    ``reports`` is filled with what was learnt about sizes on the way.
    """
    for start in _starting_points(log):
        found: list[SizeReport] = []
        view = fold(log, start, found)
        for entry in unwritten:
            view.add(entry)
        if start == 0 or (view.boundary is not None and view.missing is None):
            break
    view.keeps_history = False
    if view.epoch is None and view.carry is not None and view.carry.epoch_offset is not None:
        # The epoch's record may come before the boundary: the carry says where.
        match next(read(log, view.carry.epoch_offset), None):
            case (_, Decision(made=Epoch() as epoch)):
                view.epoch = epoch
    if reports is not None:
        reports.extend(found)
    return view


def fold(log: Log, start: int = 0, reports: list[SizeReport] | None = None) -> View:
    """The view that results from reading the log from ``start`` on."""
    view = View(complete=start == 0)
    for position, entry in read(log, start):
        measured = view.add(entry, position)
        # While a compaction was undone, prompts held more than what is read here: only their growth tells something.
        whole = view.missing is None or not view.undone
        if reports is not None and measured is not None and (whole or measured.before is not None):
            reports.append(measured)
        if reports is not None and isinstance(entry, Decision):
            reports.extend(_expected(view, entry.made))
    return view


def _expected(view: View, made: OwnDecision) -> Iterator[SizeReport]:
    match made:
        case Epoch():
            yield made
        case Commit(boundary=name) if name and name == view.boundary and view.epoch is not None:
            left = view.entry(name)
            if isinstance(left, Boundary) and left.about.post_tokens:
                yield Foreseen(left.about.post_tokens, view.weight, view.epoch.model)


def read(log: Log, start: int = 0) -> Iterator[tuple[int, Entry]]:
    """The entries of the log from ``start`` on, each with its position, and what users said in a queue alone."""
    queue = Queue()
    for position, line in log.read(start):
        entry = entries.read(line) if line else Damaged("the line is too long to be read")
        yield from queue.due(position, entry)
        yield position, entry


def _starting_points(log: Log) -> Iterator[int]:
    """Positions from which reading may suffice, the last first; in the end the beginning."""
    for position, boundary in log.boundaries():
        start = _start_of_view(log, boundary, position)
        if start == 0:
            break
        if start is not None:
            yield start
    yield 0


def _start_of_view(log: Log, boundary: Boundary, position: int) -> int | None:
    """Where the view begins that a boundary opens: there, or at the first of the messages it keeps."""
    segment = boundary.about.preserved_segment
    if segment is None:
        return position
    for _, entry in read(log, position) if boundary.own else ():
        match entry:
            case Decision(made=Carry(boundary=boundary.uuid, segment_offset=int() as start)):
                return start
            case Decision(made=Commit()):
                break
    head = log.record(segment.head_uuid, position)
    return None if head is None else head[0]
