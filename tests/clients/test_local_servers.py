"""Local servers as they answer: the window a model runs with, thinking in tags, calls written as text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

import sevenfold
from sevenfold.cli.chat.start import served_models
from sevenfold.providers import registry
from sevenfold.providers.models import is_local
from sevenfold.wire.chat_answer import ChatReader

MODEL = "qwen3:8b"
Routes = dict[str, Any]
LISTED = {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "library"}]}
OLLAMA: Routes = {
    "/v1/models": LISTED,
    "/api/ps": {"models": [{"name": MODEL, "model": MODEL, "context_length": 32_768}]},
    "/api/show": {
        "parameters": 'num_ctx    16384\nstop "x"',
        "model_info": {"qwen3.context_length": 40_960},
    },
}
SERVERS: dict[str, tuple[Routes, int]] = {
    "ollama, loaded": (OLLAMA, 32_768),
    "ollama, not loaded": ({**OLLAMA, "/api/ps": {"models": []}}, 16_384),
    "ollama, not loaded, nothing set": (
        {**OLLAMA, "/api/ps": {"models": []}, "/api/show": {"model_info": {}}},
        8_192,
    ),
    "vllm": ({"/v1/models": {"data": [{"id": MODEL, "max_model_len": 24_000}]}}, 24_000),
    "llama.cpp": (
        {"/v1/models": LISTED, "/props": {"default_generation_settings": {"n_ctx": 12_288}}},
        12_288,
    ),
    "lm studio": (
        {
            "/v1/models": LISTED,
            "/api/v0/models": {
                "data": [
                    {
                        "id": MODEL,
                        "state": "loaded",
                        "max_context_length": 131_072,
                        "loaded_context_length": 20_480,
                    }
                ]
            },
        },
        20_480,
    ),
    "one that answers with pages": ({"/v1/models": LISTED, "/api/ps": "<html>", "/props": []}, 8_192),
}


@contextmanager
def serving(routes: Routes) -> Iterator[str]:
    """A server that answers paths with JSON, and everything else with 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = routes.get(self.path.partition("?")[0])
            raw = b"{}" if found is None else json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))


def window(url: str, folder: Path) -> tuple[int, str]:
    with (
        openai.OpenAI(api_key="any", base_url=f"{url}/v1", max_retries=0) as client,
        sevenfold.Session.open(
            "s", model=MODEL, client=client, folder=folder, settings={"notes": False}
        ) as session,
    ):
        found = session.conversation.window
        return found.context, found.source


@pytest.mark.spec("S15.3")
@pytest.mark.parametrize("name", SERVERS)
def test_the_window_is_the_one_the_server_runs_the_model_with(name: str, tmp_path: Path) -> None:
    routes, expected = SERVERS[name]
    with serving(routes) as url:
        assert window(url, tmp_path) == (expected, "family" if expected == 8_192 else "listing")


@pytest.mark.spec("S15.3")
def test_a_server_started_again_with_another_window_is_believed_at_once(tmp_path: Path) -> None:
    routes = dict(OLLAMA)
    with serving(routes) as url:
        assert window(url, tmp_path)[0] == 32_768
        routes["/api/ps"] = {"models": [{"name": MODEL, "context_length": 8_000}]}
        assert window(url, tmp_path)[0] == 8_000
        routes["/api/ps"] = {"models": []}
        routes["/api/show"] = {}
        assert window(url, tmp_path) == (8_192, "family")


@pytest.mark.spec("S15.3")
@pytest.mark.parametrize("size", [0, -1, "24000", 24_000.0, True, None])
def test_a_window_that_is_no_positive_number_is_not_believed(tmp_path: Path, size: Any) -> None:
    with serving({"/v1/models": {"data": [{"id": MODEL, "max_model_len": size}]}}) as url:
        assert window(url, tmp_path) == (8_192, "family")


@pytest.mark.spec("S15.3")
def test_addresses_of_this_machine_and_its_network_are_local() -> None:
    local = [
        "http://localhost:1/v1",
        "http://127.0.0.1",
        "http://192.168.1.9:8000/v1",
        "http://box.local",
        "http://gpu:8",
    ]
    assert all(map(is_local, local))
    assert not any(
        map(is_local, ["https://api.openai.com/v1", "https://1.2.3.4", "https://172.64.0.1", ""])
    )


ASKED = msgspec.json.encode({"model": MODEL, "tools": [{"name": "Read"}], "messages": []})
READ = '{"name": "Read", "arguments": {"path": "a.txt"}}'


def heard(
    text: str, size: int, asked: bytes = ASKED
) -> tuple[list[dict[str, Any]], list[tuple[str, str]], str | None]:
    """The blocks, the pieces and the reason to stop of a streamed answer, cut into pieces of a size."""
    reader = ChatReader(asked)
    pieces = []
    for at in range(0, len(text), size):
        chunk = {"id": "c", "choices": [{"delta": {"content": text[at : at + size]}}]}
        pieces += reader.event(msgspec.json.encode(chunk))
    pieces += reader.event(msgspec.json.encode({"choices": [{"delta": {}, "finish_reason": "stop"}]}))
    pieces += reader.event(b"[DONE]")
    answer = reader.reply(None).answer
    content = [msgspec.json.decode(block.raw) for block in answer.blocks]
    return content, [(piece.kind, piece.words) for piece in pieces], answer.stop_reason


def shown(pieces: list[tuple[str, str]], kind: str) -> str:
    return "".join(words for each, words in pieces if each == kind)


