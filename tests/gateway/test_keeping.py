"""A gateway that keeps: any program's conversations stay within the window, and the program notices nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from msgspec.structs import replace

from sevenfold.doors.follower.kept_figures import KeptFigures
from sevenfold.doors.gateway.report import kept_lines
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain, text
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.lab.simulator.provider import Received, Simulator
from sevenfold.lab.simulator.server import serve
from tests.gateway.standing import keeping, standing

pytestmark = pytest.mark.spec("S40.7")

MODEL = "claude-opus-4-6"
TOOLS: Any = [
    {"name": "Read", "description": "reads", "input_schema": {"type": "object", "properties": {}}}
]
FILLER = "The build ran, and nobody had anything to add to it. " * 36
WINDOW = 24_000


def answering(prompt: ModelPrompt) -> Any:
    return [text(f"Done. {FILLER}")]


def talk(url: str, turns: int) -> list[Any]:
    """Talk through the gateway, streamed; returns the program's own list."""
    messages: list[Any] = []
    headers = {"x-claude-code-session-id": "talk"}
    with anthropic.Anthropic(base_url=url, api_key="key", max_retries=0) as client:
        for number in range(turns):
            messages.append({"role": "user", "content": f"The code word of day {number} is word-{number}."})
            with client.messages.stream(
                model=MODEL, max_tokens=400, tools=TOOLS, messages=messages, extra_headers=headers
            ) as stream:
                answer = stream.get_final_message()
            messages.append({"role": "assistant", "content": answer.model_dump(mode="json")["content"]})
    return messages


def turns(simulator: Simulator) -> list[Received]:
    return [received for received in simulator.requests if b'"max_tokens":400' in received.raw]


def test_a_programs_conversation_stays_within_the_window_with_every_word_of_the_user(
    tmp_path: Path,
) -> None:
    simulator = Simulator(ScriptedBrain(answering))
    with serve(simulator) as url, keeping(tmp_path, url, WINDOW) as gateway:
        messages = talk(gateway.url, 40)
    newest = turns(simulator)[-1].raw.decode()
    assert gateway.said == []
    assert all(received.status == 200 for received in simulator.requests)
    assert len(newest) < len(json.dumps(messages)) / 2
    assert all(f"word-{number}." in newest for number in range(40))


def test_short_conversations_pass_in_the_programs_own_bytes(tmp_path: Path) -> None:
    bodies: list[list[bytes]] = []
    for kept in (False, True):
        simulator = Simulator(ScriptedBrain(answering))
        with serve(simulator) as url:
            folder = tmp_path / str(kept)
            with keeping(folder, url, WINDOW) if kept else standing(folder, url) as gateway:
                talk(gateway.url, 4)
        bodies.append([received.raw for received in simulator.requests])
    assert bodies[0] == bodies[1]


def test_a_provider_that_refuses_every_change_gets_the_programs_own_requests(tmp_path: Path) -> None:
    def stubborn(prompt: ModelPrompt) -> Any:
        if "<continued-session>" in json.dumps(prompt.messages[0]) and prompt.max_tokens == 400:
            raise ApiError(400, "invalid_request_error", "nothing of this kind here")
        return answering(prompt)

    simulator = Simulator(ScriptedBrain(stubborn))
    with serve(simulator) as url, keeping(tmp_path, url, WINDOW) as gateway:
        messages = talk(gateway.url, 40)
    refused = [received for received in turns(simulator) if received.status == 400]
    assert len(refused) == 2
    assert json.loads(turns(simulator)[-1].raw)["messages"] == messages[:-1]
    assert gateway.said == []


def test_a_gateway_that_is_started_again_goes_on_with_the_same_summary(tmp_path: Path) -> None:
    simulator = Simulator(ScriptedBrain(answering))
    with serve(simulator) as url:
        with keeping(tmp_path, url, WINDOW) as gateway:
            messages = talk(gateway.url, 30)
        before = json.loads(turns(simulator)[-1].raw)["messages"][0]
        with keeping(tmp_path, url, WINDOW) as gateway:
            with anthropic.Anthropic(base_url=gateway.url, api_key="key", max_retries=0) as client:
                client.messages.create(
                    model=MODEL,
                    max_tokens=400,
                    tools=TOOLS,
                    messages=[*messages, {"role": "user", "content": "And now?"}],
                    extra_headers={"x-claude-code-session-id": "talk"},
                )
            assert gateway.said == []
    assert json.loads(turns(simulator)[-1].raw)["messages"][0] == before


@pytest.mark.spec("S40.13")
def test_the_report_says_what_was_done_what_it_saved_and_cost_and_how_to_undo_it() -> None:
    assert kept_lines(0, KeptFigures()) == ["kept        nothing had to leave a context"]
    done = KeptFigures(summaries=1, moved=4, cleared=2, saved_usd=1.5, own_usd=0.12)
    kept, saved, undo = kept_lines(3, done)
    assert kept.endswith(
        "3 requests were sent with less in them: 1 summary, 4 results moved to disk, 2 results cleared"
    )
    assert "about $1.50 beside sending the program's own requests" in saved
    assert saved.endswith("our own calls cost $0.12")
    assert "with --mode watch it is sent whole" in undo
    _, saved, _ = kept_lines(3, replace(done, saved_usd=-0.2))
    assert "nothing: about $0.20 more" in saved


@pytest.mark.spec("S40.13")
def test_each_prepared_answer_says_what_its_conversation_saved_and_what_our_own_calls_cost(
    tmp_path: Path,
) -> None:
    simulator = Simulator(ScriptedBrain(answering))
    body = {
        "model": MODEL,
        "max_tokens": 400,
        "tools": TOOLS,
        "messages": [{"role": "user", "content": "Hello"}],
    }
    headers = {"x-api-key": "key", "anthropic-version": "2023-06-01"}
    with (
        serve(simulator) as url,
        keeping(tmp_path, url, WINDOW) as gateway,
        httpx2.Client(base_url=gateway.url, headers=headers) as client,
    ):
        answers = [client.post("/v1/messages", json=body) for _ in range(2)]
        listed = client.get("/v1/models")
    for answer in answers:
        assert answer.status_code == 200
        assert (
            answer.headers["x-sevenfold-kept"]
            == "request=unchanged, saved-usd=0.0000, own-calls-usd=0.0000"
        )
        assert answer.json()["content"]
    assert "x-sevenfold-kept" not in listed.headers
