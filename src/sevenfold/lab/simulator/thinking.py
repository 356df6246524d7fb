"""Signatures that need no memory: what must be known later is inside them, under the simulator's own key.

A seal is a small record, packed, authenticated and written as base64. A restarted simulator with the same
key reads the seals of the one before. They stand in for the providers' opaque signatures and resemble them
in nothing but use.


---

Bound thinking: every thinking block is tied to what was sent before it.

The prefix of a block is the chain of system, tools and all earlier blocks, thinking and cache markers left
out. Thinking has an order of its own: what is kept must be an unbroken run of what was produced. A signed
summary carries the chains of the range it replaced, so that a tail kept after it can go on from there; a
summary made at a threshold starts a chain of its own, because nothing before it is read.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from sevenfold.lab.simulator.conversation import PromptPart, RequestPrompt, last_compaction
from sevenfold.lab.simulator.tokens import chained, digest
from sevenfold.profiles import Profile

_MAC = 16


class ThoughtSeal(Struct, frozen=True, array_like=True, tag="t"):
    """What a thinking block's signature says about the moment it was made."""

    model: str
    organisation: str
    prefix: bytes
    """The hash of everything sent before the block, thinking apart."""
    system: bytes
    tools: bytes
    text: bytes
    """The hash of the text the block was given with."""
    name: bytes
    before: bytes
    """The name of the thinking block before it, empty for the first."""
    place: int
    """How many blocks of the same run stand before it."""
    start: int
    """The place of the first block of the run that was still there."""
    tokens: int
    bulk: bytes = b""
    """Nothing but length: real signatures grow with the reasoning behind them, and estimates rely on it."""


class SummarySeal(Struct, frozen=True, array_like=True, tag="c"):
    """What the signature of a compaction block says about what it summarised."""

    model: str
    organisation: str
    bound: bool
    """Whether the model that made it binds thinking: only then can kept thinking stay valid."""
    content: bytes
    changes: bytes
    """The hash of its `tool_changes`."""
    system: bytes
    tools: bytes
    prefixes: tuple[bytes, ...]
    """The hashes of the whole range, by every way thinking inside it may have come about."""
    last_role: str


class OpaqueSeal(Struct, frozen=True, array_like=True, tag="o"):
    """A summary that only who made it can read."""

    model: str
    organisation: str
    summary: str


Seal = TypeVar("Seal", ThoughtSeal, SummarySeal, OpaqueSeal)


class Sealer:
    """Makes and reads seals."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, seal: ThoughtSeal | SummarySeal | OpaqueSeal) -> str:
        """The seal as a string to send."""
        packed = msgspec.msgpack.encode(seal)
        return b64encode(self._mac(packed) + packed).decode()

    def open(self, text: object, kind: type[Seal]) -> Seal | None:
        """The seal in a string that came back; None when it is no seal of that kind or was altered."""
        try:
            raw = b64decode(str(text), validate=True)
            if not hmac.compare_digest(self._mac(raw[_MAC:]), raw[:_MAC]):
                return None
            return msgspec.msgpack.decode(raw[_MAC:], type=kind)
        except (binascii.Error, ValueError, msgspec.DecodeError):
            return None

    def _mac(self, packed: bytes) -> bytes:
        return hmac.digest(self._key, packed, sha256)[:_MAC]


Reason = Literal["organization_binding_mismatch", "model_binding_mismatch", "prefix_binding_mismatch", ""]
FABLES_5_2 = frozenset({"claude-fable-5-2", "claude-mythos-5-2"})
FABLES = FABLES_5_2 | {"claude-fable-5-1", "claude-mythos-5-1"}
READERS = {
    "claude-fable-5-2": FABLES_5_2,
    "claude-mythos-5-2": FABLES_5_2,
    "claude-fable-5-1": FABLES,
    "claude-mythos-5-1": FABLES,
    "claude-opus-5-5": FABLES,
    "claude-opus-5": FABLES,
}
"""Which models besides its maker may read a model's thinking; those of Haiku 5.5 are open to all."""
OPEN = frozenset({"claude-haiku-5-5"})


BULK = 3
"""Bytes in a signature for each token of reasoning: four characters, about as in life."""


class ThinkingCheck(Struct, frozen=True):
    """What the check found about one thinking block."""

    item: PromptPart
    reason: Reason
    tampered: bool = False
    changed: str = ""
    """What differs from the moment the block was made: ``system``, ``tools``, ``messages`` or ``run``."""


class ThinkingRun(Struct, frozen=True):
    """Where the order of thinking stands: the last block kept, and where the kept run began."""

    last: bytes = b""
    place: int = -1
    start: int = 0


