"""Recall: finding and fetching what was said in this session and is no longer in view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from sevenfold.agent.tools.context import Context, Recall
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import StandardTool
from sevenfold.errors import InputError, Refused
from sevenfold.recall.recall import Hit

_EXCERPT = 1_500
_BESIDE = 200
_MATCHED: dict[tuple[str, ...], str] = {
    ("exact",): "the exact text",
    ("meaning",): "alike in meaning only, perhaps about something else",
}


class RecallInput(Struct, forbid_unknown_fields=True):
    """What to find, or which record to fetch."""

    query: Annotated[str, Meta(description="Words, a path, an error text: what you remember of it.")] = ""
    kind: (
        Annotated[
            Literal["user", "assistant", "tool_use", "edit", "tool_result", "error", "summary"],
            Meta(
                description="Only what the user said, what you said, calls (edit: changes of files), results or errors."
            ),
        ]
        | None
    ) = None
    record: Annotated[str, Meta(description="The id of a record found before: it is shown whole.")] = ""
    limit: Annotated[int, Meta(ge=1, le=30, description="How many records to show.")] = 8
    offset: Annotated[int, Meta(ge=0, description="Where to go on in a long record, in characters.")] = 0


class RecallTool(StandardTool[RecallInput]):
    """Searches what left the context."""

    name = "Recall"
    concurrent = True
    input = RecallInput

    def act(self, given: RecallInput, context: Context) -> ToolOutput:
        """Search, or fetch."""
        if context.recall is None:
            raise Refused("What has left the view cannot be searched in this session.")
        if given.record:
            return ToolOutput(_record(context.recall, given, context.room))
        if not given.query.strip():
            raise InputError("Say what to look for in query, or name a record.")
        hits = context.recall.search(given.query, kind=given.kind, k=given.limit)
        return ToolOutput(_hits(hits, context.room))


def _record(recall: Recall, given: RecallInput, room: int) -> str:
    words = recall.fetch(given.record).decode(errors="replace")
    shown = words[given.offset : given.offset + room]
    left = len(words) - given.offset - len(shown)
    return f"{shown}\n({left:,} more characters; offset={given.offset + len(shown)})" if left > 0 else shown


def _hits(hits: Sequence[Hit], room: int) -> str:
    if not hits:
        return "Nothing fits. Try fewer or other words: names, paths, numbers or error texts work best."
    shown: list[str] = []
    most = room
    for hit in hits:
        what = f"{hit.kind} ({hit.tool})" if hit.tool else hit.kind
        by = _MATCHED.get(hit.matched, " and ".join(hit.matched))
        lines = [" · ".join(filter(None, (f"record {hit.uuid}", hit.timestamp or "no time", what, by)))]
        lines += [f"  before, {near.kind}: {_line(near.text)}" for near in hit.before]
        lines += [hit.excerpt[:_EXCERPT]]
        lines += [f"  after, {near.kind}: {_line(near.text)}" for near in hit.after]
        words = "\n".join(lines)
        room -= len(words) + 2
        if room < 0:
            break
        shown.append(words)
    return "\n\n".join(shown or [words[:most]])


def _line(text: str) -> str:
    return " ".join(text.split())[:_BESIDE]
