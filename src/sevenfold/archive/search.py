"""The recall index of a recorded session, of any tool, whose files are only read.

An index next to the transcript is used and brought up to date in memory; without one, an index is built in memory. So
any transcript can be searched, even one that is being written or comes from another tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sevenfold.archive.formats import not_a_conversation, open_log
from sevenfold.conversation.resume import resume
from sevenfold.ports import Log
from sevenfold.recall.index import RecallIndex
from sevenfold.recall.search import Hit
from sevenfold.stores.home import SessionFiles, side_file
from sevenfold.stores.jsonl.store import FileResults
from sevenfold.stores.log import LineLog

Step = Callable[[int], None]
"""Called with how many bytes of the transcript have been indexed."""


@contextmanager
def indexed(path: Path, step: Step | None = None) -> Iterator[tuple[LineLog, RecallIndex]]:
    """The log of a transcript and an up-to-date index; raises `TranscriptForeign` if it holds no conversation."""
    log = open_log(path)
    stored = FileResults(SessionFiles(path.parent, path.stem).results)
    with closing(open_index(path, log, stored, step=step)) as index:
        if not index.status().records:
            raise not_a_conversation(path)
        yield log, index


def open_index(
    path: Path, log: LineLog, results: FileResults, since: int = 0, step: Step | None = None
) -> RecallIndex:
    """An up-to-date index of a transcript from position ``since`` on; nothing is written to disk."""
    index = RecallIndex.for_reading(log, side_file(path), fetch=results.fetch, since=since)
    index.catch_up(step)
    return index


def visible_records(log: Log) -> set[str]:
    """The ids of the records that are in the context now, unchanged."""
    view = resume(log)
    return {item.record.uuid for item in view.items if view.fate(item.record.uuid).state == "seen"}


def outside_context(search: Callable[..., list[Hit]], log: Log) -> tuple[list[Hit], int]:
    """What a search finds outside the context, and how many of its best hits are still in the context."""
    hits = search()
    visible = visible_records(log)
    still_in_context = sum(hit.uuid in visible and not hit.weak for hit in hits)
    return search(visible=visible, only_hidden=True), still_in_context
