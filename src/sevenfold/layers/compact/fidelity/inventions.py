"""Words put into the user's mouth, and consent nobody gave.

A summary that says "the user asked for X", or that X is "as agreed", is believed, and acted on. So what it quotes as
the user's, and what it says anybody wants, allows or has settled, is held against everything that stands on the user's
side of the records. The check is conservative: a quotation may be shortened or reworded, and a report may use other
words, as long as there is something it can rest on. What a program copied from the record, in frames that say so, may
be anybody's words, as long as a record has them to the letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal

from msgspec.structs import replace

from sevenfold.layers.compact.fidelity.reader import Told, account, texts
from sevenfold.layers.compact.fidelity.requests import answers
from sevenfold.layers.compact.fidelity.sentences import (
    Vocabulary,
    folded,
    sentences,
    share,
    telling,
)
from sevenfold.record.layout import Item

Manner = Literal["copied", "quoted", "reported", "said"]
"""How a statement is made: in a copied list, between quotation marks, in other words, as a copy of a message."""

_CLAIM = re.compile(
    r"\b(?:users?(?:'s)?(?!-)|they|client|customer|owner|team|maintainer)\b[^.\n]{0,40}?\b(?:ask(?:s|ed)|sa(?:id|ys)"
    r"|want(?:s|ed)?|request(?:s|ed)?|told|insist(?:s|ed)|approve[sd]|confirm(?:s|ed)|agree[sd]|prefer(?:s|red)"
    r"|instruct(?:s|ed)|decide[sd]|chose|chooses|consent(?:s|ed)|demand(?:s|ed)|message|feedback|authori[sz]e[sd]"
    r"|allow(?:s|ed)|accept(?:s|ed)|permit(?:s|ted)|gave|(?:is|are|was|were) (?:ok|okay|fine|happy|comfortable))\b"
    r"|\buser\W{0,4}:",
    re.I,
)
_SANCTION = re.compile(
    r"\b(?:as|per|with|under|following|after|given|by|on)\b[^.,;\n]{0,30}\b(?:instructed|instructions?|requested|request"
    r"|agreed|agreement|approved|approval|consent|permission|authori[sz]ation|directed|ordered|told|decided|arranged"
    r"|go-ahead|sign-off|clearance|wishe[sd]|discussed)\b"
    r"|(?<!\byou )\b(?:was|were|been|is) (?:\w+ly )?(?:agreed|approved|authori[sz]ed|requested|instructed|asked"
    r"|told|decided|permitted|sanctioned|cleared|signed off)\b"
    r"|\b(?:go-ahead|green light|sign-off|approval|consent|permission) (?:\w+ )?(?:was|is|has|had|were)\b"
    r"|\b(?:previously|already|explicitly|expressly) (?:agreed|approved|requested|authori[sz]ed|instructed|decided)\b",
    re.I,
)
_SANCTION_ELSEWHERE = re.compile(
    r"zustimmung|genehmig|vereinbart|einverstand|erlaub|freigabe|angewiesen|auf wunsch|\b(?:be)?nutzer"
    r"|autoris|approuv|convenu|feu vert|à la demande|utilisateur|acord|autoriz|aprob|aprov|solicit|usuario|usuário"
    r"|pidió|autorizz|concordat|richiest|utente|akkoord|toestemming|gebruiker|одобр|соглас|разреш|просил|пользовател|попрос"
    r"|承認|同意|許可|了承|指示|依頼|要望|ユーザー|批准|授权|允许|要求|用户|승인|동의|허락|요청|사용자",
    re.I,
)
_QUOTED = re.compile(r"[\"“]([^\"”\n]{2,2000})(?:[\"”]|\Z)")
"""Also one that was cut off before its end."""
_NOTHING_SAID = "“”"
_GAP = re.compile(r"\.{3}|…|\[[^\]]*\]")
_JOINTS = re.compile("[…⏎“”→]")
"""Where a copy leaves something out, joins lines, or begins."""
_USERS_WORDS = re.compile(r"^- [^“]{0,20}\buser[^“]{0,20}“(.*)”")
_REMARK = re.compile(r" \[[^\[\]\n]*\]")
"""Where something was found, or that it was not: set behind a quotation by a program."""
_CITED = re.compile(r"(?: \[[^\[\]]+\])+$")
_SAID = re.compile(r'^<said record="[^"\n]*" lines="(\d+)"[^>\n]*>$')
_TYPED = re.compile(r"\A(?:/[\w:-]+|!)\s*")
"""The name of a command, which the record keeps apart from what was typed behind it."""
_LEFT_OUT = re.compile(r"^\[\d+ characters left out here; [^\]\n]*\]$", re.M)
_FRAME, _FRAME_ENDS = re.compile(r'^<recorded kind="[\w-]+">$'), "</recorded>"
_LIST_OF_MESSAGES = re.compile(r"^[#*\s\d.]*all (?:the )?user'?s? messages", re.I)
_HEADING = re.compile(r"^(?:#{1,4} |\**\d{1,2}\.\s+\**[A-Z])")
_SUPPOSED = re.compile(r"\b(?:unless|if|whether|until|when|not|hasn't|didn't|n't) ", re.I)
REWORDED = 0.6
"""The part of a quotation's telling words that one passage must hold for the quotation to be a rewording of it."""
ASKED, TOGETHER, PROPOSED = 0.34, 0.5, 0.5
"""The part of a report's telling words that must be in one passage of the user, in all the user typed, or in one
passage of the model, for the report to have something to rest on."""
PASSAGE = 800
"""Characters of a passage at most."""
FEWEST = 3
"""Telling words below which a report says too little to be held against anything."""


