"""What a plain turn takes: how many calls of our own functions, in how many modules.

A turn in which nothing happens but a question and an answer must stay short, whatever is built around it. Calls are
counted and not timed, so a busy machine changes nothing. Run with ``-s`` to see where they are.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import sevenfold
from sevenfold.providers.offline import OfflineClient, Script

PACKAGE = str(Path(sevenfold.__file__).parent)
MOST_CALLS = 425
MOST_MODULES = 41
MOST_SIZES = 5
"""Looks at the size of the conversation: it is remembered until something changes, but each is still a call."""


def calls_of_a_turn() -> Counter[tuple[str, str]]:
    """The calls of the second turn of a session, by module and function; a generator's resumption is one too."""
    counted: Counter[tuple[str, str]] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGE):
            counted[str(Path(file).relative_to(PACKAGE)), frame.f_code.co_qualname] += 1

    client = OfflineClient(Script(["Good morning.", "It is noon."]))
    with sevenfold.Session.in_memory(model="claude-sonnet-5-5", client=client) as session:
        session.user("Hello.")
        session.complete()
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            session.user("What time is it?")
            session.complete()
        finally:
            sys.setprofile(before)
        session.settle()
    return counted


def test_a_plain_turn_takes_few_calls_in_few_modules() -> None:
    # What is loaded or computed once in a process is not part of a turn, nor is a second that happens to begin in it.
    counted = min((calls_of_a_turn() for _ in range(4)), key=Counter.total)
    modules: Counter[str] = Counter()
    for (module, _), number in counted.items():
        modules[module] += number
    total = counted.total()
    print(f"\n{total} calls in {len(modules)} modules")
    for module, number in modules.most_common():
        print(f"{number:5}  {module}")
    sizes = sum(number for (_, name), number in counted.items() if name.endswith(".size"))
    print(f"{sizes:5}  looks at the size")
    assert total <= MOST_CALLS
    assert len(modules) <= MOST_MODULES
    assert sizes <= MOST_SIZES


ONCE = {
    ("layers/offload/layer.py", "Offload.freeze"),
    ("layers/compact/compactor.py", "Compactor._full"),
    ("conversation/room.py", "check"),
    ("request/watch.py", "Watched.look"),
    ("request/frame.py", "assemble"),
}
"""What a turn decides, looks at or builds."""


def test_a_plain_turn_does_nothing_twice() -> None:
    counted = min((calls_of_a_turn() for _ in range(4)), key=Counter.total)
    assert {call: counted[call] for call in ONCE} == dict.fromkeys(ONCE, 1)
