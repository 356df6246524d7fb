"""The profile as one self-contained page with charts.

The page is `page.html` with the figures put into it as JSON; it loads nothing, and its policy forbids it
to. Whatever the transcripts hold gets in as data and is shown as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from itertools import pairwise

import msgspec
from msgspec import structs

from sevenfold import __version__
from sevenfold.cli import phrases as wording
from sevenfold.cli.findings import sentences
from sevenfold.cli.marks import main_sizes, marks
from sevenfold.lab.profile.figures import Point, ProfileReport, SessionProfile

MOST_POINTS = 600
"""More points than this are thinned out: no chart is wider…"""
FEW_POINTS = 120
"""…and among many sessions none is looked at so closely."""
MANY_SESSIONS = 50
_PLACE = "/*FIGURES*/"


def render(profile: ProfileReport) -> str:
    """The text of the page."""
    most = MOST_POINTS if len(profile.sessions) <= MANY_SESSIONS else FEW_POINTS
    sessions = [
        structs.replace(session, context_over_time=_thinned(session.context_over_time, most))
        for session in profile.sessions
    ]
    content = {
        "profile": structs.replace(profile, sessions=sessions),
        "version": __version__,
        "categories": {name: wording.category(name) for name in profile.total.tokens_by_category},
        "causes": {one.cause: wording.cause(one.cause) for one in profile.total.cache_breaks},
        "spans": [wording.span(session.started, session.ended) for session in profile.sessions],
        "calls": [len(main_sizes(session)) for session in profile.sessions],
        "noticed": [list(sentences(session)) for session in profile.sessions],
        "noticed_in_total": list(sentences(profile.total)),
        "marks": [list(_marks(session)) for session in profile.sessions],
    }
    # Inside a script element nothing but its end tag and a comment's start could do harm.
    figures = msgspec.json.encode(content).decode().replace("<", "\\u003c")
    return _template().replace(_PLACE, figures)


def _thinned(points: list[Point], most: int) -> list[Point]:
    """The main conversation's points, of each stretch the largest."""
    main = [point for point in points if not point.lane]
    if len(main) <= most:
        return main
    edges = [round(number * len(main) / most) for number in range(most + 1)]
    stretches = [main[low:high] for low, high in pairwise(edges)]
    return [max(stretch, key=lambda point: point.tokens) for stretch in stretches]


def _marks(session: SessionProfile) -> Iterator[tuple[str, int, str]]:
    """What the chart of a session marks: the kind, the place, and what is said about it."""
    for mark in marks(session):
        yield mark.kind, mark.place, mark.text


def _template() -> str:
    return resources.files(__package__).joinpath("page.html").read_text("utf-8")
