"""What a user says to an agent of a framework, and what its tool returns.

Nothing here needs a package: the agents run in environments of their own.
"""

from __future__ import annotations

TURNS = 30
SYSTEM = " ".join(
    f"Rule {number}: berths are kept in order of arrival, and nothing is dropped." for number in range(12)
)
TOOL = "read_log"
LINES = 90
"""Of a log: about 1,600 tokens, which is too little to be stored elsewhere."""


def codeword(turn: int) -> str:
    """A word that only one message of the user has."""
    return f"beacon-{turn}-{7919 * (turn + 3) % 9973:04}"


def sentences(turn: int) -> tuple[str, ...]:
    """The sentences of one message of the user."""
    return (
        f"The codeword of request {turn} is {codeword(turn)}.",
        f"Pier {turn * 37 % 101} must not be closed before the ledger of week {turn} is signed.",
        f"Call {TOOL} for log {turn}, then go on.",
    )


def message(turn: int) -> str:
    """What the user says in a turn."""
    return " ".join(sentences(turn))


def log(name: str) -> str:
    """What the tool returns."""
    return "".join(
        f"{line:4}  {name}: the harbour is quiet and the cranes are oiled\n" for line in range(LINES)
    )
