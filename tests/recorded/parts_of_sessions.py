"""What a session makes of lists that another program keeps and changes: the same lists in every run."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import sevenfold
from sevenfold.clock import CountedIds, ManualClock
from sevenfold.errors import SevenfoldError
from sevenfold.record.blocks import words_of
from tests.compaction.histories import picture
from tests.recorded.cases import prose
from tests.recorded.parts import part

Message = dict[str, Any]
START = 1_790_000_000.0
QUIET: dict[str, Any] = {
    "model_listing": False,
    "recall_ahead": False,
    "notes": False,
    "context_window": 60_000,
}


def grown(messages: list[Message], number: int, chance: Random, style: str) -> None:
    """Let one more turn happen in a list, in the shapes of one of the APIs."""
    name = chance.choice((f"toolu_01{number:022}", f"call_{number}"))
    result = prose(chance, 12)
    match style:
        case "messages":
            if number % 4 == 3:
                messages.append({"role": "system", "content": prose(chance, 4)})
            content: Any = (
                [{"type": "text", "text": prose(chance, 9)}, picture()]
                if number % 3 == 2
                else prose(chance, 9)
            )
            messages.append({"role": "user", "content": content})
            used = {"type": "tool_use", "id": name, "name": "Read", "input": {"path": f"{number}.py"}}
            thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
            answer = [*([thought] if number % 2 else []), {"type": "text", "text": prose(chance, 5)}, used]
            messages.append({"role": "assistant", "content": answer})
            answered = {"type": "tool_result", "tool_use_id": name, "content": result}
            messages.append({"role": "user", "content": [answered]})
            messages.append({"role": "assistant", "content": prose(chance, 6)})
        case "chat":
            messages.append({"role": chance.choice(("user", "developer")), "content": prose(chance, 9)})
            call = {
                "id": name,
                "type": "function",
                "function": {"name": "Read", "arguments": '{"path":"a"}'},
            }
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": name, "content": result})
            messages.append({"role": "assistant", "content": prose(chance, 6)})
        case _:
            messages.append({"role": "user", "content": [{"type": "input_text", "text": prose(chance, 9)}]})
            messages.append(
                {"type": "function_call", "call_id": name, "name": "Read", "arguments": '{"path":"a"}'}
            )
            messages.append({"type": "function_call_output", "call_id": name, "output": result})
            messages.append(
                {"role": "assistant", "content": [{"type": "output_text", "text": prose(chance, 6)}]}
            )


def changed(messages: list[Message], chance: Random) -> list[Message]:
    """The list as its keeper may have changed it: cut, edited, repeated, in another order, or with something odd."""
    left = copy.deepcopy(messages)
    place = chance.randrange(len(left))
    match chance.randrange(11):
        case 0:
            del left[place:]
        case 1:
            del left[:place]
        case 2:
            del left[place]
        case 3:
            left[place]["content"] = "said otherwise"
        case 4:
            left.insert(place, copy.deepcopy(left[place]))
        case 5:
            left[place], left[-1] = left[-1], left[place]
        case 6:
            left.insert(place, {"role": "user", "content": "put in"})
        case 7:
            left.append(
                chance.choice(
                    (
                        {"role": "user", "content": ""},
                        {"role": "robot", "content": "x"},
                        {"type": "of_tomorrow"},
                    )
                )
            )
        case 8:
            left.insert(0, {"role": "system", "content": "Be careful."})
        case _:
            pass
    return left


@part
def lists_followed() -> Iterator[str]:
    """How many messages of a list are new, what is refused, and which messages are sent then."""
    for seed in range(36):
        chance = Random(seed)
        style = ("messages", "chat", "responses")[seed % 3]
        model = chance.choice(("claude-sonnet-5-5", "claude-opus-4-6", "gpt-5.6"))
        session = sevenfold.Session.in_memory(
            model=model,
            system="Be careful.",
            max_tokens=900,
            clock=ManualClock(START),
            ids=CountedIds(),
            settings=QUIET,
        )
        yield f"--- {seed} {style} {model}"
        messages: list[Message] = []
        with session:
            for number in range(6):
                grown(messages, number, chance, style)
                given = messages if chance.random() < 0.5 else changed(messages, chance)
                if chance.random() < 0.2:
                    messages = given
                try:
                    fresh = session.sync(given)
                except SevenfoldError as error:
                    yield f"{number}: {type(error).__name__}: {error}"
                    continue
                view = session.conversation.transcript.view
                yield f"{number}: {fresh} new of {len(given)}, {len(view.items)} records, pending {view.pending_calls}"
            for item in view.items:
                words = [(block.kind, words_of(block)[:40]) for block in item.shown]
                yield f"  {item.record.role} {item.record.attachment!r} {words}"
            try:
                session.user("And now?")
                yield session.prepare().body.decode()[-1_500:]
            except SevenfoldError as error:
                yield f"not sent: {type(error).__name__}: {error}"
