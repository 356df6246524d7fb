"""The user's words: what they said in passing and expect to hold, after compactions and under attack."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench import compactbench, eviction, growth, user_words
from bench.compaction import Bar
from bench.points import Outcome, Point, is_quick, without_corpus


def _outcomes(bars: Iterable[Bar]) -> list[Outcome]:
    return [Outcome(name, met, figure, asked) for name, figure, asked, met in bars]


def chats(_: Path | None) -> list[Outcome]:
    """Chats in which everything the user said fits the budget; the recogniser is switched off."""
    windows = user_words.WINDOWS
    held = list(
        user_words.chats_that_fit(windows, user_words.TURNS[:2] if is_quick() else user_words.TURNS)
    )
    return _outcomes(user_words.fitting_bars([each for each in held if user_words.fits(each)]))


def coding_sessions(corpus: Path | None) -> list[Outcome]:
    """Recorded coding sessions in which the user says such things in passing; the recogniser is switched off."""
    if corpus is None:
        return without_corpus("the user's words in coding sessions")
    held = [each for each in user_words.coding_sessions(corpus) if user_words.fits(each)]
    bars = user_words.fitting_bars(held)
    return [Outcome(f"{name}, coding sessions", met, figure, asked) for name, figure, asked, met in bars]


def beyond_by_code(_: Path | None) -> list[Outcome]:
    """Chats in which the user's words exceed the budget, by code alone, on statements that no list was made with."""
    windows, times = _sample()
    held = list(user_words.crowded_by_code(windows, times))
    return _outcomes(user_words.crowded_bars("by code alone, blind set", held, None))


def beyond_with_a_model(_: Path | None) -> list[Outcome]:
    """Chats in which the user's words exceed the budget, with a model that names nine in ten of them."""
    windows, times = _sample()
    held = list(user_words.crowded_with_a_model(windows, times))
    return _outcomes(user_words.crowded_bars("a model names nine in ten", held, user_words.NAMED))


def _sample() -> tuple[tuple[int, ...], tuple[int, ...]]:
    if is_quick():
        return user_words.WINDOWS[:2], user_words.TIMES[1:2]
    return user_words.WINDOWS, user_words.TIMES


def evicted(_: Path | None) -> list[Outcome]:
    """Hostile pages and a model that obeys them, with every engine."""
    compactions = 3 if is_quick() else eviction.COMPACTIONS
    return _outcomes(eviction.bars(eviction.measure(compactions=compactions), compactions))


def grown(_: Path | None) -> list[Outcome]:
    """Chats of short messages, compacted as a whole and in part."""
    if is_quick():
        return _outcomes(growth.bars(growth.compact_all((20, 240), user_words.WINDOWS[-1:])))
    return _outcomes(growth.bars(growth.compact_all()))


def published_cases(_: Path | None) -> list[Outcome]:
    """The cases of compactbench, as published and padded."""
    try:
        return _outcomes(compactbench.measure(is_quick=is_quick()))
    except compactbench.Unavailable as error:
        return [Outcome("compactbench", None, f"cannot be fetched: {error}")]


POINTS: list[Point] = [
    ("user's words: chats that fit", chats),
    ("user's words: coding sessions", coding_sessions),
    ("user's words: beyond the budget by code", beyond_by_code),
    ("user's words: beyond the budget with a model", beyond_with_a_model),
    ("user's words: hostile pages", evicted),
    ("user's words: growth", grown),
    ("user's words: compactbench", published_cases),
]
