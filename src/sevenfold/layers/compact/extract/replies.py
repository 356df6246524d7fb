"""What the user answered through a tool: to a question it put, or when a call was refused.

These are words of the user that never stand in a message of their own. A tool's result tells them, so
they are kept apart from what the user said directly. Only two kinds of result are believed: those of
tools that exist to ask, and the sentence by which a client reports that a call was refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sevenfold.layers.compact.extract.calls import Call
from sevenfold.layers.compact.extract.facts import Quote
from sevenfold.layers.compact.extract.work import one_line

_ASKS = re.compile(r"\A(?:ask|question)|ask_?user|AskUser|user_?input|exit_?plan", re.IGNORECASE)
_REFUSED = re.compile(
    r"\AThe user doesn't want to (?:proceed|take this action).*?"
    r"(?:the user said:|reason for the rejection:)\s*(.+)\Z",
    re.DOTALL,
)
_LONGEST = 1_000


def replies(made: Iterable[Call]) -> Iterator[Quote]:
    """The answers in the results of these calls, oldest first."""
    for call in made:
        words = (call.result or "").strip()
        if call.failed and (refused := _REFUSED.match(words)):
            yield Quote(one_line(refused[1], _LONGEST), call.record)
        elif words and not call.failed and _ASKS.search(call.name):
            yield Quote(one_line(words, _LONGEST), call.record)
