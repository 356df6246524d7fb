"""What the agent asks its user: permission for a call, answers only the user has, approval of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from sevenfold.agent.executor import Consented
from sevenfold.agent.tools.edit import diff
from sevenfold.cli.chat.lines import diff_lines
from sevenfold.cli.chat.menu import Menu, MenuAnswer, MenuItem
from sevenfold.cli.text import clean

if TYPE_CHECKING:
    from sevenfold.agent.executor import Asked
    from sevenfold.agent.permissions.engine import Mode
    from sevenfold.agent.tools import context

LARGEST_READ = 2_000_000
"""Bytes of a file that is read to show what a write would change."""
_LINES = 40
_VERBS = {"read": "Read", "write": "Change", "run": "Run", "fetch": "Fetch", "call": "Use"}


def permission_menu(asked: Asked, folder: str = "") -> Menu:
    """Ask for permission; paths are shown relative to the folder."""
    request, rules = asked.request, asked.decision.would_allow
    what = {"run": "this command", "call": asked.call.name}.get(request.action, request.subject)
    items = [MenuItem("Yes, this once", "y")]
    if rules:
        what_rules = f"{', '.join(rules)}; also after a resume, but in no other session"
        items.append(MenuItem("Yes, and don't ask again in this session", "a", what_rules))
    items.append(MenuItem("No, and say why", "n", words="what it should do instead (may be empty)"))
    asker = f"Agent {asked.agent}: " if asked.agent else ""
    title = f"{asker}{_VERBS.get(request.action, 'Use')} {what}? {asked.decision.reason}"
    return Menu(title.replace(f"{folder}/", "") if folder else title, tuple(items))


def read_permission(asked: Asked, answer: MenuAnswer | None) -> Consented:
    """What an answer to `permission_menu` means."""
    match answer:
        case MenuAnswer(places=(0,)):
            return Consented(True)
        case MenuAnswer(places=(1,)) if asked.decision.would_allow:
            return Consented(True, always=True)
        case MenuAnswer(words=words):
            return Consented(False, remark=words)
        case _:
            return Consented(False)


def preview(asked: Asked) -> Iterator[RenderableType]:
    """What the user must see to decide: the whole command, or the change to a file."""
    given = asked.call.input if isinstance(asked.call.input, dict) else {}
    match asked.request.action:
        case "run":
            for number, line in enumerate(clean(asked.request.subject).split("\n")):
                yield Text(f"  {'$' if number == 0 else ' '} {line}", style="bold", overflow="fold")
            for word in asked.request.outside:
                yield Text(f"    outside the workspace: {clean(word)}", style="yellow")
        case "write":
            old, new = _change(given, asked.request.subject)
            yield from diff_lines(diff(old, new, asked.request.subject).text, _LINES)
            if asked.request.named:
                yield Text(f"    {clean(asked.request.named)} is a link to it", style="yellow")
        case "call":
            for name, value in given.items():
                yield Text(f"  {clean(str(name))}: {clean(str(value))[:2_000]}", overflow="fold")


def _change(given: dict[str, object], path: str) -> tuple[str, str]:
    """The file as it is and as it would be; if the old text is not in it, the texts of the call."""
    before, old, new = _content(path), given.get("old"), str(given.get("new", ""))
    if not isinstance(old, str):
        return before, str(given.get("content", ""))
    if not old or old not in before:
        return f"{old}\n", f"{new}\n"
    return before, before.replace(old, new, -1 if given.get("replace_all") else 1)


def _content(path: str) -> str:
    try:
        file = Path(path)
        small = file.is_file() and file.stat().st_size <= LARGEST_READ
        return file.read_text("utf-8", "replace") if small else ""
    except OSError:
        return ""


# -- questions of the model ------------------------------------------------------------------


def model_menu(asked: context.Question) -> Menu:
    """A question the model asks."""
    items = tuple(MenuItem(option.label, "", option.description) for option in asked.options)
    other = MenuItem("Something else", "", words="your answer")
    return Menu(asked.question, (*items, other) if items else (), asked.several)


def read_model_answer(asked: context.Question, answer: MenuAnswer) -> str:
    """The user's answer to the model, in words."""
    labels = [asked.options[place].label for place in answer.places if place < len(asked.options)]
    return ", ".join([*labels, *([answer.words] if answer.words else [])]) or "(no answer)"


# -- plans -----------------------------------------------------------------------------------

PLAN_READY = "PlanReady"
"""The tool that hands over a plan."""
_APPROVALS: dict[Mode, MenuItem] = {
    "ask": MenuItem("Yes, and ask before each change", "y"),
    "accept_edits": MenuItem("Yes, and change files here without asking", "a"),
    "autonomous": MenuItem("Yes, and work autonomously as before", "b"),
}


def plan_menu(before: Mode) -> Menu:
    """Ask whether to carry out a plan, and in which mode; ``before`` is the mode in which planning began."""
    modes = _modes_after(before)
    no = MenuItem("No, keep planning", "n", words="what should be different (may be empty)")
    items = (*(_APPROVALS[mode] for mode in modes), no)
    return Menu("Carry out this plan?", items, start=modes.index(before) if len(modes) > 2 else 0)


def read_plan_answer(before: Mode, answer: MenuAnswer | None) -> tuple[Consented, Mode]:
    """What an answer to `plan_menu` means, and the mode that follows."""
    modes = _modes_after(before)
    if answer is not None and 0 <= answer.place < len(modes):
        return Consented(True), modes[answer.place]
    return Consented(False, remark=answer.words if answer else ""), before


def _modes_after(before: Mode) -> tuple[Mode, ...]:
    """Autonomy is offered only if it was on before."""
    return ("ask", "accept_edits", "autonomous") if before == "autonomous" else ("ask", "accept_edits")
