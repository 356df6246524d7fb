"""Settings from files and variables, once and while a session runs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.errors import SettingError, SettingIgnored
from sevenfold.settings import Resolved, Settings
from sevenfold.stores.settings_files import FileSource, Report, load
from sevenfold.stores.trust import Trust, user_folder


class Places:
    """A user's folder, a project, and an environment that points to the former."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.user_file = self.home / "settings.toml"
        self.project_file = self.project / ".sevenfold" / "settings.toml"
        self.home.mkdir()
        self.project_file.parent.mkdir(parents=True)
        self.environ = {"SEVENFOLD_HOME": str(self.home)}

    def load(self, code: dict[str, Any] | None = None, **variables: str) -> Resolved:
        return load(self.project, code or {}, environ=self.environ | variables)

    def source(self, report: Report | None = None, **variables: str) -> FileSource:
        return FileSource(self.project, environ=self.environ | variables, report=report)

    def trust(self) -> None:
        Trust(self.home).add(self.project)


@pytest.fixture
def places(tmp_path):
    return Places(tmp_path)


# Where files are


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"SEVENFOLD_HOME": "/ours", "XDG_CONFIG_HOME": "/config"}, "/ours"),
        ({"XDG_CONFIG_HOME": "/config"}, "/config/sevenfold"),
    ],
)
def test_the_users_folder_is_where_the_environment_says(environ, folder):
    assert str(user_folder(environ)) == folder


def test_without_a_word_from_the_environment_it_is_in_the_users_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_folder({}) == tmp_path / ".config" / "sevenfold"
    assert user_folder({"XDG_CONFIG_HOME": "relative/path"}) == tmp_path / ".config" / "sevenfold"


# Precedence


@pytest.mark.spec("S8.2")
def test_each_place_wins_over_those_before_it(places):
    places.user_file.write_text("gap_keep = 1\nsize_keep = 1\npins_tokens = 1\npreview_bytes = 1\n")
    places.project_file.write_text("gap_keep = 2\nsize_keep = 2\npins_tokens = 2\n")
    places.trust()
    resolved = places.load({"gap_keep": 4}, SEVENFOLD_GAP_KEEP="3", SEVENFOLD_SIZE_KEEP="3")
    settings, origins = resolved.settings, resolved.origins
    assert (settings.gap_keep, origins["gap_keep"]) == (4, "code")
    assert (settings.size_keep, origins["size_keep"]) == (3, "environment variable SEVENFOLD_SIZE_KEEP")
    assert (settings.pins_tokens, origins["pins_tokens"]) == (2, f"project file {places.project_file}")
    assert (settings.preview_bytes, origins["preview_bytes"]) == (1, f"user file {places.user_file}")
    assert (settings.size_least_tokens, origins["size_least_tokens"]) == (20_000, "default")


def test_a_table_in_a_file_sets_limits_by_tool(places):
    places.user_file.write_text('[offload_by_tool]\nBash = 20_000\n"mcp__docs__find" = "never"\n')
    settings = places.load().settings
    assert settings.offload_limit("Bash") == 20_000
    assert settings.offload_limit("mcp__docs__find") is None


def test_without_files_or_variables_there_are_the_defaults(places):
    assert set(places.load().origins.values()) == {"default"}


def test_an_empty_variable_sets_nothing(places):
    assert places.load(SEVENFOLD_OFFLOAD="").origins["offload"] == "default"


def test_variables_of_others_are_passed_over(places):
    assert places.load(SEVEN="1", PATH="/bin", SEVENFOLD_PROVE="1").settings.offload is True


@pytest.mark.spec("S17.4")
@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("DISABLE_COMPACT", "1", "compaction", False),
        ("DISABLE_AUTO_COMPACT", "true", "auto_compact", False),
        ("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "70", "compact_percent", 70.0),
        ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "150000", "compact_window", 150_000),
        ("CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE", "90000", "blocking_limit", 90_000),
        ("ENABLE_PROMPT_CACHING_1H_BEDROCK", "1", "long_lifetime_bedrock", True),
    ],
)
def test_variables_of_claude_code_are_read_unless_ours_say_otherwise(places, variable, text, name, value):
    found = places.load(**{variable: text})
    assert getattr(found.settings, name) == value
    assert found.origins[name] == f"environment variable {variable}"
    usual = {
        "compaction": "on",
        "auto_compact": "on",
        "compact_percent": "80",
        "long_lifetime_bedrock": "off",
    }
    ours = usual.get(name, "120000")
    own = places.load(**{variable: text, f"SEVENFOLD_{name.upper()}": ours})
    assert getattr(own.settings, name) != value
    assert own.origins[name] == f"environment variable SEVENFOLD_{name.upper()}"
    assert places.load(**{variable: " "}).origins[name] == "default"


