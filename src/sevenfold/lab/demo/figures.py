"""What a demonstration comes to, and what must hold of it."""

from __future__ import annotations

from msgspec import Struct

MOST_ABOVE_IDEAL = 1.15
MOST_OF_NAIVE = 0.40


class Facts(Struct, frozen=True):
    """How many facts are where."""

    in_context: int
    reachable: int
    lost: int


class Figures(Struct, frozen=True):
    """The figures that are given as JSON."""

    turns: int
    peak_context_tokens: int
    threshold_tokens: int
    cost_usd: float
    naive_cost_usd: float
    ideal_cost_usd: float
    cache_read_share: float
    layers: dict[str, int]
    facts: Facts


class Mark(Struct, frozen=True):
    """A layer acted before the turn with this number, counted from 0."""

    turn: int
    layer: str


class Death(Struct, frozen=True):
    """The agent was killed while it waited for an answer, and started again."""

    turn: int
    same_request: bool
    """Its next request was, byte for byte, the one it had been waiting with."""


class Outcome(Struct, frozen=True):
    """A demonstration that came to its end."""

    figures: Figures
    model: str
    sizes: tuple[int, ...]
    """Of the context, turn by turn."""
    marks: tuple[Mark, ...]
    needed_tokens: int
    """What the whole conversation has."""
    largest_turn: int
    """Tokens the largest single turn brought."""
    side_requests: int
    """Requests beside the conversation: for notes and summaries."""
    death: Death
    answer: str
    """What the assistant said when it was asked for what it had been told at the start…"""
    answered: bool
    """…and whether that was right."""
    tests: str
    """What the project's own tests say in the end…"""
    sound: bool
    """…and whether that is that all is well."""
    lost: tuple[str, ...] = ()


class Bar(Struct, frozen=True):
    """Something that must hold, and whether it does."""

    says: str
    met: bool


def bars(outcome: Outcome) -> list[Bar]:
    """All that must hold of a demonstration."""
    figures = outcome.figures
    above, part = figures.cost_usd / figures.ideal_cost_usd, figures.cost_usd / figures.naive_cost_usd
    most = figures.threshold_tokens + outcome.largest_turn
    return [
        Bar(f"{figures.facts.lost} facts lost (0)", figures.facts.lost == 0),
        Bar(
            f"peak context {figures.peak_context_tokens:,} tokens (at most {most:,}: the threshold and a turn)",
            figures.peak_context_tokens <= most,
        ),
        Bar(f"cost {above:.2f} × ideal (at most {MOST_ABOVE_IDEAL})", above <= MOST_ABOVE_IDEAL),
        Bar(f"cost {part:.0%} of naive (at most {MOST_OF_NAIVE:.0%})", part <= MOST_OF_NAIVE),
        Bar("killed once; resumed with the same request, byte for byte", outcome.death.same_request),
        Bar("asked at the end for what was said at the start, it knew", outcome.answered),
        Bar(f"the work is done: {outcome.tests}", outcome.sound),
    ]
