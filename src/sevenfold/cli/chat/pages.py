"""What the slash commands show: functions from values to rich renderables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sevenfold.agent.hooks.settings import Hook, SkippedHook
from sevenfold.agent.permissions.engine import Permissions
from sevenfold.archive.profile.figures import CacheBreak
from sevenfold.archive.profile.labels import pieces_in
from sevenfold.cli import text
from sevenfold.cli.chat.reports import Spending
from sevenfold.cli.chat.screen import Signs
from sevenfold.cli.output import CUT, FOLDED, NAME, NUMBER, REMARK, grid, mark_matches
from sevenfold.cli.text import category, cause, clean, count, money, one_line, plural, share, wording
from sevenfold.conversation.conversation import Conversation
from sevenfold.conversation.status import Reading
from sevenfold.recall.search import Hit
from sevenfold.record import weight
from sevenfold.request.frame import tool_name
from sevenfold.session.results import Explanation

if TYPE_CHECKING:
    from sevenfold.agent.mcp.connection import ServerState


def pairs(rows: Iterable[tuple[str, str, str]]) -> Table:
    """A table of names, values and remarks."""
    shown = ((name, Text(value), Text(remark)) for name, value, remark in rows)
    return grid(NAME, FOLDED, REMARK, rows=shown)


def help_page(commands: Iterable[tuple[str, str]], keys: Iterable[tuple[str, str]]) -> RenderableType:
    """Every command and every key."""
    return grid({"style": "cyan", "max_width": 28}, FOLDED, rows=(*commands, (), *keys))


# -- money and the cache ---------------------------------------------------------------------


def cost_page(
    whole: Spending, run: Spending, gauge: Reading, at_end: float | None = None
) -> RenderableType:
    """What the session has cost, and separately this run, if the session had earlier runs.

    ``at_end`` is what the look for lasting facts at its end will cost.
    """
    if not whole.answers:
        return Text("No answers yet, so nothing was charged.", style="dim")
    apart = whole.answers != run.answers
    table = grid(NAME, NUMBER, NUMBER, REMARK, rows=[("", "session", "this run")] if apart else ())
    sources = [name for name in sorted(whole.by_source) if name != "main"]
    unpriced = "" if gauge.usd is not None else "the price of a model that answered is unknown"
    more = (
        f"{text.times(whole.uncached_usd, whole.usd)} as much" if whole.usd and whole.uncached_usd else ""
    )
    rows = [
        ("cost", money(gauge.usd), money(run.usd), unpriced),
        *(
            (
                f"of it {text.source(name)}",
                money(whole.by_source[name]),
                money(run.by_source.get(name, 0.0)),
                "",
            )
            for name in sources
        ),
        *([("memory, at the end", f"about {money(at_end)}", "", "not spent yet")] if at_end else []),
        ("without cache", money(whole.uncached_usd), money(run.uncached_usd), more),
        ("perfect cache", "", money(run.ideal_usd), text.times(run.ideal_usd, run.usd)),
        ("answers", count(whole.answers), count(run.answers), ""),
        ("prompt tokens", count(whole.prompt), count(run.prompt), ""),
        ("from the cache", _cached(whole), _cached(run), ""),
        ("output tokens", count(whole.output_tokens), count(run.output_tokens), ""),
    ]
    # A run that reads an earlier run's cache can cost less than its ideal, in which it writes every token itself.
    ideal = run.usd and run.ideal_usd is not None and run.ideal_usd <= run.usd
    for name, session, here, remark in rows:
        if name != "perfect cache" or ideal:
            table.add_row(name, *((session, here) if apart else (session or here, "")), remark)
    return table


def cache_page(whole: Spending, run: Spending, breaks: Sequence[CacheBreak]) -> RenderableType:
    """The share of prompts read from the cache, and each cache break, with more detail for those of this run."""
    if not whole.answers:
        return Text("No answers yet, so nothing is cached.", style="dim")
    rows = [("read from cache", _cached(whole), _mix(whole))]
    if whole.answers != run.answers:
        rows.append(("in this run", _cached(run), _mix(run)))
    lost = f"lost {plural(len(breaks), 'time')}" if breaks else "The cache was never lost."
    parts: list[RenderableType] = [pairs(rows), Text(lost, style="dim")]
    for cache_break in breaks:
        waited = cache_break.idle_seconds if cache_break.cause == "expired" else None
        idle = f" after {text.duration(waited)}" if waited else ""
        price = money(cache_break.cost_usd)
        words = f"{cause(cache_break.cause)}{idle}, {cache_break.tokens:,} tokens charged again, {price}"
        parts.append(Text(f"  answer {cache_break.call}: {words}", overflow="fold"))
    if run.breaks:
        parts.append(Text("in this run, in detail", style="dim"))
    for broke in run.breaks:
        kind, style = ("expected", "") if broke.expected else ("not expected", "yellow")
        part = f" ({broke.part})" if broke.part not in ("", broke.cause) else ""
        words = f"{cause(broke.cause)}{part}, {broke.tokens:,} tokens charged again, {money(broke.usd)}"
        parts.append(Text(f"  {words}: {kind}", style=style))
        if broke.provider_says:
            parts.append(Text(f"    the provider says: {clean(broke.provider_says)}", style="dim"))
        if broke.diff:
            parts.append(Padding(Text(clean(broke.diff), style="dim"), (0, 0, 0, 4)))
    return Group(*parts)


def _cached(spent: Spending) -> str:
    return share(spent.cache_read_tokens, spent.prompt)


def _mix(spent: Spending) -> str:
    written = share(spent.cache_write_tokens, spent.prompt)
    return f"{written} written, {share(spent.input_tokens, spent.prompt)} uncached"


def why_page(explained: Explanation) -> RenderableType:
    """Why a request was built as it was: expected and actual figures, the decision, and its alternatives."""
    why = explained.why
    rows = [("request", str(explained.number), explained.source)]
    if why is None:
        return Group(pairs(rows), Text("Its reasons were not recorded.", style="dim"))
    actual = "not reported" if explained.actual_tokens is None else f"{explained.actual_tokens:,}"
    rows += [
        ("tokens", actual, f"expected {why.used:,} ± {why.band:,}"),
        ("threshold", f"{why.threshold:,}", "compaction begins here"),
        ("cost", money(explained.usd), f"prompt {money(explained.actual_usd)}, expected {money(why.usd)}"),
        ("decided", why.chosen, why.rule),
    ]
    others = (option for option in why.options if option.name != why.chosen)
    rows += [(f"  or {other.name}", f"{other.tokens:,} tokens", other.because) for other in others]
    return pairs(rows)


# -- recall, permissions, hooks and servers --------------------------------------------------


def recall_page(hits: Sequence[Hit]) -> RenderableType:
    """The records found, with the matching words in bold and quotation marks."""
    if not hits:
        return Text("No matches.", style="dim")
    parts: list[RenderableType] = []
    for number, hit in enumerate(hits, 1):
        what = f"{hit.kind} ({hit.tool})" if hit.tool else hit.kind
        when = hit.timestamp[:16].replace("T", " ")
        by = ", ".join(hit.matched)
        parts.append(Text(f"{number}. {when}  {what}  {hit.uuid}", style="bold").append(f"  {by}", "dim"))
        parts.append(Padding(mark_matches(hit, clean, quoted=True), (0, 0, 1, 3)))
    return Group(*parts)


def modes_page(now: str, signs: Signs) -> RenderableType:
    """All permission modes with what each permits, the current one marked."""
    modes = wording("modes").items()
    return pairs((signs.pointer if name == now else "", name, says) for name, says in modes)


def permissions_page(
    permissions: Permissions, granted: Sequence[str], rules: Sequence[str], file: str
) -> RenderableType:
    """The permission mode and the rules; for rules the user granted, also how long they apply."""
    rows = [("mode", permissions.mode.replace("_", " "), wording("modes")[permissions.mode])]
    rows.append(("workspace", permissions.workspace, ""))
    lasts = dict.fromkeys(granted, "in this session") | dict.fromkeys(rules, f"for good, in {file}")
    for name, lines in permissions.rules.as_data().items():
        remarks = lasts if name == "allow" else {}
        rows += [(name, line, remarks.get(line, "")) for line in dict.fromkeys(lines)]
    return pairs(rows)


def hooks_page(hooks: Sequence[Hook], skipped: Sequence[SkippedHook]) -> RenderableType:
    """The hooks that run, and those that were found but skipped."""
    if not hooks and not skipped:
        return Text("There are no hooks.", style="dim")
    rows = [(hook.event, one_line(hook.label, 80), one_line(hook.source)) for hook in hooks]
    parts: list[RenderableType] = [pairs(rows)] if rows else []
    parts += [Text(f"skipped: {one_line(str(error))}", style="yellow") for error in skipped]
    return Group(*parts)


LOG_LINES = 3
"""Lines shown from the end of a failed server's log."""


