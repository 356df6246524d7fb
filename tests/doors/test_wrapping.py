"""A wrapped client of an SDK: the same calls and types, conversations that never outgrow the window."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from sevenfold.doors.wrapping import conversation, wrap
from sevenfold.errors import InputError
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain, text
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.lab.simulator.provider import Received, Simulator
from sevenfold.lab.simulator.server import serve

MODEL = "claude-opus-4-6"
BOUND = "claude-sonnet-5-5"
"""A model whose thinking is valid only behind exactly what was sent before it."""
SYSTEM = "You help with a project. " * 40
TOOLS: Any = [
    {
        "name": "Read",
        "description": "Reads a file.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
]
SETTINGS = {"context_window": 24_000}
FILLER = "The build ran, the pages were drawn again, and nobody had anything to add to it. " * 24


def working(prompt: ModelPrompt) -> Any:
    """Call the tool when asked to read, think where thinking is on, else answer."""
    newest = prompt.messages[-1]["content"]
    asks = [block for block in newest if block.get("type") == "text" and "Read " in block["text"]]
    thinking = [{"type": "thinking", "thinking": "Let me see."}] if prompt.body.get("thinking") else []
    if asks and not any(block.get("type") == "tool_result" for block in newest):
        name = f"toolu_{len(json.dumps(prompt.messages)):x}{len(prompt.messages)}"
        return [*thinking, {"type": "tool_use", "id": name, "name": "Read", "input": {"path": "a.txt"}}]
    return [*thinking, text(f"Done. {FILLER}")]


class Program:
    """A program with a loop and a list of its own."""

    def __init__(self, client: Any, **fields: Any) -> None:
        self.client = client
        self.fields = {"model": MODEL, "max_tokens": 400, "system": SYSTEM, "tools": TOOLS, **fields}
        self.messages: list[Any] = []

    def say(self, words: str, result: str = "") -> Any:
        self.messages.append({"role": "user", "content": words})
        answer = self._ask()
        while answer.stop_reason == "tool_use":
            calls = [block for block in answer.content if block.type == "tool_use"]
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": result or "nothing"}
                for call in calls
            ]
            self.messages.append({"role": "user", "content": results})
            answer = self._ask()
        return answer

    def _ask(self) -> Any:
        answer = self.client.messages.create(messages=self.messages, **self.fields)
        content = answer.model_dump(mode="json", exclude_none=True)["content"]
        self.messages.append({"role": "assistant", "content": content})
        return answer


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@contextmanager
def provider(brain: Callable[[ModelPrompt], Any] = working) -> Iterator[tuple[Simulator, str]]:
    simulator = Simulator(ScriptedBrain(brain))
    with serve(simulator) as url:
        yield simulator, url


def client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="key", max_retries=0)


def turns(simulator: Simulator) -> list[Received]:
    """The program's own requests: those that carry its tools and end in what it said."""
    return [received for received in simulator.requests if b'"max_tokens":400' in received.raw]


def refused(simulator: Simulator) -> list[Received]:
    return [received for received in simulator.requests if received.status >= 400]


