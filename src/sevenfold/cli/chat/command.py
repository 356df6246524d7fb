"""`sevenfold chat`: a conversation with an agent in the terminal, or a single run of it for scripts."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sevenfold.cli.options import positive
from sevenfold.errors import Refused, UserError

if TYPE_CHECKING:
    from sevenfold.cli.chat.chat import Chat
    from sevenfold.cli.chat.inline import Inline
    from sevenfold.cli.chat.plain import Plain
    from sevenfold.cli.chat.start import Start

HELP = """\
Talk to an agent that reads, searches and changes files, runs commands and keeps within its window for as long as you
like. Every session is kept and can be resumed. Without a key the offline model answers, and says so."""

EXAMPLES = """\
examples:
  sevenfold chat                              begin a session in this folder
  sevenfold chat --continue                   go on with the newest one
  sevenfold chat --resume                     choose one to go on with
  sevenfold chat --model claude-opus-5-5 --mode accept_edits
  sevenfold chat -p "what does this do?"      one run, the answer on standard output
  git diff | sevenfold chat -p -              the prompt from standard input
  sevenfold chat -p "fix it" --mode autonomous --output-format json

exit code of -p: 0 done, 1 stopped before it was done, 2 could not begin, 130 interrupted"""

MODES = ("ask", "accept_edits", "plan", "autonomous")


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
    command.add_argument("prompt", nargs="?", default="", metavar="PROMPT", help="what to begin with")
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--resume", nargs="?", const="", metavar="NAME", help="go on with a session; without a name, choose"
    )
    which.add_argument(
        "--continue",
        dest="newest",
        action="store_true",
        help="go on with the newest session of this folder",
    )
    command.add_argument(
        "-p", "--print", dest="printed", metavar="PROMPT", help="run once and print the answer; - reads it"
    )
    command.add_argument(
        "--output-format", choices=("text", "json", "stream-json"), default="text", help="for -p"
    )
    command.add_argument("--model", default="", metavar="NAME", help="who answers")
    command.add_argument("--mode", choices=MODES, help="how free the agent is (default: ask)")
    command.add_argument(
        "--allow", action="append", default=[], metavar="RULE", help="allow, as in 'Shell(git *)'"
    )
    command.add_argument(
        "--deny", action="append", default=[], metavar="RULE", help="forbid, whatever the mode"
    )
    command.add_argument("--max-turns", type=positive, metavar="N", help="requests in one run")
    command.add_argument("--max-usd", type=_dollars, metavar="USD", help="dollars in the whole session")
    command.add_argument("--folder", type=Path, default=Path(), help="where to work (default: here)")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    folder = options.folder.expanduser().resolve()
    if options.printed is not None:
        return _print(options, folder)
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise Refused("a chat needs a terminal; for scripts and pipes use -p PROMPT, or -p - to read it")
    screen = _screen()
    _greet(screen, folder)
    chat = screen.run(lambda: _open(options, folder, screen), options.prompt)
    if chat is not None:
        from sevenfold.cli.chat.start import forget_if_empty

        if not forget_if_empty(chat.start):
            sys.stdout.write(f"The session is kept: sevenfold chat --resume {chat.start.name}\n")
    return 0


def _print(options: argparse.Namespace, folder: Path) -> int:
    from sevenfold.agent.agent import Agent
    from sevenfold.cli.chat import print_mode as printing
    from sevenfold.cli.chat import start as opening

    prompt = options.printed if options.printed != "-" else sys.stdin.read() if sys.stdin else ""
    if not prompt.strip():
        raise Refused("there is nothing to say: the prompt is empty")
    start = _start(options, folder, None)
    if start.offline:
        sys.stderr.write(f"sevenfold: {start.no_key()}\n")
    made = opening.agent_options(start)
    with closing(made["client"]), Agent(start.model, **made) as agent:
        return printing.run(
            agent, prompt, options.output_format, session=start.name, offline=start.offline, out=sys.stdout
        )


def _open(options: argparse.Namespace, folder: Path, screen: Inline | Plain) -> Chat:
    """Settle what has to be settled first, open the chat, and say what the user should know."""
    from sevenfold.cli.chat.chat import Chat
    from sevenfold.cli.chat.slash_commands import show_resumed
    from sevenfold.cli.chat.start import hooks_of, open_agent, trust
    from sevenfold.cli.text import plural

    _ask_for_trust(screen, folder)
    start = _start(options, folder, screen)
    chat = Chat(screen, open_agent, start)
    if start.offline:
        chat.say("warning", start.no_key())
    if not trust().covers(start.folder):
        chat.say("note", "this folder is not trusted: what it brings along does not count")
    if skipped := len(hooks_of(folder).skipped):
        chat.say("warning", f"{plural(skipped, 'hook')} will not run; /hooks says why")
    if start.resumed:
        show_resumed(chat)
    return chat


def _greet(screen: Inline | Plain, folder: Path) -> None:
    """Before anything is opened, so that something is seen at once."""
    from rich.text import Text

    from sevenfold import __version__
    from sevenfold.cli.text import clean

    words = f"{screen.signs.note} sevenfold {__version__} in {clean(str(folder))}; /help lists commands, Ctrl-D leaves"
    screen.show(Text(words, style="dim"))


def _screen() -> Inline | Plain:
    """The app this terminal can show."""
    from sevenfold.cli.chat.screen import Paper, colours_of, signs_for

    colours, signs = colours_of(os.environ), signs_for(sys.stdout.encoding)
    if colours == "none":
        from sevenfold.cli.chat.plain import Plain

        return Plain(Paper(colours), signs)
    try:
        from sevenfold.cli.chat.inline import Inline, terminal
    except ModuleNotFoundError as error:
        raise UserError(
            f"the chat needs {error.name}, which is not installed; run: pip install 'sevenfold[chat]'"
        ) from error
    from sevenfold.stores.home import user_home

    return Inline(Paper(colours), signs, history=user_home().typed, output=terminal())


def _ask_for_trust(screen: Inline | Plain, folder: Path) -> None:
    from rich.text import Text

    from sevenfold.cli.chat import start as opening

    if opening.undecided(folder):
        screen.show(
            Text(f"{folder} may bring settings, hooks, MCP servers, skills and instructions of its own.")
        )
        picked = screen.ask(opening.TRUST)
        opening.decide(folder, -1 if picked is None else picked.place)


def _start(options: argparse.Namespace, folder: Path, screen: Any) -> Start:
    """Which session, which model."""
    from sevenfold.cli.chat.slash_commands import fresh_name
    from sevenfold.cli.chat.start import DEFAULT_MODEL, Start, last_model

    kept = _chosen(options, folder, screen)
    model = options.model or (last_model(kept.path) if kept else "") or DEFAULT_MODEL
    return Start(
        folder=folder,
        name=kept.name if kept else fresh_name(),
        model=model,
        mode=options.mode,
        max_turns=options.max_turns,
        max_usd=options.max_usd,
        rules={"allow": options.allow, "deny": options.deny},
        resumed=kept is not None,
    )


def _chosen(options: argparse.Namespace, folder: Path, screen: Any) -> Any:
    """The session to go on with; None: a new one."""
    import time

    from sevenfold.cli.chat.slash_commands import MOST_LISTED, session_question, sessions_of

    if options.resume is None and not options.newest:
        return None
    kept = sessions_of(folder)
    if options.resume:
        found = next((one for one in kept if one.name == options.resume), None)
        if found is None:
            raise Refused(
                f"there is no session {options.resume} in {folder}; 'sevenfold sessions' lists them"
            )
        return found
    if not kept:
        raise Refused(f"there is no session in {folder} to go on with")
    if options.newest:
        return kept[0]
    if screen is None:
        raise Refused("say which session: --resume NAME, or --continue for the newest")
    picked = screen.ask(session_question(kept[:MOST_LISTED], time.time()))
    if picked is None:
        raise Refused("no session was chosen")
    return kept[picked.place]


def _dollars(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 < amount < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount above 0")
    return amount
