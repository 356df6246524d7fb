"""The text of messages, its sentences, and the sentences in which the user corrects, allows or refuses something.

Whose words they are is decided in `sevenfold.record.authorship`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sevenfold.layers.compact.extract.notation import Permission, Quote, Words
from sevenfold.layers.compact.extract.patterns import pattern
from sevenfold.prompts.compact import GivenTask, UserWords
from sevenfold.record import authorship, blocks
from sevenfold.record.blocks import THINKING, Block, ToolUse
from sevenfold.record.layout import Item

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？])|\n+")
LONGEST_SENTENCE = 400
_SHORT = 20
"""The most words a message may have to count as an answer to the question before it."""
_LOOKED_BACK = 1_500


def is_words_block(block: Block) -> bool:
    """Whether a block of a summary message shows the user's messages, or the task of a sub-agent."""
    tags = (f"<{UserWords.tag}>", f"<{GivenTask.tag}>")
    return block.kind == "text" and blocks.words_of(block).startswith(tags)


def users_words(item: Item) -> str:
    """The user's words in a record, with a placeholder for each image or document; empty if there are none."""
    if item.hidden_by or not authorship.from_user(item.said):
        return ""
    found = (
        f"[{block.kind}]" if block.kind in ("image", "document") else authorship.typed(item.said, block)
        for block in item.said.blocks
        if block.kind in ("text", "image", "document")
    )
    return "\n".join(filter(None, found))


def models_words(item: Item) -> str:
    """The model's text in a record, without its reasoning; empty if there is none."""
    if item.said.role != "assistant" or item.said.synthetic or item.hidden_by:
        return ""
    texts = (blocks.words_of(block).strip() for block in item.said.blocks if block.kind == "text")
    return "\n".join(filter(None, texts))


def whole_text(item: Item) -> str:
    """All text in a record, including tool inputs and results but not reasoning."""
    parts = (
        bytes(body.input).decode(errors="replace").replace('\\"', '"').replace("\\n", " ")
        if isinstance(body := block.body(), ToolUse)
        else blocks.words_of(block)
        for block in item.said.blocks
        if block.kind not in THINKING
    )
    return "\n".join(filter(None, parts))


def sentences(text: str) -> list[str]:
    """Split a text into sentences and lines, without the white space around them."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part.strip()]


def one_line(text: str, most: int) -> str:
    """A text as one line of at most ``most`` characters."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def permissions(items: Iterable[Item]) -> Iterator[Permission]:
    """Sentences in which the user allows or refuses something, and short answers to the model's proposals."""
    before = Quote("", "")
    for item in items:
        if words := models_words(item):
            before = Quote(words, item.said.uuid)
        elif words := users_words(item):
            yes = bool(pattern("assents").match(words))
            asked = [one for one in sentences(before.text[-_LOOKED_BACK:]) if one.endswith("?")]
            if asked and len(words.split()) <= _SHORT and (yes or pattern("dissents").match(words)):
                proposal = one_line(asked[-1], LONGEST_SENTENCE)
                yield Permission(yes, words, item.said.uuid, proposal, before.record)
            else:
                yield from _permissions(words, item.said.uuid)


def _permissions(words: str, record: str) -> Iterator[Permission]:
    for sentence in sentences(words):
        if not _pasted(sentence) and not sentence.endswith("?"):
            if pattern("refuses").search(sentence):
                yield Permission(False, sentence, record)
            elif pattern("allows").search(sentence):
                yield Permission(True, sentence, record)


def _pasted(sentence: str) -> bool:
    return len(sentence) > LONGEST_SENTENCE or bool(pattern("output").match(sentence))


def corrections(said: Iterable[Words]) -> Iterator[Quote]:
    """Sentences in which the user negates, redirects or states a preference."""
    for words in said:
        for sentence in sentences(words.head):
            if not _pasted(sentence) and pattern("corrects").search(sentence):
                yield Quote(sentence, words.record)