@pytest.mark.spec("S40.1")
def test_until_something_is_decided_the_provider_gets_the_programs_own_bytes() -> None:
    with provider() as (simulator, url):
        plain = client(url)
        kept: Any = wrap(client(url), session="own", settings=SETTINGS)
        for each in (plain, kept):
            program = Program(each)
            program.say("Read the file.", "a line")
            program.say("Thanks.")
        kept.sevenfold.close()
        bodies = [received.raw for received in simulator.requests]
        assert bodies[: len(bodies) // 2] == bodies[len(bodies) // 2 :]
        assert kept.sevenfold.problems == []


@pytest.mark.spec("S40.2")
def test_a_conversation_without_end_stays_within_the_window_with_every_word_of_the_user() -> None:
    with provider() as (simulator, url):
        kept: Any = wrap(client(url), session="long", settings=SETTINGS)
        program = Program(kept)
        for number in range(40):
            program.say(f"The code word of day {number} is word-{number}.")
        kept.sevenfold.close()
        assert not refused(simulator)
        newest = turns(simulator)[-1]
        assert kept.sevenfold.problems == []
        sent = len(newest.raw)
        assert sent < len(json.dumps(program.messages)) / 2
        assert all(f"word-{number}." in newest.raw.decode() for number in range(40))
        assert json.loads(newest.raw)["system"] == SYSTEM


@pytest.mark.spec("S40.2")
def test_a_large_result_is_shown_as_a_preview_and_the_programs_own_list_stays_whole() -> None:
    with provider() as (simulator, url):
        kept: Any = wrap(client(url), session="results", settings=SETTINGS)
        program = Program(kept)
        program.say("Read the file.", "a line of the log\n" * 20_000)
        program.say("And?")
        kept.sevenfold.close()
        assert not refused(simulator)
        assert len(turns(simulator)[-1].raw) < 60_000
        assert len(json.dumps(program.messages)) > 300_000


@pytest.mark.spec("S40.2")
@pytest.mark.parametrize("model", [MODEL, BOUND])
def test_long_work_with_tools_and_thinking_is_never_refused(model: str) -> None:
    with provider() as (simulator, url):
        kept: Any = wrap(client(url), session="work", settings=SETTINGS)
        thinking = {"type": "adaptive"}
        program = Program(kept, model=model, thinking=thinking)
        for number in range(25):
            program.say(f"Read file {number}. {FILLER[:400]}", f"content of file {number}\n" * 250)
        kept.sevenfold.close()
        assert not refused(simulator), refused(simulator)[0].answer
        assert kept.sevenfold.problems == []
        assert len(turns(simulator)[-1].raw) < 150_000


@pytest.mark.spec("S40.4")
@pytest.mark.parametrize("model", [MODEL, BOUND])
def test_where_the_provider_refuses_every_change_the_program_finishes_on_its_own_bytes(model: str) -> None:
    def stubborn(prompt: ModelPrompt) -> Any:
        if "<continued-session>" in json.dumps(prompt.messages[0]) and prompt.max_tokens == 400:
            raise ApiError(400, "invalid_request_error", "nothing of this kind here")
        return working(prompt)

    with provider(stubborn) as (simulator, url):
        kept: Any = wrap(client(url), session="refused", settings=SETTINGS)
        program = Program(kept, model=model, thinking={"type": "adaptive"})
        for number in range(25):
            program.say(f"Read file {number}.", f"content of file {number}\n" * 250)
        kept.sevenfold.close()
        assert len([received for received in turns(simulator) if received.status >= 400]) == 2
        assert kept.sevenfold.problems == []
        assert json.loads(turns(simulator)[-1].raw)["messages"][0]["content"] == "Read file 0."


@pytest.mark.spec("S40.6")
def test_conversations_without_names_are_told_apart_by_what_they_continue() -> None:
    with provider() as (simulator, url):
        kept: Any = wrap(client(url), settings=SETTINGS)
        programs = [Program(kept), Program(kept)]
        for number in range(12):
            for which, program in enumerate(programs):
                words = "Hello." if number == 0 else f"Program {which} says {number}."
                program.say(words)
        kept.sevenfold.close()
        assert not refused(simulator)
        assert len(kept.sevenfold.sessions) == 2


@pytest.mark.spec("S40.6")
def test_a_block_names_the_conversation_of_what_is_sent_in_it() -> None:
    with provider() as (_, url):
        kept: Any = wrap(client(url), settings=SETTINGS)
        with conversation("ticket-1"):
            Program(kept).say("Hello.")
        with kept.sevenfold.conversation("ticket-2"):
            Program(kept).say("Hello.")
        kept.sevenfold.close()
        assert set(kept.sevenfold.sessions) == {"ticket-1", "ticket-2"}


@pytest.mark.spec("S40.6")
def test_a_program_that_starts_again_goes_on_with_the_same_summary() -> None:
    with provider() as (simulator, url):
        first: Any = wrap(client(url), session="again", settings=SETTINGS)
        program = Program(first)
        for number in range(45):
            program.say(f"The code word of day {number} is word-{number}.")
        first.sevenfold.close()
        before = json.loads(turns(simulator)[-1].raw)["messages"][0]
        second: Any = wrap(client(url), session="again", settings=SETTINGS)
        program.client = second
        program.say("And now?")
        second.sevenfold.close()
        newest = json.loads(turns(simulator)[-1].raw)["messages"]
        assert newest[0] == before
        assert len(newest) < 45
        assert second.sevenfold.problems == []


@pytest.mark.spec("S40.1")
def test_other_objects_are_refused_with_what_to_use_instead() -> None:
    with pytest.raises(
        InputError, match=r"wrap\(\) takes a client of the anthropic or openai SDK, got dict"
    ):
        wrap({})


@pytest.mark.spec("S40.6")
def test_a_name_that_is_no_text_is_refused_before_anything_is_sent() -> None:
    number: Any = 42
    with pytest.raises(InputError, match=r"is a text, got int; pass for example str\(42\)"):
        wrap(client("http://127.0.0.1:9"), session=number)
    with pytest.raises(InputError, match=r"is a text, got int"), conversation(number):
        raise AssertionError("the block is not entered")


INSTRUCTIONS = "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nBe kind to harbours.\n</INSTRUCTIONS>"
CHAT_TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "Read",
            "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]


def chatting(client: openai.OpenAI, rounds: int) -> list[Any]:
    """Work with tools over Chat Completions; returns the program's list."""
    messages: list[Any] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": INSTRUCTIONS},
    ]
    for number in range(rounds):
        messages.append({"role": "user", "content": f"Read file word-{number}."})
        while True:
            answer = client.chat.completions.create(
                model="gpt-5.1", messages=messages, tools=CHAT_TOOLS, max_completion_tokens=400
            )
            message = answer.choices[0].message
            messages.append(message.model_dump(mode="json", exclude_none=True))
            if not message.tool_calls:
                break
            for called in message.tool_calls:
                content = f"content of file {number}\n" * 250
                messages.append({"role": "tool", "tool_call_id": called.id, "content": content})
    return messages


