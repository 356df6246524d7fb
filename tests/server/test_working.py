"""Sessions over HTTP: made, worked in, read, searched, exported and erased."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply, ScriptedBrain, text, tool_use
from tests.server.serving import (
    WEATHER,
    Served,
    events_of,
    lasting,
    names_of,
    scripted,
    served,
    weather,
)


def asked_of(here: Served) -> list[Any]:
    """The requests that the model got."""
    return [request.body for request in here.simulator.requests if request.path == "/v1/messages"]


def make(http: Any, **definition: Any) -> Any:
    """Make a session that asks the model for nothing of its own."""
    return http.post("/v1/sessions", json={"id": "s", "memory": False, **definition})


def say(http: Any, words: str, session: str = "s", **more: Any) -> Any:
    return http.post(f"/v1/sessions/{session}/say", json={"text": words, "wait": True, **more})


@pytest.mark.spec("S36.2")
def test_a_session_is_made_once_and_says_what_it_is_made_of(tmp_path: Path) -> None:
    with served(tmp_path, scripted()) as here:
        http = here.http()
        definition = {"id": "s", "system": "Be brief.", "tools": [WEATHER], "metadata": {"order": "7"}}
        made = http.post("/v1/sessions", json=definition)
        assert made.status_code == 201
        again = http.post("/v1/sessions", json=definition)
        assert (again.status_code, again.json()) == (200, made.json())
        other = http.post("/v1/sessions", json={**definition, "system": "Be long."})
        assert (other.status_code, other.json()["error"]["type"]) == (409, "session_exists")
        described = http.get("/v1/sessions/s").json()
        assert (described["status"], described["metadata"], described["waiting"]) == (
            "idle",
            {"order": "7"},
            [],
        )
        named = http.post("/v1/sessions").json()["id"]
        assert len(named) == 24
        assert http.get(f"/v1/sessions/{named}").json()["status"] == "idle"


@pytest.mark.spec("S36.2")
def test_what_is_said_is_answered_once_per_key(tmp_path: Path) -> None:
    with served(tmp_path, scripted("Four.", "Five.")) as here:
        http = here.http()
        make(http, system="Be brief.")
        first = say(http, "2 + 2?", key="m1").json()
        assert (first["status"], first["run"]["end"], first["run"]["text"]) == ("idle", "done", "Four.")
        assert first["run"]["usd"] > 0
        repeated = say(http, "2 + 2?", key="m1").json()
        assert (repeated["status"], repeated["key"]) == ("idle", "m1")
        assert say(http, "2 + 3?", key="m2").json()["run"]["text"] == "Five."
        bodies = asked_of(here)
        assert [len(body["messages"]) for body in bodies] == [1, 3]
        assert "Be brief." in json.dumps(bodies[0]["system"])
        listed = http.get("/v1/sessions").json()["sessions"]
        assert [session["id"] for session in listed] == ["s"]


@pytest.mark.spec("S36.2", "S36.3")
def test_a_stream_tells_the_answer_as_it_comes_and_what_was_done(tmp_path: Path) -> None:
    def double(number: int) -> int:
        """Doubles a number."""
        return 2 * number

    play = scripted([tool_use("double", {"number": 4}, "c1")], "It is eight.")
    with served(tmp_path, play, tools={"double": double}) as here:
        http = here.http()
        make(http, server_tools=["double"])
        stream = http.post(
            "/v1/sessions/s/say", json={"text": "Double 4."}, headers={"Accept": "text/event-stream"}
        )
        assert stream.headers["content-type"].startswith("text/event-stream")
        told = events_of(stream.text)
        names = [name for _, name, _ in told]
        # What a tool does and what is recorded of it comes from two threads.
        unordered = ("text", "status", "tool_began", "tool_ended")
        assert [name for name in names if name not in unordered] == [
            "user",
            "tool_use",
            "tool_result",
            "answer",
            "ended",
        ]
        assert names.index("tool_began") < names.index("tool_ended") < names.index("ended")
        data = {name: data for _, name, data in told}
        assert (data["tool_use"]["at"], data["tool_use"]["input"]) == ("server", {"number": 4})
        assert (data["tool_result"]["id"], data["tool_result"]["text"]) == ("c1", "8")
        assert "".join(data["text"] for _, name, data in told if name == "text") == "It is eight."
        assert data["ended"]["end"] == "done"
        assert told[-1][1:] == ("status", {"status": "idle", "waiting": []})


@pytest.mark.spec("S36.4")
def test_a_run_waits_for_results_of_the_program_and_goes_on_with_the_last_of_them(tmp_path: Path) -> None:
    play = scripted([weather("c1"), weather("c2", "Oslo")], "Sun and snow.")
    with served(tmp_path, play) as here:
        http = here.http()
        make(http, tools=[WEATHER])
        asked = say(http, "Rome and Oslo?").json()
        assert (asked["status"], asked["run"]["end"]) == ("input_required", "input_required")
        assert [call["id"] for call in asked["waiting"]] == ["c1", "c2"]
        assert asked["waiting"][1] == {"id": "c2", "name": "weather", "input": {"city": "Oslo"}}
        early = say(http, "And?")
        assert (early.status_code, early.json()["error"]["type"]) == (409, "input_required")
        path = "/v1/sessions/s/results"
        part = http.post(path, json={"results": [{"id": "c2", "content": {"sky": "snow"}}]})
        assert (part.status_code, [call["id"] for call in part.json()["waiting"]]) == (200, ["c1"])
        rest = {"results": [{"id": "c1", "content": "no idea", "is_error": True}], "wait": True}
        assert http.post(path, json=rest).json()["run"]["text"] == "Sun and snow."
        results = asked_of(here)[-1]["messages"][-1]["content"]
        assert {(block["tool_use_id"], block.get("is_error", False)) for block in results} == {
            ("c1", True),
            ("c2", False),
        }
        assert http.post(path, json=rest).json()["status"] == "idle"
        strange = http.post(path, json={"results": [{"id": "c9", "content": "x"}]})
        assert strange.status_code == 400


@pytest.mark.spec("S36.4")
def test_an_interrupt_ends_the_waiting_and_the_model_is_told(tmp_path: Path) -> None:
    with served(tmp_path, scripted([weather("c1")], "Then not.")) as here:
        http = here.http()
        make(http, tools=[WEATHER])
        say(http, "Rome?")
        stopped = http.post("/v1/sessions/s/interrupt").json()
        assert (stopped["interrupted"], stopped["status"]) == (True, "unfinished")
        assert (
            http.post("/v1/sessions/s/continue", json={"wait": True}).json()["run"]["text"] == "Then not."
        )
        assert http.post("/v1/sessions/s/interrupt").json()["interrupted"] is False
        assert http.post("/v1/sessions/s/continue").json()["status"] == "idle"


@pytest.mark.spec("S36.2")
def test_a_run_can_be_interrupted_while_the_model_answers(tmp_path: Path) -> None:
    class Slow:
        """Answers only when it is let."""

        def reply(self, prompt: ModelPrompt) -> ModelReply:
            asked.set()
            let.wait(30)
            return ModelReply([text("Late.")])

    from threading import Event

    asked, let = Event(), Event()
    with served(tmp_path, Slow()) as here:
        http = here.http()
        make(http)
        begun = http.post("/v1/sessions/s/say", json={"text": "Think."})
        assert (begun.status_code, begun.json()["status"]) == (202, "working")
        assert asked.wait(30)
        busy = http.post("/v1/sessions/s/say", json={"text": "More."})
        assert (busy.status_code, busy.json()["error"]["type"]) == (409, "session_working")
        assert http.get("/v1/sessions/s").json()["status"] == "working"
        assert http.post("/v1/sessions/s/compact").status_code == 409
        assert http.delete("/v1/sessions/s").status_code == 409
        assert http.post("/v1/sessions/s/interrupt").json()["interrupted"] is True
        let.set()
        ended = http.get(f"/v1/sessions/s/events?until=idle&after={begun.json()['after']}")
        assert [data["end"] for _, name, data in events_of(ended.text) if name == "ended"] == [
            "interrupted"
        ]


@pytest.mark.spec("S36.3")
def test_a_stream_goes_on_exactly_where_it_was(tmp_path: Path) -> None:
    play = scripted([weather("c1"), weather("c2")], "Good.", "Better.")
    with served(tmp_path, play) as here:
        http = here.http()
        make(http, tools=[WEATHER])
        after = say(http, "Go.").json()["after"]
        results = [{"id": "c1", "content": "1"}, {"id": "c2", "content": "2"}]
        http.post("/v1/sessions/s/results", json={"results": results, "wait": True})
        say(http, "On.")
        whole = http.get("/v1/sessions/s/events", params={"until": "idle", "after": after}).text
        told = [event for event in events_of(whole) if event[0]]
        for number, (place, _, _) in enumerate(told):
            header = {"Last-Event-ID": place}
            rest = http.get("/v1/sessions/s/events?until=idle", headers=header).text
            assert [event for event in events_of(rest) if event[0]] == told[number + 1 :]
            query = http.get("/v1/sessions/s/events", params={"until": "idle", "after": place})
            assert query.text == rest


@pytest.mark.spec("S36.3")
def test_after_a_restart_streams_tell_the_same_as_before(tmp_path: Path) -> None:
    with served(tmp_path, scripted([weather("c1"), weather("c2")], "Good.")) as here:
        http = here.http()
        make(http, tools=[WEATHER])
        say(http, "Go.")
        results = [{"id": "c1", "content": "1"}, {"id": "c2", "content": "2"}]
        http.post("/v1/sessions/s/results", json={"results": results, "wait": True})
        before = lasting(http.get("/v1/sessions/s/events?until=idle").text)
        passing = [event[0] for event in events_of(http.get("/v1/sessions/s/events?until=idle").text)]
    assert [name for _, name, _ in before] == [
        "user",
        "tool_use",
        "tool_use",
        "tool_result",
        "tool_result",
        "answer",
    ]
    with served(tmp_path, scripted()) as here:
        http = here.http()
        assert lasting(http.get("/v1/sessions/s/events?until=idle").text) == before
        for number, (place, _, _) in enumerate(before):
            rest = http.get("/v1/sessions/s/events?until=idle", headers={"Last-Event-ID": place}).text
            assert lasting(rest) == before[number + 1 :]
        # What passed is not told again, and what lasts behind it is.
        ephemeral = next(place for place in passing if "~" in place)
        assert http.get(f"/v1/sessions/s/events?until=idle&after={ephemeral}").status_code == 200


@pytest.mark.spec("S36.3")
@pytest.mark.parametrize("place", ["x", "-1", "1:2:3", "9" * 30, "1~zz.1", "1~0123456789abcdef", "٣"])
def test_an_id_that_no_event_has_is_refused(tmp_path: Path, place: str) -> None:
    with served(tmp_path, scripted()) as here:
        http = here.http()
        make(http)
        answer = http.get("/v1/sessions/s/events", params={"after": place})
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_event_id")


@pytest.mark.spec("S36.2")
def test_recall_export_and_erase_reach_everything_of_a_session_and_nothing_else(tmp_path: Path) -> None:
    with served(tmp_path, scripted("Noted.", "Hello.")) as here:
        http = here.http()
        for name, words in (("a", "The pier has number 4711."), ("b", "Hi.")):
            make(http, id=name)
            say(http, words, name)
        hits = http.get("/v1/sessions/a/recall", params={"query": "4711"}).json()["hits"]
        assert any("4711" in hit["excerpt"] for hit in hits)
        assert http.get("/v1/sessions/b/recall?query=4711").json()["hits"] == []
        exported = http.get("/v1/sessions/a/export").text
        assert "4711" in exported
        assert all(json.loads(line) for line in exported.splitlines())
        assert http.delete("/v1/sessions/a").status_code == 204
        gone = [
            http.get("/v1/sessions/a"),
            http.get("/v1/sessions/a/export"),
            http.delete("/v1/sessions/a"),
        ]
        assert {answer.status_code for answer in gone} == {404}
        assert [session["id"] for session in http.get("/v1/sessions").json()["sessions"]] == ["b"]
    left = [path for path in tmp_path.rglob("*") if path.is_file() and b"4711" in path.read_bytes()]
    assert left == []


@pytest.mark.spec("S36.2")
@pytest.mark.usefixtures("compactions_of_any_size")
def test_a_conversation_is_compacted_and_that_is_undone(tmp_path: Path) -> None:
    def answer(prompt: ModelPrompt) -> str:
        return "A long answer. " * 400

    with served(tmp_path, ScriptedBrain(answer)) as here:
        http = here.http()
        make(http)
        for number in range(3):
            say(http, f"Question {number}.")
        compacted = http.post("/v1/sessions/s/compact", json={"instructions": "Keep numbers."}).json()
        assert compacted["made"] is True
        assert compacted["tokens_after"] < compacted["tokens_before"]
        assert "compacted" in names_of(http.get("/v1/sessions/s/events?until=idle").text)
        assert http.post("/v1/sessions/s/undo").json()["undone"]
        assert "undone" in names_of(http.get("/v1/sessions/s/events?until=idle").text)
        nothing = http.post("/v1/sessions/s/undo", json={"decision": "nothing"})
        assert nothing.status_code in (400, 409)


@pytest.mark.spec("S36.2")
def test_memory_is_the_users_own(tmp_path: Path) -> None:
    with served(tmp_path, scripted()) as here:
        folder = here.server.sessions.stored.store_of("acme", "ann").memory()
        folder.write("facts/tea.md", b"Ann drinks tea.\n")
        ann, ben = here.http("ann"), here.http("ben")
        assert ann.get("/v1/memory").json() == {"memory": ["project/facts/tea.md"]}
        assert ann.get("/v1/memory/project/facts/tea.md").text == "Ann drinks tea.\n"
        assert ben.get("/v1/memory").json() == {"memory": []}
        for name in ("project/facts/tea.md", "user/facts/tea.md", "project/../../x", "x", "project/"):
            assert ben.get(f"/v1/memory/{name}").status_code == 404
            assert ben.delete(f"/v1/memory/{name}").status_code == 404
        assert ann.delete("/v1/memory/project/facts/tea.md").status_code == 204
        assert ann.get("/v1/memory").json() == {"memory": []}


@pytest.mark.spec("S36.2")
def test_a_provider_that_fails_ends_the_run_with_an_error_and_it_can_go_on(tmp_path: Path) -> None:
    play = scripted("Fine now.")
    with served(tmp_path, play) as here:
        http = here.http()
        make(http)
        failed = http.post("/v1/sessions", json={"id": "t", "model": "no-such-model"})
        assert (failed.status_code, failed.json()["error"]["type"]) == (400, "invalid_request")
        assert say(http, "Go.").json()["run"]["text"] == "Fine now."
