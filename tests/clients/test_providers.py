"""What holds for every provider in the registry, and that one can be added without changing ours."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import openai
import pytest
from msgspec import Raw
from msgspec.structs import replace

import sevenfold
from sevenfold.errors import InputError, ModelError, Overloaded, Unreachable
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.ports import AsyncClient, Call, Client
from sevenfold.profiles import Profile, find
from sevenfold.providers import registry
from sevenfold.providers.offline import Offline, OfflineClient
from sevenfold.providers.openai.client import ChatCompletions
from sevenfold.providers.provider import Provider, Put
from sevenfold.providers.sdk import SdkProvider
from tests.clients.asking import (
    KEY,
    MODELS,
    PROVIDERS,
    TOOLS,
    WAYS,
    Way,
    address,
    body,
    http_of,
    sdk_client,
)
from tests.clients.asking import Provider as Server

SOURCES = Path(__file__).resolve().parents[2] / "src" / "sevenfold"
NAMES = ["messages", "chat", "responses", "offline"]
METHODS = {"messages": "messages", "chat": "chat.completions", "responses": "responses"}
"""Where each SDK's client has the method that sends a request."""
every_provider = pytest.mark.parametrize("provider", registry.providers(), ids=lambda one: one.name)
every_sdk = pytest.mark.parametrize("api", PROVIDERS)


@pytest.fixture
def registered() -> Iterator[None]:
    """Take back what a test registers."""
    before = list(registry._providers)
    yield
    registry._providers[:] = before


def talk(*words: str, **fields: Any) -> Call:
    said = [
        {"role": "assistant" if place % 2 else "user", "content": [{"type": "text", "text": text}]}
        for place, text in enumerate(words)
    ]
    return Call(body(messages=said, **fields))


# The registry


def test_the_registry_has_them_in_order_and_the_offline_model_last() -> None:
    assert [one.name for one in registry.providers()] == NAMES
    assert list(registry.wires()) == NAMES[:-1]


def test_no_choice_by_a_name_is_made_outside_the_providers() -> None:
    by_name = re.compile(
        r"""\.(wire|provider|model|name) [!=]= ["']|in \(["'](messages|chat|anthropic|openai)"""
    )
    found = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for path in SOURCES.rglob("*.py")
        if path.relative_to(SOURCES).parts[0] != "providers"
        for line in path.read_text(encoding="utf-8").splitlines()
        if by_name.search(line) and re.search("messages|chat|responses|anthropic|openai|claude|gpt", line)
    ]
    assert found == []


@pytest.mark.usefixtures("registered")
def test_what_is_registered_comes_first_and_replaces_what_has_its_name() -> None:
    class Own(Provider):
        name = "own"

    class Better(ChatCompletions):
        pass

    registry.register(Own())
    registry.register(Better())
    assert [one.name for one in registry.providers()] == ["chat", "own", "messages", "responses", "offline"]
    assert isinstance(registry.providers()[0], Better)
    with pytest.raises(InputError, match="has no name"):
        registry.register(Provider())


@pytest.mark.usefixtures("registered")
def test_a_session_can_be_put_for_what_is_registered_and_for_nothing_else() -> None:
    class Shouting(Provider):
        name = "shouting"

        def put(self, call: Call, *, stream: bool = False) -> Put:
            return Put("/", call.body.upper())

        def client(self, given: Any = None, wire: str | None = None) -> Client:
            raise Overloaded("as loud as it gets")

    with pytest.raises(InputError, match=r"one of messages, chat, responses$"):
        sevenfold.Session.in_memory(model="m", wire="shouting")
    registry.register(Shouting())
    with sevenfold.Session.in_memory(model="m", wire="shouting") as session:
        session.user("hi")
        request = session.prepare()
        assert (request.wire, request["MESSAGES"][0]["ROLE"]) == ("shouting", "USER")
        assert session.at() == request.body
        assert session.conversation.profile.wire == "shouting"
        with pytest.raises(Overloaded):
            session.complete()


@pytest.mark.usefixtures("registered")
def test_a_model_it_serves_is_asked_through_it_whether_awaited_or_not() -> None:
    class Own(Offline):
        name = "own"

        def serves(self, profile: Profile) -> bool:
            return profile.model.startswith("own-")

        def profile(self, profile: Profile) -> Profile:
            return replace(super().profile(profile), provider="own", window=33_000)

    async def awaited() -> str:
        async with sevenfold.AsyncSession.in_memory(model="own-1") as session:
            await session.user("hello")
            assert session.conversation.profile.window == 33_000
            return (await session.complete()).text

    registry.register(Own({"main": lambda request: f"own: {len(request['messages'])}"}))
    with sevenfold.Session.in_memory(model="own-1") as session:
        session.user("hello")
        assert (session.complete().text, session.conversation.profile.wire) == ("own: 1", "own")
    assert asyncio.run(awaited()) == "own: 1"


