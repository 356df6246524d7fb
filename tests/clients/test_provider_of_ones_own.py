"""A provider that a third party brings: its window and its errors reach the engine, whoever asks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

import sevenfold
from sevenfold.errors import ModelError, PromptTooLong, RateLimited
from sevenfold.events import Acted, Event
from sevenfold.ports import Call, Reply, Watcher
from sevenfold.profiles import Profile
from sevenfold.providers import registry
from sevenfold.providers.models import Lister
from sevenfold.providers.provider import Provider, Put
from sevenfold.record import blocks
from sevenfold.record.log import Answer
from sevenfold.wire.reader import BodyReader

WINDOW = 40_000
TOOL = sevenfold.tool({"name": "look", "input_schema": {"type": "object"}}, kind="shell")


class TooBig(Exception):
    """What the SDK raises for a request over its limit."""


class Busy(Exception):
    """What the SDK raises when it is asked too often."""


class Sdk:
    """The SDK of an API that calls the same tool again and again, and takes so many bytes."""

    def __init__(self, most: int = 10**9) -> None:
        self.most, self.asked, self.problem = most, 0, None

    problem: Exception | None

    def send(self, body: bytes) -> bytes:
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        if len(body) > self.most:
            raise TooBig(f"{len(body)} bytes")
        call = {"type": "tool_use", "id": f"look_{self.asked}", "name": "look", "input": {}}
        return json.dumps({"n": self.asked, "says": [call]}).encode()


class Small(Provider):
    """A provider with a window and with errors of its own."""

    name = "small"

    def recognises(self, client: object) -> bool:
        return isinstance(client, Sdk)

    def serves(self, profile: Profile) -> bool:
        return profile.model.startswith("small-")

    def profile(self, profile: Profile) -> Profile:
        return replace(profile, wire=self.name, provider="small", window=WINDOW, max_output=1_000)

    def client(self, given: Any = None, wire: str | None = None) -> Any:
        return SmallClient(self, given or Sdk())

    def async_client(self, given: Any = None, wire: str | None = None) -> Any:
        return AsyncSmallClient(self, given or Sdk())

    def put(self, call: Call, *, stream: bool = False) -> Put:
        return Put("/", call.body)

    def reader(self, asked: bytes) -> BodyReader:
        return BodyReader(self._answer)

    def error(self, error: Exception, model: str = "") -> ModelError | None:
        match error:
            case TooBig():
                return PromptTooLong(f"{model}: {error}")
            case Busy():
                return RateLimited(f"{model}: {error}")
            case _:
                return None

    def _answer(self, raw: bytes) -> Reply:
        body = json.loads(raw)
        said = tuple(blocks.read(json.dumps(block).encode()) for block in body["says"])
        return Reply(Answer(f"a{body['n']}", "small-1", said, stop_reason="tool_use"))


class SmallClient:
    """Knows nothing of the engine's errors."""

    def __init__(self, provider: Small, sdk: Sdk) -> None:
        self.provider, self.sdk = provider, sdk

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        return self.provider.read(self.sdk.send(call.body), asked=call.body)

    def close(self) -> None:
        pass


class AsyncSmallClient(SmallClient):
    async def ask(self, call: Call, watch: Watcher | None = None) -> Reply:  # type: ignore[override]
        return super().ask(call, watch)

    async def close(self) -> None:  # type: ignore[override]
        pass


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = list(registry._providers)
    registry.register(Small())
    yield
    registry._providers[:] = before


def session(sdk: Any, **options: Any) -> sevenfold.Session:
    return sevenfold.Session.in_memory(model="small-1", client=sdk, tools=[TOOL], **options)


@pytest.mark.spec("S26.3")
def test_the_window_that_a_provider_names_is_the_sessions():
    here = session(Sdk())
    assert (here.conversation.window.context, here.conversation.window.source) == (WINDOW, "provider")


@pytest.mark.spec("S26.3")
def test_a_setting_counts_more_than_the_window_a_provider_names():
    here = session(Sdk(), settings={"context_window": 60_000})
    assert here.conversation.window.context == 60_000


@pytest.mark.spec("S26.3")
def test_an_agent_has_the_window_and_the_answers_that_the_provider_names():
    with sevenfold.Agent("small-1", client=Sdk(), tools=[]) as agent:
        assert agent.session.conversation.window.context == WINDOW
        assert agent.assembly.profile.max_output == 1_000


@pytest.mark.spec("S26.4")
def test_the_sdks_error_for_a_long_prompt_reaches_the_layers_and_the_turn_goes_on():
    sdk, told = Sdk(most=30_000), list[Event]()
    here = session(sdk, listen=[told.append], settings={"compaction": False, "notes": False})
    here.user("Look around.")
    for _ in range(40):
        answer = here.complete()
        here.tool_results({answer.calls[0].id: "a line of output\n" * 60})
    assert any(isinstance(event, Acted) and event.layer == "clear" for event in told)
    assert sdk.asked > 40, "a request was refused, and made again with less in it"


@pytest.mark.spec("S26.4")
def test_an_error_of_the_sdk_is_ours_in_a_session_and_for_asyncio():
    sdk = Sdk()
    sdk.problem = Busy("slower, please")
    here = session(sdk)
    here.user("Look around.")
    with pytest.raises(RateLimited, match="small-1: slower, please") as caught:
        here.complete()
    assert caught.value.__cause__ is sdk.problem

    async def asked() -> None:
        async with sevenfold.AsyncSession.in_memory(model="small-1", client=sdk, tools=[TOOL]) as later:
            await later.user("Look around.")
            with pytest.raises(RateLimited):
                await later.complete()

    asyncio.run(asked())


@pytest.mark.spec("S26.4")
def test_an_error_that_the_provider_does_not_know_stays_what_it_is():
    sdk = Sdk()
    sdk.problem = ZeroDivisionError("of the SDK's own")
    here = session(sdk)
    here.user("Look around.")
    with pytest.raises(ZeroDivisionError, match="own"):
        here.complete()


@pytest.mark.spec("S26.4")
def test_a_client_that_lists_models_still_does_when_its_errors_are_translated():
    class Listing(SmallClient):
        address = "http://small"

        def listing(self, model: str, seconds: float) -> bytes:
            return model.encode()

    plain = registry.client_for("small-1", client=SmallClient(Small(), Sdk()))
    listing = registry.client_for("small-1", client=Listing(Small(), Sdk()))
    assert not isinstance(plain, Lister)
    assert isinstance(listing, Lister)
    assert (listing.address, listing.listing("small-1", 1.0)) == ("http://small", b"small-1")
