"""What a plain turn takes: how many calls of our own functions, in how many modules.

A turn in which nothing happens but a question and an answer must stay short, whatever is built around it. Calls are
counted and not timed, so a busy machine changes nothing. Run with ``-s`` to see where they are.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import sevenfold
from bench.calls import Calls, by_module, counted, say
from sevenfold.providers.offline import OfflineClient, Script

MOST_CALLS = 425
MOST_MODULES = 41
MOST_SIZES = 5
"""Looks at the size of the conversation: it is remembered until something changes, but each is still a call."""


def calls_of_a_turn() -> Calls:
    """The calls of the second turn of a session."""
    client = OfflineClient(Script(["Good morning.", "It is noon."]))
    with sevenfold.Session.in_memory(model="claude-sonnet-5-5", client=client) as session:
        say(session, "Hello.")
        calls = counted(partial(say, session, "What time is it?"))
        session.settle()
    return calls


def test_a_plain_turn_takes_few_calls_in_few_modules() -> None:
    # What is loaded or computed once in a process is not part of a turn, nor is a second that happens to begin in it.
    calls = min((calls_of_a_turn() for _ in range(4)), key=Counter.total)
    modules = by_module(calls)
    total = calls.total()
    print(f"\n{total} calls in {len(modules)} modules")
    for module, number in modules.most_common():
        print(f"{number:5}  {module}")
    sizes = sum(number for (_, name), number in calls.items() if name.endswith(".size"))
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
