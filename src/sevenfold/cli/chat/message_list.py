"""`/compact` and `/rewind`: pick one of the user's messages to summarise from or up to it, or to rewind to before it.

A rewind restores the conversation, the files the agent has changed since, or both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.console import Group
from rich.text import Text

from sevenfold.agent.checkpoints import RestorePlan
from sevenfold.cli.chat import history
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.lines import diff_lines
from sevenfold.cli.chat.menu import Menu, MenuItem
from sevenfold.cli.text import clean, money, one_line, parse_time, plural, short_count
from sevenfold.errors import InputError, Refused, SevenfoldError
from sevenfold.layers.compact.compaction import Preview
from sevenfold.layers.compact.scope import Span
from sevenfold.session.results import Wishes

SPANS: tuple[tuple[Span, str, str], ...] = (
    ("from", "Summarise from here", "f"),
    ("up_to", "Summarise up to here", "u"),
)
_PART = re.compile(r"(from|up to)(?:\s+(\d+)(?:\s+(.+))?)?", re.IGNORECASE | re.DOTALL)
"""Arguments of `/compact` that name a part of the conversation; any other arguments are instructions."""


def compact(chat: Chat, arguments: str) -> None:
    """Compact the whole conversation, or the part from a message on or up to one."""
    wish = Wishes()
    instructions = arguments
    if part := _PART.fullmatch(arguments):
        span = part[1].lower()
        instructions = part[3] or ""
        point = _chosen_point(chat, span, part[2])
        if point is None:
            return
        wish = Wishes(span="from" if span == "from" else "up_to", record=point.record)
        preview = chat.agent.session.compact_preview(instructions, **wish)
        title = f"Summarise {plural(preview.summarised, 'record')}? {_price(preview)}."
        if not chat.ask(Menu(title, (MenuItem("Yes", "y", value=True), MenuItem("No", "n")))):
            return
    _summarise(chat, instructions, wish)


def _summarise(chat: Chat, instructions: str, wish: Wishes) -> None:
    def work() -> None:
        done = chat.agent.compact(instructions, **wish)
        if done is None:
            chat.say("warning", "a hook or listener vetoed the compaction; nothing changed")
        elif not done.made:
            chat.say("warning", f"{done.line}; other ways: {', or '.join(done.ways)}")

    chat.run_interruptible("compacting", work)


def _chosen_point(chat: Chat, span: str, number: str | None) -> history.RewindPoint | None:
    """The message at which a part begins or ends, by number (1 is the last) or from a menu; None if none is chosen."""
    points = [point for point in _points(chat) if not point.compacted]
    if not points:
        raise Refused("there is nothing to compact: no message was sent yet")
    most = len(points)
    if number and not 1 <= int(number) <= most:
        raise InputError(f"there is no message {number}: 1 is your last message, {most} the first in view")
    return points[int(number) - 1] if number else _choose(chat, f"Summarise {span} which message?", points)


def _price(preview: Preview) -> str:
    """What summarising a part would free and cost, including tokens that have to be written to the cache again."""
    hidden = short_count(preview.tokens_hidden)
    summary = short_count(preview.tokens_summary)
    freed = f"{hidden} tokens become at most {summary}"
    costs = "cost unknown" if preview.usd is None else f"about {money(preview.usd)} with the next request"
    return f"{freed}; {costs}, which writes {short_count(preview.written)} tokens to the cache again"


def rewind(chat: Chat, arguments: str) -> None:
    """Rewind to before one of the user's messages, which can then be edited and sent again; or summarise a part."""
    points = _points(chat)
    if not points:
        raise Refused("there is nothing to rewind: no message was sent yet")
    point = _choose(chat, "Go back to before which message?", points)
    if point is None:
        return
    chosen: Any = "back"
    if parts := _parts(chat, point):
        back = MenuItem("Go back to before it", "b", value="back")
        chosen = chat.ask(Menu(f"{one_line(point.words, 60)}: do what?", (back, *parts)))
    if chosen == "back":
        _go_back(chat, point)
    elif chosen is not None:
        _summarise(chat, "", chosen)


def _parts(chat: Chat, point: history.RewindPoint) -> list[MenuItem]:
    """Menu items for the parts, from a message on or up to it, that can be summarised, each with its price."""
    found = []
    for span, label, key in SPANS if not point.compacted else ():
        wish = Wishes(span=span, record=point.record)
        try:
            price = _price(chat.agent.session.compact_preview("", **wish))
        except SevenfoldError:
            continue  # there is nothing to summarise in that part
        found.append(MenuItem(label, key, price, value=wish))
    return found


def _points(chat: Chat) -> list[history.RewindPoint]:
    """The user's messages, the newest first."""
    transcript = chat.agent.session.conversation.transcript
    return history.rewind_points(transcript.log, transcript.view)


