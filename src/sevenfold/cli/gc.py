"""`sevenfold gc`: removes stored tool results that are no longer needed."""

from __future__ import annotations

import argparse

from sevenfold.archive.upkeep.collection import RetentionLimits, collect
from sevenfold.cli.output import spinner
from sevenfold.cli.text import number, plural, write
from sevenfold.clock import SystemClock
from sevenfold.stores.home import user_home
from sevenfold.stores.lineage import must_be_user
from sevenfold.stores.settings_files import load


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    limit = number(float, 0, "a number from 0 upwards")
    add("--days", type=limit, metavar="N")
    add("--megabytes", type=limit, metavar="N")
    add("--dry-run", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    if not options.dry_run:
        must_be_user("sevenfold gc")
    settings = load().settings
    days = settings.keep_results_days if options.days is None else options.days
    megabytes = settings.keep_results_megabytes if options.megabytes is None else options.megabytes
    limits = RetentionLimits(days, megabytes)
    with spinner("looking through stored results"):
        result = collect(user_home(), limits, SystemClock().now(), dry_run=options.dry_run)
    for collected in result.gone:
        write(f"{collected.path}  {collected.size:,} bytes, {collected.why}\n")
    verb = "Would remove" if options.dry_run else "Removed"
    freed = sum(collected.size for collected in result.gone)
    files = plural(len(result.gone), "file")
    kept_files = plural(result.kept, "file")
    write(f"{verb} {files}, {freed:,} bytes; kept {kept_files}, {result.kept_bytes:,} bytes.\n")
    if result.busy:
        write(f"In use, so left alone: {', '.join(result.busy)}\n")
    return 0
