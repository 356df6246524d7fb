"""Secrets masked at the gate: model, disk and store see the same, and nobody touches what the model said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sevenfold
from sevenfold.agent.tools.context import Todo
from sevenfold.conversation.flow import drive
from sevenfold.events import Masked
from sevenfold.lab.simulator.brains import ScriptedBrain
from sevenfold.providers.registry import client_of
from tests.agent.working import agent, model_of, use
from tests.session.talking import BOUND, World, calling, reader, uuids, world

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]
OTHER = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3i2"[:36]
GATE = {"redaction": "gate", "offload_characters": 3_000, "preview_bytes": 500}


def everything(folder: Path) -> bytes:
    """Every byte below a folder."""
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


@pytest.mark.spec("S8.4", "S1.1")
def test_a_secret_reaches_neither_the_model_nor_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with world(reader(2)) as here, here.open(file, settings=GATE) as session:
        session.user(["my token is " + SECRET, "use it"])
        done = session.complete()
        big = f"export TOKEN={SECRET}\n" + "line\n" * 2_000
        small = [{"type": "text", "text": f"token {OTHER} found"}]
        session.tool_results({done.calls[0].id: big, done.calls[1].id: small})
        fork = session.fork("compact")
        fork.user(f"is {SECRET} valid?")
        drive(fork.turn(), client_of(here.sdk))
        session.complete()
        for secret in (SECRET.encode(), OTHER.encode()):
            assert secret not in b"".join(here.bodies)
            assert secret not in everything(tmp_path)
        fetched = session.fetch(done.calls[0].id)
        assert fetched.startswith(b"export TOKEN=[masked github-token ")
        assert len(fetched) > 10_000
        mask = fetched[13:].split(b"]")[0]
        assert mask in here.bodies[0]
        assert mask in here.bodies[-1]
        assert sum(event.count for event in here.told(Masked)) == 4
        assert here.told(Masked)[0].kinds == ("github-token",)


@pytest.mark.spec("S12.2", "S4.10")
def test_a_secret_given_in_any_way_reaches_neither_the_model_nor_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    text = f"the token is {SECRET}, keep it"
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}}
    document |= {"title": text, "context": text}
    picture = {"type": "image", "source": {"type": "url", "url": f"https://host/{SECRET}.png"}}
    found = {
        "type": "search_result",
        "source": text,
        "title": text,
        "content": [{"type": "text", "text": text}],
    }
    tool = {"name": "Shell", "description": text, "input_schema": {"type": "object", "title": text}}
    options = {
        "system": text,
        "tools": [sevenfold.tool(tool, kind="shell")],
        "fields": {"metadata": {"user_id": text}},
    }
    with world(reader(1)) as here, here.open(tmp_path / "s.jsonl", settings=GATE, **options) as session:
        session.title = text
        first = session.user([document, picture, found, {"type": "text", "text": text}], key=text)
        assert session.user("again", key=text) == first
        for _ in range(3):
            done = session.complete()
            session.tool_results({done.calls[0].id: [{"type": "text", "text": text}, found]})
            session.conversation.note(text)
        fork = session.fork("compact")
        fork.user([document, {"type": "text", "text": text}])
        drive(fork.turn(), client_of(here.sdk))
        session.compact(text)
        session.user(text)
        session.complete()
        session.recall("the token")
        assert session.title.startswith("the token is [masked github-token ")
        assert [name for name, body in enumerate(here.bodies) if SECRET.encode() in body] == []
        assert b"the token is [masked github-token " in here.bodies[-1]
    assert SECRET.encode() not in everything(tmp_path)


@pytest.mark.spec("S12.2", "S4.10")
def test_a_secret_reaches_no_file_of_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    monkeypatch.setenv("SEVENFOLD_HOME", str(home))
    folder.mkdir()
    (folder / ".env").write_text(f"A=1\nTOKEN={SECRET}\n" * 20)
    steps = [
        [use("Read", path=str(folder / ".env"))],
        [use("Shell", command="cat .env; cat .env >&2", background=True)],
        [use("ShellOutput", task="task-1", wait=5)],
        "Read.",
        *["Hm. " * 300] * 5,
    ]
    with agent(steps, folder, name="s", mode="autonomous", settings={"redaction": "gate"}) as made:
        made.goal = f"use {SECRET}"
        made.assembly.state.todos.set([Todo(f"try {SECRET}", "pending")])
        made.run("Go.")
        made.assembly.state.plans.submit(f"# Plan\nuse {SECRET}")
        made.session.compact(engine="extractive")
        made.run("And now?")
        asked = json.dumps(model_of(made).requests)
        assert "TOKEN=[masked github-token " in asked
        assert SECRET not in asked
    assert (next(home.rglob("task-1.log"))).read_text().count("TOKEN=[masked github-token ") == 40
    assert SECRET.encode() not in everything(home)


@pytest.mark.spec("S9.2", "S8.4")
def test_what_the_model_said_is_never_touched(tmp_path: Path) -> None:
    said = [
        {"type": "thinking", "thinking": f"the token {SECRET}", "signature": ""},
        {"type": "text", "text": f"I use {SECRET}"},
        calling("toolu_1", path=SECRET),
    ]
    with (
        world(ScriptedBrain(lambda prompt: said)) as here,
        here.open(tmp_path / "s.jsonl", settings=GATE) as session,
    ):
        session.user("begin")
        session.complete()
        session.tool_results({"toolu_1": f"no file {SECRET}"})
        _ = session.prepare().body
        body = session.at(-1)
        assert body.count(SECRET.encode()) == 2
        assert b"no file [masked" in body


@pytest.mark.spec("S8.4", "S8.6")
def test_a_list_with_secrets_in_it_is_recognised_again() -> None:
    with world(reader(0)) as here, here.session(settings=GATE) as session:
        messages = [{"role": "user", "content": f"token {SECRET}"}]
        assert session.sync(messages) == 1
        reply = here.sdk.messages.create(**session.prepare())
        session.observe(reply)
        messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})  # type: ignore[dict-item]
        messages.append({"role": "user", "content": "go on"})
        before = uuids(session)
        assert session.sync(messages) == 1
        assert uuids(session)[:2] == before
        session.complete()
        assert here.moved() == []


@pytest.mark.spec("S8.4")
def test_without_the_gate_nothing_is_masked(tmp_path: Path) -> None:
    def hold(here: World) -> bytes:
        with here.open(tmp_path / "s.jsonl") as session:
            session.user(f"my token is {SECRET}")
            session.complete()
            return session.at(0)

    with world(reader(0)) as here:
        assert SECRET.encode() in hold(here)
        assert here.told(Masked) == []
        assert BOUND.encode() in here.bodies[0]
