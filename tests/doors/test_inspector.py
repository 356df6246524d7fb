"""The inspector's server: who is answered, and what the answers say."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from sevenfold.archive.summaries import SummaryShelf
from sevenfold.doors.inspector.replay_view import replay_view
from sevenfold.doors.inspector.server import ASSETS, Following, application
from sevenfold.doors.inspector.shelf import InspectorShelf
from sevenfold.lab import replay
from tests.archive.test_log_reader import tape_of
from tests.profile.making import Tape, call, result, text, usage
from tests.replay.telling import session as replayed_session

PORT = 4711
HOST = f"127.0.0.1:{PORT}"
TOKEN = "a-token-of-more-than-thirty-two-characters"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202egnp.exe\x1b[31m"
SECRET = "sk-ant-api03-" + "aB3dE5fG7h" * 9 + "-xYzAbCdA"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Claude Code's folder of sessions, with one session of eight requests."""
    projects = tmp_path / "claude" / "projects" / "-work"
    projects.mkdir(parents=True)
    for name in (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "PI_CODING_AGENT_DIR",
        "KIMI_SHARE_DIR",
        "SEVENFOLD_HOME",
    ):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name in ("XDG_DATA_HOME", "HERMES_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    tape_of(8).save(projects / "s-1.jsonl")
    return projects


@pytest.fixture
def shelf(folder: Path, tmp_path: Path) -> InspectorShelf:
    return InspectorShelf(SummaryShelf(tmp_path / "cache"))


@pytest.fixture
def client(shelf: InspectorShelf) -> Iterator[TestClient]:
    app, _ = application(shelf, TOKEN, PORT)
    with TestClient(app, base_url=f"http://{HOST}", follow_redirects=False) as client:
        yield client


def get(client: TestClient, path: str, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.get(path, headers={"X-Sevenfold-Token": TOKEN, **named})


def only(client: TestClient) -> str:
    (session,) = get(client, "/api/sessions").json()["sessions"]
    return str(session["key"])


# -- who is answered ---------------------------------------------------------------------------------


@pytest.mark.spec("S33.3")
def test_cve_2026_22812_nothing_of_a_session_is_read_without_the_token(client: TestClient) -> None:
    key = only(client)
    for path in (
        "/api/sessions",
        f"/api/s/{key}",
        f"/api/s/{key}/r/1",
        f"/api/s/{key}/stream",
        "/api/other",
    ):
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"X-Sevenfold-Token": "wrong"}).status_code == 401
        assert client.get(f"{path}?token={TOKEN}").status_code == 401
        assert client.get(path, headers={"Cookie": f"X-Sevenfold-Token={TOKEN}"}).status_code == 401
    assert get(client, f"/api/s/{key}").status_code == 200


@pytest.mark.spec("S33.3")
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_cve_2025_49596_another_page_can_neither_write_nor_ask(client: TestClient, method: str) -> None:
    headers = {"X-Sevenfold-Token": TOKEN}
    assert client.request(method, "/api/sessions", headers=headers).status_code == 405
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", f"https://{HOST}"):
        assert get(client, "/api/sessions", Origin=origin).status_code == 403
    for site in ("cross-site", "same-site"):
        assert get(client, "/api/sessions", Sec_Fetch_Site=site).status_code == 403
        assert get(client, "/", Sec_Fetch_Site=site).status_code == 403


@pytest.mark.spec("S33.3")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        f"127.0.0.1.nip.io:{PORT}",
        f"{HOST}@evil.example",
    ],
)
def test_rebinding_a_domain_that_leads_here_is_refused(client: TestClient, host: str) -> None:
    for path in ("/", "/api/sessions", "/assets/app.js", "/nothing"):
        assert get(client, path, Host=host).status_code == 421


