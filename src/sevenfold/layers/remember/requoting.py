"""Asks again, once, about sentences of the user that a model meant and did not quote to the letter.

What is stored as the user's must be their own words, and what ends an earlier statement must be quoted exactly. So a
misquotation that leaves open what was meant would turn the user's own wish into an unconfirmed note, or leave standing
what they took back. Loosening the comparison is no way out: loose enough for a garbled "without", it takes "uninstall"
for "install". The model is shown the sentences that it seems to mean, and the same messages again.

Only the user's own words are shown, so what such a call says may end what the user said, if the sentences were found by
a look that was shown nothing else either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.conversation.flow import Flow, in_thread
from sevenfold.layers.remember.asking import ask
from sevenfold.layers.remember.look import MOST_FACTS, Look
from sevenfold.memory.statements import LastingFact
from sevenfold.memory.witness import UsersStatement, Witness

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

MOST_SENTENCES = 40
"""The most sentences asked about again."""


def requote(
    c: Conversation, look: Look, facts: Sequence[LastingFact], source: str
) -> Flow[tuple[list[LastingFact], float | None]]:
    """The facts, those that were quoted inexactly as the model quotes them when it is asked again; and the cost.

    Nothing is asked if there are none, and a fact that it does not send again stays as it was.
    """
    heard = Witness(look.messages)
    files = {entry.entry.file for entry in look.entries}
    inexact = yield from in_thread(partial(_inexact, facts, heard, files))
    sentences = tuple({statement.text: statement for statement in inexact.values()}.values())
    if not sentences or not c.may_spend():
        return list(facts), None
    second_look = replace(look.alone(), inexact=sentences[:MOST_SENTENCES])
    answer, cost = yield from ask(c, second_look, source)
    # An answer that does not keep to the format is no answer: the facts stay as they are.
    corrected = (second_look.read(answer) or [])[:MOST_FACTS]
    by_sentence = yield from in_thread(partial(_by_sentence, corrected, heard))
    return [_corrected(fact, number, inexact, by_sentence) for number, fact in enumerate(facts)], cost


def _inexact(
    facts: Sequence[LastingFact], heard: Witness, files: Collection[str]
) -> dict[int, UsersStatement]:
    """The sentences that facts seem to carry and do not quote well enough, by the number of the fact."""
    pairs = ((number, _to_quote_again(fact, heard, files)) for number, fact in enumerate(facts))
    return {number: statement for number, statement in pairs if statement is not None}


def _to_quote_again(fact: LastingFact, heard: Witness, files: Collection[str]) -> UsersStatement | None:
    for quotation in fact.quotations:
        statement = heard.statement(quotation, fact.message)
        if statement is None:
            statement = heard.meant(quotation, fact.message)
            if statement is not None:
                return statement
        elif fact.replaces and not (statement.exact and _names_all(fact, heard, files)):
            return statement
    return None


def _names_all(fact: LastingFact, heard: Witness, files: Collection[str]) -> bool:
    """Whether none of the earlier statements that a fact names is merely like something the user said."""
    for earlier in fact.replaces:
        if earlier in files or heard.statement(earlier, forgiving=False) is not None:
            continue
        if heard.meant(earlier) is not None:
            return False
    return True


def _by_sentence(corrected: Sequence[LastingFact], heard: Witness) -> dict[str, LastingFact]:
    """The facts by the user's sentences that they quote to the letter."""
    by_sentence: dict[str, LastingFact] = {}
    for fact in corrected:
        for statement in _exact_statements(fact, heard):
            by_sentence.setdefault(statement.text, fact)
    return by_sentence


def _exact_statements(fact: LastingFact, heard: Witness) -> Iterator[UsersStatement]:
    for quotation in fact.quotations:
        statement = heard.statement(quotation, fact.message, forgiving=False)
        if statement is not None:
            yield statement


def _corrected(
    fact: LastingFact,
    number: int,
    inexact: Mapping[int, UsersStatement],
    by_sentence: Mapping[str, LastingFact],
) -> LastingFact:
    sentence = inexact.get(number)
    corrected = by_sentence.get(sentence.text) if sentence is not None else None
    if corrected is None:
        return fact
    return replace(
        fact,
        quotations=corrected.quotations,
        message=corrected.message,
        dates=corrected.dates or fact.dates,
        replaces=corrected.replaces or fact.replaces,
    )