def _choose(chat: Chat, title: str, points: list[history.RewindPoint]) -> history.RewindPoint | None:
    now = datetime.now()
    items = (MenuItem(_first_line(point.words), before=_when(point, now), value=point) for point in points)
    chosen: history.RewindPoint | None = chat.ask(Menu(title, tuple(items)))
    return chosen


def _first_line(words: str) -> str:
    lines = [line for line in words.splitlines() if line.strip()]
    more = f" (+{plural(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
    return one_line(lines[0], 200) + more


def _when(point: history.RewindPoint, now: datetime) -> str:
    """The time of a message, with the date if it was not sent today, and whether it was compacted."""
    said = parse_time(point.at)
    if said is None:
        return ""
    said = said.astimezone().replace(tzinfo=None)
    shown = f"{said:%H:%M}" if said.date() == now.date() else f"{said:%Y-%m-%d %H:%M}"
    return f"{shown}, compacted" if point.compacted else shown


# -- rewinding -------------------------------------------------------------------------------

MOST_LINES = 200
"""Lines shown of all diffs together."""
MOST_NAMES = 5
CHOICES = (
    MenuItem("Both: conversation and files", "b", value=("conversation", "files")),
    MenuItem("Conversation only", "c", value=("conversation",)),
    MenuItem("Files only", "f", value=("files",)),
)
RESTORED = (
    "[The user restored these files to what they were before an earlier message: {names}. Read them again.]"
)


def _go_back(chat: Chat, point: history.RewindPoint) -> None:
    """Show the files the agent has changed since a message, ask what to rewind, and do it."""
    try:
        plan = chat.agent.restore_plan(point.record)
    except Refused:
        plan = RestorePlan()  # the user has switched checkpoints off
    parts: tuple[str, ...] = ("conversation",)
    if plan.files or plan.lost:
        _show(chat, plan)
        title = "Rewind the conversation? The files that changed since cannot be restored."
        if plan.files:
            title = f"Rewind what? The agent has changed {plural(len(plan.files), 'file')} since."
        parts = chat.ask(Menu(title, CHOICES if plan.files else CHOICES[1:2])) or ()
    if "files" in parts:
        _restore(chat, plan, told="conversation" in parts)
    if "conversation" in parts:
        chat.agent.session.rewind(point.before)
        chat.update()
        whole = ", to before the compaction" if point.compacted else ""
        chat.say("layer", f"rewound {plural(point.after, 'record')}{whole}; the transcript keeps them")
        chat.screen.suggest(point.words)


def _show(chat: Chat, plan: RestorePlan) -> None:
    checkpoints = chat.agent.assembly.checkpoints
    assert checkpoints is not None
    parts: list[Text] = []
    for file in plan.files:
        deed = "remove" if file.after is None else "bring back" if file.before is None else "restore"
        parts.append(Text(f"{deed} {clean(file.path)}", style="bold"))
        lines = "".join(checkpoints.difference(RestorePlan((file,))))
        parts += diff_lines(lines, max(3, MOST_LINES // len(plan.files)))
    notes = [f"cannot be restored: {clean(path)} ({why})" for path, why in plan.lost.items()]
    notes += [clean(checkpoints.problem)] if checkpoints.problem else []
    chat.screen.show(Group(*parts, *(Text(note, style="yellow") for note in notes)))


def _kept_back(chat: Chat, plan: RestorePlan) -> Sequence[str]:
    """Files for which the plan needs the user's consent and the user refuses it."""
    if not plan.ask:
        return ()
    for path, why in plan.ask.items():
        chat.say("warning", f"{path}: {why}")
    title = f"Restore {_names(list(plan.ask))} too?"
    no = MenuItem("No, leave as they are", "n")
    yes = MenuItem("Yes, restore", "y", value=True)
    return () if chat.ask(Menu(title, (no, yes))) else tuple(plan.ask)


def _restore(chat: Chat, plan: RestorePlan, *, told: bool) -> None:
    but = _kept_back(chat, plan)
    failed = chat.agent.restore(plan, but=but)
    done = [file for file in plan.files if file.path not in failed and file.path not in but]
    for deed, gone in (("restored", False), ("removed", True)):
        if paths := [file.path for file in done if (file.after is None) is gone]:
            chat.say("layer", f"{deed} {_names(paths)}")
    if done and not told:
        # Otherwise the model continues as if its changes were still there.
        chat.agent.session.conversation.note(RESTORED.format(names=", ".join(file.path for file in done)))
    for path, why in failed.items():
        chat.say("warning", f"{path} was not restored: {why}")


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MOST_NAMES} more" if len(paths) > MOST_NAMES else ""
    return f"{', '.join(paths[:MOST_NAMES])}{more}"