@pytest.mark.usefixtures("registered")
def test_a_provider_may_speak_through_another_s_sdk_and_is_chosen_by_name() -> None:
    class Azure(ChatCompletions):
        name = "azure"

        def put(self, call: Call, *, stream: bool = False) -> Put:
            made = super().put(call, stream=stream)
            return replace(made, path="/deployments/one" + made.path)

    registry.register(Azure())
    with openai.OpenAI(api_key=KEY) as sdk:
        chosen = registry.provider_for("gpt-5", sdk, "azure")
        assert isinstance(chosen, Azure)
        assert chosen.put(talk("hi")).path == "/deployments/one/chat/completions"
        assert registry.provider_for("gpt-5", sdk).name == "chat"
        assert registry.provider_for("gpt-5.6", sdk).name == "responses"


# Who it is for


@every_sdk
def test_clients_of_its_sdk_and_ours_over_them_are_recognised_and_no_others(api: str) -> None:
    provider = PROVIDERS[api]
    with sdk_client(provider, api_key=KEY) as sdk:
        own = provider.client(sdk, api)
        for given in (sdk, own, sdk_client(provider, awaited=True, api_key=KEY)):
            assert provider.recognises(given)
            assert registry.provider_for(MODELS[api], given).name == api
        for other in PROVIDERS.values():
            assert other.recognises(own) == (other is provider)
            assert other.recognises(sdk) == (other.vendor == provider.vendor)
    for nothing in (None, object(), OfflineClient(registry.OFFLINE.script())):
        assert not provider.recognises(nothing)


@every_sdk
def test_it_serves_models_whose_profile_says_so_and_keeps_what_they_can_do_there(api: str) -> None:
    provider = PROVIDERS[api]
    for name, model in MODELS.items():
        profile = find(model)
        assert provider.serves(profile) == (name == api)
        assert provider.profile(profile).wire == api
    assert provider.profile(find(MODELS[api])) == find(MODELS[api])


@every_sdk
def test_a_key_or_an_address_configures_it_and_the_address_is_the_environment_s(api: str) -> None:
    provider = PROVIDERS[api]
    vendor = provider.vendor
    assert not provider.configured({})
    assert provider.address({}) == vendor.url
    assert provider.configured({vendor.key_variable: "k"})
    elsewhere = {vendor.url_variable: "http://here/"}
    assert provider.configured(elsewhere)
    assert provider.address(elsewhere) == "http://here"
    for variable in (vendor.key_variable, vendor.url_variable):
        assert variable in provider.unconfigured()


# Asking


def test_the_offline_model_answers_without_any_configuration() -> None:
    offline = registry.OFFLINE
    assert offline.configured({})
    client: Client = offline.client()
    awaited: AsyncClient = offline.async_client()
    assert client.ask(talk("hello")).answer.stop_reason == "end_turn"
    assert inspect.iscoroutinefunction(awaited.ask)


@pytest.mark.parametrize("way", [way for way in WAYS if not way.stream], ids=str)
def test_a_summary_of_the_provider_s_own_is_asked_for_where_the_profile_has_one(
    way: Way, provider: Server
) -> None:
    profile = way.provider.profile(find(MODELS[way.api]))
    wish = {"type": "summarize", **({"instructions": "short"} if profile.compaction_instructions else {})}
    call = way.call(compaction=wish)
    call = replace(call, betas=tuple(filter(None, [profile.betas.on_demand_compaction])))
    if not profile.on_demand_compaction:
        with pytest.raises(ModelError, match="compaction"):
            way.ask(provider.url, call)
        return
    answer = way.ask(provider.url, call).answer
    assert answer.stop_reason == "compaction"
    assert [block.kind for block in answer.blocks] == ["compaction"]


# Requests


@every_provider
def test_a_request_is_put_the_same_each_time_and_a_longer_one_begins_with_it(provider: Provider) -> None:
    short, long = talk("one", "two", "three"), talk("one", "two", "three", "four", "five")
    first, again, second = provider.put(short), provider.put(short), provider.put(long)
    assert first == again
    listed = next(name for name in ("messages", "input") if name in msgspec.json.decode(first.body))
    before = msgspec.json.decode(first.body, type=dict[str, Raw])[listed]
    assert bytes(msgspec.json.decode(second.body, type=dict[str, Raw])[listed]).startswith(
        bytes(before)[:-1]
    )


