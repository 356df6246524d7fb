"""Edit and Write: replacing text in a file, and writing a whole file.

A file must have been read before it is changed, and must not have changed since; otherwise the model would work on what
it imagines. Edits work on the file's own bytes: everything that is not replaced stays as it was, line endings included.
The change is reported as a unified diff, whose cost depends on the change, not on the file.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from io import StringIO
from typing import Literal

from msgspec import Struct

from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import FileChanged, ToolOutput
from sevenfold.agent.tools.tool import Input, StandardTool
from sevenfold.errors import InputError, Refused

_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
_MOST_COUNTED = 10_000
DIFF_CONTEXT = 3
"""Unchanged lines shown around each change."""
MOST_DIFF_LINES = 400
"""How many lines of a diff are kept; the counts always cover the whole diff."""
_MOST_COMPARED = 1_000_000
_LONGEST_LINE = 500


class EditInput(Struct, forbid_unknown_fields=True):
    """What to replace by what.

    Args:
        path: The file: absolute, or relative to the working directory.
        old: The text to replace, exactly as in the file, without line numbers.
        new: The text to put in its place.
        replace_all: Replace every occurrence instead of the only one.
    """

    path: str
    old: str
    new: str
    replace_all: bool = False


class WriteInput(Struct, forbid_unknown_fields=True):
    """The file and its content.

    Args:
        path: The file: absolute, or relative to the working directory.
        content: The whole text of the file.
    """

    path: str
    content: str


class EditTool(StandardTool[EditInput]):
    """Replaces text in a file."""

    kind = "edit"
    action = "write"

    def check(self, arguments: Input, context: Context) -> None:
        """Raise the error that replacing the text would raise."""
        self._replace(self._typed(arguments), files.permitted_path(arguments["path"], context), context)

    def act(self, arguments: EditInput, context: Context) -> ToolOutput:
        """Replace the text; raises `Refused` if it is ambiguous or does not occur."""
        path = files.permitted_path(arguments.path, context)
        with context.desk.write_lock:
            old_content, new_content, whole = self._replace(arguments, path, context)
            return _write_and_report(path, old_content, new_content, context, whole=whole)

    def _replace(self, arguments: EditInput, path: str, context: Context) -> tuple[bytes, bytes, bool]:
        """The file's content before and after the edit, and whether the model knows all of it."""
        old_text = _encoded(arguments.old, "old")
        new_text = _encoded(arguments.new, "new")
        if not old_text:
            raise InputError("old is empty; say what to replace, or use Write to create a file.")
        content = files.content(path)
        whole = _must_be_known(path, content, context)
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise Refused(f"{path} is not in UTF-8; change it with a command.")
        return (
            content,
            replaced(content, old_text, new_text, replace_all=arguments.replace_all, path=path),
            whole,
        )


class WriteTool(StandardTool[WriteInput]):
    """Creates or replaces a file."""

    kind = "write"
    action = "write"

    def check(self, arguments: Input, context: Context) -> None:
        """Raise the error that replacing the file would raise."""
        self._replaced(files.permitted_path(arguments["path"], context), context)

    def act(self, arguments: WriteInput, context: Context) -> ToolOutput:
        """Write the file."""
        new_content = _encoded(arguments.content, "content")
        path = files.permitted_path(arguments.path, context)
        with context.desk.write_lock:
            return _write_and_report(path, self._replaced(path, context), new_content, context, whole=True)

    def _replaced(self, path: str, context: Context) -> bytes | None:
        """The content that would be replaced, None if there is no file; raises `Refused` if it was not fully read."""
        if not files.exists(path):
            return None
        content = files.content(path)
        if not _must_be_known(path, content, context):
            raise Refused(
                f"Only part of {path} was read; writing would lose the rest. Read all of it, or use Edit."
            )
        return content


def _write_and_report(
    path: str, old_content: bytes | None, new_content: bytes, context: Context, *, whole: bool
) -> ToolOutput:
    """Write the file and report the change; ``whole``: the model knows all of the new text."""
    version = files.version(new_content)
    files.write(path, new_content, None if old_content is None else files.version(old_content))
    context.desk.know(path, version, whole=whole)
    change = diff((old_content or b"").decode(errors="replace"), new_content.decode(errors="replace"), path)
    counts = (
        f"{change.added:,} {'line' if change.added == 1 else 'lines'} added, {change.removed:,} removed"
    )
    message = f"{path} was created." if old_content is None else f"{path} was changed: {counts}."
    fact = FileChanged(
        path, version, change.text, change.added, change.removed, created=old_content is None
    )
    return ToolOutput(message, facts=(fact,))


def replaced(content: bytes, old: bytes, new: bytes, *, replace_all: bool, path: str) -> bytes:
    """The content with ``old`` replaced by ``new``; raises `Refused` if ``old`` is missing or ambiguous."""
    if _has_crlf_only(content):
        old = _with_crlf(old)
        new = _with_crlf(new)
    if old == new:
        raise Refused("old and new are the same; there is nothing to change.")
    count = _count(content, old)
    if count == 0:
        raise Refused(
            f"old does not occur in {path}.{_hint(content, old)} Read the file, and copy the text exactly."
        )
    if count > 1 and not replace_all:
        counted = f"{count:,}" if count < _MOST_COUNTED else f"at least {count:,}"
        raise Refused(
            f"old occurs {counted} times in {path}. "
            "Add surrounding lines until it is unique, or set replace_all."
        )
    return content.replace(old, new)


