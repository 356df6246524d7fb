"""The Responses API's own compaction: what it takes, what it gives, and what it refuses to take back."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from sevenfold.lab.simulator.brains import NoSummary
from sevenfold.lab.simulator.faults import Fault, Faults
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from tests.simulator.wire import BY_HAND, KEY, Answer, Wire, Witness, simulated, small

pytestmark = pytest.mark.spec("S9.7")

HEADERS = {"authorization": f"Bearer {KEY}"}
ASKED = {"role": "user", "content": "How deep is the well?"}
TOLD = {"role": "assistant", "content": "12 m."}
CALL = {"type": "function_call", "call_id": "call_1", "name": "depth", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "12 m"}


def compact(wire: Wire, given: Any = (ASKED, CALL, RESULT, TOLD), **fields: Any) -> Answer:
    body = {"model": "gpt-5.6", "input": given, **fields}
    return wire.post(
        "/v1/responses/compact", {key: value for key, value in body.items() if value is not ...}, HEADERS
    )


def respond(wire: Wire, given: Any, model: str = "gpt-5.6") -> Answer:
    return wire.post("/v1/responses", {"model": model, "input": given}, HEADERS)


def refused(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer.body["error"]["code"]


def test_the_users_messages_come_back_and_behind_them_one_sealed_item() -> None:
    answer = compact(simulated(summarise=lambda request: "a deep well"))
    *said, item = answer.body["output"]
    assert [(one["role"], one["content"]) for one in said] == [("user", "How deep is the well?")]
    assert set(item) == {"id", "type", "encrypted_content"}
    assert (item["type"], item["id"][:4]) == ("compaction", "cmp_")
    assert answer.body["object"] == "response.compaction"


def test_what_was_read_and_written_is_counted() -> None:
    wire = simulated(summarise=lambda request: "a deep well")
    usage = compact(wire, "How deep?", instructions="Be brief.").usage
    assert (usage["input_tokens"], usage["output_tokens"]) == (
        len("How deep?Be brief."),
        len("a deep well"),
    )
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_whoever_goes_on_from_an_item_sees_what_is_in_it() -> None:
    brain = Witness()
    wire = simulated(brain, summarise=lambda request: f"{request.messages[0]['content'][0]['text']} 12 m.")
    item = compact(wire).body["output"][-1]
    assert respond(wire, [item, {"role": "user", "content": "And the lake?"}]).status == 200
    first = brain.prompts[0].messages[0]["content"][0]["text"]
    assert first == "How deep is the well? 12 m."


def test_an_item_can_be_compacted_again() -> None:
    wire = simulated(summarise=lambda request: f"{len(request.messages)} messages")
    item = compact(wire).body["output"][-1]
    again = compact(wire, [item, {"role": "user", "content": "And the lake?"}])
    assert again.status == 200
    assert again.body["output"][-1]["encrypted_content"] != item["encrypted_content"]


def tampered(item: dict[str, Any]) -> dict[str, Any]:
    sealed = item["encrypted_content"]
    return {**item, "encrypted_content": sealed[:40] + ("A" if sealed[40] != "A" else "B") + sealed[41:]}


@pytest.mark.parametrize(
    "altered",
    [
        tampered,
        lambda item: {**item, "encrypted_content": "nonsense"},
        lambda item: {**item, "encrypted_content": ""},
    ],
    ids=["tampered", "unknown", "empty"],
)
def test_an_item_that_is_not_as_it_was_given_is_refused_everywhere(altered: Any) -> None:
    wire = simulated()
    item = altered(compact(wire).body["output"][-1])
    for answer in (respond(wire, [item, ASKED]), compact(wire, [item, ASKED])):
        assert refused(answer) == (400, "invalid_encrypted_content")
        assert "could not be verified" in answer.error


def test_an_item_without_its_content_is_refused() -> None:
    answer = respond(simulated(), [{"type": "compaction"}, ASKED])
    assert refused(answer) == (400, "missing_required_parameter")


def test_an_item_is_for_the_model_and_the_account_that_made_it() -> None:
    wire = simulated(setup=Setup(counter=BY_HAND, models={"gpt-5.7": small("gpt-5.6")}))
    item = compact(wire).body["output"][-1]
    assert refused(respond(wire, [item, ASKED], model="gpt-5.7")) == (400, "invalid_encrypted_content")
    elsewhere = simulated(setup=Setup(counter=BY_HAND, organisation="org_other"))
    assert refused(respond(elsewhere, [item, ASKED])) == (400, "invalid_encrypted_content")
    restarted = simulated(setup=Setup(counter=BY_HAND))
    assert respond(restarted, [item, ASKED]).status == 200


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"model": ...}, 400, "missing_required_parameter"),
        ({"model": "gpt-1"}, 404, "model_not_found"),
        ({"model": "gpt-5"}, 400, "unsupported_model"),
        ({"given": ...}, 400, "missing_required_parameter"),
        ({"given": []}, 400, None),
        ({"given": [{"type": "hologram"}]}, 400, "invalid_value"),
        ({"given": [ASKED, CALL]}, 400, None),
        ({"given": 7}, 400, "invalid_type"),
        ({"tools": []}, 400, "unknown_parameter"),
        ({"store": False}, 400, "unknown_parameter"),
        ({"stream": True}, 400, "unknown_parameter"),
        ({"previous_response_id": "resp_1"}, 400, None),
    ],
)
def test_a_request_that_is_wrong_is_refused(fields: dict[str, Any], status: int, code: str | None) -> None:
    wire = simulated(setup=Setup(counter=BY_HAND, any_model=False))
    assert refused(compact(wire, **fields)) == (status, code)


def test_a_conversation_larger_than_the_window_is_refused() -> None:
    models = {"gpt-5.6": small("gpt-5.6", window=1_000)}
    answer = compact(simulated(setup=Setup(counter=BY_HAND, models=models)), "x" * 1_001)
    assert refused(answer) == (400, "context_length_exceeded")


def test_a_summary_that_does_not_come_about_is_the_servers_error() -> None:
    assert compact(simulated(summarise=lambda request: NoSummary())).status == 500


def test_faults_and_keys_are_those_of_every_request() -> None:
    wire = simulated(faults=Faults({1: Fault("rate_limited")}))
    assert compact(wire).status == 429
    assert wire.post("/v1/responses/compact", {}, {}).status == 401


def test_the_official_sdk_reads_it() -> None:
    with serve(Simulator()) as url, openai.OpenAI(api_key=KEY, base_url=f"{url}/v1") as client:
        made = client.responses.compact(model="gpt-5.6", input=[{"role": "user", "content": "hello"}])
        item = made.output[-1]
        assert item.type == "compaction"
        given: Any = [
            {"type": "compaction", "id": item.id, "encrypted_content": item.encrypted_content},
            {"role": "user", "content": "and?"},
        ]
        assert client.responses.create(model="gpt-5.6", input=given).output_text == "You said: and?"
