"""Read: shows a file or some of its lines, with line numbers; pictures as pictures, notebooks as cells.

The output is bounded for every file: in lines, in the length of each line, and in total. A file that has not changed
since the model was shown it is not shown again while that result is still in its context.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, BinaryIO

from msgspec import Meta, Struct

from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import FileRead, ToolOutput
from sevenfold.agent.tools.tool import StandardTool
from sevenfold.errors import Refused
from sevenfold.record.entries import RESULT

MOST_LINES = 2_000
LONGEST_LINE = 2_000
MOST_IMAGE_BYTES = 3_750_000
"""Providers accept pictures of up to 5 MB in base64."""
_HEAD = 8_192
_PIECE = 64 * 1024
_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_LONGEST_CELL_OUTPUT = 2_000
"""The most characters shown of one output of a notebook cell."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class ReadInput(Struct, forbid_unknown_fields=True):
    """What to read.

    Args:
        path: The file: absolute, or relative to the working directory.
        offset: The first line to show, counted from 1.
        limit: How many lines to show.
    """

    path: str
    offset: Annotated[int, Meta(ge=1)] | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None


class ReadTool(StandardTool[ReadInput]):
    """Shows a file."""

    kind = "read"
    concurrent = True
    action = "read"

    def requires(self, arguments: ReadInput, context: Context) -> PermissionRequest:
        """Read access to the file; a stored result is the session's own, as for Recall."""
        if arguments.path.startswith(RESULT):
            return PermissionRequest(self.name)
        return super().requires(arguments, context)

    def act(self, arguments: ReadInput, context: Context) -> ToolOutput:
        """Show the file, according to its type, or a stored result."""
        if arguments.path.startswith(RESULT):
            return _result(arguments, context)
        path = files.permitted_path(arguments.path, context)
        with files.opened(path) as file:
            head = file.read(_HEAD)
            file.seek(0)
            if kind := picture(head):
                return _image(file, kind, path, context)
            _refuse_binary(head, path)
            if path.endswith(".ipynb"):
                raw = file.read(files.MOST_BYTES)
                return _text_lines(_cells(raw, path).split("\n"), raw, path, arguments, context)
            if head.startswith(_UTF16):
                raw = file.read(files.MOST_BYTES)
                lines = raw.decode("utf-16", errors="replace").splitlines()
                return _text_lines(lines, raw, path, arguments, context)
            return _text(file, path, arguments, context)


def _result(arguments: ReadInput, context: Context) -> ToolOutput:
    """Lines of a result that was too large for the context, by its name."""
    if context.recall is None:
        raise Refused("Stored results cannot be read in this session.")
    window = LineWindow(arguments, context.room)
    content = context.recall.fetch(arguments.path).decode(errors="replace")
    for number, line in enumerate(content.splitlines(), 1):
        window.take(number, line)
    return ToolOutput(window.render(arguments.path, ended=True))


def _text(file: BinaryIO, path: str, arguments: ReadInput, context: Context) -> ToolOutput:
    window = LineWindow(arguments, context.room)
    digest = hashlib.blake2b(digest_size=12)
    small = os.fstat(file.fileno()).st_size <= files.MOST_BYTES

    def pass_on(chunk: bytes) -> None:
        if context.abort.is_set():
            raise Refused("The read was stopped.")
        if small:
            digest.update(chunk)

    for number, line in _lines(file, pass_on):
        window.take(number, line)
        if window.full:
            if small:
                window.seen += _count_lines(file, pass_on)
            break
    version = digest.hexdigest() if small else files.version_by_date(file)
    return _shown(window, path, version, arguments, context, ended=small or not window.full)


def _shown(
    window: LineWindow, path: str, version: str, arguments: ReadInput, context: Context, *, ended: bool
) -> ToolOutput:
    """The lines in the window, or a note that they are still in the context from an earlier call."""
    wants_whole = arguments.offset is None and arguments.limit is None
    if wants_whole and (call := context.unchanged(path, version)):
        context.desk.know(path, version, whole=True)
        # Models do not reliably see the ids of their calls, so the note describes the earlier result instead.
        note = (
            f"{path} has not changed since you last read all of it. Its text is still in your context, "
            "in the result of that earlier Read."
        )
        return ToolOutput(note, facts=(FileRead(path, version, again=call),))
    whole = window.whole and ended
    context.desk.know(path, version, whole=whole)
    return ToolOutput(window.render(path, ended=ended), facts=(FileRead(path, version, whole),))


