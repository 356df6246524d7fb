"""Acts that are hard to take back: the one English list, and how such an act is recognised in a text.

"Delete the table" is one, "remove the semicolon" is not, and a merge sort is neither: some verbs count only for what
lies outside the source code, some only for what protects it, and a noun counts only at the end of its phrase.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from msgspec import Struct

# One act per line: when it counts (always, when done to a thing, when done to a guard), its verbs | its nouns.
_ACTS: Final = """
always  delete erase wipe purge destroy truncate shred decommission  | deletion removal erasure destruction
thing   remove drop clear clean empty prune discard abandon flush get-rid-of throw-away scrap archive | cleanup
always  push force-push                                              | push force-push
thing   merge squash rebase amend rewrite                            | merge
always  deploy redeploy ship publish launch release open-source roll-out go-live | deployment rollout release launch
always  migrate                                                      | migration
thing   revert reset restore roll-back withdraw downgrade            | rollback
always  overwrite anonymise anonymize bulk-update leak               |
always  email mail tweet reply announce                              |
thing   send post forward upload export sync share paste hand        |
always  pay buy purchase refund wire spend sell donate charge transfer | purchase payment payout refund transfer charges
thing   order book submit file provision subscribe                   | submission
always  cancel terminate unsubscribe ban suspend                     | cancellation termination
thing   close lock                                                   | closure
thing   stop kill abort shut-down take-down take-offline restart reboot bounce | shutdown restart reboot
always  revoke rotate invalidate deactivate                          | revocation rotation
thing   change replace set point switch move upgrade double raise    | upgrade
thing   grant give elevate expose reveal print commit make open      | exposure
guard   disable turn-off switch-off bypass skip ignore override silence mute waive dismiss lift remove drop |
thing   accept sign approve self-approve answer vote                 | acceptance
thing   install uninstall execute run pipe format reformat           |
"""
_THINGS: Final = """
file folder directory tree data database db schema table row record branch tag main master develop trunk upstream pr
request commit history stash change edit work repo repository bucket backup snapshot volume disk drive partition server
cluster instance node machine host laptop environment region site shop production account user customer subscriber
member employee role rights access permission admin owner superuser root password key token secret credential
certificate dns mx domain traffic queue job cache redis log index mail message newsletter comment post issue ticket
thread discussion forum channel slack twitter list page press reminder invoice order form application contract terms
agreement licence license renewal proposal claim complaint payment price balance purchase flight plan tier capacity
process session worker import export run migration script binary untrusted dump report module kernel internet public
vendor contractor auditor everything today sudo bash store rule prompt uploads duplicates port firewall archive
"""
_GUARDS: Final = """
authentication authorisation login tls ssl certificate verification encryption firewall protection limit limiter 2fa
mfa two-factor monitoring alert alarm pager rotation backup check prompt confirmation review test scan scanner ci
sandbox hook validation restriction approval
"""
COMMAND: Final = re.compile(
    r"\brm -\w*[rf]\w*|\bgit (?:push\b.*(?:--force|-f\b)|reset --hard|clean -\w*f|checkout \.)|\bfilter-branch|--force\b"
    r"|--no-verify\b|\b(?:drop|truncate) (?:table|database|schema)\b|\bterraform destroy\b|\bkubectl delete\b|\bdd if=|\bsudo\b"
    r"|\bchmod (?:-R )?777\b|\b(?:curl|wget)\b.*\|\s*(?:ba|z)?sh\b|\bmkfs",
    re.IGNORECASE,
)
"""Command lines that do such a thing, whatever is said about them."""
_IRREGULAR: Final = {
    **{"send": "sent", "pay": "paid", "buy": "bought", "sell": "sold", "shut": "shut", "take": "taken", "give": "given"},
    **{"make": "made", "set": "set", "overwrite": "overwritten", "get": "got", "run": "run", "rewrite": "rewritten"},
    **{"withdraw": "withdrawn", "throw": "thrown", "go": "gone", "spend": "spent", "reset": "reset"},
}
_ONE_WORD: Final = frozenset({"force-push", "open-source", "bulk-update", "self-approve"})
# What may follow the noun that ends a phrase: punctuation, a figure, a participle or one of these, but no other noun.
_PHRASE_ENDS = (
    r"(?=\s*(?:[^\w\s'/-]|\Z)|\s+(?:#?\d|\w+ed\b|\w+ly\b|(?:and|or|but|of|on|in|from|to|for|with|that|which|who|at|by|before"
    r"|after|older|over|as|into|under|without|outside|against|right|now|today|tonight|tomorrow|is|are|was|were|be|can|may|could"
    r"|should|will|has|have|had|so|again|once|until|when|whenever|while|via|about|anyway|off|down|out|public|offline|straight"
    r"|myself|made|taken|withdrawn|rewritten|this|the|they|we|i|it|if|because|not|next|last|through|during)\b))"
)
_FILLERS = (
    r"(?:(?:me|us|we|i|you|it|that|the|an?|any|all|this|these|to|for|on|of|with|over|so|yes|please|go|ahead|and|just|then|now"
    r"|also|assistant|agent|is|was|fine|right|okay|ok|have|using|use|run|running|do|\w+ly)\b[\s,:]*)*?"
)
_TO_A_VERB = "(?:" + "|".join(rf"(?<=\b{word} )" for word in "to we i you and just please with".split()) + ")"
_VERB_ENDS = r"(?=\s+(?:the|an?|it|them|this|that|all|every|to|with|anyway|now|today|everything|and|or|as)\b|\s*[.,;:]|\s*\Z)"
_RUNS = re.compile(rf"[\s:]*{_FILLERS}(?:(?:commit|push|pipe)\w*\s.*?)?(?:{COMMAND.pattern})", re.IGNORECASE)


class Act(Struct, frozen=True):
    """One act, as patterns."""

    word: re.Pattern[str]
    stems: frozenset[str]
    asked: re.Pattern[str]
    """How it is named behind "the user asked"."""
    named: re.Pattern[str]
    """How it is named in a sentence of its own."""
    counts: re.Pattern[str] | None
    """What it must be done to; None: it always counts."""


def asked_for(text: str) -> Act | None:
    """The act this text is about, which follows a verb of asking or allowing; one that it only mentions is none."""
    bare = text.lstrip(" *_,(")
    found = (act for act in acts() if act.asked.match(bare) and (act.counts is None or act.counts.search(bare)))
    return next(found, acts()[0] if _RUNS.match(bare) else None)


def named(text: str) -> Act | None:
    """An act that this text says is done or to be done."""
    found = (act for act in acts() if act.named.search(text) and (act.counts is None or act.counts.search(text)))
    return next(found, acts()[0] if COMMAND.search(text) else None)


@cache
def acts() -> tuple[Act, ...]:
    """The list, read."""
    objects = {"always": None, "thing": _ending(_THINGS, r"|[~.\w-]*/[\w./*-]+"), "guard": _ending(_GUARDS)}
    found = []
    for line in _ACTS.strip().splitlines():
        verbs, _, nouns = line.partition("|")
        counts, *names = verbs.split()
        stems = frozenset(word[:5] for name in (*names, *nouns.split()) for word in name.split("-"))
        forms = ("|".join(one) for one in zip(*map(_forms, names), strict=True))
        word, asked, said = (re.compile(one, re.IGNORECASE) for one in _patterns(*forms, "|".join(nouns.split())))
        found.append(Act(word, stems, asked, said, objects[counts]))
    return tuple(found)


def _patterns(base: str, ing: str, done: str, nouns: str) -> tuple[str, str, str]:
    forms = (base, ing, done, rf"(?:{nouns or '(?!)'})s?")
    base, ing, done, noun = (rf"(?<![\w/.-])(?:{form})(?![\w/-]|\.\w)" for form in forms)
    verbs, no = r"to|that|which|is|are|was|were|be|before", r"(?<!\bthe )(?<!\ba )(?<!\ban )"
    head = rf"(?:(?!(?:{verbs}|by|for|of|in)\b)[\w'-]+\s+){{0,3}}?{noun}{_PHRASE_ENDS}"
    left = rf"(?:(?!(?:{verbs})\b)[\w'/.-]+\s+){{1,8}}?{no}(?!{base}){done}{_PHRASE_ENDS}"
    may = rf"\b(?:can|may|could|should|must|will|shall|we|i)\s+(?:\w+ly\s+)?{base}"
    too = rf"(?:\band|\bthen|,)\s+(?:to |then |just )?(?:{base}|{ing}){_VERB_ENDS}"
    asked = (
        rf"{_FILLERS}(?:{_TO_A_VERB}{base}|(?<!\ba )(?<!\ban ){ing}|{head}|{left})|:[:\s*]*{_FILLERS}(?:{base}|{head})"
        rf"|(?:(?!\bto (?!be\b)).)*?(?:\b(?:be|being|gets?)\s+(?:\w+ly\s+)?(?:\w+ and )?{done}|{may})|.*?{too}"
    )
    named = (
        rf"(?:\A|[.?!:]\s+)\W*{_FILLERS}(?:{ing}|{base}|{head})|{may}|{too}|\b(?:to|for|before|of) (?:\w+ly )?(?:{base}|{ing})"
        rf"|\b(?:for|of|on) {head}|\b(?:be|been|was|were|is|are|gets?)\s+(?:\w+ly\s+)?{done}"
    )
    return rf"{base}|{ing}|{done}|{noun}", asked, named


def _ending(words: str, more: str = "") -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:(?:{'|'.join(words.split())})(?:e?s)?{more}){_PHRASE_ENDS}", re.IGNORECASE)


def _forms(verb: str) -> tuple[str, str, str]:
    """To do, doing and done; something may stand before the particle of a verb that has one."""
    first, *particles = [verb] if verb in _ONE_WORD else verb.split("-")
    rest = "".join(rf"(?:\s+[\w-]+){{0,4}}?[\s-]{particle}" for particle in particles)
    stem, last = first.rstrip("e"), "" if first[-1] in "eyw" else f"{first[-1]}?"
    done = _IRREGULAR.get(first, f"{stem[:-1]}ied" if re.search("[^aeiou]y$", first) else f"{stem}{last}ed")
    return first + rest, f"{stem}{last}ing{rest}", done + rest
