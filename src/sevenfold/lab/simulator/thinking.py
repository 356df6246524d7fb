"""Bound thinking: the signature of a thinking block binds it to everything sent before it.

The prefix of a block is the hash chain of system, tools and all earlier blocks, without thinking and cache markers.
Thinking is checked separately: the kept blocks must be an unbroken run of those produced. A signed summary carries the
hash chains of the range it replaced, so that a tail kept after it can continue from there; a summary made at a
threshold starts its own chain, because nothing before it is read.

Signatures need no stored state: each is a small record, packed, authenticated with the simulator's key and encoded as
base64. A restarted simulator with the same key accepts them. Otherwise they do not resemble a provider's.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from sevenfold.lab.simulator.prompt import PromptPart, RequestPrompt, last_compaction
from sevenfold.lab.simulator.tokens import chained, digest
from sevenfold.profiles import Profile

Reason = Literal[
    "tampered", "organization_binding_mismatch", "model_binding_mismatch", "prefix_binding_mismatch", ""
]
FABLES_5_2 = frozenset({"claude-fable-5-2", "claude-mythos-5-2"})
FABLES = FABLES_5_2 | {"claude-fable-5-1", "claude-mythos-5-1"}
READERS = {
    **dict.fromkeys(FABLES_5_2, FABLES_5_2),
    **dict.fromkeys(("claude-fable-5-1", "claude-mythos-5-1", "claude-opus-5-5", "claude-opus-5"), FABLES),
}
"""For each model, which models may read its thinking besides itself."""
OPEN = frozenset({"claude-haiku-5-5"})
"""Models whose thinking every model may read."""
BULK = 3
"""Bytes in a signature for each token of reasoning: four characters, about as in reality."""
_MAC = 16


class ThoughtSeal(Struct, frozen=True, array_like=True, tag="t"):
    """What the signature of a thinking block records."""

    model: str
    organisation: str
    prefix: bytes
    """The hash of everything sent before the block, except thinking."""
    system: bytes
    tools: bytes
    text: bytes
    """The hash of the text that was shown."""
    name: bytes
    before: bytes
    """The name of the previous thinking block; empty for the first."""
    place: int
    """How many blocks of the same run come before it."""
    start: int
    """The place of the first block of the run that was still in the request."""
    tokens: int
    bulk: bytes = b""
    """Padding: real signatures grow with the reasoning behind them, and estimates rely on that."""


class SummarySeal(Struct, frozen=True, array_like=True, tag="c"):
    """What the signature of a compaction block records about the messages it summarises."""

    model: str
    organisation: str
    bound: bool
    """Whether its model binds thinking; only then can kept thinking stay valid."""
    content: bytes
    changes: bytes
    """The hash of its `tool_changes`."""
    system: bytes
    tools: bytes
    prefixes: tuple[bytes, ...]
    """The hashes of the whole range, one for each prefix to which thinking after it may be bound."""
    last_role: str


class OpaqueSeal(Struct, frozen=True, array_like=True, tag="o"):
    """Reasoning or a summary in an encrypted item; only its model and organisation can read it."""

    model: str
    organisation: str
    summary: str


Seal = TypeVar("Seal", ThoughtSeal, SummarySeal, OpaqueSeal)


class ThinkingCheck(Struct, frozen=True):
    """The result of checking one thinking block."""

    item: PromptPart
    reason: Reason
    """Why the block cannot be read; empty if it can."""
    changed: str = ""
    """What differs from when the block was made: ``text``, ``system``, ``tools``, ``messages`` or ``run``."""


class ThinkingRun(Struct, frozen=True):
    """The run of thinking kept so far: its last block and where it starts."""

    last: bytes = b""
    place: int = -1
    start: int = 0


class Bindings(Struct, frozen=True):
    """The checks of a prompt's thinking, and what new thinking will be bound to."""

    checks: tuple[ThinkingCheck, ...]
    prefixes: tuple[bytes, ...]
    run: ThinkingRun


