"""Opening a transcript from its end.

The view starts at the last compaction of the live branch, so reading goes back only to that boundary and
to the messages it kept. A boundary on an abandoned branch is recognised because the newest record does
not descend from it; then the boundary before is tried. Time and memory depend on what is in view, not on
the length of the session.
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
    """The size that one of our compactions was expected to leave, as estimated at the time."""

    tokens: int
    weight: Weight
    model: str


SizeReport = Measured | Epoch | Foreseen
"""What reading a log reveals about sizes: reported sizes, the frames they were reported for, and expected sizes."""


def resume(log: Log, reports: list[SizeReport] | None = None, unwritten: Sequence[Entry] = ()) -> View:
    """The view at the end of the log, including ``unwritten`` entries that are yet to be appended.

    Size reports found on the way are added to ``reports``.
    """
    for start in _starting_points(log):
        reports_here: list[SizeReport] = []
        view = fold(log, start, reports_here)
        for entry in unwritten:
            view.add(entry)
        if start == 0 or (view.boundary is not None and view.missing is None):
            break
    view.keeps_history = False
    if view.epoch is None and view.carry is not None and view.carry.epoch_offset is not None:
        # The epoch's record may precede the boundary; the carry says where it is.
        match next(read(log, view.carry.epoch_offset), None):
            case (_, Decision(record=Epoch() as epoch)):
                view.epoch = epoch
    if reports is not None:
        reports.extend(reports_here)
    return view


def fold(log: Log, start: int = 0, reports: list[SizeReport] | None = None, *, weighs: bool = True) -> View:
    """The view that results from folding the log from ``start`` on; ``weighs`` is that of `View`."""
    view = View(complete=start == 0, weighs=weighs)
    for position, entry in read(log, start):
        measured = view.add(entry, position)
        # While a compaction was undone, prompts contained more than is read here, so only their growth is meaningful.
        whole = view.missing is None or not view.undone
        if reports is not None and measured is not None and (whole or measured.previous is not None):
            reports.append(measured)
        if reports is not None and isinstance(entry, Decision):
            reports.extend(_expected(view, entry.record))
    return view


def _expected(view: View, decision: OwnDecision) -> Iterator[SizeReport]:
    match decision:
        case Epoch():
            yield decision
        case Commit(boundary=name) if name and name == view.boundary and view.epoch is not None:
            boundary = view.entry(name)
            if isinstance(boundary, Boundary) and boundary.about.post_tokens:
                yield Foreseen(boundary.about.post_tokens, view.weight, view.epoch.model)


def read(log: Log, start: int = 0) -> Iterator[tuple[int, Entry]]:
    """The log's entries from ``start`` on with their positions, plus user messages that only the queue recorded."""
    queue = Queue()
    for position, line in log.read(start):
        entry = entries.read(line) if line else Damaged("the line is too long to be read")
        yield from queue.due(position, entry)
        yield position, entry


def _starting_points(log: Log) -> Iterator[int]:
    """Positions from which reading may suffice, last first; finally the start of the log."""
    for position, boundary in log.boundaries():
        start = _start_of_view(log, boundary, position)
        if start == 0:
            break
        if start is not None:
            yield start
    yield 0


def _start_of_view(log: Log, boundary: Boundary, position: int) -> int | None:
    """Where the view of a boundary starts: there, or at the first message it kept; None if that is not found."""
    segment = boundary.about.preserved_segment
    if segment is None:
        return position
    for _, entry in read(log, position) if boundary.own else ():
        match entry:
            case Decision(record=Carry(boundary=boundary.uuid, segment_offset=int() as start)):
                return start
            case Decision(record=Commit()):
                break
    head = log.record(segment.head_uuid, position)
    return None if head is None else head[0]
