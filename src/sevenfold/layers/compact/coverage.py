"""Is everything that code can extract in the context after a compaction, or within reach of recall?

What is neither is appended to the summary, so that no compaction loses it (S4.12, S10.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from sevenfold.layers.compact.extract.notation import Facts

State = Literal["in_context", "reachable", "lost"]

_KINDS = {
    "user_message": (120, "message of the user"),
    "decision": (30, "settled"),
    "correction": (30, "correction by the user"),
    "pending_task": (30, "open task"),
    "edited_file": (40, "changed file"),
    "error": (20, "failure"),
    "identifier": (40, "exact name"),
}
"""What is looked for, that which matters most first: how many of each at most, so that the check stays cheap, and
what it is called."""
HEADING = (
    "Facts from the conversation before this point that the summary does not hold, each with its record:"
)
_EDGE = 80
"""Characters of either end of a cut message that must be shown."""
_SHORTENED = 160
"""Characters of a fact for which there is no room in full."""


class Fact(Struct, frozen=True):
    """Something that must not be lost, and the record it is in."""

    kind: str
    text: str
    record: str
    accepts: tuple[str, ...] = ()
    """Other texts that say the same."""


class Count(Struct, frozen=True):
    """How many facts are where."""

    in_context: int = 0
    reachable: int = 0
    lost: int = 0


class Kinded(Protocol):
    """A fact of some kind."""

    @property
    def kind(self) -> str:
        """Which."""


FactT = TypeVar("FactT", bound=Kinded)


class Coverage(Struct, Generic[FactT], frozen=True):
    """Where each fact is after a compaction."""

    states: tuple[tuple[FactT, State], ...] = ()

    @property
    def lost(self) -> tuple[FactT, ...]:
        """Those that are neither seen nor found."""
        return tuple(fact for fact, state in self.states if state == "lost")

    @property
    def total(self) -> Count:
        """Over all kinds."""
        return _count(state for _, state in self.states)

    @property
    def by_kind(self) -> dict[str, Count]:
        """For each kind of which there are facts."""
        kinds = dict.fromkeys(fact.kind for fact, _ in self.states)
        return {kind: _count(state for fact, state in self.states if fact.kind == kind) for kind in kinds}


def cover(facts: Facts, context: Sequence[str], reaches: Callable[[Fact], bool]) -> Coverage[Fact]:
    """Look for the facts in what the model will see; ``reaches`` tells whether recall finds one that is not there."""
    seen = "\n".join(map(_plain, context))
    return Coverage(tuple((fact, _state(fact, seen, reaches)) for fact in _wanted(facts)))


def missing(lost: Iterable[Fact], room: int, count: Callable[[str], int]) -> str:
    """The lost facts as a block to append, what matters most first; one that does not fit is shortened or counted."""
    lines, left_out = [HEADING], 0
    room -= count(HEADING)
    for fact in lost:
        text = " ".join(fact.text.split())
        half = _SHORTENED // 2
        short = text if len(text) <= _SHORTENED else f"{text[:half]} […] {text[-half:]}"
        ways = (f"- {_KINDS[fact.kind][1]} [{fact.record}]: {words}" for words in (text, short))
        line = next((one for one in ways if count(one) <= room), "")
        if line:
            lines.append(line)
            room -= count(line)
        left_out += not line
    if left_out:
        lines.append(f"- and {left_out} more, for which there is no room")
    return "\n".join(lines)


def _wanted(facts: Facts) -> Iterator[Fact]:
    """The facts to look for, by kind."""
    # Of a message that an earlier summary cut, its beginning is all that can be looked for.
    found = [Fact("user_message", words.head, words.record) for words in reversed(facts.messages)]
    found += [Fact("decision", one.text, one.record) for one in reversed(facts.replies)]
    given = ((one.proposal or one.text, one.proposed or one.record) for one in facts.permissions)
    found += [Fact("decision", text, record) for text, record in given]
    found += [Fact("correction", one.text, one.record) for one in facts.corrections]
    found += [Fact("pending_task", task.text, task.record) for task in facts.tasks]
    for file in facts.files:
        if file.changed:
            tail = "/".join(file.path.replace("\\", "/").split("/")[-2:])
            found.append(Fact("edited_file", file.path, file.last, (tail,)))
    found += [Fact("error", one.lines, one.record, tuple(one.lines.split(" ⏎ "))) for one in facts.problems]
    found += [Fact("identifier", name.text, name.record) for name in facts.identifiers]
    left = {kind: most for kind, (most, _) in _KINDS.items()}
    for fact in found:
        if fact.text.strip() and left[fact.kind]:
            left[fact.kind] -= 1
            yield fact


def _state(fact: Fact, seen: str, reaches: Callable[[Fact], bool]) -> State:
    text = _plain(fact.text)
    if any(_plain(one) in seen for one in (fact.text, *fact.accepts) if one.strip()):
        return "in_context"
    if not reaches(fact):
        return "lost"
    # A message that was cut counts as seen: both its ends are there, and recall has the rest.
    ends = fact.kind == "user_message" and text[:_EDGE] in seen and text[-_EDGE:] in seen
    return "in_context" if ends else "reachable"


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _count(states: Iterable[State]) -> Count:
    found = Counter(states)
    return Count(found["in_context"], found["reachable"], found["lost"])
