"""`sevenfold audit`: what the compactions of a session kept, left reachable, or lost.

The transcript and an index next to it are only read; nothing is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from sevenfold.cli import transcripts
from sevenfold.cli.options import print_json
from sevenfold.cli.output import ReportConsole
from sevenfold.cli.recall import indexed
from sevenfold.cli.text import plural, shorten
from sevenfold.lab.audit import Audit, AuditedCompaction, audit
from sevenfold.lab.fidelity import Count

SOMETHING_LOST = 1
"""The exit code if a fact is neither in the context nor found by recall."""
LONGEST_SHOWN = 160
"""Characters of a fact or statement that are shown; --json has all of them."""

HELP = """\
Check the compactions of a recorded session. Facts are taken from the records each compaction hid (messages,
corrections, wishes and decisions of the user, changed files, failures, open tasks, the last step, exact names) and
looked for in what the model saw next. A fact is in the context, or reachable because recall finds its record, or
lost. Statements about the user that no record supports are counted as invented.

Reads Claude Code transcripts, Codex rollouts, and Sevenfold's own. Nothing is written, and nothing leaves this
machine."""

EXAMPLES = """\
examples:
  sevenfold audit session.jsonl            every compaction of a session
  sevenfold audit SESSION-ID --json        for scripts, with everything lost or invented in full

exit code: 0 if nothing is lost, 1 if something is, 2 after an error"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("session", metavar="SESSION", help="a transcript, or the id of a session")
    command.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    path = transcripts.find(options.session)
    with indexed(path) as (log, index), transcripts.progress(path, "checking") as progress:
        found = audit(log, index, progress)
    if options.json:
        print_json({"file": str(path), "boundaries": found.boundaries, "total": found.total})
    else:
        _print(path.name, found)
    return SOMETHING_LOST if found.total.lost else 0


def _print(name: str, found: Audit) -> None:
    console, total = ReportConsole(), found.total
    if not found.boundaries:
        console.print(f"{name}: this session was never compacted, so nothing was lost.", soft_wrap=True)
        return
    for number, audited in enumerate(found.boundaries, 1):
        _print_boundary(console, number, audited)
    if total.boundaries > 1:
        console.print(f"Total of {total.boundaries:,} compactions", style="bold")
        _print_counts(console, total.by_kind)
    verdict = f"{plural(total.lost, 'fact')} lost" if total.lost else "Nothing is lost"
    if total.invented:
        verdict += f", {plural(total.invented, 'invented statement')} about the user"
    console.print(f"{verdict}.", style="bold red" if total.lost else "bold green")


def _print_boundary(console: ReportConsole, number: int, audited: AuditedCompaction) -> None:
    when = audited.timestamp[:19].replace("T", " ") or "no time"
    console.print(f"{number}. {when}  {audited.trigger}  {audited.uuid}", style="bold", soft_wrap=True)
    _print_counts(console, audited.by_kind)
    if audited.left_out:
        beyond = ", ".join(f"{count} {kind}" for kind, count in audited.left_out.items())
        console.print(
            f"   not checked, beyond the limit for their kind: {beyond}", style="dim", soft_wrap=True
        )
    for fact in audited.lost_facts:
        console.print(
            f"   lost  {fact.kind}  {fact.record}  {_short(fact.text)}", style="red", soft_wrap=True
        )
    for statement in audited.invented_statements:
        console.print(f"   invented  {_short(statement)}", style="yellow", soft_wrap=True)
    console.print()


def _print_counts(console: ReportConsole, by_kind: Mapping[str, Count]) -> None:
    if not by_kind:
        console.print("   no facts to check in what was hidden")
        return
    console.print(f"   {'':<14}{'in context':>12}{'reachable':>12}{'lost':>8}", style="dim")
    for kind, count in by_kind.items():
        name = kind.replace("_", " ")
        console.print(f"   {name:<14}{count.in_context:>12}{count.reachable:>12}{count.lost:>8}")


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), LONGEST_SHOWN)
