"""What passes the gateway is on record, in figures that agree with the program's own; failures cost nothing."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from sevenfold.archive.profile.files import find, profile, profile_file
from sevenfold.doors.follower.answer_reading import BodyReading
from sevenfold.doors.gateway.recorder import CallStatistics
from sevenfold.doors.gateway.report import five_lines
from sevenfold.errors import TranscriptError
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.record import entries
from sevenfold.record.blocks import words_of
from sevenfold.record.entries import Said
from sevenfold.wire.messages_events import message_events
from tests.gateway.standing import Standing, standing

pytestmark = pytest.mark.spec("S30.2")

MODEL = "claude-opus-4-6"
TOOLS: Any = [
    {"name": "Read", "description": "reads", "input_schema": {"type": "object", "properties": {}}}
]
SYSTEM = "You help. " * 3_000
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "content": [
        {"type": "text", "text": "Grüße 😀"},
        {"type": "tool_use", "id": "toolu_1", "name": "R", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 5,
        "output_tokens": 9,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 3,
    },
}


def answers(path: Path) -> list[Said]:
    found = (entries.read(line) for line in path.read_bytes().splitlines())
    return [entry for entry in found if isinstance(entry, Said) and entry.role == "assistant"]


class ClaudeLike:
    """A program that keeps a transcript of its own, in the shape of Claude Code's."""

    def __init__(self, url: str, transcript: Path) -> None:
        self.client = anthropic.Anthropic(base_url=url, api_key="key", max_retries=0)
        self.transcript = transcript
        self.messages: list[Any] = []
        self.parent: str | None = None

    def say(self, words: str, *, tools: Any = TOOLS, record: bool = True) -> Any:
        self.messages.append({"role": "user", "content": words})
        with self.client.messages.stream(
            model=MODEL,
            max_tokens=500,
            system=[{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
            tools=tools,
            messages=self.messages,
            extra_headers={"x-claude-code-session-id": "claude-1"},
        ) as stream:
            answer = stream.get_final_message()
        self.messages.append({"role": "assistant", "content": answer.model_dump(mode="json")["content"]})
        if record:
            self._write("user", {"role": "user", "content": words})
            self._write("assistant", answer.model_dump(mode="json"))
        return answer

    def _write(self, kind: str, message: dict[str, Any]) -> None:
        uuid = f"u{len(self.messages)}{kind}"
        head = {
            "parentUuid": self.parent,
            "isSidechain": False,
            "type": kind,
            "uuid": uuid,
            "sessionId": "claude-1",
        }
        line = {
            **head,
            "timestamp": "2026-11-01T10:00:00.000Z",
            "version": "2.1.327",
            "cwd": "/x",
            "message": message,
        }
        with self.transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self.parent = uuid


def watched(tmp_path: Path, work: Callable[[str], object]) -> Standing:
    """Have a program work through a gateway in front of a simulator."""
    with serve(Simulator()) as url, standing(tmp_path / "sessions", url) as gateway:
        work(gateway.url)
    return gateway


def test_the_figures_are_those_of_the_programs_own_transcript_for_every_call_of_both(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own.jsonl"

    def work(url: str) -> None:
        program = ClaudeLike(url, own)
        for number in range(5):
            program.say(f"question {number}")
        program.say("one that the program did not write down", record=False)

    gateway = watched(tmp_path, work)
    [recorded] = gateway.transcripts()
    theirs = {said.message_id: (said.model, said.usage) for said in answers(own)}
    ours = {said.message_id: (said.model, said.usage) for said in answers(recorded)}
    assert {name: ours[name] for name in theirs} == theirs
    assert len(ours.keys() - theirs.keys()) == 1
    # Together, each call counts once, wherever it is recorded; what only the gateway saw is listed apart.
    both = profile(find([own, recorded]), jobs=1)
    assert (both.total.copied_calls, both.total.api_calls) == (5, 6)
    alone, _ = profile_file(own)
    assert sum(session.cost_usd or 0 for session in both.sessions) > (alone.cost_usd or 0)


@pytest.mark.spec("S30.8")
def test_a_broken_cache_is_explained_by_what_changed(tmp_path: Path) -> None:
    def work(url: str) -> None:
        program = ClaudeLike(url, tmp_path / "own.jsonl")
        program.say("one")
        program.say("two")
        program.say("three", tools=[*TOOLS, {**TOOLS[0], "name": "Write"}])

    gateway = watched(tmp_path, work)
    found, _ = profile_file(gateway.transcripts()[0])
    assert [lost.cause for lost in found.cache_breaks] == ["tools_changed"]
    lines = five_lines(gateway.transcripts(), CallStatistics(requests=3), 0.0)
    assert len(lines) == 5
    assert lines[0].startswith("calls       3; 1 session recorded in ")
    assert "to broken caches: 1 × the tools changed" in lines[3]
    assert lines[4].endswith("connect all tools and servers before the first message")


def test_a_run_without_a_broken_cache_says_so(tmp_path: Path) -> None:
    gateway = watched(tmp_path, lambda url: ClaudeLike(url, tmp_path / "own.jsonl").say("hello"))
    lines = five_lines(gateway.transcripts(), gateway.recorder.statistics, 0.0)
    assert [line.split()[0] for line in lines] == ["calls", "spent", "tokens", "lost", "would"]
    assert "nothing to broken caches" in lines[3]


def test_the_apis_of_openai_are_recorded_with_their_calls(tmp_path: Path) -> None:
    def work(url: str) -> None:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="key")
        function: Any = {"name": "Read", "parameters": {"type": "object", "properties": {}}}
        responses_function: Any = {"type": "function", "strict": False, **function}
        said: list[Any] = [{"role": "developer", "content": "Be brief."}]
        items: list[Any] = []
        for number in range(3):
            said.append({"role": "user", "content": f"chat {number}"})
            chat = client.chat.completions.create(
                model="gpt-5.6", messages=said, tools=[{"type": "function", "function": function}]
            )
            said.append(chat.choices[0].message.model_dump(exclude_none=True))
            items.append({"role": "user", "content": f"item {number}"})
            with client.responses.stream(
                model="gpt-5.6", input=items, tools=[responses_function]
            ) as stream:
                response = stream.get_final_response()
            items += [item.model_dump(exclude_none=True, mode="json") for item in response.output]

    gateway = watched(tmp_path, work)
    assert gateway.said == []
    chats = sorted([words_of(said.blocks[-1]) for said in answers(path)] for path in gateway.transcripts())
    assert chats == [[f"You said: {kind} {number}" for number in range(3)] for kind in ("chat", "item")]


def test_counting_and_listing_are_passed_on_and_are_no_calls(tmp_path: Path) -> None:
    def work(url: str) -> None:
        client = anthropic.Anthropic(base_url=url, api_key="key")
        assert client.models.list().data
        counted = client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "hi"}])
        assert counted.input_tokens

    gateway = watched(tmp_path, work)
    assert gateway.transcripts() == []
    assert gateway.recorder.statistics.requests == 0


