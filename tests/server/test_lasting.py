"""What survives the death of a server, and how it ends when it is asked to."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sevenfold import Session
from sevenfold.doors.server.account_databases import open_accounts
from sevenfold.doors.server.accounts import Caller, Tenant
from sevenfold.doors.server.client import ServerClient
from sevenfold.doors.server.definition import SayBody
from sevenfold.doors.server.live import SessionKey, Standing
from sevenfold.doors.server.options import ServerLimits
from sevenfold.doors.server.problems import Problem
from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply, ScriptedBrain, text
from sevenfold.lab.simulator.provider import Simulator
from sevenfold.lab.simulator.server import serve
from tests.server.serving import WEATHER, events_of, lasting, names_of, process, scripted, served, weather


class Gate:
    """Answers only when it is let; the first requests are let at once."""

    def __init__(self, free: int = 0, reply: Any = None) -> None:
        self.asked = threading.Event()
        self.let = threading.Event()
        self.requests = 0
        self._free = free
        self._reply = reply or (lambda number: [text(f"Answer {number}.")])

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        self.requests += 1
        number = self.requests
        if number > self._free:
            self.asked.set()
            assert self.let.wait(60)
        return ModelReply(self._reply(number))


def token_in(folder: Path) -> str:
    accounts = open_accounts(folder / "home" / "server")
    accounts.keep_tenant(Tenant("acme"))
    token = accounts.make_token("acme")
    accounts.close()
    return token


@pytest.mark.spec("S36.4", "S36.9")
def test_a_server_killed_between_a_call_and_its_result_loses_nothing(
    tmp_path: Path, unused_port: int
) -> None:
    token = token_in(tmp_path)
    play = Simulator(ScriptedBrain([[weather("c1"), weather("c2", "Oslo")], "Sun and snow."]))
    arguments = ("--port", str(unused_port), "--idle-seconds", "600")
    headers = {"Authorization": f"Bearer {token}"}
    url = f"http://127.0.0.1:{unused_port}"
    with serve(play) as provider, httpx2.Client(base_url=url, headers=headers, timeout=60) as http:
        with process(tmp_path, provider, *arguments) as running:
            http.post("/v1/sessions", json={"id": "s", "memory": False, "tools": [WEATHER]})
            asked = http.post("/v1/sessions/s/say", json={"text": "Weather?", "wait": True}).json()
            one = {"results": [{"id": "c2", "content": "snow"}]}
            assert http.post("/v1/sessions/s/results", json=one).json()["status"] == "input_required"
            before = lasting(http.get("/v1/sessions/s/events?until=idle").text)
            running.send_signal(signal.SIGKILL)
            running.wait()
        with process(tmp_path, provider, *arguments) as running:
            again = http.get("/v1/sessions/s").json()
            assert again["status"] == "input_required"
            assert again["waiting"] == asked["waiting"][:1]
            assert lasting(http.get("/v1/sessions/s/events?until=idle").text) == before
            rest = {"results": [{"id": "c1", "content": "sun"}], "wait": True}
            assert http.post("/v1/sessions/s/results", json=rest).json()["run"]["text"] == "Sun and snow."
            told = lasting(http.get("/v1/sessions/s/events?until=idle").text)
            assert told[: len(before)] == before
    [first, second] = [request.body for request in play.requests if request.path == "/v1/messages"]
    assert second["messages"][: len(first["messages"])][0]["role"] == "user"
    results = {block["tool_use_id"]: block["content"] for block in second["messages"][-1]["content"]}
    assert results == {"c1": "sun", "c2": "snow"}


@pytest.mark.spec("S36.9")
def test_a_run_whose_server_was_killed_goes_on_with_the_next_one(tmp_path: Path, unused_port: int) -> None:
    token = token_in(tmp_path)
    gate = Gate()
    with serve(Simulator(gate)) as provider:
        url = f"http://127.0.0.1:{unused_port}"
        with ServerClient(url, token) as server:
            with process(tmp_path, provider, "--port", str(unused_port)) as running:
                session = server.create("s", memory=False)
                told = session.say("Think.", key="m1")
                assert gate.asked.wait(60)
                running.send_signal(signal.SIGKILL)
                running.wait()
            gate.let.set()
            with process(tmp_path, provider, "--port", str(unused_port)):
                # The stream was begun on the server that died, and goes on with the next one.
                names = [event.name for event in told]
                assert "answer" in names
                assert session.describe()["status"] == "idle"
                assert [event.name for event in session.events()].count("user") == 1


@pytest.mark.spec("S36.9")
def test_a_signal_lets_runs_end_and_refuses_new_ones(tmp_path: Path, unused_port: int) -> None:
    token = token_in(tmp_path)
    gate = Gate()
    with serve(Simulator(gate)) as provider:
        headers = {"Authorization": f"Bearer {token}"}
        with (
            process(tmp_path, provider, "--port", str(unused_port)) as running,
            httpx2.Client(base_url=f"http://127.0.0.1:{unused_port}", headers=headers, timeout=60) as http,
        ):
            http.post("/v1/sessions", json={"id": "s", "memory": False})
            http.post("/v1/sessions", json={"id": "t", "memory": False})
            accept = {"Accept": "text/event-stream"}
            with http.stream(
                "POST", "/v1/sessions/s/say", json={"text": "Think."}, headers=accept
            ) as stream:
                assert gate.asked.wait(60)
                running.send_signal(signal.SIGTERM)
                while True:
                    ready = http.get("/readyz")
                    if ready.status_code == 503:
                        break
                late = http.post("/v1/sessions/t/say", json={"text": "Late?"})
                assert (late.status_code, late.json()["error"]["type"]) == (503, "server_stopping")
                gate.let.set()
                names = names_of("".join(stream.iter_text()))
            assert running.wait() == 0
        assert names.count("ended") == 1
        assert any("Answer 1." in log.read_text() for log in tmp_path.rglob("*.jsonl"))


@pytest.mark.spec("S36.9")
def test_a_run_that_takes_too_long_is_paused_and_goes_on_with_the_next_server(tmp_path: Path) -> None:
    double_calls = [{"type": "tool_use", "id": "c1", "name": "double", "input": {"number": 4}}]
    steps = {1: double_calls}
    gate = Gate(reply=lambda number: steps.get(number, [text("Eight.")]))

    def double(number: int) -> int:
        """Doubles."""
        return 2 * number

    limits = ServerLimits(drain_seconds=0.0)
    with served(tmp_path, gate, tools={"double": double}, limits=limits) as here:
        http = here.http()
        http.post("/v1/sessions", json={"id": "s", "memory": False, "server_tools": ["double"]})
        http.post("/v1/sessions/s/say", json={"text": "Double 4."})
        assert gate.asked.wait(60)
        here.server.stop()
        with suppress(httpx2.HTTPError):  # it may have ended already
            while http.get("/readyz").status_code != 503:
                pass
        gate.let.set()
    with served(tmp_path, gate, tools={"double": double}) as here:
        http = here.http()
        told = events_of(http.get("/v1/sessions/s/events?until=idle").text)
        names = [name for _, name, _ in told]
        assert [data["text"] for _, name, data in told if name == "answer"] == ["Eight."]
        assert names.count("tool_result") == 1
    assert gate.requests == 2


@pytest.mark.spec("S36.9")
def test_a_paused_run_is_work_for_whoever_asks_before_the_next_server_goes_on_with_it(
    tmp_path: Path,
) -> None:
    gate = Gate()
    with served(tmp_path, gate, limits=ServerLimits(drain_seconds=0.0)) as here:
        http = here.http()
        http.post("/v1/sessions", json={"id": "s", "memory": False, "server_tools": []})
        http.post("/v1/sessions/s/say", json={"text": "Think."})
        assert gate.asked.wait(60)
        here.accounts.begin_run("acme", "", "left")
        # As the run of a server that was killed: nobody carries it out, and what was said is on record.
        key = SessionKey("acme", "", "left")
        caller = Caller(Tenant("acme"), "")
        sessions = here.server.sessions
        definition = sessions.stored.definition_of(SessionKey("acme", "", "s"))
        assert sessions.stored.create(key, definition, caller)
        with Session.open(
            "left", model=definition.model, store=sessions.stored.store_of("acme", "")
        ) as left:
            left.user("Think, too.")

        async def open_before_it_is_adopted() -> Standing:
            async with sessions.open.using(key, None) as live:
                return live.standing()

        opening = asyncio.run_coroutine_threadsafe(open_before_it_is_adopted(), sessions.loop)
        assert opening.result(60).status == "working"
        busy = http.post("/v1/sessions/left/say", json={"text": "And?"})
        assert (busy.status_code, busy.json()["error"]["type"]) == (409, "session_working")
        gate.let.set()
        told = names_of(http.get("/v1/sessions/left/events?until=idle").text)
        assert told[-2:] == ["ended", "status"]


@pytest.mark.spec("S36.9")
def test_a_stream_that_looks_while_a_run_ends_still_tells_its_end(tmp_path: Path) -> None:
    gate = Gate()
    limits = ServerLimits(requests=8, drain_seconds=5)
    with served(tmp_path, gate, limits=limits) as here, ThreadPoolExecutor(1) as reader:
        http = here.http()
        http.post("/v1/sessions", json={"id": "s", "memory": False})
        stream = reader.submit(_say_and_read, http)
        assert gate.asked.wait(60)
        sessions = here.server.sessions
        free = threading.Event()

        async def take_all_threads() -> None:
            await asyncio.gather(*(sessions.in_thread(free.wait) for _ in range(limits.requests)))

        # The stream can look what the session is doing only when a thread is free: after the run has ended.
        taking = asyncio.run_coroutine_threadsafe(take_all_threads(), sessions.loop)
        while sessions.threads.limiter.available_tokens:
            time.sleep(0)
        gate.let.set()
        while sessions.runs.run_of(SessionKey("acme", "", "s")) is not None:
            time.sleep(0)
        free.set()
        taking.result(60)
        assert names_of(stream.result(60))[-2:] == ["ended", "status"]


def _say_and_read(http: httpx2.Client) -> str:
    headers = {"Accept": "text/event-stream"}
    return http.post("/v1/sessions/s/say", json={"text": "Think."}, headers=headers).text


@pytest.mark.spec("S36.9")
def test_an_idle_session_is_closed_so_that_another_server_can_open_it(tmp_path: Path) -> None:
    with served(tmp_path, scripted("One.")) as first:
        http = first.http()
        http.post("/v1/sessions", json={"id": "s", "memory": False})
        http.post("/v1/sessions/s/say", json={"text": "x", "wait": True})
        with served(tmp_path, scripted("Two.")) as second:
            elsewhere = second.http(token=first.token)
            held = elsewhere.post("/v1/sessions/s/say", json={"text": "y"})
            assert (held.status_code, held.json()["error"]["type"]) == (409, "session_open_elsewhere")
            assert held.headers["retry-after"]
            # What is recorded can be read everywhere.
            read = elsewhere.get("/v1/sessions/s/events?until=idle")
            assert "One." in read.text
            assert elsewhere.get("/v1/sessions/s").json()["status"] == "idle"
    with served(
        tmp_path, scripted("Two."), limits=ServerLimits(idle_seconds=0.0, drain_seconds=5)
    ) as second:
        http = second.http()
        said = http.post("/v1/sessions/s/say", json={"text": "y", "wait": True}).json()
        assert said["run"]["text"] == "Two."


KEY = SessionKey("acme", "", "s")


@pytest.mark.spec("S36.13")
def test_a_session_whose_run_begins_while_it_is_to_be_erased_is_not_erased(tmp_path: Path) -> None:
    gate = Gate()
    with served(tmp_path, gate) as here:
        http = here.http()
        http.post("/v1/sessions", json={"id": "s", "memory": False})
        sessions = here.server.sessions

        async def begin_during_an_erasure() -> None:
            async with sessions.open.using(KEY, Caller(Tenant("acme"), "")) as live:
                erasing = asyncio.create_task(sessions.open.erase(KEY))
                await asyncio.sleep(0)  # Now the erasure waits for the session.
                await sessions.in_thread(partial(live.say, SayBody("Think."), "m1"))
                run = await sessions.runs.start(live)
            try:
                with pytest.raises(Problem, match="interrupt it first"):
                    await erasing
            finally:
                gate.let.set()
                await run.done

        asyncio.run_coroutine_threadsafe(begin_during_an_erasure(), sessions.loop).result(60)
        assert http.get("/v1/sessions/s").json()["status"] == "idle"
        assert http.delete("/v1/sessions/s").status_code == 204


@pytest.mark.spec("S36.13")
def test_a_run_that_is_not_taken_as_a_job_leaves_its_session_free_and_due(tmp_path: Path) -> None:
    with served(tmp_path, scripted("One.")) as here:
        http = here.http()
        http.post("/v1/sessions", json={"id": "s", "memory": False})
        sessions = here.server.sessions
        sessions.runs.jobs.close()
        refused = http.post("/v1/sessions/s/say", json={"text": "Think."})
        assert (refused.status_code, refused.json()["error"]["type"]) == (409, "not_now")
        assert sessions.runs.run_of(KEY) is None
        live = sessions.open.live(KEY)
        assert live is not None
        assert not live.working
    with served(tmp_path, scripted("One.")) as here:
        told = here.http().get("/v1/sessions/s/events?until=idle").text
        assert [data["text"] for _, name, data in events_of(told) if name == "answer"] == ["One."]


@pytest.mark.spec("S36.13")
def test_a_full_server_closes_the_idle_session_that_was_used_longest_ago_of_those_nobody_uses(
    tmp_path: Path,
) -> None:
    with served(
        tmp_path, scripted(*["Yes."] * 9), limits=ServerLimits(sessions=2, drain_seconds=5)
    ) as here:
        http = here.http()
        for name in ("s", "b", "c"):
            http.post("/v1/sessions", json={"id": name, "memory": False})
        sessions = here.server.sessions
        held = threading.Event()

        async def hold(free: asyncio.Event) -> None:
            async with sessions.open.using(KEY, None):
                held.set()
                await free.wait()

        free = asyncio.Event()
        holding = asyncio.run_coroutine_threadsafe(hold(free), sessions.loop)
        assert held.wait(60)
        for name in ("b", "c", "b"):
            answered = http.post(f"/v1/sessions/{name}/say", json={"text": "x", "wait": True})
            assert answered.status_code == 200
            is_open = sessions.open.live(SessionKey("acme", "", name)) is not None
            assert is_open
        sessions.loop.call_soon_threadsafe(free.set)
        holding.result(60)
        assert sessions.open.live(KEY) is not None


@pytest.mark.spec("S36.13")
def test_requests_that_open_sessions_at_the_same_time_do_not_exceed_the_limit(tmp_path: Path) -> None:
    with served(tmp_path, scripted("Yes."), limits=ServerLimits(sessions=2, drain_seconds=5)) as here:
        names = ("a", "b", "c")
        for name in names:
            here.http().post("/v1/sessions", json={"id": name, "memory": False})
        sessions = here.server.sessions

        async def use(name: str, decided: asyncio.Barrier) -> str:
            try:
                async with sessions.open.using(SessionKey("acme", "", name), None):
                    await decided.wait()
                    return "opened"
            except Problem as problem:
                await decided.wait()
                return problem.kind

        async def use_all() -> list[str]:
            decided = asyncio.Barrier(len(names))
            return await asyncio.gather(*(use(name, decided) for name in names))

        outcomes = asyncio.run_coroutine_threadsafe(use_all(), sessions.loop).result(60)
        assert sorted(outcomes) == ["opened", "opened", "server_full"]
        answered = here.http().post("/v1/sessions/c/say", json={"text": "x", "wait": True})
        assert answered.status_code == 200
