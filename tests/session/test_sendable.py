"""Whatever an answer, a foreign log or a damage brings: the next request is one that the provider takes."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from bench.foreign_logs import DAMAGES, IMAGE, log_with
from sevenfold.errors import ContextFull, InputError, SevenfoldError
from sevenfold.events import Event, Repaired
from sevenfold.lab.rules import RuleFacts, refusals
from sevenfold.lab.simulator.parameters import ApiFeatures
from sevenfold.lab.simulator.schema import check_shape
from sevenfold.record import blocks
from tests.session.talking import ALONE, TOOLS, alone, calling, fake_reply, hear, said

TEXT = {"type": "text", "text": "Looking."}
CALL = calling("toolu_1")
SECOND = calling("toolu_2")
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def shapes() -> list[list[dict[str, Any]]]:
    """Answers with calls of the client's and the provider's tools in every order, finished or not."""
    orders: list[list[dict[str, Any]]] = []
    for parts in (
        [CALL, SEARCH],
        [CALL, SEARCH, FOUND],
        [TEXT, CALL, SEARCH, FOUND],
        [CALL, SECOND, SEARCH, FOUND],
    ):
        sound = [
            order
            for order in permutations(parts)
            if FOUND not in order or order.index(SEARCH) < order.index(FOUND)
        ]
        orders += map(list, sound)
    return orders


def wrong(body: bytes) -> list[str]:
    return [refusal.message for refusal in refusals(said(body), facts=RuleFacts())]


SHAPES = [pytest.param(shape, id="-".join(part["type"] for part in shape)) for shape in shapes()]


@pytest.mark.spec("S21.4")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stop", ["tool_use", "pause_turn"])
def test_no_order_of_calls_is_sent_back_without_the_results_it_needs(
    shape: list[dict[str, Any]], stop: str
) -> None:
    with alone() as session:
        session.user("Begin.")
        hear(session, fake_reply(*shape, stop_reason=stop))
        with pytest.raises(SevenfoldError, match=r"tool_results\(\)"):
            session.prepare()


@pytest.mark.spec("S21.4")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("then", ["results", "words", "results and words", "an image", "a fork"])
def test_every_order_of_calls_can_be_gone_on_with(shape: list[dict[str, Any]], then: str) -> None:
    with alone() as session:
        session.user("Begin.")
        hear(session, fake_reply(*shape, stop_reason="tool_use"))
        if "results" in then:
            session.tool_results(dict.fromkeys(session.conversation.waiting, "done"))
        if "words" in then:
            session.user("And now?")
        if then == "an image":
            source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
            session.user([{"type": "image", "source": source}])
        if then == "a fork":
            fork = session.fork()
            fork.user("In short?")
            assert not wrong(fork.prepare().body.raw)
        else:
            assert not wrong(session.prepare().body)


# Foreign and damaged logs


@pytest.mark.spec("S21.5")
@pytest.mark.parametrize(("role", "block"), DAMAGES, ids=lambda part: json.dumps(part)[:70])
@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "gpt-4.1", "gpt-5.6"])
def test_a_block_that_no_provider_takes_keeps_no_session_from_going_on(
    tmp_path: Path, model: str, role: str, block: Any
) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in log_with(role, block)))
    with sevenfold.Session.open(
        "s", file=file, model=model, tools=TOOLS, max_tokens=4_000, settings=ALONE
    ) as session:
        session.tool_results(dict.fromkeys(session.conversation.waiting, "done"))
        session.user("And now?")
        request = session.prepare()
        if model.startswith("claude"):
            check_shape(json.loads(request.body), ApiFeatures("2026-10-21", frozenset()))
            assert not wrong(request.body)
        else:
            json.loads(request.body)
        fork = session.fork()
        fork.user("In short?")
        fork.prepare()


@pytest.mark.spec("S21.5")
def test_what_is_sent_in_place_of_a_block_holds_its_bytes_and_is_told(tmp_path: Path) -> None:
    told: list[Repaired] = []
    broken = {"type": "tool_use", "name": "Read", "input": {"path": "lost.py"}}
    file = tmp_path / "s.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in log_with("assistant", broken)))

    def listen(event: Event) -> None:
        if isinstance(event, Repaired):
            told.append(event)

    with sevenfold.Session.open(
        "s", file=file, model="claude-sonnet-5-5", max_tokens=4_000, settings=ALONE, listen=[listen]
    ) as session:
        session.user("And now?")
        body = session.prepare().body
    assert b"lost.py" in body
    assert "unsendable" in {event.what for event in told}


@pytest.mark.spec("S21.5")
def test_a_kind_of_block_that_only_the_provider_knows_goes_back_as_it_came_also_after_reopening(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.jsonl"
    hologram = {"type": "hologram", "depth": 1.5, "of": {"b": 1, "a": 2}}
    options: dict[str, Any] = {"file": file, "model": "claude-sonnet-5-5", "max_tokens": 4_000}
    with sevenfold.Session.open("s", settings=ALONE, **options) as session:
        session.user("Begin.")
        hear(session, fake_reply(TEXT, hologram))
        session.user("And now?")
        assert said(session.prepare().body)[1]["content"] == [TEXT, hologram]
    with sevenfold.Session.open("s", settings=ALONE, **options) as session:
        assert said(session.prepare().body)[1]["content"] == [TEXT, hologram]
        assert not session.conversation.transcript.view.repairs


@pytest.mark.spec("S21.5")
def test_a_call_that_its_server_gave_no_id_gets_one() -> None:
    with alone() as session:
        session.user("Begin.")
        hear(session, fake_reply(calling(""), calling("")))
        waiting = list(session.conversation.waiting)
        assert len(set(waiting)) == 2
        assert all(waiting)
        session.tool_results(dict.fromkeys(waiting, "done"))
        assert not wrong(session.prepare().body)


# Another model, another API


def moved(file: Path, model: str, wire: str = "messages") -> sevenfold.Session:
    options: dict[str, Any] = {"tools": TOOLS, "max_tokens": 4_000, "settings": ALONE}
    return sevenfold.Session.open("s", file=file, model=model, wire=wire, **options)


def roles(body: bytes) -> list[str]:
    return [message["role"] for message in said(body)]


LIST = [
    {"role": "user", "content": "Begin."},
    {"role": "assistant", "content": "Well."},
    {"role": "user", "content": "Go on."},
    {"role": "system", "content": "Be careful with the tide table."},
]


@pytest.mark.spec("S21.12")
def test_a_system_message_is_sent_as_the_users_to_a_model_that_takes_none(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with moved(file, "claude-opus-5-5") as session:
        session.messages(LIST)
        assert roles(session.prepare().body) == ["user", "assistant", "user", "system"]
    with moved(file, "claude-haiku-4-5") as session:
        body = session.prepare().body
        assert roles(body) == ["user", "assistant", "user"]
        assert "tide table" in json.dumps(said(body)[-1])
        first = session.conversation.transcript.view.items[0].record.uuid
        session.user("And now?")
        session.rewind(session.conversation.transcript.view.items[3].record.uuid)
        assert "system" not in roles(session.prepare().body)
        session.rewind(first)
        session.user("Again.")
        session.prepare()
    with moved(file, "claude-opus-5-5") as session:
        session.rewind(session.conversation.transcript.view.items[0].record.uuid)
        session.user("Once more.")
        assert not wrong(session.prepare().body)


def think(session: sevenfold.Session, sealed: str) -> None:
    """The session's model is asked over the Responses API, and answers with reasoning."""
    assert session.prepare().body
    reasoning = {"type": "reasoning", "id": f"rs_{sealed}", "encrypted_content": sealed, "summary": []}
    text = {"type": "output_text", "text": "Well.", "annotations": []}
    spoken = {"type": "message", "role": "assistant", "content": [text]}
    response = {"object": "response", "model": "gpt-5.6", "status": "completed"}
    session.observe({"id": f"resp_{sealed}", **response, "output": [reasoning, spoken]})
    session.user("And now?")
    assert sealed.encode() in session.prepare().body


