"""The commands of a chat: what is typed behind a slash.

Each is one function of the chat and what was typed after it. The list is the only place that names them: help,
completion and dispatch all read it, so nothing is listed that does not work.

Commands that change something: the conversation, the session, the model, what is permitted.

Commands that only look.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Group
from rich.text import Text

from sevenfold.agent.permissions.engine import Mode
from sevenfold.cli.chat import history as earlier
from sevenfold.cli.chat import history as listing
from sevenfold.cli.chat import pages
from sevenfold.cli.chat import pages as window
from sevenfold.cli.chat import slash_commands as acting
from sevenfold.cli.chat import slash_commands as looking
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.markdown import rendered
from sevenfold.cli.chat.pages import help_page
from sevenfold.cli.chat.questions import Choice, Question
from sevenfold.cli.chat.status import Ledger
from sevenfold.cli.config import entry
from sevenfold.cli.text import one_line, parse_time, plural, short_count, size
from sevenfold.conversation import history
from sevenfold.errors import InputError, Refused, SevenfoldError
from sevenfold.profiles import names
from sevenfold.settings import by_name, described, unknown
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.settings_files import load

# -- commands


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


# -- actions


MOST_LISTED = 20
MODES: tuple[Mode, ...] = get_args(Mode)


def compact(chat: Chat, rest: str) -> None:
    """Summarise the conversation and go on."""

    def work() -> None:
        done = chat.agent.compact(rest)
        if done is None:
            chat.say("warning", "the compaction was refused by a hook or a listener; nothing changed")

    chat.working("compacting", work)


def undo(chat: Chat, rest: str) -> None:
    """Take back what a layer did last, or a decision by its name."""
    name = chat.agent.session.undo(rest)
    chat.update()
    gauge = chat.agent.session.gauge
    chat.say("layer", f"undone: {name} (now {short_count(gauge.seen)} tokens; /redo does it again)")


def redo(chat: Chat, rest: str) -> None:
    """Do again what was taken back."""
    name = chat.agent.session.redo(rest)
    chat.update()
    chat.say("layer", f"done again: {name} (now {short_count(chat.agent.session.gauge.seen)} tokens)")


def clear(chat: Chat, rest: str) -> None:
    """Begin a new session."""
    before = chat.start.name
    chat.switch(replace(chat.start, name=fresh_name(), resumed=False))
    chat.say("note", f"a new session; the one before is kept: /resume {before}")


def model(chat: Chat, rest: str) -> None:
    """Go on with another model, in the same session."""
    if not rest:
        known = ", ".join(names())
        chat.screen.show(Text(f"now: {chat.start.model}\nknown: {known}"))
        return
    chat.switch(replace(chat.start, model=rest, resumed=True))
    chat.say("note", f"{chat.agent.model} answers from now on; what is cached is written again for it")
    if chat.start.offline:
        chat.say("warning", chat.start.no_key())


def mode(chat: Chat, rest: str) -> None:
    """How free the agent is."""
    wanted = rest.replace(" ", "_").replace("-", "_")
    if wanted and wanted not in MODES:
        raise InputError(f"{rest!r} is no mode; modes are {', '.join(MODES)}")
    for one in MODES:
        if one == wanted:
            chat.agent.grants.mode = one
    chat.update()
    chat.screen.show(pages.permissions_page(chat.agent.grants.now))


def permissions(chat: Chat, rest: str) -> None:
    """What is allowed; with words, allow something more or revoke it."""
    verb, _, rule = rest.partition(" ")
    match verb:
        case "":
            pass
        case "allow" if rule.strip():
            chat.agent.grants.allow(rule.strip())
        case "revoke" if rule.strip():
            if rule.strip() not in chat.agent.grants.granted:
                raise Refused(f"{rule.strip()} was not granted in this session, so it cannot be revoked")
            chat.agent.grants.revoke(rule.strip())
        case _:
            raise InputError("say /permissions, /permissions allow RULE or /permissions revoke RULE")
    chat.screen.show(pages.permissions_page(chat.agent.grants.now))


def resume(chat: Chat, rest: str) -> None:
    """Go on with another session of this folder."""
    kept = [one for one in sessions_of(chat.start.folder) if one.name != chat.start.name]
    if rest:
        chosen = next((one for one in kept if one.name == rest), None)
        if chosen is None:
            raise Refused(f"there is no other session called {rest} in this folder; /resume lists them")
    else:
        if not kept:
            raise Refused("there is no other session in this folder")
        place = chat.ask(which(kept[:MOST_LISTED], time.time()))
        if place < 0:
            return
        chosen = kept[place]
    chat.switch(replace(chat.start, name=chosen.name, resumed=True))
    show_resumed(chat)


def rewind(chat: Chat, rest: str) -> None:
    """Go back to before one of the user's messages, which can then be changed and sent again."""
    transcript = chat.agent.session.core.transcript
    places = earlier.turnings(transcript.log, transcript.view)
    if not places:
        raise Refused("there is nothing to rewind to: nothing was said yet")
    now = datetime.now()
    choices = tuple(Choice(_first_line(one.words), before=_when(one, now)) for one in places)
    place = chat.ask(Question("Go back to before which message?", choices))
    if place < 0:
        return
    chosen = places[place]
    chat.agent.session.rewind(chosen.before)
    chat.update()
    whole = ", to before it was compacted" if chosen.compacted else ""
    chat.say(
        "layer",
        f"rewound {plural(chosen.after, 'record')}{whole}; they stay in the transcript, files are as they are",
    )
    chat.screen.suggest(chosen.words)


def _first_line(words: str) -> str:
    lines = [line for line in words.splitlines() if line.strip()]
    more = f" (+{plural(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
    return one_line(lines[0], 200) + more


def _when(turning: earlier.Turning, now: datetime) -> str:
    """The time of a message, with the day if that is another one."""
    said = parse_time(turning.at)
    if said is None:
        return ""
    said = said.astimezone().replace(tzinfo=None)
    shown = f"{said:%H:%M}" if said.date() == now.date() else f"{said:%Y-%m-%d %H:%M}"
    return f"{shown}, compacted" if turning.compacted else shown


def export(chat: Chat, rest: str) -> None:
    """Write the conversation to a new file."""
    if not rest:
        raise InputError("say where to: /export FILE (.md, or .jsonl for the records themselves)")
    target = Path(rest).expanduser()
    target = target if target.is_absolute() else chat.start.folder / target
    transcript = user_home().project(chat.start.folder).transcript(chat.start.name)
    number = earlier.export(JsonlLog(transcript), target, chat.start.name)
    chat.say("note", f"{plural(number, 'record')} written to {target}")


def leave(chat: Chat, rest: str) -> None:
    """Leave."""
    chat.leaving = True
    chat.screen.changed()


# -- shared ----------------------------------------------------------------------------------


def sessions_of(folder: Path) -> list[listing.SessionFile]:
    """The sessions of a folder, the newest first."""
    return listing.sessions(user_home().project(folder))


def which(kept: list[listing.SessionFile], now: float) -> Question:
    """Which session to go on with."""
    choices = tuple(
        Choice(one_line(one.title, 60), "", f"{one.age(now)}, {size(one.size)}, {one.name}") for one in kept
    )
    return Question("Go on with which session?", choices)


def fresh_name() -> str:
    """A name for a new session."""
    return listing.new_name(datetime.now(), secrets.token_hex(2))


def show_resumed(chat: Chat) -> None:
    """Where a session that goes on had stopped."""
    core = chat.agent.session.core
    gauge = chat.agent.session.gauge
    said = earlier.last_words(core.transcript.view)
    chat.say(
        "note",
        f"resumed {chat.start.name}: {plural(len(core.transcript.view), 'record')} in view, "
        f"{short_count(gauge.seen)} tokens",
    )
    if said:
        chat.say("note", f"you said last: {one_line(said, 200)}")


# -- views


def context(chat: Chat, rest: str) -> None:
    """What fills the window."""
    held = window.contents(chat.agent.session.core)
    chat.screen.show(window.picture(held, chat.screen.signs, chat.screen.width))


def cost(chat: Chat, rest: str) -> None:
    """What the session has cost."""
    whole = Ledger.of(chat.agent.session.core.transcript.log)
    chat.screen.show(pages.cost_page(whole, chat.ledger, chat.agent.session.gauge))
    _say_who_is_paid(chat)


def _say_who_is_paid(chat: Chat) -> None:
    if chat.start.offline:
        model = chat.start.model
        chat.say(
            "note", f"nothing is paid: the offline model answers. Other amounts are what {model} would cost"
        )


def cache(chat: Chat, rest: str) -> None:
    """What the cache gave."""
    # Here, because reading foreign formats is nothing a chat begins with.
    from sevenfold.lab.profile.files import profile_file

    whole = Ledger.of(chat.agent.session.core.transcript.log)
    figures, _ = profile_file(user_home().project(chat.start.folder).transcript(chat.start.name))
    chat.screen.show(pages.cache_page(whole, chat.ledger, figures.cache_breaks))


def why(chat: Chat, rest: str) -> None:
    """Why a request was what it was: one by its number, or the conversation's last."""
    session = chat.agent.session
    main = (one.number for one in history.requests(session.core.transcript.log) if one.source == "main")
    chat.screen.show(pages.why_page(session.why(number(rest) if rest else next(main, -1))))
    _say_who_is_paid(chat)


def recall(chat: Chat, rest: str) -> None:
    """Search everything that was said."""
    if not rest:
        raise InputError("say what to look for: /recall QUERY")
    chat.screen.show(pages.recall_page(chat.agent.session.recall(rest, most=5)))


def notes(chat: Chat, rest: str) -> None:
    """The running notes."""
    text = chat.agent.session.notes()
    chat.screen.show(
        rendered(text) if text else Text("There are no notes of this session yet.", style="dim")
    )


def hooks(chat: Chat, rest: str) -> None:
    """What runs at which moment."""
    held = chat.agent.workings.options.get("hooks")
    chat.screen.show(pages.hooks_page(held.hooks if held else (), held.skipped if held else ()))


def mcp(chat: Chat, rest: str) -> None:
    """How MCP servers are doing; with a name, that one is started anew."""
    from sevenfold.cli.chat.pages import mcp_page

    servers = chat.agent.workings.servers
    if servers is not None and rest:
        servers.restart(rest)
    chat.screen.show(mcp_page(servers.states() if servers else (), servers.problems if servers else ()))


def config(chat: Chat, rest: str) -> None:
    """Settings that are not at their default, or one in full."""
    if rest and rest not in by_name():
        raise unknown(rest, "/config")
    resolved = load(chat.start.folder)
    chosen = [by_name()[rest]] if rest else list(described())
    shown = [entry(resolved, one, in_full=bool(rest)) for one in chosen]
    remarks = [Text(note, style="yellow") for note in resolved.notes]
    chat.screen.show(Group(*shown, *remarks))


def show(chat: Chat, rest: str) -> None:
    """What is behind a line."""
    chat.screen.show(chat.folds.open(number(rest) if rest else None))


def number(text: str) -> int:
    """A whole number; brackets around it are fine."""
    try:
        return int(text.strip("[] "))
    except ValueError:
        raise InputError(f"{text!r} is not a number") from None
