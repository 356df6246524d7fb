"""Layer 3: running notes of a session, which later serve as its summary at no cost.

Notes are a Markdown text with ten fixed sections, each with a header and a line in italics that says what belongs
there. A model updates them from time to time by returning the sections that changed. Only code in this module inserts
them, so that no header and no italic line can be lost. Everything in this module is pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from sevenfold.layers.compact.extract.identifiers import IdentifierSource, identifiers
from sevenfold.layers.compact.summary.draft import Failure
from sevenfold.prompts.compact import KeepShort, NotesUpdate
from sevenfold.record.layout import Item
from sevenfold.record.window import Window

FIRST_AT = 10_000
"""Size of the conversation, in tokens, at which notes are started."""
GROWTH = 5_000
"""Tokens by which it must grow for the next update."""
CALLS = 3
"""Tool calls since the last update after which one may start in the middle of a turn."""
SECTION_TOKENS = 2_000
TOTAL_TOKENS = 12_000
KEEP_TOKENS = 10_000
KEEP_MESSAGES = 5
"""The least number of messages with text (and, above, of tokens) to keep verbatim after the notes."""
KEEP_MOST = 40_000
"""Records that the notes already cover are kept as well only up to this many kept tokens."""

TITLE = "Session Title"
SECTIONS: Mapping[str, str] = {
    TITLE: "Five to ten words by which this session can be told from others.",
    "Current State": "What is being worked on right now, what is done of it, and what comes next.",
    "Task Specification": "What is to be done, with every condition, in the words it was asked for.",
    "Files and Functions": "Which files and functions matter here, what is in them, and why they matter.",
    "Workflow": "Commands that are used, in which order, and how to read what they print.",
    "Errors & Corrections": "What went wrong, how it was fixed, every correction received, what not to try again.",
    "Codebase and System Documentation": "How the parts of the system work and fit together.",
    "Learnings": "What turned out to work well or badly, and was not obvious.",
    "Key Results": "Answers, figures, tables or texts that were the point of it, exactly as they were given.",
    "Worklog": "Step by step what was done, a few words each.",
}
_LITERAL = frozenset({"path", "address", "id", "hash", "mail", "ticket"})
"""Kinds of identifiers that can only be copied, never computed or rounded."""
_HEADER = re.compile(rf"^# ({'|'.join(map(re.escape, SECTIONS))})\s*$", re.MULTILINE)
_CHANGED = re.compile(r'<section name="([^"\n]{1,80})">\n?(.*?)\n?</section>', re.DOTALL)
_NO_CHANGE = re.compile(r"<no-changes\s*/?>", re.IGNORECASE)

Count = Callable[[str], int]


class NotesText(Struct, frozen=True):
    """Session notes: the text of each section, without its header and italic line."""

    sections: Mapping[str, str] = {}

    @property
    def empty(self) -> bool:
        """Whether all sections are still empty."""
        return not any(text.strip() for text in self.sections.values())

    def render(self) -> str:
        """The notes as stored in the file."""
        rendered = []
        for name, says in SECTIONS.items():
            text = self.sections.get(name, "").strip("\n")
            rendered.append(f"# {name}\n_{says}_\n" + (f"\n{text}\n" if text else ""))
        return "\n".join(rendered)


def read(text: str) -> NotesText:
    """Read notes from a file, even an edited one: the text under a known header belongs to its section."""
    sections: dict[str, str] = {}
    _, *headers_and_texts = _HEADER.split(text)
    for name, under in zip(headers_and_texts[::2], headers_and_texts[1::2], strict=True):
        body = under.strip("\n")
        first, _, below_italics = body.partition("\n")
        sections[name] = (below_italics if first.strip() == f"_{SECTIONS[name]}_" else body).strip("\n")
    return NotesText(sections)


class Since(Struct, frozen=True):
    """What happened since the last update."""

    grown: int
    """Tokens by which the conversation grew; before the first update, its whole size."""
    first: bool
    """Whether there has been no update yet."""
    calls: int
    """Tool calls since then."""
    resting: bool
    """Whether the last answer made no tool call."""


def due(since: Since, window: Window, pause: int = 1) -> bool:
    """Whether an update is due; ``pause`` multiplies the usual growth needed for one."""
    enough = since.grown >= window.budget(FIRST_AT if since.first else GROWTH) * pause
    return enough and (since.calls >= CALLS or since.resting)


def instruction(notes: NotesText, window: Window, count: Count) -> str:
    """The instruction for an update of the notes."""
    return NotesUpdate(
        limit=window.budget(SECTION_TOKENS),
        total=window.budget(TOTAL_TOKENS),
        urgent=_urgent(notes, window, count),
        notes=notes.render(),
    ).render()


def apply(notes: NotesText, answer: str) -> NotesText | Failure:
    """Apply the changed sections in an answer; a failure if it contains none and does not say so explicitly."""
    sent = _CHANGED.findall(answer)
    changed = {name: text for name, text in sent if name in SECTIONS}
    unknown = [name for name, _ in sent if name not in SECTIONS]
    if not changed:
        if _NO_CHANGE.search(answer) and not unknown:
            return notes
        named = f"; it names {unknown[0]!r}, which is no section" if unknown else ""
        return Failure("no_summary", f"the answer changes no section of the notes{named}")
    return NotesText({**notes.sections, **{name: _plain(text) for name, text in changed.items()}})


def as_summary(notes: NotesText, path: str, window: Window, count: Count) -> str:
    """The notes as a summary; a section that is too long is cut, with a note that says where the rest is."""
    limit = window.budget(SECTION_TOKENS)
    rendered = []
    for name in SECTIONS:
        text = notes.sections.get(name, "").strip()
        if not text:
            continue
        if count(text) > limit:
            text = _cut(text, limit, count) + f"\n[Cut here. The whole of this section is in {path}]"
        rendered.append(f"### {name}\n_{SECTIONS[name]}_\n{text}")
    return "\n\n".join(rendered)


def names(notes: NotesText) -> list[str]:
    """The exact names in the notes that must come from the log: paths, addresses, ids."""
    lines = enumerate("\n".join(notes.sections.values()).splitlines())
    named = identifiers(IdentifierSource(line, str(number), by_user=True) for number, line in lines)
    return [identifier.text for identifier in named if identifier.kind in _LITERAL]


def keep_from(
    items: Sequence[Item], covered: str, window: Window, tokens: Callable[[Item], int]
) -> int | None:
    """Index of the first message to keep after the notes; None if the record they cover is not in view.

    Everything the notes do not cover is kept. From there it goes back until the minimum is reached, but not past the
    previous summary nor beyond the maximum.
    """
    last_covered = next((n for n in reversed(range(len(items))) if items[n].record.uuid == covered), None)
    if last_covered is None:
        return None
    start = last_covered + 1
    tokens_kept = sum(tokens(item) for item in items[start:])
    spoken = sum(_spoken(item) for item in items[start:])
    while start > 0 and (tokens_kept < window.budget(KEEP_TOKENS) or spoken < KEEP_MESSAGES):
        item = items[start - 1]
        if item.record.summary or tokens_kept + tokens(item) > window.budget(KEEP_MOST):
            break
        start -= 1
        tokens_kept += tokens(item)
        spoken += _spoken(item)
    return start


def _urgent(notes: NotesText, window: Window, count: Count) -> str | None:
    """A request to shorten the sections that are too long, worded more urgently the more they exceed the limit."""
    limit = window.budget(SECTION_TOKENS)
    total = window.budget(TOTAL_TOKENS)
    sizes = {name: count(text) for name, text in notes.sections.items() if text.strip()}
    over = sorted((pair for pair in sizes.items() if pair[1] > limit), key=lambda pair: -pair[1])
    whole = sum(sizes.values())
    if not over and whole <= total:
        return None
    worst = max([size / limit for _, size in over] + [whole / total])
    names = ", ".join(f"{name} ({size:,} tokens)" for name, size in over)
    return " ".join(KeepShort.of(worst, names, whole, total).render().split("\n"))


def _plain(text: str) -> str:
    """A section's text, changed so that no line in it looks like a section header."""
    return re.sub(r"^# ", "## ", text.strip("\n"), flags=re.MULTILINE)


def _cut(text: str, limit: int, count: Count) -> str:
    lines = text.splitlines()
    while len(lines) > 1 and count("\n".join(lines)) > limit:
        lines = lines[: max(1, int(len(lines) * 0.9))]
    text_kept = "\n".join(lines)
    while count(text_kept) > limit and len(text_kept) > 1:
        text_kept = text_kept[: int(len(text_kept) * 0.9)]
    return text_kept


def _spoken(item: Item) -> bool:
    return any(block.kind == "text" for block in item.shown)
