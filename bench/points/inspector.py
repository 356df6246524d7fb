"""The inspector in a real browser; without playwright or Chromium, its points are not tested."""

from __future__ import annotations

from pathlib import Path

from bench import inspecting, inspecting_size
from bench.points import Outcome, Point, all_of, at_most, without_corpus

LATEST = 1.0
"""Seconds after which a new request must be on the page."""
FOUND_AGAIN = "facts that an audit calls reachable, found by the page's search"
NAMES = (
    "what the page draws adds up to the raw usage",
    "the page's cost is that of the raw usage, its breaks are the profile's",
    "bytes on the page are the bytes sent",
    "new requests on the page, seconds",
    "hostile sessions do nothing in the browser",
    "reached by the keyboard alone, readable, without overflow",
    "a changed tool, who changed it and what that cost",
    "a session of 100,000 records: drawn, seconds",
    "a session of 100,000 records: a new request on the page, seconds",
    "a session of 100,000 records: memory of the server, MB",
    "a list of 500 sessions, seconds",
)


def drawn(corpus: Path | None) -> list[Outcome]:
    """Every request of every real session, as it is drawn, beside the usage in its raw file."""
    if corpus is None:
        return without_corpus(*NAMES[:2])
    if reason := inspecting.unavailable():
        return [Outcome(name, None, f"not tested: {reason}") for name in NAMES[:2]]
    found = inspecting.drawn(corpus)
    shown, expected = inspecting.resumed(corpus)
    return [
        all_of(NAMES[0], found.requests - len(found.wrong), found.requests),
        all_of(NAMES[1], found.sessions - len(found.wrong_costs), found.sessions),
        Outcome("the sum of all sessions, a resumed copy among them", shown == expected, shown, expected),
    ]


def exact_bytes(_: Path | None) -> list[Outcome]:
    """Requests of a session of our own, beside what the simulator received."""
    if reason := inspecting.unavailable():
        return [Outcome(name, None, f"not tested: {reason}") for name in (NAMES[2], NAMES[6])]
    same, shown = inspecting.exact_bytes()
    unsaid = inspecting.changed_tool()
    return [
        all_of(NAMES[2], same, shown),
        Outcome(NAMES[6], not unsaid, ", ".join(unsaid) or "named", "named"),
    ]


def recalled(corpus: Path | None) -> list[Outcome]:
    """Every fact of real sessions that an audit calls reachable, looked for on the page."""
    if corpus is None:
        return without_corpus(FOUND_AGAIN)
    if reason := inspecting.unavailable():
        return [Outcome(FOUND_AGAIN, None, f"not tested: {reason}")]
    return [all_of(FOUND_AGAIN, *inspecting.found_again(corpus))]


def live(_: Path | None) -> list[Outcome]:
    """Lines appended to a log, torn ones among them, and a server that is killed and started again."""
    if reason := inspecting.unavailable():
        return [Outcome(NAMES[3], None, f"not tested: {reason}")]
    followed = inspecting.live()
    agent = inspecting.followed_agent()
    return [
        at_most(NAMES[3], max(followed.slowest, agent.slowest), LATEST),
        all_of("requests of an agent that was killed on the page once", agent.right, agent.sent),
        all_of(
            "requests on the page once, through torn lines and a restart", followed.right, followed.sent
        ),
    ]


def hostile(_: Path | None) -> list[Outcome]:
    """Sessions with markup, scripts, links and secrets in every field."""
    if reason := inspecting.unavailable():
        return [Outcome(NAMES[4], None, f"not tested: {reason}")]
    incidents = inspecting.hostile()
    return [Outcome(NAMES[4], not incidents, ", ".join(incidents[:5]) or "nothing happened", "nothing")]


def access(_: Path | None) -> list[Outcome]:
    """The keyboard, names of controls, contrast in both themes, and no overflow from 390 to 1,600 pixels."""
    if reason := inspecting.unavailable():
        return [Outcome(NAMES[5], None, f"not tested: {reason}")]
    faults = inspecting.access() + inspecting.every_page()
    return [Outcome(NAMES[5], not faults, ", ".join(faults[:5]) or "no fault", "no fault")]


def large(_: Path | None) -> list[Outcome]:
    """A session of 100,000 records and 50,000 requests that was never compacted, and a list of 500 sessions."""
    if reason := inspecting.unavailable():
        return [Outcome(name, None, f"not tested: {reason}") for name in NAMES[7:]]
    long = inspecting_size.large()
    short = inspecting_size.large(requests=500)
    listed = inspecting_size.many()
    times = f"{long.appended:.2f}, {long.appended / short.appended:.1f} times that of 1,000 records"
    work = f"of the processor {1000 * long.work:.0f} ms instead of {1000 * short.work:.0f}"
    quick = long.appended <= 0.7 and long.appended <= 2.0 * short.appended
    slowest = max(listed.going_back, listed.loading, key=lambda spent: spent.passed)
    return [
        Outcome(NAMES[7], long.opening.passed <= 2.0, str(long.opening), "at most 2.0"),
        Outcome(NAMES[8], quick, f"{times}; {work}", "at most 0.7, and twice as long"),
        at_most(NAMES[9], long.memory, 350.0),
        Outcome(NAMES[10], slowest.passed <= 0.3, str(slowest), "at most 0.3"),
    ]


POINTS: list[Point] = [
    ("inspector: drawn", drawn),
    ("inspector: bytes", exact_bytes),
    ("inspector: recall", recalled),
    ("inspector: live", live),
    ("inspector: hostile", hostile),
    ("inspector: access", access),
    ("inspector: large", large),
]
