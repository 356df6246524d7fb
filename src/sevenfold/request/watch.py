"""Watching the prompt cache: what a request will lose, before it is sent; and what was lost and why, afterwards.

The parts of a request (model, settings, each tool, each system block, each message) are kept as they were last sent,
so a change is found by comparing the parts, and the first one that changed is named. A loss is expected if it was
announced (a compaction, a clearing) or if the cache had expired; any other is a break, reported with its cause, its
size in tokens and money, and a readable diff. Some providers also drop cached messages although they are sent as
before, such as when the first image joins them: `sevenfold.request.cache_rules` foretells those losses.

A `Watched` is immutable: `look` before sending and `judge` after the answer return the next one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from itertools import chain, groupby, islice
from posixpath import commonprefix

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sevenfold.events import CacheBroke
from sevenfold.profiles import Profile
from sevenfold.record.blocks import read_field
from sevenfold.record.decoding import NOT_JSON
from sevenfold.record.usage import Usage
from sevenfold.record.wire import Message
from sevenfold.request import cache_rules
from sevenfold.request.cache_rules import RuleLoss
from sevenfold.request.frame import Frame, Lifetimes, Marker, tool_name

SHARE = 0.05
"""A drop by a smaller share of the cached tokens is not reported."""
TOKENS = 2_000
"""A drop by fewer tokens is not reported."""
EXPIRED = "expired"
UNEXPLAINED = "unexplained"
"""Causes of a loss that no changed part and no decision explains."""
SECONDS = {"5m": 300, "1h": 3_600}
_DIFF_LINES = 40
_SENTENCE_END = re.compile(r"(?<=[.!?;:]) +")


class Sent(Struct, frozen=True):
    """A request as the cache sees it."""

    frame: Frame
    messages: tuple[Message, ...]
    lifetimes: Lifetimes
    at: float
    markers: tuple[Marker, ...] = ()

    @property
    def bytes(self) -> int:
        """The total size of its parts; at least 1."""
        fixed = sum(len(raw) for _, raw in self.frame.parts())
        return fixed + sum(message.size for message in self.messages) or 1

    def marked(self) -> set[str]:
        """The names of the fixed parts that end in a cache marker."""
        ends = {("system", index): f"system block {index + 1}" for index in range(len(self.frame.system))}
        ends |= {("tools", index): f"tool {tool_name(raw)}" for index, raw in enumerate(self.frame.tools)}
        return {ends[mark.level, mark.index] for mark in self.markers if mark.level != "messages"}


class Change(Struct, frozen=True):
    """The first part that changed."""

    cause: str
    """model, betas, setting, tool, tool_order, system, lifetime or message; or image, citations, reasoning: a rule of
    the provider's"""
    part: str
    was: bytes = b""
    now: bytes = b""
    kept: float = 0.0
    """The share of the old request, in bytes, that can still be read from the cache."""
    place: str = ""
    """Where in the system prompt it is: its section or its block."""

    @property
    def words(self) -> str:
        """What changed, as a person reads it."""
        if self.cause != "system":
            return self.part
        added, removed = _changed_characters(_text(self.was), _text(self.now))
        location = f", in {self.place}" if self.place else ""
        return f"system prompt: +{added:,} −{removed:,} characters{location}"

    def diff(self) -> str:
        """A readable diff of the part; empty if none of its bytes changed."""
        if self.was == self.now:
            return ""
        split = _sentences if self.cause == "system" else _lines
        lines = difflib.unified_diff(split(self.was), split(self.now), "was", "now", lineterm="", n=1)
        # A sentence that is repeated must not fill all the lines.
        distinct = (line for line, _ in groupby(lines))
        shown = [line[:400] for line in islice(distinct, _DIFF_LINES)]
        return "\n".join([f"{self.words}:", *shown])


class Forecast(Struct, frozen=True):
    """What a request that is about to be sent will find in the cache."""

    change: Change | None = None
    expired: bool = False
    tokens: int = 0
    """Cached tokens that must be written again."""
    usd: float | None = None
    announced: str = ""


