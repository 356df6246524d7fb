"""Where things live on disk: one place each, their owner's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.stores.home import Home, user_home
from tests.storage.making import made


def test_the_home_is_where_the_environment_says(tmp_path, monkeypatch):
    assert user_home({"SEVENFOLD_HOME": str(tmp_path / "h")}).root == tmp_path / "h"
    assert user_home({}).root == Path.home() / ".sevenfold"
    assert user_home({"SEVENFOLD_HOME": ""}).root == Path.home() / ".sevenfold"
    monkeypatch.setenv("SEVENFOLD_HOME", "somewhere")
    assert user_home().root == Path("somewhere").absolute()


@pytest.mark.spec("S1.1", "S3.1")
def test_everything_of_a_session_has_its_place(tmp_path):
    project = Home(tmp_path).project(tmp_path / "work")
    assert project.folder.parent == tmp_path / "projects"
    assert project.session("s-1").transcript == project.folder / "s-1.jsonl"
    assert project.session("s-1").results == project.folder / "tool-results" / "s-1"
    assert project.session("s-1").notes == project.folder / "session-memory" / "s-1.md"


@given(st.lists(st.text(alphabet="ab/.- _é\n", min_size=1, max_size=8), min_size=2, max_size=6))
def test_two_folders_never_share_their_data(tmp_path_factory, names):
    base = tmp_path_factory.getbasetemp()
    folders = {(base / name.strip("/")).resolve() for name in names}
    home = Home(base)
    assert len({home.project(folder).folder for folder in folders}) == len(folders)
    assert all(home.project(folder).folder.parent == base / "projects" for folder in folders)


def test_every_way_to_a_folder_leads_to_the_same_data(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "work")
    monkeypatch.chdir(tmp_path)
    home = Home(tmp_path / "home")
    ways = [tmp_path / "work", tmp_path / "link", Path("work"), tmp_path / "work" / ".." / "work"]
    assert len({home.project(way).folder for way in ways}) == 1


def test_the_name_can_be_recognised(tmp_path):
    assert "my-project." in Home(tmp_path).project(Path("/home/maria/my project")).folder.name


@pytest.mark.parametrize("session", ["../../x", "/etc/passwd", "..", "a/b", "", "a\x00b"])
def test_hostile_session_names_stay_inside_the_project(tmp_path, session):
    project = Home(tmp_path).project(Path("/w"))
    for path in (
        project.session(session).transcript,
        project.session(session).results,
        project.session(session).notes,
    ):
        assert project.folder in Path(os.path.normpath(path)).parents


def test_folders_are_made_for_their_owner_alone(tmp_path):
    project = made(Home(tmp_path / "deep" / "home").project(Path("/w")))
    for folder in (project.folder, project.folder.parent, tmp_path / "deep" / "home", tmp_path / "deep"):
        assert folder.stat().st_mode & 0o077 == 0


def test_sessions_are_listed_with_the_newest_first(tmp_path):
    project = made(Home(tmp_path).project(Path("/w")))
    for age, name in enumerate(["new", "old"]):
        path = project.session(name).transcript
        path.write_bytes(b"x" * (age + 1))
        os.utime(path, (1000 - age, 1000 - age))
    assert [(file.path.stem, file.modified, file.size) for file in project.sessions()] == [
        ("new", 1000, 1),
        ("old", 999, 2),
    ]


def test_a_session_of_which_only_parts_are_left_is_still_known(tmp_path):
    project = made(Home(tmp_path).project(Path("/w")))
    project.session("only-results").results.mkdir(parents=True)
    project.session("only-notes").notes.parent.mkdir(parents=True)
    project.session("only-notes").notes.touch()
    project.session("whole").transcript.touch()
    assert [one.name for one in project.all_sessions()] == ["only-notes", "only-results", "whole"]


def test_looking_makes_nothing(tmp_path):
    home = Home(tmp_path / "none")
    assert home.projects() == []
    assert home.project(Path("/w")).sessions() == []
    assert list(home.texts()) == []
    assert not home.root.exists()
