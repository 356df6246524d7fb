"""Several servers on one PostgreSQL."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.servers.postgres import OWNER
from sevenfold.doors.server.accounts import SpendingLimit, Tenant
from sevenfold.doors.server.options import ServerLimits
from sevenfold.lab.simulator.brains import EchoBrain, ModelPrompt, ModelReply, ScriptedBrain, text
from sevenfold.lab.simulator.provider import Simulator
from tests.server.serving import WEATHER, events_of, lasting, scripted, served, weather
from tests.stores.servers import postgres


@pytest.fixture
def store() -> str:
    return postgres().url(OWNER, lease="2")


@pytest.fixture
def tenant(tmp_path: Path) -> Tenant:
    """A tenant that no other test has: the database is one for all."""
    return Tenant(f"../t {tmp_path.name}")


@pytest.mark.spec("S36.9", "S36.3")
def test_what_one_server_leaves_another_one_goes_on_with(
    tmp_path: Path, store: str, tenant: Tenant
) -> None:
    with served(tmp_path / "a", scripted([weather("c1")]), store=store, tenant=tenant) as first:
        http = first.http("ann")
        http.post("/v1/sessions", json={"id": "s", "memory": False, "tools": [WEATHER]})
        asked = http.post("/v1/sessions/s/say", json={"text": "Rome?", "wait": True}).json()
        assert asked["status"] == "input_required"
        before = lasting(http.get("/v1/sessions/s/events?until=idle").text)
        with served(tmp_path / "b", scripted("Sun."), store=store, tenant=tenant) as second:
            elsewhere = second.http("ann", first.token)
            assert elsewhere.get("/v1/sessions/s").json()["waiting"] == asked["waiting"]
            assert lasting(elsewhere.get("/v1/sessions/s/events?until=idle").text) == before
            results = {"results": [{"id": "c1", "content": "sun"}], "wait": True}
            held = elsewhere.post("/v1/sessions/s/results", json=results)
            assert (held.status_code, held.json()["error"]["type"]) == (409, "session_open_elsewhere")
            first.server.stop()
            with second.client("ann", first.token) as client:
                # It tries again until the first server has let the session go.
                names = [event.name for event in client.session("s").results({"c1": "sun"})]
            assert "answer" in names
            rest = lasting(elsewhere.get("/v1/sessions/s/events?until=idle").text)
            assert rest[: len(before)] == before


@pytest.mark.spec("S36.3")
def test_a_stream_follows_a_session_that_works_on_another_server(
    tmp_path: Path, store: str, tenant: Tenant
) -> None:
    let = threading.Event()

    class Slow:
        """Answers only when it is let."""

        def reply(self, prompt: ModelPrompt) -> ModelReply:
            assert let.wait(60)
            return ModelReply([text("Late.")])

    with (
        served(tmp_path / "a", Slow(), store=store, tenant=tenant) as first,
        served(tmp_path / "b", EchoBrain(), store=store, tenant=tenant) as second,
    ):
        http = first.http()
        http.post("/v1/sessions", json={"id": "s", "memory": False})
        http.post("/v1/sessions/s/say", json={"text": "Think."})
        elsewhere = second.http()
        assert elsewhere.get("/v1/sessions/s").json()["status"] == "working"
        with elsewhere.stream("GET", "/v1/sessions/s/events?until=idle") as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("event:")) == "event: user"
            let.set()
            told = events_of("event: user\n" + "\n".join(lines))
        assert [data["text"] for _, name, data in told if name == "answer"] == ["Late."]


@pytest.mark.spec("S36.7")
def test_hostile_tenants_and_users_share_nothing_in_one_database(
    tmp_path: Path, store: str, tenant: Tenant
) -> None:
    names = [
        tenant.name,
        f"{tenant.name}'; DROP TABLE sevenfold.log; --",
        f"{tenant.name}/user:ann",
        f"{tenant.name}%",
    ]
    with served(tmp_path, EchoBrain(), store=store, tenant=tenant) as here:
        said: dict[tuple[str, str], str] = {}
        for name in names:
            token = here.tenant(name)
            for user in ("", "ann", "%27 OR 1=1"):
                http = here.http(user, token)
                http.post("/v1/sessions", json={"id": "s", "memory": False})
                secret = f"secret {len(said)} of this one"
                run = http.post("/v1/sessions/s/say", json={"text": secret, "wait": True}).json()["run"]
                assert run["end"] == "done"
                said[token, user] = secret
        for (token, user), secret in said.items():
            exported = here.http(user, token).get("/v1/sessions/s/export").text
            assert [other for other in said.values() if other in exported] == [secret]


@pytest.mark.spec("S36.6")
def test_spenders_on_two_servers_stay_within_one_budget(tmp_path: Path, store: str, tenant: Tenant) -> None:
    limited = Tenant(tenant.name, SpendingLimit(0.1))
    limits = ServerLimits(runs=20, tenant_runs=20, drain_seconds=5)
    provider = Simulator(ScriptedBrain(lambda prompt: "word " * 400))
    with (
        served(tmp_path / "a", provider, store=store, tenant=limited, limits=limits) as first,
        served(tmp_path / "b", provider, store=store, tenant=limited, limits=limits) as second,
    ):

        def spend(number: int) -> Any:
            http = (first, second)[number % 2].http()
            http.post("/v1/sessions", json={"id": f"s{number}", "memory": False, "max_tokens": 1_000})
            said = {"text": "Write.", "wait": True}
            return http.post(f"/v1/sessions/s{number}/say", json=said).json()["run"]["end"]

        with ThreadPoolExecutor(20) as threads:
            ends = list(threads.map(spend, range(20)))
        [whole, _] = second.http().get("/v1/usage").json()["usage"]
    assert set(ends) == {"done", "failed"}
    assert 0 < whole["spent_usd"] <= 0.1
    assert whole["reserved_usd"] == 0
