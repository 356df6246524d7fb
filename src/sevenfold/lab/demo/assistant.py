"""The model's part, played by a script: it reads the prompt it is sent and answers with the next move of its plan.

It sees what a model would see and nothing else: results that were cleared or summarised away are gone for it too. A
request that comes again, because its answer never arrived, gets the same answer again. Asked for a summary or for
notes, it extracts them from the conversation it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sevenfold.lab.demo.moves import Move, Plan
from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply, text, thinking, tool_use
from sevenfold.layers.compact.offline import summarise, take_notes

Json = Mapping[str, Any]
MAIN, NOTES, SUMMARY = "main", "notes", "compact"


class Assistant:
    """A brain for the simulator that carries out plans, one after the other."""

    def __init__(
        self, plans: Iterator[Plan], watch: Callable[[str, ModelPrompt], None] | None = None
    ) -> None:
        self._plans = plans
        self._plan: Plan | None = None
        self._watch = watch
        self._asked: Sequence[Json] = ()
        self._reply = ModelReply([text("")])
        self._calls: list[str] = []
        self.moves = 0
        """Answers given in the conversation itself, each counted once however often it was asked for."""

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """The answer to a request."""
        kind = kind_of(prompt)
        if kind == MAIN:
            said = [_bare(message) for message in prompt.messages]
            if said != self._asked:
                self._reply = self._next(said)
                self._asked = said
        if self._watch is not None:
            self._watch(kind, prompt)
        match kind:
            case "notes":
                return ModelReply([text(take_notes({"messages": prompt.messages}))])
            case "compact":
                return ModelReply([text(summarise({"messages": prompt.messages}))])
            case _:
                return self._reply

    def _next(self, said: Sequence[Json]) -> ModelReply:
        move = self._move(said)
        self.moves += 1
        blocks = [thinking(move.thought)] if move.thought else []
        blocks += [text(move.words)] if move.words else []
        self._calls = [f"toolu_{self.moves:04d}_{place}" for place in range(len(move.calls))]
        calls = zip(move.calls, self._calls, strict=True)
        return ModelReply([*blocks, *(tool_use(call.tool, call.given, name) for call, name in calls)])

    def _move(self, said: Sequence[Json]) -> Move:
        try:
            if self._plan is None:
                self._plan = next(self._plans)
                return next(self._plan)
            return self._plan.send(_results(said, self._calls))
        except StopIteration as end:
            self._plan = None
            return Move(str(end.value or "There is nothing left to do."))


def kind_of(prompt: ModelPrompt) -> str:
    """What a request asks for: the next answer, notes or a summary."""
    asked = prompt.last_text
    if "<analysis>" in asked and "<summary>" in asked:
        return SUMMARY
    return NOTES if "session notes below" in asked else MAIN


def _results(said: Sequence[Json], calls: Sequence[str]) -> list[str]:
    """What the calls came to, as far as it is still to be seen."""
    found = {
        block.get("tool_use_id"): _words(block.get("content"))
        for message in said[-4:]
        for block in message["content"]
        if block.get("type") == "tool_result"
    }
    return [found.get(call, "") for call in calls]


def _words(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))


def _bare(message: Json) -> Json:
    """A message without its cache markers, which may move from one try to the next."""
    blocks = [
        {key: value for key, value in block.items() if key != "cache_control"}
        for block in message["content"]
    ]
    return {"role": message["role"], "content": blocks}
