"""What a user said in passing and expects to hold: how much of it is in the next request after three compactions.

    python bench/user_words.py [FOLDER] [--quick]        default: ../shared/corpus next to the project

Rules, decisions, preferences and changed minds in five languages are said at random moments of chats of 60, 200 and
600 turns and of recorded coding sessions, in windows of 8K, 32K and 200K; then the session is compacted three times or
more. Measured are the share that the next request contains to the letter, the share that recall finds by the question
a person would ask (among ten hits), and the tokens of the summary. Compactions that were not made are counted apart.

Two cases: the user's words fit their budget (nothing has to be chosen; the recogniser of rules is switched off), or
they exceed it two to four times, with orders for the moment and pasted text; then by code alone, on statements that
were written without having seen its word lists, and with a model that names nine in ten of the statements it is shown.
The exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.chats import coding  # noqa: E402 - started as a script, the project's folder is not on the path
from bench.chats.models import Naming  # noqa: E402
from bench.chats.session import Held, Kept, hold, hold_messages  # noqa: E402
from bench.chats.statements import BLIND, COMPARED, by_language, read_statements  # noqa: E402
from bench.chats.talk import crowded_chat, small_chat  # noqa: E402
from bench.compaction import CORPUS, Bar, claude_files, show  # noqa: E402

WINDOWS = (8_192, 32_768, 200_000)
TURNS = (60, 200, 600)
TIMES = (2, 3, 4)
"""How many times the user's words exceed their budget."""
LINE = 12
"""Tokens around a message in the block of the user's words."""
FITS, NAMED, FOUND, LARGEST = 0.99, 0.95, 0.99, 0.8
SEED = 20_261_118


def budget(window: int) -> int:
    """The tokens kept for what the user said: 20,000, a fifth of smaller windows, a quarter of the smallest."""
    if window >= 100_000:
        return 20_000
    return window // 5 if window >= 16_000 else window // 4


def fits(held: Held) -> bool:
    """Whether everything the user said fits the budget."""
    return held.user_tokens + LINE * held.user_messages <= budget(held.window)


# The conversations


def chats_that_fit(windows: Sequence[int] = WINDOWS, turns: Sequence[int] = TURNS) -> Iterator[Held]:
    """Hold every chat of small talk, by code alone, with the recogniser switched off."""
    for language, statements in by_language(read_statements(COMPARED)).items():
        for length in turns:
            chat = small_chat(language, statements, length, SEED)
            for window in windows:
                yield hold(chat, window, recogniser=False)


def coding_sessions(corpus: Path, most: int | None = None) -> Iterator[Held]:
    """Hold recorded coding sessions in which the user says these things in passing, recogniser off."""
    groups = list(by_language(read_statements(COMPARED)).values())
    for number, path in enumerate(claude_files(corpus)[:most]):
        work = coding.with_statements(path, groups[number % len(groups)], SEED)
        if work is not None:
            yield hold_messages(work.name, work.messages, work.said, WINDOWS[-1], recogniser=False)


def crowded_by_code(windows: Sequence[int] = WINDOWS, times: Sequence[int] = TIMES) -> Iterator[Held]:
    """Hold chats in which the user's words exceed the budget, by code alone, with the blind set."""
    for language, statements in by_language(read_statements(BLIND)).items():
        for window in windows:
            for factor in times:
                yield hold(crowded_chat(language, statements, factor * budget(window), SEED), window)


def crowded_with_a_model(windows: Sequence[int] = WINDOWS, times: Sequence[int] = TIMES) -> Iterator[Held]:
    """Hold chats in which the user's words exceed the budget, with a model that names nine in ten statements."""
    for language, statements in by_language(read_statements(COMPARED)).items():
        for window in windows:
            for factor in times:
                client = Naming([statement.text for statement in statements], SEED)
                chat = crowded_chat(language, statements, factor * budget(window), SEED)
                yield hold(chat, window, engine="fork", client=client)


# What they show


class Shares(Struct, frozen=True):
    """What became of the statements of some conversations."""

    statements: int
    in_request: int
    by_question: int
    by_other_words: int
    by_own_words: int
    left_out: int
    """Statements that are not in the next request."""
    found_of_left_out: int
    """Those of them that recall finds by the question."""

    @classmethod
    def of(cls, kept: Sequence[Kept]) -> Shares:
        """Count what became of these statements."""
        missing = [each for each in kept if not each.in_request]
        return cls(
            statements=len(kept),
            in_request=sum(each.in_request for each in kept),
            by_question=sum(each.by_question for each in kept),
            by_other_words=sum(each.by_other_words for each in kept),
            by_own_words=sum(each.by_own_words for each in kept),
            left_out=len(missing),
            found_of_left_out=sum(each.by_question for each in missing),
        )

    @property
    def share(self) -> float:
        """The share of the statements that the next request contains."""
        return self.in_request / max(1, self.statements)

    @property
    def line(self) -> str:
        """The counts in a line."""
        return (
            f"{self.in_request}/{self.statements} in the next request ({self.share:.1%}); by asking "
            f"{self.by_question}, in other words {self.by_other_words}, by its own words {self.by_own_words}"
        )


def kept_in(conversations: Iterable[Held]) -> list[Kept]:
    """Return the statements of all these conversations."""
    return [kept for held in conversations for kept in held.kept]


