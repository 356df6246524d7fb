"""`sevenfold compact`: summarises a recorded session, ours or another tool's, and shows what was kept.

The engine works on a draft. Only a finished compaction is written: to a new file, which has the old one's bytes and the
boundary after them, or to the end of the file itself. Hooks do not run, because no agent is at work in the session.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sevenfold.cli import recorded_session as recorded_sessions
from sevenfold.cli import transcripts
from sevenfold.cli.notes import bring_up_to_date
from sevenfold.cli.options import complain, print_json
from sevenfold.cli.output import ReportConsole, heading, plain_table, sections, spinner
from sevenfold.cli.recorded_session import RecordedSession, is_offline
from sevenfold.cli.text import category, count, money, plural, share, shorten
from sevenfold.errors import InputError, Refused
from sevenfold.lab.profile.labels import CallLabel, label_of_block, piece_of
from sevenfold.layers.compact.extract.words import users_words
from sevenfold.layers.compact.request import Compacted, EngineName, Left, Preview
from sevenfold.layers.notes.layer import keeper_of
from sevenfold.ports import Client
from sevenfold.providers.registry import client_for
from sevenfold.record.weight import measure
from sevenfold.session.session import Session, Wishes
from sevenfold.stores.jsonl.log import DraftLog, JsonlLog

SOMETHING_LOST = 1
"""The exit code if a fact is neither in the context nor found by recall."""
JUST_NOW = 60
"""Seconds since the last change within which another program may still be writing."""
ENGINES = ("provider", "fork", "plain", "extractive", "notes")
ASK_A_MODEL = ("provider", "fork", "plain")
"""The engines whose summary a model writes."""

HELP = """\
Summarise a recorded session, and show what was kept. The result is a new file: all bytes of the old one, then a
boundary, the summary and what belongs to it, in a shape other tools can read too. Everything before the boundary stays
in the file, and recall finds it there.

Reads Claude Code transcripts, Codex rollouts, and Sevenfold's own. Without a key for the model in the environment,
everything runs offline: the summary is then extracted by code."""

EXAMPLES = """\
examples:
  sevenfold compact session.jsonl --dry-run               what would happen, its cost, and where it could be cut
  sevenfold compact session.jsonl                         writes session-compacted.jsonl
  sevenfold compact session.jsonl --up-to 1f2e --show     only what comes before a record; ids may be shortened
  sevenfold compact session.jsonl --in-place --instructions "keep the SQL"

exit code: 0 if nothing is lost, 1 if a fact is neither in the context nor found by recall, 2 after an error"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("file", metavar="FILE", help="a transcript, or the id of a session")
    part = command.add_mutually_exclusive_group()
    part.add_argument("--from", dest="start", metavar="ID", help="summarise this record and those after it")
    part.add_argument("--up-to", metavar="ID", help="summarise the records before this one")
    add("--instructions", default="", metavar="TEXT", help="what the summary should pay attention to")
    add("--engine", choices=ENGINES, help="make the summary this way only")
    add("--model", default="", metavar="NAME", help="continue with this model (default: the last one used)")
    where = command.add_mutually_exclusive_group().add_argument
    where("--output", type=Path, metavar="FILE", help="the new file (default: FILE-compacted.jsonl)")
    where("--in-place", action="store_true", help="append to FILE, unless another program is writing it")
    where("--dry-run", action="store_true", help="show what would happen, and change nothing")
    add("--show", action="store_true", help="show the summary too")
    add("--json", action="store_true", help="print everything as JSON")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    recorded = recorded_sessions.inspect(transcripts.find(options.file), options.model)
    client = client_for(recorded.model)
    try:
        result = _plan(recorded, client, options) if options.dry_run else _write(recorded, client, options)
    finally:
        client.close()
    if options.json:
        print_json(_as_json(result))
    elif isinstance(result, CompactionPlan):
        _print_plan(result)
    else:
        _print_compaction(result, summary=options.show)
    lost = isinstance(result, CompactionReport) and result.did.score.total.lost
    return SOMETHING_LOST if lost else 0


class CutPoint(Struct, frozen=True):
    """A record at which a conversation can be cut."""

    id: str
    says: str


class CompactionPlan(Struct, frozen=True, kw_only=True):
    """What a compaction would do."""

    recorded: RecordedSession
    note: str
    """What is not known about the model; empty if everything is."""
    offline: bool
    preview: Preview
    left: tuple[Left, ...]
    places: tuple[CutPoint, ...]


