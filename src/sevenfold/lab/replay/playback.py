"""A recorded conversation to play again: its two sides, and stand-ins for what no transcript holds.

Transcripts say neither what the system prompt was nor how the tools were described, but the first reported
size tells how large both were. So a recording comes with a frame of that size, made of filler that says what
it is, with a tool for every name the recording calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.ports import Log
from sevenfold.profiles import find
from sevenfold.providers.offline import OfflineClient, Script, Signer
from sevenfold.record import blocks, entries
from sevenfold.record.blocks import Block, ToolUse
from sevenfold.record.tokens import Estimator
from sevenfold.record.view import View
from sevenfold.record.weight import NOTHING, opening
from sevenfold.request.frame import Frame

_FILLER = "This line stands in for a system prompt that was not recorded. "


class Turn(Struct, frozen=True):
    """What the user's side said, and what the model answered."""

    user: tuple[Block, ...]
    answer: tuple[Block, ...]


class Recording(Struct, frozen=True):
    """A conversation as it stands in view at the end of a transcript."""

    frame: Frame
    turns: tuple[Turn, ...]

    @classmethod
    def of(cls, log: Log, *, max_tokens: int = 8_000) -> Recording:
        """Read a transcript whole; only what the model saw last is played."""
        view = View()
        for _, line in log.read():
            view.add(entries.read(line))
        messages = view.messages()
        turns = tuple(
            Turn(said.parts, answer.parts)
            for said, answer in pairwise(messages)
            if (said.role, answer.role) == ("user", "assistant")
        )
        if not turns:
            raise InputError("there is nothing to play: the transcript holds no answer of a model")
        return cls(_stand_in(view, turns, max_tokens), turns)

    def client(self, sign: Signer | None = None) -> OfflineClient:
        """An offline model that gives the recorded answers; ``sign`` signs their reasoning anew."""
        return OfflineClient(Script([turn.answer for turn in self.turns], sign=sign))


def _stand_in(view: View, turns: Iterable[Turn], max_tokens: int) -> Frame:
    first = next((item for item in view.items if item.said.usage), None)
    model = first.said.model if first else "claude-sonnet-5-5"
    estimator = Estimator.of(find(model).tokenizer)
    used = (block.body() for turn in turns for block in turn.answer if block.kind == "tool_use")
    names = sorted({body.name for body in used if isinstance(body, ToolUse)})
    tools = [
        {"name": name, "description": "A stand-in.", "input_schema": {"type": "object"}} for name in names
    ]
    frame = Frame.of(model, max_tokens, tools=tools)
    if first is None or first.said.usage is None:
        return frame
    before = sum((item.weight for item in view.items[: view.items.index(first)]), NOTHING)
    missing = first.said.usage.prompt - estimator.tokens(before + opening(*frame.tools))
    lines = max(1, round(missing / estimator.tokens(opening(_FILLER.encode()))))
    return Frame.of(model, max_tokens, tools=tools, system=[blocks.text(_FILLER * lines).raw])
