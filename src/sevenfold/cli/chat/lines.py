"""The lines of a chat: tool calls and their results, and the current activity.

A call takes one line until the user opens it. Below it come the parts a user wants to see at once: the diff of an edit,
the to-do list, an error, or the first lines of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from sevenfold.agent.agent_events import Mentioned
from sevenfold.agent.executor import LEFT, NOT_DONE
from sevenfold.agent.programs import STOPPED
from sevenfold.agent.tools import output as facts
from sevenfold.agent.tools.output import FileChanged, ToolOutput
from sevenfold.archive.profile.labels import label_of
from sevenfold.cli.chat.reports import wait_line
from sevenfold.cli.chat.screen import Signs, wrap
from sevenfold.cli.text import clean, fit, one_line, plural, stopwatch, whole_seconds
from sevenfold.conversation.request import ToolCall
from sevenfold.events import Waiting

FEW_LINES = 14
"""Lines of a diff shown below its call."""
FIRST_LINES = 3
"""Lines of a result shown below its call."""
ERROR_LINES = 30
"""Lines of an error shown below its call."""
MANY_LINES = 20_000
"""Lines of a result, and of each diff, shown when the user opens a call."""
_LEAST_SECONDS = 0.5
"""Shorter durations are not shown."""


class LineSpec(Struct, frozen=True):
    """What lines are drawn with."""

    signs: Signs
    width: int
    folder: str = ""
    """Paths are shown relative to it."""


# -- tool calls ------------------------------------------------------------------------------


def heading(call: ToolCall, folder: str) -> str:
    """The tool and the gist of its input; a path inside the folder is shown relative to it."""
    what = label_of(call.name, call.input).what
    if folder and what.startswith("/"):
        path = PurePath(what)
        what = str(path.relative_to(folder)) if path.is_relative_to(folder) else what
    return f"{call.name} {one_line(what)}".rstrip()


def running_line(call: ToolCall, seconds: float, last: str, spec: LineSpec) -> Text:
    """A call in progress, with the last line it printed."""
    time = f"{spec.signs.dot}{stopwatch(seconds)}" if seconds >= _LEAST_SECONDS else ""
    head = Text(fit(heading(call, spec.folder), max(8, spec.width - 3 - len(time))))
    return _moving(head, time, last, seconds, spec)


def _moving(head: Text, tail: str, last: str, seconds: float, spec: LineSpec) -> Text:
    """A line with a spinner, and below it the last line of a text."""
    signs = spec.signs
    sign = signs.working[int(seconds * 4) % len(signs.working)]
    line = Text.assemble((f"{sign} ", "cyan"), head, (tail, "dim"))
    said = one_line(last.rstrip().rpartition("\n")[2], max(8, spec.width - 5))
    return line.append(f"\n  {signs.bar} {said}", style="dim") if said else line


def result_lines(
    call: ToolCall, output: ToolOutput, seconds: float, spec: LineSpec, *, number: int, seen: bool = False
) -> RenderableType:
    """A call with the start of its result; with ``seen``, without the diff, which the user has seen already."""
    signs = spec.signs
    failed = output.is_error
    denied = any(isinstance(fact, facts.Denied) for fact in output.facts)
    sign, style = (signs.failed, "red") if failed else (signs.done, "green")
    if denied:
        sign = signs.denied
        style = "yellow"
    interrupted = _was_interrupted(output)
    if interrupted:
        sign = signs.denied
        style = "yellow"
    parts = ["denied" if denied else "interrupted" if interrupted else "failed"]
    if not failed:
        parts = [*filter(None, (_figure(fact, output) for fact in output.facts))] or [_lines(output)]
    if seconds >= _LEAST_SECONDS:
        parts.append(stopwatch(seconds))
    tail = signs.dot + signs.dot.join([*parts, f"[{number}]"])
    head = fit(heading(call, spec.folder), max(8, spec.width - 3 - len(tail)), signs.cut)
    line = Text.assemble((f"{sign} ", f"bold {style}"), head, (tail, style if failed else "dim"))
    line.no_wrap = True
    return Group(line, *_below(output, spec, style, seen=seen))


def _was_interrupted(output: ToolOutput) -> bool:
    """Whether the user stopped the call, so that nothing went wrong."""
    stopped = any(isinstance(fact, facts.CommandRan) and fact.problem == STOPPED for fact in output.facts)
    return stopped or output.text in (NOT_DONE, LEFT)


def full_call(call: ToolCall, output: ToolOutput, seconds: float) -> RenderableType:
    """A call with its whole input, diffs and result."""
    shown: list[RenderableType] = [
        Text.assemble((call.name, "bold"), (f"  {stopwatch(seconds)}", "dim")),
        Padding(Text(_input(call.input), style="dim"), (0, 0, 0, 2)),
    ]
    changes = (fact for fact in output.facts if isinstance(fact, FileChanged))
    shown += [Group(*diff_lines(fact.diff, MANY_LINES)) for fact in changes]
    lines = clean(output.text).split("\n")
    if len(lines) > MANY_LINES:
        lines = [*lines[:MANY_LINES], f"… {plural(len(lines) - MANY_LINES, 'more line')}"]
    words = Text("\n".join(lines), style="red" if output.is_error else "", overflow="fold")
    return Group(*shown, Padding(words, (0, 0, 0, 2)))


def _input(given: Any) -> str:
    if not isinstance(given, dict):
        return one_line(str(given), 2_000)
    lines = []
    for name, value in given.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        lines.append(f"{name}: {clean(text)}")
    return "\n".join(lines) or "(no input)"


def mention_size(event: Mentioned) -> str:
    """The size of a file or folder the user mentioned, in words."""
    if not isinstance(event.output.content, str):
        return "an image"
    lines = event.output.content.splitlines()
    if lines and lines[-1].startswith("(lines "):
        return lines[-1][1:].partition(";")[0]
    return plural(len(lines), "entry", "entries") if event.folder else plural(len(lines), "line")


def diff_lines(diff: str, limit: int) -> Iterator[Text]:
    """A unified diff with line numbers, at most ``limit`` lines of it; added and removed lines keep their signs."""
    old = new = 0
    lines = clean(diff).removesuffix("\n").split("\n")
    if lines[0].startswith("--- ") and lines[1:2] and lines[1].startswith("+++ "):
        lines = lines[2:]  # only at the start: a removed line that begins with "-- " looks the same
    for line in lines[:limit]:
        if line.startswith("@@"):
            old, new = _hunk_start(line)
            continue
        sign = line[:1]
        if sign == "\\":
            yield Text(f"        {line}", style="dim")
            continue
        number = old if sign == "-" else new
        style = {"+": "green", "-": "red"}.get(sign, "dim")
        yield Text(f"  {number:>5} {line}", style=style, overflow="fold")
        old = old + (sign != "+")
        new = new + (sign != "-")
    if len(lines) > limit:
        yield Text(f"        … {plural(len(lines) - limit, 'more line')}", style="dim")


def _hunk_start(header: str) -> tuple[int, int]:
    try:
        before, after = header.split()[1:3]
        return int(before[1:].split(",")[0]), int(after[1:].split(",")[0])
    except ValueError:
        return 1, 1


def _figure(fact: facts.Fact, output: ToolOutput) -> str:
    """The outcome of a call in a few words or figures, from one fact; empty if the fact says nothing about it."""
    match fact:
        case facts.FileRead(again=again):
            return "unchanged" if again else _lines(output)
        case FileChanged(added=added, removed=removed, created=created):
            return f"new, +{added}" if created else f"+{added} -{removed}"
        case facts.CommandRan(code=code, problem=problem):
            return problem or (f"exit {code}" if code else _lines(output))
        case facts.TaskChanged(task=task, state=state):
            return f"{task} {state}"
        case facts.TodosChanged(open=left, done=done):
            return f"{left} to do, {done} done"
        case facts.UserAnswered(answers=answers):
            return plural(answers, "answer")
        case _:
            return ""


def _lines(output: ToolOutput) -> str:
    text = output.text
    return plural(len(text.splitlines()), "line") if text.strip() else "no output"


def _below(output: ToolOutput, spec: LineSpec, style: str, *, seen: bool) -> Iterator[RenderableType]:
    lines = [line.rstrip() for line in clean(output.text).splitlines() if line.strip()]
    if output.is_error:
        yield from _barred(lines, ERROR_LINES, spec, style)
        return
    if any(isinstance(fact, facts.TodosChanged) for fact in output.facts):
        yield Text("\n".join(f"  {line}" for line in lines), overflow="fold")
        return
    if any(isinstance(fact, facts.UserAnswered) for fact in output.facts):
        return  # each answer was printed when it was given
    changes = [fact for fact in output.facts if isinstance(fact, FileChanged)]
    for fact in changes if not seen else ():
        yield from diff_lines(fact.diff, FEW_LINES)
    if not changes:
        yield from _barred(lines, FIRST_LINES, spec, "dim")


def _barred(lines: Sequence[str], limit: int, spec: LineSpec, style: str) -> Iterator[Text]:
    """The first lines, cut to the width; for an error also the last, and wrapped. A line counts those left out."""
    signs = spec.signs
    room = max(8, spec.width - 5)
    last = 0
    if style == "dim":
        lines = [fit(line, room, signs.cut) for line in lines]
    else:
        lines = [piece for line in lines for piece in wrap(line, room)]
        last = limit // 2
    hidden = len(lines) - limit
    gap = f"{signs.cut} {plural(hidden, 'more line')}"
    for line in lines if hidden <= 1 else [*lines[: limit - last], gap, *lines[len(lines) - last :]]:
        yield Text(f"  {signs.bar} {line}", style=style)


# -- the current activity --------------------------------------------------------------------

LONGEST_TAIL = 4_000
"""Characters kept of running output and of thinking; only their end is shown."""


class RunningCall(Struct, frozen=True):
    """A call in progress."""

    call: ToolCall
    began: float
    last: str = ""


QUIET_AFTER = 15.0
"""After how many seconds without a piece of the answer the user sees how long nothing has arrived."""


class Activity(Struct, frozen=True):
    """The current activity: text that is arriving, calls in progress, queued messages.

    It is immutable: worker threads replace it as a whole, so the drawing thread never sees half a change.
    """

    doing: str = ""
    """What is being done, such as ``working`` or ``compacting``; empty if nothing is."""
    since: float = 0.0
    stage: str = ""
    """The stage of something long, such as a compaction."""
    pending: str = ""
    """The part of the answer that is not printed yet."""
    thinking: str = ""
    preparing: str = ""
    """The tool whose input is arriving."""
    running: Mapping[str, RunningCall] = {}
    queued: tuple[str, ...] = ()
    stopping: bool = False
    waiting: Waiting | None = None
    """The pause before a request is sent again; None if there is none."""
    waits_until: float = 0.0
    """When the pause ends, by the chat's clock."""
    heard: float | None = None
    """When the request was sent, or a piece of its answer last arrived; None if no answer is awaited."""

    def began(self, call: ToolCall, now: float) -> Activity:
        """The activity after a call has started."""
        return replace(self, preparing="", running={**self.running, call.id: RunningCall(call, now)})

    def progress(self, call: ToolCall, text: str) -> Activity:
        """The activity after a call has printed something."""
        live_call = self.running.get(call.id)
        if live_call is None:
            return self
        grown = replace(live_call, last=(live_call.last + text)[-LONGEST_TAIL:])
        return replace(self, running={**self.running, call.id: grown})

    def ended(self, call: ToolCall) -> Activity:
        """The activity after a call has ended."""
        return replace(
            self,
            running={name: live_call for name, live_call in self.running.items() if name != call.id},
        )

    def thought(self, words: str) -> Activity:
        """The activity after more thinking has arrived."""
        return replace(self, thinking=(self.thinking + words)[-LONGEST_TAIL:])


