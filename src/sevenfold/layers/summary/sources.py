"""The words of the records, in a form in which a quotation or a paraphrase of them can be found again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from sevenfold.layers.extract.facts import Facts
from sevenfold.layers.extract.recent import models_words
from sevenfold.layers.extract.words import users_words
from sevenfold.record import blocks
from sevenfold.record.blocks import ToolUse
from sevenfold.record.layout import Item

_WORD = re.compile(r"\d+|[^\W\d_]{3,}")
_ENDINGS = ("ations", "ation", "ings", "ing", "ions", "ion", "ies", "ed", "es", "s", "ly", "e", "y")
_EMPTY = frozenset(
    re.findall(
        r"\w+",
        "the user users asked asks said says want wants wanted request requests requested told and for that this"
        " with has have had was were are been from about into when then than they them their its also not should"
        " would could will can all any some need needs needed how what which why where who you your our make made"
        " use using used like likes explicitly clearly specifically originally initially later first next after"
        " before while because there here these those just only more most very please work done being both each"
        " prefer prefers preferred insisted mentioned reported instructed emphasized emphasised stated specified"
        " clarified noted pointed out expected expects approved agreed confirmed allowed permitted accepted",
    )
)
"""Words that say nothing of what a sentence is about."""
_QUOTES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "*": None, "`": None})
_AGREES = re.compile(
    r"\b(?:yes|yeah|yep|yup|ok|okay|sure|agreed?|approved?|go ahead|go for it|do it|do that|let['’]?s (?:do|go)"
    r"|please do|sounds good|looks good|lgtm|gtg|perfect|great|correct|exactly|option|proceed|continue)\b"
    r"|\A\W*[1-9a-e]\W*\Z"
)
_DENIES = re.compile(r"\b(?:no|not|never|stop|don'?t|do not|won'?t|wait|instead)\b")
_SHORT = 20
"""Words up to which a message is taken to answer what was said before it…"""
_CONTEXT = 3_000
"""…and how many characters of that count."""
_NEARLY = 0.66
_ENOUGH_OF_ONE = 0.51
"""The part of a sentence's words that one passage must hold for the sentence to speak of the same…"""
_ENOUGH_OF_ALL = 0.6
"""…or all short messages together: in what is pasted, any words can be found."""
FEW = 2
"""Words up to which a clause says too little."""
_PASSAGE = 800
"""Characters of a passage at most."""


class Sources:
    """Who said what, ready to be searched."""

    def __init__(self, facts: Facts, items: Iterable[Item]) -> None:
        items = list(items)
        own = [(words.record, f"{words.head} {words.tail}") for words in facts.messages]
        replies = [(reply.record, reply.text) for reply in facts.replies]
        self._users = [(record, normal(text)) for record, text in [*own, *replies]]
        self._all = [*self._users, *((record, normal(text)) for record, text in texts_of(items))]
        answered = dict(_answered(items))
        told = [(record, f"{text} {answered.get(record, '')}") for record, text in self._users]
        self._vocabularies = [_stems(part) for _, text in told for part in _passages(text)]
        typed = (_stems(text) for _, text in self._users if len(text) <= _PASSAGE)
        self._vocabulary = frozenset(chain.from_iterable(typed))
        answers = answered.keys() | dict(replies).keys()
        self._agreed = [
            _stems(part)
            for (record, text), (_, whole) in zip(self._users, told, strict=True)
            if record in answers and _agrees(text)
            for part in _passages(whole)
        ]
        self._latin = [_mostly_latin(text) for _, text in self._users]

    def record_of(self, quote: str) -> str | None:
        """The first record that holds these words."""
        return next((record for record, text in self._all if _holds(text, quote)), None)

    def said_by_user(self, quote: str) -> bool:
        """Are these words the user's, or so near to them that only the spelling is not?"""
        words = _stems(quote)
        near = _NEARLY * len(words)
        return any(
            _holds(text, quote) or (words and len(words & _stems(text)) >= near) for _, text in self._users
        )

    def speaks_of(self, sentence: str) -> bool:
        """Does the user speak of what this sentence speaks of?"""
        words = _stems(sentence)
        whole = len(words & self._vocabulary) >= _ENOUGH_OF_ALL * len(words)
        return whole or any(_shares(words, known) for known in self._vocabularies)

    def agreed_to(self, sentence: str) -> bool:
        """Did the user answer yes, in so many words, to something that speaks of the same?"""
        words = _stems(sentence)
        return any(_shares(words, known) for known in self._agreed)

    def other_script(self, sentence: str) -> bool:
        """Does the user mostly write in a script in which these words could not be found?"""
        return bool(self._latin) and not any(self._latin[-5:]) and _mostly_latin(sentence)


def _shares(words: frozenset[str], known: frozenset[str]) -> bool:
    """Are enough of the words known? Figures tell more than words."""
    return _worth(words & known) >= _ENOUGH_OF_ONE * _worth(words)


def _worth(words: frozenset[str]) -> int:
    return sum(2 if word.isdigit() else 1 for word in words)


def _passages(text: str) -> Iterator[str]:
    """The text in overlapping parts."""
    for start in range(0, max(1, len(text) - _PASSAGE // 2), _PASSAGE // 2):
        yield text[start : start + _PASSAGE]


def _answered(items: Iterable[Item]) -> Iterator[tuple[str, str]]:
    """For each short message of the user what the model had said before it: “2” means what it answers."""
    before = ""
    for item in items:
        if words := models_words(item):
            before = words[-_CONTEXT:]
        elif (words := users_words(item)) and len(words.split()) <= _SHORT:
            yield item.said.uuid, before


def texts_of(items: Iterable[Item]) -> Iterator[tuple[str, str]]:
    """Everything said in these records, with the id of each; a call's input counts as said."""
    for item in items:
        if item.hidden_by:
            continue
        words = [users_words(item) or models_words(item)]
        for block in item.said.blocks:
            body = block.body()
            if isinstance(body, ToolUse):
                words.append(
                    bytes(body.input).decode(errors="replace").replace('\\"', '"').replace("\\n", " ")
                )
            elif block.kind == "tool_result" or item.said.summary:
                words.append(blocks.words_of(block))
        if text := "\n".join(filter(None, words)):
            yield item.said.uuid, text


def telling(text: str) -> int:
    """How many words of a text say what it is about."""
    return len(_stems(text))


def normal(text: str) -> str:
    """A text as it is compared: one case, one kind of space and quotation mark."""
    return " ".join(text.translate(_QUOTES).casefold().split())


def _agrees(text: str) -> bool:
    return bool(_AGREES.search(text)) and not _DENIES.search(text)


def _holds(text: str, quote: str) -> bool:
    """Are these words in the text, in order? Where the quotation leaves something out, so may the text."""
    place = 0
    for piece in normal(quote).split("..."):
        piece = piece.strip(" ,.;:!?")
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def _stems(text: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in _WORD.findall(text.casefold()) if word not in _EMPTY)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            stem = word[: -len(ending)]
            return stem[:-1] if stem[-1] == stem[-2] else stem
    return word


def _mostly_latin(text: str) -> bool:
    letters = [character for character in text[:2_000] if character.isalpha()]
    return sum(character < "\u0250" for character in letters) * 2 >= len(letters)
