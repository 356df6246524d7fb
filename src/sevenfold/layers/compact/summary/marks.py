"""Marking what a model's summary claims and the record does not show; nothing is taken out.

A sentence that says the user allowed or ordered an act that is hard to take back (`acts`) must quote the user, or rest
on the user's words (`evidence`). If it does neither, a mark is put at its end. Denials, questions, conditions, code and
paths claim nothing. All of this is English; in other languages only quotations are looked up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from msgspec import Struct

from sevenfold.layers.compact.summary import quotations, vocabulary
from sevenfold.layers.compact.summary.acts import COMMAND, Act, asked_for, named
from sevenfold.layers.compact.summary.evidence import Evidence, in_english
from sevenfold.layers.compact.summary.quotations import Quotation, substituted
from sevenfold.layers.compact.summary.vocabulary import any_of, words

MARK = "[not in the record]"


def _pattern(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_GIVES, _ORDERS = any_of(vocabulary.GIVES), any_of(vocabulary.ORDERS)
_SAYS, _LEAVE = any_of(vocabulary.SAYS), any_of(vocabulary.LEAVE)
_USER = r"\b(?:the )?user(?:'s)?\b"
_SOME = r"(?:[\s(]+[\w'-]+){0,4}?[\s)]+"
_IS = r"\b(?:is|are|was|were|been)\s+(?:\w+ly\s+|already\s+)?"
_ASKS = _pattern(
    rf"(?:{_USER}|\bthey\b){_SOME}(?:{_GIVES}|{_ORDERS}|{_SAYS})\b",
    rf"\b(?:we|i) (?:were|was|have been|am|are) (?:{_GIVES}|{_ORDERS})\b(?: by the user)?",
    rf"\bagreed with the user\b|{_USER}\W{{0,3}}(?=:)",
)
"""Somebody with authority speaks; what follows is what is asked for or allowed."""
_GRANTED = _pattern(
    rf"\b{any_of(vocabulary.HAS)}(?:\s+[\w']+){{0,4}}?\s+{_LEAVE}\b",
    rf"\b{_LEAVE}(?: so far| granted| given| \(user\))?[\s*]*:",
    rf"\b{_LEAVE}\b.{{0,40}}?\b(?:obtained|given|granted|received|came|delegated|in place)\b",
    rf"(?:{_IS}|[:(–—-]\s*|\A\W*)(?:approved|authori[sz]ed|signed off|okayed|agreed|settled|understood)\b",
    rf"(?:{_IS}(?:{_GIVES}|{_ORDERS}|given)\b.{{0,20}}|(?:{_ORDERS}|{_GIVES})\W{{0,3}}(?:by |\()){_USER}",
    rf"\bwhich{_SOME}user{_SOME}{_ORDERS}\b|\b(?:permitted|allowed)\b[^.]*{_USER}|\baccording to the user\b",
    rf"(?<!soon )\bas\b(?! soon)[^,.;]{{0,15}}(?:{_USER}|\b(?:discussed|{_GIVES}|{_ORDERS})\b)",
    r"\bno (?:further |more )?(?:confirmation|approval) is (?:needed|required)\b|\buser-(?:approved|requested)\b",
)
"""Leave is said to have been given, somewhere in the sentence."""
_IT = _pattern(
    rf"{_USER}{_SOME}(?:{_GIVES}|{_SAYS})(?: to| with)? (?:it|this|that|so|yes)(?=\W*(?:\Z|[.,;:)]))|\band got it\b"
)
"""Leave for what was spoken of before."""
_BLANKET = _pattern(rf"{_USER}.{{0,40}}\b{any_of(vocabulary.BLANKET)}\b")
_DENIES = words(vocabulary.DENIES)
_DENIES_NOTHING = _pattern(rf"\b{any_of(vocabulary.DENIES_NOTHING)}\b", r"`[^`\n]*`|(?<!\S)--?\w[\w-]*")
_SUPPOSES = _pattern(rf"(?:\b{any_of(vocabulary.SUPPOSES)}|\A\W*should)\b[^,.;:]*\Z")
_SPEAKS = _pattern(rf"{_USER}(?:{_SOME}(?:{_SAYS}|{_GIVES}|{_ORDERS}))?\W*\Z|{_LEAVE}\W*\Z")
_SPOKE = _pattern(rf"\W*{_USER} {_SAYS}")
_CODE = re.compile(r"`[^`\n]*`")
_COPIES = re.compile(r"(<said\b[^>\n]*>)(.*?)(</said>|\Z)", re.DOTALL)
_FRAMES = re.compile(r"<(?=/?(?:said|recorded)\b)")
_ENTRY = re.compile(r"\s*(?:[-*•+]|\d+[.)])\s+(?:\[[ x]\]\s+)?")
_LEADS = re.compile(r":[\s*_]*\Z")
_LONGEST = 600
"""Characters of a sentence that are looked at: what is longer is a list of something, or was made to be slow."""


class Marked(Struct, frozen=True):
    """The sections of a draft with their marks, and the sentences that got one."""

    sections: Mapping[int, str]
    sentences: tuple[str, ...] = ()


def mark(sections: Mapping[int, str], evidence: Evidence) -> Marked:
    """Cite the record behind each quotation that is in one, and mark the claims that rest on nothing."""
    marker = _Marker(evidence, in_english("\n".join(sections.values())))
    return Marked({number: marker.section(text) for number, text in sections.items()}, tuple(marker.found))


class _Marker:
    def __init__(self, evidence: Evidence, english: bool) -> None:
        self._evidence = evidence
        self._english = english
        self.found: list[str] = []

    def section(self, text: str) -> str:
        lines, in_code, lead = [], False, ""
        for line in _FRAMES.sub("&lt;", _COPIES.sub(self._copied, text)).split("\n"):
            fence = line.lstrip().startswith(("```", "~~~"))
            in_code ^= fence
            if in_code or fence or not line.strip():
                lines.append(line)
                continue
            lead = lead if _ENTRY.match(line) else ""
            lines.append(self._line(line, lead))
            lead = line if _LEADS.search(line) else lead
        return "\n".join(lines)

    def _copied(self, copy: re.Match[str]) -> str:
        """What poses as a copy of the user's words: only code makes those."""
        said = copy[2].rstrip()
        if not said or self._evidence.said_by_user(said):
            return copy[0]
        self.found.append(said.strip())
        return f"{copy[1]}{said} {MARK}{copy[2][len(said) :]}{copy[3]}"

    def _line(self, line: str, lead: str) -> str:
        """A line with its marks; ``lead`` is the line that leads up to the list it is an entry of."""
        said = before = ""
        for sentence in quotations.sentences(line):
            end = sentence.rstrip()
            said += quotations.cite(end, self._evidence.record_of)
            if MARK not in sentence and not self._rests(sentence, before, lead):
                self.found.append(sentence.strip(" -*•\t"))
                said += f" {MARK}"
            said += sentence[len(end) :]
            before = (before + sentence)[-_LONGEST:]
        return said

    def _rests(self, sentence: str, before: str, lead: str) -> bool:
        quotes = [quote.words for quote in quotations.quotations(sentence)]
        if any(len(quote.split()) > 1 and self._evidence.said_by_user(quote) for quote in quotes):
            return True
        if not self._english and not in_english(sentence):
            return all(len(quote) < quotations.LEAST or self._evidence.record_of(quote) for quote in quotes)
        claim = (
            (claimed(sentence, before) or _listed(sentence, lead)) if self._evidence.in_english else None
        )
        if claim is None:
            return True
        act, about = claim
        return act is not None and self._evidence.supports(act, about)


