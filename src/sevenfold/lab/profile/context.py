"""What was in the window of one conversation, for how long, and how many tokens it was.

Servers report the size of a whole prompt, never of its parts. But they report it at every call, so the
growth from one call to the next is known, and so is what was added in between: the growth is divided
among those things in the proportion of their estimates. What the visible things cannot account for is
booked as *unlogged* (text that a client sent, or took out, and did not write down), and what the very
first prompt holds beyond its messages as *system and tools*. So at every call the pieces add up to the
prompt that was reported.


---

What a piece of a conversation is called in a report: its category, its tool, and what it is about.

---

Files read again though nothing in them had changed.

A second read of the same text is waste while the first is still in the context. If the first was
compacted or cleared away, the second was needed: it is the price of having forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from hashlib import blake2b
from statistics import median
from typing import Any

import msgspec
from msgspec import Raw, Struct

from sevenfold.lab.profile.figures import Growth, LargeItem, Repeats
from sevenfold.record import blocks, entries
from sevenfold.record.blocks import THINKING, Block, ToolResult, ToolUse
from sevenfold.record.entries import Said
from sevenfold.record.tokens import Estimator
from sevenfold.record.weight import NOTHING, Weight

SYSTEM = "system_and_tools"
UNLOGGED = "unlogged"
LARGEST = 100
"""How many large items are remembered of a session."""
LEAST_GROWTH = 100
"""Smaller steps say nothing about how good a way of counting is."""
LEAST_RATIO, MOST_RATIO = 0.5, 2.0
"""How far a reported growth may pull an estimate."""


class ContextPiece(Struct, frozen=True):
    """Something that enters the context."""

    category: str
    weight: Weight
    tool: str = ""
    what: str = ""


class HeldPiece(Struct):
    """A piece that is, or was, in the context."""

    piece: ContextPiece
    since: int
    tokens: float = 0.0
    calls: int = 0
    """Prompts that carried it up to the last time it left."""
    here: bool = True


class SessionTally:
    """The sums of a session over all of its conversations."""

    def __init__(self) -> None:
        self._tokens: defaultdict[str, float] = defaultdict(float)
        self._carried: defaultdict[str, float] = defaultdict(float)
        self._largest: list[HeldPiece] = []
        self._growths: list[tuple[int, float, float]] = []

    def book(self, held: HeldPiece) -> None:
        """Count a piece that will not come back."""
        # What shrank a prompt unrecorded was counted when it came; it only stopped being carried.
        self._tokens[held.piece.category] += max(0.0, held.tokens)
        self._carried[held.piece.category] += held.tokens * held.calls
        self._largest.append(held)
        if len(self._largest) > 2 * LARGEST:
            self._largest = self._by_size()

    def step(self, actual: int, fresh: list[HeldPiece]) -> bool:
        """Note a growth and the pieces it came from; says whether anything can be learnt from it."""
        pictures = any(held.piece.weight.images or held.piece.weight.documents for held in fresh)
        if actual < LEAST_GROWTH or pictures or not fresh:
            return False
        rule = sum(_chars4(held.piece.weight) for held in fresh)
        self._growths.append((actual, rule, sum(held.tokens for held in fresh)))
        return True

    def by_category(self) -> dict[str, int]:
        """Tokens of everything that entered the context, each thing once."""
        return {name: round(tokens) for name, tokens in sorted(self._tokens.items())}

    def carried(self) -> dict[str, int]:
        """The same, each thing as often as a prompt carried it."""
        return {name: round(tokens) for name, tokens in sorted(self._carried.items())}

    def largest(self) -> list[LargeItem]:
        """The largest things that were in the context, the largest first."""
        return [
            LargeItem(held.piece.category, held.piece.tool, held.piece.what, round(held.tokens), held.calls)
            for held in self._by_size()
        ]

    def growth(self) -> Growth:
        """How well the growth was foreseen."""
        if not self._growths:
            return Growth()
        actual, rule, estimate = (sum(column) for column in zip(*self._growths, strict=True))
        return Growth(
            steps=len(self._growths),
            actual_tokens=round(actual),
            chars4_tokens=round(rule),
            estimate_tokens=round(estimate),
            chars4_median_error=median(abs(r - a) / a for a, r, _ in self._growths),
            estimate_median_error=median(abs(e - a) / a for a, _, e in self._growths),
        )

    def _by_size(self) -> list[HeldPiece]:
        shown = [held for held in self._largest if held.piece.category not in (SYSTEM, UNLOGGED)]
        return sorted(shown, key=lambda held: -held.tokens)[:LARGEST]


class WindowContents:
    """The window of one conversation."""

    def __init__(self, tally: SessionTally) -> None:
        self._calls = 0
        self._tally = tally
        self._estimator = Estimator.of("unknown")
        self._held: dict[Hashable, HeldPiece] = {}
        self._parked: dict[Hashable, HeldPiece] = {}
        """What left, and may come back."""
        self._fresh: list[HeldPiece] = []
        self._linear = False
        """The next prompt is the last one with something added."""

    def __contains__(self, key: Hashable) -> bool:
        return key in self._held

    def enter(self, key: Hashable, piece: ContextPiece) -> HeldPiece:
        """Put a piece into the context; one that was there before is taken up again."""
        if held := self._held.get(key):
            return held
        held = self._parked.pop(key, None)
        if held is None:
            held = HeldPiece(piece, self._calls)
            self._fresh.append(held)
        held.since, held.here = self._calls, True
        self._held[key] = held
        return held

    def show(self, live: Mapping[Hashable, ContextPiece]) -> bool:
        """Make the context hold exactly these pieces; says whether anything had to leave."""
        gone = self._visible() - live.keys()
        for key in gone:
            self._parked[key] = self._leave(key)
        for key, piece in live.items():
            self.enter(key, piece)
        self._linear = self._linear and not gone
        return bool(gone)

    def restart(self, live: Mapping[Hashable, ContextPiece]) -> None:
        """Begin anew with these pieces: a compaction took all others away for good."""
        self._weigh()
        kept = {key: self._held.pop(key) for key in (SYSTEM, *live) if key in self._held}
        self._book_all()
        self._held = kept
        self.show(live)
        self._linear = False

    def called(self, prompt: int, tokenizer: str) -> None:
        """A call was made with all that is in the context."""
        same_model = self._estimator.tokenizer == tokenizer
        if not same_model:
            self._estimator = Estimator.of(tokenizer)
        fresh = self._weigh()
        if SYSTEM not in self._held:
            rest = max(0.0, prompt - self._size())
            self._held[SYSTEM] = HeldPiece(ContextPiece(SYSTEM, NOTHING), self._calls, rest)
        self._balance(prompt, fresh, same_model)
        self._linear = True
        self._calls += 1

    def close(self) -> None:
        """Count all that is left."""
        self._weigh()
        self._book_all()

    def _visible(self) -> set[Hashable]:
        """What the transcript shows of the context."""
        return {
            key for key, held in self._held.items() if held.piece.category != UNLOGGED and key != SYSTEM
        }

    def _size(self) -> float:
        return sum(held.tokens for held in self._held.values())

    def _leave(self, key: Hashable) -> HeldPiece:
        held = self._held.pop(key)
        held.calls += self._calls - held.since
        held.here = False
        return held

    def _book_all(self) -> None:
        for key in list(self._held):
            self._tally.book(self._leave(key))
        for held in self._parked.values():
            self._tally.book(held)
        self._parked = {}

    def _weigh(self) -> list[HeldPiece]:
        """Estimate what is new; returns what is still there of it."""
        fresh, self._fresh = self._fresh, []
        for held in fresh:
            held.tokens = max(0.0, self._estimator.tokens(held.piece.weight))
        return [held for held in fresh if held.here]

    def _balance(self, prompt: int, fresh: list[HeldPiece], same_model: bool) -> None:
        """Make what is held add up to the prompt."""
        expected = sum(held.tokens for held in fresh)
        growth = prompt - self._size() + expected
        if same_model and growth > 0 and expected > 0:
            self._learn(round(growth), fresh)
            ratio = min(MOST_RATIO, max(LEAST_RATIO, growth / expected))
            for held in fresh:
                held.tokens *= ratio
            expected *= ratio
        if abs(rest := growth - expected) > 0.01:
            self._held[(UNLOGGED, self._calls)] = HeldPiece(
                ContextPiece(UNLOGGED, NOTHING), self._calls, rest
            )

    def _learn(self, growth: int, fresh: list[HeldPiece]) -> None:
        if self._linear and self._tally.step(growth, fresh):
            added = sum((held.piece.weight for held in fresh), NOTHING)
            self._estimator = self._estimator.learn(added, growth)


def _chars4(weight: Weight) -> float:
    """The common rule of thumb: four characters to a token."""
    return (weight.text + weight.json + weight.thinking) / 4


USER_TEXT = "user_text"
ASSISTANT_TEXT = "assistant_text"
THOUGHTS = "thinking"
TOOL_INPUTS = "tool_inputs"
RESULT = "tool_result:"
"""Prefix of the categories of results, one for each tool."""
ATTACHMENTS = "attachments"
SUMMARIES = "summaries"
IMAGES = "images"
OTHER = "other"

LONGEST = 160
"""Characters that are kept of what a piece is about."""

_PATHS = ("file_path", "notebook_path", "path", "filename", "absolute_path")
_ABOUT = (*_PATHS, "command", "cmd", "pattern", "query", "url", "skill", "description", "prompt", "input")
_READERS = frozenset(
    {
        "read",
        "read_file",
        "readfile",
        "read_text_file",
        "notebookread",
        "view",
        "view_file",
        "open_file",
        "cat",
    }
)


class CallLabel(Struct, frozen=True):
    """A tool call, as far as its result is to be named."""

    tool: str
    what: str = ""
    path: str = ""
    """The file it reads whole or in part; empty for all other calls."""


def label_of(tool: str, given: Any) -> CallLabel:
    """What a call asks for, from its decoded input."""
    if not isinstance(given, dict):
        return CallLabel(tool, one_line(given) if isinstance(given, str) else "")
    found = next((given[name] for name in _ABOUT if given.get(name)), "")
    words = " ".join(map(str, found)) if isinstance(found, list) else str(found)
    path = next((given[name] for name in _PATHS if isinstance(given.get(name), str)), "")
    return CallLabel(tool, one_line(words), path if _reads(tool) else "")


def label_of_block(block: Block) -> CallLabel:
    """What the tool call in a block asks for."""
    body = block.body()
    if not isinstance(body, ToolUse):
        return CallLabel(block.kind)
    return label_of(body.name, decoded(body.input))


def decoded(raw: Raw | bytes | str) -> Any:
    """The value in some JSON, None if it is none."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return None