class LineWindow:
    """Selects the lines to show from all lines of a file."""

    def __init__(self, arguments: ReadInput, room: int) -> None:
        self._first = arguments.offset or 1
        self._limit = min(arguments.limit or MOST_LINES, MOST_LINES)
        self._lines: list[str] = []
        self._room = room
        self._longest = min(LONGEST_LINE, room // 2)
        self.seen = 0
        """How many lines were counted so far."""
        self._cut = False
        self.full = False

    def take(self, number: int, line: str) -> None:
        """Add the next line, if it was asked for and fits."""
        self.seen = number
        if number < self._first or self.full:
            return
        cut_mark = "… (long line, cut here)" if len(line) > self._longest else ""
        shown = f"{number:>6}\t{line[: self._longest]}{cut_mark}"
        if len(self._lines) == self._limit or len(shown) + 1 > self._room:
            self.full = True
            return
        self._cut = self._cut or bool(cut_mark)
        self._room -= len(shown) + 1
        self._lines.append(shown)

    @property
    def whole(self) -> bool:
        """Whether every character of every line was shown."""
        return self._first == 1 and not self.full and not self._cut

    def render(self, path: str, *, ended: bool) -> str:
        """The lines, with a note how to see more if there are any."""
        if not self.seen:
            return f"{path} is empty."
        total = f"{self.seen:,} {'line' if self.seen == 1 else 'lines'}" if ended else "more lines"
        if not self._lines:
            return f"{path} has only {total}; line {self._first:,} is past its end."
        last = self._first + len(self._lines) - 1
        if last < self.seen:
            note = f"(lines {self._first:,} to {last:,} of {total}; continue with offset={last + 1})"
            return "\n".join([*self._lines, note])
        return "\n".join(self._lines)


def _lines(file: BinaryIO, pass_on: Callable[[bytes], None]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; of a very long line, only the first piece is kept in memory."""
    number = 0
    while first_chunk := file.readline(_PIECE):
        number += 1
        pass_on(first_chunk)
        chunk = first_chunk
        while not chunk.endswith(b"\n") and (chunk := file.readline(_PIECE)):
            pass_on(chunk)
        yield number, _decoded(first_chunk)


def _count_lines(file: BinaryIO, pass_on: Callable[[bytes], None]) -> int:
    count = 0
    last_byte = b"\n"
    while chunk := file.read(_PIECE):
        pass_on(chunk)
        count += chunk.count(b"\n")
        last_byte = chunk[-1:]
    return count + (last_byte != b"\n")


def _decoded(raw: bytes) -> str:
    line = raw.removesuffix(b"\n").removesuffix(b"\r")
    return line.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")


def _text_lines(
    lines: Iterable[str], raw: bytes, path: str, arguments: ReadInput, context: Context
) -> ToolOutput:
    window = LineWindow(arguments, context.room)
    for number, line in enumerate(lines, 1):
        window.take(number, line)
    return _shown(window, path, files.version(raw), arguments, context, ended=True)


def picture(head: bytes) -> str:
    """The media type of a picture, given its first bytes; empty if it is not a picture."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for signature, kind in _PICTURES.items() if head.startswith(signature)), "")


def _image(file: BinaryIO, kind: str, path: str, context: Context) -> ToolOutput:
    raw = file.read(MOST_IMAGE_BYTES + 1)
    if len(raw) > MOST_IMAGE_BYTES:
        raise Refused(
            f"{path} is a picture of more than {MOST_IMAGE_BYTES:,} bytes; make it smaller first."
        )
    version = files.version(raw)
    context.desk.know(path, version, whole=True)
    return ToolOutput([image_block(raw, kind)], facts=(FileRead(path, version),))


def image_block(raw: bytes, kind: str) -> dict[str, Any]:
    """A picture as a content block."""
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(raw).decode()}
    return {"type": "image", "source": source}


def _refuse_binary(head: bytes, path: str) -> None:
    if head.startswith(b"%PDF-"):
        raise Refused(
            f"{path} is a PDF, which cannot be shown here; convert it to text with a command such as pdftotext."
        )
    if b"\0" in head and not head.startswith(_UTF16):
        raise Refused(
            f"{path} is not text (it begins with {head[:8].hex(' ')}); look at it with a command such as file or xxd."
        )


# -- notebooks -------------------------------------------------------------------------------------


def _cells(raw: bytes, path: str) -> str:
    """A notebook as text: its cells in order, each with its source and outputs."""
    try:
        cells = json.loads(raw)["cells"]
        cell_texts = [_cell(number, cell) for number, cell in enumerate(cells)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"{path} is not a readable notebook ({error}); read it with a command.") from error
    return "\n\n".join(cell_texts) or "(a notebook without cells)"


def _cell(number: int, cell: Mapping[str, Any]) -> str:
    kind = cell.get("cell_type", "code")
    name = cell.get("id", number)
    lines = [f'<cell id="{name}" type="{kind}">', _joined(cell.get("source", "")), "</cell>"]
    for output in cell.get("outputs", ()):
        lines += [f'<output cell="{name}">', *_output(output), "</output>"]
    return "\n".join(lines)


def _output(output: Mapping[str, Any]) -> Iterator[str]:
    if "text" in output:
        yield _cut_output(_joined(output["text"]))
    data = output.get("data", {})
    if "text/plain" in data:
        yield _cut_output(_joined(data["text/plain"]))
    for kind in data:
        if kind.startswith("image/"):
            yield f"[{kind}]"
    if "ename" in output:
        traceback_text = _COLOUR.sub("", "\n".join(map(str, output.get("traceback", ()))))
        yield _cut_output(f"{output['ename']}: {output.get('evalue', '')}\n{traceback_text}".rstrip())


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(map(str, source))


def _cut_output(text: str) -> str:
    if len(text) <= _LONGEST_CELL_OUTPUT:
        return text
    return f"{text[:_LONGEST_CELL_OUTPUT]}\n… {len(text) - _LONGEST_CELL_OUTPUT:,} more characters"
