"""Which switches are in force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sevenfold.settings import (
    Settings,
    SettingsLayer,
    all_settings,
    in_force,
    overruled,
    resolve,
)

SWITCHES = [one.name for one in all_settings() if one.kind == "switch"]


def on(settings: Settings) -> set[str]:
    return {name for name in SWITCHES if getattr(in_force(settings), name)}


@pytest.mark.spec("S8.2")
def test_one_switch_turns_off_every_layer_and_nothing_else():
    assert on(Settings(layers=False, collapse=True, reactive_only=True)) == {
        "break_watch",
        "checkpoints",
        "long_lifetime",
        "long_lifetime_account",
        "model_listing",
        "recall_ahead",
        "recall_meaning",
        "token_counting",
    }


@pytest.mark.spec("S8.2")
@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_turns_off_what_it_is_for(name):
    settings = structs.replace(Settings(), **{name: False})
    assert name not in on(settings)


def test_without_compaction_nothing_compacts_but_results_are_still_cleared():
    running = on(Settings(compaction=False, collapse=True))
    assert {"offload", "gap_clearing", "size_clearing", "provider_edits", "notes"} <= running
    assert running.isdisjoint({"auto_compact", "reactive", "collapse", "share_cache", "notes_compaction"})


@pytest.mark.spec("S8.3")
@pytest.mark.parametrize("other", ["collapse", "reactive_only"])
def test_auto_compaction_stands_down_while_another_is_in_charge_but_reactive_stays(other):
    settings = structs.replace(Settings(), **{other: True})
    running = on(settings)
    assert "auto_compact" not in running
    assert {"compaction", "reactive", "notes", other} <= running
    assert overruled(settings)["auto_compact"] == other


def test_with_auto_compaction_switched_off_reactive_is_off_too():
    assert "reactive" not in on(Settings(auto_compact=False))


@given(st.dictionaries(st.sampled_from(SWITCHES), st.booleans()))
def test_no_combination_of_switches_is_an_error_and_each_has_one_meaning(chosen):
    settings = resolve([SettingsLayer("code", chosen)]).settings
    assert {name for name in SWITCHES if getattr(settings, name)} - overruled(settings).keys() == on(
        settings
    )


def test_by_default_nothing_is_overruled():
    assert overruled(Settings()) == {}
    assert in_force(Settings()) == Settings()
