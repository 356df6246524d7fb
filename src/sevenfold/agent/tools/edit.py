"""Edit and Write: changing a file the model knows, and putting a whole one in its place.

A file must have been read before it is changed, and not have changed since: else the model would be working on what it
imagines. Edits are made on the file's own bytes; all that was not replaced stays as it was, line ends included.
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta, Struct

from sevenfold.agent.permissions.request import Wish
from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.diffs import diff
from sevenfold.agent.tools.output import FileChanged, ToolOutput
from sevenfold.agent.tools.tool import StandardTool
from sevenfold.errors import InputError, Refused

_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
_MOST_COUNTED = 10_000
_PATH = Meta(description="The file: absolute, or from the working directory.")


class EditInput(Struct, forbid_unknown_fields=True):
    """What to replace by what."""

    path: Annotated[str, _PATH]
    old: Annotated[
        str,
        Meta(description="The text to replace, exactly as it stands in the file, without line numbers."),
    ]
    new: Annotated[str, Meta(description="The text to put in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence instead of the only one.")] = (
        False
    )


class WriteInput(Struct, forbid_unknown_fields=True):
    """A file and all it is to hold."""

    path: Annotated[str, _PATH]
    content: Annotated[str, Meta(description="The whole text of the file.")]


class Edit(StandardTool[EditInput]):
    """Replaces text in a file."""

    name = "Edit"
    kind = "edit"
    input = EditInput

    def wants(self, given: EditInput, context: Context) -> Wish:
        """Writing that file."""
        return _writing(self.name, given.path, context)

    def act(self, given: EditInput, context: Context) -> ToolOutput:
        """Replace, if it is clear what."""
        old, new = _encoded(given.old, "old"), _encoded(given.new, "new")
        if not old:
            raise InputError("old is empty; say what is to be replaced, or use Write to make a file.")
        path = _target(given.path, context)
        with context.desk.changing:
            before = files.content(path)
            whole = _must_be_known(path, before, context)
            if before.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise Refused(f"{path} is not in UTF-8; change it with a command.")
            after = replaced(before, old, new, everywhere=given.replace_all, path=path)
            return _done(path, before, after, context, whole=whole)


class Write(StandardTool[WriteInput]):
    """Makes a file, or puts another in its place."""

    name = "Write"
    kind = "write"
    input = WriteInput

    def wants(self, given: WriteInput, context: Context) -> Wish:
        """Writing that file."""
        return _writing(self.name, given.path, context)

    def act(self, given: WriteInput, context: Context) -> ToolOutput:
        """Write it."""
        after = _encoded(given.content, "content")
        path = _target(given.path, context)
        with context.desk.changing:
            if not files.exists(path):
                return _done(path, None, after, context, whole=True)
            before = files.content(path)
            if not _must_be_known(path, before, context):
                raise Refused(
                    f"Only a part of {path} was read; writing would lose the rest. Read it whole, or use Edit."
                )
            return _done(path, before, after, context, whole=True)


def _target(path: str, context: Context) -> str:
    """The file that was permitted."""
    return context.wish.subject if context.wish else files.place(path, context).real


def _writing(tool: str, path: str, context: Context) -> Wish:
    place = files.place(path, context)
    return Wish(tool, "write", place.real, place.named if place.named != place.real else "")


def _done(path: str, before: bytes | None, after: bytes, context: Context, *, whole: bool) -> ToolOutput:
    """Write, and tell what changed; ``whole``: the model knows all of the new text."""
    version = files.version(after)
    files.write(path, after, None if before is None else files.version(before))
    context.desk.know(path, version, whole=whole)
    change = diff(_text(before or b""), _text(after), path)
    counts = f"{change.added:,} lines added, {change.removed:,} removed"
    words = f"{path} was made." if before is None else f"{path} was changed: {counts}."
    fact = FileChanged(path, version, change.text, change.added, change.removed, created=before is None)
    return ToolOutput(words, facts=(fact,))


def replaced(before: bytes, old: bytes, new: bytes, *, everywhere: bool, path: str) -> bytes:
    """The content with one text replaced; raises `Refused` unless it is clear what is meant."""
    if _has_crlf_only(before):
        old, new = _with_crlf(old), _with_crlf(new)
    if old == new:
        raise Refused("old and new are the same; there is nothing to change.")
    places = _count(before, old)
    if places == 0:
        raise Refused(
            f"old does not occur in {path}.{_hint(before, old)} Read the file, and copy the text exactly."
        )
    if places > 1 and not everywhere:
        raise Refused(
            f"old occurs {_counted(places)} times in {path}. Add lines around it until one fits, or set replace_all."
        )
    return before.replace(old, new)


def _must_be_known(path: str, found: bytes, context: Context) -> bool:
    """Whether all of the file is known; raises if it was not read, or changed since."""
    known = context.desk.known(path)
    if known is None:
        raise Refused(
            f"{path} has not been read yet. Read it first, so that the change fits what is there."
        )
    if known.version != files.version(found):
        raise Refused(f"{path} has changed since it was read. Read it again, then make the change.")
    return known.whole


def _count(content: bytes, old: bytes) -> int:
    """Places where it stands, also where one reaches into the next: then it is unclear which is meant."""
    places, at = 0, content.find(old)
    while at >= 0 and places < _MOST_COUNTED:
        places += 1
        at = content.find(old, at + 1)
    return places


def _counted(places: int) -> str:
    return f"{places:,}" if places < _MOST_COUNTED else f"at least {places:,}"


def _hint(content: bytes, old: bytes) -> str:
    wanted = old.decode(errors="replace")
    if _NUMBERED.search(wanted):
        return " It seems to hold line numbers, which are not part of the file."
    lines = [" ".join(line.split()) for line in content.decode(errors="replace").splitlines()]
    first = next((" ".join(line.split()) for line in wanted.splitlines() if line.strip()), "")
    if first and first in lines:
        return f" Line {lines.index(first) + 1:,} is like its first line; compare white space and what follows."
    return ""


def _encoded(words: str, field: str) -> bytes:
    try:
        return words.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{field} holds half a character at {error.start}; send whole characters."
        ) from None


def _has_crlf_only(content: bytes) -> bool:
    ends = content.count(b"\n")
    return ends > 0 and content.count(b"\r\n") == ends


def _with_crlf(words: bytes) -> bytes:
    return words.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _text(content: bytes) -> str:
    return content.decode(errors="replace")
