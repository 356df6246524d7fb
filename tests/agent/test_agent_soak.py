"""An agent that works for long against a provider that fails now and then."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from sevenfold.events import Checked, Compacted, Event
from sevenfold.lab.simulator.faults import Fault, Faults
from sevenfold.layers.compact.offline import summarise
from tests.agent.working import results, texts, use, words, world

TURNS = 100


def worker() -> Any:
    """Reads, runs, writes and lists, step after step, and thinks about each.

    Asked the same again, because its answer did not arrive, it repeats its step.
    """
    numbers = count(1)
    number, asked = 0, None

    def reply(prompt: Any) -> Any:
        nonlocal number, asked
        if "<summary>" in prompt.last_text and "<analysis>" in prompt.last_text:
            return summarise({"messages": prompt.messages})
        if prompt.messages != asked:
            number, asked = next(numbers), prompt.messages
        if number > TURNS:
            return "All done."
        thought = {"type": "thinking", "thinking": f"step {number}", "signature": ""}
        match number % 5:
            case 0:
                called = [use("Shell", command=f"seq {number} {number + 900}")]
            case 1:
                todo = {"content": f"step {number + 1}", "status": "pending"}
                called = [use("Todo", todos=[todo]), use("Grep", pattern=f"line {number}$")]
            case 2:
                called = [use("Write", path=f"out{number % 7}.txt", content=f"{number}\n" * 20)]
            case _:
                called = [use("Read", path=f"f{number % 4}.txt", offset=number)]
        return [thought, words(f"Step {number}."), *called]

    return reply


def test_it_finishes_within_its_window_whatever_fails_on_the_way(folder: Path) -> None:
    for number in range(4):
        (folder / f"f{number}.txt").write_text("".join(f"{number}: this is line {n}\n" for n in range(700)))
    checked: list[Checked] = []
    compacted: list[Compacted] = []

    def hear(event: Event) -> None:
        checked.extend([event] if isinstance(event, Checked) else [])
        compacted.extend([event] if isinstance(event, Compacted) else [])

    faults = Faults(
        chances=[
            (0.02, Fault("overloaded")),
            (0.02, Fault("cut_stream", after=4)),
            (0.01, Fault("rate_limited", retry_after=2)),
        ],
        seed=7,
    )
    given = {"mode": "autonomous", "system": None, "settings": {"compact_window": 70_000}, "name": "soak"}
    options = {"thinking": {"type": "adaptive"}, "listen": [hear], **given}
    with world(worker(), faults) as there, there.agent(folder, **options) as made:
        done = made.run("Work until you are done; the code word is zebra-99.")
        assert (done.end, done.text) == ("done", "All done.")
        assert there.pauses
        assert compacted
        assert all(event.used < event.blocking for event in checked)
        assert "zebra-99" in texts(there.bodies[-1])
        assert made.todos.get()[0].content == f"step {TURNS - 3}"
        assert all(len(found) == len(set(found)) for found in map(list, map(results, there.bodies)))
        assert not [request for request in there.simulator.requests if request.status == 400]