class Bindings(Struct, frozen=True):
    """The outcome of the check, and what new thinking will be bound to."""

    findings: tuple[ThinkingCheck, ...]
    prefixes: tuple[bytes, ...]
    run: ThinkingRun


class Binder:
    """Checks and signs thinking for one account."""

    def __init__(self, sealer: Sealer, organisation: str) -> None:
        self.sealer = sealer
        self.organisation = organisation

    def examine(self, talk: RequestPrompt, profile: Profile) -> Bindings:
        """Walk through a conversation and check every thinking block that is still read."""
        findings: list[ThinkingCheck] = []
        begin, prefixes = self._beginning(talk)
        run = ThinkingRun()
        for item in talk.items[begin:]:
            if not item.is_thinking:
                prefixes = tuple(chained(prefix, item.piece.digest) for prefix in prefixes)
                continue
            finding, seal = self._check(item, talk, prefixes, run, profile)
            findings.append(finding)
            if seal is not None and not finding.reason and not finding.tampered:
                run = ThinkingRun(seal.name, seal.place, run.start if run.last else seal.place)
        return Bindings(tuple(findings), prefixes, run)

    def sign(self, thought: Thought, at: Bindings, talk: RequestPrompt, model: str) -> tuple[str, Bindings]:
        """The signature of new thinking, and the bindings that hold after it."""
        run, prefix = at.run, at.prefixes[-1]
        place = run.place + 1 if run.last else 0
        start = run.start if run.last else place
        text = digest(thought.text.encode())
        name = digest(prefix, text, place.to_bytes(4, "big"))
        seal = ThoughtSeal(
            model,
            self.organisation,
            prefix,
            *talk.seals,
            text,
            name,
            run.last,
            place,
            start,
            thought.tokens,
            bytes(BULK * thought.tokens),
        )
        return self.sealer.seal(seal), Bindings(at.findings, at.prefixes, ThinkingRun(name, place, start))

    def tokens(self, item: PromptPart) -> int | None:
        """How many tokens the reasoning behind a block is, which its text often does not show."""
        seal = self.sealer.open(_signature(item), ThoughtSeal)
        return None if seal is None else seal.tokens

    def _beginning(self, talk: RequestPrompt) -> tuple[int, tuple[bytes, ...]]:
        """Where reading starts, and the chains that stand there."""
        head = digest(*talk.seals)
        place = last_compaction(talk.items)
        if place < 0:
            return 0, (head,)
        item = talk.items[place]
        own = chained(head, item.piece.digest)
        seal = self.sealer.open(item.block.get("signature"), SummarySeal)
        following = talk.items[place + 1].role if place + 1 < len(talk.items) else ""
        carries_on = (
            seal is not None
            and seal.bound
            and (seal.system, seal.tools) == talk.seals
            and following not in (seal.last_role, "system")
        )
        return place + 1, (*(seal.prefixes if carries_on and seal else ()), own)

    def _check(
        self,
        item: PromptPart,
        talk: RequestPrompt,
        prefixes: tuple[bytes, ...],
        run: ThinkingRun,
        profile: Profile,
    ) -> tuple[ThinkingCheck, ThoughtSeal | None]:
        seal = self.sealer.open(_signature(item), ThoughtSeal)
        if seal is None or seal.text != digest(str(item.block.get("thinking", "")).encode()):
            return ThinkingCheck(item, "", tampered=True, changed="text" if seal else ""), seal
        if profile.thinking.account_bound and seal.organisation != self.organisation:
            return ThinkingCheck(item, "organization_binding_mismatch"), seal
        if not readable(seal.model, profile):
            return ThinkingCheck(item, "model_binding_mismatch"), seal
        if profile.thinking.bound and (changed := _changed(seal, talk, prefixes, run)):
            return ThinkingCheck(item, "prefix_binding_mismatch", changed=changed), seal
        return ThinkingCheck(item, ""), seal


class Thought(Struct, frozen=True):
    """New reasoning as it will be shown, and its true size."""

    text: str
    tokens: int


def readable(maker: str, reader: Profile) -> bool:
    """Whether one model may read another's thinking."""
    if maker == reader.name or maker in OPEN:
        return True
    if maker in READERS:
        return reader.name in READERS[maker]
    return not reader.thinking.bound


def _signature(item: PromptPart) -> object:
    return item.block.get("signature" if item.kind == "thinking" else "data")


def _changed(seal: ThoughtSeal, talk: RequestPrompt, prefixes: tuple[bytes, ...], run: ThinkingRun) -> str:
    if seal.prefix not in prefixes:
        if seal.system != talk.seals[0]:
            return "system"
        return "tools" if seal.tools != talk.seals[1] else "messages"
    if run.last and (seal.before != run.last or run.start < seal.start):
        return "run"
    return ""
