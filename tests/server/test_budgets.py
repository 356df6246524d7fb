"""What models cost is within the budgets, whatever is asked at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.doors.server.accounts import NANO, SpendingLimit, Tenant
from sevenfold.doors.server.budget import most_nano
from sevenfold.doors.server.options import ServerLimits
from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.profiles import find
from sevenfold.record.usage import Usage
from tests.server.serving import MODEL, scripted, served

SPENDERS = 50


def billed(simulator: Any) -> float:
    """What the provider would bill, by its own count."""
    total = 0.0
    for request in simulator.requests:
        if request.usage is not None and request.path == "/v1/messages":
            total += Usage.of(request.usage).cost(find(MODEL)) or 0.0
    return total


@pytest.mark.spec("S36.6")
def test_fifty_concurrent_spenders_stay_within_the_budgets_of_tenant_and_user(tmp_path: Path) -> None:
    answers = ScriptedBrain(lambda prompt: "word " * 400)
    tenant = Tenant("acme", SpendingLimit(0.4), SpendingLimit(0.2))
    limits = ServerLimits(runs=SPENDERS, tenant_runs=SPENDERS, drain_seconds=5)
    with served(tmp_path, answers, tenant=tenant, limits=limits) as here:

        def spend(number: int) -> Any:
            http = here.http(f"user{number % 3}")
            path = f"/v1/sessions/s{number}"
            http.post("/v1/sessions", json={"id": f"s{number}", "memory": False, "max_tokens": 1_000})
            return http.post(f"{path}/say", json={"text": "Write.", "wait": True}).json()["run"]

        with ThreadPoolExecutor(SPENDERS) as threads:
            runs = list(threads.map(spend, range(SPENDERS)))
        refused = [run for run in runs if run["end"] == "failed"]
        assert {run["error"]["type"] for run in refused} == {"budget_spent"}
        assert len([run for run in runs if run["end"] == "done"]) >= 5
        assert refused
        paid = billed(here.simulator)
        [whole, own] = here.http("user0").get("/v1/usage").json()["usage"]
        assert paid == pytest.approx(whole["spent_usd"])
        assert whole["spent_usd"] <= 0.4
        assert own["spent_usd"] <= 0.2
        assert (whole["reserved_usd"], own["reserved_usd"]) == (0, 0)


@pytest.mark.spec("S36.6")
def test_a_spent_budget_is_said_and_more_of_it_lets_the_session_go_on(tmp_path: Path) -> None:
    with served(tmp_path, scripted("Hello."), tenant=Tenant("acme", SpendingLimit(0.001))) as here:
        http = here.http()
        http.post("/v1/sessions", json={"id": "s", "memory": False})
        run = http.post("/v1/sessions/s/say", json={"text": "Hi.", "wait": True}).json()["run"]
        assert (run["end"], run["error"]["type"]) == ("failed", "budget_spent")
        assert "the budget of this tenant is $0.00" in run["error"]["message"]
        assert len(here.simulator.requests) == len(
            [r for r in here.simulator.requests if r.method == "GET"]
        )
        here.accounts.keep_tenant(Tenant("acme", SpendingLimit(5.0)))
        again = http.post("/v1/sessions/s/continue", json={"wait": True}).json()
        assert again["run"]["text"] == "Hello."
        assert "budget_refusals_total 1" in http.get("/metrics").text


@pytest.mark.spec("S36.6")
def test_a_model_without_a_price_has_no_place_in_a_budget(tmp_path: Path) -> None:
    models = (MODEL, "some-local-model")
    with served(tmp_path, scripted(), models=models, tenant=Tenant("acme", SpendingLimit(5.0))) as here:
        made = here.http().post("/v1/sessions", json={"model": "some-local-model"})
        assert made.status_code == 400
        assert "no budget can be kept" in made.json()["error"]["message"]
        free = here.http(token=here.tenant("free"))
        assert free.post("/v1/sessions", json={"model": "some-local-model"}).status_code == 201


@pytest.mark.spec("S36.6")
@given(st.text(max_size=400), st.integers(1, 5_000))
def test_no_answer_costs_more_than_was_reserved(text: str, answer: int) -> None:
    """One token for each byte is more than any tokenizer makes, and all of the answer's are used."""
    body = msgspec.json.encode({"model": MODEL, "max_tokens": answer, "messages": [text]})
    usage = Usage(input_tokens=0, cache_creation_1h=len(body), output_tokens=answer)
    cost = usage.cost(find(MODEL))
    most = most_nano(body)
    assert cost is not None
    assert most is not None
    assert cost * NANO <= most


@pytest.mark.spec("S36.6")
def test_a_call_that_fails_is_settled_by_what_it_cost(tmp_path: Path) -> None:
    from sevenfold.lab.simulator.faults import Fault

    with served(tmp_path, scripted("Hello."), tenant=Tenant("acme", SpendingLimit(5.0))) as here:
        http = here.http()
        http.post("/v1/sessions", json={"id": "s", "memory": False})
        here.simulator.faults.then(Fault("overloaded"))
        run = http.post("/v1/sessions/s/say", json={"text": "Hi.", "wait": True}).json()["run"]
        assert run["text"] == "Hello."
        [whole, _] = http.get("/v1/usage").json()["usage"]
        assert whole["spent_usd"] == pytest.approx(billed(here.simulator))
        assert whole["reserved_usd"] == 0
