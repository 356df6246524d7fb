"""What the commands show: from values to things rich prints.

What fills the window: every piece in view with its tokens, by category, and drawn to scale.

Servers report sizes of whole prompts only, so each piece is estimated and all are scaled to the size the gauge
reads; the picture is as right as that.

How MCP servers are doing, from values to things rich prints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sevenfold.agent.hooks.settings import Hook, SkippedHook
from sevenfold.agent.mcp.connection import ServerState
from sevenfold.agent.permissions.engine import Permissions
from sevenfold.cli.chat.screen import Signs
from sevenfold.cli.chat.status import Ledger
from sevenfold.cli.text import (
    CATEGORIES,
    category,
    cause,
    clean,
    count,
    duration,
    money,
    one_line,
    plural,
    share,
    short_count,
    times,
)
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.status import Reading
from sevenfold.lab.profile.context import CallLabel, label_of_block, piece_of
from sevenfold.lab.profile.figures import CacheBreak
from sevenfold.recall.recall import Hit
from sevenfold.record import weight
from sevenfold.request.frame import tool_name
from sevenfold.session.session import Explanation

# -- pages


def pairs(rows: Iterable[tuple[str, str, str]]) -> Table:
    """Names, values and remarks."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim", overflow="fold")
    for name, value, remark in rows:
        table.add_row(name, Text(value), Text(remark))
    return table


def help_page(commands: Iterable[tuple[str, str]], keys: Iterable[tuple[str, str]]) -> RenderableType:
    """Every command and every key."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for usage, says in commands:
        table.add_row(usage, says)
    table.add_row()
    for key, says in keys:
        table.add_row(key, says)
    return table


def cost_page(whole: Ledger, run: Ledger, gauge: Reading) -> RenderableType:
    """What the session has cost, and apart from that this run of the program, if there was another before."""
    if not whole.answers:
        return Text("Nothing was answered yet, so nothing was paid.", style="dim")
    apart = whole.answers != run.answers
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    if apart:
        table.add_row("", "session", "this run")
    sources = [name for name in sorted(whole.by_source) if name != "main"]
    rows = [
        ("cost", money(gauge.usd), money(run.usd), "" if gauge.usd is not None else _UNPRICED),
        *((f"of it {name}", *_of(name, whole, run), "") for name in sources),
        ("without cache", money(whole.uncached_usd), money(run.uncached_usd), _dearer(whole)),
        ("perfect cache", "", money(run.ideal_usd), times(run.ideal_usd, run.usd)),
        ("answers", count(whole.answers), count(run.answers), ""),
        ("prompt tokens", count(whole.prompt), count(run.prompt), ""),
        ("from the cache", share(whole.read, whole.prompt), share(run.read, run.prompt), ""),
        ("output tokens", count(whole.output), count(run.output), ""),
    ]
    # What an earlier run left in the cache makes this one cheaper than a perfect one of its own.
    ideal = run.usd and run.ideal_usd is not None and run.ideal_usd <= run.usd
    for name, session, here, remark in rows:
        if name != "perfect cache" or ideal:
            table.add_row(name, *((session, here) if apart else (session or here, "")), remark)
    return table


_UNPRICED = "no price is known for a model that answered"


def _of(name: str, whole: Ledger, run: Ledger) -> tuple[str, str]:
    return money(whole.by_source[name]), money(run.by_source.get(name, 0.0))


def _dearer(whole: Ledger) -> str:
    return f"{times(whole.uncached_usd, whole.usd)} as much" if whole.usd and whole.uncached_usd else ""


def cache_page(whole: Ledger, run: Ledger, breaks: Sequence[CacheBreak]) -> RenderableType:
    """What the cache gave in the session, and each time it was lost; of this run in detail."""
    if not whole.answers:
        return Text("Nothing was answered yet, so nothing is cached.", style="dim")
    rows = [("read from cache", share(whole.read, whole.prompt), _mix(whole))]
    if whole.answers != run.answers:
        rows.append(("in this run", share(run.read, run.prompt), _mix(run)))
    parts: list[RenderableType] = [pairs(rows)]
    parts.append(Text(f"lost {plural(len(breaks), 'time')}" if breaks else "It was not lost.", style="dim"))
    parts += [Text(f"  answer {one.call}: {_lost(one)}", overflow="fold") for one in breaks]
    if run.breaks:
        parts.append(Text("in this run, in detail", style="dim"))
    for one in run.breaks:
        kind = "expected" if one.expected else "NOT EXPECTED"
        line = (
            f"  {cause(one.cause)}: {one.part}, {one.tokens:,} tokens paid again, {money(one.usd)} ({kind})"
        )
        parts.append(Text(line, style="" if one.expected else "yellow"))
        if one.diff:
            parts.append(Padding(Text(clean(one.diff), style="dim"), (0, 0, 0, 4)))
    return Group(*parts)


def _mix(books: Ledger) -> str:
    return f"{share(books.written, books.prompt)} written, {share(books.plain, books.prompt)} plain"


def _lost(one: CacheBreak) -> str:
    idle = f" after {duration(one.idle_seconds)}" if one.idle_seconds and one.cause == "idle_gap" else ""
    return f"{cause(one.cause)}{idle}, {one.tokens:,} tokens paid again, {money(one.cost_usd)}"


def why_page(explained: Explanation) -> RenderableType:
    """Why a request was what it was."""
    why = explained.why
    rows = [("request", str(explained.number), explained.source)]
    if why is None:
        return Group(pairs(rows), Text("Nothing about its reasons is on record.", style="dim"))
    expected = f"expected {why.used:,} ± {why.band:,}"
    actual = "not reported" if explained.actual_tokens is None else f"{explained.actual_tokens:,}"
    rows += [
        ("tokens", actual, expected),
        ("threshold", f"{why.threshold:,}", "compaction begins there"),
        ("cost", money(explained.usd), f"prompt {money(explained.actual_usd)}, expected {money(why.usd)}"),
        ("decided", why.chosen, why.rule),
    ]
    rows += [
        (f"  or {option.name}", f"{option.tokens:,} tokens", option.because)
        for option in why.options
        if option.name != why.chosen
    ]
    return pairs(rows)


def recall_page(hits: Sequence[Hit]) -> RenderableType:
    """What was found, with the words that fit in quotation marks and bold."""
    if not hits:
        return Text("Nothing fits.", style="dim")
    parts: list[RenderableType] = []
    for number, hit in enumerate(hits, 1):
        what = f"{hit.kind} ({hit.tool})" if hit.tool else hit.kind
        when = hit.timestamp[:16].replace("T", " ")
        by = ", ".join(hit.matched)
        parts.append(Text(f"{number}. {when}  {what}  {hit.uuid}", style="bold").append(f"  {by}", "dim"))
        parts.append(Padding(_marked(hit), (0, 0, 1, 3)))
    return Group(*parts)


def _marked(hit: Hit) -> Text:
    shown, place = Text(overflow="fold"), 0
    for start, end in hit.marks:
        shown.append(clean(hit.excerpt[place:start]))
        shown.append(f"«{clean(hit.excerpt[start:end])}»", style="bold yellow")
        place = end
    return shown.append(clean(hit.excerpt[place:]))


def permissions_page(permissions: Permissions) -> RenderableType:
    """The mode and the rules in force."""
    modes = {
        "ask": "changes, commands and addresses are asked for",
        "accept_edits": "files in the workspace may be changed; commands are asked for",
        "plan": "nothing may be changed but the plan",
        "autonomous": "everything inside the workspace is free",
    }
    rows = [("mode", permissions.mode.replace("_", " "), modes[permissions.mode])]
    rows.append(("workspace", permissions.workspace, ""))
    for name, lines in permissions.rules.as_data().items():
        rows += [(name, line, "") for line in lines]
    return pairs(rows)


def hooks_page(hooks: Sequence[Hook], skipped: Sequence[SkippedHook]) -> RenderableType:
    """What runs, and what was found and does not."""
    if not hooks and not skipped:
        return Text("There are no hooks.", style="dim")
    rows = [(hook.event, one_line(hook.label, 80), one_line(hook.source)) for hook in hooks]
    parts: list[RenderableType] = [pairs(rows)] if rows else []
    parts += [Text(f"skipped: {one_line(str(one))}", style="yellow") for one in skipped]
    return Group(*parts)


def details(named: Sequence[tuple[str, str]]) -> RenderableType:
    """What is behind a layer's line."""
    return pairs([(name, clean(value), "") for name, value in named])