def one_line(words: str) -> str:
    """The beginning of a text on one line."""
    return " ".join(words[: 4 * LONGEST].split())[:LONGEST]


def piece_of(said: Said, block: Block, weight: Weight, call: CallLabel | None) -> ContextPiece:
    """A block of a record, named; ``call`` is the call it makes or answers."""
    if block.kind == "tool_result" or block.kind.endswith("_tool_result"):
        tool = call.tool if call else "unknown"
        return ContextPiece(RESULT + tool, weight, tool, call.what if call else "")
    if block.kind == "tool_use" or block.kind.endswith("_tool_use"):
        return ContextPiece(TOOL_INPUTS, weight, call.tool if call else "", call.what if call else "")
    if block.kind in THINKING:
        return ContextPiece(THOUGHTS, weight)
    if said.summary or block.kind == "compaction":
        return ContextPiece(SUMMARIES, weight, what=one_line(blocks.words_of(block)))
    if block.kind in ("image", "document"):
        return ContextPiece(IMAGES, weight, what=block.kind)
    return _words(said, block, weight)


def _words(said: Said, block: Block, weight: Weight) -> ContextPiece:
    words = one_line(blocks.words_of(block))
    if said.role == "assistant":
        return ContextPiece(
            ASSISTANT_TEXT if block.kind == "text" else OTHER, weight, what=words or block.kind
        )
    attached = said.attachment not in ("", entries.USERS_WORDS)
    if attached or said.meta or said.role == "system":
        return ContextPiece(ATTACHMENTS, weight, said.attachment, words)
    return ContextPiece(USER_TEXT, weight, what=words)