def draw_activity(
    live: Activity, drawn: Sequence[RenderableType], spec: LineSpec, now: float
) -> RenderableType | None:
    """The activity, as shown above the input and below ``drawn``, the drawn part of the answer; None if empty."""
    signs = spec.signs
    parts = [*drawn]
    parts += [
        running_line(live_call.call, now - live_call.began, live_call.last, spec)
        for live_call in live.running.values()
    ]
    if live.waiting is not None and not live.stopping:
        line = wait_line(live.waiting, live.waits_until - now, signs.dot)
        parts.append(
            Text(fit(f"{signs.warning} {line}", max(8, spec.width - 1), signs.cut), style="yellow")
        )
    elif live.doing:
        elapsed = now - live.since
        tail = f"{signs.dot}{stopwatch(elapsed)}"
        if live.heard is not None and now - live.heard >= QUIET_AFTER:
            tail += f"{signs.dot}nothing new for {whole_seconds(now - live.heard)}"
        if not live.stopping:
            tail += f"{signs.dot}Esc interrupts"
        doing = Text(_doing(live), style="cyan")
        parts.append(_moving(doing, tail, live.thinking, elapsed, spec))
    queued = (one_line(text, max(8, spec.width - 12), signs.cut) for text in live.queued)
    parts += [Text(f"{signs.queued} queued: {text}", style="cyan") for text in queued]
    return Group(*parts) if parts else None


def _doing(live: Activity) -> str:
    if live.stopping:
        return "stopping"
    if live.stage:
        return live.stage
    if live.thinking:
        return "thinking"
    return f"preparing {one_line(live.preparing, 30)}" if live.preparing else live.doing