def mcp_page(states: Sequence[ServerState], problems: Sequence[str]) -> RenderableType:
    """Each MCP server with its state and, if it is not ready, its problem; then the entries that were skipped."""
    if not states and not problems:
        return Text("There are no MCP servers.", style="dim")
    parts: list[RenderableType] = []
    for state in states:
        tools = f", {plural(len(state.tools), 'tool')}" if state.status == "ready" else ""
        again = f", restarted {plural(state.restarts, 'time')}" if state.restarts else ""
        parts.append(pairs([(state.name, f"{state.status}{tools}{again}", one_line(state.where, 80))]))
        if state.status != "ready" and state.problem:
            parts.append(Padding(Text(clean(state.problem), style="yellow"), (0, 0, 0, 2)))
        if state.status == "failed" and state.log:
            last = "\n".join(state.log.splitlines()[-LOG_LINES:])
            parts.append(Padding(Text(clean(last), style="dim"), (0, 0, 0, 2)))
    parts += [Text(f"skipped: {one_line(problem)}", style="yellow") for problem in problems]
    return Group(*parts)


# -- the window ------------------------------------------------------------------------------

SYSTEM = "system"
TOOLS = "tools"
_NAMES = {SYSTEM: "system prompt", TOOLS: "tool descriptions"}
_LETTERS = "STUARIHCPMDO"
"""Letters for categories whose own letters are all taken."""
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green")
_ROWS = 5
_MOST_ITEMS = 8