@pytest.mark.spec("S33.3")
def test_cve_2025_52882_there_is_no_websocket_to_open(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/api/sessions/stream"):
        pass


@pytest.mark.spec("S33.3")
def test_cve_2026_22813_the_browser_may_run_nothing_but_the_pages_own_modules(client: TestClient) -> None:
    for path in ("/", "/assets/app.js", "/api/sessions", "/nothing"):
        answer = get(client, path)
        policy = answer.headers["content-security-policy"]
        for rule in (
            "default-src 'none'",
            "script-src 'self'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ):
            assert rule in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    own = [path.read_text(encoding="utf-8") for path in ASSETS.glob("*.js")]
    for source in own:
        for way in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
        ):
            assert way not in source
    page = (ASSETS / "index.html").read_text(encoding="utf-8")
    assert "http://" not in page
    assert "https://" not in page


@pytest.mark.spec("S33.3")
@pytest.mark.parametrize(
    "path",
    ["/assets/../server.py", "/assets/%2e%2e/server.py", "/assets//etc/passwd", "/assets/vendor/../../guard.py",
     "/api/s/..%2f..%2fetc", "/api/s/%2Fetc%2Fpasswd", "/etc/passwd"],
)  # fmt: skip
def test_no_path_leads_out_of_the_page(client: TestClient, path: str) -> None:
    answer = get(client, path)
    assert answer.status_code == 404
    assert "root:" not in answer.text


@pytest.mark.spec("S33.3")
def test_files_of_sessions_stay_as_they_are(
    client: TestClient, folder: Path, tmp_path: Path, shelf: InspectorShelf
) -> None:
    def state() -> list[tuple[str, bytes, int]]:
        return [
            (str(path), path.read_bytes(), path.stat().st_mtime_ns)
            for path in sorted(tmp_path.rglob("*"))
            if path.is_file() and "cache" not in path.parts
        ]

    before = state()
    shelf.summarise()
    key = only(client)
    for path in (
        "",
        "/r/3",
        "/r/3/bytes",
        "/recall?q=answer",
        "/series?from=0",
        "/record?id=u1",
        "/item?id=u1",
    ):
        assert get(client, f"/api/s/{key}{path}").status_code == 200
    assert state() == before
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (tmp_path / "cache").glob("*.json"))


# -- what the answers say ----------------------------------------------------------------------------


@pytest.mark.spec("S33.4")
def test_the_list_has_the_sums_of_its_sessions(client: TestClient, shelf: InspectorShelf) -> None:
    (row,) = get(client, "/api/sessions").json()["sessions"]
    assert not row["known"]
    shelf.summarise()
    listed = get(client, "/api/sessions").json()
    (row,) = listed["sessions"]
    assert row["requests"] == 8
    assert row["tool"] == "Claude Code"
    assert listed["totals"]["usd"] == row["usd"] == pytest.approx(sum(day["usd"] for day in listed["days"]))


@pytest.mark.spec("S33.4")
def test_agents_belong_to_the_session_of_their_own_project(client: TestClient, tmp_path: Path) -> None:
    from sevenfold.stores.home import user_home

    for project in ("one", "two"):
        files = user_home().project(tmp_path / project).session("work")
        files.branches.mkdir(parents=True)
        tape_of(2).save(files.transcript)
        tape_of(2).save(files.branch("agent-1"))
    rows = get(client, "/api/sessions").json()["sessions"]
    own = [row for row in rows if row["tool"] == "Sevenfold"]
    sessions = {row["key"] for row in own if not row["parent"]}
    assert len(sessions) == 2
    assert {row["parent"] for row in own if row["parent"]} == sessions


@pytest.mark.spec("S33.4")
def test_a_call_in_two_files_counts_once(client: TestClient, folder: Path, shelf: InspectorShelf) -> None:
    shelf.summarise()
    alone = get(client, "/api/sessions").json()["totals"]
    (folder / "copy.jsonl").write_bytes((folder / "s-1.jsonl").read_bytes())
    again = InspectorShelf(shelf.summaries)
    again.summarise()
    again.summarise()
    app, _ = application(again, TOKEN, PORT)
    with TestClient(app, base_url=f"http://{HOST}") as second:
        both = get(second, "/api/sessions").json()
    assert len(both["sessions"]) == 2
    assert both["totals"]["usd"] == pytest.approx(alone["usd"])
    assert both["totals"]["requests"] == alone["requests"]


@pytest.mark.spec("S33.4")
def test_a_summary_is_read_again_only_when_its_file_changed(folder: Path, tmp_path: Path) -> None:
    first = InspectorShelf(SummaryShelf(tmp_path / "cache"))
    assert first.summarise()
    second = InspectorShelf(SummaryShelf(tmp_path / "cache"))
    assert not second.summarise()
    with (folder / "s-1.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n")
    third = InspectorShelf(SummaryShelf(tmp_path / "cache"))
    assert third.summarise()