def invented(context: Sequence[str], items: Iterable[Item]) -> list[str]:
    """Statements about what the user said or wants, or somebody settled, that no record supports.

    ``context`` are the texts a compaction put there; ``items`` all the records they may rest on.
    """
    records = _Records(items)
    found = (said for text in context for said in _from(text) if not records.support(*said))
    return list(dict.fromkeys(said for said, _ in found))


def _from(text: str) -> Iterator[tuple[str, Manner]]:
    """What a text says of the user, and in which manner."""
    listing = framed = False
    lines = text.splitlines()
    place = 0
    while place < len(lines):
        line = lines[place].strip()
        place += 1
        if copy := _SAID.match(line):
            end = place + int(copy[1])
            yield "\n".join(lines[place:end]), "said"
            place = end
        elif _FRAME.match(line) or line == _FRAME_ENDS:
            framed = line != _FRAME_ENDS
        else:
            if _HEADING.match(line):
                listing = bool(_LIST_OF_MESSAGES.match(line))
            yield from _framed(line) if framed else _prose(line, listing)


def _framed(line: str) -> Iterator[tuple[str, Manner]]:
    """A line of a list a program copied: whatever it claims, a record must have said, and the user's words the user."""
    if users := _USERS_WORDS.match(line):
        yield users[1], "quoted"
        return
    for part in _JOINTS.split(_CITED.sub("", line)):
        if _claims(part):
            yield part.strip(), "copied"


def _prose(line: str, listing: bool) -> Iterator[tuple[str, Manner]]:
    line = _REMARK.sub("", line)
    outside = _QUOTED.sub(_NOTHING_SAID, line)
    if listing or _CLAIM.search(line):
        # Where nothing is said of the user around it, it need only have been said by somebody.
        manner: Manner = "quoted" if listing or _CLAIM.search(outside) else "copied"
        yield from ((quote, manner) for quote in _QUOTED.findall(line))
    for sentence in sentences(outside):
        open_ended = sentence.endswith(":") or _NOTHING_SAID in sentence or _SUPPOSED.search(sentence)
        if not open_ended and _claims(sentence):
            yield sentence, "reported"


def _claims(sentence: str) -> bool:
    return any(sign.search(sentence) for sign in (_CLAIM, _SANCTION, _SANCTION_ELSEWHERE))


class _Records:
    """What a statement about the user can rest on."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = list(items)
        self._account = account(self._items)

    @cached_property
    def _users(self) -> list[Told]:
        """The user's words, and the summaries that hand them on; what else a program put there is not."""
        told = self._account
        summaries = (one for one in told.beside if one.known_as == "summary")
        return [*told.user, *told.refusals, *answers(told), *summaries]

    @cached_property
    def _folded(self) -> str:
        return "\n".join(folded(one.text) for one in self._users)

    @cached_property
    def _recorded(self) -> str:
        """Everything in the records, whoever said it and whether or not it is still shown."""
        whole = (replace(item, shown=item.said.blocks) for item in self._items)
        return "\n".join(map(folded, texts(whole)))

    @cached_property
    def _asked(self) -> list[frozenset[str]]:
        """The words of each passage the user wrote, or an earlier summary holds…"""
        words = Vocabulary()
        return [telling(part, words) for one in self._users for part in _passages(one.text)]

    @cached_property
    def _typed(self) -> frozenset[str]:
        """…of all that the user typed, pasted matter aside…"""
        short = (telling(words.text) for words in self._account.user if len(words.text) <= PASSAGE)
        return frozenset[str]().union(*short)

    @cached_property
    def _proposed(self) -> list[frozenset[str]]:
        """…and on the model's: a user who agrees to something need not have said it."""
        words = Vocabulary()
        return [telling(part, words) for one in self._account.model for part in _passages(one.text)]

    def support(self, statement: str, manner: Manner) -> bool:
        """Is there a record it can rest on?"""
        match manner:
            case "copied":
                return self._copied(statement)
            case "said":
                parts = _LEFT_OUT.split(_TYPED.sub("", statement))
                return all(folded(part) in self._folded for part in parts)
            case "quoted":
                return self._said(statement)
            case "reported":
                return self._heard(statement)

    def _copied(self, words: str) -> bool:
        return all(self._stands(part) for part in _JOINTS.split(words) if part.strip())

    def _stands(self, words: str) -> bool:
        """Is it in a record, with or without a label before it?"""
        _, _, labelled = words.partition(": ")
        return any(folded(part) in self._recorded for part in (words, labelled) if part)

    def _said(self, quote: str) -> bool:
        parts = [part for part in (folded(part).strip(" .,;:!?'") for part in _GAP.split(quote)) if part]
        if all(part in self._folded for part in parts):
            return True
        words = telling(quote)
        return len(words) < 2 or any(share(words, given) >= REWORDED for given in self._asked)

    def _heard(self, report: str) -> bool:
        words = telling(_CLAIM.sub(" ", report))
        if len(words) < FEWEST or any(share(words, given) >= ASKED for given in self._asked):
            return True
        return share(words, self._typed) >= TOGETHER or any(
            share(words, given) >= PROPOSED for given in self._proposed
        )


def _passages(text: str) -> Iterator[str]:
    """The text in overlapping parts: in a long enough one any words can be found."""
    for start in range(0, max(1, len(text) - PASSAGE // 2), PASSAGE // 2):
        yield text[start : start + PASSAGE]