def _must_be_known(path: str, content: bytes, context: Context) -> bool:
    """Whether the model knows all of the file; raises `Refused` if it was not read, or has changed since."""
    known_file = context.desk.known(path)
    if known_file is None:
        raise Refused(
            f"{path} has not been read yet. Read it first, so that the change matches its content."
        )
    if known_file.version != files.version(content):
        raise Refused(f"{path} has changed since it was read. Read it again, then make the change.")
    return known_file.whole


def _count(content: bytes, old: bytes) -> int:
    """How often ``old`` occurs, counting overlapping matches, since those make it ambiguous too."""
    count = 0
    position = content.find(old)
    while position >= 0 and count < _MOST_COUNTED:
        count += 1
        position = content.find(old, position + 1)
    return count


def _hint(content: bytes, old: bytes) -> str:
    old_text = old.decode(errors="replace")
    if _NUMBERED.search(old_text):
        return " It seems to contain line numbers, which are not part of the file."
    lines = [" ".join(line.split()) for line in content.decode(errors="replace").splitlines()]
    first = next((" ".join(line.split()) for line in old_text.splitlines() if line.strip()), "")
    if first and first in lines:
        return f" Line {lines.index(first) + 1:,} resembles its first line; compare whitespace and what follows."
    return ""


def _encoded(text: str, field: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{field} contains an incomplete character at {error.start}; send whole characters."
        ) from None


def _has_crlf_only(content: bytes) -> bool:
    ends = content.count(b"\n")
    return ends > 0 and content.count(b"\r\n") == ends


def _with_crlf(content: bytes) -> bytes:
    return content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


# -- diffs -----------------------------------------------------------------------------------------


class Diff(Struct, frozen=True):
    """A change as a unified diff."""

    text: str
    added: int
    removed: int


def diff(old_text: str, new_text: str, path: str) -> Diff:
    """The unified diff from one text to another; the cost depends on the change, not on the length of the texts."""
    old_lines = list(StringIO(old_text, "\n"))
    new_lines = list(StringIO(new_text, "\n"))
    lines = [f"--- {path}", f"+++ {path}"]
    added = 0
    removed = 0
    for group in _Steps(_steps(old_lines, new_lines)).get_grouped_opcodes(DIFF_CONTEXT):
        first = group[0]
        last = group[-1]
        lines.append(f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                lines += [_line(" ", line) for line in old_lines[old_start:old_end]]
            else:
                lines += [_line("-", line) for line in old_lines[old_start:old_end]]
                lines += [_line("+", line) for line in new_lines[new_start:new_end]]
                removed += old_end - old_start
                added += new_end - new_start
    if (hidden := len(lines) - MOST_DIFF_LINES) > 0:
        lines = [*lines[:MOST_DIFF_LINES], f"… {hidden:,} more {'line' if hidden == 1 else 'lines'}"]
    return Diff("\n".join(lines), added, removed)


Step = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


class _Steps(SequenceMatcher[str]):
    """A `SequenceMatcher` with given opcodes, so that its grouping of opcodes can be used."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self._steps = steps

    def get_opcodes(self) -> list[Step]:
        return self._steps


def _steps(old_lines: list[str], new_lines: list[str]) -> list[Step]:
    """The opcodes from one text to another; only the part between their common beginning and end is compared."""
    head = _common(old_lines, new_lines)
    tail = _common(old_lines[head:][::-1], new_lines[head:][::-1])
    changed_old = old_lines[head : len(old_lines) - tail]
    changed_new = new_lines[head : len(new_lines) - tail]
    if not changed_old and not changed_new:
        return []
    steps: list[Step] = [("replace", 0, len(changed_old), 0, len(changed_new))]
    if len(changed_old) * len(changed_new) <= _MOST_COMPARED:
        steps = SequenceMatcher(None, changed_old, changed_new, autojunk=False).get_opcodes()
    return [
        ("equal", 0, head, 0, head),
        *(
            (tag, old_start + head, old_end + head, new_start + head, new_end + head)
            for tag, old_start, old_end, new_start, new_end in steps
        ),
        ("equal", len(old_lines) - tail, len(old_lines), len(new_lines) - tail, len(new_lines)),
    ]


def _common(old_lines: list[str], new_lines: list[str]) -> int:
    pairs = enumerate(zip(old_lines, new_lines, strict=False))
    return next(
        (index for index, (old_line, new_line) in pairs if old_line != new_line),
        min(len(old_lines), len(new_lines)),
    )


def _line(sign: str, line: str) -> str:
    shown = line.rstrip("\r\n")
    shown = shown if len(shown) <= _LONGEST_LINE else f"{shown[:_LONGEST_LINE]}…"
    return f"{sign}{shown}" if line.endswith("\n") else f"{sign}{shown}\n\\ No newline at end of file"
