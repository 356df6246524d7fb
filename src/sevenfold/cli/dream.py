"""`sevenfold dream`: consolidates memory now."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import chain

from sevenfold.cli.text import add_folder, clean, plural
from sevenfold.cli.transcripts import add_store, opened_store
from sevenfold.clock import SystemClock
from sevenfold.errors import Refused
from sevenfold.layers.dream.layer import DreamTask
from sevenfold.memory.consolidation import Consolidation, dream, prepare
from sevenfold.memory.memory import Memory, difference
from sevenfold.session.factory import exists_in, open_memory
from sevenfold.stores.lineage import must_be_user


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("--user", action="store_true")
    add_folder(command)
    add_store(command)
    command.add_argument("--dry-run", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    if not options.dry_run:
        must_be_user("sevenfold dream")
    with opened_store(options.store) as store:
        memory = open_memory(options.folder, user=options.user, store=store)
        if options.dry_run:
            consolidation = prepare(memory, there=_there(options))
            sys.stdout.write(clean(_difference(memory, consolidation)))
        else:
            consolidation = _dreamt(memory, options)
    for line in (
        *consolidation.done,
        *consolidation.proposed,
        *(f"left alone: {refusal}" for refusal in consolidation.refused),
    ):
        sys.stdout.write(f"{clean(line)}\n")
    if not consolidation.done:
        sys.stdout.write("nothing to tidy\n")
    return 0


def describe(task: DreamTask | None) -> str:
    """A background dream in words: its state, the commands it ran, what it changed, and what it left alone."""
    if task is None:
        return "no dream yet in this session; memory is tidied once a day, after five sessions"
    lines = [
        f"dream: {task.state} ({task.stage}, {task.phase}), "
        f"{plural(task.turn_count, 'turn')}, {plural(task.tool_uses, 'tool use')}",
        *(f"  $ {line}" for line in chain.from_iterable(turn.commands for turn in task.turns)),
        *task.done,
        *task.proposed,
        *(f"left alone: {refusal}" for refusal in task.refused),
        task.reason,
    ]
    return clean("\n".join(filter(None, lines)))


def _there(options: argparse.Namespace) -> Callable[[str], bool] | None:
    """The check whether what a project's entries name exists; the user's memory belongs to no project.

    Of a store, the project's files may be on another machine.
    """
    return None if options.user or options.store else exists_in(options.folder)


def _dreamt(memory: Memory, options: argparse.Namespace) -> Consolidation:
    lock = memory.folder.dream_lock()
    clock = SystemClock()
    if not lock.take(clock.now()):
        raise Refused("another process is consolidating this memory; wait for it")
    try:
        consolidation = dream(memory, there=_there(options))
    except BaseException:
        lock.fail()
        raise
    lock.finish(clock.now())
    return consolidation


def _difference(memory: Memory, consolidation: Consolidation) -> str:
    current = {known.entry.file: known.entry.render() for known in memory.entries()}
    changes = (
        (file, current.get(file), edit.content if edit else None)
        for file, edit in consolidation.edits.items()
    )
    return "".join(difference(*change) for change in changes)
