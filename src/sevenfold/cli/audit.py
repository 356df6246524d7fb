"""`sevenfold audit`: reports which facts the compactions of a session kept in the context, and which left it.

The transcript and an index next to it are only read; nothing is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from sevenfold.archive.audit import Audit, AuditedCompaction, AuditTotal, audit
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
    transcripts.add_store(command)
    command.add_argument("--json", action="store_true")
    command.add_argument("--ids", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    path = transcripts.find(options.session, options.store)
    with indexed(path) as (log, index), transcripts.progress(path, "checking") as progress:
        result = audit(log, index, progress)
    if options.json:
        print_json({"file": str(path), "boundaries": result.boundaries, "total": result.total})
    else:
        _print(path.name, result, ids=options.ids)
    return OUT_OF_REACH if result.total.out_of_reach else 0


def _print(name: str, result: Audit, *, ids: bool) -> None:
    console = ReportConsole()
    total = result.total
    if not result.boundaries:
        console.say(f"{name}: this session was never compacted, so nothing was lost.")
        return
    console.say(f"{'; '.join(_verdicts(result))}.", "bold red" if total.out_of_reach else "bold green")
    console.print()
    for number, audited in enumerate(result.boundaries, 1):
        _print_boundary(console, number, audited, ids=ids)
    if total.boundaries > 1:
        console.print(f"Total of {total.boundaries:,} compactions", style="bold")
        _print_counts(console, total.by_kind)
        _print_questions(console, total)


def _verdicts(result: Audit) -> list[str]:
    total = result.total
    ours = [audited for audited in result.boundaries if audited.own]
    theirs = [audited for audited in result.boundaries if not audited.own]
    verdicts = []
    if ours:
        lost = sum(audited.lost for audited in ours)
        verdicts.append(f"{plural(lost, 'fact')} lost" if lost else "Sevenfold's compactions lost nothing")
    if theirs:
        left_context = sum(audited.out_of_reach for audited in theirs)
        reached = sum(audited.reachable for audited in theirs)
        facts = plural(left_context + sum(audited.in_context for audited in theirs), "fact")
        found_again = f"recall would find {reached:,}"
        verdicts.append(
            f"in other tools' compactions {left_context:,} of {facts} left the context; {found_again}"
        )
    if total.invented:
        verdicts.append(plural(total.invented, "invented statement") + " about the user")
    if total.doubtful:
        verdicts.append(plural(total.doubtful, "statement") + " about the user without a clear source")
    if not all(audited.whole_history for audited in result.boundaries):
        unchecked = (
            f"{plural(total.unchecked, 'statement')} about the user" if total.unchecked else "the rest"
        )
        verdicts.append(
            f"the file begins in the middle of the conversation, so {unchecked} cannot be checked"
        )
    return verdicts


def _print_boundary(console: ReportConsole, number: int, audited: AuditedCompaction, *, ids: bool) -> None:
    time = audited.timestamp[:19].replace("T", " ") or "no time"
    tool = "Sevenfold's" if audited.own else "another tool's"
    boundary = f"  {audited.uuid}" if ids else ""
    console.say(f"{number}. {time}  {audited.trigger}, {tool}{boundary}", "bold")
    _print_counts(console, audited.by_kind)
    _print_questions(console, audited)
    if audited.left_out:
        beyond = ", ".join(f"{count} {kind}" for kind, count in audited.left_out.items())
        console.say(f"   not checked, beyond the limit for their kind: {beyond}", "dim")
    for fact in audited.missing[:MOST_SHOWN]:
        state = "lost" if audited.own else "left" if fact.found else "left, not found by recall"
        record = f"  {fact.record}" if ids else ""
        console.say(f"   {state}  {fact.kind}{record}  {excerpt(fact.text)}", "red")
    if (hidden := len(audited.missing) - MOST_SHOWN) > 0:
        console.print(f"   {hidden:,} more, which --json lists", style="dim")
    statements = {
        "invented": audited.invented_statements,
        "no clear source": audited.doubtful_statements,
        "cannot be checked": audited.unchecked_statements,
    }
    for verdict, texts in statements.items():
        for statement in texts:
            console.say(f"   {verdict}  {excerpt(statement)}", "yellow")
    console.print()


def _print_questions(console: ReportConsole, counted: AuditTotal) -> None:
    if left_context := counted.reachable + counted.lost:
        console.print(
            f"   of the {left_context:,} that left, recall finds {counted.reachable:,} by their own words "
            f"and {counted.reachable_by_question:,} by a question",
            style="dim",
        )


def _print_counts(console: ReportConsole, by_kind: Mapping[str, Count]) -> None:
    if not by_kind:
        console.print("   no facts to check in what was hidden")
        return
    console.print(f"   {'':<14}{'in context':>12}{'left it':>10}{'found by recall':>18}", style="dim")
    for kind, count in by_kind.items():
        left_context = count.reachable + count.lost
        name = kind.replace("_", " ")
        console.print(f"   {name:<14}{count.in_context:>12}{left_context:>10}{count.reachable:>18}")