class Binder:
    """Makes and reads signatures, and checks and signs thinking with them, for one account."""

    def __init__(self, key: bytes, organisation: str) -> None:
        self._key = key
        self.organisation = organisation

    def seal(self, seal: ThoughtSeal | SummarySeal | OpaqueSeal) -> str:
        """Encode a record as a signature."""
        packed = msgspec.msgpack.encode(seal)
        return b64encode(self._mac(packed) + packed).decode()

    def open(self, text: object, kind: type[Seal]) -> Seal | None:
        """Decode the record in a signature; None if it is of another kind or was altered."""
        try:
            raw = b64decode(str(text), validate=True)
            if not hmac.compare_digest(self._mac(raw[_MAC:]), raw[:_MAC]):
                return None
            return msgspec.msgpack.decode(raw[_MAC:], type=kind)
        except (binascii.Error, ValueError, msgspec.DecodeError):
            return None

    def _mac(self, packed: bytes) -> bytes:
        return hmac.digest(self._key, packed, sha256)[:_MAC]

    def examine(self, prompt: RequestPrompt, profile: Profile) -> Bindings:
        """Check every thinking block after the last summary."""
        checks: list[ThinkingCheck] = []
        begin, prefixes = self._beginning(prompt)
        run = ThinkingRun()
        for item in prompt.items[begin:]:
            if not item.is_thinking:
                prefixes = tuple(chained(prefix, item.digest) for prefix in prefixes)
                continue
            seal = self.open(_signature(item), ThoughtSeal)
            changed = _changed(seal, prompt, prefixes, run) if seal and profile.thinking.bound else ""
            reason, changed = self._problem(item, seal, changed, profile)
            checks.append(ThinkingCheck(item, reason, changed))
            if seal is not None and not reason:
                run = ThinkingRun(seal.name, seal.place, run.start if run.last else seal.place)
        return Bindings(tuple(checks), prefixes, run)

    def sign(
        self, shown: str, tokens: int, bindings: Bindings, prompt: RequestPrompt, model: str
    ) -> tuple[str, Bindings]:
        """Sign new thinking, whose visible text is ``shown``; returns the signature and the bindings after it."""
        run = bindings.run
        prefix = bindings.prefixes[-1]
        index = run.place + 1 if run.last else 0
        start = run.start if run.last else index
        text = digest(shown.encode())
        name = digest(prefix, text, index.to_bytes(4, "big"))
        origin = (model, self.organisation, prefix, *prompt.seals)
        bulk = bytes(BULK * tokens)
        seal = ThoughtSeal(*origin, text, name, run.last, index, start, tokens, bulk)
        return self.seal(seal), Bindings(
            bindings.checks, bindings.prefixes, ThinkingRun(name, index, start)
        )

    def tokens(self, item: PromptPart) -> int | None:
        """The tokens of the full reasoning behind a block, often hidden from its text; None if its signature is bad."""
        seal = self.open(_signature(item), ThoughtSeal)
        return None if seal is None else seal.tokens

    def _beginning(self, prompt: RequestPrompt) -> tuple[int, tuple[bytes, ...]]:
        """The index of the first item that is read, and the possible hashes of everything before it."""
        head = digest(*prompt.seals)
        summary_index = last_compaction(prompt.items)
        if summary_index < 0:
            return 0, (head,)
        item = prompt.items[summary_index]
        seal = self.open(item.block.get("signature"), SummarySeal)
        following = prompt.items[summary_index + 1].role if summary_index + 1 < len(prompt.items) else ""
        carries_on = (
            seal is not None
            and seal.bound
            and (seal.system, seal.tools) == prompt.seals
            and following not in (seal.last_role, "system")
        )
        return summary_index + 1, (
            *(seal.prefixes if carries_on and seal else ()),
            chained(head, item.digest),
        )

    def _problem(
        self, item: PromptPart, seal: ThoughtSeal | None, changed: str, profile: Profile
    ) -> tuple[Reason, str]:
        """Why a block cannot be read, and what differs from when it was made."""
        if seal is None or seal.text != digest(str(item.block.get("thinking", "")).encode()):
            return "tampered", "text" if seal else ""
        if profile.thinking.account_bound and seal.organisation != self.organisation:
            return "organization_binding_mismatch", ""
        if not readable(seal.model, profile):
            return "model_binding_mismatch", ""
        return "prefix_binding_mismatch" if changed else "", changed


def readable(maker: str, reader: Profile) -> bool:
    """Whether one model may read another's thinking."""
    if maker == reader.name or maker in OPEN:
        return True
    return reader.name in READERS[maker] if maker in READERS else not reader.thinking.bound


def _signature(item: PromptPart) -> object:
    return item.block.get("signature" if item.kind == "thinking" else "data")


def _changed(
    seal: ThoughtSeal, prompt: RequestPrompt, prefixes: tuple[bytes, ...], run: ThinkingRun
) -> str:
    if seal.prefix not in prefixes:
        if seal.system != prompt.seals[0]:
            return "system"
        return "tools" if seal.tools != prompt.seals[1] else "messages"
    broken = run.last and (seal.before != run.last or run.start < seal.start)
    return "run" if broken else ""
