"""Answering the suggested prompt ahead: off by default, by reading alone, and used for exactly that prompt."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

import sevenfold
from sevenfold.agent.agent_events import AgentEvent, Ended, ToolEnded
from sevenfold.agent.speculation import SOURCE, Speculation, seen_by_model
from sevenfold.agent.suggestion import Suggestion
from sevenfold.ports import Call, Piece, Reply
from sevenfold.record.decisions import Billed, Request
from tests.agent.working import QUIET, Model, agent, model_of, use

pytestmark = pytest.mark.spec("S17.11")

PROMPT = "Read the list."
ON = {"prompt_suggestion": True, "speculation": True}


def suggest(working: sevenfold.Agent) -> None:
    """Have the next prompt suggested, and answered ahead."""
    session = working.session
    session.conversation.state(Suggestion).begin()
    for kind in ("suggestion", SOURCE):
        for task in [task for task in session.tasks if task.kind == kind]:
            session.tasks.wait(task.id, 20)


def sources(model: Model) -> list[str]:
    return [call.source for call in model.asked]


def worker(folder: Path, *steps: Any, settings: Mapping[str, Any] = ON) -> sevenfold.Agent:
    (folder / "list.txt").write_text("salt\nrope\n")
    return agent(["Hello.", PROMPT, *steps], folder, settings=dict(settings), mode="ask")


def read(path: str = "list.txt") -> list[dict[str, Any]]:
    return [use("Read", "toolu_1", path=path)]


def test_an_answer_made_ahead_is_used_for_exactly_that_prompt(tmp_path):
    with worker(tmp_path, read(), "Salt and rope.", "Anything else?") as working:
        working.run("Hi.")
        suggest(working)
        assert sources(model_of(working)) == ["main", "prompt_suggestion", SOURCE, SOURCE]

        events: list[AgentEvent] = list(working.stream(PROMPT))

        assert sources(model_of(working)) == ["main", "prompt_suggestion", SOURCE, SOURCE]
        (ended,) = [event for event in events if isinstance(event, Ended)]
        assert ended.finished.text == "Salt and rope."
        assert [event.words for event in events if isinstance(event, Piece)] == ["Salt and rope."]
        # The tool is carried out again in the conversation, so that what the model reads is what is there.
        assert [event.call.name for event in events if isinstance(event, ToolEnded)] == ["Read"]
        assert working.run("Thanks.").text == "Anything else?"


def test_the_conversation_reads_as_if_nothing_had_been_made_ahead(tmp_path):
    bodies: list[list[Any]] = []
    for settings in (ON, {}):
        steps = (read(), "Salt and rope.", "Bye.")
        folder = tmp_path / str(len(bodies))
        folder.mkdir()
        (folder / "list.txt").write_text("salt\nrope\n")
        hello = ["Hello.", PROMPT] if settings else ["Hello."]
        with agent([*hello, *steps], folder, settings=dict(settings)) as working:
            working.run("Hi.")
            if settings:
                suggest(working)
            working.run(PROMPT)
            working.run("Thanks.")
            bodies.append(json.loads(model_of(working).asked[-1].body)["messages"])
    assert json.dumps(bodies[0]).replace(str(tmp_path / "0"), "") == json.dumps(bodies[1]).replace(
        str(tmp_path / "1"), ""
    )


def test_any_other_prompt_throws_it_away(tmp_path):
    with worker(tmp_path, read(), "Salt and rope.", "Four.") as working:
        working.run("Hi.")
        suggest(working)
        assert working.run("Read the list!").text == "Four."
        assert sources(model_of(working))[-1] == "main"
        assert not working.session.conversation.state(Speculation)._prepared


def test_a_file_that_has_changed_since_is_asked_about_again(tmp_path):
    with worker(tmp_path, read(), "Salt and rope.", "Salt, rope and tar.") as working:
        working.run("Hi.")
        suggest(working)
        (tmp_path / "list.txt").write_text("salt\nrope\ntar\n")
        assert working.run(PROMPT).text == "Salt, rope and tar."
        assert sources(model_of(working))[-2:] == [SOURCE, "main"]


def test_it_ends_before_a_tool_that_could_change_something(tmp_path):
    write = [use("Write", "toolu_1", path="list.txt", content="gone")]
    with worker(tmp_path, write, "I may not.") as working:
        working.run("Hi.")
        suggest(working)
        assert (tmp_path / "list.txt").read_text() == "salt\nrope\n"
        assert sources(model_of(working)).count(SOURCE) == 1
        # The call is made in the conversation, where it needs permission; nobody is there to give it.
        assert working.run(PROMPT).text == "I may not."
        assert (tmp_path / "list.txt").read_text() == "salt\nrope\n"


@pytest.mark.parametrize("settings", [{"prompt_suggestion": True}, {"speculation": True}, {}])
def test_it_is_off_unless_both_settings_are_on(tmp_path, settings):
    with worker(tmp_path, "Nothing.", settings=settings) as working:
        working.run("Hi.")
        suggest(working)
        assert SOURCE not in sources(model_of(working))


class Priced(Model):
    """A model whose calls cost something."""

    def ask(self, call: Call, watch: Any = None) -> Reply:
        reply = super().ask(call, watch)
        usage = Raw(b'{"input_tokens":20000,"output_tokens":1000}')
        return replace(reply, answer=replace(reply.answer, usage=usage))


def test_what_it_asks_is_billed_once_under_its_own_source(tmp_path):
    with sevenfold.Agent(
        "claude-sonnet-5-5",
        client=Priced(["Hello.", PROMPT, "Salt."]),
        settings={**QUIET, **ON},
        name="billed",
        folder=tmp_path,
    ) as working:
        working.run("Hi.")
        one_call = account_of(working)
        suggest(working)
        assert working.run(PROMPT).text == "Salt."
        assert one_call
        assert account_of(working) == pytest.approx(3 * one_call)
        log = working.session.conversation.transcript.log
        asked = {request.id: request.source for _, request in log.decisions(Request)}
        billed = sorted(asked[made.request] for _, made in log.decisions(Billed))
        assert billed == ["prompt_suggestion", SOURCE]
    with sevenfold.Agent(
        "claude-sonnet-5-5", client=Priced([]), settings={**QUIET, **ON}, name="billed", folder=tmp_path
    ) as again:
        assert account_of(again) == pytest.approx(3 * one_call)


def account_of(working: sevenfold.Agent) -> float | None:
    return working.session.conversation.account.usd


def test_it_is_cached_for_five_minutes_whatever_the_session_asks_for(tmp_path):
    with agent(["Hello.", PROMPT, "Done."], tmp_path, settings={**ON, "cache_lifetime": "1h"}) as working:
        working.run("Hi.")
        suggest(working)
        last = model_of(working).asked[-1]
        assert last.source == SOURCE
        tails = _markers(json.loads(last.body)["messages"])
        assert tails
        assert all("ttl" not in marker or marker["ttl"] == "5m" for marker in tails)
        main = next(call for call in model_of(working).asked if call.source == "main")
        assert any(marker.get("ttl") == "1h" for marker in _markers(json.loads(main.body)["messages"]))


def _markers(messages: list[Any]) -> list[dict[str, Any]]:
    parts = [part for message in messages for part in message["content"] if isinstance(part, dict)]
    return [part["cache_control"] for part in parts if "cache_control" in part]


def test_markers_and_fields_for_the_server_are_no_part_of_what_a_model_sees():
    text = '{"cache_control":{"type":"ephemeral"}}'
    plain = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}
    marked = json.loads(json.dumps(plain))
    marked["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    marked["diagnostics"] = {"previous_message_id": "msg_1"}

    def seen(request: Any) -> bytes:
        return seen_by_model(json.dumps(request, separators=(",", ":")).encode())

    assert seen(plain) == seen(marked)
    marked["messages"][0]["content"][0]["text"] += "!"
    assert seen(plain) != seen(marked)


def test_a_turn_waits_for_the_answer_that_is_under_way(tmp_path):
    sent = threading.Event()

    class Slow(Model):
        """A model whose answer made ahead comes only after the user has sent the prompt."""

        def ask(self, call: Call, watch: Any = None) -> Reply:
            reply = super().ask(call, watch)
            if call.source == SOURCE:
                assert sent.wait(20)
            return reply

    model = Slow(["Hello.", PROMPT, "Salt.", "Not asked for."])
    with sevenfold.Agent(
        "claude-sonnet-5-5", client=model, folder=tmp_path, settings={**QUIET, **ON}
    ) as working:
        working.run("Hi.")
        session = working.session
        session.conversation.state(Suggestion).begin()
        (task,) = [task for task in session.tasks if task.kind == "suggestion"]
        session.tasks.wait(task.id, 20)
        sent.set()
        assert working.run(PROMPT).text == "Salt."
        assert sources(model) == ["main", "prompt_suggestion", SOURCE]