class CompactionReport(Struct, frozen=True, kw_only=True):
    """What a compaction did."""

    recorded: RecordedSession
    note: str
    offline: bool
    output: str
    in_place: bool
    did: Compacted
    left: tuple[Left, ...]
    before: Mapping[str, int]
    """Tokens by category before the compaction."""
    after: Mapping[str, int]
    """Tokens by category after the compaction."""
    usd: float | None
    """The price of all requests."""
    noted: bool
    """Whether the notes were brought up to date first."""


def _plan(recorded: RecordedSession, client: Client, options: argparse.Namespace) -> CompactionPlan:
    with recorded_sessions.open_draft(recorded, client, recorded.path) as (session, _):
        asked = _request(session, recorded, client, options)
        return CompactionPlan(
            recorded=recorded,
            note=session.conversation.profile.note,
            offline=is_offline(client),
            preview=session.compact_preview(options.instructions, **asked.wish),
            left=asked.left,
            places=tuple(_cut_points(session)),
        )


def _write(recorded: RecordedSession, client: Client, options: argparse.Namespace) -> CompactionReport:
    """Compact, and write the result to the file or a new one."""
    if options.in_place and recorded.converted:
        raise InputError(
            f"{recorded.path}: rollouts are only read; without --in-place the result is a new file"
        )
    if options.in_place:
        _warn_if_fresh(recorded.path)
        with closing(JsonlLog.open(recorded.path)) as log:
            done, draft = _compact(recorded, client, recorded.path, options)
            recorded_sessions.append_draft(log, draft)
        return done
    target = options.output or recorded.path.with_name(f"{recorded.path.stem}-compacted.jsonl")
    if target.exists():
        raise recorded_sessions.already_exists(target)
    if not target.absolute().parent.is_dir():
        raise InputError(f"{target}: the folder does not exist; create it first, or choose another file")
    done, draft = _compact(recorded, client, target, options)
    recorded_sessions.write_new(target, draft)
    return done


def _compact(
    recorded: RecordedSession, client: Client, target: Path, options: argparse.Namespace
) -> tuple[CompactionReport, DraftLog]:
    with (
        recorded_sessions.open_draft(recorded, client, target, recall=True) as (session, draft),
        spinner("summarising"),
    ):
        paid = session.gauge.usd
        asked = _request(session, recorded, client, options)
        before = _tokens_by_category(session, own=recorded.own)
        did = session.compact(options.instructions, **asked.wish)
        if did is None:
            raise Refused(f"{recorded.path}: the compaction was vetoed, so nothing was written")
        offline, paid_now = is_offline(client), session.gauge.usd
        done = CompactionReport(
            recorded=recorded,
            note=session.conversation.profile.note,
            offline=offline,
            output=str(target),
            in_place=options.in_place,
            did=did,
            left=(*asked.left, *did.left),
            before=before,
            after=_tokens_by_category(session, own=recorded.own),
            usd=0.0 if offline else None if paid is None or paid_now is None else paid_now - paid,
            noted=asked.noted,
        )
        return done, draft


def _warn_if_fresh(path: Path) -> None:
    ago = time.time() - path.stat().st_mtime
    if ago < JUST_NOW:
        complain(
            f"{path} changed {max(0, ago):.0f} s ago. If another program has this session open, close it first: it "
            "would not see the compaction and would write after it as if nothing had happened."
        )


# -- what to ask of the engine ---------------------------------------------------------------

MOST_CUT_POINTS = 8
SHOWN_OF_ID = 8
"""Characters of an id; more if others begin the same way."""
LONGEST_SAID = 200


class EngineChoice(NamedTuple):
    """What is asked of the engine."""

    wish: Wishes
    left: tuple[Left, ...] = ()
    """Engines that were ruled out here already."""
    noted: bool = False
    """Whether the notes were brought up to date first."""


def _request(
    session: Session, recorded: RecordedSession, client: Client, options: argparse.Namespace
) -> EngineChoice:
    """Translate the options of the command into a request to the engine."""
    wish = Wishes()
    if given := options.start or options.up_to:
        wish["span"] = "from" if options.start else "up_to"
        wish["record"] = _record(session, given)
    if options.engine is not None:
        wish["engine"] = options.engine
        noted = options.engine == "notes" and _prepare_notes(session, client, options)
        return EngineChoice(wish, noted=noted)
    chosen, left = _first_choice(session, recorded, client, options)
    if chosen is not None:
        wish["engine"] = chosen
    return EngineChoice(wish, left)