@pytest.mark.spec("S33.2", "S33.5")
def test_the_drawn_parts_of_every_request_add_up_to_its_raw_usage(client: TestClient, folder: Path) -> None:
    raw = {}
    for line in (folder / "s-1.jsonl").read_text(encoding="utf-8").splitlines():
        message = json.loads(line)["message"]
        if message["role"] == "assistant":
            report = message["usage"]
            raw[message["id"]] = sum(
                report[name]
                for name in report
                if name.startswith(("input", "cache_read", "cache_creation_input"))
            )
    series = get(client, f"/api/s/{only(client)}").json()["series"]
    drawn = [sum(column[place] for column in series["stack"]) for place in range(len(series["request"]))]
    assert drawn == pytest.approx(list(raw.values()), rel=0.001)
    billed = [sum(parts) for parts in zip(series["read"], series["written"], series["fresh"], strict=True)]
    assert billed == list(raw.values())


@pytest.mark.spec("S33.5")
def test_a_break_is_told_with_its_cause_and_price(client: TestClient, folder: Path) -> None:
    tape = tape_of(8)
    tape.wait(4000).user("Are you there?")
    tape.answer("late", usage(10, 0, 4500, output=5), text("Yes."))
    tape.save(folder / "s-1.jsonl")
    key = only(client)
    session = get(client, f"/api/s/{key}").json()
    (lost,) = session["breaks"]
    assert lost["request"] == 9
    assert lost["words"] == "a pause longer than the cache lives"
    assert session["head"]["findings"][0]["request"] == 9
    page = get(client, f"/api/s/{key}/r/9").json()
    assert page["break"]["usd"] == lost["usd"] > 0
    assert [item["what"] for item in page["entered"]][:1] == ["Answer."] or page["entered"]
    assert get(client, f"/api/s/{key}/r/10").status_code == 404


@pytest.mark.spec("S33.5")
def test_what_left_is_found_and_said_to_have_left(client: TestClient, folder: Path) -> None:
    tape = tape_of(3)
    tape.user("Never touch the harbour ledger HV-4417.")
    tape.answer("m-ledger", usage(10, 2000, 300, output=5), text("I will not."))
    tape.compacted("Work went on.")
    tape.user("Go on.")
    tape.answer("after", usage(500, 0, 0, output=5), text("Done."))
    tape.save(folder / "s-1.jsonl")
    key = only(client)
    session = get(client, f"/api/s/{key}").json()
    assert session["left"]["items"] > 0
    assert {part["reason"] for part in session["left"]["reasons"]} == {"compaction"}
    hits = get(client, f"/api/s/{key}/recall?q=HV-4417").json()["hits"]
    assert not hits[0]["inContext"]
    assert hits[0]["lastRequest"] == 4
    life = get(client, f"/api/s/{key}/item?id={hits[0]['record']}").json()
    assert life["stays"][0]["reason"] == "compaction"
    assert life["stays"][0]["usd"] > 0


@pytest.mark.spec("S33.3", "S33.5")
def test_hostile_text_and_secrets_do_not_reach_the_page_as_they_are(
    client: TestClient, folder: Path
) -> None:
    tape = Tape(cwd=HOSTILE)
    tape.user(f"{HOSTILE} {SECRET}")
    tape.answer(
        "m1", usage(900, 0, 0, output=5), text(HOSTILE), call(HOSTILE, "t1", path=HOSTILE), model=HOSTILE
    )
    tape.user(result("t1", f"{HOSTILE} {SECRET} end"))
    tape.answer("m2", usage(1200, 0, 0, output=5), text("ok"), model=HOSTILE)
    tape.save(folder / "s-1.jsonl")
    key = only(client)
    for path in ("", "/r/1", "/r/2", "/recall?q=end", "/record?id=u0", "/record?id=u2", "/item?id=u2"):
        shown = json.dumps(get(client, f"/api/s/{key}{path}").json(), ensure_ascii=False)
        assert SECRET not in shown
        assert SECRET[:40] not in shown
        for character in ("\u202e", "\x1b", "\\u001b"):
            assert character not in shown


@pytest.mark.spec("S33.6")
def test_what_is_new_comes_once_from_where_the_page_is(
    client: TestClient, folder: Path, shelf: InspectorShelf
) -> None:
    key = only(client)
    opened = shelf.open(key)
    assert opened is not None
    page = get(client, f"/api/s/{key}").json()
    follower = Following(opened, page["tools"], page["cursor"], page["series"]["revised"])
    assert follower.news() is None
    tape_of(11).save(folder / "s-1.jsonl")
    news = follower.news()
    assert news is not None
    assert news["series"]["request"] == [8, 9, 10, 11]
    assert follower.news() is None
    # Another server, which never saw the page: it goes on from the same place.
    for cursor, expected in ((page["cursor"], [8, 9, 10, 11]), (follower.cursor, None)):
        anew = InspectorShelf(shelf.summaries).open(key)
        assert anew is not None
        late = Following(anew, page["tools"], cursor, page["series"]["revised"]).news()
        assert (late and late["series"]["request"]) == expected


