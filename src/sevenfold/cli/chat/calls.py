"""Tool calls as lines: what is asked for, how it stands, how long it took; and what is behind the line.

A call is one line until somebody wants more. What a user wants to see at once comes with it: the difference an edit
made, the list of things to do, the first words of an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, Protocol

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from sevenfold.agent.events import Mentioned
from sevenfold.agent.tools.output import (
    CommandRan,
    FileChanged,
    FileRead,
    TaskChanged,
    TodosChanged,
    ToolOutput,
)
from sevenfold.cli.chat.signs import Signs
from sevenfold.cli.chat.words import clean, fitted, lasted, one_line
from sevenfold.cli.phrases import plural
from sevenfold.lab.profile.context import label_of

FEW_LINES = 14
"""Lines of a difference that are shown with its call."""
MANY_LINES = 2_000
"""Lines that are shown of anything when all of it is asked for."""
_LEAST_SHOWN = 0.5


class Called(Protocol):
    """A tool call, whoever tells of it."""

    @property
    def name(self) -> str:
        """The tool."""
        ...

    @property
    def input(self) -> Any:
        """What it is given."""
        ...


def about(call: Called, folder: str = "") -> str:
    """What a call asks for, in a few words; paths are named from the folder the user works in."""
    what = label_of(call.name, call.input).what
    if folder and what.startswith("/"):
        path = PurePath(what)
        what = str(path.relative_to(folder)) if path.is_relative_to(folder) else what
    return one_line(what)


def running(call: Called, seconds: float, last: str, *, signs: Signs, width: int, folder: str = "") -> Text:
    """A call that is under way, with the last line it printed."""
    sign = signs.working[int(seconds * 4) % len(signs.working)]
    time = f"{signs.dot}{lasted(seconds)}" if seconds >= _LEAST_SHOWN else ""
    head = f"{call.name} {about(call, folder)}"
    line = Text.assemble((f"{sign} ", "cyan"), fitted(head, max(8, width - 3 - len(time))), (time, "dim"))
    said = one_line(last.rstrip("\n").rpartition("\n")[2], max(8, width - 5))
    return line.append(f"\n  {signs.bar} {said}", style="dim") if said else line


def ended(
    call: Called,
    output: ToolOutput,
    seconds: float,
    *,
    number: int,
    signs: Signs,
    width: int,
    folder: str = "",
    seen: bool = False,
) -> RenderableType:
    """A call with its result: one line, and what belongs to be seen at once, unless it was ``seen`` already."""
    failed = output.is_error
    sign, style = (signs.failed, "red") if failed else (signs.done, "green")
    parts = ["failed" if failed else "", *_came(output)]
    if seconds >= _LEAST_SHOWN:
        parts.append(lasted(seconds))
    tail = signs.dot + signs.dot.join([*filter(None, parts), f"[{number}]"])
    room = max(8, width - 3 - len(tail))
    head = fitted(f"{call.name} {about(call, folder)}".rstrip(), room, signs.cut)
    line = Text.assemble((f"{sign} ", f"bold {style}"), head, (tail, "red" if failed else "dim"))
    line.no_wrap = True
    return Group(line, *_at_once(output, signs, width, seen=seen))


def in_full(call: Called, output: ToolOutput, seconds: float) -> RenderableType:
    """All there is to a call."""
    shown: list[RenderableType] = [
        Text.assemble((call.name, "bold"), (f"  {lasted(seconds)}", "dim")),
        Padding(Text(_given(call.input), style="dim"), (0, 0, 0, 2)),
    ]
    shown += [
        Group(*diff_lines(fact.diff, MANY_LINES)) for fact in output.facts if isinstance(fact, FileChanged)
    ]
    words = _limited(clean(text_of(output)), MANY_LINES)
    shown.append(
        Padding(Text(words, style="red" if output.is_error else "", overflow="fold"), (0, 0, 0, 2))
    )
    return Group(*shown)


def text_of(output: ToolOutput) -> str:
    """The words of a result."""
    if isinstance(output.content, str):
        return output.content
    return "\n".join(str(block.get("text", f"({block.get('type', 'block')})")) for block in output.content)


def seen(event: Mentioned) -> str:
    """How much there is to see at a path the user mentioned."""
    if not isinstance(event.output.content, str):
        return "a picture"
    lines = event.output.content.splitlines()
    if lines and lines[-1].startswith("(lines "):
        return lines[-1][1:].partition(";")[0]
    return plural(len(lines), "entry", "entries") if event.folder else plural(len(lines), "line")


def diff_lines(diff: str, most: int) -> Iterator[Text]:
    """A unified diff with line numbers; what came and what went keeps its sign."""
    old = new = 0
    lines = [line for line in clean(diff).split("\n") if not line.startswith(("--- ", "+++ "))]
    for line in lines[:most]:
        if line.startswith("@@"):
            old, new = _places(line)
            continue
        sign = line[:1]
        if sign == "\\":
            yield Text(f"        {line}", style="dim")
            continue
        number = old if sign == "-" else new
        style = {"+": "green", "-": "red"}.get(sign, "dim")
        yield Text(f"  {number:>5} {line}", style=style, overflow="fold")
        old, new = old + (sign != "+"), new + (sign != "-")
    if len(lines) > most:
        yield Text(f"        … {plural(len(lines) - most, 'more line')}", style="dim")


def _places(header: str) -> tuple[int, int]:
    """Where a stretch begins, before and after."""
    try:
        before, after = header.split()[1:3]
        return int(before[1:].split(",")[0]), int(after[1:].split(",")[0])
    except ValueError:
        return 1, 1


def _came(output: ToolOutput) -> Iterator[str]:
    """What came of a call, in figures."""
    if output.is_error:
        return
    known = False
    for fact in output.facts:
        match fact:
            case FileRead(again=again):
                yield "unchanged" if again else _lines(text_of(output))
            case FileChanged(added=added, removed=removed, created=created):
                yield f"new, +{added}" if created else f"+{added} -{removed}"
            case CommandRan(code=code, problem=problem):
                yield problem or (f"exit {code}" if code else _lines(text_of(output)))
            case TaskChanged(task=task, state=state):
                yield f"{task} {state}"
            case TodosChanged(open=left, done=done):
                yield f"{left} to do, {done} done"
            case _:
                continue
        known = True
    if not known:
        yield _lines(text_of(output))


def _lines(text: str) -> str:
    return plural(len(text.splitlines()), "line") if text.strip() else "no output"


def _at_once(output: ToolOutput, signs: Signs, width: int, *, seen: bool) -> Iterator[RenderableType]:
    if output.is_error:
        lines = [line.strip() for line in clean(text_of(output)).splitlines() if line.strip()]
        for line in lines if len(lines) <= 3 else [lines[0], *lines[-2:]]:
            yield Text(f"  {signs.bar} {fitted(line, max(8, width - 5), signs.cut)}", style="red")
        return
    for fact in output.facts:
        if isinstance(fact, FileChanged) and not seen:
            yield from diff_lines(fact.diff, FEW_LINES)
        elif isinstance(fact, TodosChanged):
            yield Text(_indented(clean(text_of(output)).splitlines()), overflow="fold")


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def _given(given: Any) -> str:
    if not isinstance(given, dict):
        return one_line(str(given), 2_000)
    return "\n".join(f"{name}: {_value(value)}" for name, value in given.items()) or "(nothing)"


def _value(value: Any) -> str:
    return clean(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _limited(text: str, most: int) -> str:
    lines = text.split("\n")
    if len(lines) <= most:
        return text
    return "\n".join([*lines[:most], f"… {plural(len(lines) - most, 'more line')}"])