@every_sdk
def test_its_arguments_are_the_body_and_fit_the_sdk_s_own_method(api: str) -> None:
    call = talk("one", model=MODELS[api], tools=TOOLS, system=[{"type": "text", "text": "Be brief."}])
    put = PROVIDERS[api].put(replace(call, betas=("one-2026",)))
    given = {name: msgspec.json.decode(raw) for name, raw in PROVIDERS[api].arguments(put).items()}
    with sdk_client(PROVIDERS[api], api_key=KEY) as sdk:
        create = attrgetter(f"{METHODS[api]}.create")(sdk)
    assert given.keys() <= inspect.signature(create).parameters.keys()
    assert given.pop("extra_headers", {}) == put.headers
    assert {**given, **given.pop("extra_body", {})} == json.loads(put.body)


# Answers and errors


@every_sdk
@pytest.mark.parametrize("stream", [False, True])
def test_its_answers_are_claimed_by_it_alone_and_read_as_its_client_reads_them(
    api: str, stream: bool, provider: Server
) -> None:
    own = PROVIDERS[api]
    call = talk("hi", model=MODELS[api], tools=TOOLS)
    put = own.put(call, stream=stream)
    headers = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "anthropic-version": "2026-10-21"}
    came = httpx2.post(
        address(own, provider.url) + put.path,
        content=put.body,
        headers={"content-type": "application/json", **headers},
    )
    if stream:
        events = [one[6:].encode() for one in came.text.splitlines() if one.startswith("data: ")]
        fields = msgspec.json.decode(events[0], type=dict[str, Raw])
        reader = own.reader(call.body)
        for event in events:
            reader.event(event)
        assert reader.whole
        answer = reader.reply(None).answer
    else:
        fields = msgspec.json.decode(came.content, type=dict[str, Raw])
        answer = own.read(came.content, asked=call.body).answer
    assert [one.name for one in PROVIDERS.values() if one.claims(fields, event=stream)] == [api]
    assert registry.claiming(fields, event=stream) is own
    assert answer.stop_reason == "tool_use"
    assert answer.blocks[-1].kind == "tool_use"


@every_sdk
def test_exceptions_of_its_sdk_and_of_the_transport_are_explained_and_no_others(api: str) -> None:
    own, model = PROVIDERS[api], MODELS[api]
    http = http_of(own)
    request = http.Request("POST", "http://nowhere")
    error = own.vendor.load().APIConnectionError(request=request)
    assert isinstance(own.error(error, model), ModelError)
    unreachable = registry.error_of(http.ConnectError("refused", request=request), find(model))
    assert isinstance(unreachable, Unreachable)
    assert own.vendor.url in str(unreachable)
    assert own.error(ValueError("ours"), model) is None
    for other in PROVIDERS.values():
        assert (other.error(error, model) is None) == (other.vendor != own.vendor)
    assert registry.error_of(ValueError("ours"), find(model)) is None
    known = Overloaded("known")
    assert registry.error_of(known, find(model)) is known


def test_the_providers_over_an_sdk_are_those_the_suite_asks() -> None:
    assert {one.name for one in registry.providers() if isinstance(one, SdkProvider)} == MODELS.keys()


@pytest.mark.spec("S6.11")
def test_all_requests_of_a_session_have_one_cache_key_and_other_sessions_another(tmp_path: Path) -> None:
    def keys(name: str) -> set[str]:
        simulator = Simulator()
        with serve(simulator) as url, openai.OpenAI(base_url=f"{url}/v1", api_key=KEY) as sdk:
            for words in ("hello", "again"):
                with sevenfold.Session.open(name, model="gpt-5.6", folder=tmp_path, client=sdk) as session:
                    session.user(words)
                    session.complete()
                    session.compact()
        return {one.body["prompt_cache_key"] for one in simulator.requests if one.method == "POST"}

    (first,), (second,) = keys("one-customer"), keys("another")
    assert first != second
    assert "customer" not in first
    assert len(first) <= 64


@pytest.mark.spec("S6.11")
def test_a_cache_key_goes_to_openai_and_to_no_chat_server_of_ones_own() -> None:
    call = Call(body("gpt-5.6"), cache_key="k1")
    official = registry.provider_for("gpt-5", sdk_client(PROVIDERS["chat"], api_key=KEY), "chat")
    own = registry.provider_for(
        "gpt-5", sdk_client(PROVIDERS["chat"], api_key=KEY, base_url="http://localhost:1/v1"), "chat"
    )
    assert b'"prompt_cache_key":"k1"' in PROVIDERS["responses"].put(call).body
    assert b'"prompt_cache_key":"k1"' in official.put(call).body
    assert b"prompt_cache_key" not in own.put(call).body
    assert PROVIDERS["messages"].put(call).body == call.body
    assert b"prompt_cache_key" not in official.put(Call(call.body)).body
