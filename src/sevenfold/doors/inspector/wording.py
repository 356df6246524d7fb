"""Categories and causes as people read them, and how text of sessions is made safe to show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType

from msgspec import Struct

from sevenfold.archive.profile import cache, labels
from sevenfold.archive.profile.labels import ContextPiece
from sevenfold.archive.untrusted import printable
from sevenfold.record.redact import mask_text

RESULTS_SHOWN = 3
"""How many tools have a band of their own; the results of all others share one."""
_MARGIN = 4_000
_TAGGED = re.compile(r"\A<([a-z]+(?:-[a-z]+)*)>\s*")
"""The tag in which a program wraps what it puts into a conversation."""
CAUSES: Mapping[str, str] = MappingProxyType(
    {
        cache.EXPIRED: "a pause longer than the cache lives",
        cache.COMPACTION: "a compaction",
        cache.CLEARING: "a clearing of old results",
        cache.REWIND: "a step back to an earlier message",
        cache.MODEL: "another model",
        "system_changed": "a changed system prompt",
        "tools_changed": "changed tools",
        "settings_changed": "changed settings",
        "messages_changed": "changed messages",
        cache.UNEXPLAINED: "nothing on record: probably the server",
    }
)
REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        cache.EXPIRED: "A lifetime of an hour, or a compaction before a long pause, makes the next request cheaper.",
        cache.MODEL: "Every model has a cache of its own; change it when the context is small.",
        "system_changed": "Put what changes into a message; all that follows the system prompt was written again.",
        "tools_changed": "Keep the list of tools the same; all that follows it was written again.",
        "messages_changed": "A request must extend the one before it to the byte.",
        cache.REWIND: "What came behind that point was written again.",
        cache.UNEXPLAINED: "The record does not say why. If it repeats, the provider can look it up by the request.",
    }
)


class Band(Struct, frozen=True):
    """A group of categories that is drawn as one."""

    name: str
    label: str


_FIXED = (
    Band(labels.SYSTEM, "System and tools"),
    Band(labels.SUMMARIES, "Summaries"),
    Band(labels.ATTACHMENTS, "Attachments"),
    Band(labels.USER_TEXT, "Your words"),
    Band(labels.ASSISTANT_TEXT, "Model’s words"),
    Band(labels.THOUGHTS, "Thinking"),
    Band(labels.TOOL_INPUTS, "Calls"),
)
_OTHER_RESULTS = Band("other_results", "Other results")
_OTHER = Band(labels.OTHER, "Other")
_UNLOGGED = Band(labels.UNLOGGED, "Not on record")


class Bands:
    """The bands of one session, from the bottom up."""

    def __init__(self, tools: Iterable[str]) -> None:
        """``tools`` have bands of their own."""
        named = list(tools)
        # The page names a tool by a hash: what a tool is called is text of a session like any other.
        self.tools = [tool_digest(tool) for tool in named]
        results = [
            Band(f"{labels.RESULT}{digest}", f"Results of {shown(tool, 40)}")
            for tool, digest in zip(named, self.tools, strict=True)
        ]
        self.bands = [*_FIXED, *results, _OTHER_RESULTS, _OTHER, _UNLOGGED]
        self._places = {band.name: rank for rank, band in enumerate([*_FIXED, *results])}
        self._places |= {f"{labels.RESULT}{tool}": len(_FIXED) + rank for rank, tool in enumerate(named)}
        self._places |= {band.name: self.bands.index(band) for band in (_OTHER_RESULTS, _OTHER, _UNLOGGED)}

    def place(self, category: str) -> int:
        """The band of a category."""
        if category in self._places:
            return self._places[category]
        other = _OTHER_RESULTS if category.startswith(labels.RESULT) else _OTHER
        return self._places[other.name]

    def sums(self, categories: Sequence[str], sizes: Iterable[float]) -> list[float]:
        """Tokens by band."""
        sums = [0.0] * len(self.bands)
        for category, tokens in zip(categories, sizes, strict=False):
            sums[self.place(category)] += tokens
        return [round(tokens, 1) for tokens in sums]


def named(piece: ContextPiece) -> str:
    """What a piece of content is, as people say it; empty if only its category is known."""
    if piece.what:
        return _TAGGED.sub(
            lambda tag: f"{tag[1][:1].upper()}{tag[1][1:].replace('-', ' ')}: ", piece.what, count=1
        )
    if not piece.tool:
        return ""
    return (
        f"Result of {piece.tool}" if piece.category.startswith(labels.RESULT) else f"Call of {piece.tool}"
    )


def tool_digest(tool: str) -> str:
    """What the page calls a tool."""
    return blake2b(tool.encode(errors="replace"), digest_size=6).hexdigest()


def shown(text: str, limit: int = 200) -> str:
    """Text of a session as the page may show it: known secrets masked, nothing that hides or reverses text."""
    # Masked before it is cut: half a secret is not recognised as one.
    masked = mask_text(text[: limit + _MARGIN])
    cut = masked if len(masked) <= limit else masked[: limit - 1] + "…"
    return printable(cut).replace("\n", " ")


def shown_block(text: str) -> str:
    """A longer text, with its line breaks."""
    return printable(mask_text(text))


def cause_in_words(cause: str) -> str:
    """A cause of a break."""
    return CAUSES.get(cause, cause.replace("_", " "))


def money(usd: float | None) -> str:
    """An amount in a sentence."""
    if usd is None:
        return "an unknown amount"
    return f"${usd:,.2f}" if usd >= 0.01 or usd == 0 else f"${usd:.4f}"


def tokens_in_words(tokens: float) -> str:
    """A number of tokens in a sentence."""
    if tokens >= 999_500:
        return f"{tokens / 1_000_000:.2f}M"
    if tokens >= 9_950:
        return f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000:.1f}k" if tokens >= 1_000 else f"{tokens:.0f}"


def times(count: int) -> str:
    """How often, in words."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def plural(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
