"""The content of sessions: a message, the life of an item, and what a search finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sevenfold.archive.export import speaker_of
from sevenfold.archive.lifetimes import LaneHistory, Lifetime
from sevenfold.doors.inspector.session_view import bands_of, item_view, reasons_of, why_left
from sevenfold.doors.inspector.shelf import OpenSession
from sevenfold.doors.inspector.wording import shown, shown_block
from sevenfold.record import blocks, entries
from sevenfold.record.blocks import Block, ToolUse
from sevenfold.record.entries import Said

CHARACTERS = 40_000
"""How much of a block is shown."""
HITS = 20
LONGEST_EXCERPT = 600


def record_view(session: OpenSession, uuid: str) -> dict[str, Any] | None:
    """A message with its blocks; None if there is none with this id."""
    raw = session.reader.record(uuid)
    entry = entries.read(raw) if raw is not None else None
    if not isinstance(entry, Said):
        return None
    return {
        "record": shown(uuid, 120),
        "speaker": speaker_of(entry),
        "model": shown(entry.model, 60),
        "at": shown(entry.timestamp, 40),
        "blocks": [_block(block) for block in entry.blocks],
    }


def _block(block: Block) -> dict[str, Any]:
    match block.body():
        case ToolUse(name=name, input=given):
            return _cut(f"call of {shown(name, 80)}", bytes(given).decode(errors="replace"))
        case _:
            text = blocks.words_of(block)
            if not text and block.kind not in ("text", "tool_result"):
                text = bytes(block.raw)[: 2 * CHARACTERS].decode(errors="replace")
            return _cut(block.kind.replace("_", " "), text)


def _cut(kind: str, text: str) -> dict[str, Any]:
    return {
        "kind": shown(kind, 100),
        "text": shown_block(text[: CHARACTERS + 4_000])[:CHARACTERS],
        "characters": len(text),
        "cut": max(0, len(text) - CHARACTERS),
    }


def life_view(session: OpenSession, uuid: str) -> dict[str, Any] | None:
    """When the parts of a message entered and left the context, why, and what carrying them cost."""
    lane = session.reader.history.main
    stays = [stay for stay in lane.lifetimes if stay.record == uuid and stay.counted]
    if not stays:
        return None
    bands = bands_of(lane)
    reasons = reasons_of(session, lane)
    return {
        "record": shown(uuid, 120),
        "stays": [
            {
                **item_view(stay, bands, stay.held.tokens),
                "entered": _number(lane, stay.entered),
                "left": None if stay.left is None else _number(lane, stay.left - 1),
                "reason": why_left(reasons, lane, stay),
                "prompts": stay.prompts(len(lane.requests)),
                "usd": carrying_cost(lane, stay),
            }
            for stay in stays
        ],
        "stored": _stored(session, uuid),
        "recalled": [_number(lane, place - 1) for place in session.reader.history.recalled.get(uuid, ())],
    }


def carrying_cost(lane: LaneHistory, stay: Lifetime) -> float | None:
    """The part of the prompts' cost that is a piece's by its share of their tokens; None if no price is known."""
    cost = 0.0
    known = False
    for sent in lane.requests[stay.entered : stay.left]:
        price = sent.report.profile.price(sent.report.prompt)
        if price is None or not sent.report.prompt:
            continue
        used = sent.report.used
        known = True
        paid = used.cache_read_input_tokens * price.read + used.input_tokens * price.input
        paid += used.cache_creation_5m * price.write(300) + used.cache_creation_1h * price.write(3600)
        cost += stay.held.tokens / used.prompt * paid / 1e6 if used.prompt else 0.0
    return cost if known else None


def _number(lane: LaneHistory, place: int) -> int:
    """The number of the request at a place."""
    return lane.requests[min(max(place, 0), len(lane.requests) - 1)].request


def _stored(session: OpenSession, uuid: str) -> bool:
    """Whether the whole of it is on disk and only a preview was in the context."""
    raw = session.reader.record(uuid)
    entry = entries.read(raw) if raw is not None else None
    return isinstance(entry, Said) and bool(entry.stored)


def recall_view(session: OpenSession, query: str, kinds: Sequence[str] = ()) -> dict[str, Any]:
    """What a search over the whole session finds among records of these kinds, and whether it is in the context."""
    if not query.strip():
        return {"query": "", "hits": []}
    lane = session.reader.history.main
    present = {stay.record for stay in lane.lifetimes if stay.left is None}
    left: dict[str, int] = {}
    for stay in lane.lifetimes:
        if stay.left is not None and stay.counted:
            left[stay.record] = max(left.get(stay.record, 0), _number(lane, stay.left - 1))
    # Also what matches only in part: a person sees at a glance whether it is meant.
    hits = session.archived().recall_index().search(query, kind=kinds or None, k=HITS, around=0, weak=True)
    return {
        "query": shown(query, 200),
        "hits": [
            {
                "record": hit.uuid,
                "kind": shown(hit.kind, 40),
                "tool": shown(hit.tool, 40),
                "at": shown(hit.timestamp, 40),
                "excerpt": shown(hit.excerpt, LONGEST_EXCERPT),
                "inContext": hit.uuid in present,
                "lastRequest": None if hit.uuid in present else left.get(hit.uuid),
                "weak": hit.weak,
            }
            for hit in hits
        ],
    }
