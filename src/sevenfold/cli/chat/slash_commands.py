"""The slash commands of a chat.

Each is a function that takes the chat and the rest of the line; ``words.toml`` describes it. Help, completion and
dispatch all read `commands`, so every command that is listed works.
"""

from __future__ import annotations

import re
import shlex
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Group
from rich.text import Text

from sevenfold.agent.permissions.engine import Mode
from sevenfold.agent.team.price import fork_price
from sevenfold.archive import export as exports
from sevenfold.archive.copying import copy_session
from sevenfold.archive.profile.files import profile_file
from sevenfold.cli import agents as agents_command
from sevenfold.cli import dream as dream_command
from sevenfold.cli import memory as memory_command
from sevenfold.cli.chat import answer_controls, history, message_list, pages, start
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.custom_commands import CustomCommand, custom_commands
from sevenfold.cli.chat.kept_rules import forget_rule, kept_rules, rules_file
from sevenfold.cli.chat.markdown import render_markdown
from sevenfold.cli.chat.menu import Menu, MenuItem
from sevenfold.cli.chat.pages import WindowBreakdown
from sevenfold.cli.chat.reports import Spending
from sevenfold.cli.chat.resumed import show_resumed
from sevenfold.cli.config import change, chosen_settings, listing
from sevenfold.cli.tasks import task_line
from sevenfold.cli.text import clean, fit, money, one_line, plural, short_count, wording
from sevenfold.conversation.history import requests
from sevenfold.conversation.tasks import Task
from sevenfold.errors import InputError, Refused, SevenfoldError
from sevenfold.layers.compact.compactor import Compactor
from sevenfold.layers.remember.layer import cost_at_end
from sevenfold.profiles import find as find_profile
from sevenfold.profiles import full_name
from sevenfold.record import blocks
from sevenfold.record.authorship import UserPrompt
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.settings_files import load

MODES: tuple[Mode, ...] = get_args(Mode)


# -- the conversation ------------------------------------------------------------------------


def _undo(chat: Chat, arguments: str) -> None:
    _say_done(chat, "undone", chat.agent.session.undo(arguments), "; /redo restores it")


def _redo(chat: Chat, arguments: str) -> None:
    _say_done(chat, "redone", chat.agent.session.redo(arguments))


def _say_done(chat: Chat, what: str, decision: str, more: str = "") -> None:
    chat.update()
    tokens = short_count(chat.agent.session.gauge.seen)
    chat.say("layer", f"{what}: {chat.describe_decision(decision)} (now {tokens} tokens{more})")


def _recall(chat: Chat, arguments: str) -> None:
    if not arguments:
        raise InputError("say what to search for: /recall QUERY")
    chat.screen.show(pages.recall_page(chat.agent.session.recall(arguments, most=5)))


def _notes(chat: Chat, arguments: str) -> None:
    text = chat.agent.session.notes()
    chat.screen.show(render_markdown(text) if text else Text("This session has no notes yet.", style="dim"))


def _export(chat: Chat, arguments: str) -> None:
    if not arguments:
        raise InputError("say where to: /export FILE (.md, or .jsonl for the raw records)")
    target = Path(arguments).expanduser()
    target = target if target.is_absolute() else chat.options.folder / target
    number = exports.export(JsonlLog(chat.options.transcript()), target, chat.options.name)
    chat.say("note", f"{plural(number, 'record')} written to {target}")


# -- sessions and models ---------------------------------------------------------------------


def _clear(chat: Chat, arguments: str) -> None:
    before = chat.options.name
    chat.switch(replace(chat.options, name=history.new_name(), resumed=False))
    chat.say("note", f"new session; to return to the previous one: /resume {before}")


