"""What the page of a session shows."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.archive.ledger import LedgerEntry
from sevenfold.archive.lifetimes import LaneHistory, Lifetime
from sevenfold.archive.log_reader import session_key
from sevenfold.archive.profile.figures import CacheBreak, Shrinking
from sevenfold.archive.profile.labels import RESULT, SYSTEM, UNLOGGED
from sevenfold.archive.sessions import project_name
from sevenfold.doors.inspector.idle_view import idle_view
from sevenfold.doors.inspector.orders import why_not
from sevenfold.doors.inspector.shelf import OpenSession
from sevenfold.doors.inspector.wording import (
    REMEDIES,
    RESULTS_SHOWN,
    Bands,
    cause_in_words,
    money,
    named,
    plural,
    shown,
    times,
    tokens_in_words,
    tool_digest,
)
from sevenfold.stores.home import SessionFiles

DRAWN = 4000
"""How many requests are drawn one by one; of more, `BUCKETS` are sent, each the largest of its neighbours."""
BUCKETS = 2000
ITEMS = 30
LEFT = 60
LEDGER = 400
"""How many of each are listed at most."""


def bands_of(lane: LaneHistory) -> Bands:
    """The bands of a session: the tools whose results were carried most have one each."""
    carried: Counter[str] = Counter()
    step = max(1, len(lane.requests) // 500)
    for sent in lane.requests[::step]:
        for category, tokens in zip(lane.categories, sent.sizes, strict=False):
            if category.startswith(RESULT):
                carried[category.removeprefix(RESULT)] += round(tokens)
    return Bands(tool for tool, _ in carried.most_common(RESULTS_SHOWN))


def named_bands(lane: LaneHistory, digests: Sequence[str]) -> Bands:
    """The bands that a page draws, which names its tools by their digests."""
    tools = (name.removeprefix(RESULT) for name in lane.categories if name.startswith(RESULT))
    known = {tool_digest(tool): tool for tool in tools}
    return Bands(known[digest] for digest in digests if digest in known)


def session_view(session: OpenSession, *, running: bool) -> dict[str, Any]:
    """Everything but what is asked for by itself."""
    reader = session.reader
    lane = reader.history.main
    bands = bands_of(lane)
    items = dearest(lane, ITEMS)
    return {
        "key": session.key,
        "title": shown(reader.reader.title, 160) or shown(session.stored.name, 80),
        "tool": session.stored.tool or "File",
        "name": shown(session.stored.name, 80),
        "project": shown(project_name(reader.reader.project), 60) if reader.reader.project else "",
        "size": reader.size,
        "running": running,
        "own": reader.history.own,
        "cursor": f"{len(lane.requests)}:{session.mark(len(lane.requests))}",
        "bands": msgspec.to_builtins(bands.bands),
        "tools": bands.tools,
        "head": head_view(session, items),
        "series": series_view(lane, bands),
        "breaks": [break_view(lost) for lost in breaks_of(session)],
        "marks": marks_view(session),
        "items": items_view(items, bands),
        "left": left_view(lane, bands, session),
        "ledger": ledger_view(reader.history.ledger),
        "readOnly": why_not(session.stored.path, session.stored.tool),
        "agents": agents_view(session),
    }


def head_view(session: OpenSession, items: Sequence[CarriedItem] | None = None) -> dict[str, Any]:
    """The figures at the top, which change with every request; without the dearest ``items``, no findings in words."""
    reader = session.reader
    books = reader.reader.books
    lane = reader.history.main
    lanes = [history.sums for history in reader.history.lanes.values()]
    paid = sum(sums.usd for sums in lanes)
    engine = sum(report.used.cost(report.profile) or 0.0 for report in books.engine_reports)
    lost = sum(broken.cost_usd or 0.0 for broken in books.breaks)
    prompts = sum(sums.prompt for sums in lanes)
    read = sum(sums.read for sums in lanes)
    models: Counter[str] = Counter()
    for sums in lanes:
        models.update(sums.models)
    requests = sum(len(history.requests) for history in reader.history.lanes.values())
    window, source = books.window_of(models)
    newest = lane.requests[-1] if lane.requests else None
    return {
        "models": [shown(model, 60) for model, count in models.most_common() if count],
        "started": books.first,
        "ended": books.last,
        "records": reader.history.records,
        "requests": len(lane.requests),
        "sideRequests": requests - len(lane.requests),
        "engineCalls": len(books.engine_reports),
        "engineUsd": engine,
        "agentsUsd": sum(run.end.usd or 0.0 for run in reader.history.agents.values() if run.end),
        "usd": paid + engine if any(sums.priced for sums in lanes) else None,
        "lostUsd": lost,
        "breaks": len(books.breaks),
        "readShare": read / prompts if prompts else 0.0,
        "now": newest.report.prompt if newest else 0,
        "peak": lane.sums.peak,
        "window": window,
        "windowSource": source,
        "damaged": books.damaged,
        "findings": None if items is None else findings(session, paid + engine, lost, items),
        "idle": idle_view(lane, books.compactions),
    }


def findings(
    session: OpenSession, paid: float, lost: float, items: Sequence[CarriedItem]
) -> list[dict[str, Any]]:
    """Up to four sentences: what was lost and why, what dominates, the dearest of the items, compactions."""
    lane = session.reader.history.main
    findings = []
    breaks = breaks_of(session)
    if breaks:
        findings.append(_lost_finding(breaks, paid, lost))
    findings += _dominating(lane)
    for item in items[:1]:
        piece = item.newest.held.piece
        what = shown(named(piece), 60) or piece.category.replace("_", " ")
        findings.append(
            {
                "level": "note",
                "strong": f"Dearest single item: “{what}”",
                "text": f" {item.tokens:,.0f} tokens, sent {times(item.prompts)}.",
                "item": item.newest.record,
            }
        )
    compactions = [event for event in session.reader.reader.books.compactions if not event.lane]
    if compactions:
        newest = compactions[-1]
        sizes = ""
        if newest.tokens_before and newest.tokens_after is not None:
            previous = tokens_in_words(newest.tokens_before)
            sizes = f", the last from {previous} to {tokens_in_words(newest.tokens_after)} tokens"
        findings.append(
            {"level": "note", "strong": plural(len(compactions), "compaction"), "text": f"{sizes}."}
        )
    return findings


def _lost_finding(breaks: Sequence[CacheBreak], paid: float, lost: float) -> dict[str, Any]:
    by_cause: dict[str, list[CacheBreak]] = {}
    for broken in breaks:
        by_cause.setdefault(broken.cause, []).append(broken)
    worst = max(
        by_cause, key=lambda cause: (sum(broken.cost_usd or 0.0 for broken in by_cause[cause]), cause)
    )
    dearest_break = max(breaks, key=lambda broken: (broken.cost_usd or 0.0, broken.tokens))
    cost = sum(broken.cost_usd or 0.0 for broken in by_cause[worst])
    mostly = "because of" if len(by_cause) == 1 else "mostly because of"
    share = f", {lost / paid:.0%} of the bill," if paid else ""
    tokens = sum(broken.tokens for broken in breaks)
    strong = (
        f"{money(lost)}{share} paid again for lost cache"
        if lost
        else f"{tokens:,} tokens of cache were lost"
    )
    why = f"{mostly} {cause_in_words(worst)} ({times(len(by_cause[worst]))}, {money(cost)})"
    return {
        "level": "bad",
        "strong": strong,
        "text": f": {plural(len(breaks), 'break')}, {why}. {REMEDIES.get(worst, '')}".rstrip(),
        "request": dearest_break.request if not dearest_break.lane else None,
        "link": "See the dearest",
    }


def _dominating(lane: LaneHistory) -> list[dict[str, Any]]:
    carried = lane.sums.carried
    whole = sum(carried.values())
    named = [(tokens, name) for name, tokens in carried.items() if name != UNLOGGED]
    if not whole or not named:
        return []
    largest = sorted(named, reverse=True)[:2]
    labels = {name: shown(_label(name), 50) for _, name in largest}
    first, *second = largest
    text = ""
    if second:
        tokens, name = second[0]
        text = f", then {labels[name]} with {tokens / whole:.0%}"
    strong = f"{labels[first[1]]}: {first[0] / whole:.0%} of everything sent"
    return [{"level": "note", "strong": strong[0].upper() + strong[1:], "text": f"{text}."}]


def _label(category: str) -> str:
    if category.startswith(RESULT):
        return f"results of {category.removeprefix(RESULT)}"
    names = {SYSTEM: "system and tools", "tool_inputs": "calls", "user_text": "your words"}
    names |= {"assistant_text": "the model’s words", UNLOGGED: "what is not on record"}
    return names.get(category, category.replace("_", " "))


# -- the charts ------------------------------------------------------------------------------------


def series_view(
    lane: LaneHistory, bands: Bands, start: int = 0, end: int | None = None, limit: int = DRAWN
) -> dict[str, Any]:
    """The requests from one place to another (counted from 0), as columns."""
    stop = len(lane.requests) if end is None else min(end, len(lane.requests))
    places: Sequence[int] = range(start, stop)
    bucketed = len(places) > limit
    if bucketed:
        places = _largest_of_buckets(lane.prompts, start, stop)
    chosen = [lane.requests[place] for place in places]
    stacks = [bands.sums(lane.categories, sent.sizes) for sent in chosen]
    used = [sent.report.used for sent in chosen]
    return {
        "from": start,
        "to": stop,
        "total": len(lane.requests),
        "revised": lane.revised,
        "bucketed": bucketed,
        "place": list(places),
        "request": [sent.request for sent in chosen],
        "at": [sent.report.at for sent in chosen],
        "prompt": [sent.report.prompt for sent in chosen],
        "stack": [list(column) for column in zip(*stacks, strict=True)] or [[] for _ in bands.bands],
        "read": [usage.cache_read_input_tokens for usage in used],
        "written": [usage.cache_creation_input_tokens for usage in used],
        "fresh": [usage.input_tokens for usage in used],
        "output": [usage.output_tokens for usage in used],
        "usd": [sent.usd for sent in chosen],
    }


def _largest_of_buckets(prompts: Sequence[int], start: int, stop: int) -> list[int]:
    """For each bucket the place of its largest request, and the newest: real requests, whose parts add up."""
    newest = stop - 1
    count = newest - start
    edges = [start + place * count // BUCKETS for place in range(BUCKETS + 1)]
    largest = [
        max(range(low, high), key=prompts.__getitem__)
        for low, high in itertools.pairwise(edges)
        if high > low
    ]
    # What is in the context now is what most people look for.
    return [*largest, newest]


def breaks_of(session: OpenSession) -> list[CacheBreak]:
    """The breaks of the whole session, those of sub-agents in the same file included; the dearest first."""
    breaks = session.reader.reader.books.breaks
    return sorted(breaks, key=lambda lost: (-(lost.cost_usd or 0.0), -lost.tokens, lost.request))


def break_view(lost: CacheBreak) -> dict[str, Any]:
    """A line in the table of breaks."""
    return {
        "request": lost.request,
        "lane": lost.lane,
        "cause": lost.cause,
        "words": cause_in_words(lost.cause),
        "idle": lost.idle_seconds,
        "tokens": lost.tokens,
        "usd": lost.cost_usd,
    }


def marks_view(session: OpenSession) -> list[dict[str, Any]]:
    """What is marked in the chart of the context: compactions, clearings, drops and offloads."""
    history = session.reader.history
    books = session.reader.reader.books
    main = history.main.number

    def drawn(kind: str, events: Iterable[Shrinking]) -> list[dict[str, Any]]:
        return [
            {
                "kind": kind,
                "request": event.request,
                "before": event.tokens_before,
                "after": event.tokens_after,
                "trigger": shown(event.trigger, 40),
                "results": event.results,
            }
            for event in events
            if event.lane == main
        ]

    marks = drawn("compaction", books.compactions) + drawn("clearing", books.clearings)
    marks += drawn("drop", books.unrecorded)
    marks += [
        {"kind": "offload", "request": _ordinal(history.main, entry.request), "text": shown(entry.detail)}
        for entry in history.ledger
        if entry.kind == "offload"
    ]
    return sorted(marks, key=lambda mark: mark["request"])


def _ordinal(lane: LaneHistory, sent: int) -> int:
    """The number of the request after which something happened, of which so many had a known usage."""
    return lane.requests[sent - 1].request if 0 < sent <= len(lane.requests) else 0


# -- items -----------------------------------------------------------------------------------------


class CarriedItem(Struct, frozen=True):
    """An item with what carrying it came to."""

    tokens: float
    prompts: int
    """How many prompts contained it."""
    newest: Lifetime
    """Its newest stay in the context."""

    @property
    def carried(self) -> float:
        """Its tokens, counted once for every prompt that contained it."""
        return self.tokens * self.prompts


def dearest(lane: LaneHistory, limit: int) -> list[CarriedItem]:
    """The items that cost most to carry."""
    newest = len(lane.requests)
    several: dict[Hashable, CarriedItem] = {}
    ranked: list[tuple[float, int]] = []
    least = 0.0
    # A long session has a hundred thousand stays: whatever does not come near the dearest is passed over at once.
    for place, stay in enumerate(lane.lifetimes):
        tokens = stay.held.tokens
        prompts = (newest if stay.left is None else stay.left) - stay.entered
        if lane.returned and stay.key in lane.returned:
            if _is_item(stay):
                previous = several.get(stay.key)
                several[stay.key] = CarriedItem(
                    tokens, prompts + (previous.prompts if previous else 0), stay
                )
        elif tokens * prompts > least and _is_item(stay):
            add = heapq.heappush if len(ranked) < limit else heapq.heappushpop
            add(ranked, (tokens * prompts, -place))
            least = ranked[0][0] if len(ranked) == limit else 0.0
    stays = [lane.lifetimes[-place] for _, place in ranked]
    items = [CarriedItem(stay.held.tokens, stay.prompts(newest), stay) for stay in stays]
    return sorted([*items, *several.values()], key=lambda item: -item.carried)[:limit]


def _is_item(stay: Lifetime) -> bool:
    return stay.counted and stay.held.piece.category != UNLOGGED and stay.key != SYSTEM


def items_view(items: Iterable[CarriedItem], bands: Bands) -> list[dict[str, Any]]:
    """The dearest items."""
    return [
        {
            **item_view(item.newest, bands, item.tokens),
            "prompts": item.prompts,
            "carried": round(item.carried),
        }
        for item in items
    ]


def item_view(lifetime: Lifetime, bands: Bands, tokens: float) -> dict[str, Any]:
    """A piece of content in a list."""
    piece = lifetime.held.piece
    place = bands.place(piece.category)
    return {
        "record": lifetime.record,
        "band": place,
        "category": bands.bands[place].label if not piece.tool else shown(piece.tool, 40),
        "what": shown(named(piece), 160) or bands.bands[place].label,
        "tokens": round(tokens),
    }


def left_view(lane: LaneHistory, bands: Bands, session: OpenSession) -> dict[str, Any]:
    """What is no longer in the context."""
    gone: dict[Hashable, Lifetime] = {}
    for lifetime in lane.lifetimes:
        if lifetime.left is not None and _is_item(lifetime) and lifetime.key not in lane.present:
            gone[lifetime.key] = lifetime
    reasons = reasons_of(session, lane)
    tokens = Counter[int]()
    counts = Counter[int]()
    by_reason: Counter[str] = Counter()
    for lifetime in gone.values():
        band = bands.place(lifetime.held.piece.category)
        tokens[band] += round(lifetime.held.tokens)
        counts[band] += 1
        by_reason[why_left(reasons, lane, lifetime)] += round(lifetime.held.tokens)
    largest = sorted(gone.values(), key=lambda lifetime: -lifetime.held.tokens)[:LEFT]
    return {
        "items": sum(counts.values()),
        "tokens": sum(tokens.values()),
        "bands": [
            {"band": band, "tokens": tokens[band], "items": counts[band]}
            for band, _ in sorted(tokens.items(), key=lambda pair: -pair[1])
        ],
        "reasons": [{"reason": reason, "tokens": count} for reason, count in by_reason.most_common()],
        "largest": [
            {
                **item_view(lifetime, bands, lifetime.held.tokens),
                "request": _ordinal(lane, lifetime.left or 0),
                "reason": why_left(reasons, lane, lifetime),
            }
            for lifetime in largest
        ],
    }


def reasons_of(session: OpenSession, lane: LaneHistory) -> dict[int, str]:
    """What took pieces out of the context, by the number of the request before which it did."""
    books = session.reader.reader.books
    reasons = {event.request: "clearing" for event in books.clearings if event.lane == lane.number}
    return reasons | {
        event.request: "compaction" for event in books.compactions if event.lane == lane.number
    }


def why_left(reasons: Mapping[int, str], lane: LaneHistory, lifetime: Lifetime) -> str:
    """What took a piece out of the context; empty while it is there."""
    if lifetime.left is None:
        return ""
    return reasons.get(_ordinal(lane, lifetime.left), "rewind or replacement")


# -- decisions and agents --------------------------------------------------------------------------


def ledger_view(ledger: Sequence[LedgerEntry]) -> dict[str, Any]:
    """The newest decisions, oldest first."""
    undone = _undone(ledger)
    return {
        "total": len(ledger),
        "entries": [
            {
                "kind": entry.kind,
                "request": entry.request,
                "title": shown(entry.title, 120),
                "detail": shown(entry.detail, 300),
                "id": shown(entry.id, 80),
                "undone": entry.id in undone,
                "at": shown(entry.at, 40),
                "predictedUsd": entry.predicted_usd,
                "options": [
                    {
                        "name": shown(option.name, 60),
                        "tokens": option.tokens,
                        "usd": option.usd,
                        "because": shown(option.because, 300),
                        "chosen": option.chosen,
                    }
                    for option in entry.options
                ],
            }
            for entry in ledger[-LEDGER:]
        ],
    }


def _undone(ledger: Sequence[LedgerEntry]) -> frozenset[str]:
    """The ids of the decisions that are undone at present."""
    undone: set[str] = set()
    for entry in ledger:
        if entry.kind == "undo":
            undone.add(entry.detail)
        elif entry.kind == "redo":
            undone.discard(entry.detail)
    return frozenset(undone)


def _branch_key(session: OpenSession, agent: str) -> str:
    """The key of an agent's own log; empty if it has none."""
    path = session.stored.path
    log = SessionFiles(path.parent, path.stem).branch(agent)
    return session_key(log) if log.is_file() else ""


