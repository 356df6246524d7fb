"""What a store in PostgreSQL does beyond the contract of all stores."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest

import sevenfold
from bench.servers.postgres import APP, OWNER, PostgresServer
from sevenfold.errors import (
    InputError,
    TranscriptDenied,
    TranscriptError,
    TranscriptLocked,
    TranscriptLost,
    TranscriptOvertaken,
)
from sevenfold.ports import AgentMessage
from sevenfold.stores import registry
from sevenfold.stores.log import announcing
from sevenfold.stores.postgres import database
from sevenfold.stores.postgres.store import PostgresStore
from sevenfold.testing.logs import lines_of as said
from sevenfold.testing.stores import filled
from tests.stores.servers import in_postgres, postgres, url

MODEL = "claude-sonnet-5-5"
TABLES = ("log", "line", "mark", "file", "message", "lock")


@pytest.fixture
def store(tmp_path: Path) -> PostgresStore:
    return in_postgres(tmp_path)


def owner() -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(postgres().url(OWNER), autocommit=True)


# -- tenants ---------------------------------------------------------------------------------------


def with_everything(folder: Path, tenant: str) -> AbstractContextManager[None]:
    """Leave a row of the tenant's in every table; the lock is held until what is returned is gone."""
    store = in_postgres(folder, tenant)
    filled(store, "s", b'{"type":"user","uuid":"u1"}\n')
    store.notes("s").write("notes")
    store.mailbox().send(AgentMessage("m1", "x", "y", "hello"))
    lock: AbstractContextManager[None] = store.lock("held")
    lock.__enter__()
    return lock


@pytest.mark.spec("S34.2")
def test_a_query_that_names_no_tenant_sees_the_rows_of_one_alone(tmp_path):
    locks = [with_everything(tmp_path, tenant) for tenant in ("a", "b' OR '1'='1")]
    with psycopg.connect(postgres().url(APP)) as connection:
        for tenant in ("a", "b' OR '1'='1"):
            connection.execute("SELECT set_config('sevenfold.tenant_name', %s, true)", (tenant,))
            ((number, name),) = connection.execute("SELECT id, name FROM sevenfold.tenant").fetchall()
            assert name == tenant
            connection.execute("SELECT set_config('sevenfold.tenant', %s, true)", (str(number),))
            for table in TABLES:
                seen = connection.execute(f"SELECT DISTINCT tenant FROM sevenfold.{table}".encode())
                assert seen.fetchall() == [(number,)]
            assert connection.execute("SELECT * FROM sevenfold.line_0").fetchall() == []
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(
                    "INSERT INTO sevenfold.lock (tenant, name, holder, taking)"
                    " VALUES (%s, 'x', gen_random_uuid(), gen_random_uuid())",
                    (number + 1,),
                )
    del locks


@pytest.mark.spec("S34.2")
def test_a_query_without_a_tenant_fails_instead_of_seeing_everything(tmp_path):
    lock = with_everything(tmp_path, "a")
    with psycopg.connect(postgres().url(APP), autocommit=True) as connection:
        for table in TABLES:
            with pytest.raises(psycopg.Error):
                connection.execute(f"SELECT * FROM sevenfold.{table}".encode())
    del lock


@pytest.mark.spec("S34.2")
def test_tenants_stay_apart_even_for_a_role_that_row_level_security_does_not_bind(tmp_path):
    stores = [
        PostgresStore.at(postgres().url(OWNER, tenant=tenant, project=str(tmp_path), end_user="ann"))
        for tenant in ("a", "b")
    ]
    filled(stores[0], "s", b"one\n")
    stores[0].user_memory().write("a.md", b"theirs")
    stores[0].mailbox().send(AgentMessage("m1", "x", "y", "hello"))
    assert list(stores[1].sessions()) == []
    assert list(stores[1].user_memory().names()) == []
    assert list(stores[1].mailbox().waiting("y")) == []
    for store in stores:
        store.close()


@pytest.mark.spec("S34.2")
def test_users_of_a_tenant_have_memories_of_their_own_and_projects_their_sessions(tmp_path):
    def at(project: str, end_user: str) -> PostgresStore:
        return PostgresStore.at(postgres().url(tenant=str(tmp_path), project=project, end_user=end_user))

    at("one", "ann").user_memory().write("a.md", b"Ann's")
    assert at("two", "ann").user_memory().read("a.md") == b"Ann's"
    assert at("one", "bob").user_memory().read("a.md") is None
    at("one", "ann").memory().write("b.md", b"the project's")
    assert at("one", "bob").memory().read("b.md") == b"the project's"
    assert at("two", "ann").memory().read("b.md") is None
    filled(at("one", "ann"), "s", b"one\n")
    assert list(at("two", "ann").sessions()) == []


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.spec("S34.1")
@pytest.mark.parametrize("name", ["a\0b", "a\\u0000b", "\ud800", "a%2Fb/c", "~" * 90, "é" * 290])
def test_names_may_hold_anything(store, name):
    filled(store, name, b"one\n")
    store.notes(name).write("notes")
    store.branch(name, name).close()
    assert [info.name for info in store.sessions()] == [name]
    assert list(store.branches(name)) == [name]
    assert store.notes(name).read() == "notes"
    store.erase(name)
    assert store.notes(name).read() is None
    with pytest.raises(InputError, match="at most 600 bytes"):
        store.open("é" * 301)