def claimed(sentence: str, before: str = "") -> tuple[Act | None, str] | None:
    """The act a sentence claims leave for, and the words about it; None if it claims none.

    ``before`` is what precedes it on its line, which "the user approved it" is about.
    """
    sentence = sentence[:_LONGEST]
    said = _CODE.sub(_command, substituted(sentence, partial(_speech, sentence)))
    if _denied(sentence):
        return None
    if _BLANKET.search(said):
        return None, said
    for authority in _ASKS.finditer(said):
        zone = re.split(r"[.;](?:\s|$)", said[authority.end() :])[0]
        if not _SUPPOSES.search(said[: authority.start()]) and (act := asked_for(zone)):
            return act, zone
    for pattern, about in ((_GRANTED, said), (_IT, f"{before} {said}")):
        given = pattern.search(said)
        if given and not _SUPPOSES.search(said[: given.start()]) and (act := named(about)):
            return act, about
    return None


def _listed(entry: str, lead: str) -> tuple[Act, str] | None:
    """The act an entry names, in a list that is led up to by "the user agreed to:"."""
    entry, lead = entry[:_LONGEST], lead[-_LONGEST:]
    authority = _ASKS.search(lead) or _GRANTED.search(lead)
    if not authority or len(lead[authority.end() :].split()) > 3 or _denied(lead) or _denied(entry):
        return None
    act = named(_ENTRY.sub("", entry))
    return (act, entry) if act else None


def _denied(sentence: str) -> bool:
    outside = _DENIES_NOTHING.sub(" ", substituted(sentence, lambda _: " "))
    return outside.rstrip(" *_").endswith("?") or bool(_DENIES.search(outside))


def _speech(sentence: str, quote: Quotation) -> str:
    """A quotation is part of what is claimed only where the user is said to have said it."""
    users = _SPEAKS.search(sentence[: quote.start]) or _SPOKE.match(sentence[quote.end :])
    return f"user: {quote.words}" if users else " QUOTE "


def _command(code: re.Match[str]) -> str:
    found = COMMAND.search(code[0])
    return f" {found[0]} " if found else " CODE "