def responding(client: openai.OpenAI, rounds: int) -> list[Any]:
    """The same over the Responses API."""
    tools: Any = [{"type": "function", **CHAT_TOOLS[0]["function"]}]
    items: list[Any] = [
        {"role": "developer", "content": SYSTEM},
        {"role": "user", "content": INSTRUCTIONS},
    ]
    for number in range(rounds):
        items.append({"role": "user", "content": f"Read file word-{number}."})
        while True:
            answer = client.responses.create(
                model="gpt-5.1", input=items, tools=tools, max_output_tokens=400, store=False
            )
            made = [item.model_dump(mode="json", exclude_none=True) for item in answer.output]
            items += made
            called = [item for item in made if item["type"] == "function_call"]
            if not called:
                break
            for call in called:
                content = f"content of file {number}\n" * 250
                items.append(
                    {"type": "function_call_output", "call_id": call["call_id"], "output": content}
                )
    return items


@pytest.mark.spec("S40.1", "S40.3")
@pytest.mark.parametrize("work", [chatting, responding])
def test_openais_apis_are_kept_within_the_window_with_the_programs_first_message_in_its_role(
    work: Callable[[openai.OpenAI, int], list[Any]],
) -> None:
    with provider() as (simulator, url):
        kept: Any = wrap(
            openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0),
            session="openai",
            settings=SETTINGS,
        )
        messages = work(kept, 25)
        kept.sevenfold.close()
        assert not refused(simulator), refused(simulator)[0].answer
        assert kept.sevenfold.problems == []
        newest = [received for received in simulator.requests if b"word-24" in received.raw][-1]
        sent = json.loads(newest.raw)
        listed = sent.get("messages") or sent["input"]
        assert listed[:2] == messages[:2]
        assert len(newest.raw) < len(json.dumps(messages)) / 2
        assert all(f"word-{number}." in newest.raw.decode() for number in range(25))


@pytest.mark.spec("S40.1")
def test_an_awaited_client_streams_as_before_and_is_kept() -> None:
    asyncio.run(_awaited())