# -- leases ----------------------------------------------------------------------------------------


@pytest.mark.spec("S34.3")
def test_a_process_that_was_frozen_for_longer_than_its_lease_is_refused_when_it_wakes(tmp_path):
    program = f"""
        import sys
        from sevenfold.errors import TranscriptOvertaken
        from sevenfold.stores.postgres.store import PostgresStore
        store = PostgresStore.at({url(tmp_path, lease="1")!r})
        log = store.open("s")
        log.append([b"one\\n"])
        print("written", flush=True)
        sys.stdin.readline()
        for change in (lambda: log.append([b"late\\n"]), lambda: store.fenced(log).notes("s").write("late")):
            try:
                change()
            except TranscriptOvertaken as error:
                print("refused:", error, flush=True)
        store.open("another").close()
    """
    sleeper = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert sleeper.stdout is not None
    assert sleeper.stdout.readline() == "written\n"
    store = in_postgres(tmp_path)
    os.kill(sleeper.pid, signal.SIGSTOP)
    with pytest.raises(TranscriptLocked, match=str(sleeper.pid)):
        store.open("s")
    log = store.open("s", wait=60)  # until the lease has expired
    log.append([b"two\n"])
    os.kill(sleeper.pid, signal.SIGCONT)
    told, _ = sleeper.communicate("\n")
    assert sleeper.returncode == 0
    assert told.count("refused:") == 2
    assert said(log) == [b"one\n", b"two\n"]
    assert store.notes("s").read() is None
    log.close()


@pytest.mark.spec("S34.3")
def test_the_lease_of_a_log_that_nobody_closed_is_free_when_the_log_is_gone(tmp_path):
    store = PostgresStore.at(url(tmp_path, lease="0.5"))
    log = store.open("s")
    del log
    gc.collect()
    store.open("s", wait=60).close()
    store.close()


@pytest.mark.spec("S34.9")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_store_is_not_used_in_a_forked_child(store):
    store.open("s").close()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.sessions()
            os.write(write, b"used")
        except TranscriptError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        assert b"before the process was forked" in told.read()
    store.open("s").close()


# -- a server that goes away -----------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer(durable=True) as made:
        yield made


@pytest.mark.spec("S34.4")
def test_what_was_appended_is_there_after_the_server_was_stopped_at_once_and_writing_goes_on(server):
    store = PostgresStore.at(server.url(OWNER, connections="3"))
    log = store.open("s")
    for number in range(20):
        log.append([b"%d\n" % number], durable=True)
    server.stop(at_once=True)
    # What follows a log, as recall does, reads what was just appended without asking the database.
    assert list(log.read(47)) == [(47, b"19\n")]
    server.start()
    log.append([b"after\n"])
    store.notes("s").write("after")
    assert said(log) == [*(b"%d\n" % number for number in range(20)), b"after\n"]
    log.close()
    store.close()


@pytest.mark.spec("S34.4")
def test_an_append_whose_answer_was_lost_is_not_made_twice(store, monkeypatch):
    log = store.open("s")
    log.append([b"one\n"])
    real = database.Database.run

    def cut_off(self, tenant, query, forced, values):
        real(self, tenant, query, forced, values)
        monkeypatch.undo()
        raise psycopg.OperationalError("the connection broke")

    for line in (b"two\n", b"three\n"):
        monkeypatch.setattr(database.Database, "run", cut_off)
        log.append([line])
    assert said(log) == [b"one\n", b"two\n", b"three\n"]
    monkeypatch.setattr(database.Database, "run", cut_off)
    other = store.open("t")
    other.append([b"one\n"])
    other.close()
    log.close()


@pytest.mark.spec("S34.4")
def test_a_database_that_lost_acknowledged_lines_is_reported_as_such(store):
    log = store.open("s")
    log.append([b"one\n"])
    log.append([b"two\n"])
    with owner() as connection:  # as a standby would have it that took over before it had the last append
        connection.execute("DELETE FROM sevenfold.line WHERE log = %s AND position = 4", (log.log,))
        connection.execute("UPDATE sevenfold.log SET size = 4 WHERE id = %s", (log.log,))
    with pytest.raises(TranscriptLost, match="lost 4 bytes"):
        log.append([b"three\n"])
    assert said(store.read("s")) == [b"one\n"]
    log.close()