def table(title: str, conversations: Sequence[Held]) -> None:
    """Print what became of the statements, by the window, and the size of the summaries."""
    print(f"\n{title}")
    for window in sorted({held.window for held in conversations}):
        some = [held for held in conversations if held.window == window]
        sizes = sorted(held.summary_tokens for held in some)
        users = sorted(held.user_tokens for held in some)
        made = sum(len(held.compactions) for held in some)
        not_made = sum(held.not_made for held in some)
        print(f"  window {window:>7,}: {Shares.of(kept_in(some)).line}")
        print(
            f"    {len(some)} conversations, {made} compactions, {not_made} not made; the user's words "
            f"{_middle(users):,} tokens, most {users[-1]:,}; the summary {_middle(sizes):,}, most {sizes[-1]:,}"
        )


def by_compactions(kept: Sequence[Kept]) -> None:
    """Print what became of the statements that went through one, two, three or more compactions."""
    for count in (0, 1, 2, 3):
        some = [each for each in kept if min(each.compactions, 3) == count]
        if some:
            print(f"  through {count}{' or more' * (count == 3)} compactions: {Shares.of(some).line}")


def _middle(ordered: Sequence[int]) -> int:
    return ordered[len(ordered) // 2]


def fitting_bars(conversations: Sequence[Held]) -> Iterator[Bar]:
    """Yield the bars for conversations in which the user's words fit the budget.

    Statements that went through no compaction count for nothing here: they are where they were said.
    """
    shares = Shares.of([kept for kept in kept_in(conversations) if kept.compactions])
    met = shares.share >= FITS and shares.statements > 0
    yield (
        "words that fit the budget, recogniser off, in the next request",
        shares.line,
        f"at least {FITS:.0%}",
        met,
    )
    yield from _common_bars("words that fit", conversations)


def crowded_bars(sort: str, conversations: Sequence[Held], least: float | None) -> Iterator[Bar]:
    """Yield the bars for conversations in which the user's words exceed the budget."""
    shares = Shares.of(kept_in(conversations))
    if least is not None:
        met = shares.share >= least and shares.statements > 0
        yield (
            f"words beyond the budget, {sort}, in the next request",
            shares.line,
            f"at least {least:.0%}",
            met,
        )
    found = shares.found_of_left_out / max(1, shares.left_out)
    figure = f"{shares.found_of_left_out} of {shares.left_out} ({found:.1%})"
    met = found >= FOUND or not shares.left_out
    yield (
        f"words beyond the budget, {sort}, left out and found by asking",
        figure,
        f"at least {FOUND:.0%}",
        met,
    )
    silent = [
        held
        for held in conversations
        if not held.says_left_out and not all(k.in_request for k in held.kept)
    ]
    figure = f"{len(silent)} of {len(conversations)} conversations"
    yield f"words beyond the budget, {sort}, left out and not said", figure, "0", not silent
    yield from _common_bars(f"words beyond the budget, {sort}", conversations)


def _common_bars(sort: str, conversations: Sequence[Held]) -> Iterator[Bar]:
    unsent = sum(not held.sent for held in conversations)
    yield f"{sort}: next requests that could not be made", str(unsent), "0", unsent == 0
    compactions = [growth for held in conversations for growth in held.compactions]
    large = [growth for growth in compactions if growth.share > LARGEST]
    not_made = sum(held.not_made for held in conversations)
    figure = f"{len(large)} of {len(compactions)} compactions, {not_made} not made"
    yield f"{sort}: larger than {LARGEST} of before", figure, "0", not large


def measure(corpus: Path | None, *, is_quick: bool = False) -> bool:
    """Measure everything and print it; return whether all bars are met."""
    windows = WINDOWS[:2] if is_quick else WINDOWS
    turns = TURNS[:2] if is_quick else TURNS
    times = TIMES[1:2] if is_quick else TIMES
    chats = list(chats_that_fit(windows, turns))
    fitting = [held for held in chats if fits(held)]
    beyond = [held for held in chats if not fits(held)]
    if corpus is None:
        print("no transcripts: coding sessions were not tested")
    else:
        sessions = list(coding_sessions(corpus, 4 if is_quick else None))
        table("Coding sessions, recogniser off", sessions)
        fitting += [held for held in sessions if fits(held)]
        beyond += [held for held in sessions if not fits(held)]
    table("Fits the budget, recogniser off", fitting)
    by_compactions(kept_in(fitting))
    if beyond:
        table("The rest of them, by code alone, recogniser off (no bar)", beyond)
    met = [show(list(fitting_bars(fitting)))]
    sorts: list[tuple[str, Callable[[], Iterator[Held]], float | None]] = [
        ("by code alone, blind set", lambda: crowded_by_code(windows, times), None),
        ("a model names nine in ten", lambda: crowded_with_a_model(windows, times), NAMED),
    ]
    for sort, conversations_of, least in sorts:
        conversations = list(conversations_of())
        table(f"Exceeds the budget: {sort}", conversations)
        by_compactions(kept_in(conversations))
        met.append(show(list(crowded_bars(sort, conversations, least))))
    return all(met)


def main(arguments: Sequence[str]) -> int:
    """Measure everything; return exit status 0 if all bars are met, else 1."""
    parser = argparse.ArgumentParser(description="What the user said, after compactions.")
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--quick", action="store_true", help="small windows and short chats only")
    options = parser.parse_args(arguments)
    corpus = options.folder if options.folder.is_dir() else None
    return 0 if measure(corpus, is_quick=options.quick) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
