"""What a model writes of a conversation, the same for every policy that has it summarised.

Where the recording has a summary, its text is used: the next one that was recorded, or else the last. Where it has
none, a text of the same length as most summaries stands in, which says nothing: what a model might have added is
counted for nobody, and only what a tool's own code puts beside the text is found in the context afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from sevenfold.lab.replay.recording import RecordedSummary
from sevenfold.lab.simulator.tokens import Counter

TOKENS = 4_000
"""The length of the text that replaces a summary."""
NOTES_SECTIONS = (
    "Current State",
    "Task Specification",
    "Files and Functions",
    "Workflow",
    "Errors & Corrections",
    "Learnings",
    "Key Results",
    "Worklog",
)
"""The sections of session notes that are filled, one at each update; together they are as long as a summary."""
LINE = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore.\n"
)
"""In no language that a session might be held in, so that no fact is taken for mentioned."""


class Prose(Struct, frozen=True):
    """The summaries that a model gives in a replay."""

    recorded: Sequence[RecordedSummary]
    stand_in: str
    section: str
    """A section of session notes."""

    @classmethod
    def of(cls, recorded: Sequence[RecordedSummary], tokenizer: str) -> Prose:
        """The prose for a recording, sized for a tokenizer."""
        section = text_of(TOKENS // len(NOTES_SECTIONS), tokenizer)
        return cls(recorded, text_of(TOKENS, tokenizer), section)

    def at(self, step: int) -> str:
        """The summary that is given before a step."""
        later = (summary for summary in self.recorded if summary.step >= step)
        nearest = next(later, self.recorded[-1] if self.recorded else None)
        return self.stand_in if nearest is None else nearest.text

    def update(self, number: int) -> str:
        """The answer to a request to bring the session notes up to date, by its number from 0."""
        name = NOTES_SECTIONS[number % len(NOTES_SECTIONS)]
        return f'<section name="{name}">\n{self.section}\n</section>'


def text_of(tokens: int, tokenizer: str) -> str:
    """A text without content of about so many tokens."""
    return LINE * max(1, round(tokens / Counter().text(LINE, tokenizer)))
