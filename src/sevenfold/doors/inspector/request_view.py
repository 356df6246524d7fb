"""What the page of a request shows: its price, what it was made of, and how it differs from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sevenfold.archive import requests as sent_requests
from sevenfold.archive.ledger import LedgerEntry
from sevenfold.archive.lifetimes import LaneHistory, Lifetime, SentRequest
from sevenfold.archive.profile.labels import SYSTEM, UNLOGGED
from sevenfold.conversation import history
from sevenfold.doors.inspector.session_view import (
    bands_of,
    break_view,
    item_view,
    ledger_view,
    reasons_of,
    why_left,
)
from sevenfold.doors.inspector.shelf import OpenSession
from sevenfold.doors.inspector.wording import Bands, shown, shown_block
from sevenfold.errors import SevenfoldError
from sevenfold.record.decisions import Relayed
from sevenfold.record.redact import mask
from sevenfold.request.watch import Sent

LISTED = 400
"""How many items are listed at most; the rest are counted."""
DIFF_LINES = 400
BYTES_AT_ONCE = 40_000
WATCHED = (
    "This request is another program’s: the gateway passed it on as it was and kept its size, its hash and what "
    "differs, not its bytes. What was said in it is above."
)


def request_view(session: OpenSession, number: int) -> dict[str, Any] | None:
    """The page of the request with this number; None if there is none."""
    lane = session.reader.history.main
    index = place_of(lane, number)
    if index is None:
        return None
    sent = lane.requests[index]
    bands = bands_of(lane)
    previous = lane.requests[index - 1] if index else None
    used = sent.report.used
    parts = sorted(lane.composition(index), key=lambda part: -part[1])
    return {
        "title": shown(session.reader.reader.title, 80) or shown(session.stored.name, 80),
        "request": sent.request,
        "place": index,
        "total": len(lane.requests),
        "newest": lane.requests[-1].request,
        "previous": previous.request if previous else None,
        "next": lane.requests[index + 1].request if index + 1 < len(lane.requests) else None,
        "at": sent.report.at,
        "pause": _pause(previous, sent),
        "model": shown(sent.report.model, 60),
        "record": sent.record,
        "answer": sent.answer,
        "usd": sent.usd,
        "prompt": sent.report.prompt,
        "change": sent.report.prompt - previous.report.prompt if previous else None,
        "billed": {
            "read": used.cache_read_input_tokens,
            "written": used.cache_creation_input_tokens,
            "fresh": used.input_tokens,
            "output": used.output_tokens,
        },
        "prices": _prices(sent),
        "bands": [{"name": band.name, "label": band.label} for band in bands.bands],
        "sums": bands.sums(lane.categories, sent.sizes),
        "items": [item_view(lifetime, bands, tokens) for lifetime, tokens in parts[:LISTED]],
        "itemsTotal": len(parts),
        **_changes(session, lane, index, bands),
        "break": next(
            (
                break_view(lost)
                for lost in session.reader.reader.books.breaks
                if lost.request == sent.request and lost.lane == lane.number
            ),
            None,
        ),
        "decisions": ledger_view(
            [entry for entry in session.reader.history.ledger if entry.request == index]
        )["entries"],
    }


def place_of(lane: LaneHistory, number: int) -> int | None:
    """The place of the request with this number; requests without a known usage have no place."""
    # Numbers grow by one from place to place, but for requests whose usage is unknown.
    for index in range(min(number, len(lane.requests)) - 1, -1, -1):
        if lane.requests[index].request == number:
            return index
        if lane.requests[index].request < number:
            break
    return None


def _pause(previous: SentRequest | None, sent: SentRequest) -> float | None:
    if previous is None or previous.report.at is None or sent.report.at is None:
        return None
    return max(0.0, sent.report.at - previous.report.at)


def _prices(sent: SentRequest) -> dict[str, float] | None:
    """What each kind of token of this request costs, in US dollars for a million."""
    price = sent.report.profile.price(sent.report.prompt)
    if price is None:
        return None
    used = sent.report.used
    lifetime = 3600 if used.cache_creation_1h > used.cache_creation_5m else 300
    return {
        "read": price.read,
        "written": price.write(lifetime),
        "fresh": price.input,
        "output": price.output,
    }


def _changes(session: OpenSession, lane: LaneHistory, index: int, bands: Bands) -> dict[str, Any]:
    """What entered the context since the request before, and what left it."""
    entered: list[Lifetime] = []
    left: list[Lifetime] = []
    unlogged = 0.0
    for lifetime in lane.lifetimes:
        now = lane.contains(lifetime, index)
        then = index > 0 and lane.contains(lifetime, index - 1)
        if lifetime.held.piece.category == UNLOGGED or lifetime.key == SYSTEM:
            unlogged += lifetime.held.tokens if now and not then else 0.0
        elif now and not then:
            entered.append(lifetime)
        elif then and not now:
            left.append(lifetime)
    reasons = reasons_of(session, lane)
    # What left and came back between the two requests did neither.
    stayed = {lifetime.key for lifetime in entered} & {lifetime.key for lifetime in left}
    come = _largest([lifetime for lifetime in entered if lifetime.key not in stayed])
    gone = _largest([lifetime for lifetime in left if lifetime.key not in stayed])
    return {
        "entered": [item_view(lifetime, bands, lifetime.held.tokens) for lifetime in come],
        "left": [
            {
                **item_view(lifetime, bands, lifetime.held.tokens),
                "reason": why_left(reasons, lane, lifetime),
            }
            for lifetime in gone
        ],
        "enteredTotal": len(entered) - len(stayed),
        "leftTotal": len(left) - len(stayed),
        "unlogged": round(unlogged) if index else 0,
    }


def _largest(lifetimes: Sequence[Lifetime]) -> list[Lifetime]:
    return sorted(lifetimes, key=lambda lifetime: -lifetime.held.tokens)[:LISTED]


# -- exact bytes -----------------------------------------------------------------------------------


def bytes_view(session: OpenSession, number: int) -> dict[str, Any] | None:
    """The exact bytes of a request of our own, compared with those of the one before."""
    lane = session.reader.history.main
    index = place_of(lane, number)
    if index is None:
        return None
    sent = lane.requests[index]
    if sent.relayed is not None:
        before = lane.requests[index - 1].relayed if index else None
        return {"known": False, "why": WATCHED, "relayed": _relayed(sent.relayed, before)}
    if sent.record is None:
        return {"known": False, "why": _why_no_bytes(session)}
    try:
        past = history.past(session.archived().log, sent.record)
        _, now = sent_requests.recorded(session.archived().log, sent.record, "")
    except SevenfoldError as error:
        return {"known": False, "why": shown(str(error), 400)}
    previous = lane.requests[index - 1].record if index else None
    view: dict[str, Any] = {
        "known": True,
        "size": len(past.body),
        "sha256": past.record.sha256,
        "epoch": past.record.epoch,
        "predictedUsd": past.record.why.usd if past.record.why else None,
        "promptUsd": past.prompt_usd,
        "parts": _parts(now),
        "comparison": None,
    }
    if previous is not None:
        view["comparison"] = _compared(session, previous, past.body, now)
        if view["comparison"]["known"]:
            decided = [entry for entry in session.reader.history.ledger if entry.request == index]
            view["comparison"]["who"] = who_changed(decided, view["comparison"]["cause"])
    return view


def _relayed(sent: Relayed, previous: Relayed | None) -> dict[str, Any]:
    """What the gateway recorded of a request that it passed on."""
    parts = list(sent.changes)
    if sent.changed_message is not None and "messages" in parts:
        parts[parts.index("messages")] = f"message {sent.changed_message + 1}"
    return {
        "client": shown(sent.client, 60),
        "size": sent.size,
        "before": None if previous is None else previous.size,
        "sha256": sent.sha256,
        "same": previous is not None and previous.sha256 == sent.sha256,
        "parts": [shown(part, 60) for part in parts],
        "milliseconds": sent.milliseconds,
    }


def _why_no_bytes(session: OpenSession) -> str:
    if session.reader.history.own:
        return "This request was made before its bytes were recorded, or by another program."
    return (
        f"{session.stored.tool or 'This tool'} does not record what it sends, so the bytes are not known. "
        "What entered and left the context is above. Start it through sevenfold gateway, and what changed is recorded."
    )


def _parts(sent: Sent) -> list[dict[str, Any]]:
    """The parts of a request in the order of its bytes."""
    marked: dict[tuple[str, int], int] = {}
    for marker in sent.markers:
        marked[marker.level, marker.index] = marked.get((marker.level, marker.index), 0) + 1
    parts = [
        {"level": level, "index": index, "bytes": len(raw), "markers": marked.get((level, index), 0)}
        for level, blocks in (("tools", sent.frame.tools), ("system", sent.frame.system))
        for index, raw in enumerate(blocks)
    ]
    parts += [
        {
            "level": "messages",
            "index": index,
            "role": message.role,
            "bytes": message.size,
            "markers": marked.get(("messages", index), 0),
        }
        for index, message in enumerate(sent.messages)
    ]
    return parts


def _compared(session: OpenSession, previous: int, body: bytes, now: Sent) -> dict[str, Any]:
    try:
        before_past = history.past(session.archived().log, previous)
        _, before = sent_requests.recorded(session.archived().log, previous, "")
    except SevenfoldError as error:
        return {"known": False, "why": shown(str(error), 400)}
    comparison = sent_requests.compare(before, now)
    # The cache sees parts, not bytes, but bytes are what everybody can check.
    same = _common(before_past.body, body)
    lines = comparison.diff.splitlines()
    return {
        "known": True,
        "breaks": comparison.breaks,
        "cause": comparison.cause,
        "part": shown(comparison.part, 120),
        "tokens": comparison.tokens,
        "usd": comparison.usd,
        "also": [shown(part, 120) for part in comparison.also[:20]],
        "same": same,
        "before": len(before_past.body),
        "diff": [shown_block(line) for line in lines[:DIFF_LINES]],
        "diffLines": len(lines),
    }


def who_changed(decided: Sequence[LedgerEntry], cause: str) -> str:
    """Who made a request differ from the one before, by what was decided between the two."""
    kinds = {entry.kind: entry for entry in decided}
    if "change" in kinds:
        return "the program that was watched sent other content"
    for kind in ("compaction", "undo", "redo", "rewind", "clearing", "shown", "snip", "fold", "offload"):
        if kind in kinds:
            return f"a decision on record: {shown(kinds[kind].title, 120).lower()}"
    if "epoch" in kinds:
        reason = shown(kinds["epoch"].detail.rpartition(", ")[0], 120)
        if reason == "system or tools" or cause in ("tool", "tools", "system"):
            return "the program that opened the session, which gave another system prompt or other tools"
        return f"the session itself began anew: {reason}"
    return ""


def _common(first: bytes, second: bytes) -> int:
    """How many bytes two bodies begin with in common."""
    low = 0
    high = min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def body_view(session: OpenSession, number: int) -> tuple[bytes, int] | None:
    """The body of a request of our own, and how many secrets were masked in it; None if it is not known."""
    lane = session.reader.history.main
    index = place_of(lane, number)
    if index is None or lane.requests[index].record is None:
        return None
    body = history.past(session.archived().log, lane.requests[index].record or 0).body
    masked = mask(body.decode(errors="surrogateescape"))
    return (
        (body, 0)
        if not masked.findings
        else (masked.text.encode(errors="surrogateescape"), len(masked.findings))
    )
