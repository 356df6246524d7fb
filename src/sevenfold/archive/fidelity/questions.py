"""A question for a fact, made of a few of its words.

Whoever asks for a fact later knows its subject, not its wording. No person is here to ask, so the question is made of
the few words that say most, which are mostly the longest, in another order and without the words around them.
"""

from __future__ import annotations

import re

from sevenfold.archive.fidelity.facts import EDITED_FILE, IDENTIFIER, Probe
from sevenfold.archive.fidelity.sentences import content_stems

MOST_WORDS = 4
"""How many words of a fact a question has."""
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_UNSPACED}]{{2,4}}|[^\W_{_UNSPACED}][\w'-]*")
"""In scripts without spaces between words, a few characters in a row stand for a word."""


def question(probe: Probe) -> str:
    """The question for a fact; a file or an identifier is asked for by its name."""
    if probe.kind in (EDITED_FILE, IDENTIFIER):
        return probe.text
    distinct = dict.fromkeys(word for word in _WORD.findall(probe.text) if content_stems(word))
    longest = sorted(distinct, key=len, reverse=True)[:MOST_WORDS]
    chosen = [word for word in reversed(distinct) if word in longest]
    return f"{' '.join(chosen) or probe.text}?"