def _resume(chat: Chat, arguments: str) -> None:
    options = chat.options
    sessions = [
        session
        for session in history.sessions(options.folder, options.store)
        if session.name != options.name
    ]
    if arguments:
        chosen = history.find_session(sessions, arguments)
        if chosen is None:
            raise Refused(f"no other session named {arguments} in this folder; /resume lists them")
    else:
        sessions = history.chat_sessions(sessions)
        if not sessions:
            raise Refused("there is no other session in this folder")
        chosen = chat.ask(start.session_menu(sessions, chat.options.folder))
        if chosen is None:
            return
    chat.switch(replace(chat.options, name=chosen.name, resumed=True))
    show_resumed(chat)


def _fork(chat: Chat, arguments: str) -> None:
    """Go on with a copy of this session, under a name if one is given; the session stays as it is."""
    before = chat.options
    if before.store:
        raise Refused(f"{start.COPIED_FROM_STORES}: sevenfold sessions import --store URL {before.name}")
    project = user_home().project(before.folder)
    if not before.files.transcript.is_file():
        raise Refused("there is nothing to copy yet: send a message first")
    if not _agreed_to_copy(chat):
        chat.say("note", "nothing was copied")
        return
    name = history.new_name()
    copy_session(project.session(before.name), project.session(name))
    chat.switch(replace(before, name=name, resumed=True))
    if arguments:
        _label(chat, arguments)
    chat.say(
        "note", f"this is a copy from here on; to return to the session it came from: /resume {before.name}"
    )


def _agreed_to_copy(chat: Chat) -> bool:
    """Ask the user if reading the conversation once more costs more than the setting `fork_usd`."""
    conversation = chat.agent.session.conversation
    limit = conversation.settings.fork_usd
    price = fork_price(conversation, 1)
    if limit is None or price is None or price.usd <= limit:
        return True
    reads = f"{short_count(price.tokens)} tokens, about {money(price.usd)}"
    title = f"The copy's first message reads the whole conversation: {reads}. Go on?"
    items = (MenuItem("yes, copy it", "y", value=True), MenuItem("no", "n", value=False))
    return bool(chat.ask(Menu(title, items)))


def _label(chat: Chat, name: str) -> None:
    chat.agent.session.conversation.transcript.label("custom-title", one_line(name, history.LONGEST_TITLE))


def _rename(chat: Chat, arguments: str) -> None:
    if not arguments:
        raise InputError("say what to call this session: /rename NAME")
    _label(chat, arguments)
    again = f"sevenfold chat --resume {shlex.quote(arguments)}"
    chat.say("note", f"this session is called {arguments}; to continue it later: {again}")


def _model(chat: Chat, arguments: str) -> None:
    now = chat.options.model
    served = cache(lambda: start.served_models(chat.agent.assembly.options.get("client"), now))
    if not arguments:
        arguments = chat.ask(start.model_menu(now, served()))
        if arguments in (None, now):
            return
    name = full_name(arguments)
    if not find_profile(name).known and name not in served():
        near = start.similar(name)
        as_typed = MenuItem(f"{name}, as typed", "", "its window and prices are assumed", value=name)
        items = (MenuItem(near, value=near), as_typed) if near else (as_typed,)
        title = f"There is no known model {name}{f'; did you mean {near}?' if near else '.'}"
        if (name := chat.ask(Menu(title, items))) is None:
            return
    chat.switch(replace(chat.options, model=name, resumed=True))
    price = answer_controls.price_of_first_request(chat)
    chat.say(
        "note", f"{chat.agent.model} answers from now on{price or '; its cache has to be written first'}"
    )
    if warning := chat.options.no_key() or start.assumed_window(chat.agent):
        chat.say("warning", warning)


def _quit(chat: Chat, arguments: str) -> None:
    chat.leaving = True
    chat.screen.changed()


# -- permissions, hooks and servers ----------------------------------------------------------


def _mode(chat: Chat, arguments: str) -> None:
    wanted = arguments.lower().replace(" ", "_").replace("-", "_")
    if wanted and wanted not in MODES:
        raise InputError(f"unknown mode {arguments!r}; choose from {', '.join(MODES)}")
    if wanted:
        chat.agent.grants.mode = wanted
    chat.update()
    chat.screen.show(pages.modes_page(chat.agent.grants.mode, chat.screen.signs))


