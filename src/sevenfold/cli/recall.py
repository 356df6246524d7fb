"""`sevenfold recall`: searches a transcript, above all for content that has left the context.

The transcript is only read. An index next to it is used and brought up to date in memory; without one, an index is
built in memory. So any transcript can be searched, even one that is being written or comes from another tool.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.text import Text

from sevenfold.archive import search
from sevenfold.cli import transcripts
from sevenfold.cli.output import ReportConsole, mark_matches
from sevenfold.cli.text import add_switches, plural, print_json
from sevenfold.errors import InputError
from sevenfold.recall import meaning
from sevenfold.recall.index import IndexStatus, RecallIndex
from sevenfold.recall.meaning import ByMeaning
from sevenfold.recall.search import Hit, Scorer
from sevenfold.stores.log import LineLog
from sevenfold.stores.settings_files import FileSource

NO_MATCHES = 1
"""The exit code if nothing matches, as with grep."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("session", metavar="SESSION")
    add("query", metavar="QUERY", nargs="*")
    transcripts.add_store(command)
    add("--kind", metavar="K")
    add("--by", metavar="WAY")
    add("-k", type=int, default=10, metavar="N")
    add("--around", type=int, default=1, metavar="N")
    add_switches(command, "--all", "--status", "--json")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    path = transcripts.find(options.session, options.store)
    if options.status:
        with indexed(path) as (_, index):
            _print_status(path, index.status(), as_json=options.json)
        return 0
    if not options.query:
        raise InputError("there is nothing to look for; name it, or ask for --status")
    by = meaning.way(options.by)
    switched_on = by is not None or FileSource(Path.cwd()).current().recall_meaning
    scorers = ByMeaning().scorers(by, switched_on=switched_on)
    wanted = {
        "kind": options.kind,
        "k": options.k,
        "around": options.around,
        "words": by != "meaning",
        "weak": True,
    }
    with indexed(path) as (log, index):
        for scorer in scorers:
            _prepare(path, index, scorer)
        ask = partial(index.search, " ".join(options.query), scorers=scorers, **wanted)
        hits, in_context = (ask(), 0) if options.all else search.outside_context(ask, log)
    if options.json:
        print_json({"file": str(path), "hits": hits, "in_context": in_context})
    else:
        _print(hits, in_context)
    return 0 if any(not hit.weak for hit in hits) else NO_MATCHES


@contextmanager
def indexed(path: Path) -> Iterator[tuple[LineLog, RecallIndex]]:
    """The transcript and an up-to-date index of it, with progress shown while it is indexed; see `search.indexed`."""
    with transcripts.progress(path, "indexing") as step, search.indexed(path, step) as opened:
        yield opened


def _prepare(path: Path, index: RecallIndex, scorer: Scorer) -> None:
    """Have a scorer prepare everything now: nothing is stored, so no work can be left for later."""
    size = path.stat().st_size
    with transcripts.progress(path, "comparing by meaning") as step:
        while index.prepare(scorer):
            status = index.status()
            step(size * status.vectors // max(1, status.passages))


def _print_status(path: Path, status: IndexStatus, *, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(path), "status": status})
        return
    console = ReportConsole()
    console.print(f"{plural(status.records, 'record')} can be searched by words.")
    passages = plural(status.passages, "passage")
    console.print(
        f"{passages} can be compared by meaning; {status.vectors:,} have their vectors in the index."
    )


def _print(hits: list[Hit], in_context: int) -> None:
    console = ReportConsole()
    quoted = not console.is_terminal or console.no_color
    if hits and hits[0].weak:
        console.say("Nothing matches well. The nearest records, which may be about something else:")
        console.print()
    for number, hit in enumerate(hits, 1):
        kind = f"{hit.kind} ({hit.tool})" if hit.tool else hit.kind
        time = hit.timestamp[:19].replace("T", " ") or "no time"
        by = ", ".join(hit.matched)
        console.say(f"{number}. {time}  {kind}  {hit.uuid}  {by}", "bold")
        for near in hit.before:
            console.say(f"     {near.kind}: {near.text}", "dim")
        marked = Text("   | ").append_text(mark_matches(hit, quoted=quoted))
        console.say(Text("\n   | ").join(marked.split("\n", allow_blank=True)))
        for near in hit.after:
            console.say(f"     {near.kind}: {near.text}", "dim")
        console.print()
    if not hits:
        console.print("No matches.")
    if in_context:
        others = plural(in_context, "match is", "matches are")
        console.say(f"{others} still in the context; --all shows them.")
