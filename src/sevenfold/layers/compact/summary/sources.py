"""The words of the records, in a form in which a quotation or a paraphrase of them can be found again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain

from msgspec import Struct

from sevenfold.layers.compact.extract.facts import Facts
from sevenfold.layers.compact.extract.recent import models_words
from sevenfold.layers.compact.extract.words import users_words
from sevenfold.layers.compact.summary.will import acts
from sevenfold.record import blocks
from sevenfold.record.blocks import ToolUse
from sevenfold.record.layout import Item

_FILE = re.compile(r"[\w.@~+/\\:-]*[\w-]\.[a-z]\w{0,7}")
"""A file, which is one thing however many words its path has; it is known by its last part."""
_BETWEEN, _EDGES = re.compile(r"[\s\"'`“”‘’()\[\]{}<>|,;]+"), "*:!?."
_WORD = re.compile(r"\d+|[^\W\d_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{3,}")
_WITHOUT_SPACES = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
"""Scripts that put no space between words, or join them: any two signs in a row are taken for a word."""
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
        " clarified noted pointed out expected expects approved agreed confirmed allowed permitted accepted"
        " approval consent permission authorised authorized authorisation authorization ahead given gave granted"
        " previously earlier already instruction instructions instructed agreement agrees per discussed"
        " settled arranged decided decision fine okay happy must shall may going ought remains pending proceed now"
        " wish wishes wished accordance line according accordingly objection objections green light sign signed off"
        " task tasks complete completed completely finished implementation further step steps none nothing"
        " everything verify confirm pending remaining explicit additional tasked directed ordered preference"
        " preferences feedback consented sanctioned cleared it is to be do",
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
_FAMILIAR = 0.67
"""The part of the words of a harmless plan that the user or the model must have used somewhere."""
_AT_HOME = 0.34
"""The part of the words of any sentence that must be in one passage if it tells of such an act, else anywhere."""
FEW = 2
"""Words up to which a text says too little."""
_PASSAGE = 800
"""Characters of a passage at most."""


class Passage(Struct, frozen=True):
    """What a stretch of text speaks of: its words, and the acts among them that are hard to take back."""

    words: frozenset[str]
    acts: frozenset[int] = frozenset()

    @classmethod
    def of(cls, text: str) -> Passage:
        """The passage a text is."""
        return cls(_stems(text), acts(text))

    @property
    def says_something(self) -> bool:
        """Does it say more than the name of a file?"""
        return any("." not in word for word in self.words)

    def within(self, other: Passage, part: float) -> bool:
        """Does the other speak of the same: of every act, and of that part of the words? Figures tell more."""
        return self.acts <= other.acts and _worth(self.words & other.words) >= part * _worth(self.words)


class Sources:
    """Who said what, ready to be searched."""

    def __init__(self, facts: Facts, items: Iterable[Item]) -> None:
        self._items = list(items)
        own = [(words.record, f"{words.head} {words.tail}") for words in facts.messages]
        self._replies = {reply.record for reply in facts.replies}
        replies = [(reply.record, reply.text) for reply in facts.replies]
        self._users = [(record, normal(text)) for record, text in [*own, *replies]]
        self._answered = dict(_answered(self._items))

    def record_of(self, quote: str) -> str | None:
        """The first record that holds these words."""
        return next((record for record, text in self._all if _holds(text, quote)), None)

    def spoken(self, quote: str) -> bool:
        """Are these words the user's or the model's, to the letter?"""
        return any(_holds(text, quote) for text in self._speech)

    def said_by_user(self, quote: str) -> bool:
        """Are these words the user's, or so near to them that only the spelling is not?"""
        if any(_holds(text, quote) for _, text in self._users):
            return True
        said = Passage.of(quote)
        return bool(said.words) and any(said.within(known, _NEARLY) for known in self._own)

    def user_speaks_of(self, sentence: str) -> bool:
        """Does the user speak of what this sentence speaks of, or answer something that does?"""
        said = Passage.of(sentence)
        return said.says_something and (
            said.within(self._typed, _ENOUGH_OF_ALL)
            or any(said.within(known, _ENOUGH_OF_ONE) for known in self._told)
        )

    def user_agreed_to(self, sentence: str) -> bool:
        """Did the user say so without a no, or answer yes, in so many words, to something that speaks of the same?"""
        said = Passage.of(sentence)
        return said.says_something and any(said.within(known, _ENOUGH_OF_ONE) for known in self._agreed)

    def somebody_speaks_of(self, sentence: str) -> bool:
        """Does the user or the model speak of it? What a tool printed is nobody's plan.

        Where no act in it is hard to take back, it is enough that most of its words were used at all.
        """
        said = Passage.of(sentence)
        if not said.acts:
            return len(said.words & self._spoken) >= _FAMILIAR * len(said.words)
        return any(said.within(known, _ENOUGH_OF_ONE) for known in chain(self._told, self._models))

    def at_home_here(self, sentence: str) -> bool:
        """Is it about this conversation at all? Of acts that are hard to take back somebody must have spoken."""
        said = Passage.of(sentence)
        if said.acts:
            return any(said.within(known, _AT_HOME) for known in chain(self._told, self._models))
        words = {word for word in said.words if word.isalpha()}
        return len(words) <= FEW or len(words & self._vocabulary) >= _AT_HOME * len(words)

    @cached_property
    def _all(self) -> list[tuple[str, str]]:
        return [*self._users, *((record, normal(text)) for record, text in texts_of(self._items))]

    @cached_property
    def _speech(self) -> list[str]:
        words = filter(None, map(models_words, self._items))
        return [*(text for _, text in self._users), *map(normal, words)]

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset(chain.from_iterable(_stems(text) for _, text in self._all))

    @cached_property
    def _own(self) -> list[Passage]:
        return [Passage.of(part) for _, text in self._users for part in _passages(text)]

    @cached_property
    def _told(self) -> list[Passage]:
        told = (f"{text} {self._answered.get(record, '')}" for record, text in self._users)
        return [Passage.of(part) for text in told for part in _passages(text)]

    @cached_property
    def _typed(self) -> Passage:
        typed = [text for _, text in self._users if len(text) <= _PASSAGE]
        return Passage(frozenset(chain.from_iterable(map(_stems, typed))), acts("\n".join(typed)))

    @cached_property
    def _agreed(self) -> list[Passage]:
        found: list[Passage] = []
        for record, text in self._users:
            if not _DENIES.search(text):
                answers = record in self._answered or record in self._replies
                whole = (
                    f"{text} {self._answered.get(record, '')}" if answers and _AGREES.search(text) else text
                )
                found += map(Passage.of, _passages(whole))
        return found

    @cached_property
    def _spoken(self) -> frozenset[str]:
        return frozenset(chain.from_iterable(known.words for known in chain(self._told, self._models)))

    @cached_property
    def _models(self) -> list[Passage]:
        return [Passage.of(part) for text in _models(self._items) for part in _passages(text)]


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