def _reads(tool: str) -> bool:
    return tool.rsplit("__", 1)[-1].lower().replace("-", "_") in _READERS


class FileReads:
    """The reads of one conversation so far; texts are remembered by their hash."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, bytes], Hashable] = {}
        self._wasted: list[HeldPiece] = []
        self._after_loss = 0

    def note(
        self, key: Hashable, held: HeldPiece, block: Block, call: CallLabel | None, context: WindowContents
    ) -> None:
        """A result entered the context under ``key``."""
        body = block.body()
        if not call or not call.path or not isinstance(body, ToolResult) or body.is_error:
            return
        text = blake2b(blocks.words_of(block).encode(errors="replace"), digest_size=12).digest()
        earlier = self._seen.get((call.path, text))
        self._seen[call.path, text] = key
        if earlier is None or earlier == key:
            return
        if earlier in context:
            self._wasted.append(held)
        else:
            self._after_loss += 1

    def sums(self) -> Repeats:
        """How many, and what the wasted ones weighed."""
        tokens = sum(held.tokens for held in self._wasted)
        return Repeats(len(self._wasted), round(tokens), self._after_loss)


def added(each: Sequence[Repeats]) -> Repeats:
    """The sum of several."""
    return Repeats(
        sum(one.reads for one in each), sum(one.tokens for one in each), sum(one.after_loss for one in each)
    )
