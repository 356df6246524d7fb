"""Holding a model's summary against the log: no will is put into anybody's head.

A summary tells what is and was; what somebody wants, allows or agreed to, and what is to be done, it may only repeat.
So every sentence that speaks of such a thing must have a source, or it is taken out and reported:

    consent   a verified quotation of the user, the user's own words, or a yes to words that speak of the same
    a wish    a verified quotation of the user, or words of the user that speak of the same things
    a plan    words of the user or of the model; what a tool printed is nobody's plan

To speak of the same is to have most words in common and every act that is hard to take back. A line that leads up to
a list (“the user agreed to:”) speaks for its entries too. A sentence in a language in which nothing of this can be told
must have words in common with the conversation. Quotations are looked up: the record is cited, or the place marked. And
whatever poses as a copy of the user's words is taken out. The user's messages themselves stand in the summary word for
word, and what is taken out is reported, so nothing is lost by that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from sevenfold.layers.compact.extract import outline
from sevenfold.layers.compact.extract.facts import Facts
from sevenfold.layers.compact.summary.claims import WHERE_THE_WORDS_ARE
from sevenfold.layers.compact.summary.draft import Draft
from sevenfold.layers.compact.summary.sources import FEW, Sources, telling
from sevenfold.layers.compact.summary.tongues import without_will
from sevenfold.layers.compact.summary.will import Will, acts, asserted, claim_in, plain, will_in
from sevenfold.record.layout import Item

_QUOTED = re.compile(r"[“\"]([^“”\"\n]{12,400})[”\"](?!\w)")
_SHORT_QUOTED = re.compile(r"[“\"]([^“”\"\n]{2,400})(?:[”\"](?!\w)|\Z)")
"""Also one that was cut off before its end."""
_COPIED = re.compile(r"<said\b[^>\n]*>(.*?)(?:</said>|\Z)", re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_SENTENCE = re.compile(r"(?<=[.!?])(?=\s+[^\sa-z\d(\[])|(?<=[。！？])(?=.)")
_TAG = re.compile(r"</?(?:summary|analysis)>")
_BULLET = re.compile(r"\A\s*(?:[-*•]|\d+[.)])?\s*(?:\*\*[^*]*\*\*:?)?\s*\Z")
_ENTRY = re.compile(r"\s*(?:[-*•+]|\d+[.)])\s")
_LEADS = re.compile(r":[\s*_]*\Z")
_CLAUSE = re.compile(r"\s[-–—]\s|;|:\s|:?\*\*|, (?:and|but|so|then|which)\b")
_WORDS = re.compile(r"[^\W\d_]+")
_MODEL = re.compile(r"\b(?:model|assistant|agent)(?:'s)?\b", re.IGNORECASE)
TO_BE_DONE = frozenset({7, 9})
"""The sections that tell what is to be done."""
UNFOUND = " [no record says this]"


class Checked(Struct, frozen=True):
    """A draft that speaks for nobody, and what had to be done for that."""

    draft: Draft
    invented: tuple[str, ...] = ()
    """Sentences about what somebody wants, or is to be done, that have no source; they were taken out…"""
    strange: tuple[str, ...] = ()
    """…and so were these, which are about nothing that the conversation speaks of."""
    unfound: tuple[str, ...] = ()
    """Quotations no record holds; they are marked."""
    found: int = 0
    """Quotations that are in a record, which is now cited."""


def verify(draft: Draft, facts: Facts, items: Iterable[Item]) -> Checked:
    """A model's draft held against the log; what it says without a source that needs one is gone."""
    check = _Check(facts, Sources(facts, items), draft.ours)
    sections = {
        number: check.section(text, to_be_done=number in TO_BE_DONE)
        for number, text in draft.sections.items()
        if number != 6
    }
    kept: Mapping[int, str] = {number: text for number, text in sections.items() if text}
    return Checked(
        Draft(draft.text, kept),
        tuple(check.invented),
        tuple(check.strange),
        tuple(check.unfound),
        check.found,
    )


def unsourced(text: str, facts: Facts, items: Iterable[Item]) -> tuple[str, ...]:
    """What a text that cannot be corrected says of anybody's will, or of acts to come, without a source.

    It is read to its end, with its list of the user's messages, which ours does not replace there.
    """
    check = _Check(facts, Sources(facts, items))
    sections = outline.split(text)
    told = sections.pop(6, "")
    for number, part in sections.items():
        check.section(part, to_be_done=number in TO_BE_DONE)
    told = _TAG.sub("", told)
    harmful = [one for one in check.invented if acts(one) or will_in(one) in ("consent", "wish")]
    return (*harmful, *(line for line in told.splitlines() if not check.may_be_told(line)))


