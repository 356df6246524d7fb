"""Tool calls with their results, and what kind of tool made them.

Any agent's tools are understood: by the kinds it declares for them, else by the shape of what they are
given. A call that names a command runs it; one that names a path and something to put there changes it;
one that names a path and nothing else reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.layers.compact.extract.facts import Kind, Quote
from sevenfold.layers.compact.extract.words import one_line
from sevenfold.record import authorship, blocks
from sevenfold.record.blocks import ToolResult, ToolUse
from sevenfold.record.layout import Item

_PATHS = [
    "file_path",
    "path",
    "notebook_path",
    "filename",
    "file",
    "target_file",
    "filePath",
    "absolute_path",
]
_COMMANDS = ("command", "cmd", "script")
_CHANGES = ("old_string", "old_str", "new_string", "new_str", "edits", "diff", "insert_text", "new_source")
_CONTENTS = ("content", "contents", "file_text", "text")
_SEARCHES = ("pattern", "query", "regex", "glob")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)

_EXIT = re.compile(
    r"\A\s*Exit code (-?\d+)|(?:exited with|exit) (?:code|status)[: ]+(-?\d+)", re.IGNORECASE
)
_REFUSED = re.compile(r"\A\s*<tool_use_error>")
_LOOKED_AT = 300
_PLANS = re.compile(r"exit_?plan", re.IGNORECASE)
_LONGEST_REPLY = 1_000


class Call(Struct, frozen=True):
    """One tool call and what came of it."""

    name: str
    kind: Kind | None
    record: str
    given: Mapping[str, Any]
    result: str | None = None
    failed: bool = False
    exit: str = ""
    """The exit code, where the result names one."""
    reply: str = ""
    """What the user says in the result: an answer, or why the call was refused."""

    @property
    def command(self) -> str:
        """The command line it runs; empty for all other tools."""
        return _command(self.given) if self.kind == "shell" else ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files it is about."""
        found = [value for key in _PATHS if isinstance(value := self.given.get(key), str) and value]
        several = self.given.get("paths")
        found += [path for path in several if isinstance(path, str)] if isinstance(several, list) else []
        patch = next(
            (v for v in self.given.values() if isinstance(v, str) and v.startswith("*** Begin")), ""
        )
        return tuple(dict.fromkeys([*found, *_PATCHED.findall(patch)]))

    @property
    def about(self) -> str:
        """What it was called with, in short: a command, a path, an address or what was looked for."""
        keys = ("url", *_SEARCHES, "description", "subject", "name", "id")
        named = (value for key in keys if isinstance(value := self.given.get(key), str) and value)
        return self.command or ", ".join(self.paths) or next(named, "")


def calls(items: Iterable[Item], kinds: Mapping[str, Kind] | None = None) -> list[Call]:
    """Every call in these records, in order, with its result if there is one."""
    items = [item for item in items if not item.hidden_by]
    results = {
        block.id: block for item in items for block in item.said.blocks if block.kind == "tool_result"
    }
    return [
        _call(item.said.uuid, body, results.get(body.id), kinds or {})
        for item in items
        if item.said.calls
        for block in item.said.blocks
        if block.kind == "tool_use" and isinstance(body := block.body(), ToolUse)
    ]


def _call(record: str, asked: ToolUse, answer: blocks.Block | None, kinds: Mapping[str, Kind]) -> Call:
    given = _given(asked)
    kind = kinds.get(asked.name) or kind_by_shape(asked.name, given)
    if answer is None:
        return Call(asked.name, kind, record, given)
    words, body = blocks.words_of(answer), answer.body()
    found = _EXIT.search(words[:_LOOKED_AT]) or (kind == "shell" and _EXIT.search(words[-_LOOKED_AT:]))
    code = (found[1] or found[2]) if found else ""
    failed = isinstance(body, ToolResult) and bool(body.is_error)
    failed = failed or bool(_REFUSED.match(words)) or (kind == "shell" and code not in ("", "0"))
    reply = authorship.reply(answer, asked.name)
    return Call(asked.name, kind, record, given, words, failed, code, reply)


def _given(asked: ToolUse) -> Mapping[str, Any]:
    try:
        given = msgspec.json.decode(asked.input)
    except msgspec.DecodeError:
        return {}
    return given if isinstance(given, dict) else {}


def kind_by_shape(name: str, given: Mapping[str, Any]) -> Kind | None:
    """What a tool without a declared kind probably does."""
    has_path = any(isinstance(given.get(key), str) for key in _PATHS)
    if name == "apply_patch" or (has_path and any(key in given for key in _CHANGES)):
        return "edit"
    if has_path and any(key in given for key in _CONTENTS):
        return "write"
    if any(key in given for key in _SEARCHES):
        return "web" if "web" in name.lower() else "search"
    if "url" in given:
        return "web"
    if not has_path and _command(given):
        return "shell"
    return "read" if has_path else None


def _command(given: Mapping[str, Any]) -> str:
    value = next((given[key] for key in _COMMANDS if given.get(key)), "")
    if isinstance(value, list):
        words = [str(word) for word in value]
        return words[-1] if words[1:2] in (["-c"], ["-lc"]) else " ".join(words)
    return value if isinstance(value, str) else ""


def replies(made: Iterable[Call]) -> Iterator[Quote]:
    """What the user answered through these calls, oldest first: to a question or a plan, or when refusing one."""
    for call in made:
        words = call.reply or (call.result if not call.failed and _PLANS.search(call.name) else "")
        if words:
            yield Quote(one_line(words, _LONGEST_REPLY), call.record)
