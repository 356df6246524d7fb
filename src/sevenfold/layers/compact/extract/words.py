"""The text of messages, its sentences, and the sentences in which the user corrects, allows or refuses something.

Whose words they are is decided in `sevenfold.record.authorship`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sevenfold.layers.compact.extract.notation import Permission, Quote, QuotedMessage
from sevenfold.layers.compact.extract.patterns import pattern
from sevenfold.prompts.compact import GivenTask, UserWords
from sevenfold.record import authorship, blocks
from sevenfold.record.blocks import THINKING, Block, ToolUse
from sevenfold.record.entries import Said
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
    """The user's words in a record in view, as `users_words_in` has them; empty if a decision hides the record."""
    return "" if item.hidden_by else users_words_in(item.record)


def users_words_in(record: Said) -> str:
    """The user's words in a record, with a placeholder for each image or document; empty if there are none."""
    if not authorship.from_user(record):
        return ""
    texts = []
    for block in record.blocks:
        if block.kind == "text":
            texts.append(authorship.typed(record, block))
        elif block.kind in ("image", "document"):
            texts.append(f"[{block.kind}]")
    return "\n".join(filter(None, texts))


def models_words(item: Item) -> str:
    """The model's text in a record, without its reasoning; empty if there is none."""
    if item.record.role != "assistant" or item.record.synthetic or item.hidden_by:
        return ""
    text_blocks = (block for block in item.record.blocks if block.kind == "text")
    texts = (blocks.words_of(block).strip() for block in text_blocks)
    return "\n".join(filter(None, texts))


def whole_text(item: Item) -> str:
    """All text in a record, including tool inputs and results but not reasoning."""
    texts = []
    for block in item.record.blocks:
        if block.kind in THINKING:
            continue
        body = block.body()
        if isinstance(body, ToolUse):
            arguments = bytes(body.input).decode(errors="replace")
            # Quotations are looked up in this text, so it reads as the model meant it, not as JSON.
            texts.append(arguments.replace('\\"', '"').replace("\\n", " "))
        else:
            texts.append(blocks.words_of(block))
    return "\n".join(filter(None, texts))


def sentences(text: str) -> list[str]:
    """Split a text into sentences and lines, without the white space around them."""
    return list(filter(None, map(str.strip, _SENTENCE_END.split(text))))


def one_line(text: str, limit: int) -> str:
    """A text as one line of at most ``limit`` characters."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def permissions(items: Iterable[Item]) -> Iterator[Permission]:
    """Sentences in which the user allows or refuses something, and short answers to the model's proposals."""
    answer = Quote("", "")
    for item in items:
        if text := models_words(item):
            answer = Quote(text, item.record.uuid)
        elif text := users_words(item):
            yes = bool(pattern("assents").match(text))
            end_of_answer = sentences(answer.text[-_LOOKED_BACK:])
            questions = [sentence for sentence in end_of_answer if sentence.endswith("?")]
            if questions and len(text.split()) <= _SHORT and (yes or pattern("dissents").match(text)):
                proposal = one_line(questions[-1], LONGEST_SENTENCE)
                yield Permission(yes, text, item.record.uuid, proposal, answer.record)
            else:
                yield from _permissions(text, item.record.uuid)


def _permissions(text: str, record: str) -> Iterator[Permission]:
    for sentence in sentences(text):
        if not _pasted(sentence) and not sentence.endswith("?"):
            if pattern("refuses").search(sentence):
                yield Permission(False, sentence, record)
            elif pattern("allows").search(sentence):
                yield Permission(True, sentence, record)


def _pasted(sentence: str) -> bool:
    return len(sentence) > LONGEST_SENTENCE or bool(pattern("output").match(sentence))


def corrections(messages: Iterable[QuotedMessage]) -> Iterator[Quote]:
    """Sentences in which the user negates, redirects or states a preference."""
    for message in messages:
        for sentence in sentences(message.head):
            if not _pasted(sentence) and pattern("corrects").search(sentence):
                yield Quote(sentence, message.record)