def reasoned(file: Path) -> None:
    """A session over the Responses API whose newest answer has reasoning."""
    with moved(file, "gpt-5.6", "responses") as session:
        session.user("Begin.")
        think(session, "gAA=")


@pytest.mark.spec("S21.12")
@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-opus-5-5", "gpt-5.6"])
def test_reasoning_of_another_api_is_not_sent_wherever_the_user_goes_back_to(
    tmp_path: Path, model: str
) -> None:
    file = tmp_path / "s.jsonl"
    reasoned(file)
    with moved(file, model) as session:
        session.prepare()
        items = session.conversation.transcript.view.items
        for item in reversed(items[1:]):
            session.rewind(item.record.uuid)
            session.user("Once more.")
            body = session.prepare().body
            assert b"gAA=" not in body
            assert not wrong(body)


@pytest.mark.spec("S21.12", "S24.5")
@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-opus-5-5", "gpt-5.6"])
def test_what_an_apis_own_tool_did_is_sent_to_no_other_api(tmp_path: Path, model: str) -> None:
    file = tmp_path / "s.jsonl"
    with moved(file, "gpt-5.6", "responses") as session:
        session.user("Begin.")
        assert session.prepare().body
        search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
        text = {"type": "output_text", "text": "Well.", "annotations": []}
        response = {"object": "response", "id": "resp_1", "model": "gpt-5.6", "status": "completed"}
        spoken = {"type": "message", "role": "assistant", "content": [text]}
        session.observe({**response, "output": [search, spoken]})
        session.user("And now?")
        assert b"web_search_call" in session.prepare().body
    with moved(file, model) as session:
        body = session.prepare().body
        assert b"web_search_call" not in body
        assert b"Well." in body
        assert not wrong(body)