async def _awaited() -> None:
    with provider() as (simulator, url):
        own = anthropic.AsyncAnthropic(base_url=url, api_key="key", max_retries=0)
        kept: Any = wrap(own, session="awaited", settings=SETTINGS)
        kind: object = type(kept)
        assert kind is anthropic.AsyncAnthropic
        messages: list[Any] = []
        for number in range(45):
            messages.append({"role": "user", "content": f"The code word of day {number} is word-{number}."})
            pieces: list[str] = []
            async with kept.messages.stream(
                model=MODEL, max_tokens=400, system=SYSTEM, tools=TOOLS, messages=messages
            ) as stream:
                pieces.extend([piece async for piece in stream.text_stream])
                answer = await stream.get_final_message()
            assert "".join(pieces) == answer.model_dump()["content"][0]["text"]
            messages.append({"role": "assistant", "content": answer.model_dump(mode="json")["content"]})
        await kept.close()
        kept.sevenfold.close()
        assert kept.sevenfold.problems == []
        assert not refused(simulator)
        newest = turns(simulator)[-1].raw.decode()
        assert len(newest) < len(json.dumps(messages)) / 2
        assert all(f"word-{number}." in newest for number in range(45))


REMINDER = "<system-reminder>\nThe skills are: one, two, three.\n</system-reminder>"
ENVIRONMENT = "# Environment\nThe working directory is /work."


class ClaudeLike(Program):
    """A program that begins like Claude Code: a reminder before the first words, and a system message behind them."""

    def say(self, words: str, result: str = "") -> Any:
        if self.messages:
            return super().say(words, result)
        first = [{"type": "text", "text": REMINDER}, {"type": "text", "text": words}]
        self.messages.append({"role": "user", "content": first})
        self.messages.append({"role": "system", "content": ENVIRONMENT})
        return self._ask()


@pytest.mark.spec("S40.3")
def test_what_a_program_sends_first_stays_in_its_role_and_place_in_front_of_every_summary() -> None:
    with provider() as (simulator, url):
        kept: Any = wrap(client(url), session="head", settings=SETTINGS)
        program = ClaudeLike(kept, model=BOUND)
        for number in range(40):
            program.say(f"The code word of day {number} is word-{number}.")
        kept.sevenfold.close()
        assert not refused(simulator), refused(simulator)[0].answer
        newest = json.loads(turns(simulator)[-1].raw)["messages"]
        assert newest[0] == {"role": "user", "content": [{"type": "text", "text": REMINDER}]}
        assert {"role": "system", "content": ENVIRONMENT} in newest
        parts = [
            part
            for message in newest
            if isinstance(message["content"], list)
            for part in message["content"]
        ]
        said = json.dumps(newest)
        assert all(f"word-{number}." in said for number in range(40))
        block = next(part["text"] for part in parts if "<user-words>" in part.get("text", ""))
        assert "skills are" not in block


@pytest.mark.spec("S40.5")
def test_a_program_that_summarises_by_itself_is_shown_what_we_show_and_goes_on_from_its_summary() -> None:
    with provider() as (simulator, url):
        kept: Any = wrap(client(url), session="summarised", settings=SETTINGS)
        program = Program(kept)
        for number in range(45):
            program.say(f"The code word of day {number} is word-{number}.")
        asked = "CRITICAL: Respond with TEXT ONLY. Summarise the conversation."
        request = [*program.messages, {"role": "user", "content": asked}]
        answer = kept.messages.create(messages=request, **program.fields)
        assert len(turns(simulator)[-1].raw) < len(json.dumps(request)) / 2
        summary = f"This session is being continued from a previous conversation. {answer.content[0].text}"
        program.messages = [{"role": "user", "content": summary}]
        program.say("Go on.")
        kept.sevenfold.close()
        newest = json.loads(turns(simulator)[-1].raw)["messages"]
        assert newest[0]["content"] == summary
        assert "<continued-session>" not in json.dumps(newest)
        assert not refused(simulator)
        assert kept.sevenfold.problems == []
