"""What became of everything that was said: each fact is in the context, within reach of recall, or lost.

Facts are those the independent check of compactions would look for in the whole conversation, and those the
demonstration planted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sevenfold.conversation.resume import read
from sevenfold.conversation.session import Session
from sevenfold.lab import fidelity
from sevenfold.lab.demo.protocol import Judged
from sevenfold.lab.fidelity.probe import PREFERENCE, Probe
from sevenfold.layers.compact.check import HITS
from sevenfold.ports import Log, Recall
from sevenfold.record.entries import Said
from sevenfold.record.layout import Item


def judged(core: Session, recall: Recall, planted: Sequence[str]) -> Judged:
    """Look for every fact in what the model would see now, and in what recall finds."""
    recall.catch_up()
    said = list(_everything(core.transcript.log))
    wanted = [*_probes(said, planted), *fidelity.probes(said)]
    score = fidelity.judge(
        wanted,
        fidelity.texts(core.transcript.view.items),
        lambda probe: probe.found_among(recall.found(probe.text, probe.sought, HITS)),
    )
    total = score.total
    return Judged(total.in_context, total.reachable, tuple(probe.text for probe in score.lost))


def _everything(log: Log) -> Iterator[Item]:
    """All that was ever said in the conversation, as it was said; summaries are not, they only repeat it."""
    for place, entry in read(log):
        if isinstance(entry, Said) and not entry.sidechain and not entry.summary and not entry.attachment:
            yield Item.of(entry, place)


def _probes(said: Sequence[Item], planted: Sequence[str]) -> Iterator[Probe]:
    for fact in planted:
        yield Probe(PREFERENCE, fact, _holder(said, fact), ("user",))


def _holder(said: Sequence[Item], fact: str) -> str:
    """The record of the user's message that holds a fact."""
    needle = fact.encode()
    held = (one.said.uuid for one in said if one.said.role == "user" and _holds(one, needle))
    return next(held, "")


def _holds(one: Item, needle: bytes) -> bool:
    return any(needle in block.raw for block in one.shown)
