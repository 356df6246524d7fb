"""Runs of agents: carried out once for a key, by hand or as jobs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.loop import PAUSED
from sevenfold.errors import InputError, JobFailed, Overloaded
from sevenfold.jobs import Jobs, JobSpec
from sevenfold.providers.offline import OfflineClient, Script
from sevenfold.record.authorship import UserPrompt
from sevenfold.record.blocks import text_of
from sevenfold.stores.memory import MemoryStore

ROOT = Path(__file__).resolve().parents[2]
MODEL = "claude-sonnet-5-5"
Steps = list[Any]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def call(name: str, number: int = 1) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}]


class Shop:
    """Makes agents whose model plays one script, and keeps what it was asked."""

    def __init__(self, steps: Steps) -> None:
        self.script = Script(steps)
        self.asked: list[str] = []
        self.tools: list[Callable[[], str]] = []

    def make(self, **options: Any) -> sevenfold.Agent:
        return sevenfold.Agent(MODEL, **self._options(options))

    def make_async(self, **options: Any) -> sevenfold.AsyncAgent:
        client = sevenfold.AsyncOfflineClient(self.script)
        return sevenfold.AsyncAgent(MODEL, **{**self._options(options), "client": client})

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        defaults = {
            "system": "Be brief.",
            "settings": {"notes": False},
            "memory": False,
            "mode": "autonomous",
        }
        return {**defaults, "tools": self.tools, "client": OfflineClient(self.script), **options}


def texts_of(store: MemoryStore, session: str, branch: str = "") -> list[str]:
    """The texts of a session's messages, in order."""
    log = store.branch(session, branch) if branch else store.read(session)
    texts = [text_of(said.blocks) for said in log.said() if not said.meta]
    if branch:
        log.close()
    return texts[::-1]


@pytest.mark.spec("S35.5")
def test_a_run_with_a_key_is_carried_out_once() -> None:
    store, shop = MemoryStore(), Shop(["Three.", "Four."])
    for _ in range(3):
        with shop.make(name="s", store=store) as agent:
            finished = agent.run("How many?", key="first")
            assert (finished.end, finished.text, finished.turns) == ("done", "Three.", 1)
    with shop.make(name="s", store=store) as agent:
        assert agent.run("And now?", key="second").text == "Four."
        # The end of each run is its own, whatever was said since.
        assert agent.run("How many?", key="first").text == "Three."
    assert shop.script.unused == 0
    assert texts_of(store, "s") == ["How many?", "Three.", "And now?", "Four."]


@pytest.mark.spec("S35.5")
def test_without_a_key_the_same_words_are_said_twice() -> None:
    store, shop = MemoryStore(), Shop(["Three.", "Three."])
    with shop.make(name="s", store=store) as agent:
        for _ in range(2):
            agent.run("How many?")
    assert texts_of(store, "s") == ["How many?", "Three."] * 2


@pytest.mark.spec("S35.5")
def test_a_run_whose_end_was_not_recorded_is_ended_without_asking_again() -> None:
    store, shop = MemoryStore(), Shop(["Three."])
    with shop.make(name="s", store=store) as agent:
        agent.session.user("How many?", key="k")
        assert agent.session.complete().text == "Three."
    with shop.make(name="s", store=store) as agent:
        finished = agent.run("How many?", key="k")
    assert (finished.end, finished.text) == ("done", "Three.")
    assert texts_of(store, "s") == ["How many?", "Three."]


@pytest.mark.spec("S35.5")
def test_a_paused_run_goes_on_with_the_results_it_has() -> None:
    store, shop, calls = MemoryStore(), Shop([call("look"), "Fog."]), []

    def look() -> str:
        """Look out of the window."""
        calls.append("look")
        agent.pause()
        return "fog"

    shop.tools = [look]
    with shop.make(name="s", store=store) as agent:
        finished = agent.run("What do you see?", key="k")
        assert (finished.end, finished.detail) == ("interrupted", PAUSED)
    with shop.make(name="s", store=store) as agent:
        assert agent.run("What do you see?", key="k").text == "Fog."
    assert calls == ["look"]
    assert not any("interrupt" in text for text in texts_of(store, "s"))