@pytest.mark.spec("S17.4")
def test_a_variable_that_disables_nothing_leaves_what_a_file_says(places):
    places.user_file.write_text("auto_compact = false\n")
    assert places.load(DISABLE_AUTO_COMPACT="0").settings.auto_compact is False


@pytest.mark.spec("S17.4")
@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("DISABLE_COMPACT", "perhaps"),
        ("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "170"),
        ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "big"),
        ("CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE", "-5"),
    ],
)
def test_a_wrong_value_in_a_variable_of_claude_code_is_ignored_and_named(places, variable, text):
    found = places.load(**{variable: text})
    assert "default" in set(found.origins.values())
    (note,) = found.notes
    assert note.startswith(f"environment variable {variable}: ")
    assert set(found.origins.values()) == {"default"}


# What is wrong


@pytest.mark.spec("S8.2")
def test_a_wrong_value_in_a_file_is_ignored_and_named_with_its_file(places):
    places.user_file.write_text("offload_characters = 0\ngap_keep = 2\n")
    found = places.load()
    assert (found.settings.offload_characters, found.settings.gap_keep) == (50_000, 2)
    assert found.origins["offload_characters"] == "default"
    (note,) = found.notes
    assert note.startswith(f"user file {places.user_file}: offload_characters = 0 cannot be used")
    with pytest.warns(SettingIgnored, match="offload_characters = 0 cannot be used.*\\(ignored"):
        places.source()


@pytest.mark.spec("S8.2")
@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("SEVENFOLD_OFFLOAD", "maybe", 'variable SEVENFOLD_OFFLOAD: offload = "maybe" cannot be used'),
        ("SEVENFOLD_COMPACT_PERCENT", "120", "SEVENFOLD_COMPACT_PERCENT: compact_percent = 120"),
        ("SEVENFOLD_OFLOAD", "0", "SEVENFOLD_OFLOAD: there is no setting .*did you mean offload"),
    ],
)
def test_a_bad_variable_never_stops_a_program(places, variable, value, words):
    found = places.load(**{variable: value})
    assert found.settings == Settings()
    (note,) = found.ignored
    assert re.search(words, note)


@pytest.mark.spec("S0.3", "S8.2")
def test_the_same_value_from_code_is_an_error(places):
    with pytest.raises(SettingError, match="code: compact_percent = 120 cannot be used"):
        load(places.project, {"compact_percent": 120}, environ=places.environ)


@pytest.mark.spec("S8.2")
def test_values_of_files_that_contradict_each_other_are_ignored_together(places):
    places.user_file.write_text("size_target_tokens = 99_999\n")
    found = places.load()
    assert found.settings == Settings()
    assert "cannot be used together" in found.ignored[0]
    with pytest.raises(SettingError, match="cannot be used together"):
        load(places.project, {"size_target_tokens": 99_999}, environ=places.environ)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"offload = true\nsnip = \n", "is not TOML: .*line 2"),
        (b"offload = true\n# \xff\xfe\n", r"is not UTF-8 \(line 2\)"),
        (b"gap_keep = " + b"9" * 5000, "cannot be understood"),
        (b"gap_keep = " + b"[" * 5000, "cannot be understood|is not TOML"),
        (b"# " + b"x" * 1024 * 1024, "more than 1,048,576 bytes"),
    ],
    ids=["toml", "utf-8", "number", "depth", "size"],
)
def test_a_file_that_cannot_be_understood_is_named_with_the_line(places, content, said):
    places.user_file.write_bytes(content)
    with pytest.raises(SettingError, match=said) as caught:
        places.load()
    assert str(places.user_file) in str(caught.value)


def test_a_byte_order_mark_does_no_harm(places):
    places.user_file.write_bytes(b"\xef\xbb\xbfoffload = false\n")
    assert places.load().settings.offload is False


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_something_else_in_the_place_of_the_file_is_an_error_and_nobody_waits(places, make):
    make(places.user_file)
    with pytest.raises(SettingError, match="is not a regular file"):
        places.load()


# Trust


def test_the_file_of_a_folder_nobody_trusts_is_ignored_visibly(places):
    places.project_file.write_text("offload = false\n")
    resolved = places.load()
    assert resolved.settings.offload is True
    (note,) = resolved.notes
    assert str(places.project_file) in note
    assert f"sevenfold trust {places.project}" in note


def test_not_even_an_error_in_it_matters_before_it_is_trusted(places):
    places.project_file.write_text("offload = nonsense\n")
    assert places.load().settings.offload is True
    places.trust()
    with pytest.raises(SettingError, match="is not TOML"):
        places.load()


def test_a_project_without_such_a_file_gets_no_note(places):
    assert places.load().notes == ()


