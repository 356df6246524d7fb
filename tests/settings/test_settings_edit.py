"""Changing one value in a settings file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.errors import SettingError
from sevenfold.stores.settings_edit import set_value, unset_value

pytestmark = pytest.mark.spec("S37.5")

FILE = """\
# mine
notify = "off"  # quiet

long_lifetime_sources = [
  "main",  # only
  "sdk",
]
[offload_by_tool]
Shell = 9000
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(FILE)
    return path


def test_everything_else_in_the_file_stays(file: Path) -> None:
    set_value(file, "effort", "high")
    assert file.read_text() == FILE.replace("[offload_by_tool]", 'effort = "high"\n[offload_by_tool]')
    assert unset_value(file, "effort")
    assert file.read_text() == FILE


def test_a_value_over_several_lines_is_replaced(file: Path) -> None:
    set_value(file, "long_lifetime_sources", ["agent"])
    assert tomllib.loads(file.read_text()) == {**tomllib.loads(FILE), "long_lifetime_sources": ["agent"]}
    assert "# mine" in file.read_text()
    assert "# only" not in file.read_text()


def test_a_table_is_replaced_and_removed(file: Path) -> None:
    set_value(file, "offload_by_tool", {"Read": "never"})
    assert tomllib.loads(file.read_text())["offload_by_tool"] == {"Read": "never"}
    assert unset_value(file, "offload_by_tool")
    assert not unset_value(file, "offload_by_tool")


def test_a_file_that_was_wrong_before_can_still_be_changed(file: Path) -> None:
    file.write_text('notify = "loud"\nof_a_newer_version = 1\n')
    set_value(file, "effort", "high")
    assert tomllib.loads(file.read_text())["effort"] == "high"
    set_value(file, "notify", "off")
    assert tomllib.loads(file.read_text()) == {"effort": "high", "notify": "off", "of_a_newer_version": 1}


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "new/settings.toml"
    set_value(path, "sandbox_hosts", ["files.example.org"])
    assert path.read_text() == 'sandbox_hosts = ["files.example.org"]\n'
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("notify", "loud"), ("nothing", 1), ("size_target_tokens", 50_000), ("effort", None)],
)
def test_what_cannot_be_used_changes_nothing(file: Path, name: str, value: object) -> None:
    with pytest.raises(SettingError):
        set_value(file, name, value)
    assert file.read_text() == FILE


def test_an_agent_cannot_change_a_setting(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEVENFOLD_AGENT", "1")
    with pytest.raises(Exception, match="the user's to do"):
        set_value(file, "sandbox", "off")
    assert file.read_text() == FILE


@given(st.lists(st.text(min_size=1, max_size=20), max_size=4))
def test_any_text_is_written_so_that_it_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("any") / "settings.toml"
    path.write_text(FILE)
    try:
        set_value(path, "sandbox_read", texts)
    except SettingError:
        assert path.read_text() == FILE
    else:
        assert tomllib.loads(path.read_text()) == {**tomllib.loads(FILE), "sandbox_read": texts}
