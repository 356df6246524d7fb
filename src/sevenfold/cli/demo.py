"""`sevenfold demo`: an agent at work for hundreds of turns, offline, and what the layers did for it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sevenfold.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sevenfold.lab.demo.figures import Outcome, Report
    from sevenfold.lab.demo.run import Scale

SUMMARY = "watch an agent work for hundreds of turns, offline, with a simulated model"
HELP = """\
Watch an agent work in a window that is far too small for what it does. It mends, renames, documents and
extends a small project in a scratch folder, for hundreds of turns; it is killed once and resumed; and in
the end it is asked for what it was told at the start. The model is simulated: its answers are scripted, and
there is neither a network nor a key nor a bill. Everything else is real: the requests go over HTTP through
the official SDK, every tool call is carried out, and the simulated provider enforces its rules and bills by
its price list. Ends with 1 if anything that must hold does not."""
EXAMPLES = """\
examples:
  sevenfold demo                         333 turns, about a minute
  sevenfold demo --fast --json           the figures alone, in seconds
  sevenfold demo --keep                  and look at the session it leaves behind"""


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
    command.add_argument("--fast", action="store_true", help="a smaller project: seconds, not a minute")
    command.add_argument("--json", action="store_true", help="the figures as JSON; progress goes to stderr")
    command.add_argument("--keep", action="store_true", help="leave the scratch folder for you to look at")


def run(options: argparse.Namespace) -> int:
    """Hold the demonstration and show what came of it; returns the exit code."""
    try:
        from sevenfold.lab.demo.run import FAST, FULL
    except ModuleNotFoundError as error:
        raise UserError(
            f"the demonstration needs {error.name}, which is not installed; "
            "run: pip install 'sevenfold[anthropic,simulator]'"
        ) from error
    from sevenfold.cli.demo_progress import Progress, console_for
    from sevenfold.cli.demo_report import shown

    progress = Progress(console_for(sys.stderr if options.json else sys.stdout))
    with progress:
        outcome = _held(FAST if options.fast else FULL, progress.told, keep=options.keep)
    if options.json:
        import msgspec

        sys.stdout.write(
            msgspec.json.format(msgspec.json.encode(outcome.figures), indent=2).decode() + "\n"
        )
    else:
        progress.console.print(shown(outcome, progress.console.width))
    from sevenfold.lab.demo.figures import bars

    return 0 if all(bars(outcome).values()) else 1


def _held(scale: Scale, watch: Callable[[Report], None], *, keep: bool) -> Outcome:
    from sevenfold.lab.demo import run as demonstration

    with demonstration.scratch_folder(keep=keep) as folder:
        if keep:
            sys.stderr.write(f"sevenfold: the scratch folder {folder} will stay\n")
        return demonstration.run(scale, folder, watch)
