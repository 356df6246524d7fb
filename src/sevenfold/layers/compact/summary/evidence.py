"""The evidence for statements about the user: the user's words, and the proposals they agreed to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain, filterfalse

from sevenfold.layers.compact.extract.notation import Facts
from sevenfold.layers.compact.extract.words import sentences, whole_text
from sevenfold.layers.compact.summary.claims import Claim, alike, pattern, roots, words
from sevenfold.record.authorship import spoken
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item

_WORD = re.compile(r"[^\W_][\w'./-]*[^\W_]|\w")
_BUT = re.compile(r"\b(?:but|except|though)\b", re.IGNORECASE)
_GAP = re.compile(r"\.\.\.|\[[^\]]*\]")
# A model that quotes often changes the quotation marks inside the quotation.
_SIGNS = str.maketrans({**dict.fromkeys("“”«»‘’\"'*`"), "…": "..."})
_FEW = 4
_LONG = 20
"""A claim with more content words is compared with whole messages instead of sentences."""
_ENOUGH = 0.51
"""The share of a claim's content words that a sentence of the user must contain to support it."""
_NEAR = 6
"""How many words before an act are searched for a negation such as "don't"."""


class Evidence:
    """The user's words and all other text in these records.

    ``earlier`` gives all earlier records. It is called only for what is not found here, as reading them is slow.
    """

    def __init__(
        self, facts: Facts, items: Iterable[Item], earlier: Callable[[], Iterable[Said]] = tuple
    ) -> None:
        self._items = [item for item in items if not item.hidden_by]
        self._earlier = earlier
        self._users = {message.record: f"{message.head}\n{message.tail}" for message in facts.messages}
        self._users |= {fact.record: fact.text for fact in facts.replies}
        self._users |= dict(spoken(item.record for item in self._items))
        self._agreed = [fact.proposal for fact in facts.permissions if fact.granted and fact.proposal]
        self._names = facts.names

    @cached_property
    def in_english(self) -> bool:
        """Whether the user writes English; otherwise a claim in English cannot be compared with their words."""
        # Only the beginning of a message counts: pasted text after it may be in no language at all.
        return 2 * sum(in_english(text[:400]) for text in self._users.values()) >= len(self._users)

    def said_by_user(self, quote: str) -> bool:
        """Whether the user said this, ignoring white space, case and quotation marks."""
        return any(holds(text, quote) for text in chain(self._plain.values(), self._earlier_users.values()))

    def record_of(self, quote: str) -> str | None:
        """The citation of the record that contains these words, the user's records first; None if there is none."""
        texts = chain(self._plain.items(), self._whole.items(), self._earlier_users.items())
        record = next((name for name, text in texts if holds(text, quote)), None)
        return self._names.get(record, record) if record else None

    def supports(self, claim: Claim) -> bool:
        """Whether a sentence of the user, or a proposal they agreed to, mentions this act and its object."""
        texts: Iterable[str] = chain(self._users.values(), self._earlier_users.values())
        if len(claim.about) <= _LONG:  # a longer claim spans several sentences, like a copied message
            texts = _clauses(texts)
        orders = filterfalse(_only_asks, texts)
        return any(_speaks_of(text, claim) for text in chain(orders, self._agreed))

    def touches(self, claim: Claim) -> bool:
        """Whether the user spoke of the act and its object at all, in whatever sentences and other words.

        That is too little to support the claim, and too much to call it made up. A claim without an act that is hard
        to undo is no accusation either.
        """
        acts = frozenset(map(alike, claim.acts))
        about = frozenset(map(alike, claim.about))
        enough = len(about & self._vocabulary) >= _ENOUGH * len(about)
        return not acts or (enough and bool(acts & self._vocabulary))

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        """The common roots of all words of the user."""
        texts = chain(self._users.values(), self._earlier_users.values())
        return frozenset(map(alike, _tokens("\n".join(texts))))

    @cached_property
    def _plain(self) -> dict[str, str]:
        return {record: plain(text) for record, text in self._users.items()}

    @cached_property
    def _whole(self) -> dict[str, str]:
        return {item.record.uuid: plain(whole_text(item)) for item in self._items}

    @cached_property
    def _earlier_users(self) -> dict[str, str]:
        return {record: plain(text) for record, text in spoken(self._earlier())}


def _clauses(texts: Iterable[str]) -> Iterator[str]:
    """The sentences of these texts, split at a "but", which often takes back what came before it."""
    for text in texts:
        for sentence in sentences(text):
            yield from _BUT.split(sentence)


def _only_asks(text: str) -> bool:
    return text.endswith("?") and not pattern("wishes").search(text)


def _tokens(text: str) -> list[str]:
    return _WORD.findall(text.casefold().replace("’", "'"))


def _speaks_of(sentence: str, claim: Claim) -> bool:
    """Whether a sentence mentions the act of a claim and enough of what it is about, without negating it."""
    tokens = _tokens(sentence)
    stems = list(map(alike, tokens))
    content = {stem for token, stem in zip(tokens, stems, strict=True) if token not in words("small")}
    acts = frozenset(map(alike, claim.acts))
    about = frozenset(map(alike, claim.about))
    crucial = map(alike, claim.about & roots("crucial"))
    enough = len(about & content) >= _ENOUGH * len(about) and content.issuperset(crucial)
    # "Push it" does not say what to push, so it supports only a claim that says hardly more.
    if not about or not (enough or (content <= acts and len(about) < 3)):
        return False
    mentions = (index for index, stem in enumerate(stems) if stem in (acts or about))
    return any(not _against(tokens[max(0, index - _NEAR) : index]) for index in mentions)


def _against(near: list[str]) -> bool:
    """Whether the words before an act negate it, or an article makes it a noun, as in "the merge"."""
    opposed = any(token in words("against") or token.endswith("n't") for token in near)
    return opposed or (bool(near) and near[-1] in ("the", "a", "an", "my", "our", "this"))


def in_english(text: str) -> bool:
    """Whether a text is mostly ASCII letters and one word in twenty is a common English one; short texts pass."""
    letters = [sign.isascii() for sign in text if sign.isalpha()]
    small = len(pattern("english").findall(text))
    return 2 * sum(letters) >= len(letters) and 20 * small >= len(text.split()) - _FEW


def plain(text: str) -> str:
    """A text normalised for comparison: lower case, single spaces, no quotation marks."""
    return " ".join(text.translate(_SIGNS).casefold().split())


def holds(text: str, quote: str) -> bool:
    """Whether a `plain` text contains a quotation; "..." or brackets in the quotation match any text in between."""
    position = 0
    for part in _GAP.split(plain(quote)):
        wanted = part.strip(" ,.;:!?")
        start = text.find(wanted, position)
        if start < 0:
            return False
        position = start + len(wanted)
    return True