class Watched(Struct, frozen=True):
    """What is known about the cache of one prefix."""

    sent: Sent | None = None
    cached: int = 0
    """Tokens that the last request left in the cache."""
    forecast: Forecast = Forecast()
    pending: Sent | None = None
    announced: str = ""

    def announce(self, reason: str) -> Watched:
        """Announce that a decision will change what was sent, so that the loss that follows is expected."""
        return replace(self, announced=reason)

    def up_to(self, messages: int) -> Watched:
        """The part of it that a request with only the first ``messages`` messages can read."""
        if self.sent is None or messages >= len(self.sent.messages):
            return self
        shorter = replace(self.sent, messages=self.sent.messages[:messages])
        return replace(self, sent=shorter, cached=round(self.cached * shorter.bytes / self.sent.bytes))

    def resume(self, sent: Sent | None, usage: Usage | None) -> Watched:
        """Continue from the last request of an earlier process, if what it sent and left in the cache is known."""
        if sent is None or usage is None or self.sent is not None:
            return self
        left_cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        return replace(self, sent=sent, cached=left_cached)

    def look(self, sending: Sent, profile: Profile) -> Watched:
        """Before sending: find what changed, and what that will cost."""
        last_sent = self.sent
        if last_sent is None or not self.cached:
            return replace(self, pending=sending, forecast=Forecast(announced=self.announced))
        change = first_loss(last_sent, sending, profile)
        expired = sending.at - last_sent.at > SECONDS.get(last_sent.lifetimes.tail, 300)
        lost = self.cached if expired else round(self.cached * (1 - change.kept)) if change else 0
        usd = rewrite_usd(lost, sending.lifetimes, profile)
        return replace(self, pending=sending, forecast=Forecast(change, expired, lost, usd, self.announced))

    def judge(
        self, usage: Usage, profile: Profile, *, keeps: bool = True
    ) -> tuple[Watched, CacheBroke | None]:
        """After the answer: check whether less was read than the last request left, and if so, why.

        ``keeps`` is False for a fork that shares this prefix and writes no tail: the next request does not extend what
        it sent.
        """
        sending = self.pending
        last_sent = self.sent
        if sending is None:
            return self, None
        fall = self.cached - usage.cache_read_input_tokens
        cache_break = None
        if last_sent is not None and fall > TOKENS and fall > SHARE * self.cached:
            cache_break = self._explain(fall, sending, last_sent, profile)
        if not keeps and last_sent is not None:
            refreshed = replace(last_sent, at=sending.at) if cache_break is None else last_sent
            unchanged = replace(self, sent=refreshed, pending=None, forecast=Forecast(), announced="")
            return unchanged, cache_break
        left_cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        return Watched(sending, left_cached), cache_break

    def _explain(self, fall: int, sending: Sent, last_sent: Sent, profile: Profile) -> CacheBroke:
        change = self.forecast.change
        elapsed = sending.at - last_sent.at
        part_name = change.words if change else ""
        diff = ""
        if self.forecast.expired:
            # Nothing was left that a decision or a change could have lost.
            cause = EXPIRED
            expected = True
            diff = change.diff() if change and not self.announced else ""
        elif self.announced:
            cause = self.announced
            expected = True
        elif change:
            cause = change.cause
            expected = False
            diff = change.diff()
        else:
            lifetime = SECONDS.get(last_sent.lifetimes.tail, 300)
            cause = UNEXPLAINED
            expected = False
            diff = (
                f"all that was sent before was sent again unchanged, {elapsed:,.0f} s after the last request and "
                f"within the cache's lifetime of {lifetime:,} s: the likely cause is on the provider's side"
            )
        usd = rewrite_usd(fall, sending.lifetimes, profile)
        return CacheBroke(
            cause=cause, part=part_name, tokens=fall, usd=usd, elapsed=elapsed, expected=expected, diff=diff
        )


def first_loss(last_sent: Sent, sending: Sent, profile: Profile) -> Change | None:
    """The earliest place behind which a request cannot read the cache of the one before; None if it can read all."""
    change = first_change(last_sent, sending)
    if change is not None and change.cause != "message":
        return change
    rule = cache_rules.first_loss(last_sent.messages, sending.messages, profile)
    if rule is None:
        return change
    share = _kept_by_rule(last_sent, rule) / last_sent.bytes
    if change is not None and change.kept <= share:
        return change
    return Change(rule.cause, rule.part, kept=share)


def _kept_by_rule(last_sent: Sent, rule: RuleLoss) -> int:
    """How many bytes stay cached: up to a message, or else up to the last marker that the rule spares."""
    marked = last_sent.marked()
    passed = 0
    safe = 0
    for name, raw in last_sent.frame.parts():
        passed += len(raw)
        if name in marked and (rule.keeps_system or _cause(name) != "system"):
            safe = passed
    if not rule.messages:
        return safe
    return passed + sum(message.size for message in last_sent.messages[: rule.messages])