def _permissions(chat: Chat, arguments: str) -> None:
    verb, _, rule = arguments.partition(" ")
    grants = chat.agent.grants
    rule = rule.strip()
    match verb:
        case "":
            pass
        case "allow" if rule:
            grants.allow(rule)
        case "revoke" if rule:
            if not forget_rule(chat.options.folder, rule) and rule not in grants.granted:
                raise Refused(f"{rule} was not granted, neither in this session nor for good")
            grants.revoke(rule)
        case _:
            raise InputError("use /permissions, /permissions allow RULE or /permissions revoke RULE")
    saved_rules = kept_rules(chat.options.folder)
    chat.screen.show(pages.permissions_page(grants.now, grants.granted, saved_rules, str(rules_file())))


def _hooks(chat: Chat, arguments: str) -> None:
    held = chat.agent.assembly.options.get("hooks")
    chat.screen.show(pages.hooks_page(held.hooks if held else (), held.skipped if held else ()))


def _mcp(chat: Chat, arguments: str) -> None:
    servers = chat.agent.assembly.servers
    if servers is not None and arguments:
        servers.restart(arguments)
    states, problems = (servers.states(), servers.problems) if servers else ((), ())
    chat.screen.show(pages.mcp_page(states, problems))


# -- reports ---------------------------------------------------------------------------------


def _help(chat: Chat, arguments: str) -> None:
    known = [(command.usage, one_line(command.says, 100)) for command in commands(chat.options.folder)]
    chat.screen.show(pages.help_page(known, wording("keys").items()))


def _context(chat: Chat, arguments: str) -> None:
    contents = WindowBreakdown.of(chat.agent.session.conversation)
    chat.screen.show(pages.window_page(contents, chat.screen.signs, chat.screen.width))


def _cost(chat: Chat, arguments: str) -> None:
    whole = Spending.of(chat.agent.session.conversation.transcript.log)
    at_end = cost_at_end(chat.agent.session.conversation)
    chat.screen.show(pages.cost_page(whole, chat.spent, chat.agent.session.gauge, at_end))
    _say_if_free(chat)


def _say_if_free(chat: Chat) -> None:
    if chat.options.offline:
        words = "the offline model answers, so nothing is charged; other amounts are what"
        chat.say("note", f"{words} {chat.options.model} would cost")


def _cache(chat: Chat, arguments: str) -> None:
    whole = Spending.of(chat.agent.session.conversation.transcript.log)
    figures, _ = profile_file(chat.options.transcript())
    chat.screen.show(pages.cache_page(whole, chat.spent, figures.cache_breaks))


def _why(chat: Chat, arguments: str) -> None:
    """Explain the request with a number, by default the last one of the main thread."""
    session = chat.agent.session
    main = (
        request.number
        for request in requests(session.conversation.transcript.log)
        if request.source == "main"
    )
    chat.screen.show(pages.why_page(session.why(_number(arguments) if arguments else next(main, -1))))
    _say_if_free(chat)


def _config(chat: Chat, arguments: str) -> None:
    action, *words = arguments.split() or [""]
    if action in ("set", "unset"):
        chat.say("note", change(action, words))
        return
    resolved = load(chat.options.folder)
    chosen = chosen_settings(arguments or None, "/config")
    notes = (Text(note, style="yellow") for note in resolved.notes)
    chat.screen.show(Group(listing(resolved, chosen, in_full=len(chosen) == 1), *notes))


_SHELL = re.compile(r"\s*!\s*[^\s!]")
"""A command line for the shell."""
_REMEMBER = re.compile(r"#(?!#)\s*(\S+(?:[ \t]+\S+)+)\s*")
"""One line that begins with a number sign: words of the user to add to memory."""


