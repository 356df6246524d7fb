"""What the inspector's page can have done, by whom, and what nobody else can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import sevenfold
from sevenfold.agent.team import presence
from sevenfold.archive.formats import open_log
from sevenfold.archive.summaries import SummaryShelf
from sevenfold.doors.inspector import orders
from sevenfold.doors.inspector.server import application
from sevenfold.doors.inspector.shelf import InspectorShelf
from sevenfold.memory.entry import new_entry
from sevenfold.record.decisions import Undone
from sevenfold.session.factory import open_memory
from sevenfold.stores.home import user_home
from sevenfold.stores.jsonl.lock import FileLock, is_held
from tests.agent.team.test_orders import wait_until
from tests.agent.working import agent, use
from tests.archive.test_log_reader import tape_of

pytestmark = pytest.mark.spec("S33.11")

PORT = 4711
HOST = f"127.0.0.1:{PORT}"
TOKEN = "a-token-of-more-than-thirty-two-characters"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "KIMI_SHARE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name in ("SEVENFOLD_HOME", "XDG_DATA_HOME", "HERMES_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setattr(presence, "BEAT", 0.02)
    (tmp_path / "work").mkdir()
    return tmp_path


@pytest.fixture
def client(home: Path) -> Iterator[TestClient]:
    app, _ = application(InspectorShelf(SummaryShelf(home / "cache")), TOKEN, PORT)
    with TestClient(app, base_url=f"http://{HOST}", follow_redirects=False) as client:
        yield client


def post(client: TestClient, path: str, body: Any, **headers: str) -> Any:
    own = {"X-Sevenfold-Token": TOKEN, "Origin": f"http://{HOST}", "Content-Type": "application/json"}
    own |= {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(path, json=body, headers={name: value for name, value in own.items() if value})


def session_of(client: TestClient) -> Any:
    listed = client.get("/api/sessions", headers={"X-Sevenfold-Token": TOKEN}).json()["sessions"]
    (key,) = [row["key"] for row in listed if not row["parent"]]
    return client.get(f"/api/s/{key}", headers={"X-Sevenfold-Token": TOKEN}).json()


def snipped_agent(home: Path, steps: Any = ("One.", "Two.")) -> tuple[sevenfold.Agent, str]:
    """An agent that is open, and the id of a decision that it can undo."""
    working = agent(steps, home / "work", name="work", mode="autonomous")
    working.run("Begin.")
    working.run("Go on.")
    names = [item.record.uuid for item in working.assembly.conversation.transcript.view.items]
    return working, working.session.snip(names[0], names[1])


def transcript(home: Path) -> Path:
    return user_home().project(home / "work").session("work").transcript


def undone(home: Path) -> list[str]:
    log = open_log(transcript(home))
    lines = [raw for _, raw in log.read()]
    return [str(number) for number, raw in enumerate(lines) if b'"undone"' in raw]


# -- who is heard -----------------------------------------------------------------------------------------


def test_cve_2025_49596_only_the_pages_own_posts_are_orders(home: Path, client: TestClient) -> None:
    working, name = snipped_agent(home)
    working.close()
    before = transcript(home).read_bytes()
    path = f"/api/s/{session_of(client)['key']}/undo"
    body = {"target": name}
    assert post(client, path, body, X_Sevenfold_Token="").status_code == 401
    assert post(client, path, body, X_Sevenfold_Token="wrong").status_code == 401
    assert post(client, path, body, Origin="").status_code == 403
    assert post(client, path, body, Origin="https://evil.example").status_code == 403
    assert post(client, path, body, Origin="null").status_code == 403
    assert post(client, path, body, Sec_Fetch_Site="cross-site").status_code == 403
    # What a form on any page can send without being asked first.
    assert post(client, path, body, Content_Type="text/plain").status_code == 403
    assert post(client, path, body, Host="evil.example").status_code == 421
    assert client.get(path, headers={"X-Sevenfold-Token": TOKEN}).status_code == 405
    assert post(client, "/api/sessions", body).status_code == 405
    for wrong in ({}, {"target": 3}, {"target": name, "more": 1}, [name], {"target": "x" * 5_000}):
        assert post(client, path, wrong).status_code == 422
    assert transcript(home).read_bytes() == before
    # The control: the page's own.
    assert post(client, path, body).json()["done"]
    assert transcript(home).read_bytes() != before


def test_an_inspector_that_an_agent_started_changes_nothing(
    home: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    working, name = snipped_agent(home)
    memory = open_memory(home / "work")
    memory.write(new_entry("rounding", "feedback", "Half up.", "Half up.\n"), "user", "said so")
    monkeypatch.setenv("SEVENFOLD_AGENT", "1")
    with working:
        wait_until(lambda: (transcript(home).parent / "agents" / "work" / "tasks.json").exists())
        key = session_of(client)["key"]
        (scope,) = client.get("/api/memory", headers={"X-Sevenfold-Token": TOKEN}).json()["scopes"]
        answers = [
            post(client, f"/api/s/{key}/undo", {"target": name}),
            post(client, f"/api/s/{key}/stop", {"target": "task-1"}),
            post(client, "/api/memory/forget", {"scope": scope["key"], "name": "rounding"}),
            post(client, "/api/memory/undo", {"scope": scope["key"], "number": 1}),
        ]
    answers.append(post(client, f"/api/s/{key}/undo", {"target": name}))
    assert [answer.status_code for answer in answers] == [422] * 5
    texts = [answer.json()["error"] for answer in answers]
    assert all("the user's to do" in text for text in texts[:1] + texts[2:])
    assert undone(home) == []
    assert [known.entry.name for known in memory.entries()] == ["rounding"]


# -- sessions ---------------------------------------------------------------------------------------------


def test_a_decision_of_a_closed_session_is_undone_under_its_lease(home: Path, client: TestClient) -> None:
    working, name = snipped_agent(home)
    working.close()
    session = session_of(client)
    (snip,) = [entry for entry in session["ledger"]["entries"] if entry["kind"] == "snip"]
    assert session["readOnly"] == ""
    assert (snip["id"], snip["undone"]) == (name, False)
    answer = post(client, f"/api/s/{session['key']}/undo", {"target": name}).json()
    assert answer == {"done": True, "text": f"{name} is undone"}
    assert len(undone(home)) == 1
    assert not is_held(transcript(home))
    (snip,) = [entry for entry in session_of(client)["ledger"]["entries"] if entry["kind"] == "snip"]
    assert snip["undone"]
    again = post(client, f"/api/s/{session['key']}/undo", {"target": name})
    assert again.status_code == 422
    assert "undone already" in again.json()["error"]
    # It goes on from there.
    with agent(["Three."], home / "work", name="work") as reopened:
        reopened.run("And now?")
        decisions = reopened.assembly.conversation.transcript.view.decisions()
        assert [made.decision for made in decisions if isinstance(made, Undone)] == [name]


def test_a_decision_of_an_open_session_is_undone_by_its_owner(home: Path, client: TestClient) -> None:
    working, name = snipped_agent(home)
    with working:
        wait_until(lambda: (transcript(home).parent / "agents" / "work" / "tasks.json").exists())
        key = session_of(client)["key"]
        assert is_held(transcript(home))
        answer = post(client, f"/api/s/{key}/undo", {"target": name}).json()
        assert answer == {"done": True, "text": f"{name} is undone"}
        decisions = working.assembly.conversation.transcript.view.decisions()
        assert [made.decision for made in decisions if isinstance(made, Undone)] == [name]
        refused = post(client, f"/api/s/{key}/undo", {"target": name}).json()
        assert not refused["done"]
        assert "undone already" in refused["text"]


def test_a_task_is_stopped_by_the_process_that_runs_it(home: Path, client: TestClient) -> None:
    steps = ["One.", "Two.", [use("Shell", "c1", command="sleep 600", background=True)], "It runs."]
    working, _ = snipped_agent(home, steps)
    with working:
        working.run("Start it.")
        headers = {"X-Sevenfold-Token": TOKEN}

        def commands() -> list[Any]:
            tasks = client.get("/api/tasks", headers=headers).json()["tasks"]
            return [task for task in tasks if task["kind"] == "command"]

        wait_until(commands)
        (task,) = commands()
        answer = post(client, f"/api/s/{task['session']}/stop", {"target": task["id"]}).json()
        assert answer == {"done": True, "text": f"{task['id']} is stopped"}
        assert working.session.tasks.get(task["id"]).state == "cancelled"
        unknown = post(client, f"/api/s/{task['session']}/stop", {"target": "task-99"}).json()
        assert not unknown["done"]
    late = post(client, f"/api/s/{task['session']}/stop", {"target": task["id"]})
    assert late.status_code == 422
    assert "nothing of it runs" in late.json()["error"]


def test_an_owner_that_takes_no_orders_is_never_written_past(
    home: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    working, name = snipped_agent(home)
    working.close()
    key = session_of(client)["key"]
    before = transcript(home).read_bytes()
    with FileLock(transcript(home)):
        refused = post(client, f"/api/s/{key}/undo", {"target": name})
        assert refused.status_code == 422
        assert "takes no orders" in refused.json()["error"]
        # Even if it came after the inspector had looked.
        monkeypatch.setattr(orders, "is_held", lambda path: False)
        assert "takes no orders" in post(client, f"/api/s/{key}/undo", {"target": name}).json()["error"]
    assert transcript(home).read_bytes() == before


def test_an_owner_that_does_not_answer_in_time_finds_no_order_later(
    home: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "PATIENCE", 0.2)
    monkeypatch.setattr(presence, "BEAT", 3600.0)
    working, name = snipped_agent(home)
    with working:
        folder = working.assembly.home.folder
        (folder / "tasks.json").write_text('{"process": 1, "run": "a run that hangs"}')
        answer = post(client, f"/api/s/{session_of(client)['key']}/undo", {"target": name}).json()
        assert not answer["done"]
        assert "taken back" in answer["text"]
        mailbox = working.assembly.store.mailbox
        assert mailbox is not None
        assert list(mailbox.waiting("orders:work")) == []


def test_for_other_tools_sessions_the_page_says_what_cannot_be_done(home: Path, client: TestClient) -> None:
    folder = home / "claude_config_dir" / "projects" / "-work"
    folder.mkdir(parents=True)
    tape = tape_of(3)
    tape.compacted("Work went on.")
    tape.save(folder / "s-1.jsonl")
    before = (folder / "s-1.jsonl").read_bytes()
    session = session_of(client)
    assert "Claude Code writes this session" in session["readOnly"]
    for action in ("undo", "stop"):
        answer = post(client, f"/api/s/{session['key']}/{action}", {"target": "u1"})
        assert answer.status_code == 422
        assert "Claude Code writes this session" in answer.json()["error"]
    assert (folder / "s-1.jsonl").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["s-1.jsonl"]
    assert post(client, "/api/s/0123abcd/undo", {"target": "u1"}).status_code == 404


# -- memory -----------------------------------------------------------------------------------------------


def test_what_is_forgotten_can_be_brought_back(home: Path, client: TestClient) -> None:
    memory = open_memory(home / "work")
    memory.write(new_entry("rounding", "feedback", "Half up.", "Half up.\n"), "user", "said so")
    headers = {"X-Sevenfold-Token": TOKEN}
    (scope,) = client.get("/api/memory", headers=headers).json()["scopes"]
    order = {"scope": scope["key"], "name": "rounding"}
    assert post(client, "/api/memory/forget", order).json()["done"]
    assert memory.entries() == []
    gone = post(client, "/api/memory/forget", order)
    assert gone.status_code == 422
    (scope,) = client.get("/api/memory", headers=headers).json()["scopes"]
    number = scope["changes"][0]["number"]
    assert post(client, "/api/memory/undo", {"scope": scope["key"], "number": number}).json()["done"]
    assert [known.entry.name for known in memory.entries()] == ["rounding"]
    for elsewhere in ("../../etc", "", "0123"):
        wrong = post(client, "/api/memory/forget", {"scope": elsewhere, "name": "rounding"})
        assert wrong.status_code == 422
