"""`sevenfold audit`: reports which facts the compactions of a session kept in the context, and which left it.

The transcript and an index next to it are only read; nothing is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from sevenfold.archive.audit import Audit, AuditedCompaction, audit
from sevenfold.archive.fidelity import Count
from sevenfold.cli import transcripts
from sevenfold.cli.output import ReportConsole
from sevenfold.cli.recall import indexed
from sevenfold.cli.text import excerpt, plural, print_json

OUT_OF_REACH = 1
"""The exit code if there are facts that the model can no longer reach."""
MOST_SHOWN = 30
"""Missing facts listed for each compaction; `--json` lists all."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("session", metavar="SESSION")
    command.add_argument("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    path = transcripts.find(options.session)
    with indexed(path) as (log, index), transcripts.progress(path, "checking") as progress:
        found = audit(log, index, progress)
    if options.json:
        print_json({"file": str(path), "boundaries": found.boundaries, "total": found.total})
    else:
        _print(path.name, found)
    return OUT_OF_REACH if found.total.out_of_reach else 0


def _print(name: str, found: Audit) -> None:
    console, total = ReportConsole(), found.total
    if not found.boundaries:
        console.say(f"{name}: this session was never compacted, so nothing was lost.")
        return
    for number, audited in enumerate(found.boundaries, 1):
        _print_boundary(console, number, audited)
    if total.boundaries > 1:
        console.print(f"Total of {total.boundaries:,} compactions", style="bold")
        _print_counts(console, total.by_kind)
    ours, theirs = ([one for one in found.boundaries if one.own is own] for own in (True, False))
    verdicts = []
    if ours:
        lost = sum(one.lost for one in ours)
        verdicts.append(f"{plural(lost, 'fact')} lost" if lost else "Sevenfold's compactions lost nothing")
    if theirs:
        left, reached = sum(one.out_of_reach for one in theirs), sum(one.reachable for one in theirs)
        facts = plural(left + sum(one.in_context for one in theirs), "fact")
        found_again = f"recall would find {reached:,}"
        verdicts.append(f"in other tools' compactions {left:,} of {facts} left the context; {found_again}")
    if total.invented:
        verdicts.append(plural(total.invented, "invented statement") + " about the user")
    console.say(f"{'; '.join(verdicts)}.", "bold red" if total.out_of_reach else "bold green")


def _print_boundary(console: ReportConsole, number: int, audited: AuditedCompaction) -> None:
    when = audited.timestamp[:19].replace("T", " ") or "no time"
    whose = "Sevenfold's" if audited.own else "another tool's"
    console.say(f"{number}. {when}  {audited.trigger}, {whose}  {audited.uuid}", "bold")
    _print_counts(console, audited.by_kind)
    if audited.left_out:
        beyond = ", ".join(f"{count} {kind}" for kind, count in audited.left_out.items())
        console.say(f"   not checked, beyond the limit for their kind: {beyond}", "dim")
    for fact in audited.missing[:MOST_SHOWN]:
        state = "lost" if audited.own else "left" if fact.found else "left, not found by recall"
        console.say(f"   {state}  {fact.kind}  {fact.record}  {excerpt(fact.text)}", "red")
    if (more := len(audited.missing) - MOST_SHOWN) > 0:
        console.print(f"   {more:,} more, which --json lists", style="dim")
    for statement in audited.invented_statements:
        console.say(f"   invented  {excerpt(statement)}", "yellow")
    console.print()


def _print_counts(console: ReportConsole, by_kind: Mapping[str, Count]) -> None:
    if not by_kind:
        console.print("   no facts to check in what was hidden")
        return
    console.print(f"   {'':<14}{'in context':>12}{'left it':>10}{'found by recall':>18}", style="dim")
    for kind, count in by_kind.items():
        left, name = count.reachable + count.lost, kind.replace("_", " ")
        console.print(f"   {name:<14}{count.in_context:>12}{left:>10}{count.reachable:>18}")
