"""`sevenfold compact`: summarises a recorded session, ours or another tool's, and shows what was kept.

The engine works on a draft. Only a finished compaction is written: to a new file, which has the old file's bytes with
the boundary after them, or to the end of the file itself. Hooks do not run, because the session has no running agent.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct, structs
from rich.console import Group, RenderableType
from rich.text import Text

from sevenfold.archive import rewrite, stores
from sevenfold.archive.profile.labels import pieces_in
from sevenfold.archive.rewrite import RecordedSession
from sevenfold.cli import transcripts
from sevenfold.cli.notes import bring_up_to_date
from sevenfold.cli.output import FOLDED, NAME, ReportConsole, grid, heading, number_table, sections, spinner
from sevenfold.cli.text import category, complain, count, excerpt, money, plural, print_json, share
from sevenfold.errors import InputError, Refused
from sevenfold.layers.compact.compaction import Compacted, EngineName, UnusedEngine
from sevenfold.layers.notes.layer import keeper_of
from sevenfold.ports import Client
from sevenfold.session.session import Session, Wishes

SOMETHING_LOST = 1
"""The exit code if a fact is neither in the context nor reachable by recall."""
JUST_NOW = 60
"""If the file changed within this many seconds, another program may still be writing it."""
ENGINES = ("provider", "fork", "plain", "extractive", "notes")
ASK_A_MODEL: tuple[EngineName, ...] = ("provider", "fork", "plain")
"""The engines that have a model write the summary."""

MOST_CATEGORIES = 10
MOST_OMITTED = 6
NONE_KEPT = "no record verbatim"
NOT_IN_FILE = "unlogged"
"""The category of a prompt's content other than messages, for transcripts that do not record it."""
OPENING = "system_and_tools"
"""The same, for transcripts that record it."""
_SPANS = {
    "whole": "the whole conversation",
    "from": "from the record on",
    "up_to": "up to the record",
    "range": "between the records",
}
_JSON_FIELDS = (
    *("boundary", "engine", "tokens_before", "tokens_after", "summarised", "kept", "cached_share"),
    *("invented", "cut", "restored", "summary"),
)
"""Fields of a compaction that `--json` prints unchanged."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = command.add_argument
    add("file", metavar="SESSION")
    span_group = command.add_mutually_exclusive_group()
    span_group.add_argument("--from", dest="start", metavar="ID")
    span_group.add_argument("--up-to", metavar="ID")
    add("--instructions", default="", metavar="TEXT")
    add("--engine", choices=ENGINES)
    add("--model", default="", metavar="NAME")
    add_output = command.add_mutually_exclusive_group().add_argument
    add_output("--output", type=Path, metavar="FILE")
    add_output("--in-place", action="store_true")
    add_output("--dry-run", action="store_true")
    transcripts.add_store(command)
    add("--show", action="store_true")
    add("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    if options.store or stores.by_url(options.file) is not None:
        _must_not_end_in_the_copy(options)
    recorded = rewrite.inspect(transcripts.find(options.file, options.store), options.model)
    target = None if options.dry_run else _target(recorded, options)
    indexing = partial(transcripts.progress, doing="indexing")
    with rewrite.edit(recorded, target, recall=target is not None, progress=indexing) as (session, client):
        work = _Run(session, recorded, client, options)
        if target is None:
            fields, blocks, lost = work.plan()
        else:
            with spinner("summarising"):
                fields, blocks, lost = work.compact(target)
    if options.json:
        print_json(fields)
    else:
        ReportConsole().print(sections(blocks))
    return SOMETHING_LOST if lost else 0


def _must_not_end_in_the_copy(options: argparse.Namespace) -> None:
    """Refuse to write next to the copy of a session in a store, which is removed when the command ends."""
    if options.in_place:
        raise Refused("a session in a store is compacted by the program that keeps it there; use --output")
    if options.output is None and not options.dry_run:
        raise Refused("say where the summarised copy goes with --output FILE, or use --dry-run")


_Report = tuple[dict[str, object], list[RenderableType | None], int]
"""The fields for `--json`, the parts of the report, and the number of facts lost."""


def _target(recorded: RecordedSession, options: argparse.Namespace) -> Path:
    """The file to write the result to; raises `InputError` if it cannot be used."""
    path = recorded.path
    if options.in_place:
        if recorded.converted:
            raise InputError(f"{path}: rollouts are only read; without --in-place the result is a new file")
        ago = time.time() - path.stat().st_mtime
        if ago < JUST_NOW:
            complain(
                f"{path} changed {max(0, ago):.0f} s ago. If another program has this session open, close it first: "
                "it would not see the compaction and would write after it as if nothing had happened."
            )
        return path
    target: Path = options.output or path.with_name(f"{path.stem}-compacted.jsonl")
    if target.exists():
        raise rewrite.already_exists(target)
    if not target.absolute().parent.is_dir():
        raise InputError(f"{target}: the folder does not exist; create it first, or choose another file")
    return target


class _Run(Struct):
    """One run of the command on an open session."""

    session: Session
    recorded: RecordedSession
    client: Client
    options: argparse.Namespace
    noted: bool = False
    """Whether the notes were updated first."""
    left: list[UnusedEngine] = []
    """Engines that were not used, and why."""

    def plan(self) -> _Report:
        """Report what a compaction would do."""
        preview = self.session.compact_preview(self.options.instructions, **self._wishes())
        cut_points = rewrite.cut_points(self.session)
        fields = {**self._fields(), "preview": preview, "places": cut_points}
        tokens_before = preview.tokens_hidden + preview.tokens_kept
        tokens_after = preview.tokens_summary + preview.tokens_kept
        hidden = f"{plural(preview.summarised, 'record')}, {count(preview.tokens_hidden)} tokens"
        kept_line = f"{plural(preview.kept, 'record')}, {count(preview.tokens_kept)} tokens, verbatim"
        price = f"{money(preview.call_usd)} for the summary, {money(preview.next_usd)} for the next prompt"
        free = f"nothing; the next prompt of {self.recorded.model} would cost {money(preview.next_usd)}"
        written = f"and writes {count(preview.written)}"
        cache = f"the next request can read {count(preview.read)} tokens from it, {written}"
        rows: list[tuple[str, str | Text]] = [
            ("messages", f"{count(tokens_before)} tokens in {plural(self.recorded.records, 'record')}"),
            ("afterwards", f"at most {count(tokens_after)} tokens, {share(tokens_after, tokens_before)}"),
            ("summarised", f"{hidden}, {_SPANS[preview.span]}"),
            ("summary", f"at most {count(preview.tokens_summary)} tokens"),
            ("kept", kept_line if preview.kept else NONE_KEPT),
            ("engine", self._engine(preview.engine)),
            ("cost", free if self.recorded.offline else price),
            ("cache", cache),
        ]
        cuts = [
            Text(f"{cut['id']}  {cut['says']}", overflow="ellipsis", no_wrap=True) for cut in cut_points
        ]
        cuts_section = Group(heading("Possible cuts", "--from or --up-to"), *cuts) if cuts else None
        done = Text("Nothing was changed.", style="bold")
        happens = Group(heading("What would happen"), grid(NAME, FOLDED, rows=rows))
        return fields, [self._title(), happens, cuts_section, done], 0

    def compact(self, target: Path) -> _Report:
        """Compact, and report what happened; ``target`` is the file the result will be written to."""
        session = self.session
        options = self.options
        usd_before = session.gauge.usd
        sizes_before = self._tokens_by_category()
        wishes = self._wishes()
        compacted = session.compact(options.instructions, **wishes)
        if compacted is None:
            raise Refused(f"{self.recorded.path}: the compaction was vetoed, so nothing was written")
        if not compacted.made:
            raise Refused(f"{self.recorded.path}: {compacted.line}, so nothing was written")
        self.left += compacted.left
        sizes_after = self._tokens_by_category()
        usd_after = session.gauge.usd
        total = compacted.score.total
        usd = None if usd_before is None or usd_after is None else usd_after - usd_before
        if self.recorded.offline:
            usd = 0.0
        fields = {
            **self._fields(),
            **{name: getattr(compacted, name) for name in _JSON_FIELDS},
            "output": str(target),
            "in_place": options.in_place,
            "by_category": {"before": sizes_before, "after": sizes_after},
            "calls": compacted.calls + self.noted,
            "usd": usd,
            "facts": structs.asdict(total)
            | {"by_kind": compacted.score.by_kind, "lost_facts": compacted.score.lost},
        }
        written_line = f"{'Appended' if options.in_place else 'Written'} to {target}"
        blocks: list[RenderableType | None] = [
            self._title(),
            _sizes(sizes_before, sizes_after),
            Group(heading("What happened"), grid(NAME, FOLDED, rows=self._happened(compacted, usd))),
            Group(heading("The summary"), Text(f"{compacted.summary}\n\n{compacted.words.text}"))
            if options.show
            else None,
            Group(Text(written_line, style="bold green"), Text(f"boundary {compacted.boundary}")),
        ]
        return fields, blocks, total.lost

    # -- options for the engine --------------------------------------------------------------

    def _wishes(self) -> Wishes:
        """The command's options as options of the compaction."""
        options = self.options
        wishes = Wishes()
        if record := options.start or options.up_to:
            wishes["span"] = "from" if options.start else "up_to"
            wishes["record"] = rewrite.record_named(self.session, record)
        if options.engine == "notes":
            self._prepare_notes()
        if engine := options.engine or self._first_choice():
            wishes["engine"] = engine
        return wishes

    def _first_choice(self) -> EngineName | None:
        """The engine to use if none was named; None lets the session choose, which knows what is cached."""
        if not self.recorded.offline:
            if self.recorded.own:
                return None
            reason = "system prompt and tools are not in the file, so no cache would be read"
            self.left += [UnusedEngine("provider", reason), UnusedEngine("fork", reason)]
            return "plain"
        if not self._partial and not self._why_not_notes():
            return "notes"
        reason = "no model answers offline, and the stand-in only extracts, too"
        self.left += [UnusedEngine(name, reason) for name in ASK_A_MODEL]
        return "extractive"

    def _prepare_notes(self) -> None:
        """Update the notes if their coverage is unknown; raises `UserError` if they cannot serve as the summary."""
        if self._partial:
            raise InputError(
                "notes cover the whole conversation and take no instructions; use another engine"
            )
        keeper = keeper_of(self.session.conversation)
        short = keeper.too_little() if keeper is not None else ""
        if keeper is not None and not short and keeper.covered() is None and not self.options.dry_run:
            bring_up_to_date(self.session, self.client, offline=self.recorded.offline)
            self.noted = True
        if reason := short or self._why_not_notes():
            advice = ", or bring them up to date: sevenfold notes FILE --update"
            update = "" if self.noted or short else advice
            raise Refused(f"the notes cannot be the summary: {reason}; use another engine{update}")

    def _why_not_notes(self) -> str:
        """Why the notes cannot serve as the summary; empty if they can."""
        conversation = self.session.conversation
        keeper = keeper_of(conversation)
        if keeper is None or not conversation.settings.notes_compaction:
            return "this is switched off (setting notes_compaction)"
        served = keeper.serve(conversation.window.threshold)
        return served if isinstance(served, str) else ""

    @property
    def _partial(self) -> bool:
        return bool(self.options.start or self.options.up_to or self.options.instructions)

    # -- output ------------------------------------------------------------------------------

    def _fields(self) -> dict[str, object]:
        return {
            "file": str(self.recorded.path),
            "model": self.recorded.model,
            "offline": self.recorded.offline,
            "dry_run": self.options.dry_run,
            "left": self.left,
        }

    def _tokens_by_category(self) -> dict[str, int]:
        """The estimated tokens of the next prompt by category; they add up to the session's gauge."""
        conversation = self.session.conversation
        sizes: dict[str, float] = {}
        for piece in pieces_in(conversation.transcript.view):
            tokens = conversation.epoch.gauge.estimator.tokens(piece.weight)
            sizes[piece.category] = sizes.get(piece.category, 0.0) + tokens
        by_category = {name: round(size) for name, size in sizes.items() if size >= 1}
        remainder = conversation.size().tokens - sum(by_category.values())
        if remainder > 0:
            by_category[OPENING if self.recorded.own else NOT_IN_FILE] = remainder
        return by_category

    def _title(self) -> RenderableType:
        recorded = self.recorded
        note = self.session.conversation.profile.note
        tool = "Sevenfold's" if recorded.own else "another tool's"
        text = f"{recorded.model} · {plural(recorded.records, 'record')} in view · {tool} transcript"
        lines = [Text(), Text(str(recorded.path), style="bold", overflow="fold"), Text(text, style="dim")]
        if note:
            lines.append(Text(note, style="yellow"))
        if self.recorded.offline:
            text = (
                f"\nOffline: there is no key and no address for {recorded.model} in the environment. The summary is "
                "extracted by code, without judgement. Nothing leaves this machine, and nothing is charged."
            )
            lines.append(Text(text, style="yellow"))
        return Group(*lines)

    def _happened(self, compacted: Compacted, usd: float | None) -> Iterator[tuple[str, str | Text]]:
        yield "summarised", plural(compacted.summarised, "record")
        yield "kept", f"{plural(compacted.kept, 'record')}, verbatim" if compacted.kept else NONE_KEPT
        if compacted.restored:
            yield "restored", ", ".join(compacted.restored)
        yield "engine", self._engine(compacted.engine)
        if self.noted:
            yield "", "the notes were updated first"
        yield "cost", self._paid(compacted, usd)
        total = compacted.score.total
        facts = f"{total.in_context} in context, {total.reachable} reachable by recall, {total.lost} lost"
        yield "facts", Text(facts, style="bold red" if total.lost else "")
        for probe in compacted.score.lost:
            yield "", Text(f"lost: {probe.kind} {probe.record} {excerpt(probe.text)}", style="red")
        for statement in compacted.invented:
            yield "marked", f"not in the record: {excerpt(statement)}"
        if compacted.cut:
            omitted = [excerpt(statement) for statement in compacted.cut[:MOST_OMITTED]]
            if (hidden := len(compacted.cut) - MOST_OMITTED) > 0:
                omitted.append(f"{hidden} more, which --json lists")
            yield "no room for", "\n".join(omitted)

    def _paid(self, compacted: Compacted, usd: float | None) -> str:
        calls = compacted.calls + self.noted
        if not calls:
            return "nothing, no request was made"
        if self.recorded.offline:
            return f"nothing, {plural(calls, 'request')} to the offline stand-in"
        cached = compacted.cached_share
        read = f", {share(cached, 1)} of the prompt read from the cache" if cached else ""
        return f"{plural(calls, 'request')}, {money(usd)}{read}"

    def _engine(self, used: str) -> Text:
        """The engine, whether the offline stand-in replaced the model, and why other engines were not used."""
        stand_in = self.recorded.offline and used in ASK_A_MODEL
        text = Text(f"{used}, with the offline stand-in instead of the model" if stand_in else used)
        reasons: dict[str, list[str]] = {}
        for unused in self.left:
            reasons.setdefault(unused.reason, []).append(unused.engine)
        for reason, names in reasons.items():
            text.append(f"\nnot {', '.join(names)}: {excerpt(reason)}", style="dim")
        return text