def test_an_error_of_the_provider_arrives_and_is_on_record(tmp_path: Path) -> None:
    with (
        serve(Simulator(setup=Setup(api_key="right"))) as url,
        standing(tmp_path, url) as gateway,
        pytest.raises(anthropic.AuthenticationError),
    ):
        ClaudeLike(gateway.url, tmp_path / "own").say("hi")
    assert (
        b'"status":401,"error":"authentication_error: invalid x-api-key"'
        in gateway.transcripts()[0].read_bytes()
    )
    assert gateway.recorder.statistics.failed == 1


def test_a_store_that_fails_costs_the_recording_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(Simulator()) as url, standing(tmp_path, url) as gateway:

        def full(*_: object) -> object:
            raise TranscriptError("the disk is full")

        monkeypatch.setattr(gateway.recorder.follower._store, "open", full)
        program = ClaudeLike(gateway.url, tmp_path / "own")
        assert program.say("one").content[0].text == "You said: one"
        assert program.say("two").content[0].text == "You said: two"
    assert gateway.said == ["a request is not recorded: TranscriptError: the disk is full"]
    assert gateway.recorder.statistics.unrecorded == 2


# -- answers in bytes --------------------------------------------------------------------------


def read(pieces: list[bytes], **headers: str) -> Any:
    reading = BodyReading(
        "messages",
        "/v1/messages",
        b"{}",
        {name.replace("_", "-"): value for name, value in headers.items()},
    )
    for piece in pieces:
        reading.take(piece)
    return reading.ended(200)