@pytest.mark.spec("S21.12")
def test_the_same_model_asked_through_its_own_api_again_is_sent_its_newer_reasoning(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    reasoned(file)
    with moved(file, "gpt-5.6") as session:
        assert b"gAA=" not in session.prepare().body
    with moved(file, "gpt-5.6", "responses") as session:
        think(session, "gBB=")


@pytest.mark.spec("S21.12")
def test_a_session_of_one_model_opens_no_epoch_because_of_what_it_does_not_take(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    for _ in range(3):
        with moved(file, "claude-haiku-4-5") as session:
            session.user("Begin.")
            hear(session, fake_reply(TEXT))
    assert file.read_text().count('"kind":"epoch"') == 1


@pytest.mark.spec("S21.5")
def test_a_change_of_tools_that_comes_after_an_answer_is_sent_as_text() -> None:
    removal = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Read"}}
    with alone() as session:
        session.user("Begin.")
        hear(session, fake_reply(TEXT))
        session.conversation.transcript.attach(
            "amended", {}, [blocks.read(json.dumps(removal).encode())], role="system"
        )
        session.user("And now?")
        body = session.prepare().body
    assert [part["type"] for part in said(body)[-1]["content"]] == ["text", "text"]
    assert "tool_removal" in said(body)[-1]["content"][0]["text"]
    assert not wrong(body)


@pytest.mark.spec("S21.4")
def test_no_thinking_follows_a_call_of_the_provider_that_was_dropped_wherever_the_user_goes_back_to() -> (
    None
):
    def thinking(signature: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": "", "signature": signature}

    with alone() as session:
        session.user("Begin.")
        hear(session, fake_reply(thinking("c2ln"), SEARCH, stop_reason="pause_turn"))
        assert b"srvtoolu_1" in hear(session, fake_reply(thinking("bmV4dA"), TEXT, number=2))
        newest = session.user("And now?")
        session.rewind(newest)
        body = session.prepare().body
    assert b"srvtoolu_1" not in body
    assert b"bmV4dA" not in body


@pytest.mark.spec("S21.4")
def test_an_open_call_of_the_provider_is_not_sent_beside_a_result_of_another_call(tmp_path: Path) -> None:
    records = log_with("assistant", TEXT)
    records[1]["message"]["content"].append(SEARCH)
    foreign = {"type": "tool_result", "tool_use_id": "toolu_elsewhere", "content": "an answer to nothing"}
    records[2]["message"]["content"].append(foreign)
    file = tmp_path / "s.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    with moved(file, "claude-sonnet-5-5") as session:
        session.user("And now?")
        body = session.prepare().body
    assert b"an answer to nothing" in body
    assert not wrong(body)


# Forks


@pytest.mark.spec("S21.6")
def test_a_fork_that_does_not_fit_says_so_and_what_to_do() -> None:
    with alone(settings={"context_window": 30_000}) as session:
        session.user("Begin.")
        hear(session, fake_reply())
        fork = session.fork()
        fork.user("x " * 100_000)
        with pytest.raises(
            ContextFull, match=r"the fork has .* the window has 30,000; say less in it, or compact"
        ):
            fork.prepare()


@pytest.mark.spec("S21.6")
def test_a_fork_with_too_many_pictures_says_so() -> None:
    with alone(settings={"images_limit": 2}) as session:
        session.user("Begin.")
        hear(session, fake_reply())
        fork = session.fork()
        fork.user([IMAGE, IMAGE])
        fork.prepare()
        fork = session.fork()
        fork.user([IMAGE, IMAGE, IMAGE])
        with pytest.raises(
            ContextFull, match="the fork has 3 pictures and pages, and a request may have 2"
        ):
            fork.prepare()


# Deep values


@pytest.mark.spec("S21.7")
@pytest.mark.parametrize("shape", ["list", "mapping", "block"])
def test_a_result_nested_too_deeply_is_refused_with_its_path_and_another_one_can_be_given(
    shape: str,
) -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    value = {"list": deep, "mapping": {"rows": deep}, "block": [{"type": "document", "source": deep}]}[
        shape
    ]
    path = {"list": r"\$\[0\]\[0\]", "mapping": r"\$\.rows\[0\]", "block": r"\$\[0\]\.source\[0\]"}[shape]
    with alone() as session:
        session.user("Begin.")
        hear(session, fake_reply(CALL))
        with pytest.raises(InputError, match=f"the result of toolu_1: {path}.*nested too deeply"):
            session.tool_results({"toolu_1": value})
        session.tool_results({"toolu_1": "too deep"})
        assert not wrong(session.prepare().body)


@pytest.mark.spec("S21.5")
def test_a_result_that_names_no_call_is_sent_as_text_where_no_call_waits(tmp_path: Path) -> None:
    records = log_with("assistant", {"type": "text", "text": "Read."})
    nameless = {"type": "tool_result", "tool_use_id": "", "content": "of what?"}
    records.append({**records[2], "uuid": "x", "parentUuid": records[3]["uuid"]})
    records[-1]["message"] = {"role": "user", "content": [nameless]}
    file = tmp_path / "s.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    with sevenfold.Session.open(
        "s", file=file, model="claude-sonnet-5-5", max_tokens=4_000, settings=ALONE
    ) as session:
        session.user("And now?")
        body = session.prepare().body
    assert b"of what?" in body
    assert not wrong(body)


@pytest.mark.spec("S21.5")
@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: [text], lambda text: {"lines": text}])
def test_halves_of_characters_in_a_result_are_joined_or_replaced_and_the_rest_stays(wrap: Any) -> None:
    with alone() as session:
        session.user("Look.")
        hear(session, fake_reply(calling("c1")))
        session.tool_results({"c1": wrap("pier \ud83d\ude00 and \ud83d quay")})
        sent = session.prepare().body.decode()
    assert "pier 😀 and \ufffd quay" in sent
