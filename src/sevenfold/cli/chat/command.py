"""`sevenfold chat`: a conversation with an agent in the terminal, or a single run for scripts.

The first line and the input are drawn before the agent is loaded, so imports that load it are inside functions.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sevenfold import __version__
from sevenfold.cli.chat import claude_flags
from sevenfold.cli.text import add_folder, clean, complain, not_installed, number, plural, positive
from sevenfold.errors import Refused

if TYPE_CHECKING:
    from sevenfold.cli.chat.chat import Chat
    from sevenfold.cli.chat.inline import InlineScreen
    from sevenfold.cli.chat.plain import PlainScreen
    from sevenfold.record.authorship import UserPrompt

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
THINKING = ("shown", "hidden", "off")
MODES = ("ask", "accept_edits", "plan", "autonomous")


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("prompt", nargs="?", default="", metavar="PROMPT")
    which = command.add_mutually_exclusive_group()
    which.add_argument("-r", "--resume", nargs="?", const="", metavar="NAME")
    which.add_argument("-c", "--continue", dest="newest", action="store_true")
    add("--fork-session", action="store_true")
    add("-p", "--print", dest="printed", metavar="PROMPT", nargs="?", const="")
    add("--output-format", choices=("text", "json", "stream-json"), default="text")
    add("--input-format", choices=("text", "stream-json"), default="text")
    add("--model", default="", metavar="NAME")
    add("--mode", choices=MODES)
    add("--allow", action="append", default=[], metavar="RULE")
    add("--deny", action="append", default=[], metavar="RULE")
    add("--retry", action="store_true")
    add("--max-turns", type=positive, metavar="N")
    add("--max-usd", type=number(float, sys.float_info.min, "an amount above 0"), metavar="USD")
    add("--max-tokens", type=positive, metavar="N")
    add("--effort", choices=EFFORTS)
    add("--thinking", choices=THINKING)
    add("--agents", nargs="?", default=True, const=True, metavar="JSON")
    add("--no-agents", dest="agents", action="store_const", const=False)
    add("--add-dir", dest="roots", nargs="+", action="extend", default=[], metavar="FOLDER")
    add("--append-system-prompt", dest="guidance", default="", metavar="TEXT")
    add("--append-system-prompt-file", dest="guidance_file", type=Path, metavar="FILE")
    add("--system-prompt", dest="system", default="", metavar="TEXT")
    add("--settings", dest="script_settings", metavar="FILE")
    add("--mcp-config", dest="mcp", nargs="+", action="extend", default=[], metavar="FILE")
    add("--strict-mcp-config", dest="strict_mcp", action="store_true")
    add("--verbose", action="store_true")
    add("--store", metavar="URL")
    add_folder(command, exists=True)
    claude_flags.declare(command)


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    if options.printed is not None:
        return _run_once(options)
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise Refused("a chat needs a terminal; for scripts and pipes use -p PROMPT, or -p - to read it")
    screen = _screen()
    from rich.text import Text

    words = f"sevenfold {__version__} in {clean(str(options.folder))}; /help lists commands, Ctrl-D leaves"
    screen.show(Text(f"{screen.signs.note} {words}", style="dim"))
    chat = screen.run(lambda: _open(options, screen), options.prompt)
    if chat is not None:
        from sevenfold.cli.chat.start import forget_if_empty  # loads the agent

        if not forget_if_empty(chat.options):
            where = f"--store '{clean(chat.options.store)}' " if chat.options.store else ""
            sys.stdout.write(
                f"To continue this session: sevenfold chat {where}--resume {chat.options.name}\n"
            )
    return 0


def _run_once(options: argparse.Namespace) -> int:
    # These load the agent.
    from sevenfold.agent.agent import Agent
    from sevenfold.cli.chat import print_mode, start

    prompts: Iterable[
        str | UserPrompt
    ]  # read lazily: a script may wait for an answer before it writes the next prompt
    if options.input_format == "stream-json":
        if options.printed or options.prompt:
            raise Refused(
                "with --input-format stream-json the prompts come from standard input: leave -p without one"
            )
        prompts = print_mode.read_prompts(sys.stdin)
    else:
        if options.printed and options.prompt:
            raise Refused("there are two prompts, one after -p and one at the end; give one, in quotes")
        prompts = [print_mode.read_prompt(options.printed or options.prompt, sys.stdin)]
    chosen = start.choose(options, options.folder, None)
    chosen.require_key()
    made = start.agent_options(chosen)
    with ExitStack() as opened:
        opened.callback(start.forget_if_empty, chosen)
        opened.enter_context(closing(made["client"]))
        with start.explained_lock(chosen):
            agent = opened.enter_context(Agent(chosen.model, **made))
        if warning := start.assumed_window(agent):
            complain(f"warning: {warning}")
        how = options.output_format
        about: dict[str, Any] = {
            "session": chosen.name,
            "offline": chosen.offline,
            "verbose": options.verbose,
        }
        # The exit code is the worst of all runs.
        return max(
            (print_mode.run(agent, prompt, how, **about, out=sys.stdout) for prompt in prompts), default=0
        )


def _screen() -> InlineScreen | PlainScreen:
    """The app for this terminal; raises `UserError` if the extra it needs is not installed."""
    # Imported here, because `--help` needs neither rich nor any app.
    from sevenfold.cli.chat.screen import Renderer, colours_of, signs_for
    from sevenfold.stores.home import user_home

    colours = colours_of(os.environ)
    signs = signs_for(sys.stdout.encoding)
    if colours == "none":
        from sevenfold.cli.chat.plain import PlainScreen  # loads the agent

        return PlainScreen(Renderer(colours), signs)
    try:
        # This import needs an extra, and takes longer than all of the above.
        from sevenfold.cli.chat.inline import InlineScreen, terminal
    except ModuleNotFoundError as error:
        raise not_installed("chat", "chat", error) from error
    return InlineScreen(Renderer(colours), signs, history=user_home().typed, output=terminal())


def _open(options: argparse.Namespace, screen: InlineScreen | PlainScreen) -> Chat:
    """Ask whether the folder is trusted and which session to open, open the chat, and show warnings and notes."""
    # These load the agent, once the first line is on the screen.
    from sevenfold.cli.chat import start
    from sevenfold.cli.chat.chat import Chat
    from sevenfold.cli.chat.resumed import show_resumed

    folder: Path = options.folder
    start.ask_for_trust(screen, folder)
    chat = Chat(screen, start.open_agent, start.choose(options, folder, screen))
    for warning in (chat.options.no_key(), start.assumed_window(chat.agent)):
        if warning:
            chat.say("warning", warning)
    if not start.trust().covers(folder):
        not_used = "its own settings, hooks and instructions are not used"
        chat.say("note", f"this folder is not trusted, so {not_used}")
    if skipped := len(start.hooks_of(folder).skipped):
        chat.say("warning", f"{plural(skipped, 'hook')} will not run; /hooks says why")
    if chat.options.resumed:
        show_resumed(chat)
    return chat