def first_change(last_sent: Sent, sending: Sent) -> Change | None:
    """The first part in which a request does not extend the one before it; None if it extends it."""
    parts_before = last_sent.frame.parts()
    parts = sending.frame.parts()
    marked = last_sent.marked()
    passed = safe = 0
    for index, (name, raw) in enumerate(parts_before):
        named_part = parts[index] if index < len(parts) else ("", b"")
        if named_part != (name, raw):
            change = _section_change(last_sent.frame, sending.frame) if _cause(name) == "system" else None
            return replace(change or _frame_change(parts_before, parts, index), kept=safe / last_sent.bytes)
        passed += len(raw)
        safe = passed if name in marked else safe
    if len(parts) > len(parts_before):
        name, raw = parts[len(parts_before)]
        return Change(_cause(name), f"{name} was added", b"", raw, safe / last_sent.bytes, _block(name))
    if last_sent.lifetimes != sending.lifetimes:
        return Change("lifetime", f"lifetime {last_sent.lifetimes.tail} became {sending.lifetimes.tail}")
    for index, message in enumerate(last_sent.messages):
        later = sending.messages[index] if index < len(sending.messages) else None
        if later is None or not _extends(message, later, last=index == len(last_sent.messages) - 1):
            raw = later.raw if later else b""
            extended = passed + sum(earlier.size for earlier in last_sent.messages[:index])
            kept_bytes = extended if index else safe
            return Change("message", f"message {index + 1}", message.raw, raw, kept_bytes / last_sent.bytes)
    return None


def _extends(message: Message, later: Message, *, last: bool) -> bool:
    if later is message or (later.role, later.content) == (message.role, message.content):
        return True
    parts = later.parts[: len(message.parts)]
    return last and later.role == message.role and parts == message.parts


def _frame_change(
    parts_before: Sequence[tuple[str, bytes]], parts_now: Sequence[tuple[str, bytes]], index: int
) -> Change:
    name, raw = parts_before[index]
    tools_before = [named_part for named_part in parts_before if named_part[0].startswith("tool ")]
    tools_now = [named_part for named_part in parts_now if named_part[0].startswith("tool ")]
    is_reordered = tools_before != tools_now and sorted(tools_before) == sorted(tools_now)
    if name.startswith("tool ") and is_reordered:
        return Change("tool_order", "the order of tools")
    later = dict(parts_now).get(name)
    if later is None:
        return Change(_cause(name), f"{name} is gone", raw, place=_block(name))
    if later == raw:
        added = parts_now[index][0]
        return Change(_cause(added), f"{added} was added", b"", parts_now[index][1], place=_block(added))
    return Change(_cause(name), name, raw, later, place=_block(name))


def _section_change(frame_before: Frame, frame_now: Frame) -> Change | None:
    """The section of the system prompt that changed, if its sections are known."""
    later = dict(frame_now.sections)
    for name, text in frame_before.sections:
        if later.get(name) != text:
            part_name = f"system section {name}" + ("" if name in later else " is gone")
            now_words = later.get(name, "").encode()
            return Change("system", part_name, text.encode(), now_words, place=f"section {name}")
    added = (
        [name for name in later if name not in dict(frame_before.sections)] if frame_before.sections else []
    )
    if not added:
        return None
    part_name = f"system section {added[0]} was added"
    location = f"section {added[0]}"
    return Change("system", part_name, b"", later[added[0]].encode(), place=location)


def _cause(name: str) -> str:
    return name.split(" ", 1)[0]


def _block(name: str) -> str:
    return name.removeprefix("system ") if _cause(name) == "system" else ""


def rewrite_usd(tokens: int, lifetimes: Lifetimes, profile: Profile) -> float | None:
    """The extra cost of writing tokens to the cache instead of reading them from it."""
    price = profile.price(tokens)
    if price is None:
        return None
    return tokens * (price.write(SECONDS.get(lifetimes.tail, 300)) - price.read) / 1e6


def _lines(raw: bytes) -> list[str]:
    try:
        return msgspec.json.format(raw, indent=1).decode(errors="replace").splitlines()
    except NOT_JSON:
        return raw.decode(errors="replace").splitlines()


def _text(raw: bytes) -> str:
    """The text of a system block, or of a section."""
    try:
        return read_field(raw, "text") or raw.decode(errors="replace")
    except msgspec.MsgspecError:
        return raw.decode(errors="replace")


def _sentences(raw: bytes) -> list[str]:
    """The text in lines of a sentence each, so that a change in a prompt of one long line can be seen."""
    return list(chain.from_iterable(map(_SENTENCE_END.split, _text(raw).splitlines())))


def _changed_characters(old: str, new: str) -> tuple[int, int]:
    """How many characters were added and removed: line by line, and in a changed line from its first to its last."""
    lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    added = removed = 0
    for tag, start, end, later_start, later_end in difflib.SequenceMatcher(None, *lines).get_opcodes():
        if tag == "equal":
            continue
        old_text = "".join(lines[0][start:end])
        new_text = "".join(lines[1][later_start:later_end])
        head = len(commonprefix([old_text, new_text]))
        tail = len(commonprefix([old_text[head:][::-1], new_text[head:][::-1]]))
        added += len(new_text) - head - tail
        removed += len(old_text) - head - tail
    return added, removed
