"""Makes a conversation smaller for a call that summarises it.

Only for calls that do not share the main thread's cache, so that changed bytes cost nothing. `lean` removes what a
summary cannot use, `messages` turns the rest into a request that any server accepts, `drop_oldest` shortens a prompt
that is too long, and `chunks` splits a conversation that fits no single request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.layers.compact.summary.draft import words_of
from sevenfold.prompts.compact import EarlierCut, PieceCut, ProgramNote, RoundCut
from sevenfold.record import blocks, weight
from sevenfold.record.blocks import THINKING, Block, Document, Text, ToolResult, ToolUse, encode_json
from sevenfold.record.layout import Item, Round, rounds
from sevenfold.record.weight import Weight
from sevenfold.record.wire import Wire

Tokens = Callable[[Weight], float]
"""Converts a weight to tokens."""

_SHARE = 0.2
"""The share of rounds to drop if the excess in tokens is unknown."""
_LONGEST = 1 << 24


def lean(items: Iterable[Item], restored: frozenset[str] = frozenset()) -> list[Item]:
    """The records without images, reasoning, synthetic messages and content that is restored anyway.

    Text that a program added in the user's role is marked, so that it is not mistaken for the user's words.
    ``restored`` names the kinds of attachments that a compaction restores from their source.
    """
    leaner: list[Item] = []
    for item in items:
        comes_back = item.record.attachment in restored - {""}
        if comes_back or item.record.synthetic or (item.hidden_by and not item.shown):
            continue
        by_program = item.record.meta and not item.record.summary and item.record.role != "assistant"
        readable = (block for block in item.shown if _is_readable(block))
        shown = tuple(_marked(_lean(block)) if by_program else _lean(block) for block in readable)
        if shown == item.shown:
            leaner.append(item)
        elif shown:
            leaner.append(replace(item, shown=shown, weight=weight.total(shown)))
    return leaner


def _is_readable(block: Block) -> bool:
    """Whether a block says something to a model that summarises: no reasoning, nothing encrypted."""
    return block.kind not in THINKING and not block.blank and not blocks.is_encrypted_summary(block)


def _marked(block: Block) -> Block:
    match block.body():
        case Text(text=text):
            return blocks.text(ProgramNote(text).render())
        case _:
            return block


def _lean(block: Block) -> Block:
    match block.body():
        case Text() | ToolUse():
            return block
        case ToolResult(content=list()):
            texts = [_words(part) for part in blocks.result_parts(block)]
            return blocks.with_content(block, "\n".join(filter(None, texts)))
        case ToolResult():
            return block
        case _:
            return blocks.text(_words(block))


def _words(block: Block) -> str:
    """The plain text of a block; its kind in brackets, such as ``[image]``, if it has none."""
    body = block.body()
    parts = blocks.parts_of(body) if isinstance(body, Document) else None
    if parts is not None:
        return "\n".join(filter(None, map(_words, parts)))
    text = words_of(block)
    return text if text.strip() or isinstance(body, Text) else f"[{block.kind or 'unknown'}]"


def messages(items: Iterable[Item], ask: str = "", *, dropped: int = 0) -> list[bytes]:
    """The messages of a plain request: these records, and ``ask`` at the end.

    ``dropped`` is the number of rounds left out before them, which a note at the start mentions.
    """
    wire = Wire()
    if dropped:
        wire.add(0, "user", "", (blocks.text(EarlierCut(dropped).render()),))
    for number, item in enumerate(items, 1):
        # The model that summarises may be a smaller one that does not support system messages.
        role = "user" if item.role == "system" else item.role
        wire.add(number, role, item.record.message_id or item.record.uuid, item.shown)
    if ask:
        wire.add(_LONGEST, "user", "", (blocks.text(ask),))
    return wire.encoded()


class Shortened(Struct, frozen=True):
    """The remaining records, and the total number of rounds dropped."""

    items: tuple[Item, ...]
    dropped: int


def drop_oldest(
    items: Iterable[Item], tokens: Tokens, *, gap: int | None = None, dropped: int = 0
) -> Shortened | None:
    """Drop the oldest rounds: enough to close the gap, or a fifth; None if only one round is left.

    Earlier summaries are never dropped: they stay first, because the rounds build on them.
    """
    items = list(items)
    summaries = [item for item in items if item.record.summary]
    groups = rounds(item for item in items if not item.record.summary)
    if len(groups) < 2:
        return None
    count = max(1, int(len(groups) * _SHARE)) if gap is None else _covering(groups, gap, tokens)
    remaining = chain.from_iterable(group.items for group in groups[count:])
    return Shortened((*summaries, *remaining), dropped + count)


def _covering(groups: Sequence[Round], gap: int, tokens: Tokens) -> int:
    """Number of oldest rounds to drop so that ``gap`` tokens are freed; the newest round always stays."""
    freed = accumulate(tokens(group.weight) for group in groups[:-1])
    return next((count for count, total in enumerate(freed, 1) if total >= gap), len(groups) - 1)


def chunks(items: Iterable[Item], budget: int, tokens: Tokens) -> list[tuple[Item, ...]]:
    """Split the conversation into parts of whole rounds, none larger than the budget.

    In a round that is too large by itself, tool results, and then any other long blocks, are cut in the middle.
    """
    parts: list[list[Item]] = []
    room = 0.0
    for group in rounds(items):
        fits = group.items if tokens(group.weight) <= budget else _cut_round(group, budget, tokens)
        size = tokens(sum((item.weight for item in fits), weight.NOTHING))
        if not parts or size > room:
            parts.append([])
            room = float(budget)
        parts[-1].extend(fits)
        room -= size
    return [tuple(part) for part in parts]


def _cut_round(group: Round, budget: int, tokens: Tokens) -> tuple[Item, ...]:
    """The round with its tool results cut, and if that is not enough all its blocks, until it fits the budget."""
    all_blocks = chain.from_iterable(item.shown for item in group.items)
    longest = max((len(block.raw) for block in all_blocks), default=0)
    for only_results in (True, False):
        limit = longest
        while limit := limit * 2 // 3:
            cut = tuple(_cut_item(item, limit, only_results) for item in group.items)
            if tokens(sum((item.weight for item in cut), weight.NOTHING)) <= budget:
                return cut
    first = group.items[0]
    note = (blocks.text(RoundCut(sum(len(item.shown) for item in group.items)).render()),)
    return (replace(first, shown=note, weight=weight.total(note)),)


def _cut_item(item: Item, limit: int, only_results: bool) -> Item:
    shown = []
    for block in item.shown:
        stays = only_results and block.kind != "tool_result"
        shown.append(block if stays else _cut_block(block, limit))
    return replace(item, shown=tuple(shown), weight=weight.total(shown))


def _cut_block(block: Block, limit: int) -> Block:
    match block.body():
        case Text(text=text) if len(text) > limit:
            return blocks.text(_cut(text, limit))
        case ToolResult() if len(text := blocks.words_of(block)) > limit:
            return blocks.with_content(block, _cut(text, limit))
        case ToolUse(id=id, name=name, input=arguments) if len(arguments) > limit:
            short = {"cut": _cut(bytes(arguments).decode(errors="replace"), limit)}
            fields = {"type": "tool_use", "id": id, "name": name, "input": short}
            return Block("tool_use", encode_json(fields), id)
        case _:
            return block


def _cut(text: str, limit: int) -> str:
    head = max(0, limit) * 2 // 3
    tail = max(0, limit) - head
    note = PieceCut(len(text) - head - tail).render()
    return "\n".join(filter(None, (text[:head], note, text[-tail:] if tail else "")))