def encoders() -> dict[str, Callable[[bytes], bytes]]:
    import brotli

    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity", ""])
def test_compressed_answers_are_read(encoding: str) -> None:
    raw = json.dumps(MESSAGE).encode()
    if encode := encoders().get(encoding):
        raw = encode(raw)
    answer, error = read([raw[:7], raw[7:8], raw[8:]], content_encoding=encoding)
    assert error == ""
    assert [block.kind for block in answer.blocks] == ["text", "tool_use"]


@pytest.mark.parametrize("size", [1, 3, 17, 10_000])
def test_a_stream_in_any_pieces_gives_the_answer_of_the_body(size: int) -> None:
    raw = b"".join(message_events({**MESSAGE, "stop_details": None}, 4))
    streamed, error = read(
        [raw[at : at + size] for at in range(0, len(raw), size)], content_type="text/event-stream"
    )
    whole, _ = read([json.dumps(MESSAGE).encode()])
    assert error == ""
    assert [block.body() for block in streamed.blocks] == [block.body() for block in whole.blocks]
    assert (streamed.id, streamed.stop_reason) == (whole.id, whole.stop_reason)


def test_a_stream_that_breaks_off_leaves_its_whole_blocks_and_says_so() -> None:
    raw = b"".join(message_events({**MESSAGE, "stop_details": None}, 4))
    answer, error = read([raw[: raw.index(b'"index":1')]], content_type="text/event-stream")
    assert [words_of(block) for block in answer.blocks] == ["Grüße 😀"]
    assert error == "the answer broke off"


def test_an_unknown_encoding_is_named() -> None:
    assert read([b"x"], content_encoding="compress") == (
        None,
        "the answer is encoded as compress, which cannot be read here",
    )


# -- the command -------------------------------------------------------------------------------

CHILD = """
import os, sys, urllib.request
request = urllib.request.Request(
    os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
    b'{"model": "claude-opus-4-6", "max_tokens": 9, "tools": [{"name": "R", "input_schema": {"type": "object"}}],'
    b' "messages": [{"role": "user", "content": "hi"}]}',
    {"x-api-key": "key", "anthropic-version": "2023-06-01", "content-type": "application/json"},
)
print(urllib.request.urlopen(request).read().decode())
sys.exit(7)
"""


@pytest.mark.spec("S30.10")
def test_a_program_runs_in_the_gateways_environment_and_five_lines_follow_it(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    with serve(Simulator()) as url:
        env = {**os.environ, "SEVENFOLD_HOME": str(home), "ANTHROPIC_BASE_URL": url}
        command = [sys.executable, "-m", "sevenfold", "gateway", "--", sys.executable, "-c", CHILD]
        run = subprocess.run(command, env=env, cwd=project, capture_output=True, text=True, check=False)
    assert run.returncode == 7
    assert json.loads(run.stdout)["content"][0]["text"] == "You said: hi"
    lines = run.stderr.splitlines()
    assert len(lines) == 5
    [folder] = (home / "projects").iterdir()
    assert lines[0] == f"calls       1; 1 session recorded in {folder}"
    assert folder.name.rpartition(".")[0].endswith("-project")
    [transcript] = folder.glob("*.jsonl")
    assert answers(transcript)[0].model == MODEL


@pytest.mark.spec("S30.10")
def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    env = {**os.environ, "SEVENFOLD_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "sevenfold", "gateway", "--", "no-such-program"]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "no-such-program: cannot be started" in run.stderr


@pytest.mark.spec("S30.10")
def test_a_run_whose_requests_went_past_the_gateway_says_so() -> None:
    lines = five_lines([], CallStatistics(), 0.0)
    assert len(lines) == 5
    assert lines[0].startswith("calls       none came by")
