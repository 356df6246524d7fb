"""Large results of sessions in PostgreSQL are objects outside of the database."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sevenfold.errors import (
    InputError,
    ResultMissing,
    TranscriptError,
    TranscriptMissing,
    TranscriptOvertaken,
)
from sevenfold.stores.objects import SMALLEST, prefix_of
from sevenfold.stores.postgres.store import PostgresStore
from sevenfold.testing.stores import filled
from tests.stores.servers import in_postgres, url

pytestmark = pytest.mark.spec("S34.12")

S3 = os.environ.get("RESULTS_URL", "")
"""Where `./dev prove --store` runs some of these tests again: a bucket of an S3 server."""
LARGE = b"much of it " * (SMALLEST // 10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects and more"


@pytest.fixture
def store(tmp_path: Path, folder: Path) -> PostgresStore:
    return PostgresStore.at(url(tmp_path, "tenant/../x", results=folder.as_uri()))


@pytest.fixture
def remote(tmp_path: Path, folder: Path) -> PostgresStore:
    """A store whose objects are in a bucket if there is one, and else in a folder."""
    return PostgresStore.at(url(tmp_path, "remote", results=S3 or folder.as_uri()))


def objects(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_large_result_is_an_object_and_a_small_one_a_row(store, folder):
    results = store.results("s")
    small = results.keep("Read", b"little")
    assert objects(folder) == []
    large = results.keep("Read", LARGE)
    (kept,) = objects(folder)
    assert kept.read_bytes() == LARGE
    assert folder in kept.parents
    assert results.fetch(small) == b"little"
    assert results.fetch(large) == LARGE
    assert results.keep("Read", LARGE) == large
    assert results.keep("Read", LARGE + b"!") != large
    assert len(objects(folder)) == 2


def test_results_are_found_by_another_machine_and_by_no_other_session(store, tmp_path, folder):
    path = store.results("s").keep("Read", LARGE)
    again = PostgresStore.at(url(tmp_path, "tenant/../x", results=folder.as_uri()))
    assert again.results("s").fetch(path) == LARGE
    for other in (again.results("t"), in_postgres(tmp_path, "another").results("s")):
        with pytest.raises(ResultMissing):
            other.fetch(path)
    again.close()


def test_a_store_without_the_objects_says_what_is_missing(store, tmp_path):
    path = store.results("s").keep("Read", LARGE)
    with pytest.raises(TranscriptError, match="parameter results"):
        in_postgres(tmp_path, "tenant/../x").results("s").fetch(path)


@pytest.mark.parametrize("name", ["s", "../s", "a b/ü#?%41", "~" * 90])
def test_results_of_any_session_come_back_and_go_with_it(remote, name):
    filled(remote, name, b"one\n")
    filled(remote, "other", b"one\n")
    paths = [remote.results(name).keep("Read", LARGE + bytes([number])) for number in range(3)]
    kept = remote.results("other").keep("Read", LARGE)
    assert [remote.results(name).fetch(path)[-1] for path in paths] == [0, 1, 2]
    storage = remote._objects
    assert storage is not None
    assert len(storage.below(prefix_of("remote", remote.project, name))) == 3
    remote.erase(name)
    assert storage.below(prefix_of("remote", remote.project, name)) == []
    assert remote.results("other").fetch(kept) == LARGE
    remote.erase("other")


def test_an_object_that_was_changed_or_removed_is_said(store, folder):
    path = store.results("s").keep("Read", LARGE)
    (kept,) = objects(folder)
    kept.write_bytes(b"something else")
    with pytest.raises(TranscriptError, match="has been changed"):
        store.results("s").fetch(path)
    kept.unlink()
    with pytest.raises(ResultMissing):
        store.results("s").fetch(path)


def test_a_session_takes_its_objects_with_it(store, folder):
    for name in ("s", "s2", "../s"):
        filled(store, name, b"one\n")
        store.results(name).keep("Read", LARGE)
    store.erase("s")
    assert len(objects(folder)) == 2
    with pytest.raises(TranscriptMissing):
        store.erase("s")
    store.erase("../s")
    (left,) = objects(folder)
    assert prefix_of("tenant/../x", "", "s2").rpartition("/")[2] in left.parts


def test_a_writer_that_was_overtaken_keeps_no_large_result(store):
    first = store.open("s")
    second = store.open("s", take=True)
    with pytest.raises(TranscriptOvertaken):
        store.fenced(first).results("s").keep("Read", LARGE)
    kept = store.fenced(second).results("s").keep("Read", LARGE)
    assert store.results("s").fetch(kept) == LARGE
    first.close()
    second.close()


def test_an_address_that_is_none_is_a_clear_error(tmp_path):
    taken = tmp_path / "file"
    taken.write_text("")
    for address in ("nope://bucket", taken.as_uri()):
        with pytest.raises(InputError, match="give file:///FOLDER, s3://BUCKET/PREFIX"):
            PostgresStore.at(url(tmp_path, results=address))
