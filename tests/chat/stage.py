"""A stage for the app: a simulated model that does what certain words of the user ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sevenfold.lab.simulator.brains import Json, ModelPrompt, ScriptedBrain, text, thinking, tool_use
from sevenfold.lab.simulator.faults import Faults
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve

PLAN = "# The bridge\n\n1. Lay the stones.\n2. Close the arch."
ANSWER = """\
## What I found

The file has **one** line, and `a.txt` is its name:

```python
def hello():
    return "hello"
```

1. read it
2. changed nothing

Done. 漢字 and 🙂 fit as well.
"""


def acts(prompt: ModelPrompt) -> str | Sequence[Json]:
    """What the model does: a call for each word it knows, and a few words when the results are there."""
    last = prompt.messages[-1]["content"]
    if any(block.get("type") == "tool_result" for block in last):
        said = [block for block in last if block.get("type") == "text"]
        return f"Heard as well: {said[-1]['text']}" if said else ANSWER
    words = prompt.last_text
    if "most likely ask for next" in words:
        return "check it again"
    if "think" in words:
        return [thinking("Let me see.\nThis is easy."), text("Thought about it.")]
    known: dict[str, Json] = {
        "read": tool_use("Read", {"path": "a.txt"}),
        "run": tool_use("Shell", {"command": "echo ran > ran.txt && echo out"}),
        "wait": tool_use("Shell", {"command": "echo begun; sleep 30; echo over"}),
        "write": tool_use("Write", {"path": "new.txt", "content": "one\ntwo\n"}),
        "fix": tool_use("Edit", {"path": "a.txt", "old": "hello", "new": "goodbye"}),
        "miss": tool_use("Edit", {"path": "a.txt", "old": "never there", "new": "goodbye"}),
        "nasty": tool_use("Shell", {"command": "printf '\\033]0;owned\\007\\033[31mred\\033[0m\\n'"}),
        "ask": tool_use(
            "AskUser",
            {"questions": [{"question": "Which?", "options": [{"label": "Tea"}, {"label": "Coffee"}]}]},
        ),
        "plan": tool_use("PlanStart", {}),
        "propose": tool_use("PlanReady", {"plan": PLAN}),
        "todo": tool_use("Todo", {"todos": [{"content": "Sweep", "status": "in_progress"}]}),
        "many": tool_use("Shell", {"command": "seq 1 9000"}),
    }
    calls = [call for word, call in known.items() if word in words.split()]
    return [text("I will do that."), *calls] if calls else f"You said: {words}"


@contextmanager
def simulated(faults: Faults | None = None) -> Iterator[tuple[str, Simulator]]:
    """The address of the simulated provider, and the provider."""
    simulator = Simulator(ScriptedBrain(acts), faults=faults)
    with serve(simulator) as url:
        yield url, simulator
