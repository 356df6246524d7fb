"""Compactions in a row, with work between them: nothing may fade, grow or change its spelling.

The work is made up: a user's request with something to remember, an edited file, a command that fails and one that
succeeds. Facts from the first round must be kept as well after the last compaction as after the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from bench.trials.trial import (
    ALONE,
    SYSTEM,
    body_tokens,
    made_up,
    shown_tokens,
    tool_named,
)
from sevenfold.archive import fidelity
from sevenfold.archive.audit import by_recall
from sevenfold.archive.fidelity import Probe, Score
from sevenfold.conversation.resume import read
from sevenfold.layers.compact import extract
from sevenfold.layers.compact.compaction import EngineName
from sevenfold.layers.compact.extract import notation
from sevenfold.layers.compact.extract.notation import Facts
from sevenfold.ports import Client, Log
from sevenfold.session import factory
from sevenfold.session.factory import SessionParts
from sevenfold.session.session import Session

PASSING = frozenset({"current_step", "pending_task"})
"""Kinds of facts that newer facts replace."""
OUTPUT = "a line of the output, with nothing in it that anybody will ask for again\n" * 150
_CITED = re.compile(r'\[([0-9a-f]{8}[0-9a-f-]*)(?: to ([0-9a-f]{8}[0-9a-f-]*))?\]|<said record="([^"]+)"')


class ChainLink(Struct, frozen=True, kw_only=True):
    """One compaction of a chain."""

    engine: EngineName
    score: Score
    """For all facts since the chain began, except those that newer facts replace."""
    invented: tuple[str, ...]
    drifted: tuple[str, ...]
    """Entries of the summary's lists that are neither in the work nor in the previous summary."""
    dangling: tuple[str, ...]
    """Ids cited in the summary that match no record, or more than one."""
    before: int
    """Tokens of the messages before it, as the simulated provider counts."""
    after: int
    """Tokens of the messages after it, counted the same way."""


def run(
    links: int,
    engine: EngineName = "extractive",
    *,
    client: Client | None = None,
    model: str,
    rounds: int = 3,
) -> list[ChainLink]:
    """Compact a session ``links`` times, with ``rounds`` rounds of work before each compaction."""
    store = factory.in_memory("chain", ALONE)
    options: factory.Options = {"system": SYSTEM, "tools": [tool_named(name) for name in ("Edit", "Bash")]}
    session = Session(factory.conversation(store, model, options), store, client)
    made: list[ChainLink] = []
    facts: dict[tuple[str, str], Probe] = {}
    written = Facts()
    with session:
        for number in range(1, links + 1):
            for part in range(rounds):
                _work(session, number * 100 + part)
            link, written = _link(session, store, engine, facts, written)
            made.append(link)
    return made


def _work(session: Session, number: int) -> None:
    """Add one request of the user, and the work it asks for, to the session."""
    port = 8000 + number
    session.user(
        f"Please move service {number} to port {port}. Never touch config/prod-{number}.yaml while you do so."
    )
    calls: Sequence[tuple[str, Mapping[str, Any], str]] = (
        ("Edit", {"path": f"services/s{number}.py", "old_str": "8000", "new_str": str(port)}, "done"),
        ("Bash", {"command": f"pytest tests/test_s{number}.py"}, _failure(number)),
        ("Bash", {"command": f"ruff check services/s{number}.py"}, OUTPUT),
    )
    for name, given, result in calls:
        call = f"toolu_{number}_{len(result)}"
        _say(
            session,
            f"Working on service {number}.",
            {"type": "tool_use", "id": call, "name": name, "input": given},
        )
        failed = result.startswith("Exit code")
        session.tool_results(
            [{"type": "tool_result", "tool_use_id": call, "content": result, "is_error": failed}]
        )
    _say(session, f"Service {number} listens on port {port} now; commit {number:07x}a is the last.")


def _failure(number: int) -> str:
    return f"Exit code 1\n{OUTPUT[:900]}E   ConnectionError: service s{number} is not up\n1 failed"


def _say(session: Session, words: str, *calls: Mapping[str, Any]) -> None:
    request = session.prepare()
    reason = "tool_use" if calls else "end_turn"
    prompt = body_tokens(request.body, session.conversation.profile.tokenizer)
    usage = {"input_tokens": prompt, "output_tokens": 50}
    session.observe(
        {
            "id": f"msg_{session.gauge.requests}_{len(words)}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [{"type": "text", "text": words}, *calls],
            "stop_reason": reason,
            "usage": usage,
        }
    )


def _link(
    session: Session,
    store: SessionParts,
    engine: EngineName,
    facts: dict[tuple[str, str], Probe],
    written: Facts,
) -> tuple[ChainLink, Facts]:
    before = list(session.conversation.transcript.view.items)
    done = session.compact(engine=engine)
    assert done is not None, "no listener can refuse a compaction here"
    after = list(session.conversation.transcript.view.items)
    stayed = {one.record.uuid for one in after}
    hidden = [one for one in before if one.record.uuid not in stayed]
    for probe in fidelity.probes(hidden, later_rounds_visible=len(hidden) < len(before)):
        if probe.kind not in PASSING:
            facts[probe.kind, probe.text] = probe
    store.recall.catch_up()
    score = fidelity.judge(facts.values(), fidelity.texts(after), by_recall(store.recall.index))
    known = extract.facts(one for one in hidden if not one.record.summary)
    now, _ = notation.read_back(done.summary)
    drifted = _spellings(now) - _spellings(known) - _spellings(written)
    link = ChainLink(
        engine=done.engine,
        score=score,
        invented=tuple(made_up([one for one in after if one not in before], before, store.log)),
        drifted=tuple(sorted(drifted)),
        dangling=tuple(_dangling(done.summary, store.log)),
        before=shown_tokens(before, session.conversation.profile.tokenizer),
        after=shown_tokens(after, session.conversation.profile.tokenizer),
    )
    return link, now


def _spellings(facts: Facts) -> set[str]:
    """The texts of all entries of all lists, without counts and positions."""
    texts: list[Iterable[str]] = [
        (f"{words.head}{words.tail}" for words in facts.messages if not words.lost),
        (one.text for one in (*facts.corrections, *facts.outcomes, *facts.replies)),
        (one.path for one in facts.files),
        (one.line for one in facts.commands),
        (one.lines for one in facts.problems),
        (one.text for one in facts.tasks),
        (one.text for one in facts.identifiers),
    ]
    return {text for listed in texts for text in listed}


def _dangling(summary: str, log: Log) -> Iterator[str]:
    records = {str(getattr(entry, "uuid", "")) for _, entry in read(log)}
    cited = {name for found in _CITED.findall(summary) for name in found if name}
    for name in sorted(cited):
        if sum(record.startswith(name) for record in records) != 1:
            yield name
