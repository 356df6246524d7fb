"""What was decided about a session's context, in the words of its log: compactions, clearings, offloads, undos."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from sevenfold.archive.lifetimes import SentRequest
from sevenfold.record.decisions import (
    Epoch,
    Fold,
    Offloaded,
    OwnDecision,
    Pin,
    Purged,
    Relayed,
    Request,
    Rewound,
    ShownResult,
    Snip,
    Undone,
    Why,
)
from sevenfold.record.entries import Boundary, Clearing, Decision, Entry, Said


class LedgerOption(Struct, frozen=True):
    """Something that could have been done."""

    name: str
    tokens: int
    usd: float | None
    because: str
    chosen: bool


class LedgerEntry(Struct, frozen=True):
    """One decision."""

    kind: str
    """compaction, clearing, offload, shown, epoch, undo, redo, rewind, snip, fold, pin, purge or choice."""
    request: int
    """How many requests of the conversation came before it."""
    title: str
    detail: str = ""
    id: str = ""
    """What an undo names; empty if it cannot be undone."""
    at: str = ""
    options: tuple[LedgerOption, ...] = ()
    predicted_usd: float | None = None
    """What the next request was expected to cost, without its answer."""


def ledger_entry(entry: Entry, request: int, requests: Sequence[SentRequest]) -> LedgerEntry | None:
    """The ledger's entry for a record; None if nothing was decided by it."""
    match entry:
        case Boundary(sidechain=False) as boundary:
            about = boundary.about
            size_before = "" if about.pre_tokens is None else f"from {about.pre_tokens:,} tokens"
            how = "by the user" if about.trigger == "manual" else "automatic"
            detail = ", ".join(filter(None, [how, size_before]))
            undo = boundary.uuid if boundary.own else ""
            return LedgerEntry("compaction", request, "Compacted", detail, undo, boundary.timestamp)
        case Clearing(sidechain=False) as clearing:
            count = len(clearing.about.compacted_tool_ids)
            saved = clearing.about.tokens_saved
            detail = f"{clearing.about.trigger}, {count} results"
            detail += "" if saved is None else f", about {saved:,} tokens"
            return LedgerEntry(
                "clearing", request, "Cleared old results", detail, clearing.uuid, clearing.timestamp
            )
        case Said(stored=stored) as said if stored:
            size = sum(stored_result.size for stored_result in stored.values())
            detail = f"{size:,} bytes to disk, a preview stays"
            return LedgerEntry("offload", request, "Moved a large result out", detail, "", said.timestamp)
        case Decision(record=made):
            return _own(made, request)
        case _:
            return None


def _own(made: OwnDecision, request: int) -> LedgerEntry | None:
    at = made.timestamp
    match made:
        case Request(why=Why() as why, appended=[]) if why.options or why.chosen != "nothing":
            return _choice(why, request, at)
        case Epoch(reason=reason, model=model):
            return LedgerEntry(
                "epoch", request, "The beginning of requests was fixed", f"{reason}, {model}", "", at
            )
        case Offloaded(path=path, size=size):
            return LedgerEntry(
                "offload", request, "Moved a large result out", f"{size:,} bytes: {path}", "", at
            )
        case ShownResult(layer=layer, reason=reason):
            return LedgerEntry("shown", request, f"{layer} shows a result differently", reason, made.id, at)
        case Undone(decision=decision, redo=redo):
            title = "Made again" if redo else "Undone"
            return LedgerEntry("redo" if redo else "undo", request, title, decision, "", at)
        case Rewound():
            return LedgerEntry("rewind", request, "Went back to an earlier message", "", "", at)
        case Snip():
            return LedgerEntry("snip", request, "Left out whole rounds", "", made.id, at)
        case Fold():
            return LedgerEntry("fold", request, "Summarised whole rounds", "", made.id, at)
        case Pin(off=off):
            title = "No longer kept word for word" if off else "Kept word for word"
            return LedgerEntry("pin", request, title, made.record, at=at)
        case Purged(count=count):
            return LedgerEntry("purge", request, "Secrets were masked", f"{count} places", "", at)
        case Relayed(changes=[_, *_] as changes):
            return LedgerEntry(
                "change", request, "The program changed what it sends", ", ".join(changes), "", at
            )
        case _:
            return None


def _choice(why: Why, request: int, at: str) -> LedgerEntry:
    options = tuple(
        LedgerOption(option.name, option.tokens, option.usd, option.because, option.name == why.chosen)
        for option in why.options
    )
    detail = f"{why.rule}; {why.used:,} of {why.threshold:,} tokens"
    return LedgerEntry("choice", request, f"Chose: {why.chosen}", detail, "", at, options, why.usd)
