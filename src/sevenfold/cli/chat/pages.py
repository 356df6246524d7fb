"""What the commands show: from values to things rich prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sevenfold.agent.hooks.settings import Hook, SkippedHook
from sevenfold.agent.permissions.engine import Permissions
from sevenfold.cli.chat.ledger import Ledger
from sevenfold.cli.chat.words import clean, one_line
from sevenfold.cli.phrases import cause, count, duration, money, plural, share, times
from sevenfold.conversation.status import Reading
from sevenfold.lab.profile.figures import CacheBreak
from sevenfold.recall.recall import Hit
from sevenfold.session.session import Explanation


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
