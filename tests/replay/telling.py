"""Sessions for replays: short, with rules, large results, pauses and summaries where a test wants them."""

from __future__ import annotations

from pathlib import Path

from tests.profile.making import Tape, call, result, text, usage

RULE = "Never touch the file build/harbour.bin, and always run the tide tests first."
CORRECTION = "No, put the ebb table back where the pilots look for it."
REMARK = "stop reading this, the beacon list is generated from beacons.yaml"
REFUSAL = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\n"
)
OPENING = 3_000
"""Tokens of system prompt and tools in the first recorded prompt."""


def session(
    path: Path,
    rounds: int = 24,
    *,
    lines: int = 150,
    pause: float = 20.0,
    summary_after: int | None = None,
    refusal: bool = False,
    tool: str = "Read",
) -> Path:
    """A session that reads a file in each round; its user sets a rule at first, and corrects something later.

    Results of a ``tool`` that nobody knows are never cleared.
    """
    tape = Tape()
    tape.user(f"Repair the displays of the harbour. {RULE}")
    for number in range(rounds):
        tape.wait(pause)
        tape.answer(
            f"m{number}",
            usage(OPENING + 600 * number),
            text(f"I read src/panel_{number}.py now."),
            call(tool, f"t{number}", file_path=f"/harbour/src/panel_{number}.py"),
        )
        if refusal and number == 1:
            tape.user(result(f"t{number}", REFUSAL + REMARK, is_error=True))
            continue
        content = "\n".join(f"{line}: depth = table[{line + number}]" for line in range(lines))
        tape.user(result(f"t{number}", content))
        if number == 3:
            tape.user(CORRECTION)
        if number == summary_after:
            tape.compacted("The pilots want the ebb table; the panels are read one after the other.")
    tape.answer("end", usage(OPENING), text("All panels are read."))
    return tape.save(path)
