"""What a server says of its models counts over the table: read from a copy, never waited for long."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import sevenfold
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.profiles import Listing, find
from sevenfold.providers.models import MAX_LISTINGS, Listings, read_listing
from sevenfold.stores.home import user_home

pytestmark = pytest.mark.spec("S9.1")

KNOWN, HOUSE = "claude-sonnet-5-5", "house-7b"
SETUP = Setup(
    announced_windows={KNOWN: 333_000},
    models={HOUSE: replace(find("local-8k"), name=HOUSE, model=HOUSE, window=40_960)},
)
QUIET = {"notes": False, "background_compaction": False}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def simulator() -> Simulator:
    return Simulator(setup=SETUP)


@pytest.fixture
def url(simulator: Simulator) -> Iterator[str]:
    with serve(simulator) as found:
        yield found


@pytest.fixture
def claude(url: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key="simulated-key", base_url=url, max_retries=0) as client:
        yield client


@pytest.fixture
def local(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="simulated-key", base_url=f"{url}/v1", max_retries=0) as client:
        yield client


def opened(model: str, client: Any, folder: Path, **settings: Any) -> sevenfold.Session:
    return sevenfold.Session.open(
        "s", model=model, client=client, folder=folder, settings={**QUIET, **settings}
    )


def looked_up() -> None:
    """Wait for servers that are being asked beside sessions."""
    for thread in threading.enumerate():
        if thread.name == "sevenfold-listing":
            thread.join(30)


def asked_for_models(simulator: Simulator) -> int:
    return len([one for one in simulator.requests if one.path.startswith("/v1/models")])


@pytest.mark.spec("S8.2")
def test_a_known_model_is_looked_up_beside_a_session_and_counts_in_the_next(
    simulator: Simulator, url: str, claude: anthropic.Anthropic, tmp_path: Path
) -> None:
    with opened(KNOWN, claude, tmp_path) as session:
        assert session.gauge.context == 1_000_000
        looked_up()
        assert session.gauge.context == 1_000_000, "latched"
    for _ in range(2):
        with opened(KNOWN, claude, tmp_path) as session:
            assert (session.conversation.window.context, session.conversation.window.source) == (
                333_000,
                "listing",
            )
    assert asked_for_models(simulator) == 1
    with opened(KNOWN, claude, tmp_path, model_listing=False) as session:
        assert session.gauge.context == 1_000_000


def test_the_window_of_a_model_nobody_knows_is_its_servers(local: openai.OpenAI, tmp_path: Path) -> None:
    for _ in range(2):
        with opened(HOUSE, local, tmp_path) as session:
            assert session.gauge.context == 40_960
            assert "40,960" in session.conversation.profile.note
    with sevenfold.Session.in_memory(model=HOUSE, client=local, settings=QUIET) as session:
        assert session.gauge.context == 40_960
        session.user("hello")
        assert session.complete().text
    with sevenfold.Agent(HOUSE, client=local, folder=tmp_path, settings=QUIET) as agent:
        assert agent.session.gauge.context == 40_960
        assert agent.run("hello").end == "done"


def test_those_who_await_are_told_the_same(url: str, tmp_path: Path) -> None:
    async def both() -> list[int]:
        async with openai.AsyncOpenAI(
            api_key="simulated-key", base_url=f"{url}/v1", max_retries=0
        ) as client:
            options: Any = {"client": client, "settings": QUIET}
            async with sevenfold.AsyncSession.in_memory(model=HOUSE, **options) as session:
                first = session.gauge.context
            async with sevenfold.AsyncAgent(HOUSE, folder=tmp_path, **options) as agent:
                return [first, agent.session.gauge.context]

    assert asyncio.run(both()) == [40_960, 40_960]


def test_a_window_asked_for_by_name_or_setting_is_not_overridden(
    url: str, claude: anthropic.Anthropic, tmp_path: Path
) -> None:
    Listings(user_home().models).keep(url, "claude-sonnet-4-5", Listing(150_000), time.time())
    for model, settings, window in (
        ("claude-sonnet-4-5", {}, 150_000),
        ("claude-sonnet-4-5[1m]", {}, 1_000_000),
        ("claude-sonnet-4-5", {"context_window": 90_000}, 90_000),
    ):
        with opened(model, claude, tmp_path, **settings) as session:
            assert session.gauge.context == window
    with sevenfold.Agent("claude-sonnet-4-5[1m]", client=claude, folder=tmp_path, settings=QUIET) as agent:
        assert agent.session.gauge.context == 1_000_000


def test_what_the_server_cannot_do_is_not_asked_of_it(
    url: str, claude: anthropic.Anthropic, tmp_path: Path
) -> None:
    cannot = {"context_management": {"supported": False}, "compaction": {"supported": False}}
    Listings(user_home().models).keep(url, KNOWN, Listing(capabilities=cannot), time.time())
    tool = sevenfold.tool({"name": "Read", "input_schema": {"type": "object"}}, kind="read")
    with sevenfold.Session.open(
        "s", model=KNOWN, client=claude, folder=tmp_path, tools=[tool], settings=QUIET
    ) as session:
        session.user("hello")
        assert b"context_management" not in session.prepare().body
        assert not session.conversation.profile.on_demand_compaction


@pytest.mark.spec("S8.5")
def test_a_server_that_does_not_answer_changes_nothing(tmp_path: Path) -> None:
    with openai.OpenAI(api_key="k", base_url="http://127.0.0.1:9/v1", max_retries=0) as nobody:
        for model in (HOUSE, "gpt-5"):
            with opened(model, nobody, tmp_path) as session:
                assert session.gauge.context == find(model).window


def test_a_damaged_copy_is_as_good_as_none(home: Path) -> None:
    home.mkdir()
    (home / "models.json").write_text('{"a b": {"listing"')
    copies = Listings(home / "models.json")
    assert copies.last("a", "b") is None
    copies.keep("a", "b", Listing(1_000), 5.0)
    assert copies.last("a", "b") == (Listing(1_000), 5.0)
    assert Listings(None).last("a", "b") is None


def test_only_the_newest_copies_are_kept(home: Path) -> None:
    copies = Listings(home / "models.json")
    for number in range(MAX_LISTINGS + 3):
        copies.keep("a", f"m{number}", Listing(1_000), float(number))
    assert copies.last("a", "m2") is None
    assert copies.last("a", "m3") is not None
    assert len(json.loads((home / "models.json").read_bytes())) == MAX_LISTINGS


def test_a_copy_is_asked_for_again_when_it_is_old(
    simulator: Simulator, url: str, claude: anthropic.Anthropic, tmp_path: Path
) -> None:
    copies = Listings(user_home().models)
    copies.keep(url, KNOWN, Listing(200_000), time.time() - 25 * 3_600)
    with opened(KNOWN, claude, tmp_path) as session:
        assert session.gauge.context == 200_000
        looked_up()
    assert asked_for_models(simulator) == 1


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({"max_model_len": 32_768}, 32_768),
        ({"meta": {"n_ctx_train": 131_072}}, None),
        ({"meta": {"n_ctx": 8_192, "n_ctx_train": 131_072}}, 8_192),
        ({"context_length": 65_536}, 65_536),
        ({"max_model_len": "many"}, None),
        ({"max_model_len": True}, None),
        ({"meta": [1]}, None),
        ({}, None),
    ],
)
def test_the_window_is_read_wherever_servers_put_it(entry: dict[str, Any], window: int | None) -> None:
    listed = json.dumps({"object": "list", "data": [{"id": "other"}, {"id": "m", **entry}]}).encode()
    found = read_listing(listed, "m")
    assert found is not None
    assert found.window == window
    assert read_listing(listed, "another") is None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)
    )
)
def test_whatever_a_server_says_is_no_more_than_wrong(said: Any) -> None:
    assert read_listing(json.dumps(said).encode(), "m") is None


def test_nobody_is_asked_where_it_is_switched_off(simulator: Simulator, local: openai.OpenAI) -> None:
    with sevenfold.Session.in_memory(
        model=HOUSE, client=local, settings={"model_listing": False}
    ) as session:
        assert session.gauge.context == find(HOUSE).window
    assert asked_for_models(simulator) == 0


def test_a_client_that_lists_nothing_is_left_alone() -> None:
    listings = Listings(None)
    assert listings.profile(HOUSE, "somewhere", object()) == find(HOUSE)
