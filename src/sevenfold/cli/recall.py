"""`sevenfold recall`: searches a transcript for what was said, above all for what has left the context.

The transcript is only read. An index that lies beside it is used and brought up to date in memory; without one
it is made in memory. So any transcript can be searched, also one that is being written, or is not ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sevenfold.cli import transcripts

if TYPE_CHECKING:
    from rich.text import Text

    from sevenfold.recall.recall import Hit, Near

NOTHING_FOUND = 1
"""The exit code when nothing fits, as with grep."""

SUMMARY = "search a session for what was said, above all for what has left the context"
HELP = """\
Search a recorded session for what was said: by the exact text (a path, an id, an error line, a sentence), by its
words and, where the extra sevenfold[meaning] is installed, by what it means. Found are records that have left the
context; --all includes those the model still sees. If nothing fits, nothing is shown.

Reads Claude Code transcripts and Sevenfold's own. Nothing is written, and nothing leaves this machine."""

EXAMPLES = """\
examples:
  sevenfold recall session.jsonl "connection refused"           what left the context and says so
  sevenfold recall session.jsonl src/app.py --kind edit --all   every change to a file
  sevenfold recall session.jsonl "clocks off by an hour" --by meaning   said in other words
  sevenfold recall session.jsonl "why the retries" --json       for scripts

exit code: 0 if something was found, 1 if not, 2 after an error"""


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
    command.add_argument("session", metavar="SESSION", help="a transcript, or the id of a session")
    command.add_argument("query", metavar="QUERY", nargs="+", help="what to look for")
    command.add_argument("--kind", metavar="K", help="only this kind: user, assistant, tool_use, edit…")
    command.add_argument(
        "--by",
        metavar="WAY",
        help="look by words, meaning or both (default: both where the setting recall_meaning and the extra allow)",
    )
    command.add_argument(
        "-k", type=int, default=10, metavar="N", help="how many hits at most (default: 10)"
    )
    command.add_argument(
        "--around", type=int, default=1, metavar="N", help="neighbours to show (default: 1)"
    )
    command.add_argument("--all", action="store_true", help="also what is still in the context")
    command.add_argument("--json", action="store_true", help="print the hits as JSON")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    path = transcripts.find(options.session)
    with transcripts.indexed(path) as (log, index):
        hits, in_context = _search(partial(index.search, **_asked(options)), log, options)
    if options.json:
        _print_json(path, hits, in_context)
    else:
        _print(hits, in_context)
    return 0 if hits else NOTHING_FOUND


def _asked(options: argparse.Namespace) -> dict[str, Any]:
    """What is looked for, and how."""
    from sevenfold.recall import meaning
    from sevenfold.recall.embedder import ByMeaning
    from sevenfold.stores.settings_files import FileSource

    by = meaning.way(options.by)
    switched_on = by is not None or FileSource(Path.cwd()).current().recall_meaning
    return {
        "query": " ".join(options.query),
        "kind": options.kind,
        "k": options.k,
        "around": options.around,
        "scorers": ByMeaning().scorers(by, switched_on=switched_on),
        "words": by != "meaning",
    }


def _search(
    search: Callable[..., list[Hit]], log: Any, options: argparse.Namespace
) -> tuple[list[Hit], int]:
    """The hits, and how many more there are that the model still sees."""
    from sevenfold.conversation.resume import resume

    everything = search()
    if options.all:
        return everything, 0
    view = resume(log)
    visible = {item.said.uuid for item in view.items if view.fate(item.said.uuid).state == "seen"}
    hidden = search(visible=visible, only_hidden=True)
    return hidden, sum(hit.uuid in visible for hit in everything)


def _print_json(path: Path, hits: list[Hit], in_context: int) -> None:
    import msgspec

    found = {"file": str(path), "hits": hits, "in_context": in_context}
    text = msgspec.json.format(msgspec.json.encode(found), indent=2)
    sys.stdout.write(text.decode() + "\n")


def _print(hits: list[Hit], in_context: int) -> None:
    from sevenfold.cli.output import Report

    console = Report()
    for number, hit in enumerate(hits, 1):
        what = f"{hit.kind} ({hit.tool})" if hit.tool else hit.kind
        when = hit.timestamp[:19].replace("T", " ") or "no time"
        by = ", ".join(hit.matched)
        console.print(f"{number}. {when}  {what}  {hit.uuid}  {by}", style="bold", soft_wrap=True)
        for near in hit.before:
            console.print(_beside(near), style="dim", soft_wrap=True)
        console.print(_marked(hit, plain=not console.is_terminal or console.no_color), soft_wrap=True)
        for near in hit.after:
            console.print(_beside(near), style="dim", soft_wrap=True)
        console.print()
    if not hits:
        console.print("Nothing fits.")
    if in_context:
        noun = "record that fits is" if in_context == 1 else "records that fit are"
        console.print(f"{in_context} {noun} still in the context: --all shows them.", soft_wrap=True)


def _beside(near: Near) -> str:
    return f"     {near.kind}: {transcripts.harmless(near.text)}"


def _marked(hit: Hit, *, plain: bool) -> Text:
    """The excerpt with its matches in bold, or in quotation marks where there is no bold."""
    from rich.text import Text

    shown, place = Text("   | "), 0
    open_mark, close_mark = ("«", "»") if plain else ("", "")
    for start, end in hit.marks:
        shown.append(transcripts.harmless(hit.excerpt[place:start]))
        shown.append(
            open_mark + transcripts.harmless(hit.excerpt[start:end]) + close_mark, style="bold yellow"
        )
        place = end
    shown.append(transcripts.harmless(hit.excerpt[place:]))
    return Text("\n   | ").join(shown.split("\n", allow_blank=True))
