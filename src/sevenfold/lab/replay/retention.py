"""What the model still knows at the end of a replay: the facts of the whole session, and the rules that its user set.

The facts are those of `sevenfold.archive.fidelity`, all of them and not a sample. They are found in the recording and
looked for in the last request, as the model saw it, by code that has nothing to do with compaction. A rule is a
sentence in which the user corrects something or says how something is to be done; it holds only where the model sees
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sevenfold.archive.fidelity import Probe, judge, sample
from sevenfold.archive.fidelity.facts import CORRECTION, PREFERENCE
from sevenfold.archive.fidelity.reader import shown_text
from sevenfold.lab.replay.figures import FactCounts, RuleCounts
from sevenfold.lab.replay.recording import Recording
from sevenfold.record import authorship, blocks
from sevenfold.record.entries import Said

RULES = frozenset({CORRECTION, PREFERENCE})
COMMAND = "<command-"
"""How a client marks a command that the user typed; facts look for it as it was typed."""
Reachable = Callable[[Probe], bool]


def facts_of(recording: Recording, steps: int) -> tuple[Probe, ...]:
    """Every fact in the input of the first ``steps`` requests, and in the answers before the last of them."""
    step_of = recording.step_of
    facts_so_far = [
        item
        for item in recording.items
        if step_of[item.record.uuid] < steps - (item.record.role == "assistant")
    ]
    return sample(facts_so_far, later_rounds_visible=True, everything=True).probes


def measure(
    facts: Iterable[Probe], messages: Iterable[Mapping[str, Any]], reachable: Reachable
) -> tuple[FactCounts, RuleCounts]:
    """Where these facts are when the model sees these messages."""
    score = judge(facts, list(texts_of(messages)), reachable)
    total = score.total
    rules = [state for probe, state in score.states if probe.kind in RULES]
    in_context = rules.count("in_context")
    return (
        FactCounts(total.in_context, total.reachable, total.lost),
        RuleCounts(in_context, len(rules) - in_context),
    )


def texts_of(messages: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the texts that the model sees in the messages of a request."""
    for message in messages:
        role = str(message["role"])
        for content in message["content"]:
            block = blocks.read(msgspec.json.encode(content))
            text = shown_text(block)
            if text.strip():
                yield text
            if COMMAND in text:
                yield authorship.users_words(Said("", None, role, (block,)))


def nowhere(probe: Probe) -> bool:
    """Where a tool keeps nothing that its model could look up."""
    return False


def everywhere(probe: Probe) -> bool:
    """Where a tool tells its model in which file the whole conversation is."""
    return True


def records_by_key(recording: Recording) -> Mapping[str, frozenset[str]]:
    """What identifies the content of each record, no matter which tool recorded it."""
    step_of = recording.step_of
    return {
        item.record.uuid: frozenset(keys_of(item.record, step_of[item.record.uuid]))
        for item in recording.items
    }


def keys_of(message: Said, step: int) -> Iterator[str]:
    """Yield what identifies the content of a record of a step."""
    if message.role == "assistant":
        yield f"answer {step}"
        return
    results = [block.id for block in message.blocks if block.kind == "tool_result"]
    yield from (f"result {call}" for call in results)
    if len(results) < len(message.blocks):
        yield f"words {step}"


def by_search(
    search: Callable[[Probe], Sequence[str]],
    keys: Mapping[str, frozenset[str]],
    recorded: Mapping[str, frozenset[str]],
) -> Reachable:
    """A predicate: whether a search finds the record of a fact.

    ``keys`` identify the records that the search returns by their ids, ``recorded`` those of the recording.
    """

    def reachable(probe: Probe) -> bool:
        wanted = recorded.get(probe.record, frozenset())
        return any(not wanted.isdisjoint(keys.get(uuid, ())) for uuid in search(probe))

    return reachable