def _dream(chat: Chat, arguments: str) -> None:
    """Show the dream that is running, or the last one; with ``stop``, stop it."""
    if arguments not in ("", "stop"):
        raise InputError(
            "/dream takes nothing, or stop; outside the chat, `sevenfold dream` tidies at once"
        )
    if arguments and not chat.agent.session.kill_dream():
        raise Refused("no dream is under way")
    chat.screen.show(Text(dream_command.describe(chat.agent.session.dream)))


_ABOUT_ONE = ("show", "forget", "confirm", "pin", "unpin", "add", "diff")
"""Actions of `/memory` that need the name of an entry, words, or the number of a change."""


def _memory(chat: Chat, arguments: str) -> None:
    """List, change or undo changes to this folder's memory; with ``add``, remember something."""
    memory = chat.agent.session.memory
    if memory is None:
        raise Refused("this session has no lasting memory")
    action, _, words = arguments.partition(" ")
    text = words.strip()
    number = _number(text) if text and action in ("undo", "diff") else None
    if action in _ABOUT_ONE and not text:
        raise InputError(f"/memory {action} needs {'a number' if action == 'diff' else 'a name or words'}")
    if action not in (*_ABOUT_ONE, "", "list", "log", "undo", "check"):
        raise InputError(
            f"/memory cannot {action}; outside the chat, `sevenfold memory --help` lists everything"
        )
    memory_options = Namespace(
        action=action, name=text, number=number, words=[text], kind="feedback", json=False
    )
    memory_options.budget = chat.agent.session.conversation.settings.memory_daily_budget
    shown = memory_command.perform(memory, memory_options)
    if "\n" in shown:
        chat.screen.show(Text(clean(shown)))
    else:
        chat.say("layer", clean(shown))


TAIL_LINES = 40
"""How many lines of a task's output are shown."""
TAIL_BYTES = 64 * 1024


def _look_or_kill(chat: Chat, arguments: str, command: str) -> bool:
    """Show a task, or stop it with ``kill``; returns False if the line names none.

    A task is named by its id, by its name, or by how that begins.
    """
    action, _, name = arguments.partition(" ")
    if action in ("kill", "stop"):
        if not name.strip():
            raise InputError(f"say which to stop: {command} kill NAME")
        tasks = chat.agent.session.tasks
        stopped = tasks.kill(tasks.find(name.strip()).id)
        was_stopped = stopped.state == "cancelled"
        chat.say("note", f"{stopped.id} was stopped" if was_stopped else task_line(stopped, time.time()))
        return True
    if arguments in ("", "list"):
        return False
    if command == "/agents" and not any(task.kind == "agent" for task in chat.agent.session.tasks):
        raise InputError(
            f"no agent called {arguments!r} is at work, nor any other; /agents alone lists those defined here"
        )
    task = chat.agent.session.tasks.find(arguments)
    chat.screen.show(Text(clean(task_line(task, time.time())), style="bold"))
    chat.screen.show(Text(_tail(task), overflow="fold"))
    if not task.over:
        chat.say(
            "note",
            f"still at work: {command} {task.id} shows what is new, {command} kill {task.id} stops it",
        )
    return True


def _tail(task: Task) -> str:
    """The end of what a task has printed, or of what an agent has done."""
    path = Path(task.output) if task.output else None
    if path is None or not path.is_file():
        return task.progress or "(no output)"
    if task.kind == "agent":
        text = exports.as_text(JsonlLog(path))
    else:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    lines = clean(text).rstrip().splitlines()
    left = len(lines) - TAIL_LINES
    head = [f"({plural(left, 'earlier line')}: {path})"] if left > 0 else []
    return "\n".join([*head, *lines[-TAIL_LINES:]]) or "(no output)"