@pytest.mark.spec("S15.4")
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1_000])
def test_thinking_in_tags_is_thinking_wherever_the_stream_is_cut(size: int) -> None:
    content, pieces, _ = heard("<think>\nHm, 6 < 7.\n</think>\n\nIt is <b>7</b>.", size)
    assert [(one["type"], one.get("text") or one.get("thinking")) for one in content] == [
        ("thinking", "\nHm, 6 < 7.\n"),
        ("text", "It is <b>7</b>."),
    ]
    assert shown(pieces, "text") == "It is <b>7</b>."
    assert shown(pieces, "thinking") == "\nHm, 6 < 7.\n"


@pytest.mark.spec("S15.4")
@pytest.mark.parametrize("size", [1, 4, 1_000])
@pytest.mark.parametrize(
    "text",
    [
        "The tag <think> opens thinking.",
        "a < b and <thin ice",
        "Write <tool_call>{…}</tool_call> for a call.",
        "<tool_call>{",
    ],
)
def test_text_that_only_looks_like_it_stays_text_to_the_letter(text: str, size: int) -> None:
    content, pieces, stop = heard(text, size)
    assert [one["type"] for one in content] == ["text"]
    assert content[0]["text"] == text
    assert shown(pieces, "text") == text
    assert stop == "end_turn"


@pytest.mark.spec("S15.4")
def test_an_end_of_thinking_without_its_beginning_divides_the_answer() -> None:
    content, _, _ = heard("I wonder.\n</think>\n\n42", 5)
    assert [one["type"] for one in content] == ["thinking", "text"]
    assert content[1]["text"] == "42"


@pytest.mark.spec("S15.4")
@pytest.mark.parametrize("size", [1, 6, 1_000])
@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{READ}\n</tool_call>",
        f"I will look.\n<tool_call>{READ}</tool_call>\n",
        f"```json\n{READ}\n```",
        READ,
        '{"type": "function", "function": {"name": "Read", "parameters": {"path": "a.txt"}}}',
        '<tool_call>{"name": "Read", "arguments": "{\\"path\\": \\"a.txt\\"}"}</tool_call>',
    ],
)
def test_a_call_written_as_text_is_a_call(text: str, size: int) -> None:
    content, pieces, stop = heard(text, size)
    assert (content[-1]["type"], content[-1]["name"], content[-1]["input"]) == (
        "tool_use",
        "Read",
        {"path": "a.txt"},
    )
    assert stop == "tool_use"
    assert ("tool", "Read") in pieces
    assert all("tool_call" not in one.get("text", "") for one in content)


@pytest.mark.spec("S15.4")
def test_several_calls_written_as_text_are_several_calls_each_with_its_id() -> None:
    content, _, _ = heard(f"<tool_call>{READ}</tool_call>\n<tool_call>{READ}</tool_call>", 9)
    assert [one["type"] for one in content] == ["tool_use", "tool_use"]
    assert content[0]["id"] != content[1]["id"]


@pytest.mark.spec("S15.4")
@pytest.mark.parametrize(
    "text",
    [
        f"For example:\n```json\n{READ}\n```",
        '```json\n{"name": "Ada", "arguments": {}}\n```',
        f"<tool_call>{READ}</tool_call> is how one calls it.",
        f"<tool_call>{'[' * 20_000}</tool_call>",
    ],
)
def test_an_example_next_to_prose_or_of_no_tool_is_not_called(text: str) -> None:
    content, _, stop = heard(text, 8)
    assert [one["type"] for one in content] == ["text"]
    assert stop == "end_turn"


@pytest.mark.spec("S15.4")
def test_without_tools_nothing_is_a_call() -> None:
    content, _, _ = heard(f"<tool_call>{READ}</tool_call>", 8, msgspec.json.encode({"model": MODEL}))
    assert content[0]["type"] == "text"


@pytest.mark.spec("S15.3")
@pytest.mark.parametrize(
    ("name", "assumed"), [("ollama, loaded", False), ("one that answers with pages", True)]
)
def test_a_window_that_is_assumed_is_called_so_with_what_to_do(
    name: str, assumed: bool, tmp_path: Path
) -> None:
    with serving(
        {**SERVERS[name][0], "/v1/chat/completions": {"choices": [{"message": {"content": "Hi."}}]}}
    ) as url:
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "sevenfold",
                "chat",
                "-p",
                "hi",
                "--model",
                MODEL,
                "--folder",
                str(tmp_path),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
            env={
                **os.environ,
                "OPENAI_BASE_URL": f"{url}/v1",
                "OPENAI_API_KEY": "",
                "SEVENFOLD_NOTES": "off",
            },
        )
    assert (ran.returncode, ran.stdout) == (0, "Hi.\n"), ran.stderr
    assert ("8,192 tokens are assumed, too few for some of the tools" in ran.stderr) == assumed
    assert ("SEVENFOLD_CONTEXT_WINDOW" in ran.stderr) == assumed


@pytest.mark.spec("S15.3")
def test_the_chats_list_of_models_is_the_servers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {"object": "list", "data": [{"id": MODEL}, {"id": "other:1b"}]}
    with serving({**OLLAMA, "/v1/models": listed}) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        with closing(registry.quick_client_for(MODEL)) as client:
            assert served_models(client, MODEL) == (MODEL, "other:1b")
    with closing(registry.quick_client_for(MODEL)) as client:
        assert served_models(client, MODEL) == ()
