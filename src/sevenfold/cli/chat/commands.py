"""The commands of a chat: what is typed behind a slash.

Each is one function of the chat and what was typed after it. The list is the only place that names them: help,
completion and dispatch all read it, so nothing is listed that does not work.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from msgspec import Struct

from sevenfold.cli.chat import actions as acting
from sevenfold.cli.chat import views as looking
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.pages import help_page
from sevenfold.errors import InputError, SevenfoldError


class Command(Struct, frozen=True):
    """Something to type."""

    name: str
    says: str
    run: Callable[[Chat, str], None]
    takes: str = ""
    anytime: bool = False
    """Also while the agent works."""

    @property
    def usage(self) -> str:
        """As it is typed."""
        return f"/{self.name} {self.takes}".rstrip()


KEYS = (
    ("Enter", "send; while it works, queue"),
    ("Alt-Enter, \\ Enter", "a new line"),
    ("@path", "put a file, or what a folder holds, beside the message"),
    ("Esc, Ctrl-C", "interrupt"),
    ("Esc Esc", "rewind (when nothing is typed)"),
    ("Ctrl-O", "show the last [number] in full"),
    ("Shift-Tab", "next mode: ask, accept edits, plan"),
    ("Ctrl-R", "search what you typed before"),
    ("Ctrl-C twice, Ctrl-D", "leave"),
)


def _help(chat: Chat, rest: str) -> None:
    chat.screen.show(help_page([(one.usage, one.says) for one in COMMANDS], KEYS))


COMMANDS = (
    Command("help", "this list", _help, anytime=True),
    Command("context", "what fills the window, drawn to scale", looking.context, anytime=True),
    Command("compact", "summarise the conversation and go on", acting.compact, "[INSTRUCTIONS]"),
    Command("clear", "begin a new session; this one can be resumed", acting.clear),
    Command("cost", "what the session has cost, and this run of it", looking.cost, anytime=True),
    Command("cache", "what the cache gave, and why it was lost", looking.cache, anytime=True),
    Command("why", "why a request was what it was", looking.why, "[NUMBER]", anytime=True),
    Command("undo", "take back what a layer did", acting.undo, "[DECISION]"),
    Command("redo", "do again what was taken back", acting.redo, "[DECISION]"),
    Command("recall", "search everything that was said", looking.recall, "QUERY", anytime=True),
    Command("notes", "the running notes of this session", looking.notes, anytime=True),
    Command("model", "go on with another model", acting.model, "[NAME]"),
    Command("mode", "how free the agent is", acting.mode, "[MODE]", anytime=True),
    Command(
        "permissions",
        "what is allowed, asked and denied",
        acting.permissions,
        "[allow RULE]",
        anytime=True,
    ),
    Command("hooks", "what runs at which moment", looking.hooks, anytime=True),
    Command("mcp", "MCP servers and how they are doing", looking.mcp, "[NAME to start anew]", anytime=True),
    Command("resume", "go on with another session", acting.resume, "[NAME]"),
    Command("rewind", "go back to an earlier message", acting.rewind),
    Command("export", "write the conversation to a file", acting.export, "FILE", anytime=True),
    Command("config", "settings and where they come from", looking.config, "[NAME]", anytime=True),
    Command("show", "open a line with a [number], or the last", looking.show, "[NUMBER]", anytime=True),
    Command("quit", "leave; the session is kept", acting.leave, anytime=True),
)


def find(line: str) -> tuple[Command, str]:
    """The command a line names, and the rest of the line; raises `InputError` if there is none."""
    name, _, rest = line.removeprefix("/").partition(" ")
    for command in COMMANDS:
        if command.name == name.strip().lower():
            return command, rest.strip()
    near = get_close_matches(name.lower(), [one.name for one in COMMANDS], 1, 0.5)
    hint = f"did you mean /{near[0]}?" if near else "/help lists all commands"
    raise InputError(f"there is no command /{name}; {hint}")


def is_command(line: str) -> bool:
    """Is it a command, rather than words or a path?"""
    first = line.split(maxsplit=1)[0] if line.strip() else ""
    return first.startswith("/") and "/" not in first[1:] and first != "/"


def run(chat: Chat, line: str) -> None:
    """Carry out a command; what the user can mend is shown."""
    try:
        command, rest = find(line)
        command.run(chat, rest)
    except SevenfoldError as error:
        chat.say("error", str(error))