def _first_choice(
    session: Session, recorded: RecordedSession, client: Client, options: argparse.Namespace
) -> tuple[EngineName | None, tuple[Left, ...]]:
    """The engine for a session that is not running; None leaves it to the session, which knows what is cached."""
    if not is_offline(client):
        if recorded.own:
            return None, ()
        reason = "system prompt and tools are not in the file, so no cache would be read"
        return "plain", (Left("provider", reason), Left("fork", reason))
    if not _partial(options) and not _why_not_notes(session):
        return "notes", ()
    names: tuple[EngineName, ...] = ("provider", "fork", "plain")
    reason = "no model answers offline, and its stand-in would only extract as well"
    return "extractive", tuple(Left(name, reason) for name in names)


def _prepare_notes(session: Session, client: Client, options: argparse.Namespace) -> bool:
    """Make sure that the notes can be the summary, updating them if it is unknown what they cover.

    Returns whether they were updated; raises if they cannot be the summary.
    """
    if _partial(options):
        raise InputError("notes cover the whole conversation and take no instructions; use another engine")
    keeper = keeper_of(session.conversation)
    reason = keeper.too_little() if keeper is not None else ""
    due = keeper is not None and not reason and keeper.covered() is None and not options.dry_run
    if due:
        bring_up_to_date(session, client)
    if reason := reason or _why_not_notes(session):
        update = "" if due else ", or bring them up to date: sevenfold notes FILE --update"
        raise Refused(f"the notes cannot be the summary: {reason}; use another engine{update}")
    return due


def _why_not_notes(session: Session) -> str:
    """Why the notes cannot be the summary; empty if they can."""
    keeper = keeper_of(session.conversation)
    if keeper is None or not session.conversation.settings.notes_compaction:
        return "this is switched off (setting notes_compaction)"
    served = keeper.serve(session.conversation.window.threshold)
    return served if isinstance(served, str) else ""


def _partial(options: argparse.Namespace) -> bool:
    return bool(options.start or options.up_to or options.instructions)


def _record(session: Session, given: str) -> str:
    """The one record in view whose id begins with the given text; raises `InputError` if there are none or several."""
    ids = [item.said.uuid for item in session.conversation.transcript.view.items]
    found = [given] if given in ids else [uuid for uuid in ids if uuid.startswith(given)]
    if not found:
        raise InputError(
            f"{given}: no record in view has an id that begins like this; --dry-run lists some, sevenfold recall "
            "finds others"
        )
    if len(found) > 1:
        raise InputError(
            f"{given}: {len(found)} records have an id that begins like this, among them {found[0]} and {found[1]}; "
            "give more of it"
        )
    return found[0]


def _cut_points(session: Session) -> list[CutPoint]:
    """The newest messages of the user; the conversation can be cut at each."""
    view = session.conversation.transcript.view
    ids = [item.said.uuid for item in view.items]

    def shortest(uuid: str) -> str:
        """The shortest prefix that no other id has."""
        sizes = range(SHOWN_OF_ID, len(uuid))
        return next((uuid[:n] for n in sizes if sum(one.startswith(uuid[:n]) for one in ids) == 1), uuid)

    found: list[CutPoint] = []
    for item in reversed(view.items[1:]):
        words = " ".join(users_words(item).split())
        if words and view.begins_round(item.said.uuid):
            found.append(CutPoint(shortest(item.said.uuid), words[:LONGEST_SAID]))
        if len(found) == MOST_CUT_POINTS:
            break
    return found[::-1]


# -- what is shown ---------------------------------------------------------------------------

MOST_CATEGORIES = 10
MOST_OMITTED = 6
LONGEST_SHOWN = 160
NOT_IN_FILE = "unlogged"
"""The category of what a prompt holds besides its messages, in transcripts that do not record it."""
OPENING = "system_and_tools"
"""The same, in transcripts that do."""
_SPANS = {
    "whole": "the whole conversation",
    "from": "from the record on",
    "up_to": "up to the record",
    "range": "between the records",
}


