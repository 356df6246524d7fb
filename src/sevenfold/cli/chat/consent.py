"""What the agent asks the user: permission for a tool call, answers to the model's questions, approval of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from sevenfold.agent.executor import Asked
from sevenfold.agent.permissions.engine import Mode
from sevenfold.agent.tools import context
from sevenfold.agent.tools.edit import diff, replaced
from sevenfold.cli.chat.kept_rules import rules_file
from sevenfold.cli.chat.lines import diff_lines, heading
from sevenfold.cli.chat.menu import Menu, MenuAnswer, MenuItem
from sevenfold.cli.chat.screen import Signs
from sevenfold.cli.text import clean
from sevenfold.errors import Refused

LARGEST_READ = 2_000_000
"""Bytes of the largest file that is read to show what a write would change."""
_LINES = 40
_VERBS = {"read": "Read", "write": "Change", "run": "Run", "fetch": "Fetch", "call": "Use"}


def permission_menu(question: Asked, folder: str = "") -> Menu:
    """The menu that asks for permission: once, in this session, or permanently. Paths are relative to the folder."""
    request = question.request
    rules = ", ".join(question.decision.would_allow)
    what = {"run": "this command", "call": question.call.name}.get(request.action, request.subject)
    items = [MenuItem("Yes, this once", "y", value="once")]
    if rules:
        always = f"{rules}; also after a resume, but in no other session"
        for_good = f"{rules}; kept in {rules_file()} until /permissions revoke"
        items.append(MenuItem("Yes, and don't ask again in this session", "a", always, value="always"))
        items.append(MenuItem("Yes, and never ask again in this folder", "f", for_good, value="for good"))
    items.append(MenuItem("No, and say why", "n", prompt="what it should do instead (may be empty)"))
    asker = f"Agent {question.agent}: " if question.agent else ""
    title = f"{asker}{_VERBS.get(request.action, 'Use')} {what}? {question.decision.reason}"
    return Menu(title.replace(f"{folder}/", "") if folder else title, tuple(items))


def preview(question: Asked, folder: str, signs: Signs) -> Iterator[RenderableType]:
    """What the user must see to decide: the call with its whole command, its change to a file, or its input."""
    given = question.call.input if isinstance(question.call.input, dict) else {}
    what = question.call.name if question.request.action == "run" else heading(question.call, folder)
    yield Text.assemble((f"{signs.asked} ", "bold yellow"), what)
    match question.request.action:
        case "run":
            for number, line in enumerate(clean(question.request.subject).split("\n")):
                yield Text(f"  {'$' if number == 0 else ' '} {line}", style="bold", overflow="fold")
            for word in question.request.outside:
                yield Text(f"    outside the workspace: {clean(word)}", style="yellow")
        case "write":
            yield from _change(given, question.request.subject)
            if question.request.named:
                yield Text(f"    {clean(question.request.named)} is a link to it", style="yellow")
        case "call":
            for name, value in given.items():
                yield Text(f"  {clean(str(name))}: {clean(str(value))[:2_000]}", overflow="fold")


def _change(arguments: dict[str, object], path: str) -> Iterator[Text]:
    """The diff of the change a call would make to a file, or why it would fail."""
    before = _content(path)
    old = arguments.get("old")
    after = str(arguments.get("content", "")).encode(errors="replace")
    if isinstance(old, str):
        texts = (one.encode(errors="replace") for one in (old, str(arguments.get("new", ""))))
        try:
            after = replaced(before, *texts, replace_all=bool(arguments.get("replace_all")), path=path)
        except Refused as error:
            yield Text(f"    {clean(str(error))}", style="yellow")
            return
    change = diff(before.decode(errors="replace"), after.decode(errors="replace"), path)
    yield from diff_lines(change.text, _LINES)


def _content(path: str) -> bytes:
    try:
        file = Path(path)
        return file.read_bytes() if file.is_file() and file.stat().st_size <= LARGEST_READ else b""
    except OSError:
        return b""


# -- questions of the model ------------------------------------------------------------------


def model_menu(question: context.Question) -> Menu:
    """The menu for a question of the model; any answer can also be given in words."""
    items = tuple(MenuItem(option.label, "", option.description) for option in question.options)
    other = MenuItem("Something else", "", prompt="your answer")
    return Menu(question.question, (*items, other) if items else (), question.several)


def read_model_answer(question: context.Question, answer: MenuAnswer) -> str:
    """The user's answer to the model's question, as text."""
    labels = [question.options[place].label for place in answer.places if place < len(question.options)]
    return ", ".join([*labels, *([answer.words] if answer.words else [])]) or "(no answer)"


# -- plans -----------------------------------------------------------------------------------

PLAN_READY = "PlanReady"
"""The tool with which the model submits a plan."""
_APPROVALS = (
    MenuItem("Yes, and ask before each change", "y", value="ask"),
    MenuItem("Yes, and change files here without asking", "a", value="accept_edits"),
    MenuItem("Yes, and work autonomously as before", "b", value="autonomous"),
)


def plan_menu(before: Mode) -> Menu:
    """The menu that asks whether to carry out a plan, and in which mode; ``before`` is the mode before planning.

    The autonomous mode is offered only if it was on before.
    """
    free = before == "autonomous"
    no = MenuItem("No, keep planning", "n", prompt="what should be different (may be empty)")
    return Menu("Carry out this plan?", (*_APPROVALS[: 3 if free else 2], no), start=2 if free else 0)