@pytest.mark.spec("S34.4")
def test_a_database_that_cannot_be_reached_is_a_clear_error():
    with pytest.raises(TranscriptError, match="cannot be reached"):
        registry.open_store("postgresql://localhost:1/none")
    with pytest.raises(InputError, match="lease is 'soon'; it has to be a number"):
        registry.open_store("postgresql://localhost:1/none?lease=soon")
    with pytest.raises(InputError, match="yes or no"):
        registry.open_store("postgresql://localhost:1/none?forced=maybe")


# -- announcing ------------------------------------------------------------------------------------


@pytest.fixture
def relaxed(tmp_path: Path) -> Iterator[PostgresStore]:
    """A store whose appends do not wait for the disk, so that some need not wait for an answer."""
    store = PostgresStore.at(postgres().url(project=str(tmp_path), forced="no"))
    yield store
    store.close()


def waiting(store: PostgresStore) -> int:
    """How many statements were sent whose answers nobody has read."""
    return len(store._database._announced)


@pytest.mark.spec("S34.13")
def test_what_is_announced_is_in_the_log_for_whoever_asks_next(relaxed):
    log = relaxed.open("s")
    log.append([b"one\n"])
    asking = [
        lambda: said(log),
        lambda: [line for _, line in log.find(b"announced 1")],
        lambda: [line for _, line in log.marked("said")],
        log.renew,
        lambda: log.append([b"after\n"]),
    ]
    for number, ask in enumerate(asking):
        (position,) = announcing(log)([b"announced %d\n" % number])
        assert waiting(relaxed) == 1
        ask()
        assert waiting(relaxed) == 0
        assert next(iter(log.read(position))) == (position, b"announced %d\n" % number)
    announcing(log)([b"last\n"])
    log.close()
    assert waiting(relaxed) == 0
    assert said(relaxed.read("s"))[-2:] == [b"after\n", b"last\n"]
    assert len(said(relaxed.read("s"))) == 8


