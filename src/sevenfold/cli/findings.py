"""What is worth a sentence in a report, besides the tables."""

from __future__ import annotations

from collections.abc import Iterator

from sevenfold.cli.phrases import count, plural
from sevenfold.lab.profile.figures import ProfileTotal, SessionProfile

_REPAIRS = {
    "unanswered_call": ("tool call has", "tool calls have", "no result"),
    "orphan_result": ("tool result answers", "tool results answer", "a call that is not there"),
    "second_call": ("tool call is", "tool calls are", "made twice under one id"),
    "second_result": ("result is", "results are", "the second for one call"),
    "cut_start": ("conversation starts", "conversations start", "in the middle"),
}


def sentences(of: SessionProfile | ProfileTotal) -> Iterator[str]:
    """Repeated reads, how good a rule of thumb would have been, and what is odd about the files."""
    yield from _reads(of)
    growth = of.growth
    if growth.chars4_share is not None and growth.estimate_share is not None:
        yield (
            f"Four characters per token would have counted {growth.chars4_share:.0%} of the prompts' real "
            f"growth; Sevenfold's estimate counts {growth.estimate_share:.0%}."
        )
    if of.partial_outputs:
        calls = plural(of.partial_outputs, "call was", "calls were")
        yield f"{calls} recorded before the answer was complete: output and cost are too low."
    if isinstance(of, ProfileTotal) and of.copied_calls:
        copies = plural(of.copied_calls, "call is", "calls are")
        yield f"{copies} in more than one file (resumed or forked sessions); each copy is counted."
    yield from _oddities(of)


def _reads(of: SessionProfile | ProfileTotal) -> Iterator[str]:
    reads = of.repeated_reads
    if reads.reads:
        again = plural(reads.reads, "file was", "files were")
        yield f"{again} read again, unchanged, while still in context: {count(reads.tokens)} tokens wasted."
    if reads.after_loss:
        again = plural(reads.after_loss, "unchanged file")
        yield f"{again} had to be read again after the first text had left the context."


def _oddities(of: SessionProfile | ProfileTotal) -> Iterator[str]:
    for kind, number in of.repairs.items():
        one, many, rest = _REPAIRS.get(kind, (kind, kind, ""))
        yield f"{plural(number, one, many)} {rest}; a server refuses this unless it is mended."
    if of.damaged_lines:
        yield f"{plural(of.damaged_lines, 'damaged line')} could not be read."
    if unknown := sum(of.unknown_lines.values()):
        names = ", ".join(list(of.unknown_lines)[:6])
        yield f"{plural(unknown, 'record is', 'records are')} of an unknown type and left out: {names}."
