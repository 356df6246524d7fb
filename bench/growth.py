"""Growth: whether a compaction ever leaves more than 0.8 of what there was before.

    python bench/growth.py [--quick]

Chats of 20 to 480 short messages in five languages are compacted, the whole of them and their parts (up to a
message, from one on), by code alone and by a model, in windows of 8K, 32K and 200K. A compaction that would not make
the conversation smaller must not be made; those are counted apart. The exit status is 1 if one was made all the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.chats.models import Forgetful  # noqa: E402 - started as a script, the project's folder is not on the path
from bench.chats.session import MAX_TOKENS, MODEL, Growth, is_made  # noqa: E402
from bench.chats.statements import COMPARED, by_language, read_statements  # noqa: E402
from bench.chats.talk import Chat, small_chat  # noqa: E402
from bench.compaction import Bar, show  # noqa: E402
from bench.trials.trial import ALONE, shown_tokens  # noqa: E402
from bench.user_words import LARGEST, SEED, WINDOWS  # noqa: E402
from sevenfold.errors import Refused  # noqa: E402
from sevenfold.layers.compact.compaction import EngineName  # noqa: E402
from sevenfold.layers.compact.scope import Span  # noqa: E402
from sevenfold.session.session import Session  # noqa: E402

TURNS = (10, 20, 30, 60, 120, 240)
ENGINES: tuple[EngineName, ...] = ("extractive", "fork", "provider")
SPANS: tuple[Span, ...] = ("whole", "up_to", "from")
STATEMENTS = 4
"""Statements in each chat."""


class Tally(Struct):
    """The compactions of all chats."""

    made: list[tuple[str, Growth]] = []
    not_made: int = 0


def compact_all(turns: Sequence[int] = TURNS, windows: Sequence[int] = WINDOWS) -> Tally:
    """Compact every chat in every way, each time from its original state."""
    tally = Tally()
    for language, statements in by_language(read_statements(COMPARED)).items():
        for length in turns:
            chat = small_chat(language, statements[:STATEMENTS], length, SEED)
            for window in windows:
                for engine in ENGINES:
                    for span in SPANS:
                        grown = _compact(chat, window, engine, span)
                        if grown is None:
                            tally.not_made += 1
                        else:
                            tally.made.append((f"{chat.name}, window {window:,}, {engine}, {span}", grown))
    return tally


def _compact(chat: Chat, window: int, engine: EngineName, span: Span) -> Growth | None:
    """The sizes before and after one compaction; None if it was not made."""
    with Session.in_memory(
        model=MODEL,
        client=Forgetful(),
        max_tokens=MAX_TOKENS,
        settings={**ALONE, "context_window": window},
    ) as session:
        session.sync([{"role": line.role, "content": line.text} for line in chat.lines])
        view = session.conversation.transcript.view
        tokenizer = session.conversation.profile.tokenizer
        users = [item.record.uuid for item in view.items if item.record.role == "user"]
        before = shown_tokens(view.items, tokenizer)
        record = "" if span == "whole" else users[len(users) // 2]
        try:
            done = session.compact(engine=engine, span=span, record=record)
        except Refused:
            return None
        return Growth(before, shown_tokens(view.items, tokenizer)) if is_made(done) else None


def bars(tally: Tally) -> Iterator[Bar]:
    """Yield the bar for these compactions."""
    large = [name for name, growth in tally.made if growth.share > LARGEST]
    figure = f"{len(large)} of {len(tally.made)} compactions, {tally.not_made} not made"
    yield f"short messages: larger than {LARGEST} of before", figure, "0", not large


def main(arguments: Sequence[str]) -> int:
    """Measure everything; return exit status 0 if no compaction leaves too much, else 1."""
    parser = argparse.ArgumentParser(description="Whether compactions make conversations smaller.")
    parser.add_argument("--quick", action="store_true", help="short chats in one window")
    options = parser.parse_args(arguments)
    tally = compact_all((20, 240), WINDOWS[-1:]) if options.quick else compact_all()
    met = show(list(bars(tally)))
    for name, growth in tally.made:
        if growth.share > LARGEST:
            print(f"      {name}: {growth.before:,} → {growth.after:,} tokens")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