def _agents(chat: Chat, arguments: str) -> None:
    """List the agents that are defined here and those of this session; with a name, show or stop one."""
    if _look_or_kill(chat, arguments, "/agents"):
        return
    lines = agents_command.listing(agents_command.definitions(chat.options.folder).known.values())
    running = [task_line(task, time.time()) for task in chat.agent.session.tasks if task.kind == "agent"]
    for line in (*lines, *(running or ["No agent is at work."])):
        chat.screen.show(Text(fit(clean(line), chat.screen.width - 1, chat.screen.signs.cut)))
    if not chat.options.agents:
        chat.say("note", "this chat was begun with --no-agents, so the agent starts none")


def _tasks(chat: Chat, arguments: str) -> None:
    """List the background tasks; with a name, show one or, with ``kill``, stop it."""
    if _look_or_kill(chat, arguments, "/tasks"):
        return
    lines = [task_line(task, time.time()) for task in chat.agent.session.tasks]
    chat.screen.show(Text(clean("\n".join(lines) or "Nothing runs in the background.")))


def _summary(chat: Chat, arguments: str) -> None:
    """Show the newest summary as the model sees it, what the compaction kept, and how its check came out."""
    conversation = chat.agent.session.conversation
    summaries = [item for item in conversation.transcript.view.items if item.record.summary]
    if not summaries:
        raise Refused("nothing has been summarised in this session")
    text = "\n\n".join(filter(None, (blocks.words_of(block) for block in summaries[-1].record.blocks)))
    chat.screen.show(render_markdown(clean(text)))
    last = conversation.state(Compactor).last
    if last is None:
        chat.say("note", "made in an earlier run; sevenfold audit checks what it kept")
        return
    total = last.score.total
    lines = [f"{total.in_context} facts in view, {total.reachable} reachable by recall, {total.lost} lost"]
    lines += [f"lost: {fact.kind} {one_line(fact.text, 120)}" for fact in last.score.lost]
    lines += [f"added back: {one_line(what, 120)}" for what in last.restored]
    lines += [f"no room for: {one_line(what, 120)}" for what in last.cut]
    lines += [f"marked as not in the record: {one_line(claim, 120)}" for claim in last.invented]
    chat.screen.show(Text(clean("\n".join(lines)), style="dim", overflow="fold"))


def _queue(chat: Chat, arguments: str) -> None:
    """List the queued messages; with ``drop N`` or ``first N``, take one out or send it first."""
    action, _, number = arguments.partition(" ")
    if action not in ("", "list", "drop", "first", "clear"):
        raise InputError("use /queue, /queue drop N, /queue first N or /queue clear")
    if action == "clear":
        while chat.unqueue() is not None:
            pass
    elif action in ("drop", "first"):
        index = _number(number) - 1
        there = index >= 0 and (
            chat.send_first(index) if action == "first" else chat.unqueue(index) is not None
        )
        if not there:
            raise InputError(f"there is no queued message {number or '(say which)'}; /queue lists them")
    lines = [f"{index}. {one_line(text, 200)}" for index, text in enumerate(chat.agent.waiting, 1)]
    chat.screen.show(Text(clean("\n".join(lines) or "No message is queued.")))


def _show(chat: Chat, arguments: str) -> None:
    chat.screen.page(chat.folded.open(_number(arguments) if arguments else None))


def _transcript(chat: Chat, arguments: str) -> None:
    """Show the whole conversation, including what compactions have hidden."""
    transcript = chat.agent.session.conversation.transcript
    chat.screen.page(Text(exports.as_text(transcript.log), overflow="fold"))


def _number(text: str) -> int:
    try:
        return int(text.strip("[] "))
    except ValueError:
        raise InputError(f"{text!r} is not a number") from None


# -- the command table -----------------------------------------------------------------------


class SlashCommand(Struct, frozen=True):
    """A slash command."""

    name: str
    says: str
    run: Callable[[Chat, str], None]
    takes: str = ""
    anytime: bool = False
    """Whether it also runs while the agent works."""
    custom: CustomCommand | None = None
    """The file that defines it, if it is a custom command."""

    @property
    def usage(self) -> str:
        """The command as the user types it, with its arguments."""
        return f"/{self.name} {self.takes}".rstrip()