@pytest.mark.spec("S35.5")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_run_that_was_killed_goes_on_where_its_log_ends(tmp_path: Path) -> None:
    script = """
        import os, signal
        import sevenfold
        from sevenfold.providers.offline import OfflineClient, Script

        def look() -> str:
            "Look out of the window."
            with open("looked", "a") as file:
                file.write("once\\n")
            return "fog"

        def die() -> str:
            "End everything."
            os.kill(os.getpid(), signal.SIGKILL)
            return ""

        def call(name):
            return [{"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": {}}]

        agent = sevenfold.Agent(
            "claude-sonnet-5-5", name="s", store="sessions", tools=[look, die], mode="autonomous", system="Be brief.",
            memory=False, client=OfflineClient(Script([call("look"), call("die")])), settings={"notes": False},
        )
        agent.run("What do you see?", key="k")
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL
    shop = Shop(["Fog."])
    with shop.make(name="s", store="sessions") as agent:
        assert agent.run("What do you see?", key="k").text == "Fog."
        assert sum(said.key == "k" for said in agent.session.conversation.transcript.log.said()) == 1
    assert (tmp_path / "looked").read_text() == "once\n"


@pytest.mark.spec("S35.5")
def test_an_interrupted_run_goes_on_and_one_at_its_limit_has_ended() -> None:
    store, shop = MemoryStore(), Shop([call("stop"), "Done after all.", call("look"), "never asked for"])

    def stop() -> str:
        """Interrupt."""
        agent.interrupt()
        return "stopping"

    def look() -> str:
        """Look."""
        return "fog"

    shop.tools = [stop, look]
    with shop.make(name="s", store=store) as agent:
        assert agent.run("Work.", key="k").end == "interrupted"
        assert agent.run("Work.", key="k").text == "Done after all."
    with shop.make(name="s", store=store, max_turns=1) as agent:
        for _ in range(2):
            assert agent.run("Look.", key="limited").end == "max_turns"
    assert shop.script.unused == 1


@pytest.mark.spec("S35.5")
def test_a_run_that_waits_for_the_programs_result_goes_on_with_it() -> None:
    store, shop = MemoryStore(), Shop([[*call("ask"), *call("look", 2)], "Fog, they say."])

    def look() -> str:
        """Look."""
        return "fog"

    ask = sevenfold.handed_over(
        {"name": "ask", "description": "Ask someone.", "input_schema": {"type": "object"}}
    )
    shop.tools = [ask, look]  # type: ignore[list-item]  # one of them is carried out here
    for _ in range(3):
        with shop.make(name="s", store=store) as agent:
            assert agent.run("What do they see?", key="k").end == "input_required"
    with shop.make(name="s", store=store) as agent:
        agent.session.tool_results({"toolu_1": "fog"})
        assert agent.run("What do they see?", key="k").text == "Fog, they say."
    assert shop.script.unused == 0


@pytest.mark.spec("S35.5")
def test_a_key_needs_a_prompt_to_begin_with() -> None:
    with (
        Shop([]).make(name="s", store=MemoryStore()) as agent,
        pytest.raises(InputError, match="nothing left to do"),
    ):
        agent.run(key="k")


# -- as jobs ---------------------------------------------------------------------------------------


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def shop() -> Shop:
    return Shop(["Three.", "Four."])


@pytest.fixture
def jobs(store: MemoryStore, shop: Shop) -> Iterator[Jobs]:
    agents: dict[str, Any] = {"counter": shop.make, "async counter": shop.make_async}
    with sevenfold.open_jobs(store, agents=agents) as opened:
        yield opened


@pytest.mark.spec("S35.6")
@pytest.mark.parametrize("agent", ["counter", "async counter"])
def test_a_submitted_run_is_carried_out_once_for_its_key(
    jobs: Any, store: MemoryStore, shop: Shop, agent: str
) -> None:
    runs = [
        sevenfold.Agent.submit("How many?", agent=agent, session="s", key="first", jobs=jobs)
        for _ in range(3)
    ]
    assert {run.result().text for run in runs} == {"Three."}
    later = sevenfold.Agent.submit("And now?", agent=agent, session="s", jobs=jobs)
    assert later.result(30.0).text == "Four."
    assert later.job.status == "succeeded"
    assert texts_of(store, "s") == ["How many?", "Three.", "And now?", "Four."]


@pytest.mark.spec("S35.6")
def test_a_submitted_run_can_be_awaited(jobs: Any) -> None:
    async def ask() -> str:
        run = sevenfold.AsyncAgent.submit("How many?", agent="counter", session="s", jobs=jobs)
        return (await run).text

    assert asyncio.run(ask()) == "Three."


@pytest.mark.spec("S35.6")
def test_a_run_in_a_fork_works_in_its_branch(jobs: Any, store: MemoryStore) -> None:
    sevenfold.Agent.submit("How many?", agent="counter", session="s", jobs=jobs).result()
    run = sevenfold.Agent.submit("And here?", agent="counter", session="s", branch="aside", jobs=jobs)
    assert run.result().text == "Four."
    assert texts_of(store, "s") == ["How many?", "Three."]
    assert texts_of(store, "s", "aside")[-2:] == ["And here?", "Four."]


@pytest.mark.spec("S35.6")
def test_each_tenant_has_sessions_of_its_own(shop: Shop) -> None:
    stores = {"": MemoryStore(), "acme": MemoryStore("acme")}
    with sevenfold.open_jobs(stores.__getitem__, agents={"counter": shop.make}) as jobs:
        for tenant in stores:
            run = sevenfold.Agent.submit(
                f"Of {tenant}", agent="counter", session="s", key="k", jobs=jobs.for_tenant(tenant)
            )
            run.result()
    assert texts_of(stores[""], "s") == ["Of ", "Three."]
    assert texts_of(stores["acme"], "s") == ["Of acme", "Four."]


@pytest.mark.spec("S35.6")
@pytest.mark.parametrize("name", ["nobody", "os:system", "tests.work.test_agent_runs:call"])
def test_no_job_can_name_other_code(jobs: Any, name: str) -> None:
    run = sevenfold.Agent.submit("How many?", agent=name, session="s", jobs=jobs)
    with pytest.raises(JobFailed, match=r"no agent is called .* known are async counter, counter"):
        run.result()


@pytest.mark.spec("S35.6")
def test_what_makes_no_sense_is_refused_at_once(jobs: Any) -> None:
    for given in ({"agent": ""}, {"session": ""}, {"prompt": ""}):
        options: Any = {"prompt": "How many?", "agent": "counter", "session": "s", **given}
        with pytest.raises(InputError, match="must be a non-empty string"):
            sevenfold.Agent.submit(jobs=jobs, **options)
    jobs.submit(JobSpec("run", key="odd", payload={"prompt": 1}, session="s"))
    assert "no run of an agent" in jobs.wait("odd").error


@pytest.mark.spec("S35.6")
def test_who_wrote_the_prompt_goes_along(jobs: Any, store: MemoryStore) -> None:
    prompt = UserPrompt("a page from the web", origin="program")
    sevenfold.Agent.submit(prompt, agent="counter", session="s", jobs=jobs).result()
    (said,) = [said for said in store.read("s").said() if said.role == "user"]
    assert said.origin == "program"


@pytest.mark.spec("S35.6")
def test_options_reach_the_function_that_makes_the_agent(store: MemoryStore) -> None:
    shop = Shop([call("look"), "never asked for"])
    shop.tools = [lambda: "fog"]
    shop.tools[0].__name__ = "look"
    shop.tools[0].__doc__ = "Look."
    with sevenfold.open_jobs(store, agents={"counter": shop.make}) as jobs:
        run = sevenfold.Agent.submit(
            "Look.", agent="counter", session="s", options={"max_turns": 1}, jobs=jobs
        )
        assert run.result().end == "max_turns"


@pytest.mark.spec("S35.3", "S35.6")
def test_cancelling_a_run_stops_its_tool_and_leaves_the_session_usable(store: MemoryStore) -> None:
    shop = Shop([call("wait"), "Later."])
    begun, pause = threading.Event(), threading.Event()

    def wait(context: sevenfold.Context) -> str:
        """Wait."""
        begun.set()
        while not context.abort.is_set():
            pause.wait(0.01)
        return "stopped"

    shop.tools = [wait]  # type: ignore[list-item]  # it takes the context
    with sevenfold.open_jobs(store, agents={"counter": shop.make}) as jobs:
        run = sevenfold.Agent.submit("Wait.", agent="counter", session="s", jobs=jobs)
        assert begun.wait(30)
        run.cancel()
        with pytest.raises(JobFailed, match="was cancelled"):
            run.result()
        later = sevenfold.Agent.submit("And now?", agent="counter", session="s", jobs=jobs)
        assert later.result().text == "Later."


@pytest.mark.spec("S35.5", "S35.6")
def test_a_run_that_was_handed_over_is_carried_on_by_whoever_gets_its_key(store: MemoryStore) -> None:
    shop, begun, go_on, looked = Shop([call("look"), "Fog."]), threading.Event(), threading.Event(), []

    def look() -> str:
        """Look."""
        looked.append("look")
        begun.set()
        go_on.wait(30)
        return "fog"

    shop.tools = [look]

    def submit(jobs: Any) -> sevenfold.SubmittedRun:
        return sevenfold.Agent.submit("Look.", agent="counter", session="s", key="k", jobs=jobs)

    first = sevenfold.open_jobs(store, agents={"counter": shop.make})
    run = submit(first)
    assert begun.wait(30)
    closing = threading.Thread(target=first.close)
    closing.start()
    go_on.set()
    closing.join()
    assert run.job.status == "waiting"
    with sevenfold.open_jobs(store, agents={"counter": shop.make}) as second:
        assert submit(second).result().text == "Fog."
    assert looked == ["look"]


@pytest.mark.spec("S35.6")
def test_every_event_of_every_run_can_be_watched(store: MemoryStore, shop: Shop) -> None:
    events: list[tuple[str, str]] = []

    def watch(running: Any, event: Any) -> None:
        events.append((running.job.key, type(event).__name__))

    with sevenfold.open_jobs(store, agents={"counter": shop.make}, watch=watch) as jobs:
        sevenfold.Agent.submit("How many?", agent="counter", session="s", key="k", jobs=jobs).result()
    assert ("k", "Piece") in events
    assert events[-1] == ("k", "Ended")


@pytest.mark.spec("S35.3")
def test_a_busy_provider_is_asked_again_by_the_next_attempt(store: MemoryStore) -> None:
    attempts: list[str] = []
    shop = Shop(["Three."])

    def make(**options: Any) -> sevenfold.Agent:
        attempts.append("made")
        if len(attempts) == 1:
            raise Overloaded("busy")
        return shop.make(**options)

    with sevenfold.open_jobs(store, agents={"counter": make}) as jobs:
        run = sevenfold.Agent.submit("How many?", agent="counter", session="s", jobs=jobs)
        assert run.result().text == "Three."
        assert run.job.attempt == 1