def _tokens_by_category(session: Session, *, own: bool) -> dict[str, int]:
    """The estimated parts of the next prompt; they add up to the session's gauge."""
    estimate = session.conversation.gauge.estimator.tokens
    calls: dict[str, CallLabel] = {}
    sizes: dict[str, float] = {}
    for item in session.conversation.transcript.view.items:
        for block in item.shown:
            if block.kind.endswith("tool_use"):
                calls[block.id] = label_of_block(block)
            piece = piece_of(item.said, block, measure(block), calls.get(block.id))
            sizes[piece.category] = sizes.get(piece.category, 0.0) + estimate(piece.weight)
    found = {name: round(size) for name, size in sizes.items() if size >= 1}
    rest = session.conversation.size().tokens - sum(found.values())
    return found if rest <= 0 else {**found, OPENING if own else NOT_IN_FILE: rest}


def _as_json(result: CompactionReport | CompactionPlan) -> dict[str, object]:
    common: dict[str, object] = {
        "file": str(result.recorded.path),
        "model": result.recorded.model,
        "offline": result.offline,
        "dry_run": isinstance(result, CompactionPlan),
        "left": result.left,
    }
    if isinstance(result, CompactionPlan):
        return {**common, "preview": result.preview, "places": result.places}
    did, total = result.did, result.did.score.total
    return {
        **common,
        "output": result.output,
        "in_place": result.in_place,
        "boundary": did.boundary,
        "engine": did.engine,
        "tokens_before": did.tokens_before,
        "tokens_after": did.tokens_after,
        "by_category": {"before": result.before, "after": result.after},
        "summarised": did.summarised,
        "kept": did.kept,
        "calls": did.calls + result.noted,
        "usd": result.usd,
        "cached_share": did.cached_share,
        "facts": {
            "in_context": total.in_context,
            "reachable": total.reachable,
            "lost": total.lost,
            "by_kind": did.score.by_kind,
            "lost_facts": did.score.lost,
        },
        "invented": did.invented,
        "cut": did.cut,
        "restored": did.restored,
        "summary": did.summary,
    }


def _print_compaction(done: CompactionReport, *, summary: bool) -> None:
    parts = [_title(done), _sizes(done.before, done.after), _facts(done)]
    if summary:
        parts.append(Group(heading("The summary"), Text(done.did.summary)))
    where = Text(f"{'Appended' if done.in_place else 'Written'} to {done.output}", style="bold green")
    ReportConsole().print(sections([*parts, Group(where, Text(f"boundary {done.did.boundary}"))]))


def _print_plan(plan: CompactionPlan) -> None:
    seen, grid = plan.preview, _grid()
    before, after = seen.tokens_hidden + seen.tokens_kept, seen.tokens_summary + seen.tokens_kept
    grid.add_row("messages", f"{count(before)} tokens in {plural(plan.recorded.records, 'record')}")
    grid.add_row("afterwards", f"at most {count(after)} tokens, {share(after, before)}")
    hidden = f"{plural(seen.summarised, 'record')}, {count(seen.tokens_hidden)} tokens"
    grid.add_row("summarised", f"{hidden}, {_SPANS[seen.span]}")
    grid.add_row("summary", f"at most {count(seen.tokens_summary)} tokens")
    kept = f"{plural(seen.kept, 'record')}, {count(seen.tokens_kept)} tokens, verbatim"
    grid.add_row("kept", kept if seen.kept else "no record verbatim")
    grid.add_row("engine", _engine(seen.engine, plan))
    price = f"{money(seen.call_usd)} for the summary, {money(seen.next_usd)} for the next prompt"
    free = f"nothing; the next prompt of {plan.recorded.model} would cost {money(seen.next_usd)}"
    grid.add_row("cost", free if plan.offline else price)
    cache = f"the next request can read {count(seen.read)} tokens from it, and writes {count(seen.written)}"
    grid.add_row("cache", cache)
    parts = [_title(plan), Group(heading("What would happen"), grid)]
    if plan.places:
        lines = (f"{place.id}  {place.says}" for place in plan.places)
        places = [Text(line, overflow="ellipsis", no_wrap=True) for line in lines]
        parts.append(Group(heading("Where it could be cut", "--from or --up-to"), *places))
    ReportConsole().print(sections([*parts, Text("Nothing was changed.", style="bold")]))


