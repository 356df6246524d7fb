"""Does a sentence speak of what somebody wants, allows or has agreed to, or of what is to be done?

A summary is read by a model that acts on it, so these are the sentences that can do harm. They are known by their
grammar rather than by whom they name: that somebody asked, that leave was given, that it is as arranged, that
something must happen. Whoever is meant, and however it is put, what such a sentence says must have been said. For
other languages there are the stems of their words for all this (`tongues`); a sentence in none of these is known by
having no word in common with the conversation, which is for `verify` to say.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal

from sevenfold.layers.compact.summary.tongues import speaks_of_will

Will = Literal["consent", "wish", "plan"]
"""Leave that was given; something asked for, preferred or decided; something that is to be done."""

_WHO = (
    r"(?:users?|they|client|customer|owner|maintainers?|team|boss|manager|management|stakeholders?|lead|reviewers?"
    r"|human|operator|requester|colleagues?|everyone|everybody|people|you|he|she)"
)
_GIVEN = (
    r"(?:approv(?:al|als|ed|es|e|ing)|consent(?:s|ed|ing)?|assent(?:ed)?|sign(?:ed|s|ing)?[- ]?offs?|go[- ]aheads?"
    r"|green[- ]?li(?:ght|t)\w*|thumbs[- ]up|blessings?|sanctioned|greenlit|okayed|ok'd|waived|agreed|agrees|agreement"
    r"|acquiesced|waivers?|object(?:s|ed)? to"
    r"|gave (?:the )?(?:nod|word|ok|okay|leave)|(?:the|a) nod|ratified|endorsed|no objections?|feel free"
    r"|(?:do|does|did)(?:n't| not) mind|vetted|blessed)"
)
_LEAVE = r"(?:permission|authori[sz]ation|clearance|mandate|confirmation|leave|ok|okay|acceptance|licen[cs]e|consensus)"
_ALLOWED = (
    r"(?:authori[sz]ed|permitted|cleared|accepted|confirmed|allowed|granted|entitled|empowered|trusted)"
)
_ASKED = (
    r"(?:asked|instructed|told|directed|ordered|requested|tasked|commissioned|mandated|urged|advised|encouraged|invited"
    r"|decided|settled|demanded|wanted|desired|preferred|arranged|promised|stipulated|agreed|approved|signed off)"
)
_WISH = (
    r"(?:instruct\w*|request\w*|direct(?:ed|ions?|ives?)|orders?|ordered|ask|asked|told|demand\w*|wish(?:es|ed)?|plan"
    r"|planned|deci(?:ded|sions?)|discuss\w*|settled|arrange\w*|promised|stipulated|mentioned|advi[cs]ed?|desired?"
    r"|wanted|prefer\w*|feedback|brief(?:ed|ing)?|mandate\w*|guidance|conversation|wants?|call|chat|message)"
)
_SAYS = (
    r"(?:ask(?:s|ed)?|sa(?:id|ys|y)|want(?:s|ed)?|request(?:s|ed)?|told|tells?|insist(?:s|ed)?|confirm(?:s|ed)?"
    r"|agree[sd]?|prefer(?:s|red)?|instruct(?:s|ed)?|decide[sd]?|chose|chooses?|demand(?:s|ed)?|need(?:s|ed)?"
    r"|expect(?:s|ed)?|would (?:like|rather|prefer)|clarif(?:y|ies|ied)|emphasi[sz]e[sd]?|state[sd]?"
    r"|specif(?:y|ies|ied)|suggest(?:s|ed)?|correct(?:s|ed)|reject(?:s|ed)?|point(?:s|ed) out|note[sd]"
    r"|wish(?:es|ed)?|likes?|liked|mention(?:s|ed)?|report(?:s|ed)|accept(?:s|ed)?|allow(?:s|ed)?"
    r"|permit(?:s|ted)?|authori[sz]e[sd]?|okay(?:s|ed)|let us"
    r"|gave|gives?|given|granted|signed|wrote|ordered|favou?rs?|hopes?|hoped|trust(?:s|ed)?|urge[sd]?|support(?:s|ed)"
    r"|backs|backed|encourage[sd]?|recommend(?:s|ed)?|welcome[sd]?|propose[sd]?|acknowledge[sd]?)"
)
_CONTENT = (
    r"(?:is|are|was|were|seems?|be) (?:\w+ly )?(?:fine|happy|okay|ok|comfortable|good|content|cool|on board|aligned"
    r"|in favou?r|free|welcome|keen|eager|at ease|willing)"
)
_CONSENT = re.compile(
    rf"\b{_GIVEN}\b"
    rf"|\b(?:with|have|has|had|having|got|gave|given|giving|received|obtained|secured|under|on|by)"
    rf" (?:\w+ ){{0,2}}{_LEAVE}\b"
    rf"|\b{_LEAVE} (?:\w+ )?(?:is|was|were|has|had|have|from|by|given|granted|obtained|received|secured)\b"
    rf"|\b(?:is|are|was|were|been|be|as|already|has|have|had|being|got) (?:\w+ly |\w+ )?{_ALLOWED}"
    r" (?:to|by|for|in|earlier|before)"
    rf"|\b{_WHO}\b[^.;:\n]{{0,30}}?\b(?:{_CONTENT}|{_ALLOWED}|allows?|permits?|accepts?|confirms?|agree)\b"
    rf"|\b{_CONTENT} (?:with|to go|to do|to have|for us|about)\b|\b{_ALLOWED} by (?:the )?{_WHO}\b",
    re.IGNORECASE,
)
_WANTED = re.compile(
    rf"\b{_WHO}\b(?:['’]s)?[^.;:\n]{{0,40}}?\b{_SAYS}\b|\A\W*(?:\d+\W+)?users?\b\W{{0,4}}:"
    rf"|\b(?:{_WHO}['’]s?|their|his|your)[^.;:\n]{{0,20}} {_WISH}\b"
    rf"|\b(?:as|per|following|by|under|on|upon|line with|accordance with|according to|consistent with|pursuant to|at"
    rf"|after|given|because of|due to|based on)(?: (?:the|an?|our|any|it|was|were|is|had|been|being|we))*"
    rf"(?: \w+ly| prior| earlier| last| agreed| explicit| standing| previous| recent)*"
    rf" {_WISH}\b(?! (?:in|above|below|file))"
    rf"|\b(?:was|were|been|is|are|being|got|had|previously|earlier|originally|\w+ly) (?:\w+ly )?{_ASKED}\b"
    rf"|\bit (?:was|is|has been) (?:\w+ly )?{_ASKED}\b"
    rf"|\b(?:standing|explicit|direct|prior|earlier|express|clear|written|verbal) (?:orders?|instructions?"
    rf"|requests?|wish\w*|directives?|preferences?)\b|\binstructions? (?:is|are|was|were|to|that|from)\b"
    rf"|\bthe (?:request|ask|order|directive|wish|preference|requirement|decision) (?:is|was|to|that|came|stands)\b"
    rf"|\b{_ASKED} by (?:the )?{_WHO}\b|\bon behalf of\b|\bwish(?:es)?\b",
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"\b(?:must|shall|should|will|need(?:s)? to|ha(?:ve|s) to|ought to|going to|supposed to|(?:is|are|remains?) to"
    r"|still to|to be|let's|may|can now|time to|ready to|safe to|about to|due to be|scheduled|from now on|henceforth)\b"
    r"|\A[\W\d]*(?:next|then|now|todo|to do|remaining|pending|upcoming|proceed|go ahead|please|do not"
    r"|don't|never|always)\b",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"(?:\b(?:not yet|has not|have not|did not|never|none of which)|n't(?: yet)?)\b[^.;:]{0,25}\Z",
    re.IGNORECASE,
)
"""In front of a claim: it says that nobody did so."""
_SUPPOSES = re.compile(r"\b(?:unless|if|whether|until|in case)\b[^,.;:]*", re.IGNORECASE)
"""A clause that says nothing of what is or was."""
_CODE = re.compile(
    r"`[^`\s]*(?:\s[^`\s]*)?`|(?<!\S)\S*[/\\.]\w[^\s.;:,]*\.\w{1,8}\b|\b[\w-]+\.[a-z]{1,5}\b"
)
"""A file, or in code a name or a command of two words; longer code may be a sentence in disguise."""

_ACTS: Final = re.compile(
    "|".join(
        rf"\b({stems})"
        for stems in (
            r"delet|remov|drop|eras|wip|purg|destroy|truncat|discard|get(?:ting)? rid|clean|strip|take out|taken out"
            r"|prun|clear",
            r"push|publish|releas|deploy|ship|roll(?:ed|ing)? out|go(?:es|ing)? live|launch|merg",
            r"upload|send|sent|shares?\b|sharing|post(?:ed|ing)?\b|e-?mail|expos|leak|transfer|wire|pay|purchas|buy",
            r"skip|bypass|disabl|ignor|switch(?:ed)? off|turn(?:ed)? off|omit|leav(?:e|ing) out"
            r"|left out|no longer|suppress",
            r"overwrit|forc|reset|revert|roll(?:ed)? back|undo|rewrit|squash|rebas|amend",
            r"shut|kill|terminat|stop|cancel|abort|clos",
            r"grant|revok|rotat|disclos",
        )
    ),
    re.IGNORECASE,
)
"""Acts that are hard to take back, each with what else they are called."""


def will_in(sentence: str) -> Will | None:
    """What kind of will a sentence speaks of; None if it only tells what is or was."""
    bare = plain(sentence)
    if (claim := _CONSENT.search(bare)) and not _DENIES.search(bare[: claim.start()]):
        return "consent"
    if (claim := _WANTED.search(bare)) and not _DENIES.search(bare[: claim.start()]):
        return "wish"
    if speaks_of_will(bare):
        return "wish"
    return "plan" if _PLAN.search(bare) else None


def claim_in(sentence: str) -> str:
    """The words by which a sentence speaks of somebody's will; empty if it does not, or not in English."""
    bare = plain(sentence)
    found = _CONSENT.search(bare) or _WANTED.search(bare)
    return found[0] if found else ""


def acts(text: str) -> frozenset[int]:
    """Which kinds of acts that are hard to take back a text speaks of."""
    return frozenset(found.lastindex or 0 for found in _ACTS.finditer(text))


def asserted(sentence: str) -> str:
    """What a sentence says outright, without what it only supposes."""
    return _SUPPOSES.sub(" ", sentence)


def plain(sentence: str) -> str:
    """The sentence without files and short code, signs that are not seen, and other ways to spell the same letters."""
    shown = "".join(sign for sign in sentence if sign.isascii() or unicodedata.category(sign) != "Cf")
    return _CODE.sub(" it ", unicodedata.normalize("NFKC", shown)).replace("*", "")
