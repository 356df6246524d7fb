"""How long an answer may be, how it goes on when it was cut off, and what a model is asked to think."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import sevenfold
from sevenfold.agent.loop import CALL_CUT_OFF, GO_ON, GO_ON_AFTER_PAUSE
from sevenfold.conversation.controls import answer_limit, control_fields, efforts_of, thinking_of
from sevenfold.errors import InputError
from sevenfold.lab.simulator.brains import ModelReply
from sevenfold.profiles import Listing, find
from sevenfold.record.window import Window
from tests.agent.working import agent, messages, model_of, results, texts, use, words, world


def cut(*blocks: Any) -> ModelReply:
    return ModelReply(list(blocks), "max_tokens")


@pytest.mark.spec("S22.13")
@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-sonnet-5-5", 128_000),
        ("claude-haiku-4-5", 64_000),
        ("claude-3-opus", 4_096),
        ("claude-opus-4-1", 20_000),
    ],
)
def test_an_answer_may_be_as_long_as_the_model_can_write_and_its_window_leaves_room_for(
    model: str, limit: int
) -> None:
    with sevenfold.Agent(model, client=model_of(agent([])), system="", tools=[]) as made:
        assert made.session.conversation.epoch.frame.max_tokens == limit


@pytest.mark.spec("S22.13", "S0.2")
@pytest.mark.parametrize("context", [8_192, 16_384, 32_768, 100_000, 200_000])
def test_where_an_answer_must_fit_the_window_prompt_and_answer_together_always_do(context: int) -> None:
    profile = replace(find("some-local-model"), max_output=128_000)
    window = Window.of(profile, override=context)
    assert window.blocking + answer_limit(profile, window) <= context


@pytest.mark.spec("S22.13")
def test_the_limit_is_set_by_an_option_and_by_a_setting() -> None:
    for given in ({"max_tokens": 900}, {"settings": {"answer_tokens": 900}}):
        with agent(["There."], **given) as made:
            made.run("Hello.")
            assert model_of(made).requests[-1]["max_tokens"] == 900


@pytest.mark.spec("S22.14")
def test_an_answer_that_reached_its_limit_is_continued_and_is_one_answer() -> None:
    steps = [cut(words("The answer is for")), cut(words("ty-t")), "wo."]
    with world(steps) as there, there.agent(tools=[]) as made:
        finished = made.run("What is it?")
        assert (finished.end, finished.text, finished.turns) == ("done", "The answer is forty-two.", 3)
        assert [message["role"] for message in messages(there.bodies[-1])] == [
            *("user", "assistant", "user", "assistant", "user")
        ]
        assert texts(there.bodies[-1]).count(GO_ON) == 2


@pytest.mark.spec("S22.14")
def test_an_answer_that_is_cut_off_again_and_again_ends_the_run_after_three_continuations() -> None:
    with world([cut(words(f"part {n} ")) for n in range(9)]) as there, there.agent(tools=[]) as made:
        finished = made.run("Go on for ever.")
        assert (finished.end, finished.turns) == ("cut", 4)
        assert finished.text == "part 0 part 1 part 2 part 3 "


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


@pytest.mark.spec("S22.14")
@pytest.mark.parametrize(
    ("paused", "asked"),
    [
        ([words("So far, "), SEARCH], 0),
        ([words("So far, "), SEARCH, FOUND], 0),
        ([SEARCH, FOUND, words("So far, ")], 1),
        ([words("So far, ")], 1),
    ],
    ids=["open call", "result", "text after a result", "text"],
)
def test_an_answer_that_the_provider_paused_is_continued_whatever_it_ends_in(
    paused: list[Any], asked: int
) -> None:
    rest = [*([FOUND] if paused[-1] is SEARCH else []), words("so good.")]
    steps = [ModelReply(paused, "pause_turn"), ModelReply(rest, "end_turn")]
    with world(steps) as there, there.agent(tools=[]) as made:
        finished = made.run("What is it?")
        assert (finished.end, finished.text) == ("done", "So far, so good.")
        assert texts(there.bodies[-1]).count(GO_ON_AFTER_PAUSE) == asked


@pytest.mark.spec("S22.14")
def test_the_limit_on_requests_holds_for_continuations() -> None:
    with world([cut(words("part "))] * 4) as there, there.agent(tools=[], max_turns=2) as made:
        assert made.run("Go on.").end == "max_turns"


@pytest.mark.spec("S22.15")
def test_a_call_that_was_cut_off_is_not_carried_out_and_the_model_is_told() -> None:
    done: list[str] = []

    def act(what: str = "everything") -> str:
        """Acts."""
        done.append(what)
        return "acted"

    calls = cut(use("act", "toolu_1", what="one"), use("act", "toolu_2"))
    with world([calls, "Done."]) as there, there.agent(tools=[act]) as made:
        assert made.run("Act.").text == "Done."
        assert done == ["one"]
        assert results(there.bodies[-1])["toolu_1"] == "acted"
        assert CALL_CUT_OFF in results(there.bodies[-1])["toolu_2"]


@pytest.mark.spec("S22.15")
def test_calls_that_are_always_cut_off_end_the_run() -> None:
    def act(what: str = "") -> str:
        """Acts."""
        raise AssertionError("never whole")

    steps = [cut(use("act", f"toolu_{n}")) for n in range(9)]
    with world(steps) as there, there.agent(tools=[act]) as made:
        finished = made.run("Act.")
        assert (finished.end, finished.turns) == ("cut", 4)
        assert not made.assembly.conversation.waiting


@pytest.mark.spec("S22.16")
@pytest.mark.parametrize(
    ("model", "given", "fields"),
    [
        ("claude-sonnet-5-5", {"effort": "low"}, {"output_config": {"effort": "low"}}),
        ("claude-sonnet-5-5", {"thinking": "off"}, {"thinking": {"type": "between_tools"}}),
        (
            "claude-opus-5-5",
            {"thinking": "shown"},
            {"thinking": {"type": "adaptive", "display": "summarized"}},
        ),
        (
            "claude-opus-5-5",
            {"thinking": "hidden"},
            {"thinking": {"type": "adaptive", "display": "omitted"}},
        ),
        (
            "claude-haiku-4-5",
            {"thinking": "shown"},
            {"thinking": {"type": "enabled", "budget_tokens": 16_000}},
        ),
        ("gpt-5.6", {"effort": "minimal"}, {"output_config": {"effort": "minimal"}}),
        ("some-local-model", {"effort": "high"}, {"output_config": {"effort": "high"}}),
    ],
)
def test_each_model_gets_what_it_takes(model: str, given: dict[str, str], fields: Any) -> None:
    profile = find(model)
    assert control_fields(profile, given.get("effort"), given.get("thinking"), 64_000) == fields


@pytest.mark.spec("S22.16")
@pytest.mark.parametrize(
    ("model", "given", "error"),
    [
        ("claude-sonnet-5-5", {"effort": "none"}, "it takes low, medium, high, xhigh, max"),
        ("claude-haiku-4-5", {"effort": "low"}, "it takes none"),
        ("claude-opus-5-5", {"thinking": "off"}, "it takes shown, hidden"),
        ("gpt-5.6", {"thinking": "off"}, "choose an effort instead"),
        ("claude-opus-5", {"thinking": "off", "effort": "max"}, "only at an effort of high or less"),
    ],
)
def test_what_a_model_does_not_take_is_an_error_that_names_what_it_takes(
    model: str, given: dict[str, str], error: str
) -> None:
    with pytest.raises(InputError, match=error):
        sevenfold.Agent(model, client=model_of(agent([])), system="", tools=[], **given)  # type: ignore[arg-type]


@pytest.mark.spec("S22.16")
def test_a_setting_is_left_out_where_the_model_does_not_take_it() -> None:
    settings = {"effort": "low", "thinking": "hidden"}
    with sevenfold.Agent(
        "claude-haiku-4-5", client=model_of(agent(["Hi."])), tools=[], settings=settings
    ) as made:
        assert dict(made.session.conversation.epoch.frame.settings) == {}
    with agent(["There."], settings=settings) as made:
        sent = {name: json.loads(raw) for name, raw in made.session.conversation.epoch.frame.settings}
        assert sent["output_config"] == {"effort": "low"}
        assert sent["thinking"] == {"type": "adaptive", "display": "omitted"}


@pytest.mark.spec("S22.16")
def test_a_servers_listing_says_which_efforts_a_model_takes() -> None:
    profile = find("claude-opus-4-7")
    assert efforts_of(profile) == ()
    stated = {"supported": True, "low": {"supported": True}, "high": {"supported": True}}
    assert efforts_of(profile.listed(Listing(capabilities={"effort": stated}))) == ("low", "high")
    assert (
        efforts_of(find("claude-sonnet-5-5").listed(Listing(capabilities={"effort": {"supported": False}})))
        == ()
    )
    assert thinking_of(profile) == ("shown", "hidden", "off")


@pytest.mark.spec("S22.17", "S9.2")
def test_a_change_of_effort_opens_an_epoch_and_keeps_the_thinking(folder: Path) -> None:
    steps = [[{"type": "thinking", "thinking": "Hm."}, words("One.")], "Two."]
    with world(steps) as there:
        with there.agent(folder, name="work", effort="low", tools=[]) as made:
            made.run("First.")
        with there.agent(folder, name="work", effort="high", tools=[]) as made:
            made.run("Second.")
            epoch = made.session.conversation.transcript.view.epoch
            assert epoch is not None
            assert (epoch.reason, epoch.drops_thinking) == ("settings", False)
        first, second = there.bodies
        assert (first["output_config"], second["output_config"]) == ({"effort": "low"}, {"effort": "high"})
        assert [block["type"] for block in messages(second)[1]["content"]] == ["thinking", "text"]