def test_a_link_to_a_trusted_folder_is_that_folder(places, tmp_path):
    places.project_file.write_text("offload = false\n")
    places.trust()
    (tmp_path / "link").symlink_to(places.project)
    assert load(tmp_path / "link", environ=places.environ).settings.offload is False


def test_a_file_that_is_a_link_out_of_the_project_is_refused(places, tmp_path):
    (tmp_path / "elsewhere.toml").write_text("offload = false\n")
    places.project_file.symlink_to(tmp_path / "elsewhere.toml")
    places.trust()
    with pytest.raises(SettingError, match="points outside"):
        places.load()


# While a session runs


@pytest.mark.spec("S8.2")
def test_a_switch_flipped_in_a_file_is_flipped_in_a_running_session(places):
    source = places.source()
    assert source.current().offload is True
    places.user_file.write_text("offload = false\n")
    assert source.current().offload is False
    places.user_file.unlink()
    assert source.current().offload is True


def test_a_change_that_keeps_the_size_of_the_file_is_seen_at_once(places):
    places.user_file.write_text("gap_keep = 1\n")
    source = places.source()
    for number in range(2, 9):
        places.user_file.write_text(f"gap_keep = {number}\n")
        assert source.current().gap_keep == number


def test_a_change_to_a_file_that_had_been_at_rest_is_seen(places):
    places.user_file.write_text("gap_keep = 1\n")
    os.utime(places.user_file, (1_000, 1_000))
    source = places.source()
    places.user_file.write_text("gap_keep = 2\n")
    os.utime(places.user_file, (2_000, 2_000))
    assert source.current().gap_keep == 2


def test_while_nothing_changes_it_is_the_same_object(places):
    places.user_file.write_text("gap_keep = 1\n")
    source = places.source()
    first = source.current()
    assert source.current() is first
    os.utime(places.user_file)
    assert source.current() is first


@pytest.mark.spec("S8.2")
def test_a_file_broken_meanwhile_is_reported_once_and_the_last_good_copy_stays(places):
    said: list[str] = []
    places.user_file.write_text("gap_keep = 2\n")
    source = places.source(said.append)
    places.user_file.write_text("gap_keep = \n")
    assert [source.current().gap_keep for _ in range(3)] == [2, 2, 2]
    (report,) = said
    assert str(places.user_file) in report
    assert "line 1" in report
    assert "settings from before stay in force" in report
    places.user_file.write_text("gap_keep = 3\n")
    assert source.current().gap_keep == 3
    places.user_file.write_text("gap_keep = \n")
    source.current()
    assert len(said) == 2


@pytest.mark.parametrize("content", ["gap_keep = 0\n", "ofload = true\n", "size_target_tokens = 99_999\n"])
def test_no_content_reaches_a_running_session_as_an_error(places, content):
    source = places.source()
    before = source.current()
    places.user_file.write_text(content)
    assert source.current() is before


def test_making_a_source_tells_what_is_wrong_at_that_moment(places):
    places.user_file.write_text("gap_keep = 0\n")
    with pytest.warns(SettingIgnored, match="gap_keep"):
        assert places.source().current().gap_keep == 5


def test_a_session_logs_that_a_file_was_broken_meanwhile(places, caplog, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_HOME", str(places.home))
    with sevenfold.Session.open("kept", model="offline", folder=places.project) as session:
        places.user_file.write_text("offload = nonsense\n")
        session.user("hello")
        session.complete()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(places.user_file) in caplog.text


def test_trust_given_and_taken_back_meanwhile_counts(places):
    places.project_file.write_text("offload = false\n")
    source = places.source()
    assert source.current().offload is True
    assert source.resolved.notes
    places.trust()
    assert source.current().offload is False
    assert source.resolved.notes == ()
    Trust(places.home).remove(places.project)
    assert source.current().offload is True


@pytest.mark.spec("S19.5")
def test_a_projects_file_that_changes_counts_when_the_user_has_seen_it(places):
    places.project_file.write_text("offload = false\n")
    places.trust()
    told: list[str] = []
    source = places.source(told.append)
    places.project_file.write_text("offload = false\nsnip = false\n")
    assert source.current().snip is True
    assert source.current().offload is False
    (only,) = told
    assert "changed since you trusted it (changed: settings .sevenfold/settings.toml)" in only
    assert places.load().settings.offload is True
    places.trust()
    assert source.current().snip is False


def test_the_environment_and_what_code_sets_still_win_after_a_change(places):
    code = {"snip": False}
    source = FileSource(places.project, code, environ=places.environ | {"SEVENFOLD_OFFLOAD": "off"})
    code["snip"] = True
    places.user_file.write_text("snip = true\noffload = true\ndream = false\n")
    now = source.current()
    assert (now.snip, now.offload, now.dream) == (False, False, False)
