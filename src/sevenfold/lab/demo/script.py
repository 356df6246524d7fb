"""The scripted model: it plays the moves that ``scratch/script.toml`` lists for each task of the user.

It sees only what a model would see: results that were cleared or summarised are gone for it too, and what it says about
results it takes from them. A request that is repeated because its answer never arrived gets the same answer.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.lab.demo.harbour import GATES, TEXTS, Part, fill
from sevenfold.lab.rules.base import without_markers
from sevenfold.lab.simulator import brains
from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply
from sevenfold.layers.compact.offline import summarise, take_notes
from sevenfold.layers.remember.offline import find_facts

Json = Mapping[str, Any]
PYTHON = Path(sys.executable).name
"""How commands call Python: its full path would be part of the requests and so affect the figures."""
_MARKS = {
    "notes": "session notes below",
    "summary": "<analysis>",
    "memory": "remembering in later sessions",
}
"""A text by which to recognize the instructions of each kind of request outside the conversation."""
_SIDE = {"notes": take_notes, "summary": summarise, "memory": find_facts}
UNREAD = "Read it"
"""The end of the edit tool's error for a file that was not read, or that changed since."""


class Move(Struct, frozen=True):
    """One answer of the model; without tool calls it ends the turn."""

    words: str
    calls: tuple[tuple[str, Json], ...] = ()
    """The tools it calls, each with its input."""
    thought: str = ""


Plan = Generator[Move, Sequence[str], str]
"""A generator that yields moves, is sent their results that are still in the prompt, and returns its last words."""


class UserTask(Struct, frozen=True):
    """Something the user asks for, and the moves that answer it; ``script.toml`` describes the fields."""

    says: str
    done: str
    after: float = 40.0
    over: str = "parts"
    first: tuple[Move, ...] = ()
    each: tuple[Move, ...] = ()
    between: tuple[Move, ...] = ()
    last: tuple[Move, ...] = ()

    @property
    def text(self) -> str:
        """The message to the agent, without the marks around facts."""
        return re.sub(r"\[\[|\]\]", "", self.says)

    @property
    def facts(self) -> list[str]:
        """The facts that must not be forgotten, in the user's words."""
        return re.findall(r"\[\[(.*?)\]\]", self.says)


TASKS = msgspec.convert(TEXTS["tasks"], list[UserTask])


def plan(task: UserTask, parts: Sequence[Part]) -> Plan:
    """Work on one task, using what the tools return."""
    values = {name: otherwise for name, (_, otherwise) in TEXTS["find"].items()}
    values["python"] = PYTHON
    values["index"] = "\n".join(fill("- [$plural]($plural.md)", part) for part in parts)
    gates: list[Part] = [{"gate": gate} for gate in GATES]
    over = {"parts": [*parts], "thirds": [*parts[::3]], "gates": gates, "failing": list[Part]()}[task.over]
    done = 0

    def moves(listed: Sequence[Move], part: Part) -> Generator[Move, Sequence[str], None]:
        for move in listed:
            todos = [(f"mend {target.get('plural')}", index < done) for index, target in enumerate(over)]
            move_values = {**values, "count": str(len(over)), **part}
            result = yield from play(_filled(move, move_values, todos))
            for name, (pattern, _) in TEXTS["find"].items():
                captured = re.findall(pattern, result, re.MULTILINE)
                if captured:
                    values[name] = captured[-1]
            if task.over == "failing" and not over:
                for name in re.findall(r"^FAIL (\w+)", result, re.MULTILINE):
                    over.extend(failing for failing in parts if failing["plural"] == name)

    yield from moves(task.first, {})
    for part in over:
        yield from moves(task.each, part)
        done += 1
        yield from moves(task.between if done < len(over) else (), part)
    yield from moves(task.last, {})
    return fill(task.done, {**values, "count": str(len(over))})


