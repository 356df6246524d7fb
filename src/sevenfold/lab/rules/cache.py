"""Rules about cache markers: how many, where, and in which order of lifetimes.

Markers are counted and ordered over tools, then system, then messages. A marker inside a tool result's
content counts as one of the result. If a request asks for automatic caching, the server puts its marker
on the last block that can carry one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from sevenfold.lab.rules.base import Json, Refusal, RuleFacts, blocks_of, inner_blocks, kind_of, placed
from sevenfold.record.blocks import THINKING

LIFETIMES = ("5m", "1h")


Mark = tuple[str, str]
"""The path of a block with a `cache_control`, and the lifetime it asks for."""


class Prompt(Struct, frozen=True):
    """The three parts of a request that can contain markers, and its request-level `cache_control`, if any."""

    messages: Sequence[Json]
    tools: Sequence[Json] = ()
    system: Sequence[Json] | str = ()
    automatic: Json | None = None


def cache_refusals(prompt: Prompt, facts: RuleFacts) -> Iterator[Refusal]:
    """Every reason why the server would refuse the cache markers."""
    blocks = list(_blocks(prompt))
    yield from _badly_placed(blocks)
    marks: list[Mark] = []
    for path, block, _ in blocks:
        marks += [(path, lifetime(control)) for control in controls(block)]
    if prompt.automatic is not None and (last := last_markable(prompt)):
        ttl = lifetime(prompt.automatic)
        standing = dict(reversed(marks)).get(last)
        if standing is None:
            marks.append((last, ttl))
        elif standing != ttl:
            message = f"the last cacheable block already has a marker with ttl='{standing}'"
            yield Refusal.at("cache_control", message, "cache_control_automatic")
    if len(marks) > facts.markers:
        limit = f"A maximum of {facts.markers} blocks with cache_control may be provided."
        yield Refusal("cache_control", f"{limit} Found {len(marks)}.", "cache_control_count")
    yield from _wrong_order(marks)


def controls(block: Json) -> list[Any]:
    """The `cache_control` of a block and, for a tool result, of the blocks inside it."""
    all_controls = (carrier.get("cache_control") for carrier in (block, *inner_blocks(block)))
    return [control for control in all_controls if control is not None]


def last_markable(prompt: Prompt) -> str:
    """The path of the last block that can carry an automatic marker; empty if there is none."""
    for path, block, vanishes in reversed(list(_blocks(prompt))):
        if kind_of(block) not in THINKING and not _is_empty_text(block) and not vanishes:
            return path
    return ""


def lifetime(control: Any) -> str:
    """The lifetime a `cache_control` asks for."""
    return str(control.get("ttl") or "5m") if isinstance(control, dict) else "5m"


def _blocks(prompt: Prompt) -> Iterator[tuple[str, Json, bool]]:
    """Yield every block with its path, and whether the next user message clears it."""
    for index, tool in enumerate(prompt.tools):
        yield f"tools.{index}", tool, False
    for index, block in enumerate(blocks_of({"content": prompt.system})):
        yield f"system.{index}", block, False
    for placed_block in placed(enumerate(prompt.messages)):
        vanishes = prompt.messages[placed_block.message].get("clear_at") == "next_user_message"
        yield placed_block.path, placed_block.block, vanishes


def _badly_placed(blocks: list[tuple[str, Json, bool]]) -> Iterator[Refusal]:
    for path, block, vanishes in blocks:
        control = block.get("cache_control")
        if control is None:
            continue
        kind = kind_of(block)
        location = f"{path}.{kind}.cache_control"
        if kind in THINKING or vanishes:
            yield Refusal.at(location, "Extra inputs are not permitted", "cache_control_place")
        elif _is_empty_text(block):
            message = "cache_control cannot be set for empty text blocks"
            yield Refusal.at(f"{path}.text", message, "cache_control_empty")
        elif not isinstance(control, dict) or control.get("type") != "ephemeral":
            yield Refusal(location, f"{location}.type: Input should be 'ephemeral'", "cache_control_form")
        elif control.get("ttl") not in (None, *LIFETIMES):
            yield Refusal(location, f"{location}.ttl: Input should be '5m' or '1h'", "cache_control_form")


def _wrong_order(marks: list[Mark]) -> Iterator[Refusal]:
    short = False
    for path, ttl in marks:
        if ttl == "1h" and short:
            yield Refusal.at(
                f"{path}.cache_control.ttl",
                "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control "
                "block. Note that blocks are processed in the following order: tools, system, messages.",
                "cache_control_order",
            )
        short = short or ttl == "5m"


def _is_empty_text(block: Json) -> bool:
    return kind_of(block) == "text" and not block.get("text")