class _Check:
    """One pass over a draft, and what it came upon."""

    def __init__(self, facts: Facts, sources: Sources, ours: frozenset[str] = frozenset()) -> None:
        self.facts = facts
        self._ours = ours | {WHERE_THE_WORDS_ARE}
        self.sources = sources
        self.invented: list[str] = []
        self.strange: list[str] = []
        self.unfound: list[str] = []
        self.found = 0
        self._leads: Will | None = None
        """What the line that leads up to the present list speaks of."""
        self._just_led = False
        self._usual: Will | None = None
        """What a sentence of this section speaks of, if it does not say."""

    def section(self, text: str, *, to_be_done: bool = False) -> str:
        """The section as it may stand; lines of code may if they are in a record, or speak of nobody's will."""
        self._usual, self._leads = ("plan" if to_be_done else None), None
        lines: list[str] = []
        in_code = False
        for line in _COPIED.sub(self._uncopied, text).split("\n"):
            fence = line.lstrip().startswith("```")
            in_code ^= fence
            if fence or not line.strip() or line in self._ours:
                kept: str | None = line
            else:
                kept = self._code(line) if in_code else self._line(line)
            if kept is not None:
                lines.append(kept)
        return "\n".join(lines).strip()

    def may_be_told(self, line: str) -> bool:
        """May this stand in a list of the user's messages? The words must be the user's; what explains them, known."""
        said = _ENTRY.sub("", line).strip(' \t*"“”')
        quotes = _SHORT_QUOTED.findall(line)
        if not _WORDS.search(said) or self.sources.said_by_user(said):
            return True
        if quotes and not all(map(self.sources.said_by_user, quotes)):
            return False
        beside = _SHORT_QUOTED.sub(" ", line) if quotes else said
        rests_on = self.sources.user_agreed_to if acts(beside) else self.sources.somebody_speaks_of
        return rests_on(beside)

    def _uncopied(self, words: re.Match[str]) -> str:
        """Nothing in place of what claims to be a copy of the user's words: the copies are made by code."""
        if words[1].strip() and not self.sources.said_by_user(words[1]):
            self.invented.append(words[1].strip())
        return ""

    def _code(self, line: str) -> str | None:
        if will_in(line) in (None, "plan") or self.sources.record_of(line.strip()):
            return line
        return line if self._may_stand(line) else None

    def _line(self, line: str) -> str | None:
        if not (_ENTRY.match(line) or self._just_led):
            self._leads = None
        self._just_led = False
        sentences = _sentences(line)
        kept = [sentence for sentence in sentences if self._may_stand(sentence)]
        if _LEADS.search(line) and (will := will_in(line)) in ("consent", "wish"):
            self._leads, self._just_led = will, True
        if not kept or (kept != sentences and _BULLET.match("".join(kept))):
            return None
        return self._cite("".join(kept))

    def _may_stand(self, sentence: str) -> bool:
        outright = asserted(sentence)
        will = self._will(outright)
        if not _WORDS.search(outright) or self._rests(outright, will):
            return True
        (self.invented if will or acts(outright) else self.strange).append(sentence.strip())
        return False

    def _will(self, sentence: str) -> Will | None:
        """What a sentence speaks of, by itself or by where it stands."""
        bare = _SHORT_QUOTED.sub(lambda quote: self._aside(sentence, quote), sentence)
        will, acted = will_in(bare), acts(bare)
        if will in ("consent", "wish"):
            # What leads up to a list is borne out by its entries.
            return "plan" if _LEADS.search(sentence) and not acted else will
        if self._leads:
            return self._leads if acted else "plan"
        told = bare != sentence and not _SHORT_QUOTED.search(bare)
        return will or (self._usual if telling(bare) > FEW and (acted or not told) else None)

    def _aside(self, sentence: str, quote: re.Match[str]) -> str:
        """Nothing in place of a quotation of the user or the model: that it was said is all the sentence says of it.

        What the model claimed of somebody's will is only let pass as the model's.
        """
        if not self.sources.spoken(quote[1]):
            return quote[0]
        outside = f"{sentence[: quote.start()]} {sentence[quote.end() :]}"
        the_models = will_in(quote[1]) in ("consent", "wish") and not self.sources.said_by_user(quote[1])
        return quote[0] if the_models and not _MODEL.search(outside) else " "

    def _rests(self, sentence: str, will: Will | None) -> bool:
        """Has the sentence the source it needs?"""
        quotes = [found for found in _SHORT_QUOTED.findall(sentence) if found.strip()]
        if will is None:
            told = bool(quotes) and all(map(self.sources.spoken, quotes))
            return told or self.sources.at_home_here(sentence)
        if quotes and all(map(self.sources.said_by_user, quotes)):
            return True
        if will == "plan":
            return self.sources.somebody_speaks_of(sentence)
        rests_on = self.sources.user_agreed_to if will == "consent" else self.sources.user_speaks_of
        return not quotes and any(map(rests_on, _clauses(without_will(sentence))))

    def _cite(self, line: str) -> str:
        def checked(quote: re.Match[str]) -> str:
            record = self.sources.record_of(quote[1])
            if record is None:
                self.unfound.append(quote[1])
                return quote[0] + UNFOUND
            self.found += 1
            return f"{quote[0]} [{self.facts.name(record)}]"

        plain: Sequence[str] = _CODE.split(line)
        code = [*_CODE.findall(line), ""]
        return "".join(_QUOTED.sub(checked, part) + kept for part, kept in zip(plain, code, strict=True))


def _sentences(line: str) -> list[str]:
    """The sentences of a line; a quotation of several is not torn apart."""
    found: list[str] = []
    for part in _SENTENCE.split(line):
        if found and (found[-1].count("“") > found[-1].count("”") or found[-1].count('"') % 2):
            found[-1] += part
        else:
            found.append(part)
    return found


def _clauses(sentence: str) -> list[str]:
    """The part of a sentence that makes the claim, for the rest may speak of what came of it.

    Where that part says too little, the whole sentence may serve as well.
    """
    claim = claim_in(sentence)
    clause = next(
        (clause for clause in _CLAUSE.split(sentence) if claim and claim in plain(clause)), sentence
    )
    words = telling(clause)
    if words > FEW:
        return [clause]
    return [clause, sentence] if words else [sentence]
