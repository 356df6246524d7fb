"""Tool calls as lines: what is asked for, how it stands, how long it took; and what is behind the line.

A call is one line until somebody wants more. What a user wants to see at once comes with it: the difference an edit
made, the list of things to do, the first words of an error.

What the engine tells, as lines: each layer that acts gets one, with all there is to know behind it.

What is under way: words that are still coming, calls that are still running, messages that wait.

The agent's thread changes it, the screen's thread draws it. Every change puts a new value in the place of the old one,
so whoever draws sees one or the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from sevenfold import events
from sevenfold.agent.events import Mentioned
from sevenfold.agent.tools.output import (
    CommandRan,
    FileChanged,
    FileRead,
    TaskChanged,
    TodosChanged,
    ToolOutput,
)
from sevenfold.cli.chat.screen import Signs
from sevenfold.cli.text import cause, clean, fit, money, one_line, plural, short_count, stopwatch
from sevenfold.events import Event
from sevenfold.lab.profile.context import label_of
from sevenfold.session.results import ToolCall

# -- calls


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
    time = f"{signs.dot}{stopwatch(seconds)}" if seconds >= _LEAST_SHOWN else ""
    head = f"{call.name} {about(call, folder)}"
    line = Text.assemble((f"{sign} ", "cyan"), fit(head, max(8, width - 3 - len(time))), (time, "dim"))
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
        parts.append(stopwatch(seconds))
    tail = signs.dot + signs.dot.join([*filter(None, parts), f"[{number}]"])
    room = max(8, width - 3 - len(tail))
    head = fit(f"{call.name} {about(call, folder)}".rstrip(), room, signs.cut)
    line = Text.assemble((f"{sign} ", f"bold {style}"), head, (tail, "red" if failed else "dim"))
    line.no_wrap = True
    return Group(line, *_at_once(output, signs, width, seen=seen))


def in_full(call: Called, output: ToolOutput, seconds: float) -> RenderableType:
    """All there is to a call."""
    shown: list[RenderableType] = [
        Text.assemble((call.name, "bold"), (f"  {stopwatch(seconds)}", "dim")),
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
            yield Text(f"  {signs.bar} {fit(line, max(8, width - 5), signs.cut)}", style="red")
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


# -- event_lines


Level = Literal["layer", "note", "warning", "error"]
STYLES = {"layer": "magenta", "note": "dim", "warning": "yellow", "error": "red"}


COMPACTED = "compact"
"""Why an epoch opens with a compaction, which has a line of its own."""


class Told(Struct, frozen=True):
    """A line, and what is behind it."""

    level: Level
    line: str
    detail: tuple[tuple[str, str], ...] = ()
    """Names and values."""


def told(event: Event) -> Told | None:
    """What to show of an event; None if it is of no concern to the user."""
    match event:
        case events.Acted():
            return _acted(event)
        case events.Compacted() if event.lost or event.invented or event.fires_again:
            return _compacted(event)
        case events.Vetoed():
            return Told("note", f"{event.layer} was kept from acting: {event.what} ({event.reason})")
        case events.SteppedAside(layer="breaker"):
            return Told("warning", event.reason)
        case events.SteppedAside(layer="notes", error=""):
            # They will be brought up to date another time, and nobody has to do anything about it.
            return None
        case events.SteppedAside(layer="rules"):
            return Told("warning", event.reason)
        case events.SteppedAside():
            level: Level = "warning" if event.error else "note"
            return Told(level, f"{event.layer} could not help: {event.reason}")
        case events.Failed() if event.again:
            return Told("warning", f"{event.reason} Trying again, changed.", (("error", event.error),))
        case events.CacheBroke() if not event.expected:
            return _broke(event)
        case events.EpochOpened() if event.drops_thinking and event.reason != COMPACTED:
            return Told(
                "note",
                f"earlier reasoning is left out from here on: {event.reason}",
                _pairs(epoch=event.epoch, cost=money(event.usd)),
            )
        case events.Repaired():
            return Told("note", f"sent mended: {event.what}", (("where", event.where),))
        case events.Masked():
            return Told("warning", f"{plural(event.count, 'secret')} masked ({', '.join(event.kinds)})")
        case events.Compacting(stage="compact_start"):
            return Told("note", "compacting…")
        case _:
            return None


def _acted(event: events.Acted) -> Told:
    freed = event.tokens_before - event.tokens_after
    figures = [f"{short_count(freed)} tokens freed"] if freed > 0 else []
    if event.usd and event.usd >= 0.005:
        figures.append(money(event.usd))
    undo = ["/undo takes it back"] if event.undoable and event.reference else []
    line = event.what if event.what.startswith(event.layer) else f"{event.layer}: {event.what}"
    if tail := ", ".join(figures + undo):
        line += f" ({tail})"
    return Told(
        "layer",
        one_line(line),
        _pairs(
            layer=f"{event.layer} ({event.mechanism})",
            what=event.what,
            why=event.why,
            items=str(event.items or ""),
            tokens=f"{event.tokens_before:,} → {event.tokens_after:,}" if event.tokens_before else "",
            cost=money(event.usd),
            decision=event.reference,
            undo=f"/undo {event.reference}" if undo else "cannot be undone",
        ),
    )


def _compacted(event: events.Compacted) -> Told:
    """Only what went wrong; that it happened was told already."""
    wrong = []
    if event.lost:
        wrong.append(f"{plural(event.lost, 'fact')} lost")
    if event.invented:
        wrong.append(f"{plural(event.invented, 'claim')} in the summary marked as not in the record")
    if event.fires_again:
        wrong.append("it is full again at once")
    return Told(
        "warning",
        f"compact: {', '.join(wrong)}",
        _pairs(
            engine=event.engine,
            not_used="; ".join(event.left),
            facts=f"{event.in_context} in context, {event.reachable} reachable, {event.lost} lost",
            restored=", ".join(event.restored),
            missed=", ".join(event.missed),
        ),
    )


def _broke(event: events.CacheBroke) -> Told:
    cost = "" if event.usd is None else f", {money(event.usd)}"
    return Told(
        "warning",
        f"cache lost: {cause(event.cause)} ({event.part}), {short_count(event.tokens)} tokens paid again{cost}",
        _pairs(cause=event.cause, part=event.part, diff=event.diff),
    )


def _pairs(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple((name.replace("_", " "), value) for name, value in values.items() if value)


# -- live


LONGEST_TAIL = 4_000
"""Characters of running output and thinking that are kept to show the end of."""


class Running(Struct, frozen=True):
    """A call that is being carried out."""

    call: ToolCall
    began: float
    last: str = ""


class Live(Struct, frozen=True):
    """What is under way."""

    doing: str = ""
    """In a word; empty: nothing is."""
    since: float = 0.0
    stage: str = ""
    """How far something is that takes its time, such as a compaction."""
    pending: str = ""
    """Of the answer, what is not printed yet."""
    thinking: str = ""
    preparing: str = ""
    """The tool whose input is being written."""
    running: Mapping[str, Running] = {}
    queued: tuple[str, ...] = ()
    stopping: bool = False

    def began(self, call: ToolCall, now: float) -> Live:
        """A call begins."""
        return replace(self, preparing="", running={**self.running, call.id: Running(call, now)})

    def progress(self, call: ToolCall, text: str) -> Live:
        """A call printed something."""
        one = self.running.get(call.id)
        if one is None:
            return self
        grown = replace(one, last=(one.last + text)[-LONGEST_TAIL:])
        return replace(self, running={**self.running, call.id: grown})

    def ended(self, call: ToolCall) -> Live:
        """A call has its result."""
        return replace(self, running={name: one for name, one in self.running.items() if name != call.id})

    def thought(self, words: str) -> Live:
        """Some reasoning came."""
        return replace(self, thinking=(self.thinking + words)[-LONGEST_TAIL:])


def drawn(live: Live, signs: Signs, width: int, now: float, folder: str = "") -> RenderableType | None:
    """What is under way, for the place above the input; None if nothing is."""
    parts: list[RenderableType] = []
    if live.pending.strip():
        # Loading Markdown takes a while, and nobody needs it to begin.
        from sevenfold.cli.chat.markdown import rendered

        parts.append(rendered(live.pending))
    parts += [
        running(one.call, now - one.began, one.last, signs=signs, width=width, folder=folder)
        for one in live.running.values()
    ]
    if live.doing:
        parts.append(_working(live, signs, width, now))
    parts += [
        Text(f"{signs.queued} queued: {one_line(text, max(8, width - 12), signs.cut)}", style="cyan")
        for text in live.queued
    ]
    return Group(*parts) if parts else None


def _working(live: Live, signs: Signs, width: int, now: float) -> Text:
    elapsed = now - live.since
    sign = signs.working[int(elapsed * 4) % len(signs.working)]
    line = Text.assemble((f"{sign} {_doing(live)}", "cyan"), (f"{signs.dot}{stopwatch(elapsed)}", "dim"))
    if not live.stopping:
        line.append(f"{signs.dot}Esc interrupts", style="dim")
    said = one_line(live.thinking.rstrip().rpartition("\n")[2], max(8, width - 5))
    return line.append(f"\n  {signs.bar} {said}", style="dim") if said else line


def _doing(live: Live) -> str:
    if live.stopping:
        return "stopping"
    if live.stage:
        return live.stage
    if live.thinking:
        return "thinking"
    return f"preparing {one_line(live.preparing, 30)}" if live.preparing else live.doing