@pytest.mark.spec("S33.13")
@pytest.mark.parametrize("cursor", ["8:", "8:000000000000000000", "7", "x", "", "99:1", "8" * 40])
def test_a_page_that_has_something_else_reads_all_of_it_again(
    client: TestClient, shelf: InspectorShelf, cursor: str
) -> None:
    opened = shelf.open(only(client))
    assert opened is not None
    news = Following(opened, [], cursor, 0).news()
    if news == {"reload": True}:
        return
    assert cursor in ("x", "", "8" * 40), "nothing was claimed to be there"
    assert news is not None
    assert news["series"]["request"] == list(range(1, 9))


@pytest.mark.spec("S33.13")
def test_another_session_in_the_same_file_is_noticed_by_another_server(
    client: TestClient, folder: Path, shelf: InspectorShelf
) -> None:
    key = only(client)
    page = get(client, f"/api/s/{key}").json()
    tape = Tape()
    for number in range(12):
        tape.user(f"Otherwise {number}")
        tape.answer(f"o{number}", usage(700 + number, 0, 0, output=5), text("Yes."))
    tape.save(folder / "s-1.jsonl")
    anew = InspectorShelf(shelf.summaries).open(key)
    assert anew is not None
    assert Following(anew, page["tools"], page["cursor"], 0).news() == {"reload": True}


@pytest.mark.spec("S33.5")
def test_the_life_of_an_item_says_when_a_search_brought_it_back(client: TestClient, folder: Path) -> None:
    tape = tape_of(2)
    tape.user("The ledger is HV-4417.")
    record = json.loads(tape.lines[-1])["uuid"]
    tape.answer("m-ledger", usage(10, 2000, 300, output=5), text("I see."))
    tape.compacted("Work went on.")
    tape.answer("asks", usage(500, 0, 0, output=5), call("Recall", "r1", query="ledger"))
    tape.user(result("r1", f"record {record} · no time · user\nThe ledger is HV-4417.\nrecord nobody · x"))
    tape.answer("after", usage(500, 0, 100, output=5), text("HV-4417."))
    tape.save(folder / "s-1.jsonl")
    life = get(client, f"/api/s/{only(client)}/item?id={record}").json()
    assert life["stays"][0]["reason"] == "compaction"
    assert life["recalled"] == [5]
    other = get(client, f"/api/s/{only(client)}/item?id=u0").json()
    assert other["recalled"] == []


@pytest.mark.spec("S33.5")
def test_the_vendored_library_comes_with_its_licence() -> None:
    assert "MIT" in (ASSETS / "vendor" / "uPlot.LICENSE").read_text(encoding="utf-8")
    source = (ASSETS / "vendor" / "uPlot.iife.min.js").read_bytes()
    assert (
        hashlib.sha256(source).hexdigest()
        == "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
    )


@pytest.mark.spec("S33.7")
def test_a_compaction_has_three_columns_with_the_users_words_first(
    client: TestClient, folder: Path
) -> None:
    tape = tape_of(2)
    tape.user("Never touch config/production.toml, it belongs to the harbour master.")
    tape.answer("m-rule", usage(10, 2000, 300, output=5), text("I will not."))
    tape.compacted("Work went on.")
    tape.user("Go on.")
    tape.answer("after", usage(500, 0, 0, output=5), text("Done."))
    tape.save(folder / "s-1.jsonl")
    (compaction,) = get(client, f"/api/s/{only(client)}/compactions").json()["compactions"]
    gone = [*compaction["reachable"]["facts"], *compaction["lost"]["facts"]]
    assert not compaction["own"]
    assert "Never touch config/production.toml" in " ".join(fact["text"] for fact in gone if fact["users"])
    assert "Never touch" not in " ".join(fact["text"] for fact in compaction["kept"]["facts"])
    assert gone[0]["users"]


