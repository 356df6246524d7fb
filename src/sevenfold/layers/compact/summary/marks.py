"""Marking what a model's summary claims and the record does not show; nothing is taken out.

A sentence that says the user allowed or ordered an act that is hard to take back (`acts`) must quote the user, or rest
on the user's words (`evidence`). If it does neither, a mark is put at its end. Denials, questions, conditions, code and
paths claim nothing. All of this is English; in other languages only quotations are looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from sevenfold.layers.compact.summary.acts import COMMAND, Act, asked_for, named
from sevenfold.layers.compact.summary.evidence import Evidence, in_english

MARK = "[not in the record]"

# -- who allows and who orders -----------------------------------------------------------------

_GIVES = (
    r"(?:approve[sd]?|authori[sz]e[sd]?|allow(?:s|ed)?|permit(?:s|ted)?|ok(?:ay)?(?:s|'?e?d)?|clear(?:s|ed)|agree[sd]?"
    r"|consent(?:s|ed)?|confirm(?:s|ed)?|accept(?:s|ed)?|sign(?:s|ed)? off|decide[sd]?|trust(?:s|ed)?"
    r"|(?:is|was|are|were) (?:fine|ok|okay|happy)|has no (?:objections?|problems?))"
)
_ORDERS = (
    r"(?:ask(?:s|ed)?|request(?:s|ed)?|tells?|told|instruct(?:s|ed)?|order(?:s|ed)?|direct(?:s|ed)?|want(?:s|ed)?"
    r"|wish(?:es|ed)?|demand(?:s|ed)?|insist(?:s|ed)?|would like)"
)
_SAYS = r"(?:sa(?:id|ys)|stated|wrote|writes|answered|replied|mentioned|indicated|signal+ed)"
_LEAVE = (
    r"(?:permission|approvals?|authori[sz]ation|consent|go-ahead|green light|sign-?off|clearance|okay|ok|blessing|leave"
    r"|nod|authority|instructions?|orders?|request|decisions?|agreement|consensus|wish|free hand|autonomy|waiver)"
)
_USER = r"\b(?:the )?user(?:'s)?\b"
_SOME = r"(?:[\s(]+[\w'-]+){0,4}?[\s)]+"
_ASKS = re.compile(
    rf"(?:{_USER}|\bthey\b){_SOME}(?:{_GIVES}|{_ORDERS}|{_SAYS})\b|\bagreed with the user\b|{_USER}\W{{0,3}}(?=:)"
    rf"|\b(?:we|i) (?:were|was|have been|am|are) (?:{_GIVES}|{_ORDERS})\b(?: by the user)?",
    re.IGNORECASE,
)
"""Somebody with authority speaks; what follows is what is asked for or allowed."""
_DONE = r"\b(?:is|are|was|were|been)\s+(?:\w+ly\s+|already\s+)?"
_GRANTED = re.compile(
    r"\b(?:ga?ve|gives?|given|granted|got|ha[sv]e?|obtained|with|received|there is|user(?:'s)?|by|per|under|on|at|earlier"
    rf"|following)(?:\s+[\w']+){{0,4}}?\s+{_LEAVE}\b|\b{_LEAVE}(?: so far| granted| given| \(user\))?[\s*]*:"
    rf"|\b{_LEAVE}\b.{{0,40}}?\b(?:obtained|given|granted|received|came|delegated|in place)\b"
    rf"|(?:{_DONE}|[:(–—-]\s*|\A\W*)(?:approved|authori[sz]ed|signed off|okayed|agreed|settled|understood)\b"
    rf"|(?:{_DONE}(?:{_GIVES}|{_ORDERS}|given)\b.{{0,20}}|(?:{_ORDERS}|{_GIVES})\W{{0,3}}(?:by |\()){_USER}"
    rf"|\bwhich{_SOME}user{_SOME}{_ORDERS}\b|\b(?:permitted|allowed)\b[^.]*{_USER}|\baccording to the user\b"
    rf"|(?<!soon )\bas\b(?! soon)[^,.;]{{0,15}}\b(?:{_USER}|instructed|requested|directed|agreed|ordered|approved|discussed)\b"
    r"|\bno (?:further |more )?(?:confirmation|approval) is (?:needed|required)\b",
    re.IGNORECASE,
)
"""Leave is said to have been given, somewhere in the sentence."""
_IT = re.compile(
    rf"{_USER}{_SOME}(?:{_GIVES}|{_SAYS})(?: to| with)? (?:it|this|that|so|yes)(?=\W*(?:\Z|[.,;:)]))|\band got it\b",
    re.IGNORECASE,
)
"""Leave for what was spoken of before."""
_BLANKET = re.compile(
    rf"{_USER}.{{0,40}}\b(?:waived|free hand|full autonomy|carte blanche|whatever is needed|approval for everything)\b",
    re.IGNORECASE,
)
_NO_DENIAL = re.compile(
    r"\bno (?:objections?|problems?|(?:further |more )?(?:confirmations?|approvals?) (?:is|are) (?:needed|required))\b"
    r"|\bwithout (?:asking|waiting|(?:a |any )?(?:review|fix|confirmation|approval))\b|(?:not|n't) (?:mind|care|only|just)"
    r"|`[^`\n]*`|(?<!\S)--?\w[\w-]*",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"\b(?:not?|never|neither|nor|none|nothing|nobody|without (?:the user|user|any|approval|permission|consent)|reject\w+"
    r"|den(?:y|ies|ied)|declin\w+|refus\w+|forb\w+|veto\w*|prohibit\w*|disallow\w*|against|object\w*|oppose\w*|yet to"
    r"|(?:is|are|still) outstanding|await\w*|lacks?|ruled out|off limits|left alone|hold off|held off|stopped|prevent\w*"
    r"|postpon\w+|rather|mistake|turned down|wait for|unclear|clarified|wonder\w*|withdrew|to be asked|(?:get|seek|need) the"
    r" user's|(?:needs?|requires?|required) (?:the|an?|explicit|user|confirmation|approval)|(?:user (?:asks?|asked)|know)"
    r"(?: \w+){0,2} (?:whether|if|how|why|what|who|which|when|where|about|before))\b|n't\b",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"(?:\b(?:if|once|unless|until|when|whenever|whether|after|before|as soon as|in case|provided)|\A\W*should)\b[^,.;:]*\Z",
    re.IGNORECASE,
)

# -- sentences, quotations and code --------------------------------------------------------------

_QUOTED = re.compile(
    r"“([^“”\n]+)”|«([^«»\n]+)»|(?<![\w\"])\"([^\"\n]+)\"(?![\w\"])|(?<![\w'])'([^'\n]{12,})'(?![\w'])"
)
_SPEAKS = re.compile(rf"{_USER}(?:{_SOME}(?:{_SAYS}|{_GIVES}|{_ORDERS}))?\W*\Z|{_LEAVE}\W*\Z", re.IGNORECASE)
_SPOKE = re.compile(rf"\W*{_USER} {_SAYS}", re.IGNORECASE)
_CODE = re.compile(r"`[^`\n]*`")
_SENTENCE = re.compile(r"(?<=[.!?])(?=\s+[^\sa-z\d(\[])|(?<=[。！？])(?=.)")
_ENTRY = re.compile(r"\s*(?:[-*•+]|\d+[.)])\s+(?:\[[ x]\]\s+)?")
_LEADS = re.compile(r":[\s*_]*\Z")
_LEAST = 12
"""Characters from which on a quotation is looked up."""


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
        for line in text.split("\n"):
            fence = line.lstrip().startswith(("```", "~~~"))
            in_code ^= fence
            if in_code or fence or not line.strip():
                lines.append(line)
                continue
            lead = lead if _ENTRY.match(line) else ""
            lines.append(self._line(line, lead))
            lead = line if _LEADS.search(line) else lead
        return "\n".join(lines)

    def _line(self, line: str, lead: str) -> str:
        """A line with its marks; ``lead`` is the line that leads up to the list it is an entry of."""
        said = before = ""
        for sentence in _sentences(line):
            end = sentence.rstrip()
            said += self._cited(end)
            if MARK not in sentence and not self._rests(sentence, before, lead):
                self.found.append(sentence.strip(" -*•\t"))
                said += f" {MARK}"
            said += sentence[len(end) :]
            before += sentence
        return said

    def _cited(self, sentence: str) -> str:
        def cite(quote: re.Match[str]) -> str:
            record = self._evidence.record_of(_inside(quote)) if len(_inside(quote)) >= _LEAST else None
            return f"{quote[0]} [{record}]" if record else quote[0]

        parts, code = _CODE.split(sentence), [*_CODE.findall(sentence), ""]
        return "".join(_QUOTED.sub(cite, part) + kept for part, kept in zip(parts, code, strict=True))

    def _rests(self, sentence: str, before: str, lead: str) -> bool:
        quotes = [_inside(quote) for quote in _QUOTED.finditer(_CODE.sub(" ", sentence))]
        if any(len(quote.split()) > 1 and self._evidence.said_by_user(quote) for quote in quotes):
            return True
        if not self._english and not in_english(sentence):
            return all(len(quote) < _LEAST or self._evidence.record_of(quote) for quote in quotes)
        claim = (claimed(sentence, before) or _listed(sentence, lead)) if self._evidence.in_english else None
        return claim is None or (claim[0] is not None and self._evidence.supports(*claim))


def claimed(sentence: str, before: str = "") -> tuple[Act | None, str] | None:
    """The act a sentence claims leave for, and the words about it; None if it claims none.

    ``before`` is what precedes it on its line, which "the user approved it" is about.
    """
    said = _CODE.sub(_command, _QUOTED.sub(_speech, sentence))
    if _denied(sentence):
        return None
    if _BLANKET.search(said):
        return None, said
    for authority in _ASKS.finditer(said):
        zone = re.split(r"[.;](?:\s|$)", said[authority.end() :])[0]
        if not _SUPPOSES.search(said[: authority.start()]) and (act := asked_for(zone)):
            return act, zone
    for authority, about in ((_GRANTED.search(said), said), (_IT.search(said), f"{before} {said}")):
        if authority and not _SUPPOSES.search(said[: authority.start()]) and (act := named(about)):
            return act, about
    return None


def _listed(entry: str, lead: str) -> tuple[Act, str] | None:
    """The act an entry names, in a list that is led up to by "the user agreed to:"."""
    authority = _ASKS.search(lead) or _GRANTED.search(lead)
    if not authority or len(lead[authority.end() :].split()) > 3 or _denied(lead) or _denied(entry):
        return None
    act = named(_ENTRY.sub("", entry))
    return (act, entry) if act else None


def _denied(sentence: str) -> bool:
    outside = _NO_DENIAL.sub(" ", _QUOTED.sub(" ", sentence))
    return outside.rstrip(" *_").endswith("?") or bool(_DENIES.search(outside))


def _sentences(line: str) -> Iterator[str]:
    """The sentences of a line; a quotation of several is not torn apart."""
    start, quotes = 0, [found.span() for found in _QUOTED.finditer(line)]
    for end in _SENTENCE.finditer(line):
        if not any(first < end.start() < last for first, last in quotes):
            yield line[start : end.start()]
            start = end.start()
    yield line[start:]


def _inside(quote: re.Match[str]) -> str:
    return next(filter(None, quote.groups()))


def _speech(quote: re.Match[str]) -> str:
    """A quotation is part of what is claimed only where the user is said to have said it."""
    before, behind = quote.string[: quote.start()], quote.string[quote.end() :]
    return f"user: {_inside(quote)}" if _SPEAKS.search(before) or _SPOKE.match(behind) else " QUOTE "


def _command(code: re.Match[str]) -> str:
    found = COMMAND.search(code[0])
    return f" {found[0]} " if found else " CODE "
