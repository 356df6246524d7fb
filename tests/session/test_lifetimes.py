"""How long the provider is to keep things: by policy, decided once a session, and short where it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import pytest

import sevenfold
from sevenfold.conversation.flow import drive
from sevenfold.conversation.options import RequestOptions, against_long_lifetime, lifetimes_for
from sevenfold.errors import RequestRefused
from sevenfold.events import EpochOpened, SteppedAside
from sevenfold.lab.simulator.provider import Setup
from sevenfold.profiles import find
from sevenfold.providers.registry import client_of
from sevenfold.record.decisions import Epoch
from sevenfold.request.frame import Lifetimes
from sevenfold.session.flags import FlagSource, in_memory
from sevenfold.settings import Settings, SettingsLayer, resolve
from tests.session.talking import ALONE, BOUND, World, output, work, world

pytestmark = pytest.mark.spec("S6.4")

REFUSES = Setup(long_lifetime=False)


def markers(raw: bytes) -> list[Any]:
    """The lifetimes a request asks for, in the order of its parts; None is the usual one."""
    body = json.loads(raw)
    content = [block for message in body["messages"] for block in message["content"]]
    parts = [*body.get("tools", ()), *body.get("system", ()), *content]
    return [part["cache_control"].get("ttl") for part in parts if "cache_control" in part]


def spoken(here: World, flags: FlagSource | None = None, **more: Any) -> sevenfold.Session:
    options = here.options(**more)
    session = sevenfold.Session.in_memory(**{**options, "settings": flags or options["settings"]})
    session.user("begin")
    work(session, 2, output(times=300), clock=here.clock)
    return session


def asides(here: World) -> list[str]:
    return [event.reason for event in here.told(SteppedAside)]


def test_an_hour_is_asked_for_everywhere_when_the_caller_wants_it() -> None:
    with world() as here, spoken(here, lifetime="1h"):
        assert set(markers(here.bodies[-1])) == {"1h"}
        usage = here.simulator.requests.answered()[-1].usage or {}
        assert usage["cache_creation"]["ephemeral_5m_input_tokens"] == 0


def test_where_the_caller_does_not_say_the_setting_decides() -> None:
    with world() as here, spoken(here, settings={"cache_lifetime": "1h"}):
        assert set(markers(here.bodies[-1])) == {"1h"}
    with world() as here, spoken(here, lifetime="5m", settings={"cache_lifetime": "1h"}):
        assert set(markers(here.bodies[-1])) == {None}
    with world() as here, spoken(here):
        assert set(markers(here.bodies[-1])) == {None}


@pytest.mark.parametrize(
    ("source", "long"),
    [
        ("main", True),
        ("sdk", True),
        ("agent", True),
        ("agent:reviewer", True),
        ("dream", False),
        ("other", False),
    ],
)
def test_only_named_sources_may_keep_their_prefix_for_an_hour(source: str, long: bool) -> None:
    assert (against_long_lifetime(source, find(BOUND), Settings()) == "") == long


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"long_lifetime": False}, "long_lifetime"),
        ({"long_lifetime_account": False}, "long_lifetime_account"),
        ({"long_lifetime_sources": ["agent:*"]}, "not on behalf of main (setting long_lifetime_sources)"),
    ],
)
def test_a_policy_against_it_makes_it_five_minutes_and_says_so(changed: dict[str, Any], says: str) -> None:
    with world() as here, spoken(here, lifetime="1h", settings=changed):
        assert set(markers(here.bodies[-1])) == {None}
        assert says in " ".join(asides(here))


def test_a_model_without_an_hour_gets_none() -> None:
    assert "no such lifetime" in against_long_lifetime("main", find("local-8k"), Settings())


@pytest.mark.spec("S6.4", "S8.2")
def test_an_account_that_turns_unwilling_changes_the_next_session_and_not_the_one_under_way() -> None:
    base = resolve([SettingsLayer("code", {**ALONE, "cache_lifetime": "1h"})]).settings
    source = FlagSource(base, in_memory({"long_lifetime_account": True}))
    source.refresh()
    with world() as here, spoken(here, source) as session:
        in_memory({"long_lifetime_account": False})
        source.refresh()
        assert not source.current().long_lifetime_account
        work(session, 1, output(), clock=here.clock)
        assert set(markers(here.bodies[-1])) == {"1h"}
        with spoken(here, source):
            assert set(markers(here.bodies[-1])) == {None}


def test_what_was_decided_holds_for_the_session_however_it_is_resumed(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here:
        with here.open(file, lifetime="1h") as session:
            session.user("begin")
            work(session, 2, output(times=300), clock=here.clock)
        with here.open(file, settings={"long_lifetime": False}) as session:
            work(session, 1, output(), clock=here.clock)
            assert set(markers(here.bodies[-1])) == {"1h"}


@pytest.mark.spec("S6.4", "S6.7")
@pytest.mark.parametrize("source", ["compact", "session_memory", "dream"])
def test_a_fork_repeats_the_lifetimes_of_its_session_whatever_its_own_source(source: str) -> None:
    with world() as here, spoken(here, lifetime="1h") as session:
        session.complete()
        parent = json.loads(here.bodies[-1])
        fork = session.fork(source)
        fork.user("in short?")
        drive(fork.turn(), client_of(here.sdk))
        asked = json.loads(here.bodies[-1])
        assert (asked["system"], asked["tools"]) == (parent["system"], parent["tools"])
        assert set(markers(here.bodies[-1])) == {"1h"}


def test_a_provider_that_refuses_an_hour_gets_five_minutes_for_the_rest_of_the_session(
    tmp_path: Path,
) -> None:
    file = tmp_path / "s.jsonl"
    with world(setup=REFUSES) as here:
        with here.open(file, lifetime="1h") as session:
            session.user("begin")
            work(session, 3, output(times=300), clock=here.clock)
            asked = [request for request in here.simulator.requests if request.path == "/v1/messages"]
            assert [request.status for request in asked] == [400, 200, 200, 200]
            assert set(markers(here.bodies[-1])) == {None}
            assert "five minutes for the rest of the session" in " ".join(asides(here))
            assert "the provider refused the long lifetime" in [
                one.reason for one in here.told(EpochOpened)
            ]
        with here.open(file, lifetime="1h") as session:
            work(session, 1, output(), clock=here.clock)
            assert here.simulator.requests[-1].status == 200


def test_reasoning_stays_when_the_lifetime_is_refused_in_mid_session(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world() as here, here.open(file, lifetime="1h") as session:
        session.user("begin")
        work(session, 2, output(times=300), clock=here.clock)
        here.simulator.setup = REFUSES
        work(session, 1, output(), clock=here.clock)
        assert here.bodies[-1].count(b'"type":"thinking"') == 2
        epochs = [one for one in session.conversation.transcript.view.decisions() if isinstance(one, Epoch)]
        assert not epochs[-1].drops_thinking


def test_another_refusal_is_not_taken_for_one_of_the_lifetime() -> None:
    with world() as here, here.session(lifetime="1h", fields={"nonsense": 1}) as session:
        session.user("begin")
        with pytest.raises(RequestRefused):
            session.complete()
        assert len(here.simulator.requests) == 1


@pytest.mark.spec("S17.9")
@pytest.mark.parametrize("reason", ["compaction", "undo"])
def test_over_the_quota_a_new_epoch_asks_for_five_minutes_and_the_old_one_stays_as_it_is(
    reason: str,
) -> None:
    within = [True]
    with world() as here, spoken(here, lifetime="1h", within_quota=lambda: within[0]) as session:
        within[0] = False
        work(session, 2, output(times=300), clock=here.clock)
        assert set(markers(here.bodies[-1])) == {"1h"}, "the epoch goes on as it began"
        session.compact(engine="extractive")
        if reason == "undo":
            session.undo()
        session.user("go on")
        work(session, 1, output(), clock=here.clock)
        assert set(markers(here.bodies[-1])) == {None}
        assert len([told for told in asides(here) if "over its quota" in told]) == 1
        within[0] = True
        work(session, 1, output(), clock=here.clock)
        assert set(markers(here.bodies[-1])) == {None}, "nor does it change back"


@pytest.mark.spec("S17.9")
def test_over_the_quota_a_new_session_asks_for_five_minutes_and_says_so() -> None:
    with world() as here, spoken(here, lifetime="1h", within_quota=lambda: False):
        assert set(markers(here.bodies[-1])) == {None}
        assert "over its quota" in " ".join(asides(here))


@pytest.mark.spec("S17.9")
def test_a_quota_that_cannot_be_asked_counts_as_used_up_and_stops_nothing() -> None:
    def broken() -> bool:
        raise OSError("no such host")

    with world() as here, spoken(here, lifetime="1h", within_quota=broken):
        assert set(markers(here.bodies[-1])) == {None}
        assert "no such host" in " ".join(asides(here))


@pytest.mark.spec("S17.9")
@pytest.mark.parametrize("allowed", [True, False])
def test_on_bedrock_an_hour_is_asked_for_only_where_the_setting_allows_it(allowed: bool) -> None:
    options = RequestOptions(BOUND, 1_000, lifetimes=Lifetimes("1h", "1h"), bedrock=True)
    settings = Settings(long_lifetime_bedrock=allowed)
    lifetimes, against = lifetimes_for(options, find(BOUND), settings)
    assert (lifetimes == Lifetimes("1h", "1h")) is allowed
    assert ("long_lifetime_bedrock" in against) is not allowed


@pytest.mark.spec("S17.9")
def test_a_client_for_bedrock_is_recognised() -> None:
    client = anthropic.AnthropicBedrock(
        aws_access_key="key", aws_secret_key="secret", aws_region="eu-west-1"
    )
    options: Any = {"model": BOUND, "client": client, "lifetime": "1h", "max_tokens": 1_000}
    with sevenfold.Session.in_memory(**options, settings=ALONE) as session:
        assert session.conversation.epoch.lifetimes == Lifetimes()
    with sevenfold.Session.in_memory(
        **options, settings={**ALONE, "long_lifetime_bedrock": True}
    ) as session:
        assert session.conversation.epoch.lifetimes == Lifetimes("1h", "1h")