@pytest.mark.spec("S33.8")
def test_memory_is_shown_with_its_quotes_and_history_and_stays_as_it_is(
    client: TestClient, tmp_path: Path
) -> None:
    from sevenfold.memory.entry import new_entry
    from sevenfold.session.factory import open_memory

    kept = open_memory(tmp_path / "project")
    kept.write(
        new_entry("rounding", "feedback", "Money is rounded half up.", "Half up.\n"), "user", "said so"
    )
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    (scope,) = get(client, "/api/memory").json()["scopes"]
    assert [entry["name"] for entry in scope["entries"]] == ["rounding"]
    assert scope["entries"][0]["origin"] == "user"
    assert "+" in scope["changes"][0]["diff"]
    # Somebody edits the file behind our back: that is for the owner to take note of, not for who only looks.
    (path,) = [path for path in before if path.name == "rounding.md"]
    path.write_text("changed\n", encoding="utf-8")
    before[path] = path.read_bytes()
    assert (
        get(client, "/api/memory").json()["scopes"][0]["entries"][0]["description"]
        == "Money is rounded half up."
    )
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()} == before


@pytest.mark.spec("S33.8")
def test_tasks_of_open_sessions_are_listed_and_those_of_closed_ones_are_not(
    client: TestClient, tmp_path: Path
) -> None:
    import msgspec

    from sevenfold.agent.team.presence import TaskList
    from sevenfold.conversation.tasks import Task
    from sevenfold.stores.home import user_home
    from sevenfold.stores.jsonl.lock import FileLock

    files = user_home().project(tmp_path / "project").session("work")
    files.agent.mkdir(parents=True)
    files.transcript.touch()
    listed = TaskList(1, (Task("command-1", "command", "make test", "working", 1.0),))
    (files.agent / "tasks.json").write_bytes(msgspec.json.encode(listed))
    assert get(client, "/api/tasks").json()["tasks"] == []
    with FileLock(files.transcript):
        (task,) = get(client, "/api/tasks").json()["tasks"]
    assert task["name"] == "make test"
    assert not task["over"]


@pytest.mark.spec("S33.9")
def test_what_an_hours_lifetime_would_have_cost_follows_from_the_usage(
    client: TestClient, folder: Path
) -> None:
    tape = Tape()
    tape.user("Begin.")
    tape.answer("m1", usage(0, 0, 100_000, output=0), text("Yes."), model="claude-opus-4-5")
    tape.wait(1200).user("Go on.")
    tape.answer("m2", usage(0, 0, 101_000, output=0), text("Yes."), model="claude-opus-4-5")
    tape.save(folder / "s-1.jsonl")
    found = get(client, f"/api/s/{only(client)}/whatif").json()
    recorded, hour, uncached = (curve["usd"] for curve in found["curves"])
    # $5 for a million tokens, $6.25 written for five minutes, $10 for an hour, $0.50 read.
    assert recorded == pytest.approx([0.625, 0.625 + 0.63125])
    assert hour == pytest.approx([1.0, 1.0 + 0.05 + 0.01])
    assert uncached == pytest.approx([0.5, 0.5 + 0.505])


@pytest.mark.spec("S31.5")
def test_a_session_replayed_under_other_policies_has_a_curve_for_each(
    client: TestClient, folder: Path
) -> None:
    replayed_session(folder / "s-1.jsonl", rounds=30)
    found = get(client, f"/api/s/{only(client)}/replay").json()
    recording = replay.read(folder / "s-1.jsonl")
    assert found["request"] == list(range(1, 32))
    for curve in found["curves"]:
        made = replay.replay(recording, replay.policy(curve["name"]))
        assert curve["usd"] == pytest.approx(list(made.series.cost_usd))
        assert curve["tokens"] == list(made.series.context_tokens)
        assert curve["label"]
    assert [curve["name"] for curve in found["curves"]] == ["nothing", "claude-code", "ours"]


@pytest.mark.spec("S31.5")
def test_a_session_is_replayed_in_its_own_window_if_that_is_smaller_than_the_models(tmp_path: Path) -> None:
    path = tmp_path / "s-1.jsonl"
    replayed_session(path, rounds=3)
    models = replay_view(path)["window"]
    assert replay_view(path, 50_000)["window"] == 50_000
    assert replay_view(path, 2 * models)["window"] == models


def test_a_session_without_a_conversation_is_not_replayed(client: TestClient, folder: Path) -> None:
    (folder / "s-1.jsonl").write_text('{"type":"summary","summary":"x","leafUuid":"a"}\n')
    answer = get(client, f"/api/s/{only(client)}/replay")
    assert answer.status_code == 422
    assert "there is no conversation in it" in answer.json()["error"]
    assert get(client, "/api/s/none/replay").status_code == 404