@pytest.mark.spec("S34.13")
def test_what_was_announced_survives_the_end_of_its_process(tmp_path, relaxed):
    program = f"""
        import os, signal
        from sevenfold.stores.postgres.store import PostgresStore
        store = PostgresStore.at({postgres().url(project=str(tmp_path), forced="no")!r})
        log = store.open("s")
        log.append([b"one\\n"])
        log.announce([b"two\\n"])
        assert store._database._announced
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert killed.returncode == -signal.SIGKILL
    log = relaxed.open("s", take=True)  # waits for the row, and with it for what its writer was sent to do
    assert said(log) == [b"one\n", b"two\n"]
    log.close()


@pytest.mark.spec("S34.13")
def test_an_announcement_of_an_overtaken_writer_is_refused_with_its_next_call(relaxed):
    log = relaxed.open("s")
    log.append([b"one\n"])
    other = relaxed.open("s", take=True)
    announcing(log)([b"late\n"])
    assert said(log) == [b"one\n"]  # reading goes on
    for _ in range(2):
        with pytest.raises(TranscriptOvertaken):
            log.append([b"later\n"])
    other.append([b"two\n"])
    assert said(other) == [b"one\n", b"two\n"]
    other.close()
    log.close()


@pytest.mark.spec("S34.13")
def test_a_writer_that_heard_nothing_for_long_waits_for_the_answer(relaxed, monkeypatch):
    monkeypatch.setattr("sevenfold.stores.postgres.log.SURELY_HELD", 0.0)
    log = relaxed.open("s")
    relaxed.open("s", take=True).close()
    with pytest.raises(TranscriptOvertaken):
        announcing(log)([b"late\n"])
    log.close()


@pytest.mark.spec("S34.13")
def test_announcing_waits_where_commits_wait_for_the_disk(store):
    log = store.open("s")
    announcing(log)([b"one\n"])
    assert waiting(store) == 0
    log.close()


@pytest.mark.spec("S34.13")
def test_an_announcement_whose_connection_broke_is_made_once(relaxed):
    log = relaxed.open("s")
    log.append([b"one\n"])
    for number in range(3):
        announcing(log)([b"announced %d\n" % number])
        with owner() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'"
            )
        log.append([b"after %d\n" % number])
    lines = [b"announced %d\n" % number for number in range(3)]
    after = [b"after %d\n" % number for number in range(3)]
    assert said(log) == [b"one\n", *(line for pair in zip(lines, after, strict=True) for line in pair)]
    log.close()


@pytest.mark.spec("S34.13")
def test_a_branch_announces_to_its_own_log(relaxed):
    filled(relaxed, "s", b"one\n")
    branch = relaxed.branch("s", "b")
    announcing(branch)([b"two\n"])
    assert waiting(relaxed) == 1
    branch.append([b"three\n"])
    assert said(branch) == [b"one\n", b"two\n", b"three\n"]
    branch.close()


@pytest.mark.spec("S34.13")
def test_only_half_of_the_connections_wait_for_answers(tmp_path):
    store = PostgresStore.at(postgres().url(project=str(tmp_path), forced="no", connections="4"))
    logs = [store.open(f"s{number}") for number in range(6)]
    for log in logs:
        announcing(log)([b"one\n"])
    assert waiting(store) == 2
    assert all(said(log) == [b"one\n"] for log in logs)
    assert waiting(store) == 0
    for log in logs:
        log.close()
    store.close()


# -- tables ----------------------------------------------------------------------------------------


@pytest.fixture
def empty_database(tmp_path: Path) -> Iterator[str]:
    """The name of a database without tables."""
    name = f"d{abs(hash(str(tmp_path)))}"
    with owner() as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield name
    with owner() as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.spec("S34.5")
def test_the_tables_are_made_once_and_a_newer_version_is_left_alone(empty_database):
    def at(role: str) -> str:
        return postgres().url(role).replace("/postgres?", f"/{empty_database}?")

    with pytest.raises(TranscriptDenied, match="let the owner"):
        registry.open_store(at(APP))
    for _ in range(2):
        store = registry.open_store(at(OWNER))
        filled(store, "s", b"one\n")
        store.close()
    with psycopg.connect(at(OWNER), autocommit=True) as connection:
        connection.execute("INSERT INTO sevenfold.version (number) VALUES (999)")
    with pytest.raises(TranscriptDenied, match=r"version 999.*install the newer one"):
        registry.open_store(at(OWNER))


# -- sessions --------------------------------------------------------------------------------------


@pytest.mark.spec("S34.10")
def test_the_newest_of_many_sessions_are_found_by_an_index_on_time(tmp_path, store):
    with owner() as connection:
        connection.execute("SELECT set_config('sevenfold.tenant', %s, false)", (str(store._tenant),))
        connection.execute(
            "INSERT INTO sevenfold.log (project, session, size, modified)"
            " SELECT %s, 's' || n, 10, now() - n * interval '7 s' FROM generate_series(1, 20000) n",
            (str(tmp_path),),
        )
        connection.execute("ANALYZE sevenfold.log")
        values = {"tenant": store._tenant, "project": str(tmp_path), "since": 0.0, "most": 50}
        plan = connection.execute(b"EXPLAIN (ANALYZE) " + database.statement("sessions"), values)
        lines = [str(line) for (line,) in plan]
    assert any("Index Scan using log_active" in line for line in lines), lines
    assert not any("Seq Scan" in line for line in lines), lines
    assert [info.name for info in store.sessions(limit=50)] == [f"s{number}" for number in range(1, 51)]
    newest, *_ = store.sessions(limit=1)
    assert [info.name for info in store.sessions(since=newest.modified - 14.5)] == ["s1", "s2", "s3"]


@pytest.mark.spec("S34.10")
def test_no_index_contains_what_every_append_changes(store):
    with owner() as connection:
        indexes = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'sevenfold' AND tablename = 'log'"
        ).fetchall()
    assert any("log_active" in str(index) for (index,) in indexes)
    for (index,) in indexes:
        assert not {"size", "modified"} & set(re.findall(r"\w+", str(index))), index


@pytest.mark.spec("S34.1")
def test_a_session_goes_on_from_a_url_and_gives_its_connections_back(tmp_path):
    for words in ("Hello.", "Are you still there?"):
        with sevenfold.Session.open(
            "s", model=MODEL, store=url(tmp_path, connections="2"), folder=tmp_path
        ) as session:
            session.user(words)
            count = len(session.conversation.transcript.view.items)
    assert count == 2
    assert not any(address.connections == 2 for address in database._shared)


@pytest.mark.spec("S34.1")
def test_the_event_loop_goes_on_while_the_database_takes_its_time(tmp_path, store):
    async def talk() -> list[str]:
        happened: list[str] = []
        async with sevenfold.AsyncSession.open("s", model=MODEL, store=store, folder=tmp_path) as session:
            with owner() as connection, connection.transaction():
                connection.execute("SELECT FROM sevenfold.log WHERE session = 's' FOR UPDATE")
                saying = asyncio.create_task(session.user("Hello."))
                for _ in range(100):
                    await asyncio.sleep(0)
                assert not saying.done()
                happened.append("the loop went on")
            await saying
            happened.append("said")
        return happened

    assert asyncio.run(talk()) == ["the loop went on", "said"]


@pytest.mark.spec("S34.1")
def test_a_writer_that_was_overtaken_can_still_be_closed(store):
    first = store.open("s")
    second = store.open("s", take=True)
    with pytest.raises(TranscriptOvertaken):
        store.fenced(first).memory().write("a.md", b"late")
    first.close()
    second.append([b"one\n"])
    second.close()
