"""Chats: small talk, orders and pastes of text, with statements in random places."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct

from bench.chats.statements import Statement

PASTE_TOKENS = 2_900
"""Tokens of a paste: 10,000 characters of English."""
CHARACTERS_PER_TOKEN = {"zh": 1.0, "ja": 1.0}
"""Roughly; in all other languages 3.5."""
ALONE_SHARE = 2 / 3
"""Statements that are a message of their own; the others stand within small talk."""
ANSWER_SHARE = 0.9
"""How long the model's answers are in padding, compared with what the user says: a little shorter."""
ORDERS = 0.7
"""The share of orders among the short messages of a crowded chat; the rest is small talk."""
_NAMES = re.compile(r"\{(\w+)\}")
_LINES = Path(__file__).with_name("small_talk.toml")

Role = Literal["user", "assistant"]


class Line(Struct, frozen=True):
    """A message of a chat."""

    role: Role
    text: str


class Placed(Struct, frozen=True):
    """A statement, and the number of the message it was said in."""

    statement: Statement
    message: int


class Chat(Struct, frozen=True):
    """A conversation, with the statements that were said in it."""

    name: str
    lines: tuple[Line, ...]
    placed: tuple[Placed, ...]


class SmallTalk:
    """Small talk in one language; the same seed gives the same lines."""

    def __init__(self, language: str, chance: random.Random) -> None:
        self._lines = _small_talk()[language]
        self._chance = chance
        self.characters_per_token = CHARACTERS_PER_TOKEN.get(language, 3.5)

    def user(self) -> str:
        """Return a remark of the user."""
        return self._filled("user")

    def assistant(self) -> str:
        """Return an answer of the model."""
        return self._filled("assistant")

    def order(self) -> str:
        """Return an instruction for the moment, which is no rule."""
        return self._filled("orders")

    def paste(self) -> str:
        """Return a long text that the user pasted: a log with remarks of others, none of them a rule of the user."""
        lines = [self.order()]
        size = 0
        while size < PASTE_TOKENS * self.characters_per_token:
            number = self._chance.randrange(10_000)
            line = f"{number:05d} worker-{number % 7} {self._filled('assistant')} ({number * 7919:x})"
            lines.append(line)
            size += len(line) + 1
        return "\n".join(lines)

    def around(self, text: str) -> str:
        """Return a message that contains a text, alone or within small talk."""
        if self._chance.random() < ALONE_SHARE:
            return text
        return f"{self.user()} {text} {self.user()}"

    def _filled(self, name: str) -> str:
        template = self._chance.choice(self._lines[name])
        return _NAMES.sub(lambda match: self._word(match[1]), template)

    def _word(self, name: str) -> str:
        if name == "number":
            return str(self._chance.randrange(2, 60))
        return self._chance.choice(self._lines[name])


@cache
def _small_talk() -> Mapping[str, Mapping[str, Sequence[str]]]:
    return tomllib.loads(_LINES.read_text("utf-8"))


def small_chat(language: str, statements: Sequence[Statement], turns: int, seed: int) -> Chat:
    """Make a chat of this many turns, each a short remark and its answer, with the statements in random places."""
    chance = random.Random(f"{language} {turns} {seed}")
    talk = SmallTalk(language, chance)
    said = [talk.user() for _ in range(turns)]
    return _with_statements(f"{language}, {turns} turns", talk, said, statements, chance)


def crowded_chat(language: str, statements: Sequence[Statement], tokens: int, seed: int) -> Chat:
    """Make a chat in which the user says about this much: half of it orders and small talk, half of it pasted."""
    chance = random.Random(f"{language} {tokens} {seed} crowded")
    talk = SmallTalk(language, chance)
    said: list[str] = []
    typed, pasted = 0, 0
    while typed + pasted < tokens * talk.characters_per_token:
        if pasted < typed:
            said.append(talk.paste())
            pasted += len(said[-1])
        else:
            said.append(talk.order() if chance.random() < ORDERS else talk.user())
            typed += len(said[-1])
    return _with_statements(f"{language}, {tokens:,} tokens of the user", talk, said, statements, chance)


def padded(turns: Sequence[Line], tokens: int, seed: int) -> tuple[Line, ...]:
    """Put English talk of about this many tokens between the turns of a conversation, half of it the user's."""
    chance = random.Random(f"{seed} {tokens} padded")
    talk = SmallTalk("en", chance)
    size = tokens * talk.characters_per_token
    talked: list[tuple[Line, Line]] = []
    while size > 0:
        sentences = chance.randrange(1, 7)
        said = " ".join(talk.user() for _ in range(sentences))
        answer = talk.assistant()
        while len(answer) < len(said) * ANSWER_SHARE:
            answer += f" {talk.assistant()}"
        size -= len(said) + len(answer)
        talked.append((Line("user", said), Line("assistant", answer)))
    # A turn of the conversation begins with the user; talk goes in front of it, and some comes last.
    starts = [number for number, line in enumerate(turns) if line.role == "user"]
    gaps = sorted(chance.randrange(len(talked) + 1) for _ in starts)
    lines: list[Line] = []
    done = 0
    for start, end, gap in zip(starts, [*starts[1:], len(turns)], gaps, strict=True):
        lines += [line for pair in talked[done:gap] for line in pair]
        lines += turns[start:end]
        done = gap
    lines += [line for pair in talked[done:] for line in pair]
    return tuple(lines)


def _with_statements(
    name: str, talk: SmallTalk, said: list[str], statements: Sequence[Statement], chance: random.Random
) -> Chat:
    """Put each statement into a message of its own in a random place; what it replaces comes before it."""
    inserted: dict[int, list[str]] = {}
    for statement in statements:
        # The last message is the one being answered.
        place = chance.randrange(len(said))
        inserted.setdefault(place, []).append(statement.text)
        if statement.earlier:
            inserted.setdefault(chance.randrange(place + 1), []).insert(0, statement.earlier)
    texts: list[str] = []
    where: dict[str, int] = {}
    for place, remark in enumerate(said):
        for text in inserted.get(place, ()):
            where[text] = 2 * len(texts)
            texts.append(talk.around(text))
        texts.append(remark)
    lines: list[Line] = []
    for text in texts:
        lines.append(Line("user", text))
        lines.append(Line("assistant", talk.assistant()))
    placed = [Placed(statement, where[statement.text]) for statement in statements]
    return Chat(name, tuple(lines), tuple(placed))