class WindowItem(Struct, frozen=True):
    """One item in the window, such as a tool description or a tool result."""

    category: str
    tokens: int
    what: str = ""


class WindowBreakdown(Struct, frozen=True):
    """Everything in the window, with its size.

    Providers report only the size of whole prompts, so each item is estimated, and all are scaled to the gauge.
    """

    items: tuple[WindowItem, ...]
    gauge: Reading

    @classmethod
    def of(cls, conversation: Conversation) -> WindowBreakdown:
        """The items in a conversation's window now."""
        with conversation.lock:
            gauge = conversation.reading
            frame = conversation.epoch.frame
            estimate = conversation.epoch.gauge.estimator.tokens
            found = [(SYSTEM, "", estimate(weight.opening(part))) for part in frame.system]
            found += [(TOOLS, tool_name(part), estimate(weight.opening(part))) for part in frame.tools]
            pieces = pieces_in(conversation.transcript.view)
            found += [
                (piece.category, piece.what or piece.tool, estimate(piece.weight)) for piece in pieces
            ]
        whole = sum(size for _, _, size in found)
        scale = gauge.seen / whole if whole > 0 else 1.0
        items = tuple(WindowItem(kind, round(max(0.0, size) * scale), what) for kind, what, size in found)
        return cls(items, gauge)

    def by_category(self) -> list[tuple[str, int]]:
        """Categories with their tokens, the largest first."""
        sums: defaultdict[str, int] = defaultdict(int)
        for item in self.items:
            sums[item.category] += item.tokens
        return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))