COMMANDS: Mapping[str, Callable[[Chat, str], None]] = {
    run.__name__.removeprefix("_"): run
    for run in (
        *(
            _help,
            _context,
            message_list.compact,
            _clear,
            _cost,
            _cache,
            _why,
            _undo,
            _redo,
            _summary,
            _recall,
            _notes,
        ),
        *(
            _memory,
            _dream,
            _tasks,
            _queue,
            _model,
            answer_controls.effort,
            answer_controls.thinking,
            _mode,
            _permissions,
            _hooks,
            _mcp,
            _resume,
            _fork,
            _rename,
        ),
        *(message_list.rewind, _export, _config, _show, _transcript, _agents, _quit),
    )
}
"""The built-in commands; each is named after its function."""


def commands(folder: Path) -> tuple[SlashCommand, ...]:
    """All commands in a folder: the built-in ones, and custom ones, which cannot replace them."""
    ours = [SlashCommand(name, run=COMMANDS[name], **about) for name, about in wording("commands").items()]
    own = [
        SlashCommand(name, command.description, partial(_custom, command), command.takes, custom=command)
        for name, command in sorted(custom_commands(folder).items())
        if name.lower() not in COMMANDS
    ]
    return (*ours, *own)


def _custom(command: CustomCommand, chat: Chat, arguments: str) -> None:
    _expand(command, chat, UserPrompt(arguments))


def _expand(command: CustomCommand, chat: Chat, arguments: UserPrompt) -> None:
    chat.turn(command.prompt(arguments, chat.output_of))


def _shell(chat: Chat, arguments: str) -> None:
    """Run a shell command for the user; the model sees it and its output with the next message."""
    chat.run_interruptible(f"running {one_line(arguments, 60)}", lambda: chat.run_for_user(arguments))


SHELL = SlashCommand("!", "run a command yourself", _shell, "COMMAND")


def find(line: str, folder: Path) -> tuple[SlashCommand, str]:
    """The command in a line, and the rest of the line; raises `InputError` if there is no such command."""
    if told := _REMEMBER.fullmatch(line):
        line = f"/memory add {told[1]}"
    if line.lstrip().startswith("!"):
        return SHELL, line.lstrip()[1:].strip()
    if line.strip().lower() == "/exit":
        line = "/quit"
    name, _, rest = line.removeprefix("/").partition(" ")
    known = commands(folder)
    for command in known:
        if command.name.lower() == name.strip().lower():
            return command, rest.strip()
    # Below this, words are found that have only some letters in common.
    near = get_close_matches(name.lower(), [command.name for command in known], 1, 0.7)
    hint = f"did you mean /{near[0]}?" if near else "/help lists all commands"
    raise InputError(f"unknown command /{name}; {hint}")


def is_command(line: str) -> bool:
    """Whether a line is a slash command, a shell command or something to remember, not a message or a path."""
    if _REMEMBER.fullmatch(line) or _SHELL.match(line):
        return True
    first = line.split(maxsplit=1)[0] if line.strip() else ""
    return first.startswith("/") and "/" not in first[1:] and first != "/"


def run(chat: Chat, line: str | UserPrompt) -> None:
    """Run a command; show its error, if it raises a `SevenfoldError`."""
    prompt = UserPrompt.of(line)
    try:
        command, rest = find(prompt.text.strip(), chat.options.folder)
        if command.custom is None:
            command.run(chat, rest)
        else:
            typed = None if prompt.typed is None else prompt.typed.strip().partition(" ")[2].strip()
            arguments = UserPrompt(rest, prompt.origin, typed)
            _expand(command.custom, chat, arguments)
    except SevenfoldError as error:
        chat.say("error", str(error))
