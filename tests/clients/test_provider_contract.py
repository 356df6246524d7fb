"""What every provider and client must do: ours, the documented one, and what finds one that breaks it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.ports import Call, Client
from sevenfold.providers.offline import OfflineClient, Script
from sevenfold.providers.provider import Provider, Put
from sevenfold.testing.providers import ClientContract, ProviderContract
from tests.clients.asking import KEY, MODELS, PROVIDERS, address, sdk_client

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@cache
def documented() -> dict[str, Any]:
    """The provider that the documentation shows, and everything else it defines."""
    (code,) = (
        code
        for code in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
        if "class Parrot(Provider)" in code
    )
    names: dict[str, Any] = {"__name__": "documented"}
    exec(code.partition("register(Parrot())")[0], names)
    return names


@pytest.mark.spec("S26.22")
class TestDocumentedProvider(ProviderContract):
    model = "parrot-1"

    def make_provider(self) -> Provider:
        provider: Provider = documented()["Parrot"]()
        return provider

    def make_client(self, provider: Provider) -> Client:
        client: Client = documented()["ParrotClient"](provider, documented()["ParrotSdk"]())
        return client

    def known_errors(self) -> Sequence[Exception]:
        return [documented()["ParrotBusy"]("asleep")]


class OwnContract(ProviderContract):
    """One of our providers, asked through its SDK on a simulator."""

    api = ""

    @pytest.fixture(autouse=True)
    def served(self) -> Iterator[None]:
        simulator = Simulator(
            ScriptedBrain(lambda prompt: "Words enough for several pieces."), Setup(api_key=KEY)
        )
        with serve(simulator) as url:
            self.url = url
            yield

    def make_provider(self) -> Provider:
        return PROVIDERS[self.api]

    def make_client(self, provider: Provider) -> Client:
        own = PROVIDERS[self.api]
        sdk = sdk_client(own, api_key=KEY, max_retries=0, base_url=address(own, self.url))
        client: Client = own.client(sdk)
        return client

    def known_errors(self) -> Sequence[Exception]:
        sdk = PROVIDERS[self.api].vendor.load()
        return [sdk.APIConnectionError(request=None)]


@pytest.mark.spec("S26.22")
class TestMessages(OwnContract):
    api, model = "messages", MODELS["messages"]


@pytest.mark.spec("S26.22")
class TestChat(OwnContract):
    api, model = "chat", MODELS["chat"]


@pytest.mark.spec("S26.22")
class TestResponses(OwnContract):
    api, model = "responses", MODELS["responses"]


@pytest.mark.spec("S26.22")
class TestOfflineClient(ClientContract):
    def make_client(self, provider: Provider) -> Client:
        return OfflineClient(Script(["One.", "Two.", "Three."]))


class Forgetful(Provider):
    """A provider that drops tools and system prompts, and puts something new at the front of each request."""

    name = "forgetful"
    puts = 0

    def put(self, call: Call, *, stream: bool = False) -> Put:
        self.puts += 1
        return Put("/", b'{"number": %d, %s' % (self.puts, call.body.partition(b'"system"')[0][1:]))


@pytest.mark.spec("S26.22")
def test_a_provider_that_breaks_the_contract_is_found() -> None:
    suite = ProviderContract()
    with pytest.raises(AssertionError):
        suite.test_nothing_is_dropped_in_silence(Forgetful(), "system")
    with pytest.raises(AssertionError):
        suite.test_a_longer_conversation_begins_with_the_bytes_of_a_shorter_one(Forgetful())
    with pytest.raises(AssertionError):
        suite.test_the_same_conversation_gives_the_same_bytes(Forgetful())
