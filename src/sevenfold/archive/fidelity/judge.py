"""Checks where each fact is after a compaction: in the context, reachable by recall, or lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain

from sevenfold.archive.fidelity.facts import SHORT, Probe
from sevenfold.archive.fidelity.sentences import content_stems, folded
from sevenfold.record.coverage import Coverage, State

Score = Coverage[Probe]
Reachable = Callable[[Probe], bool]

ENOUGH_WORDS = 0.75
"""The share of a sentence's meaningful words that must occur close together for it to count as present."""
TOGETHER = 3
"""The number of consecutive lines that counts as close together."""
LONG = 400
"""The least number of characters of a message that may be cut."""
EDGE = 80
"""Characters at each end of a cut message that must be in the context; recall must find the rest."""
_OPENING = r"(?:^|[\"'“‘«>`*:\]\)\-—])[^\S\n]*"
_CLOSING = r"[^\S\n]*(?:$|[\"'”’»<`*.!\[\(])"


def judge(probes: Iterable[Probe], context: Sequence[str], reachable: Reachable) -> Score:
    """Where each fact is now; recall is asked only for facts that are not in the context."""
    visible = _Seen(context)
    return Coverage(tuple((probe, _state(probe, visible, reachable)) for probe in probes))


def _state(probe: Probe, visible: _Seen, reachable: Reachable) -> State:
    if visible.holds(probe):
        return "in_context"
    if not reachable(probe):
        return "lost"
    return "in_context" if visible.holds_both_ends(probe) else "reachable"


class _Seen:
    """The context, prepared for three kinds of search."""

    def __init__(self, context: Sequence[str]) -> None:
        self._context = context

    @cached_property
    def _spaced(self) -> str:
        return "\n".join(" ".join(text.split()) for text in self._context)

    @cached_property
    def _folded(self) -> str:
        return self._spaced.casefold()

    @cached_property
    def _lines(self) -> str:
        whole = (" ".join(text.split()) for text in self._context if len(text) <= 2 * SHORT)
        all_lines = chain.from_iterable(text.splitlines() for text in self._context)
        lines = (" ".join(line.split()) for line in all_lines)
        return "\n".join((*whole, *lines)).casefold()

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """The line numbers of each meaningful word; a gap between texts keeps them apart."""
        places: dict[str, list[int]] = {}
        number = 0
        for text in self._context:
            for line in text.splitlines():
                for word in content_stems(line):
                    places.setdefault(word, []).append(number)
                number += 1
            number += TOGETHER
        return places

    def holds(self, probe: Probe) -> bool:
        """Whether the context contains the fact."""
        wordings = [text for text in (probe.text, *probe.accepts) if text.strip()]
        match probe.match:
            case "exact":
                return any(self._to_the_letter(text) for text in wordings)
            case "verbatim":
                return any(self._verbatim(text) for text in wordings)
            case "words":
                return any(folded(text) in self._folded or self._most_words(text) for text in wordings)

    def holds_both_ends(self, probe: Probe) -> bool:
        """Whether the fact is a long message whose beginning and end are in the context."""
        text = folded(probe.text)
        if probe.match != "verbatim" or len(text) < LONG:
            return False
        return text[:EDGE] in self._folded and text[-EDGE:] in self._folded

    def _to_the_letter(self, text: str) -> bool:
        text = " ".join(text.split())
        position = self._spaced.find(text)
        while position >= 0:
            end = position + len(text)
            if not (_joined(self._spaced, position) or _joined(self._spaced, end)):
                return True
            position = self._spaced.find(text, position + 1)
        return False

    def _verbatim(self, text: str) -> bool:
        text = folded(text)
        if len(text) > SHORT:
            return text in self._folded
        # A word or two could occur by chance: they must be quoted, or be a whole line.
        return bool(re.search(_OPENING + re.escape(text) + _CLOSING, self._lines, re.M))

    def _most_words(self, text: str) -> bool:
        stems = content_stems(text)
        if len(stems) < 2:
            return False
        held: Counter[int] = Counter()
        for word in stems:
            # A word counts for every stretch of lines that contains it, each named by its first line.
            lines = self._places.get(word, ())
            held.update({*chain.from_iterable(range(line - TOGETHER + 1, line + 1) for line in lines)})
        return max(held.values(), default=0) >= ENOUGH_WORDS * len(stems)


def _joined(text: str, position: int) -> bool:
    """Whether this position is inside a word."""
    return 0 < position < len(text) and all(
        sign.isascii() and sign.isalnum() for sign in text[position - 1 : position + 1]
    )
