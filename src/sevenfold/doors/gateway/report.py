"""What a run through the gateway cost, in five lines: for the person who started the program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from sevenfold.archive.profile.figures import ProfileReport, SessionProfile
from sevenfold.archive.profile.files import FoundFiles, profile
from sevenfold.doors.follower.kept_figures import KeptFigures
from sevenfold.doors.gateway.recorder import CallStatistics

CAUSES: Mapping[str, tuple[str, str]] = {
    "expired": (
        "a pause longer than the cache lives",
        "answer within the cache's lifetime, or cache for an hour",
    ),
    "tools_changed": ("the tools changed", "connect all tools and servers before the first message"),
    "system_changed": (
        "the system prompt changed",
        "keep what changes (dates, states) out of the system prompt",
    ),
    "messages_changed": (
        "an old message was rewritten",
        "let the program leave earlier messages as they were",
    ),
    "model_changed": ("the model changed", "change the model at the start of a session, not in the middle"),
    "settings_changed": (
        "thinking or the tool choice changed",
        "leave thinking and the tool choice as they are",
    ),
    "compaction": (
        "a compaction",
        "compact at the end of a piece of work, when little is left to do",
    ),
    "clearing": ("old results were cleared", "clear many results at once, not a few with each request"),
    "rewind": ("the conversation went back", "go back soon: what is behind the place is paid for again"),
}
"""Causes of lost caches: what happened, and what would have helped."""
NONE_CAME = "a program that does not look for its address in the environment goes past the gateway"
UNKNOWN = ("an unknown cause", "look at `sevenfold profile` for when it happened")


def five_lines(transcripts: Sequence[Path], statistics: CallStatistics, since: float) -> list[str]:
    """What was spent, what was lost to broken caches and why, and what would have helped.

    ``transcripts`` are those that were written to; calls before ``since``, in seconds since 1970, do not count.
    """
    report = profile(FoundFiles(list(transcripts), []), since=since, jobs=1)
    return [
        _recorded(report, statistics, transcripts),
        _spent(report),
        _used(report),
        _lost(report.sessions),
        _would_help(report.sessions),
    ]


def kept_lines(changed: int, figures: KeptFigures) -> list[str]:
    """What was done to keep conversations within their windows, what it saved and cost, and how to undo it."""
    if not changed:
        spent = f"; our own calls cost {_money(figures.own_usd)}" if figures.own_usd else ""
        return [f"{'kept':<12}nothing had to leave a context{spent}"]
    requests = "request was" if changed == 1 else "requests were"
    return [
        f"{'kept':<12}{changed} {requests} sent with less in them: {_done(figures)}",
        f"{'saved':<12}{_saved(figures)}",
        f"{'undo':<12}the program's own conversation is whole, and with --mode watch it is sent whole; "
        "`sevenfold inspect` undoes single decisions, and `sevenfold decisions` those of a gateway that runs",
    ]


def _done(figures: KeptFigures) -> str:
    counted = (
        (figures.summaries, "summary", "summaries"),
        (figures.moved, "result moved to disk", "results moved to disk"),
        (figures.cleared, "result cleared", "results cleared"),
    )
    done = [
        f"{number} {singular if number == 1 else plural}" for number, singular, plural in counted if number
    ]
    return ", ".join(done) or "what was decided in an earlier run"


def _saved(figures: KeptFigures) -> str:
    by = "beside sending the program's own requests, by what the provider reported"
    if figures.saved_usd >= 0:
        balance = f"about {_money(figures.saved_usd)} {by}"
    else:
        balance = f"nothing: about {_money(-figures.saved_usd)} more {by}"
    return f"{balance}; our own calls cost {_money(figures.own_usd)}"


def broker_line(asked: int, given_again: int) -> str:
    """What the broker held for workers."""
    calls = "call" if asked == 1 else "calls"
    return f"{'held':<12}{asked:,} {calls} for workers; {given_again:,} had been paid for already when they were asked"


def _recorded(report: ProfileReport, statistics: CallStatistics, transcripts: Sequence[Path]) -> str:
    if not statistics.requests:
        return f"{'calls':<12}none came by; {NONE_CAME}"
    sessions = "session" if len(transcripts) == 1 else "sessions"
    failed = f", {statistics.failed} of them failed" if statistics.failed else ""
    unrecorded = f", {statistics.unrecorded} not recorded" if statistics.unrecorded else ""
    where = f" in {transcripts[0].parent}" if transcripts else ""
    return f"{'calls':<12}{statistics.requests}{failed}{unrecorded}; {len(transcripts)} {sessions} recorded{where}"


def _spent(report: ProfileReport) -> str:
    total = report.total
    if total.cost_usd is None:
        return f"{'spent':<12}unknown: the price of {_names(total.models)} is not known"
    without = ""
    if total.uncached_cost_usd is not None and total.uncached_cost_usd > total.cost_usd:
        without = f"; it would have been {_money(total.uncached_cost_usd)} without a cache"
    unpriced = f"; {total.unpriced_calls} calls have no known price" if total.unpriced_calls else ""
    return f"{'spent':<12}{_money(total.cost_usd)}{without}{unpriced}"


def _used(report: ProfileReport) -> str:
    usage = report.total.usage
    prompt = usage.prompt
    share = f", {usage.cache_read_input_tokens / prompt:.0%} of it from the cache" if prompt else ""
    return f"{'tokens':<12}{prompt:,} in{share}; {usage.output_tokens:,} out"


def _lost(sessions: Sequence[SessionProfile]) -> str:
    lost = _by_cause(sessions)
    if not lost:
        return f"{'lost':<12}nothing to broken caches"
    parts = [
        f"{len(costs)} × {CAUSES.get(cause, UNKNOWN)[0]} ({_sum(costs)})" for cause, costs in lost.items()
    ]
    every = [cost for costs in lost.values() for cost in costs]
    return f"{'lost':<12}{_sum(every)} to broken caches: {', '.join(parts)}"


def _would_help(sessions: Sequence[SessionProfile]) -> str:
    lost = _by_cause(sessions)
    if not lost:
        return f"{'would help':<12}nothing: the cache was used as well as it can be"
    dearest = next(iter(lost))
    return f"{'would help':<12}{CAUSES.get(dearest, UNKNOWN)[1]}"


def _by_cause(sessions: Sequence[SessionProfile]) -> dict[str, list[float | None]]:
    """What each lost cache cost, by cause, the dearest cause first."""
    costs: defaultdict[str, list[float | None]] = defaultdict(list)
    for session in sessions:
        for lost in session.cache_breaks:
            costs[lost.cause].append(lost.cost_usd)
    return dict(sorted(costs.items(), key=lambda pair: -sum(cost or 0.0 for cost in pair[1])))


def _sum(costs: Sequence[float | None]) -> str:
    known = [cost for cost in costs if cost is not None]
    return _money(sum(known)) if known else "at an unknown price"


def _names(models: Mapping[str, int]) -> str:
    return ", ".join(models) or "the model"


def _money(usd: float) -> str:
    return f"${usd:.2f}" if usd >= 0.005 or usd == 0 else f"${usd:.4f}"
