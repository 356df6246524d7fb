"""Holding a model's summary against the log: no words are put into anybody's mouth.

Two things are checked. What stands in quotation marks must be in a record: if it is, the record is cited,
else the place is marked. And a sentence saying that the user asked, said or wants something must rest on
the user's own words, by a quotation of them or by speaking of the same things; consent (the user agreed,
approved, allowed) is only believed with a quotation. What has no source is taken out and reported, and so
is whatever poses as a copy of the user's words. The user's messages themselves are in the summary word for
word, so nothing is lost by that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from sevenfold.layers.extract.facts import Facts
from sevenfold.layers.summary.draft import Draft
from sevenfold.layers.summary.sources import FEW, Sources, telling
from sevenfold.record.layout import Item

_QUOTED = re.compile(r"[“\"]([^“”\"\n]{12,400})[”\"](?!\w)")
_SHORT_QUOTED = re.compile(r"[“\"]([^“”\"\n]{2,400})[”\"](?!\w)")
_COPIED = re.compile(r"<said\b[^>\n]*>(.*?)(?:</said>|\Z)", re.DOTALL)
_LOOKS_LIKE_CODE = re.compile(r"[(){}\[\];=<>]|\A\s*(?://|#)")
_CODE = re.compile(r"`[^`\n]*`")
_SENTENCE = re.compile(r"(?<=[.!?])(?=\s+[A-Z\"“*])")
_BULLET = re.compile(r"\A\s*(?:[-*•]|\d+[.)])?\s*(?:\*\*[^*]*\*\*:?)?\s*\Z")
_CLAIM = re.compile(
    r"\b(?:the |our )?users?(?: (?:has|have|had|then|also|explicitly|clearly|now|later|originally|initially"
    r"|specifically|strongly|just|only))*\s+(?:asked|asks|said|says|wants?|wanted|requested|requests|told"
    r"|instructed|prefers?|preferred|insisted|demands?|demanded|decided|chose|mentioned|reported|needs?|needed"
    r"|expects?|expected|would like|clarified|emphasi[sz]ed|stated|specified|suggested|corrected|rejected"
    r"|pointed out|noted|wished|wishes|likes?|{consent})\b"
    r"|\b(?:requested|asked for|wanted|demanded|{consent}) by the user\b|\buser['’]s (?:request|wish|preference"
    r"|instruction|decision|consent|approval|permission)\b".replace(
        "{consent}",
        "approved|approves|agreed|agrees|confirmed|confirms|allowed|permitted|authori[sz]ed|accepted",
    ),
    re.IGNORECASE,
)
_CONSENT = re.compile(
    r"\b(?:approv|agree|confirm|allow|permit|permission|consent|authori[sz]|accepted|go-ahead|green light)",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"\b(?:unless|if|whether|until|once|in case|when|should|what)\b[^.;:]{0,25}\Z", re.IGNORECASE
)
"""In front of such a clause: it does not say that the user did so."""
_TELLS = re.compile(r"[^.;“\"]{0,20}:\s")
_CLAUSE = re.compile(r"\s[-–—]\s|;|:\s|:?\*\*|, (?:and|but|so|then|which)\b")
UNFOUND = " [no record says this]"


class Checked(Struct, frozen=True):
    """A draft that puts words in nobody's mouth, and what had to be done for that."""

    draft: Draft
    invented: tuple[str, ...] = ()
    """Sentences about what the user said or wants that have no source; they were taken out."""
    unfound: tuple[str, ...] = ()
    """Quotations no record holds; they are marked."""
    unjudged: tuple[str, ...] = ()
    """Sentences about the user that were left: the user writes in another script than the summary."""
    found: int = 0
    """Quotations that are in a record, which is now cited."""


def verify(draft: Draft, facts: Facts, items: Iterable[Item]) -> Checked:
    """A model's draft held against the log; what it says of the user without a source is gone."""
    check = _Check(facts, Sources(facts, items))
    sections = {number: check.section(text) for number, text in draft.sections.items() if number != 6}
    kept: Mapping[int, str] = {number: text for number, text in sections.items() if text}
    return Checked(
        Draft(draft.text, kept),
        tuple(check.invented),
        tuple(check.unfound),
        tuple(check.unjudged),
        check.found,
    )


class _Check:
    """One pass over a draft, and what it came upon."""

    def __init__(self, facts: Facts, sources: Sources) -> None:
        self.facts = facts
        self.sources = sources
        self.invented: list[str] = []
        self.unfound: list[str] = []
        self.unjudged: list[str] = []
        self.found = 0

    def section(self, text: str) -> str:
        """The section as it may stand; code is left as it is, but for what reads as a sentence."""
        lines: list[str] = []
        in_code = False
        for line in _COPIED.sub(self._uncopied, text).split("\n"):
            fence = line.lstrip().startswith("```")
            in_code ^= fence
            code = fence or (in_code and bool(_LOOKS_LIKE_CODE.search(line)))
            kept = line if code or not line.strip() else self._line(line, cites=not in_code)
            if kept is not None:
                lines.append(kept)
        return "\n".join(lines).strip()

    def _uncopied(self, words: re.Match[str]) -> str:
        """Nothing in place of what claims to be a copy of the user's words: the copies are made by code."""
        if words[1].strip() and not self.sources.said_by_user(words[1]):
            self.invented.append(words[1].strip())
        return ""

    def _line(self, line: str, *, cites: bool) -> str | None:
        kept = [part for part in _SENTENCE.split(line) if self._may_stand(part)]
        if not kept or _BULLET.match("".join(kept)):
            return None if kept != _SENTENCE.split(line) else line
        return self._cite("".join(kept)) if cites else "".join(kept)

    def _may_stand(self, sentence: str) -> bool:
        bare = _CODE.sub(" ", sentence)
        claim = _CLAIM.search(bare)
        if claim is None or _supposed(bare, claim):
            return True
        quotes = [found for found in _SHORT_QUOTED.findall(sentence) if found.strip()]
        if quotes and all(self.sources.said_by_user(found) for found in quotes):
            return True
        rests_on = self.sources.agreed_to if _CONSENT.search(claim[0]) else self.sources.speaks_of
        if not quotes and any(map(rests_on, _clauses(sentence, claim[0]))):
            return True
        if not quotes and self.sources.other_script(bare):
            self.unjudged.append(sentence.strip())
            return True
        self.invented.append(sentence.strip())
        return False

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


def _supposed(sentence: str, claim: re.Match[str]) -> bool:
    """Does it leave open whether the user did so? Not where what the user said comes next."""
    return bool(_SUPPOSES.search(sentence[: claim.start()])) and not _TELLS.match(sentence[claim.end() :])


def _clauses(sentence: str, claim: str) -> list[str]:
    """The part of a sentence that makes the claim, for the rest may speak of what came of it.

    Where that part says too little, the whole sentence may serve as well.
    """
    clause = next((clause for clause in _CLAUSE.split(sentence) if claim in clause), sentence)
    words = telling(clause)
    if words > FEW:
        return [clause]
    return [clause, sentence] if words else [sentence]