def _filled(move: Move, values: Part, todos: Sequence[tuple[str, bool]]) -> Move:
    """Fill a move with the words of the current part; the input of the to-do tool is made here."""

    def tool_input(tool: str, template: Json) -> Json:
        if tool == "Todo":
            return todo({text: "completed" if done else "pending" for text, done in todos})
        return {
            key: fill(value, values) if isinstance(value, str) else value for key, value in template.items()
        }

    calls = tuple((tool, tool_input(tool, template)) for tool, template in move.calls)
    return Move(fill(move.words, values), calls, fill(move.thought, values))


def todo(entries: Mapping[str, str]) -> Json:
    """The input of the to-do tool: entries with their states."""
    return {"todos": [{"content": text, "status": state} for text, state in entries.items()]}


def play(move: Move) -> Plan:
    """Make one move and return its results as one text; reads a file first if the edit tool insists."""
    result = "\n".join((yield move))
    if UNREAD in result and move.calls[0][0] == "Edit":
        path = move.calls[0][1]["path"]
        yield Move(f"I have to look at {path} again first.", (("Read", {"path": path}),))
        result = "\n".join((yield Move("Now the change.", move.calls)))
    return result


def recollect(prompt: Callable[[], ModelPrompt]) -> Plan:
    """Answer the user's question on the next day, if the prompt contains the answer."""
    texts = TEXTS["next_day"]
    current = prompt()
    visible_text = "\n".join(
        [current.system, *(words_of(message["content"]) for message in current.messages)]
    )
    match = re.search(texts["knows"], visible_text)
    yield Move(match.expand(texts["done"]) if match else texts["unknown"])
    return ""


class Assistant:
    """A brain for the simulator that executes plans, one after the other, and extracts notes, summaries and facts.

    ``watch`` is called with the kind of each request (main, notes, summary or memory) before it is answered.
    """

    def __init__(self, plans: Iterator[Plan], watch: Callable[[str], None] = lambda kind: None) -> None:
        self._plans = plans
        self._watch = watch
        self._plan: Plan | None = None
        self._answered: Sequence[Json] = ()
        self._reply = ModelReply([])
        self._calls: list[str] = []
        self.prompt: ModelPrompt
        """The newest request."""
        self.moves = 0
        """The number of answers in the main conversation; one given twice counts once."""

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """Answer a request; a repeated one gets the same answer."""
        self.prompt = prompt
        messages = prompt.messages
        kind = next((kind for kind, mark in _MARKS.items() if mark in prompt.last_text), "main")
        # Cache markers may differ when a request is repeated.
        bare = [without_markers(message) for message in messages]
        if kind == "main" and bare != self._answered:
            self._answered, self._reply = bare, self._next(bare)
        self._watch(kind)
        if kind == "main":
            return self._reply
        return ModelReply([brains.text(_SIDE[kind]({"messages": messages}))])

    def _next(self, messages: Sequence[Json]) -> ModelReply:
        move = self._move(messages)
        self.moves += 1
        blocks = [brains.thinking(move.thought)] if move.thought else []
        blocks += [brains.text(move.words)] if move.words else []
        self._calls = [f"toolu_{self.moves:04d}_{index}" for index in range(len(move.calls))]
        calls = zip(move.calls, self._calls, strict=True)
        return ModelReply(
            [*blocks, *(brains.tool_use(tool, arguments, name) for (tool, arguments), name in calls)]
        )

    def _move(self, messages: Sequence[Json]) -> Move:
        try:
            if self._plan is None:
                self._plan = next(self._plans)
                return next(self._plan)
            blocks = chain.from_iterable(message["content"] for message in messages[-4:])
            results = {
                block["tool_use_id"]: block for block in blocks if block.get("type") == "tool_result"
            }
            return self._plan.send([words_of(results.get(call, {}).get("content")) for call in self._calls])
        except StopIteration as end:
            self._plan = None
            return Move(str(end.value or "There is nothing left to do."))


def words_of(content: Any) -> str:
    """The text in the content of a message or a tool result."""
    blocks = [{"text": content}] if isinstance(content, str) else content or ()
    return "\n".join(str(block.get("text", "")) for block in blocks)
