"""`sevenfold diff-request`: tells whether a request would read from the cache what another one wrote, and why not."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from sevenfold.archive import requests
from sevenfold.cli import transcripts
from sevenfold.cli.output import ReportConsole
from sevenfold.cli.text import add_switches, print_json
from sevenfold.errors import InputError
from sevenfold.request.watch import Sent
from sevenfold.stores.jsonl.log import JsonlLog

BREAKS = 1
"""The exit code if the second request would not read all that the first one wrote to the cache."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("a", metavar="A")
    command.add_argument("b", metavar="B")
    transcripts.add_store(command)
    add_switches(command, "--frame", "--json")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    first_title, first = _request(options.a, options.store)
    second_title, second = _request(options.b, options.store)
    comparison = requests.compare(first, second, frame_only=options.frame)
    if options.json:
        print_json({"a": first_title, "b": second_title, **msgspec.to_builtins(comparison)})
    else:
        _print(first_title, second_title, comparison)
    return BREAKS if comparison.breaks else 0


def _request(name: str, store: str | None) -> tuple[str, Sent]:
    """The title and content of the request a user named: a JSON file, or a session with an optional number."""
    session, _, number = name.rpartition(":")
    if not (session and number.removeprefix("e").removeprefix("-").isdigit()) or Path(name).exists():
        session = name
        number = "-1"
    path = transcripts.find(session, store)
    if path.suffix != ".jsonl":
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        return path.name, requests.from_body(path.read_bytes(), path.name)
    log = JsonlLog(path)
    if number.startswith("e"):
        return requests.recorded(log, requests.first_of_epoch(log, int(number[1:]), session), path.stem)
    return requests.recorded(log, int(number), path.stem)


def _print(first_title: str, second_title: str, comparison: requests.Comparison) -> None:
    console = ReportConsole()
    if not comparison.breaks:
        console.say(f"{second_title} reads all that {first_title} left in the cache.", "bold green")
        return
    price = "" if comparison.usd is None else f", ${comparison.usd:.4f}"
    console.say(f"{comparison.part} differs: the cache breaks there", "bold red")
    console.say(f"about {comparison.tokens:,} tokens of {first_title} would be written again{price}")
    if comparison.also:
        console.say(f"also different: {', '.join(comparison.also)}")
    if comparison.diff:
        console.say(comparison.diff)
