"""Scripts from files, and the brain that uses the tools it is offered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sevenfold.errors import UserError
from sevenfold.lab.simulator.brains import FileBrain, load_script
from sevenfold.lab.simulator.instances import ToolBrain
from tests.simulator.wire import Wire, assistant, simulated, user

pytestmark = pytest.mark.spec("S15.2")
SCRIPT = """
only_with_tools = true

[[step]]
thinking = "Hm."
text = "Reading it."
calls = [{ name = "read", input = { path = "a.txt" } }]
delay = 1.5

[[step]]
error = "overloaded"

[[step]]
error = { status = 418, message = "I am a teapot", retry_after = 2 }

[[step]]
text = "It says 42."
usage = { input = 1000, output = 20, cache_read = 90000, cache_write = 5 }
"""
READ = {
    "name": "read",
    "description": "Reads a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
WEATHER = {
    "name": "get_weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city", "days"],
    },
}


def played(path: Path, words: str) -> tuple[Wire, list[float]]:
    path.write_text(words, encoding="utf-8")
    slept: list[float] = []
    return simulated(FileBrain(load_script(path), slept.append)), slept


def test_a_script_says_calls_waits_refuses_and_reports_usage(tmp_path: Path) -> None:
    wire, slept = played(tmp_path / "play.toml", SCRIPT)
    title = wire.messages("a title?")
    first = wire.messages("read it", tools=[READ], model="claude-sonnet-4-5")
    refused = [wire.messages("again", tools=[READ]) for _ in range(2)]
    last = wire.messages("again", tools=[READ])
    assert "a title?" in title.content[0]["text"]
    assert [block["type"] for block in first.content] == ["thinking", "text", "tool_use"]
    assert first.content[2]["input"] == {"path": "a.txt"}
    assert slept[0] == 1.5
    assert [one.status for one in refused] == [529, 418]
    assert refused[1].headers["retry-after"] == "2"
    assert last.content[0]["text"] == "It says 42."
    assert last.usage["input_tokens"] == 1_000
    assert last.usage["cache_read_input_tokens"] == 90_000
    assert last.usage["cache_creation_input_tokens"] == 5
    assert last.usage["output_tokens"] == 20
    over = wire.messages("more", tools=[READ])
    assert (over.status, "repeat = true" in over.error) == (500, True)


def test_a_script_in_json_can_begin_again_and_reports_usage_to_openais_clients(tmp_path: Path) -> None:
    step = {"text": "Hello", "usage": {"input": 10, "output": 3, "cache_read": 5}}
    wire, _ = played(tmp_path / "play.json", json.dumps({"repeat": True, "step": [step]}))
    body = {"model": "gpt-5", "messages": [user("hi")]}
    for _ in range(2):
        answer = wire.post("/v1/chat/completions", body, {"authorization": "Bearer any"})
        assert answer.body["choices"][0]["message"]["content"] == "Hello"
        assert (answer.usage["prompt_tokens"], answer.usage["completion_tokens"]) == (15, 3)


@pytest.mark.parametrize(
    ("name", "words", "reason"),
    [
        ("a.toml", "[[step]\n", "is not a script"),
        ("a.toml", "[[step]]\ntxt = 'x'\n", "txt"),
        ("a.toml", "[[step]]\ntext = 7\n", "step"),
        ("a.toml", "[[step]]\n", "says nothing"),
        ("a.toml", "[[step]]\nerror = 'telepathy'\n", "telepathy"),
        ("a.toml", "[[step]]\ntext = 'x'\ndelay = -1\n", ">= 0"),
        ("a.json", '{"step": []}', "no [[step]]"),
        ("a.json", "\xff", "is not a script"),
    ],
)
def test_a_file_that_is_no_script_is_refused_in_one_line(
    name: str, words: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(words.encode("latin-1"))
    with pytest.raises(UserError) as raised:
        load_script(tmp_path / name)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_command_refuses_a_script_that_is_not_there(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "sevenfold", "simulate", "--script", str(tmp_path / "none.toml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert "cannot read the script" in ran.stderr


@pytest.mark.parametrize(
    ("words", "name", "given"),
    [
        ("read `a.txt` please", "read", {"path": "a.txt"}),
        ("what is in src/a.py? read it", "read", {"path": "src/a.py"}),
        ('get_weather {"city": "Paris", "days": 3}', "get_weather", {"city": "Paris", "days": 3}),
        ("the weather in 'Rome'", "get_weather", {"city": "Rome", "days": 1}),
    ],
)
def test_the_brain_calls_the_tool_that_fits_the_words(words: str, name: str, given: Any) -> None:
    answer = simulated(ToolBrain()).messages(words, tools=[READ, WEATHER])
    call = answer.content[-1]
    assert (call["name"], call["input"]) == (name, given)


def test_the_brain_says_what_the_tool_returned_and_echoes_where_none_fits() -> None:
    wire = simulated(ToolBrain())
    call = wire.messages("read `a.txt`", tools=[READ]).content[-1]
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "42"}
    talk = [user("read `a.txt`"), assistant(call), user(result)]
    assert "42" in wire.messages(talk, tools=[READ]).content[0]["text"]
    assert wire.messages("hello", tools=[READ]).content[0]["text"] == "You said: hello"


@pytest.mark.parametrize("kind", ["bm25", "regex"])
def test_the_brain_searches_first_where_tools_wait_to_be_found(kind: str) -> None:
    search = {"type": f"tool_search_tool_{kind}_20251119", "name": f"tool_search_tool_{kind}"}
    waiting = [{**tool, "defer_loading": True} for tool in (READ, WEATHER)]
    words = "weather" if kind == "regex" else "the weather in 'Rome'"
    answer = simulated(ToolBrain()).messages(words, tools=[search, *waiting])
    kinds = [block["type"] for block in answer.content]
    assert kinds == ["server_tool_use", "tool_search_tool_result", "text", "tool_use"]
    assert answer.content[1]["content"]["tool_references"][0]["tool_name"] == "get_weather"
    assert answer.content[-1]["name"] == "get_weather"


def test_what_waits_to_be_found_counts_only_once_it_is_referred_to() -> None:
    wire = simulated(ToolBrain())
    search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    tools = [search, {**READ, "defer_loading": True}]
    content = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "read"}],
    }
    call = {"type": "server_tool_use", "id": "s", "name": search["name"], "input": {"query": "read"}}
    found = {"type": "tool_search_tool_result", "tool_use_id": "s", "content": content}
    talk = [user("hello"), assistant(call, found), user("go on")]
    unheard = {**content, "tool_references": []}
    without = [user("hello"), assistant(call, {**found, "content": unheard}), user("go on")]

    def size(messages: Any, offered: Any) -> int:
        return int(wire.messages(messages, tools=offered).body["usage"]["input_tokens"])

    assert size("hello", tools) == size("hello", [search])
    assert (
        size(talk, tools) - size(without, tools)
        > size("hello", [search, READ]) - size("hello", [search]) - 1
    )