# -- window


SYSTEM, TOOLS = "system", "tools"
_NAMES = {SYSTEM: "system prompt", TOOLS: "tools, described"}
_LETTERS = "STUARIHCPMDO"
"""Given to categories whose own first letter is taken."""
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green")
_ROWS = 5
_MOST_ITEMS = 8


class Item(Struct, frozen=True):
    """Something in the window."""

    category: str
    tokens: int
    what: str = ""


class Contents(Struct, frozen=True):
    """All that is in the window."""

    items: tuple[Item, ...]
    gauge: Reading

    def by_category(self) -> list[tuple[str, int]]:
        """Categories with their tokens, the largest first."""
        sums: defaultdict[str, int] = defaultdict(int)
        for item in self.items:
            sums[item.category] += item.tokens
        return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))


def contents(session: Conversation) -> Contents:
    """What is in a session's window now."""
    with session.lock:
        gauge, frame = session.reading, session.frame
        estimate = session.gauge.estimator.tokens
        found = [(SYSTEM, "", estimate(weight.opening(part))) for part in frame.system]
        found += [(TOOLS, tool_name(part), estimate(weight.opening(part))) for part in frame.tools]
        calls: dict[str, CallLabel] = {}
        for item in session.transcript.view.items:
            for block in item.shown:
                if block.kind == "tool_use":
                    calls[block.id] = label_of_block(block)
                piece = piece_of(item.said, block, weight.total([block]), calls.get(block.id))
                found.append((piece.category, piece.what or piece.tool, estimate(piece.weight)))
    whole = sum(size for _, _, size in found)
    scale = gauge.seen / whole if whole > 0 else 1.0
    items = tuple(Item(kind, round(max(0.0, size) * scale), what) for kind, what, size in found)
    return Contents(items, gauge)


