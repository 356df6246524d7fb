"""What a compaction did, or would do, as a terminal and as JSON show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sevenfold.cli.phrases import category, count, money, plural, share, shortened
from sevenfold.cli.transcripts import harmless
from sevenfold.lab.profile.context import CallLabel, label_of_block, piece_of
from sevenfold.layers.compact.request import Compacted, Left, Preview
from sevenfold.record.weight import measure
from sevenfold.session.session import Session

MOST_CATEGORIES = 10
MOST_CUT = 6
LONGEST = 160
ASK_A_MODEL = ("provider", "fork", "plain")
"""The engines whose summary a model writes."""
UNSEEN = "unlogged"
"""What a prompt holds besides the messages and is not in the transcript…"""
OPENING = "system_and_tools"
"""…or is, where the transcript is ours."""


class About(Struct, frozen=True, kw_only=True):
    """Which session it is, and who is asked."""

    file: str
    model: str
    note: str
    """What is not known about the model; empty if all is."""
    own: bool
    offline: bool
    records: int


class Place(Struct, frozen=True):
    """A record at which a conversation can be cut."""

    id: str
    says: str


class Planned(Struct, frozen=True, kw_only=True):
    """A compaction that was only looked at."""

    about: About
    preview: Preview
    left: tuple[Left, ...]
    places: tuple[Place, ...]


class Done(Struct, frozen=True, kw_only=True):
    """A compaction, and where it is now."""

    about: About
    output: str
    in_place: bool
    did: Compacted
    left: tuple[Left, ...]
    before: Mapping[str, int]
    """Tokens by category…"""
    after: Mapping[str, int]
    usd: float | None
    """What was paid for all of it."""
    noted: bool
    """Were the notes brought up to date first?"""


def tokens_by_category(session: Session, *, own: bool) -> dict[str, int]:
    """What the next prompt is made of, by estimate; the whole is what the session's gauge says.

    ``own`` says that system prompt and tools are on record.
    """
    estimate = session.core.exchange.gauge.estimator.tokens
    calls: dict[str, CallLabel] = {}
    sizes: dict[str, float] = {}
    for item in session.core.transcript.view.items:
        for block in item.shown:
            if block.kind.endswith("tool_use"):
                calls[block.id] = label_of_block(block)
            piece = piece_of(item.said, block, measure(block), calls.get(block.id))
            sizes[piece.category] = sizes.get(piece.category, 0.0) + estimate(piece.weight)
    found = {name: round(size) for name, size in sizes.items() if size >= 1}
    rest = session.core.exchange.size().tokens - sum(found.values())
    return found if rest <= 0 else {**found, OPENING if own else UNSEEN: rest}


def as_json(shown: Done | Planned) -> dict[str, object]:
    """The figures for scripts."""
    about = shown.about
    common: dict[str, object] = {
        "file": about.file,
        "model": about.model,
        "offline": about.offline,
        "dry_run": isinstance(shown, Planned),
        "left": shown.left,
    }
    if isinstance(shown, Planned):
        return {**common, "preview": shown.preview, "places": shown.places}
    did, total = shown.did, shown.did.score.total
    return {
        **common,
        "output": shown.output,
        "in_place": shown.in_place,
        "boundary": did.boundary,
        "engine": did.engine,
        "tokens_before": did.tokens_before,
        "tokens_after": did.tokens_after,
        "by_category": {"before": shown.before, "after": shown.after},
        "summarised": did.summarised,
        "kept": did.kept,
        "calls": did.calls + shown.noted,
        "usd": shown.usd,
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


def print_done(console: Console, done: Done, *, summary: bool) -> None:
    """The before/after view."""
    parts = [_title(done.about), _offline(done.about), _sizes(done.before, done.after), _facts(done)]
    if summary:
        parts.append(Group(_heading("The summary"), Text(harmless(done.did.summary))))
    where = "Appended to" if done.in_place else "Written to"
    parts.append(
        Group(Text(f"{where} {done.output}", style="bold green"), Text(f"boundary {done.did.boundary}"))
    )
    _print(console, parts)


def print_planned(console: Console, planned: Planned) -> None:
    """What would be done."""
    seen, about = planned.preview, planned.about
    grid = _grid()
    before, after = seen.tokens_hidden + seen.tokens_kept, seen.tokens_summary + seen.tokens_kept
    grid.add_row("messages", f"{count(before)} tokens in {plural(about.records, 'record')}")
    grid.add_row("afterwards", f"at most {count(after)} tokens, {share(after, before)}")
    hidden = f"{plural(seen.summarised, 'record')}, {count(seen.tokens_hidden)} tokens"
    grid.add_row("summarised", f"{hidden}, {_SPANS[seen.span]}")
    grid.add_row("summary", f"at most {count(seen.tokens_summary)} tokens")
    kept = f"{plural(seen.kept, 'record')}, {count(seen.tokens_kept)} tokens, word for word"
    grid.add_row("kept", kept if seen.kept else "no record word for word")
    grid.add_row("engine", _engines(seen.engine, planned.left, about))
    grid.add_row("cost", _cost(planned))
    grid.add_row("cache", _cache(seen))
    places = [
        Text(f"{place.id}  {harmless(place.says)}", overflow="ellipsis", no_wrap=True)
        for place in planned.places
    ]
    parts: list[RenderableType | None] = [
        _title(about),
        _offline(about),
        Group(_heading("What would be done"), grid),
    ]
    if places:
        parts.append(Group(_heading("Where it could be cut", "--from or --up-to"), *places))
    parts.append(Text("Nothing was done.", style="bold"))
    _print(console, parts)


_SPANS = {
    "whole": "the whole conversation",
    "from": "from the record on",
    "up_to": "up to the record",
    "range": "between the records",
}


def _print(console: Console, parts: Sequence[RenderableType | None]) -> None:
    console.print(Group(*(Padding(part, (0, 0, 1, 1), expand=False) for part in parts if part is not None)))


def _title(about: About) -> RenderableType:
    whose = "Sevenfold's" if about.own else "another tool's"
    words = f"{about.model} · {plural(about.records, 'record')} in view · {whose} transcript"
    lines = [Text(), Text(about.file, style="bold", overflow="fold"), Text(words, style="dim")]
    return Group(*lines, *([Text(about.note, style="yellow")] if about.note else []))


def _offline(about: About) -> RenderableType | None:
    if not about.offline:
        return None
    return Text(
        f"Offline: there is no key and no address for {about.model} in the environment. The summary is extracted "
        "by code, without judgement; nothing leaves this machine, and nothing is paid.",
        style="yellow",
    )


def _sizes(before: Mapping[str, int], after: Mapping[str, int]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
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
    table.add_row(*(Text(words, style="bold") for words in ("all", *totals)))
    was, now = (
        sum(tokens for name, tokens in side.items() if name not in (UNSEEN, OPENING))
        for side in (before, after)
    )
    grown = [Text("It has grown: a conversation this short is better left as it is.", style="yellow")]
    note = f"{share(now, was)} of the conversation's size is left"
    return Group(_heading("Tokens", note), table, *(grown if now > was else []))


def _facts(done: Done) -> RenderableType:
    did, grid = done.did, _grid()
    grid.add_row("summarised", plural(did.summarised, "record"))
    grid.add_row(
        "kept", f"{plural(did.kept, 'record')}, word for word" if did.kept else "no record word for word"
    )
    if did.restored:
        grid.add_row("restored", ", ".join(did.restored))
    grid.add_row("engine", _engines(did.engine, done.left, done.about))
    if done.noted:
        grid.add_row("", "the notes were brought up to date first")
    grid.add_row("cost", _paid(done))
    total = did.score.total
    facts = f"{total.in_context} in context, {total.reachable} reachable by recall, {total.lost} lost"
    grid.add_row("facts", Text(facts, style="bold red" if total.lost else ""))
    for probe in did.score.lost:
        grid.add_row("", Text(f"lost: {probe.kind} {probe.record} {_short(probe.text)}", style="red"))
    for words in did.invented:
        grid.add_row("taken out", f"no source for: {_short(words)}")
    if did.cut:
        grid.add_row("no room for", "\n".join(_some(did.cut)))
    return Group(_heading("What was done"), grid)


def _paid(done: Done) -> str:
    calls, cached = done.did.calls + done.noted, done.did.cached_share
    if not calls:
        return "no call, nothing"
    if done.about.offline:
        return f"{plural(calls, 'call')} to the offline stand-in, nothing"
    read = f", {share(cached, 1)} of its prompt read from the cache" if cached else ""
    return f"{plural(calls, 'call')}, {money(done.usd)}{read}"


def _engines(used: str, left: Sequence[Left], about: About) -> Text:
    """The engine, who stood in for the model, and why others were left."""
    stand_in = about.offline and used in ASK_A_MODEL
    text = Text(f"{used}, with the offline stand-in in the model's place" if stand_in else used)
    reasons: dict[str, list[str]] = {}
    for one in left:
        reasons.setdefault(one.reason, []).append(one.engine)
    for reason, names in reasons.items():
        text.append(f"\nnot {', '.join(names)}: {_short(reason)}", style="dim")
    return text


def _cost(planned: Planned) -> str:
    seen = planned.preview
    if planned.about.offline:
        return f"nothing; the next prompt of {planned.about.model} would cost {money(seen.next_usd)}"
    return f"{money(seen.call_usd)} for the summary, {money(seen.next_usd)} for the next prompt"


def _cache(seen: Preview) -> str:
    return f"the next request can read {count(seen.read)} tokens from it, and writes {count(seen.written)}"


def _some(cut: Sequence[str]) -> Iterator[str]:
    yield from (_short(words) for words in cut[:MOST_CUT])
    if len(cut) > MOST_CUT:
        yield f"{len(cut) - MOST_CUT} more, which --json lists"


def _short(text: str) -> str:
    return shortened(harmless(" ".join(text.split())), LONGEST)


def _heading(text: str, note: str = "") -> Text:
    return Text.assemble((text, "bold cyan"), (f"  {note}" if note else "", "dim"))


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid
