"""`sevenfold audit`: what the compactions of a session kept, left within reach, or lost.

The transcript is only read, and so is an index that lies beside it; nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sevenfold.cli import transcripts
from sevenfold.cli.phrases import plural, shortened

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from sevenfold.lab.audit import Audit, AuditedCompaction
    from sevenfold.layers.compact.fidelity import Count

SOMETHING_LOST = 1
"""The exit code when a fact is neither in the context nor found by recall."""
LONGEST_SHOWN = 160
"""Characters of a fact or statement that are shown; --json has all of it."""

SUMMARY = "check what the compactions of a session kept, left within reach, or lost"
HELP = """\
Check the compactions of a recorded session. Facts are taken from the records each compaction hid (messages,
corrections, wishes and decisions of the user, files changed, failures, open tasks, the last step, exact names)
and looked for in what the model saw next. A fact is in the context, or reachable because recall finds its record,
or lost. Statements about the user that no record supports are counted as invented.

Reads Claude Code transcripts and Sevenfold's own. Nothing is written, and nothing leaves this machine."""

EXAMPLES = """\
examples:
  sevenfold audit session.jsonl            every compaction of a session
  sevenfold audit SESSION-ID --json        for scripts, with all that is lost or invented in full

exit code: 0 if nothing is lost, 1 if something is, 2 after an error"""


def arguments(command: argparse.ArgumentParser) -> None:
    """What the command takes."""
    command.add_argument("session", metavar="SESSION", help="a transcript, or the id of a session")
    command.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    path = transcripts.find(options.session)
    audit = _audit(path)
    if options.json:
        _print_json(path, audit)
    else:
        _print(path, audit)
    return SOMETHING_LOST if audit.total.lost else 0


def _audit(path: Path) -> Audit:
    from sevenfold.lab.audit import audit

    with transcripts.indexed(path) as (log, index), transcripts.progress(path, "checking") as progress:
        return audit(log, index, progress)


def _print_json(path: Path, audit: Audit) -> None:
    import msgspec

    fields = {"file": str(path), "boundaries": audit.boundaries, "total": audit.total}
    text = msgspec.json.format(msgspec.json.encode(fields), indent=2)
    sys.stdout.write(text.decode() + "\n")


def _print(path: Path, audit: Audit) -> None:
    from sevenfold.cli.output import Report

    console = Report()
    if not audit.boundaries:
        console.print(
            f"{path.name}: no compaction in this session, so nothing can have been lost.", soft_wrap=True
        )
        return
    for number, audited in enumerate(audit.boundaries, 1):
        _print_boundary(console, number, audited)
    total = audit.total
    if total.boundaries > 1:
        console.print(f"All {plural(total.boundaries, 'compaction')} together", style="bold")
        _print_counts(console, total.by_kind)
    console.print(_verdict(total.lost, total.invented), style="bold red" if total.lost else "bold green")


def _print_boundary(console: Console, number: int, audited: AuditedCompaction) -> None:
    when = audited.timestamp[:19].replace("T", " ") or "no time"
    console.print(f"{number}. {when}  {audited.trigger}  {audited.uuid}", style="bold", soft_wrap=True)
    _print_counts(console, audited.by_kind)
    if audited.left_out:
        beyond = ", ".join(f"{count} {kind}" for kind, count in audited.left_out.items())
        console.print(
            f"   not looked for, beyond the most of a kind: {beyond}", style="dim", soft_wrap=True
        )
    for fact in audited.lost_facts:
        said = f"   lost  {fact.kind}  {fact.record}  {_short(fact.text)}"
        console.print(said, style="red", soft_wrap=True)
    for statement in audited.invented_statements:
        console.print(f"   invented  {_short(statement)}", style="yellow", soft_wrap=True)
    console.print()


def _print_counts(console: Console, by_kind: Mapping[str, Count]) -> None:
    if not by_kind:
        console.print("   nothing was hidden that could be looked for")
        return
    console.print(f"   {'':<14}{'in context':>12}{'reachable':>12}{'lost':>8}", style="dim")
    for kind, count in by_kind.items():
        name = kind.replace("_", " ")
        console.print(f"   {name:<14}{count.in_context:>12}{count.reachable:>12}{count.lost:>8}")


def _verdict(lost: int, invented: int) -> str:
    kept = "Nothing is lost" if not lost else f"{plural(lost, 'fact')} lost"
    return kept + (f", {plural(invented, 'statement')} about the user invented." if invented else ".")


def _short(text: str) -> str:
    return shortened(transcripts.harmless(" ".join(text.split())), LONGEST_SHOWN)