def picture(held: Contents, signs: Signs, width: int) -> RenderableType:
    """The window drawn to scale, its categories, and its largest items."""
    sums = [(name, size) for name, size in held.by_category() if size]
    letters = _letters([name for name, _ in sums])
    parts: list[RenderableType] = [
        _headline(held.gauge),
        _drawn(sums, letters, held.gauge, signs, max(20, min(72, width - 4))),
        Text(),
        _table(sums, letters, held.gauge),
    ]
    largest = sorted((item for item in held.items if item.category not in (SYSTEM, TOOLS)), key=_size)
    if largest:
        parts += [Text(), Text("largest items", style="bold"), _items(largest[:_MOST_ITEMS], width)]
    return Group(*parts)


def _size(item: Item) -> int:
    return -item.tokens


def _headline(gauge: Reading) -> Text:
    band = f" (at most {short_count(gauge.high)})" if gauge.high > gauge.seen else ""
    left = gauge.threshold - gauge.high
    far = f"compaction in {short_count(left)}" if left > 0 else "compaction is due"
    return Text.assemble(
        (f"{gauge.seen:,} of {gauge.effective:,} tokens", "bold"),
        (f"{band}, {share(gauge.seen, gauge.effective)} full; {far}, at {gauge.threshold:,}", ""),
    )


def _letters(names: list[str]) -> dict[str, str]:
    """A letter for each category, none twice."""
    taken: dict[str, str] = {}
    for name in names:
        spoken = _name(name).upper().removeprefix("RESULTS OF ").removeprefix("WHAT THE ")
        wanted = [sign for sign in spoken if sign.isalpha()] + list(_LETTERS)
        free = (sign for sign in wanted if sign not in taken.values())
        taken[name] = next(free, "?")
    return taken


def _drawn(
    sums: list[tuple[str, int]], letters: dict[str, str], gauge: Reading, signs: Signs, room: int
) -> Text:
    """Rows of cells, each worth the same number of tokens; the mark is where compaction begins."""
    cells, each = room * _ROWS, max(1.0, gauge.effective / (room * _ROWS))
    drawn: list[tuple[str, str]] = []
    for number, (name, size) in enumerate(sums):
        drawn += [(letters[name], _COLOURS[number % len(_COLOURS)])] * max(1, round(size / each))
    drawn = drawn[:cells] + [(signs.free, "dim")] * max(0, cells - len(drawn))
    threshold = min(cells - 1, int(gauge.threshold / each))
    drawn[threshold] = (signs.mark, "bold yellow")
    picture = Text()
    for place, (sign, style) in enumerate(drawn):
        picture.append(sign, style=style)
        if place % room == room - 1 and place + 1 < cells:
            picture.append("\n")
    return picture


def _table(sums: list[tuple[str, int]], letters: dict[str, str], gauge: Reading) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, justify="right")
    for number, (name, size) in enumerate(sums):
        sign = Text(letters[name], style=_COLOURS[number % len(_COLOURS)])
        table.add_row(sign, Text(_name(name)), f"{size:,}", share(size, gauge.effective))
    free = max(0, gauge.effective - gauge.seen)
    table.add_row("", Text("free", style="dim"), f"{free:,}", share(free, gauge.effective))
    return table


def _items(items: list[Item], width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(12, width // 3))
    table.add_column(no_wrap=True, overflow="ellipsis", style="dim")
    for item in items:
        table.add_row(
            f"{item.tokens:,}", Text(_name(item.category)), Text(one_line(item.what, max(12, width // 2)))
        )
    return table


def _name(name: str) -> str:
    return _NAMES.get(name) or (category(name) if name in CATEGORIES or ":" in name else name)


# -- mcp_page


LOG_LINES = 3
"""Of what a server that is not there printed last."""


def mcp_page(states: Sequence[ServerState], problems: Sequence[str]) -> RenderableType:
    """Each server with its state; for one that is not there, why; and what cannot be used."""
    if not states and not problems:
        return Text("There are no MCP servers.", style="dim")
    parts: list[RenderableType] = []
    for state in states:
        parts.append(pairs([(state.name, _doing(state), one_line(state.where, 80))]))
        if state.status != "ready" and state.problem:
            parts.append(Padding(Text(clean(state.problem), style="yellow"), (0, 0, 0, 2)))
        if state.status == "failed" and state.log:
            last = "\n".join(state.log.splitlines()[-LOG_LINES:])
            parts.append(Padding(Text(clean(last), style="dim"), (0, 0, 0, 2)))
    parts += [Text(f"skipped: {one_line(problem)}", style="yellow") for problem in problems]
    return Group(*parts)


def _doing(state: ServerState) -> str:
    again = f", started again {plural(state.restarts, 'time')}" if state.restarts else ""
    if state.status == "ready":
        return f"ready, {plural(len(state.tools), 'tool')}{again}"
    return f"{state.status}{again}"
