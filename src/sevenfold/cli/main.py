"""The command line.

Each command is a module with two functions: `arguments` declares its arguments, and `run` carries it out and returns
the exit code. Its help is in ``help/<command>.txt``, in three parts: what it does, examples, a line for each argument.
Only the module of the command that is called is imported, so `sevenfold --help` is quick and a command may import what
it needs.

An error the user can fix, such as an unusable file, is printed as one line on the error stream, with exit code 2; any
other error is raised.
"""

from __future__ import annotations

import argparse
import errno
import gc
import os
import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import sevenfold as package
from sevenfold.cli.text import complain, not_installed, one_line
from sevenfold.errors import InputError, NotAuthenticated, NotPermitted, UserError
from sevenfold.plugins import COMMANDS as PLUGIN_COMMANDS
from sevenfold.plugins import plugins

COMMANDS = {
    "demo": "watch an agent work for hundreds of turns, offline, with a simulated model",
    "chat": "talk to an agent in the terminal",
    "sessions": "list the sessions of a folder, or delete one",
    "inspect": "look at recorded sessions in the browser: context, cost, cache, what left",
    "profile": "show where the context and the money of recorded sessions went",
    "replay": "say what recorded sessions would have cost, and kept, under other policies",
    "compact": "summarise a recorded session into a new file, and show what was kept",
    "notes": "show the running notes of a session, or bring them up to date",
    "recall": "search a session for what was said, above all for what has left the context",
    "memory": "show and change what is remembered across sessions",
    "dream": "tidy memory: merge duplicates, close entries that no longer hold",
    "team": "have the tasks of a file done by several agents at once",
    "tasks": "show what runs in the background of the sessions here, or stop it",
    "agents": "list the sub-agents that are defined here, or check their files",
    "audit": "check what the compactions of a session kept in the context, and what left it",
    "diff-request": "say whether one request would find in the cache what another left, and why not",
    "eval": "measure recall on conversations with questions whose answers are known",
    "config": "show every setting, its value, and where it comes from",
    "install": "add our plugin to Claude Code or Codex: what its compactions lose comes back",
    "uninstall": "remove our plugin again, to the byte",
    "mcp": "serve recorded sessions to other programs' agents over the Model Context Protocol",
    "acp": "serve our agent to an editor over the Agent Client Protocol",
    "doctor": "check what this machine offers: sandbox, programs, keys, extras",
    "trust": "use a project folder's own settings, hooks and servers",
    "scan": "look for secrets in stored sessions",
    "purge": "remove a session, or mask one leaked secret everywhere",
    "gc": "remove stored tool results that are no longer needed",
    "gateway": "pass a program's requests on unchanged, and record what they cost and what broke the cache",
    "decisions": "decide what a gateway in the mode ask proposes, or undo what it did",
    "work": "carry out the jobs of a store in PostgreSQL: a worker",
    "serve": "serve sessions with agents over HTTP, to the users of several tenants",
    "tenants": "show and change who may use a server, with which tokens, and for how much",
    "simulate": "serve a simulated provider: the real wire formats and rules, no model, no key, no bill",
}
TOP_OPTIONS = ("-h", "--help", "--version")
PRINT_OPTIONS = frozenset({"-p", "--print"})
FAILED = 2
INTERRUPTED = 130
PIPE_CLOSED = 141
OBJECTS_BETWEEN_COLLECTIONS = 200_000
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Error numbers that mean standard output failed: writes to any other file raise errors of our own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    # Commands produce little garbage, and searching for it took a tenth of the time to the first request.
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    given_arguments = sys.argv[1:] if arguments is None else arguments
    if sys.stdout is None or sys.stderr is None:
        # The parent process closed them.
        nowhere = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
        sys.stdout = sys.stdout or nowhere
        sys.stderr = sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        # Inside the try, because the user may press Ctrl-C while the command is loading, too.
        if not given_arguments and not _on_terminal():
            parser("").print_help()
            return 0
        given_arguments = _with_command(given_arguments)
        options, unknown = parser(given_arguments[0]).parse_known_args(given_arguments)
        if unknown:
            raise _unknown_argument(unknown[0], options.command)
        code: int = _module(options.command).run(options)
        sys.stdout.flush()
    except (UserError, NotAuthenticated, NotPermitted) as error:
        complain(str(error))
        return FAILED
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "rich":
            raise
        complain(str(not_installed("command line", "cli", error)))
        return FAILED
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output closed its end, as `head` does.
        _discard_output()
        return PIPE_CLOSED
    except OSError as error:
        if error.errno in UNWRITABLE:
            _discard_output()
            complain(f"cannot write the output: {error.strerror}")
        elif error.filename:
            name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "?"
            complain(f"{one_line(name, 100)}: {error.strerror}; check the name and the permissions")
        else:
            raise
        return FAILED
    return code


