"""What varies from one request to the next, and what a session is opened with: checked, recorded, rebuilt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.errors import InputError, PromptTooLong, RateLimited, TranscriptError
from sevenfold.events import CacheBroke, EpochOpened, SteppedAside
from tests.session.talking import (
    ADAPTIVE,
    ALONE,
    BOUND,
    FREE,
    World,
    alone,
    fake_reply,
    hear,
    output,
    talker,
    work,
    world,
)
from tests.session.test_lifetimes import markers

BETA_1M = "context-1m-2025-08-07"


def asked(session: sevenfold.Session, words: str = "go on", **fields: Any) -> dict[str, Any]:
    session.user(words)
    request = session.prepare(**fields)
    body: dict[str, Any] = json.loads(request.body)
    session.observe(fake_reply())
    return body


@pytest.mark.spec("S8.11", "S10.1")
def test_fields_of_one_request_are_in_it_alone_and_rebuilt_later(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "max_tokens": 99,
        "thinking": {"type": "adaptive", "display": "omitted"},
        "tool_choice": {"type": "none"},
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u-1"},
        "output_config": {"effort": "low"},
        "betas": ["context-1m-2025-08-07"],
        "fields": {"service_tier": "auto"},
    }
    file = tmp_path / "s.jsonl"
    options: dict[str, Any] = {"model": BOUND, "max_tokens": 500, "settings": ALONE, "thinking": ADAPTIVE}
    with sevenfold.Session.open("s", file=file, folder=tmp_path, **options) as session:
        plain = asked(session)
        session.user("and this")
        request = session.prepare(**given)
        body, headers = request.body, request.headers
        session.observe(fake_reply())
        after = asked(session)
        assert session.at(1) == body
    sent = json.loads(body)
    assert sent["max_tokens"] == 99
    assert {name: sent[name] for name in given if name not in ("betas", "fields")} == {
        name: given[name] for name in given if name not in ("betas", "fields")
    }
    assert sent["service_tier"] == "auto"
    assert BETA_1M in headers["anthropic-beta"]
    assert set(after) == set(plain)
    assert (after["max_tokens"], after["thinking"]) == (500, ADAPTIVE)
    with sevenfold.Session.open("s", file=file, folder=tmp_path, **options) as session:
        assert session.at(1) == body


@pytest.mark.spec("S8.11")
def test_the_tokens_of_an_answer_may_be_any_number_from_one_to_the_models_limit() -> None:
    with alone() as session:
        assert asked(session, max_tokens=1)["max_tokens"] == 1
        assert asked(session, max_tokens=128_000)["max_tokens"] == 128_000
        with pytest.raises(InputError, match="max_tokens is 128,001"):
            session.prepare(max_tokens=128_001)


@pytest.mark.spec("S8.11")
def test_a_field_of_every_request_can_be_left_out_of_one() -> None:
    with alone(thinking=ADAPTIVE, fields={"service_tier": "auto"}) as session:
        assert "service_tier" not in asked(session, fields={"service_tier": None})
        assert "service_tier" in asked(session)


@pytest.mark.spec("S8.11")
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_tokens": 0}, "max_tokens is 0; claude-sonnet-5-5 takes 1 to 128,000"),
        ({"max_tokens": "5"}, "max_tokens is '5'; it must be a whole number"),
        ({"max_token": 5}, "there is no option 'max_token'; did you mean 'max_tokens'"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2_000}},
            "thinking of the type 'enabled' is not for",
        ),
        ({"tool_choice": {"type": "any"}}, "takes no tool_choice that forces a call"),
        ({"tool_choice": "auto"}, "tool_choice is 'auto'; it must be a mapping"),
        ({"stop_sequences": "END"}, "stop_sequences is 'END'; it must be a list"),
        ({"fields": {"messages": []}}, "messages cannot be one of the fields: the engine writes them"),
        ({"fields": {"context_management": {}}}, "it is fixed when a session opens"),
        ({"metadata": {"x": float("nan")}}, "nan"),
    ],
)
def test_a_field_the_model_does_not_take_is_refused_before_anything_is_written(
    fields: dict[str, Any], words: str
) -> None:
    with alone() as session:
        session.user("hello")
        with pytest.raises(InputError, match=words):
            session.prepare(**fields)
        assert session.prepare().body


@pytest.mark.spec("S8.11")
@pytest.mark.parametrize("name", ["max_tokens", "messages", "model", "system", "tools", "betas", "stream"])
def test_fields_at_opening_that_have_another_way_in_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} cannot be one of the fields"):
        sevenfold.Session.in_memory(model=BOUND, fields={name: []})


@pytest.mark.spec("S8.11")
def test_a_field_has_a_name() -> None:
    with pytest.raises(InputError, match="field names must be strings"):
        sevenfold.Session.in_memory(model=BOUND, fields={5: 5})  # type: ignore[dict-item]


@pytest.mark.spec("S6.9", "S8.11")
@pytest.mark.parametrize("model", [BOUND, FREE])
def test_a_change_that_costs_the_messages_cache_is_reported_and_reasoning_stays(model: str) -> None:
    with world(talker()) as here, here.session(model=model) as session:
        for number in range(3):
            session.user(output(times=400) + str(number))
            session.complete()
        session.user("and now without tools")
        session.complete(tool_choice={"type": "none"})
        (broken,) = here.told(CacheBroke)
        assert (broken.cause, broken.part) == ("setting", "setting tool_choice was added")
        assert json.loads(here.bodies[-1])["tool_choice"] == {"type": "none"}
        assert here.bodies[-1].count(b'"type":"thinking"') == 3
        assert [one.reason for one in here.told(EpochOpened)] == ["start"]
        # What has nothing to do with the cache is no change to it.
        session.user("more")
        session.complete()
        before = len(here.told(CacheBroke))
        session.user("more")
        session.complete(metadata={"user_id": "u"}, stop_sequences=["END"], max_tokens=99)
        assert len(here.told(CacheBroke)) == before


@pytest.mark.spec("S8.11")
def test_the_same_for_those_who_await() -> None:
    async def main() -> dict[str, Any]:
        async with sevenfold.AsyncSession.in_memory(model=BOUND, settings=ALONE) as session:
            await session.user("hello")
            request = await session.prepare(max_tokens=77)
            body: dict[str, Any] = json.loads(request.body)
            return body

    assert asyncio.run(main())["max_tokens"] == 77


# Tools, names, files


@pytest.mark.spec("S8.9")
@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ({"type": "custom", "custom": {"name": "sql"}}, "the tool 'sql' takes plain text; pass a function"),
        ({"name": "a b", "input_schema": {"type": "object"}}, "'a b' is not a valid tool name"),
        ({"name": "a", "input_schema": 5}, "the input_schema of the tool 'a' must be a mapping"),
    ],
)
def test_a_tool_that_no_provider_takes_is_refused(tool: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        sevenfold.Session.in_memory(model=BOUND, tools=[tool])


@pytest.mark.spec("S8.9")
@pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
def test_a_tool_without_a_schema_takes_nothing(wire: str) -> None:
    with sevenfold.Session.in_memory(model=BOUND, tools=[{"name": "now"}], wire=wire) as session:
        session.user("hello")
        assert b'"type":"object"' in session.prepare().body


@pytest.mark.spec("S8.9")
@pytest.mark.parametrize("name", ["\ud800", 5, "", None])
def test_a_name_that_is_none_is_an_error_of_ours(name: Any, tmp_path: Path) -> None:
    openings: list[Callable[[], Any]] = [
        lambda: sevenfold.Session.in_memory(name, model=BOUND),
        lambda: sevenfold.Session.open(name, model=BOUND, store=tmp_path),
        lambda: sevenfold.Session.in_memory(model=name),
        lambda: sevenfold.Session.open("s", model=name, store=tmp_path),
    ]
    for opening in openings:
        with pytest.raises(InputError, match="it must be a non-empty string"):
            opening()


@pytest.mark.spec("S8.4")
@pytest.mark.parametrize("content", [b"# Notes\n\nBuy milk.\n", b"a,b\n1,2\n", b"\x89PNG\r\n\x1a\n\x00"])
def test_a_file_that_is_no_transcript_is_left_as_it_is(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_bytes(content)
    with pytest.raises(TranscriptError, match="is not a transcript"):
        sevenfold.Session.open("s", model=BOUND, file=file)
    assert file.read_bytes() == content


def test_an_empty_file_and_a_damaged_transcript_are_continued(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"")
    with sevenfold.Session.open("s", model=BOUND, file=file) as session:
        session.user("hello")
    file.write_bytes(b"\x00\x00 damaged\n" + file.read_bytes())
    with sevenfold.Session.open("s", model=BOUND, file=file) as session:
        assert b"hello" in session.prepare().body


# Settings, windows, lifetimes


@pytest.mark.spec("S8.2")
def test_sessions_in_memory_heed_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEVENFOLD_CONTEXT_WINDOW", "32768")
    monkeypatch.setenv("SEVENFOLD_LAYERS", "off")
    with sevenfold.Session.in_memory(model="qwen3:8b") as session:
        assert session.conversation.window.context == 32_768
        assert not session.conversation.settings.offload
    with sevenfold.Session.in_memory(model="qwen3:8b", settings={"context_window": 9_000}) as session:
        assert session.conversation.window.context == 9_000


@pytest.mark.spec("S0.1")
def test_the_long_window_is_asked_for_where_it_must_be() -> None:
    short = "claude-sonnet-4-5"
    with alone(model=f"{short}[1m]") as session:
        session.user("hello")
        request = session.prepare()
        assert session.conversation.window.context == 1_000_000
        assert json.loads(request.body)["model"] == short
        assert BETA_1M in request.headers["anthropic-beta"]
    with alone(model=short, betas=[BETA_1M]) as session:
        assert session.conversation.window.context == 1_000_000
    with alone(model="claude-haiku-4-5", betas=[BETA_1M]) as session:
        assert session.conversation.window.context == 200_000


@pytest.mark.spec("S6.7")
def test_a_lifetime_asked_for_when_a_session_is_resumed_is_heeded(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file) as session:
            session.user("begin")
            work(session, 2, output(times=300), clock=here.clock)
            assert set(markers(here.bodies[-1])) == {None}
        with here.open(file, lifetime="1h") as session:
            work(session, 1, output(), clock=here.clock)
            assert set(markers(here.bodies[-1])) == {"1h"}
            assert here.bodies[-1].count(b'"type":"thinking"') == 2
        with here.open(file) as session:
            work(session, 1, output(), clock=here.clock)
            assert set(markers(here.bodies[-1])) == {"1h"}


@pytest.mark.spec("S6.7")
def test_a_lifetime_of_the_settings_that_policy_refuses_is_reported() -> None:
    told: list[Any] = []
    settings = {"cache_lifetime": "1h", "long_lifetime_account": False}
    with alone(settings=settings, listen=[told.append]) as session:
        hear_first(session)
    assert "an hour in the cache" in next(one.reason for one in told if isinstance(one, SteppedAside))


def hear_first(session: sevenfold.Session) -> None:
    session.user("hello")
    hear(session, fake_reply())


# Errors of frameworks


def wrapped(here: World, kind: str) -> Exception:
    """An error of the SDK as a framework raises it: in a class derived from the SDK's, or as the cause of its own."""
    import anthropic

    class Derived(anthropic.RateLimitError):
        pass

    class Own(Exception):
        pass

    try:
        here.sdk.messages.create(model=BOUND, max_tokens=5, messages=[])
    except anthropic.APIStatusError as error:
        if kind == "derived":
            return Derived("slow down", response=error.response, body=None)
        try:
            raise Own("it failed") from error
        except Own as own:
            return own
    raise AssertionError("the simulator refuses a request without messages")


