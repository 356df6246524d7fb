"""`/rewind`: go back to before a message, with the conversation, the files the agent changed since, or both."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from sevenfold.agent.checkpoints import RestorePlan
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.history import RewindPoint
from sevenfold.cli.chat.lines import diff_lines
from sevenfold.cli.chat.menu import Menu, MenuItem
from sevenfold.cli.text import clean, plural
from sevenfold.errors import Refused

MOST_LINES = 200
"""Lines of the difference that are shown."""
MOST_NAMES = 5
CHOICES = (
    MenuItem("Both: conversation and files", "b", value=("conversation", "files")),
    MenuItem("Conversation only", "c", value=("conversation",)),
    MenuItem("Files only", "f", value=("files",)),
)
RESTORED = (
    "[The user restored these files to what they were before an earlier message: {names}. Read them again.]"
)


def rewind_to(chat: Chat, point: RewindPoint) -> None:
    """Show what the agent changed since a message, ask what to take back, and do it."""
    plan = _plan(chat, point)
    parts: tuple[str, ...] = ("conversation",)
    if plan is not None and (plan.files or plan.lost):
        _show(chat, plan)
        parts = chat.ask(Menu(_title(plan), CHOICES if plan.files else CHOICES[1:2])) or ()
    if plan is not None and "files" in parts:
        _restore(chat, plan, _kept_back(chat, plan), told="conversation" in parts)
    if "conversation" in parts:
        _rewind(chat, point)


def _plan(chat: Chat, point: RewindPoint) -> RestorePlan | None:
    try:
        return chat.agent.restore_plan(point.record)
    except Refused:
        return None  # the user has switched checkpoints off


def _title(plan: RestorePlan) -> str:
    if not plan.files:
        return "Rewind the conversation? The files that changed since cannot be restored."
    return f"Rewind what? The agent has changed {plural(len(plan.files), 'file')} since."


def _show(chat: Chat, plan: RestorePlan) -> None:
    checkpoints = chat.agent.assembly.checkpoints
    assert checkpoints is not None
    parts: list[Text] = []
    for file in plan.files:
        deed = "remove" if file.after is None else "bring back" if file.before is None else "restore"
        parts.append(Text(f"{deed} {clean(file.path)}", style="bold"))
        lines = "".join(checkpoints.difference(RestorePlan((file,))))
        parts += diff_lines(lines, max(3, MOST_LINES // len(plan.files)))
    parts += [
        Text(f"cannot be restored: {clean(path)} ({why})", style="yellow")
        for path, why in plan.lost.items()
    ]
    if checkpoints.problem:
        parts.append(Text(clean(checkpoints.problem), style="yellow"))
    chat.screen.show(Group(*parts))


def _kept_back(chat: Chat, plan: RestorePlan) -> Sequence[str]:
    """Files that stay as they are because the user says so."""
    if not plan.ask:
        return ()
    for path, why in plan.ask.items():
        chat.say("warning", f"{path}: {why}")
    title = f"Restore {_names(list(plan.ask))} too?"
    no, yes = MenuItem("No, leave as they are", "n"), MenuItem("Yes, restore", "y", value=True)
    return () if chat.ask(Menu(title, (no, yes))) else tuple(plan.ask)


def _restore(chat: Chat, plan: RestorePlan, but: Sequence[str], *, told: bool) -> None:
    failed = chat.agent.restore(plan, but=but)
    done = [file for file in plan.files if file.path not in failed and file.path not in but]
    removed = [file.path for file in done if file.after is None]
    restored = [file.path for file in done if file.after is not None]
    for deed, paths in (("restored", restored), ("removed", removed)):
        if paths:
            chat.say("layer", f"{deed} {_names(paths)}")
    if done and not told:
        # Otherwise the model goes on as if its changes were still there.
        chat.agent.session.conversation.note(RESTORED.format(names=", ".join(file.path for file in done)))
    for path, why in failed.items():
        chat.say("warning", f"{path} was not restored: {why}")


def _rewind(chat: Chat, point: RewindPoint) -> None:
    chat.agent.session.rewind(point.before)
    chat.update()
    whole = ", to before the compaction" if point.compacted else ""
    chat.say("layer", f"rewound {plural(point.after, 'record')}{whole}; the transcript keeps them")
    chat.screen.suggest(point.words)


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MOST_NAMES} more" if len(paths) > MOST_NAMES else ""
    return f"{', '.join(paths[:MOST_NAMES])}{more}"