def _title(result: CompactionReport | CompactionPlan) -> RenderableType:
    recorded = result.recorded
    whose = "Sevenfold's" if recorded.own else "another tool's"
    words = f"{recorded.model} · {plural(recorded.records, 'record')} in view · {whose} transcript"
    lines = [Text(), Text(str(recorded.path), style="bold", overflow="fold"), Text(words, style="dim")]
    if result.note:
        lines.append(Text(result.note, style="yellow"))
    if result.offline:
        words = (
            f"\nOffline: there is no key and no address for {recorded.model} in the environment. The summary is "
            "extracted by code, without judgement. Nothing leaves this machine, and nothing is charged."
        )
        lines.append(Text(words, style="yellow"))
    return Group(*lines)


def _sizes(before: Mapping[str, int], after: Mapping[str, int]) -> RenderableType:
    table = plain_table()
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for name in ("before", "after"):
        table.add_column(name, justify="right", no_wrap=True)
    names = sorted({*before, *after}, key=lambda name: -max(before.get(name, 0), after.get(name, 0)))
    shown = names if len(names) <= MOST_CATEGORIES + 1 else names[:MOST_CATEGORIES]
    for name in shown:
        table.add_row(category(name), count(before.get(name, 0)), count(after.get(name, 0)))
    if rest := names[len(shown) :]:
        table.add_row(
            f"{len(rest)} others", *(count(sum(side.get(n, 0) for n in rest)) for side in (before, after))
        )
    totals = [count(sum(side.values())) for side in (before, after)]
    table.add_row(*(Text(words, style="bold") for words in ("total", *totals)))
    was, now = (
        sum(tokens for name, tokens in side.items() if name not in (NOT_IN_FILE, OPENING))
        for side in (before, after)
    )
    grown = [Text("It has grown: a conversation this short is better left alone.", style="yellow")]
    note = f"{share(now, was)} of the conversation's size is left"
    return Group(heading("Tokens", note), table, *(grown if now > was else []))


def _facts(done: CompactionReport) -> RenderableType:
    did, grid = done.did, _grid()
    grid.add_row("summarised", plural(did.summarised, "record"))
    grid.add_row("kept", f"{plural(did.kept, 'record')}, verbatim" if did.kept else "no record verbatim")
    if did.restored:
        grid.add_row("restored", ", ".join(did.restored))
    grid.add_row("engine", _engine(did.engine, done))
    if done.noted:
        grid.add_row("", "the notes were brought up to date first")
    grid.add_row("cost", _paid(done))
    total = did.score.total
    facts = f"{total.in_context} in context, {total.reachable} reachable by recall, {total.lost} lost"
    grid.add_row("facts", Text(facts, style="bold red" if total.lost else ""))
    for probe in did.score.lost:
        grid.add_row("", Text(f"lost: {probe.kind} {probe.record} {_short(probe.text)}", style="red"))
    for words in did.invented:
        grid.add_row("marked", f"not in the record: {_short(words)}")
    if did.cut:
        omitted = [_short(words) for words in did.cut[:MOST_OMITTED]]
        if (more := len(did.cut) - MOST_OMITTED) > 0:
            omitted.append(f"{more} more, which --json lists")
        grid.add_row("no room for", "\n".join(omitted))
    return Group(heading("What happened"), grid)


def _paid(done: CompactionReport) -> str:
    calls, cached = done.did.calls + done.noted, done.did.cached_share
    if not calls:
        return "nothing, no request was made"
    if done.offline:
        return f"nothing, {plural(calls, 'request')} to the offline stand-in"
    read = f", {share(cached, 1)} of the prompt read from the cache" if cached else ""
    return f"{plural(calls, 'request')}, {money(done.usd)}{read}"


def _engine(used: str, result: CompactionReport | CompactionPlan) -> Text:
    """The engine, whether the stand-in answered for the model, and why other engines were not used."""
    stand_in = result.offline and used in ASK_A_MODEL
    text = Text(f"{used}, with the offline stand-in instead of the model" if stand_in else used)
    reasons: dict[str, list[str]] = {}
    for one in result.left:
        reasons.setdefault(one.reason, []).append(one.engine)
    for reason, names in reasons.items():
        text.append(f"\nnot {', '.join(names)}: {_short(reason)}", style="dim")
    return text


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), LONGEST_SHOWN)


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid
