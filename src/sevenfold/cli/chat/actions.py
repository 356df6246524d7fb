"""Commands that change something: the conversation, the session, the model, what is permitted."""

from __future__ import annotations

import secrets
import time
from datetime import datetime
from pathlib import Path
from typing import get_args

from msgspec.structs import replace
from rich.text import Text

from sevenfold.agent.permissions.engine import Mode
from sevenfold.cli.chat import earlier, pages
from sevenfold.cli.chat import session_list as listing
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.questions import Choice, Question
from sevenfold.cli.chat.words import one_line, tokens
from sevenfold.cli.phrases import moment, plural
from sevenfold.errors import InputError, Refused
from sevenfold.profiles import names
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.log import JsonlLog

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
    chat.say("layer", f"undone: {name} (now {tokens(gauge.seen)} tokens; /redo does it again)")


def redo(chat: Chat, rest: str) -> None:
    """Do again what was taken back."""
    name = chat.agent.session.redo(rest)
    chat.update()
    chat.say("layer", f"done again: {name} (now {tokens(chat.agent.session.gauge.seen)} tokens)")


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
    transcript = chat.agent.session.conversation.transcript
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
    said = moment(turning.at)
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


def sessions_of(folder: Path) -> list[listing.Kept]:
    """The sessions of a folder, the newest first."""
    return listing.sessions(user_home().project(folder))


def which(kept: list[listing.Kept], now: float) -> Question:
    """Which session to go on with."""
    choices = tuple(
        Choice(one_line(one.title, 60), "", f"{one.age(now)}, {listing.size(one.size)}, {one.name}")
        for one in kept
    )
    return Question("Go on with which session?", choices)


def fresh_name() -> str:
    """A name for a new session."""
    return listing.new_name(datetime.now(), secrets.token_hex(2))


def show_resumed(chat: Chat) -> None:
    """Where a session that goes on had stopped."""
    core = chat.agent.session.conversation
    gauge = chat.agent.session.gauge
    said = earlier.last_words(core.transcript.view)
    chat.say(
        "note",
        f"resumed {chat.start.name}: {plural(len(core.transcript.view), 'record')} in view, "
        f"{tokens(gauge.seen)} tokens",
    )
    if said:
        chat.say("note", f"you said last: {one_line(said, 200)}")
