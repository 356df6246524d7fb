"""Acts that are hard to take back: the one English list, and how such an act is recognised in a text.

"Delete the table" is such an act, "delete the semicolon" is not, and a merge sort is neither: some verbs count only
for what lies outside the source code, some only for what protects it, and a noun counts only at the end of its phrase.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from msgspec import Struct

# One act per line: when it counts (always, when done to a thing, when done to a guard), its verbs, its nouns.
_ACTS: Final = """
always  erase wipe purge destroy truncate shred                     | deletion removal erasure destruction
thing   delete remove drop clear clean empty prune discard abandon flush get-rid-of throw-away scrap | cleanup
always  push force-push                                             | push force-push
thing   merge squash rebase amend rewrite                           | merge
always  deploy redeploy ship publish launch release open-source roll-out go-live | deployment rollout release launch
always  migrate                                                     | migration
thing   revert reset restore roll-back withdraw                     | rollback reset
always  overwrite anonymise anonymize                               |
thing   send email mail post reply forward upload export sync share paste announce tweet leak |
always  pay buy purchase refund wire spend sell charge transfer     | purchase payment payout refund transfer charges
thing   order book submit file provision                            | order submission
always  cancel terminate unsubscribe                                | cancellation termination
thing   close lock                                                  | closure
thing   stop kill abort shut-down take-down take-offline restart reboot bounce | shutdown restart reboot
always  revoke rotate invalidate deactivate                         | revocation rotation
thing   change replace set point switch move upgrade double raise   | upgrade
thing   grant give elevate expose reveal print commit make          | exposure
guard   disable turn-off switch-off bypass skip ignore override silence mute waive dismiss lift |
thing   accept sign approve answer vote                             | acceptance
thing   install uninstall execute run format reformat               |
"""
_THINGS: Final = """
file folder directory tree data database db schema table row record branch tag main master develop trunk upstream pr
pull-request commit commits history stash change changes edit edits work repo repository bucket backup snapshot volume
disk drive partition server cluster instance node machine host laptop environment region site shop production account
user customer subscriber member employee role rights access permission admin owner superuser root password key token
secret credential certificate dns mx domain traffic queue job cache redis log index mail email message newsletter
comment post issue ticket thread discussion forum channel slack twitter list page press announcement reminder invoice
order form application contract agreement terms licence license renewal proposal claim complaint payment price balance
purchase laptop flight plan tier capacity process session worker import export run database migration script binary
code dump report module kernel internet public vendor contractor auditor everything today sudo bash store dump request
"""
_GUARDS: Final = """
authentication authorisation login tls ssl certificate verification encryption firewall protection limit limiter 2fa mfa
two-factor monitoring alert alarm backup check prompt confirmation review test scan ci sandbox hook validation rotation
restriction
"""
COMMAND: Final = re.compile(
    r"\brm -\w*[rf]|\bgit (?:push\b.*(?:--force|-f\b)|reset --hard|clean -\w*f|checkout \.|filter-branch)|--force\b"
    r"|--no-verify\b|\b(?:drop|truncate) (?:table|database|schema)\b|\bterraform destroy\b|\bkubectl delete\b"
    r"|\bchmod (?:-R )?777\b|\b(?:curl|wget)\b.*\|\s*(?:ba|z)?sh\b|\bdd if=|\bmkfs|\bsudo\b",
    re.IGNORECASE,
)
"""Command lines that do such a thing, whatever is said about them."""

_IRREGULAR: Final = {
    **{"send": "sent", "pay": "paid", "buy": "bought", "sell": "sold", "shut": "shut", "take": "taken"},
    **{"give": "given", "make": "made", "set": "set", "overwrite": "overwritten", "get": "got", "run": "run"},
    **{"rewrite": "rewritten", "withdraw": "withdrawn", "throw": "thrown", "go": "gone", "spend": "spent"},
    **{"reset": "reset", "email": "emailed", "mail": "mailed"},
}
_ONE_WORD: Final = frozenset({"force-push", "open-source"})
# What may follow the noun that ends a phrase; another noun may not.
_PHRASE_ENDS = (
    r"(?=\s*(?:[^\w\s'/-]|$)|\s+(?:and|or|of|on|in|from|to|for|with|that|which|who|at|by|before|after|older|over|as|into"
    r"|under|without|right|now|today|tonight|tomorrow|is|are|was|were|be|can|may|could|should|will|has|have|had|so|again"
    r"|once|until|via|through|anyway|first|themselves|myself|for|off|down|public|private|offline|straight|without)\b)"
)


class Act(Struct, frozen=True):
    """One act, as patterns."""

    base: str
    ing: str
    done: str
    nouns: str
    counts: re.Pattern[str] | None
    """What it must be done to; None: it always counts."""


@cache
def acts() -> tuple[Act, ...]:
    """The list, read."""
    objects = {"always": None, "thing": _ending(_THINGS, r"|[~.\w-]*/[\w./*-]+"), "guard": _ending(_GUARDS)}
    found = []
    for line in _ACTS.strip().splitlines():
        verbs, _, nouns = line.partition("|")
        counts, *names = verbs.split()
        base, ing, done = ("|".join(forms) for forms in zip(*map(_forms, names), strict=True))
        found.append(Act(base, ing, done, "|".join(nouns.split()) or "(?!)", objects[counts]))
    return tuple(found)


def _ending(words: str, more: str = "") -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:(?:{'|'.join(words.split())})(?:e?s)?{more}){_PHRASE_ENDS}", re.IGNORECASE)


def _forms(verb: str) -> tuple[str, str, str]:
    """To do, doing and done; something may stand before the particle of a verb that has one."""
    first, *particles = [verb] if verb in _ONE_WORD else verb.split("-")
    rest = "".join(rf"(?:\s+[\w-]+){{0,4}}?[\s-]{particle}" for particle in particles)
    stem, last = first.rstrip("e"), "" if first[-1] in "eyw" else f"{first[-1]}?"
    done = _IRREGULAR.get(first, f"{stem[:-1]}ied" if re.search("[^aeiou]y$", first) else f"{stem}{last}ed")
    return first + rest, f"{stem}{last}ing{rest}", done + rest
