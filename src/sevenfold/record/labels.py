"""What a session is known by in a list of sessions: its title, and what the user said last.

Records of their own, in the shapes other tools write. The newest of each kind counts. They are written again behind
every compaction, so that whoever reads only the end of a transcript finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from sevenfold.record import blocks
from sevenfold.record.layout import Item

FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "custom-title": "customTitle",
        "ai-title": "aiTitle",
        "summary": "summary",
        "last-prompt": "lastPrompt",
    }
)
"""The field that holds the words, by the type of the record. A summary is a title in older transcripts."""
TITLES = ("custom-title", "ai-title", "summary")
"""The user's own title counts before any other."""
LONGEST = 200
"""Characters of a label."""


def title(labels: Mapping[str, str]) -> str:
    """The title among labels; empty if there is none."""
    return next((labels[kind] for kind in TITLES if labels.get(kind)), "")


def renewed(
    labels: Mapping[str, str], items: Iterable[Item], clean: Callable[[str], str] = str
) -> dict[str, str]:
    """The labels of a session as its view is now: without a title the user's first words are one.

    What is taken from the conversation goes through ``clean`` first: it leaves the place where it was said.
    """
    said = [words for item in items if (words := one_line(clean(_said(item))))]
    kept = {kind: text for kind, text in labels.items() if kind != "summary"}
    if said:
        kept["last-prompt"] = said[-1]
    if not title(kept) and (first := title(labels) or next(iter(said), "")):
        kept["ai-title"] = first
    return kept


def one_line(words: str) -> str:
    """Words as a label has them: as many as there is room for, each of them whole."""
    line = " ".join(words.split())
    if len(line) <= LONGEST:
        return line
    whole = line[:LONGEST].rpartition(" ")[0]
    return f"{whole} …" if whole else ""


def _said(item: Item) -> str:
    """The user's own words in a record; empty if they are somebody else's."""
    said = item.said
    if said.role != "user" or said.meta or said.summary or said.answers:
        return ""
    return "\n".join(blocks.words_of(block) for block in said.blocks if block.kind == "text")