def _messages_size(sizes: Mapping[str, int]) -> int:
    """The tokens of the messages, without system prompt and tools."""
    return sum(sizes.values()) - sizes.get(NOT_IN_FILE, 0) - sizes.get(OPENING, 0)


def _sizes(before: Mapping[str, int], after: Mapping[str, int]) -> RenderableType:
    table = number_table("", "before", "after")
    names = sorted({*before, *after}, key=lambda name: -max(before.get(name, 0), after.get(name, 0)))
    shown = names if len(names) <= MOST_CATEGORIES + 1 else names[:MOST_CATEGORIES]
    for name in shown:
        table.add_row(category(name), count(before.get(name, 0)), count(after.get(name, 0)))
    sides = (before, after)
    if others := names[len(shown) :]:
        sums = [sum(side.get(name, 0) for name in others) for side in sides]
        table.add_row(f"{len(others)} others", *map(count, sums))
    totals = [count(sum(side.values())) for side in sides]
    table.add_row(*(Text(cell, style="bold") for cell in ("total", *totals)))
    size_before = _messages_size(before)
    size_after = _messages_size(after)
    grown = [Text("It has grown: a conversation this short is better left alone.", style="yellow")]
    note = f"{share(size_after, size_before)} of the messages is left; the system prompt and tools are not counted"
    return Group(heading("Tokens", note), table, *(grown if size_after > size_before else []))
