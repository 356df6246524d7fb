"""What the user wants: every message, and in it what corrects, what insists, and what settles a question.

Pasted matter (code, logs, somebody's review) is not taken for the user's wishes: only sentences of prose count, and
only those with a plain sign. A decision needs a source: the user's own choice of words, the answer to a question
that was put, or the approval of a plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sevenfold.lab.fidelity.patterns import pattern
from sevenfold.lab.fidelity.probe import CORRECTION, DECISION, PREFERENCE, USER_MESSAGE, Probe
from sevenfold.lab.fidelity.reader import Account, Call, Told
from sevenfold.lab.fidelity.sentences import LONGEST_SENTENCE, folded, sentences, telling

_CORRECTS = pattern("corrects")
_INSISTS = pattern("insists")
_FIRMLY = re.compile(r"\b(?:don't|do not|never|make sure|ensure|must|avoid)\b", re.I)
_ASSENTS = pattern("assents")
_BARE = pattern("bare")
_ANSWER = re.compile(r'"([^"\n]{3,400})"="([^"\n]{1,400})"')
_APPROVED = re.compile(r"\b(?:has approved your plan|plan (?:was|has been) approved)\b", re.I)
_HEADING = re.compile(r"^#{1,3} +(\S.*)$", re.M)
_ASKS = re.compile(r"question|\bask", re.I)
_LOG_LINE = re.compile(r"^(?:\s{4,}|\t|\||\$ |[-=]{3}|\d{4}-\d\d-\d\d|\S+:\d+(?::\d+)?[: ]|at \S+\()")
LONG_MESSAGE = 2_500
"""Characters from which on a message is mostly something pasted: only its edges are read for wishes."""


def messages(told: Account) -> Iterator[Probe]:
    """Each message of the user; one that was sent several times is one fact, of the last time."""
    said: dict[str, list[Told]] = {}
    for words in (*told.user, *told.refusals):
        said.setdefault(folded(words.text), []).append(words)
    for same in said.values():
        newest = same[-1]
        yield Probe(USER_MESSAGE, newest.text, newest.record, (newest.known_as,), "verbatim")


def wishes(told: Account) -> Iterator[Probe]:
    """Sentences of the user that correct, insist or choose."""
    for words in told.user:
        for sentence in _own_sentences(words.text):
            if kind := _wish(sentence):
                yield Probe(kind, sentence, words.record, (words.known_as,))
    for words in told.refusals:
        first = next(sentences(words.text), "")
        if len(telling(first)) >= 2:
            yield Probe(CORRECTION, first, words.record, (words.known_as,))


def decisions(told: Account) -> Iterator[Probe]:
    """What was settled: proposals the user agreed to, questions answered, plans approved."""
    for words in told.user:
        before = told.preceding.get(words.record)
        if before is not None and _BARE.fullmatch(words.text) and (proposal := _proposal(before.text)):
            yield Probe(DECISION, proposal, before.record, (before.known_as,))
    for call in told.calls:
        answer = told.results.get(call.id)
        if answer is not None:
            yield from _settled(call, answer)


def _settled(call: Call, answer: Told) -> Iterator[Probe]:
    if _ASKS.search(call.name):
        for hit in _ANSWER.finditer(answer.text):
            yield Probe(DECISION, hit[0], answer.record, (answer.known_as,))
    plan = call.given.get("plan")
    if isinstance(plan, str) and _APPROVED.search(answer.text) and (title := _HEADING.search(plan)):
        text = title[1].strip()[:LONGEST_SENTENCE]
        yield Probe(DECISION, text, call.record, ("tool_use",))


def _own_sentences(text: str) -> Iterator[str]:
    if len(text) > LONG_MESSAGE:
        text = (
            text[: LONG_MESSAGE // 2].rpartition("\n")[0]
            + "\n"
            + text[-LONG_MESSAGE // 2 :].partition("\n")[2]
        )
    kept = "\n".join(line for line in text.splitlines() if not _LOG_LINE.match(line))
    for sentence in sentences(kept):
        if len(telling(sentence)) >= 2:
            yield sentence


def _wish(sentence: str) -> str:
    """Which kind of wish a sentence is; empty if it is none."""
    if sentence.endswith("?") and not _FIRMLY.search(sentence):
        return ""
    if _CORRECTS.search(sentence):
        return CORRECTION
    if _INSISTS.search(sentence):
        return PREFERENCE
    return DECISION if _ASSENTS.search(sentence) else ""


def _proposal(text: str) -> str:
    """The question the model ended with; empty if it did not ask one."""
    asked = [sentence for sentence in sentences(text[-1_500:]) if sentence.endswith("?")]
    return asked[-1] if asked and len(telling(asked[-1])) >= 2 else ""
