"""What the agent wants to know, as questions: permission for a call, answers only the user has, a plan's approval."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.permissions.engine import Mode
from sevenfold.agent.tools import context
from sevenfold.agent.tools.edit import diff
from sevenfold.cli.chat.lines import diff_lines
from sevenfold.cli.chat.questions import Choice, Picked, Question
from sevenfold.cli.text import clean

LARGEST_SHOWN = 2_000_000
"""Bytes of a file that is read to show what writing it would change."""
_LINES = 40
_VERBS = {"read": "Read", "write": "Change", "run": "Run", "fetch": "Fetch", "call": "Use"}


def permission(asked: Asked, folder: str = "") -> Question:
    """May this be done? Paths are named from the folder the user works in."""
    wish, rules = asked.wish, asked.decision.would_allow
    what = {"run": "this command", "call": asked.call.name}.get(wish.action, wish.subject)
    choices = [Choice("Yes", "y")]
    if rules:
        choices.append(Choice("Yes, and from now on", "a", ", ".join(rules)))
    choices.append(Choice("No, and tell it why", "n", words="what it should do instead; may be empty"))
    verb = _VERBS.get(wish.action, "Use")
    title = f"{verb} {what}? {asked.decision.reason}"
    return Question(title.replace(f"{folder}/", "") if folder else title, tuple(choices))


def consented(asked: Asked, picked: Picked | None) -> Consented:
    """What an answer to `permission` means."""
    rules = bool(asked.decision.would_allow)
    match picked:
        case Picked(places=(0,)):
            return Consented(True)
        case Picked(places=(1,)) if rules:
            return Consented(True, always=True)
        case Picked(words=words):
            return Consented(False, remark=words)
        case _:
            return Consented(False)


def shown_before(asked: Asked) -> Iterator[RenderableType]:
    """What the user must see to decide: the whole command, or what would change."""
    given = asked.call.input if isinstance(asked.call.input, dict) else {}
    match asked.wish.action:
        case "run":
            for number, line in enumerate(clean(asked.wish.subject).split("\n")):
                yield Text(f"  {'$' if number == 0 else ' '} {line}", style="bold", overflow="fold")
            for word in asked.wish.outside:
                yield Text(f"    leads out of the workspace: {clean(word)}", style="yellow")
        case "write":
            old, new = _change(given, asked.wish.subject)
            yield from diff_lines(diff(old, new, asked.wish.subject).text, _LINES)
            if asked.wish.named:
                yield Text(f"    {clean(asked.wish.named)} leads there", style="yellow")
        case "call":
            for name, value in given.items():
                yield Text(f"  {clean(str(name))}: {clean(str(value))[:2_000]}", overflow="fold")


def _change(given: dict[str, object], path: str) -> tuple[str, str]:
    """The file as it is and as it would be; of one that is not as the call expects, what the call says."""
    before, old, new = _content(path), given.get("old"), str(given.get("new", ""))
    if not isinstance(old, str):
        return before, str(given.get("content", ""))
    if not old or old not in before:
        return f"{old}\n", f"{new}\n"
    return before, before.replace(old, new, -1 if given.get("replace_all") else 1)


def _content(path: str) -> str:
    try:
        file = Path(path)
        small = file.is_file() and file.stat().st_size <= LARGEST_SHOWN
        return file.read_text("utf-8", "replace") if small else ""
    except OSError:
        return ""


OTHER = Choice("Something else", "", words="your answer")


def from_model(asked: context.Question) -> Question:
    """A question the model asks."""
    choices = tuple(Choice(option.label, "", option.description) for option in asked.options)
    return Question(asked.question, (*choices, OTHER) if choices else (), asked.several)


def answer(asked: context.Question, picked: Picked) -> str:
    """The user's answer to it, in words."""
    labels = [asked.options[place].label for place in picked.places if place < len(asked.options)]
    return ", ".join([*labels, *([picked.words] if picked.words else [])]) or "(no answer)"


PLAN_READY = "PlanReady"
"""The tool that hands over a plan."""
_AFTER: dict[Mode, Choice] = {
    "ask": Choice("Yes, and ask before each change", "y"),
    "accept_edits": Choice("Yes, and change files here without asking", "a"),
    "autonomous": Choice("Yes, and work autonomously as before", "b"),
}


def plan(before: Mode) -> Question:
    """Is a plan to be carried out, and how freely? ``before`` is the mode planning began in."""
    modes = _modes_after(before)
    no = Choice("No, go on planning", "n", words="what should be different; may be empty")
    choices = (*(_AFTER[mode] for mode in modes), no)
    return Question("Carry out this plan?", choices, start=modes.index(before) if len(modes) > 2 else 0)


def approved(before: Mode, picked: Picked | None) -> tuple[Consented, Mode]:
    """What an answer to `plan` means, and the mode that follows."""
    modes = _modes_after(before)
    if picked is not None and 0 <= picked.place < len(modes):
        return Consented(True), modes[picked.place]
    return Consented(False, remark=picked.words if picked else ""), before


def _modes_after(before: Mode) -> tuple[Mode, ...]:
    """Autonomy is offered only to whoever had it."""
    return ("ask", "accept_edits", "autonomous") if before == "autonomous" else ("ask", "accept_edits")
