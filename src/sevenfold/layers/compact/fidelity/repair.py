"""Lost facts as a block of text that can be appended to a summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sevenfold.layers.compact.fidelity.probe import KINDS, Probe

HEADING = (
    "Facts from the conversation before this point that the summary does not hold, each with its record:"
)
_LABELS = {
    "user_message": "message of the user",
    "correction": "correction by the user",
    "preference": "wish of the user",
    "decision": "settled",
    "pending_task": "open task",
    "current_step": "last step",
    "edited_file": "changed file",
    "error": "failure",
    "identifier": "exact name",
}
SHORTENED_TO = 160
"""Characters of a fact for which there is no room in full."""


def estimated(text: str) -> int:
    """Tokens of a text, rather too many than too few."""
    return len(text.encode(errors="replace")) // 3 + 1


def repair(lost: Sequence[Probe], most_tokens: int = 2_000, count: Callable[[str], int] = estimated) -> str:
    """The block, what matters most first; empty if nothing is lost.

    Facts that do not fit in full are shortened, and where that is still too much only counted.
    """
    if not lost:
        return ""
    lines = [HEADING]
    room = most_tokens - count(HEADING)
    left_out = 0
    for probe in sorted(lost, key=lambda probe: KINDS.index(probe.kind)):
        text = " ".join(probe.text.split())
        whole = f"- {_LABELS[probe.kind]} [{probe.record}]: {text}"
        cut = f"- {_LABELS[probe.kind]} [{probe.record}]: {_cut(text)}"
        line = next((line for line in (whole, cut) if count(line) <= room), "")
        if line:
            lines.append(line)
            room -= count(line)
        else:
            left_out += 1
    if left_out:
        lines.append(f"- and {left_out} more, for which there is no room")
    return "\n".join(lines)


def _cut(text: str) -> str:
    if len(text) <= SHORTENED_TO:
        return text
    half = SHORTENED_TO // 2
    return f"{text[:half]} […] {text[-half:]}"