def _with_command(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments with the command in front: without one they are a chat's options, or its first message."""
    first = arguments[0] if arguments else "chat"
    if first in COMMANDS or first in TOP_OPTIONS or plugins(PLUGIN_COMMANDS, first):
        return arguments or [first]
    if first.startswith("-"):
        return ["chat", *arguments]
    similar = get_close_matches(first, COMMANDS, 1, 0.7)
    if similar:
        raise InputError(
            f"there is no command {one_line(first, 60)!r}; did you mean {similar[0]}? As a message to the agent: "
            f"sevenfold chat {shlex.quote(one_line(first, 60))}"
        )
    if _on_terminal() or PRINT_OPTIONS.intersection(arguments):
        return ["chat", *arguments]
    raise InputError(
        f"there is no command {one_line(first, 60)!r}; 'sevenfold --help' lists them. A message to the agent needs "
        "a terminal, or -p for scripts"
    )


def _on_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def _unknown_argument(argument: str, command: str) -> InputError:
    """The error for an argument that a command does not take; names the option it may mean."""
    shown = one_line(argument, 60)
    listed = f"'sevenfold {command} --help' lists what it takes"
    if not argument.startswith("-"):
        return InputError(
            f"{command} does not take {shown!r}; put text with blanks into quotes, and {listed}"
        )
    name = argument.partition("=")[0]
    similar = get_close_matches(name, _options_of(command), 1, 0.6)
    hint = f"did you mean {similar[0]}? " if similar else ""
    return InputError(f"{command} has no option {shown}; {hint}{listed}")


def _options_of(command: str) -> list[str]:
    """The names of the options that the help of a command lists."""
    command_parser = argparse.ArgumentParser(add_help=False)
    _module(command).arguments(command_parser)
    names: list[str] = []
    for action in command_parser._actions:
        if action.help != argparse.SUPPRESS:
            names += action.option_strings
    return names


def _module(name: str) -> ModuleType:
    """Import the module of a command."""
    if name not in COMMANDS:
        return _plugin(name)
    module = "chat.command" if name == "chat" else name.replace("-", "_")
    return import_module(f"sevenfold.cli.{module}")


def _plugin(name: str) -> ModuleType:
    """Import the module of a command that another package brings."""
    for plugin in plugins(PLUGIN_COMMANDS, name):
        module: ModuleType | None = plugin.load()
        if module is None:
            continue
        if callable(getattr(module, "arguments", None)) and callable(getattr(module, "run", None)):
            return module
        plugin.warn("a command needs the functions arguments and run")
    raise InputError(f"the command {name} cannot be loaded; 'sevenfold --help' lists the commands")


def _discard_output() -> None:
    """Redirect standard output to the null device: Python flushes it at exit, and that must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line; the help, not the error, lists everything."""

    def error(self, message: str) -> NoReturn:
        self.exit(FAILED, f"{self.prog}: {message}; '{self.prog} --help' lists what it takes\n")


def parser(called: str) -> argparse.ArgumentParser:
    """The argument parser, with the called command and its arguments; with all commands if there is no such command."""
    epilog = "'sevenfold COMMAND --help' explains a command."
    top = _Parser(prog="sevenfold", description=package.__doc__, epilog=epilog)
    top.add_argument("--version", action="version", version=f"sevenfold {package.__version__}")
    commands = top.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    if called not in COMMANDS:
        if called and plugins(PLUGIN_COMMANDS, called):
            module = _plugin(called)
            module.arguments(commands.add_parser(called, description=module.__doc__))
            return top
        for plugin in plugins(PLUGIN_COMMANDS):
            # Its own description would have to be imported.
            commands.add_parser(plugin.name, help=f"a command of the package {plugin.package}")
    for name in [called] if called in COMMANDS else COMMANDS:
        form = argparse.RawDescriptionHelpFormatter
        command = commands.add_parser(name, help=COMMANDS[name], formatter_class=form)
        if name == called:
            text = Path(__file__).with_name("help").joinpath(f"{name}.txt").read_text(encoding="utf-8")
            command.description, command.epilog, listed = text.split("\n---\n")
            _module(name).arguments(command)
            help_texts = dict(line.split(maxsplit=1) for line in listed.splitlines())
            for argument in command._actions:
                names = (*argument.option_strings, argument.dest)
                listed_names = [dest for dest in names if dest in help_texts]
                if listed_names:
                    argument.help = help_texts[listed_names[0]]
    return top
