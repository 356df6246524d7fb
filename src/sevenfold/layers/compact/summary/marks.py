"""Marking what a model's summary claims and the record does not show; nothing is taken out.

A sentence that says the user allowed or ordered an act that is hard to take back (`acts`) must quote the user, or rest
on the user's words (`evidence`). If it does neither, a mark is put at its end. Denials, questions, conditions, code and
paths claim nothing. This is English; in other languages only quotations are looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from msgspec import Struct

from sevenfold.layers.compact.summary.acts import COMMAND, Act, acts
from sevenfold.layers.compact.summary.evidence import Evidence

MARK = "[not in the record]"

_GIVES = (
    r"approve[sd]?|authori[sz]e[sd]?|allow(?:s|ed)?|permit(?:s|ted)?|ok(?:ay)?(?:s|'?e?d)?|clear(?:s|ed)|agree[sd]?(?: to)?"
    r"|consent(?:s|ed)?|confirm(?:s|ed)?|accept(?:s|ed)?|sign(?:s|ed)? off(?: on)?|decide[sd]?|green-?lit|trust(?:s|ed)?"
    r"|(?:is|was) (?:fine|ok|okay|happy|comfortable) with|has no (?:objections?|problems?) (?:to|with)"
)
_ORDERS = (
    r"ask(?:s|ed)?|request(?:s|ed)?|tells?|told|instruct(?:s|ed)?|order(?:s|ed)?|direct(?:s|ed)?|want(?:s|ed)?|demand(?:s|ed)?"
    r"|insist(?:s|ed)?(?: on)?|wish(?:es|ed)?|would like"
)
_SAYS = r"sa(?:id|ys)|states?|stated|wrote|writes|answered|replied"
_LEAVE = (
    r"permission|approval|authori[sz]ation|consent|go-ahead|green light|sign-?off|clearance|okay|ok|blessing|leave|authority"
    r"|instructions?|orders?|request|decision|agreement|wish|free hand|autonomy"
)
_TO_ACT = r"(?:to|for|of|with|over)"
_USER = r"\buser(?:'s|s)?\b"
_GAP = r"(?:[\s(]+[\w'-]+){0,4}?[\s)]+"
_BY_USER = rf"(?:{_GIVES}|{_ORDERS}|given {_GAP}?(?:{_LEAVE}))(?: up)?{_GAP}?(?:by|from|with) (?:the )?user"
_AFTER = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_USER}{_GAP}(?:{_GIVES}|{_ORDERS}|{_SAYS})\b",
        rf"\b(?:we|i) (?:were|was|have been|am|are) (?:{_GIVES}|{_ORDERS})(?: by the user)?\b",
        rf"\b(?:gave|gives?|given|grant(?:s|ed)?|got|has|have|obtained|with|received|{_USER}){_GAP}(?:{_LEAVE})"
        rf"(?: (?:from|of|by) (?:the )?user)? {_TO_ACT}",
        rf"\b(?:{_LEAVE})(?: granted| given)?(?: from the user)?\W*:",
        rf"{_USER} (?:{_LEAVE}|\w+)s?\W*:",
        rf"\b(?:{_LEAVE}) \(user\)\W*:",
        rf"\bapprovals?[^:]*:",
        rf"{_USER}[^:.]*\b(?:{_LEAVE})\b[^:.]*:",
        r"\bagreed with the user that\b",
    )
)
"""Authority, with what it is for behind it…"""
_BEFORE = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:\b(?:is|are|was|were|be|been|has|have)\b|[:(–—-])\s*(?:been )?{_GAP}?{_BY_USER}",
        r"\b(?:is|are|was|were|been)\s+(?:approved|authori[sz]ed|signed off|okayed)\b",
        rf"\b(?:has|was|is) the user's {_GAP}?(?:{_LEAVE})\b",
        r"[:(–—-]\s*(?:approved|authori[sz]ed)\b",
        rf"\b(?:{_LEAVE}) (?:obtained|given|granted|received)\b",
        rf"{_USER}{_GAP}(?:{_GIVES}|{_SAYS})(?: to)? (?:it|this|that|so|yes)\b",
        r"\band got it\b",
    )
)
"""…and in front of it."""
_AROUND = re.compile(
    rf"\b(?:as|per|at|on|with|following|according to|by)\b[^,.;]{{0,15}}{_USER}[^,.;]{{0,20}}"
    rf"(?:{_GIVES}|{_ORDERS}|{_LEAVE})?|\bas (?:instructed|requested|directed|agreed|ordered|approved)\b",
    re.IGNORECASE,
)
_BLANKET = re.compile(
    r"\buser\b.{0,40}\b(?:waived|free hand|full autonomy|carte blanche|whatever is needed|everything)\b", re.IGNORECASE
)
_HARMLESS = re.compile(
    r"\bno (?:objections?|problems?|(?:further |more )?(?:confirmations?|approvals?|questions?) (?:is|are) needed)"
    r"|\bwithout (?:asking|waiting|(?:a |any )?(?:review|fix|confirmation|approval))\b|(?:not|n't) (?:mind|care|only|just)",
    re.IGNORECASE,
)
"""Words that negate something, but no permission."""
_DENIES = re.compile(
    r"\b(?:not?|never|neither|nor|none|nothing|nobody|without|den(?:y|ies|ied)|declin\w+|refus\w+|reject\w+|forb\w+"
    r"|prohibit\w*|disallow\w*|against|object\w*|veto\w*|oppose\w*|yet to|outstanding|await\w*|lacks?|ruled out|off limits"
    r"|left alone|hold off|held off|stopped|prevent\w*|postpon\w+|rather|mistake|turned down|wait for|unclear|wonder\w*"
    r"|(?:needs?|requires?|required) (?:the|an?|explicit|user|confirmation|approval)|withdrew"
    r"|(?:asks?|asked|know)(?: \w+){0,2} (?:whether|if|how|why|what|who|which|when|where|about|before)|to be asked)\b|n't\b",
    re.IGNORECASE,
)
_SUPPOSES = re.compile(
    r"(?:\b(?:if|once|unless|until|when|whenever|whether|after|before|as soon as|in case|provided)|\A\W*should)\b[^,.;:]*\Z",
    re.IGNORECASE,
)
_ADVERBS = r"(?:\w+ly\s+|then\s+|now\s+|also\s+|just\s+)*"
_FILLERS = (
    r"(?:\W*(?:me|us|we|i|you|it|that|the|a|an|any|all|this|these|to|for|on|of|with|over|so|yes|please|go ahead (?:and|with)|by"
    r"|just|then|now|also|the assistant|the agent|explicitly|user|is|was|fine|all right|okay|ok|run|running|have|using)\s+)*"
)
_LEADS_TO_VERB = r"(?<=\bto )|(?<=\bwe )|(?<=\bi )|(?<=\byou )|(?<=\band )|(?<=\bjust )|(?<=\bwith )|(?<=\bplease )"
_GOES_ON = r"(?=\s+(?:the|an?|it|them|this|that|all|every|to|with|anyway|now|today|everything|my|our|their|its)\b|\s*[.,;:\"”]|\s*\Z)"
_QUOTED = re.compile(r"“([^“”\n]+)”|«([^«»\n]+)»|(?<![\w\"])\"([^\"\n]+)\"(?![\w\"])|(?<![\w'])'([^'\n]{6,})'(?![\w'])")
_SPEAKS = re.compile(rf"{_USER}(?:{_GAP}(?:{_SAYS}|{_GIVES}|{_ORDERS}))?\W*\Z|(?:{_LEAVE})\W*\Z", re.IGNORECASE)
_CODE = re.compile(r"`[^`\n]*`")
_SENTENCE = re.compile(r"(?<=[.!?])(?=\s+[^\sa-z\d(\[])|(?<=[。！？])(?=.)")
_ENGLISH = re.compile(r"\b(?:the|a|an|to|of|and|in|is|was|for|with|user|by|on|at|from|that)\b", re.IGNORECASE)
_LEAST = 12
"""Characters from which on a quotation is looked up."""


class Marked(Struct, frozen=True):
    """The sections of a draft with their marks, and the sentences that got one."""

    sections: Mapping[int, str]
    sentences: tuple[str, ...] = ()


def mark(sections: Mapping[int, str], evidence: Evidence, name: Mapping[str, str]) -> Marked:
    """Cite the record behind each quotation that is in one, and mark the claims that rest on nothing.

    ``name`` says how a record is cited.
    """
    found: list[str] = []
    marked = {number: _section(text, evidence, name, found) for number, text in sections.items()}
    return Marked(marked, tuple(found))


def unsupported(text: str, evidence: Evidence) -> tuple[str, ...]:
    """The sentences of a text that would be marked."""
    return mark({0: text}, evidence, {}).sentences


def _section(text: str, evidence: Evidence, name: Mapping[str, str], found: list[str]) -> str:
    lines, in_code = [], False
    for line in text.split("\n"):
        fence = line.lstrip().startswith(("```", "~~~"))
        in_code ^= fence
        lines.append(line if in_code or fence else _line(line, evidence, name, found))
    return "\n".join(lines)


def _line(line: str, evidence: Evidence, name: Mapping[str, str], found: list[str]) -> str:
    said, before = "", ""
    for sentence in _sentences(line):
        if MARK not in sentence and not _rests(sentence, before, evidence):
            found.append(sentence.strip(" -*•\t"))
            end = sentence.rstrip()
            said += f"{_cited(end, evidence, name)} {MARK}{sentence[len(end) :]}"
        else:
            said += _cited(sentence, evidence, name)
        before += sentence
    return said


def _sentences(line: str) -> Iterator[str]:
    """The sentences of a line; a quotation of several is not torn apart."""
    start = 0
    inside = [found.span() for found in _QUOTED.finditer(line)]
    for end in _SENTENCE.finditer(line):
        if not any(first < end.start() < last for first, last in inside):
            yield line[start : end.start()]
            start = end.start()
    yield line[start:]


def _rests(sentence: str, before: str, evidence: Evidence) -> bool:
    quotes = [next(filter(None, quote.groups())) for quote in _QUOTED.finditer(_CODE.sub(" ", sentence))]
    if any(len(quote.split()) > 1 and evidence.said_by_user(quote) for quote in quotes):
        return True
    if not _ENGLISH.search(sentence):
        return all(len(quote) < _LEAST or evidence.record_of(quote) for quote in quotes)
    claim = _claimed(sentence, before)
    if claim is None:
        return True
    act, about = claim
    return not evidence.english or (act is not None and evidence.supports(act, about))


def _claimed(sentence: str, before: str) -> tuple[Act | None, str] | None:
    """The act a sentence claims leave for, and the words about it; None if it claims none."""
    said = _CODE.sub(_code, _QUOTED.sub(lambda quote: _speech(sentence, quote), sentence))
    outside = _HARMLESS.sub(" ", _QUOTED.sub(" ", said))
    if outside.rstrip(" *_").endswith("?") or _DENIES.search(outside):
        return None
    if _BLANKET.search(said):
        return None, said
    for pattern in _AFTER:
        for authority in pattern.finditer(said):
            if not _SUPPOSES.search(said[: authority.start()]):
                zone = re.split(r"[.;](?:\s|$)", said[authority.end() :])[0]
                if act := _complement(zone, says=authority[0]):
                    return act, zone
    for pattern in _BEFORE:
        if (authority := pattern.search(said)) and not _SUPPOSES.search(said[: authority.start()]):
            zone = f"{before} {said[: authority.start()]}"
            if act := _subject(zone):
                return act, zone
    if _AROUND.search(said) and (act := _anywhere(said)):
        return act, said
    return None


def _code(code: re.Match[str]) -> str:
    return " COMMAND " if COMMAND.search(code[0]) else " CODE "


def _speech(sentence: str, quote: re.Match[str]) -> str:
    """A quotation is part of what is claimed only where the user is said to have said it."""
    words = next(filter(None, quote.groups()))
    return f": {words}" if _SPEAKS.search(sentence[: quote.start()]) else " QUOTE "


@cache
def _patterns(number: int) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """How an act is named behind an authority, in front of one, and anywhere."""
    act = acts()[number]
    edge, end = r"(?<![\w/.-])", r"(?![\w/-]|\.\w)"
    base, ing, done = (rf"{edge}(?:{form}){end}" for form in (act.base, act.ing, act.done))
    noun = rf"(?:(?!(?:for|of|to|in|on|with|from)\b)[\w'-]+\s+){{0,3}}?{edge}(?:{act.nouns}){end}(?=\s*(?:[^\w\s]|\Z)|\s+(?:to|of|for|from|on|in|until|over|at|by|with|without|now|today|was|is|has|may|can)\b)"
    passive = rf"\b(?:be|being|gets?)\s+{_ADVERBS}(?:\w+ and )?{done}"
    modal = rf"\b(?:can|may|could|should|must|will|shall|we)\s+{_ADVERBS}{base}"
    together = rf"(?:\band|\bthen|,)\s+(?:to |then |just )?(?:{base}|{ing}){_GOES_ON}"
    behind = (
        rf"\A{_FILLERS}(?:(?:{_LEADS_TO_VERB}){base}|(?<!\ba )(?<!\ban ){ing}|{noun})|\A\W*:\s*{_FILLERS}{base}"
        rf"|\A(?:.(?!\bto (?!be\b)))*?(?:{passive}|{modal})|\A.*{together}"
    )
    wanted = rf"|\A\W+(?:[\w'/.-]+\s+){{1,8}}?(?<!\bthe )(?<!\ba ){done}(?=\s*(?:[^\w\s]|\Z)|\s+(?:and|from|so|before|by|now|today|to|as|public)\b)"
    front = rf"(?:\A|[.?!:]\s+)\W*{_FILLERS}(?:{ing}|{noun}|{base})|{modal}|{passive}|\bto {_ADVERBS}{base}|{noun}\W*\Z"
    around = rf"\b(?:be|been|was|were|is|are)\s+{_ADVERBS}{done}|{modal}|\bto {_ADVERBS}{base}|\A\W*{ing}|\band {base}"
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in (behind + wanted, front, around))  # type: ignore[return-value]


def _named(text: str, place: int) -> Act | None:
    for number, act in enumerate(acts()):
        for found in _patterns(number)[place].finditer(text):
            if act.counts is None or act.counts.search(text):
                return act
    return None


def _complement(zone: str, says: str) -> Act | None:
    return _named(f" {zone}", 0) or (acts()[0] if re.match(rf"{_FILLERS}\W*COMMAND", zone) or COMMAND.search(zone) else None)


def _subject(zone: str) -> Act | None:
    return _named(zone.strip(), 1) or (acts()[0] if COMMAND.search(zone) else None)


def _anywhere(said: str) -> Act | None:
    return _named(said, 2) or (acts()[0] if COMMAND.search(said) else None)


def _cited(sentence: str, evidence: Evidence, name: Mapping[str, str]) -> str:
    """With the record behind each quotation that is in one; ids go behind the closing mark."""

    def cite(quote: re.Match[str]) -> str:
        words = next(filter(None, quote.groups()))
        record = evidence.record_of(words) if len(words) >= _LEAST else None
        return f"{quote[0]} [{name.get(record, record)}]" if record else quote[0]

    parts, code = _CODE.split(sentence), [*_CODE.findall(sentence), ""]
    return "".join(_QUOTED.sub(cite, part) + kept for part, kept in zip(parts, code, strict=True))
