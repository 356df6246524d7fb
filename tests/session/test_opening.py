"""A session reopened with another system prompt, other tools, another model or other settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from msgspec.structs import replace

import sevenfold
from sevenfold.conversation import provider_edits
from sevenfold.events import Answered, CacheBroke, EpochOpened, Sending
from sevenfold.profiles import find
from sevenfold.record.decisions import Amended
from tests.session.talking import (
    ASK,
    BOUND,
    FREE,
    OLD,
    READ,
    SHELL,
    SYSTEM,
    World,
    answer,
    kinds_of,
    output,
    reader,
    said,
    schema,
    uuids,
    work,
    world,
)

WEB = sevenfold.tool(schema("Web"), kind="web")
CHANGES: dict[str, dict[str, Any]] = {
    "system": {"system": "You are another assistant. " * 400},
    "tools": {"tools": [READ, sevenfold.tool(schema("Shell", "changed"), kind="shell"), WEB]},
    "both": {"system": "You are another assistant. " * 400, "tools": [READ, WEB]},
}


def begin(here: World, file: Path, *, edits: bool = False, **more: Any) -> None:
    with here.open(file, **more) as session:
        if edits:
            provider_edits.open_epoch(session.conversation)
        session.user("begin")
        work(session, 3, clock=here.clock)
    here.events.clear()


def go_on(here: World, file: Path, **more: Any) -> list[str]:
    """Reopen and work on; returns the reasons of epochs that were opened."""
    here.events.clear()
    with here.open(file, **more) as session:
        work(session, 2, clock=here.clock)
    return [event.reason for event in here.told(EpochOpened)]


def tool_names(body: bytes) -> list[str]:
    return [tool["name"] for tool in json.loads(body)["tools"]]


@pytest.mark.spec("S6.2")
def test_tools_are_sent_in_the_callers_order_and_another_order_at_a_reopening_changes_nothing(
    tmp_path: Path,
) -> None:
    with world() as here:
        file = tmp_path / "s.jsonl"
        begin(here, file, tools=[SHELL, READ])
        with here.open(file, tools=[READ, SHELL]) as session:
            before = session.at(-1)
            work(session, 1, clock=here.clock)
            assert tool_names(before) == tool_names(session.at(-1)) == ["Shell", "Read"]
        assert here.told(EpochOpened) == []
        assert here.moved() == []


@pytest.mark.spec("S6.2", "S9.3")
def test_a_tool_that_is_added_between_known_ones_is_announced_alone(tmp_path: Path) -> None:
    with world() as here:
        file = tmp_path / "s.jsonl"
        begin(here, file, tools=[SHELL, READ])
        with here.open(file, tools=[SHELL, WEB, READ]) as session:
            work(session, 1, clock=here.clock)
            log = session.conversation.transcript.log
            (amended,) = [made for _, made in log.decisions(Amended)]
        assert [json.loads(bytes(tool))["name"] for tool in amended.tools] == ["Shell", "Read", "Web"]
        assert here.moved() == []
        assert go_on(here, file, tools=[WEB, SHELL, READ]) == []


@pytest.mark.spec("S9.3", "S9.2", "S6.7")
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_appended_where_the_model_takes_additions_and_only_once(
    change: str, tmp_path: Path
) -> None:
    file, new = tmp_path / "s.jsonl", CHANGES[change]
    with world() as here:
        begin(here, file)
        before = here.bodies[-1]
        assert go_on(here, file, **new) == []
        appended = [message for message in said(here.bodies[-1]) if message["role"] == "system"]
        assert len(appended) == 1
        kinds = {block["type"] for block in appended[0]["content"]}
        assert ("text" in kinds) == ("system" in new)
        assert ({"tool_addition", "tool_removal"} <= kinds) == ("tools" in new)
        assert kinds_of(here.bodies[-1]).count("thinking") == 4
        assert json.loads(here.bodies[-1])["system"] == json.loads(before)["system"]
        assert go_on(here, file, **new) == []
        assert go_on(here, file, **new) == []
        assert [message["role"] for message in said(here.bodies[-1])].count("system") == 1
        assert here.moved() == []


@pytest.mark.spec("S9.3")
def test_changed_back_the_first_state_is_appended_too(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        begin(here, file)
        go_on(here, file, **CHANGES["both"])
        assert go_on(here, file) == []
        messages = [message for message in said(here.bodies[-1]) if message["role"] == "system"]
        assert len(messages) == 2
        assert SYSTEM.strip()[:100] in messages[-1]["content"][0]["text"]
        assert here.moved() == []


@pytest.mark.spec("S9.2")
@pytest.mark.parametrize(("model", "bound"), [(FREE, False), ("claude-haiku-5-5", True)])
def test_where_it_cannot_be_appended_a_new_epoch_opens(model: str, bound: bool, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        begin(here, file, model=model)
        assert find(model).thinking.bound is bound
        assert go_on(here, file, model=model, **CHANGES["both"]) == ["system or tools"]
        opened = here.told(EpochOpened)[0]
        assert opened.drops_thinking is bound
        assert opened.usd is not None
        assert opened.usd > 0
        assert json.loads(here.bodies[-1])["system"][0]["text"].startswith("You are another assistant.")
        assert (kinds_of(here.bodies[-2]).count("thinking") == 0) is bound
        assert go_on(here, file, model=model, **CHANGES["both"]) == []


@pytest.mark.spec("S9.2", "S9.3")
def test_in_a_cold_cache_a_change_is_sent_whole_unless_reasoning_would_be_lost(tmp_path: Path) -> None:
    for thinks, reasons in ((False, ["system or tools"]), (True, [])):
        file = tmp_path / f"{thinks}.jsonl"
        with world(reader(thinks=thinks)) as here:
            begin(here, file)
            here.clock.advance(4_000)
            assert go_on(here, file, **CHANGES["both"]) == reasons


@pytest.mark.spec("S9.3")
def test_a_change_sent_whole_takes_back_what_was_said_about_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world(reader(thinks=False)) as here:
        begin(here, file)
        go_on(here, file, **CHANGES["both"])
        here.clock.advance(4_000)
        assert go_on(here, file, system="A third one. " * 400, tools=[READ]) == ["system or tools"]
        assert "system" not in [message["role"] for message in said(here.bodies[-1])]
        assert go_on(here, file, system="A third one. " * 400, tools=[READ]) == []


@pytest.mark.spec("S9.3")
def test_a_change_that_a_rewind_left_behind_is_told_again(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        begin(here, file)
        with here.open(file, **CHANGES["system"]) as session:
            first = uuids(session)[0]
            work(session, 1)
            session.rewind(first)
            session.user("another way")
            session.complete()
            assert said(here.bodies[-1])[-1]["role"] == "system"
            amended = [
                made
                for made in session.conversation.transcript.view.decisions()
                if isinstance(made, Amended)
            ]
            assert len(amended) == 1


@pytest.mark.spec("S9.2", "S0.9")
def test_another_model_goes_on_without_the_first_ones_reasoning_and_counts_in_its_own_tokens(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        begin(here, file, model=FREE)
        with here.open(file, model=FREE) as session:
            before = session.gauge.seen
        assert go_on(here, file, model=BOUND) == ["model"]
        assert here.told(EpochOpened)[0].drops_thinking
        with here.open(file, model=BOUND) as session:
            work(session, 1)
            assert session.why().expected_tokens == pytest.approx(session.why().actual_tokens, rel=0.05)
            other = session.gauge.seen
        assert find(FREE).tokenizer != find(BOUND).tokenizer
        assert other > before
        assert go_on(here, file, model=OLD, thinking=None) == ["model"]


@pytest.mark.spec("S9.2", "S9.3")
def test_another_model_is_not_told_of_changes_in_a_form_it_does_not_take(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        begin(here, file)
        go_on(here, file, **CHANGES["both"])
        assert go_on(here, file, model=FREE, **CHANGES["both"]) == ["model"]
        assert "system" not in [message["role"] for message in said(here.bodies[-1])]


@pytest.mark.spec("S9.2")
def test_other_settings_open_an_epoch_and_keep_the_reasoning(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        begin(here, file)
        assert go_on(here, file, max_tokens=5_000, thinking={"type": "between_tools"}) == ["settings"]
        body = json.loads(here.bodies[-1])
        assert (body["max_tokens"], body["thinking"]["type"]) == (5_000, "between_tools")
        assert kinds_of(here.bodies[-1]).count("thinking") == 4
        assert here.moved() == []


@pytest.mark.spec("S2.6", "S8.2")
def test_the_providers_edits_stay_as_they_are_unless_switched_off_or_a_tool_must_be_spared(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        begin(here, file, tools=[READ, SHELL, ASK], edits=True)
        asked = json.loads(here.bodies[-1])["context_management"]
        assert go_on(here, file, tools=[READ, SHELL, ASK], settings={"edits_target_tokens": 30_000}) == []
        assert json.loads(here.bodies[-1])["context_management"] == asked
        assert go_on(here, file, tools=[READ, SHELL, ASK, schema("Vote")]) == ["settings"]
        spared = json.loads(here.bodies[-1])["context_management"]["edits"][-1]["exclude_tools"]
        assert spared == ["Ask", "Vote"]
        tools = [READ, SHELL, ASK, schema("Vote")]
        assert go_on(here, file, tools=tools, settings={"provider_edits": False}) == ["settings"]
        assert "context_management" not in json.loads(here.bodies[-1])


def foreign(file: Path) -> None:
    """A transcript as another tool writes it: no epochs, reasoning nobody here can vouch for, an error at the end."""
    lines: list[dict[str, Any]] = [
        {"type": "user", "message": {"role": "user", "content": "fix the build"}},
        {
            "type": "assistant",
            "message": {
                "role": "assistant",
                "id": "msg_a",
                "model": BOUND,
                "content": [
                    {"type": "thinking", "thinking": "elsewhere", "signature": "c2lnbmVkIGVsc2V3aGVyZQ=="},
                    {"type": "tool_use", "id": "toolu_a", "name": "Bash", "input": {"command": "make"}},
                ],
                "usage": {"input_tokens": 900, "output_tokens": 40},
            },
        },
        {
            "type": "user",
            "message": {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_a", "content": "make: *** [all] Error 2"}
                ],
            },
        },
        {
            "type": "assistant",
            "isApiErrorMessage": True,
            "message": {
                "role": "assistant",
                "id": "msg_b",
                "model": "<synthetic>",
                "content": [{"type": "text", "text": "API Error: 529 Overloaded"}],
            },
        },
    ]
    with file.open("w") as out:
        out.write('{"type":"last-prompt","lastPrompt":"fix"}\n')
        for number, line in enumerate(lines):
            parent = f"r{number - 1}" if number else None
            stamp = {"uuid": f"r{number}", "parentUuid": parent, "timestamp": "2026-11-01T00:00:00.000Z"}
            out.write(json.dumps({**line, **stamp}) + "\n")


@pytest.mark.spec("S8.4", "S9.2")
@pytest.mark.parametrize("model", [BOUND, FREE, OLD])
def test_a_transcript_of_another_tool_is_continued_without_its_reasoning(
    model: str, tmp_path: Path
) -> None:
    file = tmp_path / "theirs.jsonl"
    foreign(file)
    theirs = file.read_bytes()
    with world() as here:
        with here.open(
            file, model=model, thinking=None if model == OLD else {"type": "adaptive"}
        ) as session:
            answer(session, session.complete())
            session.complete()
        assert [event.reason for event in here.told(EpochOpened)] == ["adopted"]
        assert here.moved() == []
        assert kinds_of(here.bodies[0]) == ["text", "tool_use", "tool_result"]
        assert file.read_bytes().startswith(theirs)


LONG = "context-1m-2025-08-07"


@pytest.mark.spec("S0.1")
@pytest.mark.parametrize(
    ("model", "betas", "window"),
    [
        ("claude-nobody-knows-9", [LONG], 1_000_000),
        ("claude-nobody-knows-9", ["some-other-beta"], 200_000),
        ("claude-nobody-knows-9", [], 200_000),
        ("house-model", [LONG], 1_000_000),
        (OLD, [LONG], 200_000),
    ],
)
def test_a_header_for_the_long_window_counts_where_nobody_knows_the_window(
    model: str, betas: list[str], window: int
) -> None:
    with sevenfold.Session.in_memory(
        model=model, betas=betas, wire="messages", max_tokens=1_000
    ) as session:
        assert session.conversation.window.context == window
        session.user("hello")
        request = session.prepare()
        assert (LONG in request.headers.get("anthropic-beta", "")) == (LONG in betas)
        assert session.gauge.limit == session.conversation.window.threshold


# -- the cache watch -----------------------------------------------------------------------------

CHARACTERS = "system prompt: +7,798 −17,398 characters, in block 1"
CHANGED: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "a tool": (
        {"tools": [READ, schema("Shell", "Runs something else. " * 20), ASK]},
        "tool",
        "tool Shell",
        "something else",
    ),
    "the system prompt": ({"system": "Other words. " * 600}, "system", CHARACTERS, "Other words"),
    "a setting": ({"thinking": {"type": "disabled"}}, "setting", "setting thinking was added", "disabled"),
    "the model": ({"model": "claude-opus-4-5"}, "model", "model", "claude-opus-4-5"),
}


@pytest.mark.spec("S6.9")
@pytest.mark.parametrize(("change", "cause", "part", "words"), CHANGED.values(), ids=CHANGED)
def test_what_changed_between_two_runs_is_named_and_priced_before_and_after_the_first_request(
    tmp_path: Path, change: dict[str, Any], cause: str, part: str, words: str
) -> None:
    file = tmp_path / "s.jsonl"
    before: dict[str, Any] = {"model": FREE, "tools": [READ, SHELL, ASK], "thinking": None}
    with world() as here:
        begin(here, file, **before)
        for _ in range(3):
            go_on(here, file, **before)
        go_on(here, file, **{**before, **change})
        sending, broke = here.told(Sending)[0], here.told(CacheBroke)[0]
        assert (broke.cause, broke.part, broke.expected) == (cause, part, False)
        assert sending.lost_because == part
        assert words in sending.lost_diff
        assert words in broke.diff
        # Before the answer it is known by bytes only what is lost, and prose has more of them in a token than JSON.
        assert 0.75 < sending.lost / broke.tokens < 1.75
        assert sending.lost_usd / sending.lost == pytest.approx(broke.usd / broke.tokens)
        assert len(here.told(CacheBroke)) == 1


@pytest.mark.spec("S6.9")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_an_eviction_between_two_runs_is_a_break_and_an_untouched_cache_is_none(
    tmp_path: Path, model: str
) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        begin(here, file, model=model)
        assert go_on(here, file, model=model) == []
        assert not here.told(CacheBroke)
        here.simulator.cache.evict()
        assert go_on(here, file, model=model) == []
        (broke,) = here.told(CacheBroke)
        assert (broke.cause, broke.expected) == ("unexplained", False)


@pytest.mark.spec("S6.9", "S6.8")
def test_a_change_after_the_cache_expired_cost_nothing_and_is_no_break(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        begin(here, file, model=FREE)
        here.clock.advance(4_000)
        go_on(here, file, model=FREE, system="Other words. " * 600)
        assert all(broke.expected for broke in here.told(CacheBroke))


@pytest.mark.spec("S6.9", "S9.2")
def test_another_setting_between_two_runs_leaves_bound_reasoning_valid(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    given: dict[str, Any] = {"model": BOUND, "thinking": {"type": "adaptive"}}
    with world() as here:
        begin(here, file, **given)
        assert go_on(here, file, **given, fields={"output_config": {"effort": "low"}}) == ["settings"]
        assert all(request.status == 200 for request in here.simulator.requests)
        assert not any(event.drops_thinking for event in here.told(EpochOpened))


@pytest.mark.spec("S17.10", "S8.11")
def test_what_the_provider_says_about_a_miss_stands_beside_our_own_cause(tmp_path: Path) -> None:
    with world() as here, here.session(model=FREE, tools=[READ, SHELL, ASK], thinking=None) as session:
        session.conversation.diagnoses = True
        session.user("begin")
        work(session, 3, output(times=300), clock=here.clock)
        asked = [json.loads(body).get("diagnostics") for body in here.bodies]
        responses = [event.response for event in here.told(Answered)]
        assert asked == [None, *({"previous_message_id": known} for known in responses[:-1])]
        assert all(body.startswith(session.at(number)[:-1]) for number, body in enumerate(here.bodies))
        epoch = session.conversation.epoch
        session.conversation.set_epoch(
            replace(epoch, frame=replace(epoch.frame, tools=epoch.frame.tools[:-1]))
        )
        work(session, 1, output(), clock=here.clock)
        (broke,) = here.told(CacheBroke)
        assert broke.cause == "tool"
        assert broke.provider_says.startswith("tools changed, ")


@pytest.mark.spec("S17.10")
@pytest.mark.parametrize(
    ("client", "asks"),
    [
        (lambda: anthropic.Anthropic(api_key="key", base_url="https://api.anthropic.com"), True),
        (lambda: anthropic.AsyncAnthropic(api_key="key", base_url="https://api.anthropic.com/"), True),
        (lambda: anthropic.Anthropic(api_key="key", base_url="https://gateway.example/v1"), False),
        (
            lambda: anthropic.AnthropicBedrock(
                aws_access_key="a", aws_secret_key="b", aws_region="eu-west-1"
            ),
            False,
        ),
        (lambda: None, False),
    ],
    ids=["its own API", "asynchronously", "a gateway", "Bedrock", "the caller's own loop"],
)
def test_the_provider_is_asked_only_where_nothing_stands_between(client: Any, asks: bool) -> None:
    with sevenfold.Session.in_memory(model=FREE, max_tokens=100, client=client()) as session:
        assert session.conversation.diagnoses is asks


@pytest.mark.spec("S17.20")
@pytest.mark.parametrize(
    ("client", "model", "asks"),
    [
        (lambda: openai.OpenAI(api_key="key", base_url="https://api.openai.com/v1"), "gpt-5.6", True),
        (lambda: openai.AsyncOpenAI(api_key="key", base_url="https://api.openai.com/v1/"), "gpt-5.6", True),
        (lambda: openai.OpenAI(api_key="key", base_url="https://gateway.example/v1"), "gpt-5.6", False),
        (lambda: openai.OpenAI(api_key="key", base_url="https://api.openai.com/v1"), "gpt-5.2", False),
        (lambda: None, "gpt-5.6", False),
    ],
    ids=["its own API", "asynchronously", "a gateway", "a model without it", "the caller's own loop"],
)
def test_openai_is_asked_only_where_it_can_answer_and_nothing_stands_between(
    client: Any, model: str, asks: bool
) -> None:
    options: dict[str, Any] = {"model": model, "max_tokens": 100, "client": client()}
    with sevenfold.Session.in_memory(**options, settings={"model_listing": False}) as session:
        conversation = session.conversation
        assert (conversation.diagnoses and conversation.profile.cache.reports_misses) is asks


@pytest.mark.spec("S17.10", "S17.20")
@pytest.mark.parametrize(
    ("model", "address", "asks"),
    [
        (FREE, "https://api.anthropic.com", True),
        (FREE, "https://gateway.example/v1", False),
        ("gpt-5.6", "https://api.openai.com/v1", True),
    ],
)
def test_an_agents_requests_ask_like_a_sessions(
    model: str, address: str, asks: bool, tmp_path: Path
) -> None:
    sdk = openai.OpenAI if model.startswith("gpt") else anthropic.Anthropic
    client = sdk(api_key="key", base_url=address)
    with sevenfold.Agent(
        model, client=client, folder=tmp_path, tools=[], settings={"model_listing": False}
    ) as agent:
        assert agent.session.conversation.diagnoses is asks