@pytest.mark.spec("S4.13")
def test_errors_are_known_by_their_bases_and_by_what_they_were_raised_for() -> None:
    from sevenfold.errors import RequestRefused
    from sevenfold.profiles import find
    from sevenfold.providers.registry import error_of

    with world() as here:
        derived, own = wrapped(here, "derived"), wrapped(here, "own")
        assert isinstance(error_of(own, find(BOUND)), RequestRefused)
        assert "slow down" in str(error_of(derived, find(BOUND)))
        group = ExceptionGroup("tasks failed", [ValueError("no"), ExceptionGroup("inner", [own])])
        assert isinstance(error_of(group, find(BOUND)), RequestRefused)
    for other in (ValueError("no"), "prompt is too long", ValueError, 5):
        assert error_of(other, find(BOUND)) is None  # type: ignore[arg-type]


@pytest.mark.spec("S4.13")
def test_the_text_of_a_derived_error_says_what_its_body_does_not() -> None:
    import httpx
    import openai

    from sevenfold.profiles import find
    from sevenfold.providers.registry import error_of

    class BadRequestError(openai.BadRequestError):
        pass

    words = (
        'AnthropicException - {"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}'
    )
    request = httpx.Request("POST", "https://x.example")
    made = BadRequestError(words, response=_response(openai, request), body=None)
    found = error_of(made, find(BOUND))
    assert isinstance(found, PromptTooLong)
    assert (found.used, found.limit) == (210_000, 200_000)
    assert not isinstance(found, RateLimited)


def _response(sdk: Any, request: Any) -> Any:
    """A response of the library below the SDK."""
    from sevenfold.providers.failures import transport_of

    http = transport_of(sdk)
    return http.Response(400, request=http.Request("POST", "https://x.example"))