def _models(items: Iterable[Item]) -> Iterator[str]:
    """What the model said and called for, and what earlier summaries hand on."""
    for item in items:
        if item.hidden_by:
            continue
        if item.said.summary:
            yield from (blocks.words_of(block) for block in item.said.blocks)
        elif item.said.role == "assistant":
            yield "\n".join([models_words(item), *_given(item)])


def texts_of(items: Iterable[Item]) -> Iterator[tuple[str, str]]:
    """Everything said in these records, with the id of each; a call's input counts as said."""
    for item in items:
        if item.hidden_by:
            continue
        words = [users_words(item) or models_words(item), *_given(item)]
        words += [
            blocks.words_of(block)
            for block in item.said.blocks
            if block.kind == "tool_result" or item.said.summary or item.said.meta
        ]
        if text := "\n".join(filter(None, words)):
            yield item.said.uuid, text


def _given(item: Item) -> Iterator[str]:
    for block in item.said.blocks:
        if block.kind == "tool_use" and isinstance(body := block.body(), ToolUse):
            yield bytes(body.input).decode(errors="replace").replace('\\"', '"').replace("\\n", " ")


def normal(text: str) -> str:
    """A text as it is compared: one case, one kind of space and quotation mark."""
    return " ".join(text.translate(_QUOTES).casefold().split())


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


def telling(text: str) -> int:
    """How many words of a text say what it is about."""
    return len(_stems(text))


def _stems(text: str) -> frozenset[str]:
    found: set[str] = set()
    for piece in _BETWEEN.split(text.casefold()):
        bare = piece.strip(_EDGES)
        if "." in bare and _FILE.fullmatch(bare):
            found.add(bare.replace("\\", "/").rpartition("/")[2])
            continue
        found.update(_stem(word) for word in _WORD.findall(piece) if word not in _EMPTY)
        for run in _WITHOUT_SPACES.findall(piece):
            found.update(run[place : place + 2] for place in range(len(run) - 1))
    return frozenset(found)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word[: -len(ending)]
            return stem[:-1] if stem[-1] == stem[-2] else stem
    return word