def window_page(held: WindowBreakdown, signs: Signs, width: int) -> RenderableType:
    """The window drawn to scale, its categories, and its largest items."""
    gauge = held.gauge
    sums = [(name, size) for name, size in held.by_category() if size]
    letters = _letters([name for name, _ in sums])
    styles = {name: _COLOURS[number % len(_COLOURS)] for number, (name, _) in enumerate(sums)}
    listed = [(Text(letters[name], style=styles[name]), Text(_name(name)), size) for name, size in sums]
    listed.append((Text(), Text("free", style="dim"), max(0, gauge.effective - gauge.seen)))
    rows = ((sign, name, f"{size:,}", share(size, gauge.effective)) for sign, name, size in listed)
    table = grid({"no_wrap": True}, CUT, NUMBER, NUMBER, rows=rows)
    cells = [(letters[name], styles[name], size) for name, size in sums]
    drawn = _draw_window(cells, gauge, signs, max(20, min(72, width - 4)))
    parts: list[RenderableType] = [_headline(gauge), drawn, Text(), table]
    largest = [item for item in held.items if item.category not in (SYSTEM, TOOLS)]
    if largest:
        largest.sort(key=lambda item: -item.tokens)
        parts += [Text(), Text("largest items", style="bold"), _largest(largest[:_MOST_ITEMS], width)]
    return Group(*parts)


def _headline(gauge: Reading) -> Text:
    band = f" (at most {text.short_count(gauge.high)})" if gauge.high > gauge.seen else ""
    left = gauge.threshold - gauge.high
    far = f"compaction in {text.short_count(left)}" if left > 0 else "compaction is due"
    return Text.assemble(
        (f"{gauge.seen:,} of {gauge.effective:,} tokens", "bold"),
        (f"{band}, {share(gauge.seen, gauge.effective)} full; {far}, at {gauge.threshold:,}", ""),
    )


def _letters(names: list[str]) -> dict[str, str]:
    """A letter for each category, all different; ``?`` when none is left."""
    taken: dict[str, str] = {}
    for name in names:
        wanted = [sign for sign in _name(name).upper() if sign.isalpha()] + list(_LETTERS)
        taken[name] = next((sign for sign in wanted if sign not in taken.values()), "?")
    return taken


def _draw_window(parts: list[tuple[str, str, int]], gauge: Reading, signs: Signs, room: int) -> Text:
    """Rows of cells, each worth the same number of tokens, with a mark at the compaction threshold."""
    cells = room * _ROWS
    each = max(1.0, gauge.effective / (room * _ROWS))
    drawn: list[tuple[str, str]] = []
    filled = 0
    for letter, style, size in parts:
        # Round the running sum, not each part: many small parts must not add up to a window that looks full.
        filled += size
        drawn += [(letter, style)] * (round(filled / each) - len(drawn))
    drawn = drawn[:cells] + [(signs.free, "dim")] * max(0, cells - len(drawn))
    drawn[min(cells - 1, int(gauge.threshold / each))] = (signs.mark, "bold yellow")
    rows = (Text.assemble(*drawn[start : start + room]) for start in range(0, cells, room))
    return Text("\n").join(rows)


def _largest(items: list[WindowItem], width: int) -> Table:
    room = max(12, width // 2)
    rows = (
        (f"{item.tokens:,}", Text(_name(item.category)), Text(one_line(item.what, room))) for item in items
    )
    return grid(NUMBER, {**CUT, "max_width": max(12, width // 3)}, {**CUT, "style": "dim"}, rows=rows)


def _name(name: str) -> str:
    return _NAMES.get(name) or category(name)
