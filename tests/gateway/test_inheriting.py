"""Our own calls for a program's conversation go out as the program's own do, as the provider received them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain, text
from sevenfold.lab.simulator.provider import Received, Simulator
from sevenfold.lab.simulator.server import serve
from tests.gateway.standing import keeping

pytestmark = pytest.mark.spec("S40.18")

FILLER = "The build ran, and nobody had anything to add to it. " * 36
WINDOW = 24_000
TURNS = 30
PROGRAMS = {
    "x-sevenfold-session": "work",
    "user-agent": "harbour-agent/7.1",
    "x-app": "harbour",
    "chatgpt-account-id": "account-1",
    "cookie": "a=b",
}
"""Headers that a program sends with each request."""
OF_ONE_REQUEST = {"x-stainless-retry-count": "1", "idempotency-key": "key-1", "x-request-id": "request-1"}


def answering(prompt: ModelPrompt) -> Any:
    return [text(f"Done. {FILLER}")]


def own_calls(
    folder: Path, path: str, body: dict[str, Any], field: str, credential: dict[str, str]
) -> list[Received]:
    """Talk through a gateway that keeps; returns the calls that it made itself."""
    simulator = Simulator(ScriptedBrain(answering))
    messages: list[dict[str, Any]] = []
    with (
        serve(simulator) as url,
        keeping(folder, url, WINDOW) as gateway,
        httpx2.Client(base_url=gateway.url, headers={**PROGRAMS, **credential}, timeout=60) as client,
    ):
        for number in range(TURNS):
            # The newest words are the last message of the program's own requests, and of no others.
            messages.append({"role": "user", "content": f"What about day {number}?"})
            answered = client.post(path, json={**body, field: messages}, headers=OF_ONE_REQUEST)
            assert answered.status_code == 200, answered.text
            messages.append({"role": "assistant", "content": f"Day {number} is done. {FILLER}"})
    assert gateway.said == []
    posted = [request for request in simulator.requests if request.path.endswith(path)]
    own = [request for request in posted if "What about day" not in json.dumps(request.body[field][-1])]
    assert own
    assert len(posted) == TURNS + len(own)
    return own


def test_the_messages_api_gets_headers_beta_features_metadata_and_settings(tmp_path: Path) -> None:
    body = {
        "model": "claude-opus-4-6",
        "max_tokens": 400,
        "tools": [{"name": "Read", "input_schema": {"type": "object"}}],
        "metadata": {"user_id": "harbour-master"},
        "service_tier": "standard_only",
    }
    credential = {
        "x-api-key": "key",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "context-management-2025-06-27",
    }
    for request in own_calls(tmp_path, "/v1/messages", body, "messages", credential):
        sent = json.loads(request.raw)
        assert {name: request.headers[name] for name in ("user-agent", "x-app", "chatgpt-account-id")} == {
            name: PROGRAMS[name] for name in ("user-agent", "x-app", "chatgpt-account-id")
        }
        assert request.headers["anthropic-beta"] == "context-management-2025-06-27"
        assert request.headers["x-api-key"] == "key"
        assert request.headers["cookie"] == "a=b"
        assert not {"x-sevenfold-session", *OF_ONE_REQUEST} & set(request.headers)
        assert sent["metadata"] == body["metadata"]
        assert sent["service_tier"] == "standard_only"
        assert sent["max_tokens"] > 400


@pytest.mark.parametrize(
    ("path", "field", "tool"),
    [
        (
            "/v1/chat/completions",
            "messages",
            {"type": "function", "function": {"name": "Read", "parameters": {"type": "object"}}},
        ),
        ("/v1/responses", "input", {"type": "function", "name": "Read", "parameters": {"type": "object"}}),
    ],
    ids=["chat", "responses"],
)
def test_openais_apis_get_headers_and_the_fields_that_decide_who_pays_and_which_cache_is_asked(
    tmp_path: Path, path: str, field: str, tool: dict[str, Any]
) -> None:
    fields = {
        "prompt_cache_key": "harbour-1",
        "user": "harbour-master",
        "service_tier": "flex",
        "metadata": {"team": "pier"},
    }
    body = {"model": "gpt-5.4", "tools": [tool], **fields}
    for request in own_calls(tmp_path, path, body, field, {"authorization": "Bearer key"}):
        sent = json.loads(request.raw)
        assert {name: sent.get(name) for name in fields} == fields
        assert request.headers["user-agent"] == "harbour-agent/7.1"
        assert request.headers["chatgpt-account-id"] == "account-1"
        assert request.headers["authorization"] == "Bearer key"
        assert not {"x-sevenfold-session", *OF_ONE_REQUEST} & set(request.headers)