def agents_view(session: OpenSession) -> list[dict[str, Any]]:
    """The sub-agents: those the record names, and those whose records are in the same file."""
    history = session.reader.history
    agents: list[dict[str, Any]] = []
    for run in history.agents.values():
        start = run.start
        end = run.end
        agents.append(
            {
                "id": shown(start.agent, 60),
                "key": _branch_key(session, start.agent),
                "owner": shown(start.owner, 60),
                "name": shown(start.name or start.agent_type or start.agent, 60),
                "what": shown(start.description or start.prompt, 160),
                "model": shown(start.model, 60),
                "fork": start.fork,
                "because": shown(start.because, 200),
                "background": start.background,
                "request": run.request,
                "state": end.state if end else "working",
                "detail": shown(end.detail, 200) if end else "",
                "turns": end.turns if end else None,
                "usd": end.usd if end else None,
                "savedUsd": end.saved_usd if end else None,
            }
        )
    for lane in history.lanes.values():  # those whose records are in the same file
        if lane is history.main or not lane.requests:
            continue
        usages = [sent.report.used for sent in lane.requests]
        agents.append(
            {
                "id": f"lane {lane.number}",
                "owner": "",
                "name": f"Sub-agent {lane.number}",
                "what": "its records are in the same file",
                "model": shown(lane.requests[-1].report.model, 60),
                "fork": None,
                "state": "on record",
                "turns": len(lane.requests),
                "usd": sum(sent.usd or 0.0 for sent in lane.requests),
                "savedUsd": None,
                "readShare": sum(usage.cache_read_input_tokens for usage in usages)
                / max(1, sum(usage.prompt for usage in usages)),
            }
        )
    return agents
