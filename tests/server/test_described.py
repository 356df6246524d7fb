"""The OpenAPI document, the metrics, the client, the commands, and the page on the server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from sevenfold.cli.main import main
from sevenfold.doors.server.accounts import SpendingLimit, Tenant
from sevenfold.doors.server.async_client import AsyncServerClient
from sevenfold.doors.server.client import ServerClient, ServerError
from sevenfold.doors.server.openapi import document
from sevenfold.doors.server.routes import Api
from sevenfold.errors import InputError
from sevenfold.lab.simulator.brains import EchoBrain, ModelPrompt, ModelReply, text, tool_use
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from tests.server.serving import KEY, MODEL, WEATHER, scripted, served, weather

PAGE = Path(__file__).parents[2] / "docs" / "server.md"


# -- the document --------------------------------------------------------------------------------


def schema_of(method: str, path: str, status: int) -> Any:
    described = document()
    answer = described["paths"][path][method]["responses"][str(status)]
    if "$ref" in answer:
        answer = described["components"]["responses"]["Problem"]
    content = answer.get("content", {}).get("application/json")
    return None if content is None else {**content["schema"], "components": described["components"]}


@pytest.mark.spec("S36.10")
def test_the_document_has_every_route_and_no_other(tmp_path: Path) -> None:
    with served(tmp_path, EchoBrain()) as here:
        routes = Api(here.server.sessions, here.server.metrics).routes()
        served_document = here.http().get("/openapi.json").json()
    real = {
        (re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path), method)
        for route in routes
        for method in route.methods or ()
    }
    described = {
        (path, method.upper())
        for path, item in document()["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert real - {(path, "HEAD") for path, _ in real} == described
    assert served_document == document()
    references = re.findall(r'"#/components/(\w+)/([\w-]+)"', json.dumps(document()))
    assert all(name in document()["components"][kind] for kind, name in references)


@pytest.mark.spec("S36.10")
def test_answers_are_as_the_document_says(tmp_path: Path) -> None:
    with served(tmp_path, scripted([weather("c1")], "Sun.", "More.")) as here:
        http = here.http()
        one = "/v1/sessions/{id}"
        made = {"id": "s", "memory": False, "tools": [WEATHER]}
        results = {"results": [{"id": "c1", "content": "sun"}], "wait": True}
        steps: list[tuple[str, str, Any]] = [
            ("get", "/healthz", None),
            ("get", "/readyz", None),
            ("get", "/v1/usage", None),
            ("post", "/v1/sessions", made),
            ("post", "/v1/sessions", made),
            ("get", one, None),
            ("post", f"{one}/say", {"text": "Rome?", "wait": True}),
            ("post", f"{one}/say", {"text": "More?"}),
            ("post", f"{one}/results", results),
            ("post", f"{one}/continue", {}),
            ("get", one, None),
            ("get", "/v1/sessions", None),
            ("get", f"{one}/recall?query=Rome", None),
            ("post", f"{one}/interrupt", {}),
            ("post", f"{one}/compact", {}),
            ("post", f"{one}/undo", {}),
            ("get", "/v1/memory", None),
            ("get", "/v1/memory/{name}", None),
            ("delete", one, None),
            ("get", one, None),
            ("post", f"{one}/say", {"text": 3}),
        ]
        for method, path, body in steps:
            filled = path.replace("{id}", "s").replace("{name}", "project/none")
            answer = http.request(method, filled, json=body)
            schema = schema_of(method, path.partition("?")[0], answer.status_code)
            if schema is not None:
                jsonschema.validate(answer.json(), schema)
                assert set(answer.json()) <= set(_properties(schema)), (path, answer.json())


def _properties(schema: Any) -> Any:
    """The properties of an answer, with those of a definition."""
    name = schema["$ref"].rpartition("/")[2]
    named = schema["components"]["schemas"]
    properties = dict(named[name]["properties"])
    return {**properties, **named["CreateBody"]["properties"]} if name == "Session" else properties


# -- metrics -------------------------------------------------------------------------------------


@pytest.mark.spec("S36.11")
def test_metrics_tell_what_happened_and_name_nobody(tmp_path: Path) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with served(tmp_path, scripted("Hello."), tenant=Tenant("acme-secret", SpendingLimit(5.0))) as here:
        here.server.metrics.instruments(provider.get_meter("sevenfold.server"))
        http = here.http("ann-secret")
        http.post("/v1/sessions", json={"id": "session-secret", "memory": False})
        http.post("/v1/sessions/session-secret/say", json={"text": "Hi.", "wait": True})
        http.get("/nowhere")
        told = http.get("/metrics")
        collected = json.loads(reader.get_metrics_data().to_json())  # type: ignore[union-attr]
    provider.shutdown()
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = told.text.splitlines()
    assert 'sevenfold_server_runs_total{end="done"} 1' in lines
    assert f'sevenfold_server_model_calls_total{{model="{MODEL}"}} 1' in lines
    assert "sevenfold_server_sessions_open 1" in lines
    assert 'sevenfold_server_refusals_total{type="no_such_address"} 1' in lines
    assert 'sevenfold_server_requests_total{route="/v1/sessions/{id}/say",status="200"} 1' in lines
    assert "sevenfold_server_run_seconds_count 1" in lines
    assert "secret" not in told.text
    for line in lines:
        assert re.fullmatch(r"# (HELP|TYPE) \w+ .+|\w+(\{(\w+=\"[^\"]*\",?)+\})? [0-9.e+-]+", line), line
    metrics = {
        metric["name"]: metric["data"]["data_points"]
        for scope in collected["resource_metrics"][0]["scope_metrics"]
        for metric in scope["metrics"]
    }
    assert metrics["sevenfold.server.runs"][0]["value"] == 1
    assert metrics["sevenfold.server.sessions_open"][0]["value"] == 1
    assert "secret" not in json.dumps(collected)


# -- the client ----------------------------------------------------------------------------------


@pytest.mark.spec("S36.12")
def test_the_client_does_all_that_the_server_offers(tmp_path: Path) -> None:
    play = scripted([weather("c1")], "Sun.", [weather("c2")], "It failed.", "Third.")
    with served(tmp_path, play) as here:
        server = here.client("ann")
        session = server.create("s", tools=[WEATHER], memory=False)
        assert session.ask("Rome?", {"weather": lambda city: {"sky": city}}, key="m1") == "Sun."
        assert session.ask("Oslo?", {"weather": lambda town: ""}) == "It failed."
        told = list(session.events())
        weather_told, failure = (event.data["text"] for event in told if event.name == "tool_result")
        assert weather_told == '{"sky":"Rome"}'
        assert "TypeError" in failure
        assert [event.name for event in session.say("And?")][-2:] == ["answer", "ended"]
        assert session.describe()["status"] == "idle"
        assert session.interrupt() is False
        assert session.recall("Rome")
        assert b"Rome" in session.export()
        assert session.compact()["made"] in (True, False)
        assert [listed["id"] for listed in server.sessions(limit=5)] == ["s"]
        assert server.memory() == []
        assert server.usage()[0]["spent_usd"] > 0
        assert next(session.events(after=told[-1].id)).data["text"] == "And?"
        session.erase()
        with pytest.raises(ServerError) as missing:
            session.describe()
        assert (missing.value.status, missing.value.kind) == (404, "session_not_found")
        with pytest.raises(ServerError, match="no session"):
            server.session("t").ask("x")
        with pytest.raises(ServerError):
            server.remembered("project/none")
        with pytest.raises(ServerError):
            server.forget("project/none")


@pytest.mark.spec("S36.12")
def test_the_awaited_client_does_the_same(tmp_path: Path) -> None:
    async def talk(url: str, token: str) -> None:
        async with AsyncServerClient(url, token, user="ben") as server:
            session = await server.create("s", tools=[WEATHER], memory=False)
            assert await session.ask("Rome?", {"weather": lambda city: city}) == "Sun."
            names = [event.name async for event in session.events()]
            assert names[:4] == ["user", "tool_use", "tool_result", "answer"]
            assert [event.name async for event in session.say("And?")][-1] == "ended"
            assert (await session.describe())["status"] == "idle"
            assert await session.interrupt() is False
            assert await session.recall("Rome")
            assert b"Rome" in await session.export()
            assert (await session.compact())["made"] in (True, False)
            assert [listed["id"] for listed in await server.sessions()] == ["s"]
            assert await server.memory() == []
            assert (await server.usage())[1]["of"] == "user"
            for failing in (session.undo("x"), server.remembered("x"), server.forget("x")):
                with pytest.raises(ServerError):
                    await failing
            await session.erase()
            with pytest.raises(ServerError):
                await server.session("s").describe()

    with served(tmp_path, scripted([weather("c1")], "Sun.", "Third.")) as here:
        asyncio.run(talk(here.url, here.token))


@pytest.mark.spec("S36.12")
def test_a_run_that_failed_is_an_error_of_the_client(tmp_path: Path) -> None:
    with served(tmp_path, scripted(), tenant=Tenant("acme", SpendingLimit(0.0))) as here:
        session = here.client().create(memory=False)
        with pytest.raises(ServerError, match="budget") as failed:
            session.ask("Hi.")
        assert failed.value.kind == "budget_spent"


@pytest.mark.spec("S36.12")
def test_a_client_needs_an_address_and_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEVENFOLD_URL", "SEVENFOLD_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="SEVENFOLD_URL"):
        ServerClient()
    with pytest.raises(InputError, match="SEVENFOLD_TOKEN"):
        ServerClient("http://127.0.0.1:1")
    monkeypatch.setenv("SEVENFOLD_TOKEN", "x")
    with (
        ServerClient("http://127.0.0.1:1", patience=0.0) as nobody,
        pytest.raises(Exception, match="onnect"),
    ):
        nobody.sessions()


# -- commands and the page -----------------------------------------------------------------------


@pytest.mark.spec("S36.5")
def test_tenants_are_added_changed_and_removed_by_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def tenants(*arguments: str) -> str:
        code = main(["tenants", *arguments, "--store", str(tmp_path)])
        captured = capsys.readouterr()
        return captured.out if code == 0 else f"{code}: {captured.err}"

    assert "no tenants yet" in tenants()
    assert "added" in tenants("add", "acme", "--budget", "50/month")
    assert "changed" in tenants("add", "acme", "--user-budget", "2/day")
    token = tenants("token", "acme", "--label", "backend").strip()
    assert re.fullmatch(r"svf_[0-9a-f]{16}_[\w-]{43}", token)
    listed = tenants()
    assert "acme: $0.0000 spent of $50.00 a month, $2.00 a day for each user" in listed
    assert f"token {token[4:20]}, made" in listed
    assert "backend" in listed
    assert token[21:] not in listed
    assert tenants("revoke", token[4:20]) == "revoked\n"
    assert "no such token" in tenants("revoke", token[4:20])
    assert "budget is an amount" in tenants("add", "acme", "--budget", "much")
    assert "no tenant" in tenants("token", "nobody")
    assert "NAME" in tenants("add")
    assert "removed" in tenants("remove", "acme")
    assert "no tenant" in tenants("remove", "acme")
    assert "no tenant" in tenants("list", "acme")


@pytest.mark.spec("S36.8")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--store", "redis://x"), "in a folder or in PostgreSQL"),
        (("--tool", "none"), "no installed package has a tool 'none'"),
        (("--host", "203.0.113.1"), "cannot listen on 203.0.113.1"),
    ],
)
def test_what_cannot_be_served_is_said(
    arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *arguments]) == 2
    assert problem in capsys.readouterr().err


class Shop:
    """Answers as the page on the server shows it."""

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        last = prompt.messages[-1]["content"][-1]
        if last["type"] == "tool_result":
            return ModelReply([text("It is in Genoa.")])
        if "42" in prompt.last_text and any(tool["name"] == "parcel" for tool in prompt.tools):
            return ModelReply([tool_use("parcel", {"number": "42"}, "call_42")])
        return ModelReply([text("Which number does it have?")])


@pytest.mark.spec("S36.12")
def test_the_commands_of_the_page_work_as_they_are_printed(tmp_path: Path, unused_port: int) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    script = "\n".join(blocks).replace("localhost:7777", f"127.0.0.1:{unused_port}")
    # The server is started in the background, as a reader would in another window.
    script = re.sub(
        r"^(sevenfold serve .*?)( +#.*)?$",
        rf"exec 3< <(exec \1 --port {unused_port}); server=$!\n"
        "trap 'kill $server; wait $server' EXIT\nread -r begun <&3",
        script,
        flags=re.M,
    )
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SEVENFOLD_HOME": str(tmp_path),
        "ANTHROPIC_API_KEY": KEY,
    }
    with serve(Simulator(Shop())) as provider:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env={**environ, "ANTHROPIC_BASE_URL": provider},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    assert '"text":"Which number does it have?"' in done.stdout
    assert "event: answer" in done.stdout
    assert '"status":"input_required"' in done.stdout
    assert '"text":"It is in Genoa."' in done.stdout


@pytest.mark.spec("S36.12")
def test_the_page_names_every_type_of_error() -> None:
    page = PAGE.read_text(encoding="utf-8")
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in (PAGE.parents[1] / "src/sevenfold/doors/server").glob("*.py")
    )
    kinds = set(re.findall(r'(?:Problem\(\s*\d+,\s*|busy\(\s*)"(\w+)"', source))
    assert len(kinds) > 25
    assert {kind for kind in kinds if f"`{kind}`" not in page} == set()
