"""From layers of raw values to settings: precedence, every error, and what no input can break."""

from __future__ import annotations

import tomllib
from datetime import date
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sevenfold.errors import SettingError
from sevenfold.profiles import find
from sevenfold.record.window import Window
from sevenfold.settings import (
    DEFAULT,
    Settings,
    SettingsLayer,
    all_settings,
    by_name,
    checked,
    from_text,
    latch,
    overlaid,
    resolve,
)

NAMES = sorted(by_name())


def settled(**values: object) -> Settings:
    return resolve([SettingsLayer("code", values)]).settings


# Defaults and precedence


@pytest.mark.spec("S8.2")
def test_every_setting_is_described_and_nothing_else_is():
    described = resources.files("sevenfold").joinpath("settings.toml").read_text("utf-8")
    assert list(tomllib.loads(described)) == list(Settings.__struct_fields__)


@pytest.mark.spec("S8.2")
def test_without_any_layer_every_value_is_the_default():
    resolved = resolve([])
    assert resolved.settings == Settings()
    assert resolved.origins == dict.fromkeys(NAMES, DEFAULT)


@pytest.mark.spec("S8.2")
def test_only_what_would_replace_auto_compaction_or_costs_extra_or_lets_others_in_or_needs_more_is_off_by_default():
    off = {one.name for one in all_settings() if one.kind == "switch" and not one.default}
    assert off == {
        "reactive_only",
        "collapse",
        "broker",
        "long_lifetime_bedrock",
        "threads",
        "message_socket",
        "prompt_suggestion",
        "progress_lines",
        "speculation",
    }


@pytest.mark.spec("S8.2")
def test_a_later_layer_wins_and_is_named_as_the_origin():
    resolved = resolve(
        [
            SettingsLayer("user file", {"gap_keep": 1, "size_keep": 1, "offload": False}),
            SettingsLayer("project file", {"gap_keep": 2, "size_keep": 2}),
            SettingsLayer("code", {"gap_keep": 3}),
        ]
    )
    assert (resolved.settings.gap_keep, resolved.settings.size_keep, resolved.settings.offload) == (
        3,
        2,
        False,
    )
    assert resolved.origins["gap_keep"] == "code"
    assert resolved.origins["size_keep"] == "project file"
    assert resolved.origins["offload"] == "user file"
    assert resolved.origins["snip"] == DEFAULT


def test_a_wrong_value_is_an_error_even_if_a_later_layer_replaces_it():
    with pytest.raises(SettingError, match="user file: gap_keep = 0"):
        resolve([SettingsLayer("user file", {"gap_keep": 0}), SettingsLayer("code", {"gap_keep": 3})])


# Wrong values


@pytest.mark.spec("S8.2")
@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("offload", 1, "true or false"),
        ("offload", "on", "true or false"),
        ("gap_keep", 0, "a whole number (results), 1 or more"),
        ("gap_keep", True, "a whole number (results), 1 or more"),
        ("gap_keep", 2.0, "a whole number (results), 1 or more"),
        ("gap_keep", None, "a whole number (results), 1 or more"),
        ("offload_characters", "50 000", "a whole number (characters), 1 or more"),
        ("offload_characters", 10**13, "1 or more and at most 1,000,000,000,000"),
        ("context_window", 200, "a whole number (tokens), 1,000 or more"),
        ("compact_percent", 0, "a number (percent), above 0 and at most 100"),
        ("compact_percent", 100.5, "a number (percent), above 0 and at most 100"),
        ("compact_percent", float("nan"), "a number (percent), above 0 and at most 100"),
        ("edits_trigger_share", 1, "a number (share), above 0 and below 1"),
        ("spending_cap_usd", float("inf"), "a number (US dollars), 0 or more"),
        ("redaction", "on", '"gate" or "off"'),
        ("fsync", date(2026, 1, 1), '"always" or "durable" or "never"'),
        ("offload_by_tool", {"Bash": 0}, '1 or more, or "never"'),
        ("offload_by_tool", {"Bash": "always"}, '1 or more, or "never"'),
        ("offload_by_tool", ["Bash"], "a table of names"),
        ("compact_engines", ["notes"], 'a list, each entry "fork" or "plain" or "provider"'),
        ("long_lifetime_sources", "main", "a list, each entry a text"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_its_place_and_what_is_allowed(name, value, allowed):
    with pytest.raises(SettingError) as caught:
        resolve([SettingsLayer("user file /there/settings.toml", {name: value})])
    message = str(caught.value)
    assert message.startswith(f"user file /there/settings.toml: {name} = ")
    assert allowed in message


def test_a_value_that_cannot_even_be_shown_is_still_told():
    with pytest.raises(SettingError, match="gap_keep = a value of type int cannot be used"):
        settled(gap_keep=10**5000)
    with pytest.raises(SettingError, match="redaction = a value of type str cannot be used"):
        settled(redaction="\ud800")


def test_the_value_itself_is_shown_but_not_at_length():
    with pytest.raises(SettingError, match='= "twenty" cannot'):
        settled(gap_keep="twenty")
    with pytest.raises(SettingError, match="= nan cannot"):
        settled(compact_percent=float("nan"))
    with pytest.raises(SettingError) as caught:
        settled(gap_keep="x" * 10_000)
    assert len(str(caught.value)) < 200


@pytest.mark.spec("S8.2")
@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("ofload", "did you mean offload?"),
        ("auto-compact", "did you mean auto_compact?"),
        ("GAP_KEEP", "did you mean gap_keep?"),
        ("xyzzy", "`sevenfold config` lists them all"),
    ],
)
def test_an_unknown_name_is_an_error_that_offers_the_nearest(wrong, meant):
    with pytest.raises(SettingError) as caught:
        resolve([SettingsLayer("project file", {wrong: True})])
    assert str(caught.value) == f'project file: there is no setting "{wrong}"; {meant}'


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"size_target_tokens": 40_000}, ("size_target_tokens = 40000 (code)", "= 40000 (default)")),
        ({"pinned_keep": 12}, ("pinned_keep = 12 (code)", "pinned_trigger = 12 (default)")),
        (
            {"preview_bytes": 60_000},
            ("preview_bytes = 60000 (code)", "offload_characters = 50000 (default)"),
        ),
        ({"offload_by_tool": {"Bash": 500}}, ("preview_bytes = 2000 (default)", "offload_by_tool")),
        (
            {"blocking_limit": 9_000, "context_window": 8_000},
            ("blocking_limit = 9000 (code)", "context_window = 8000 (code)"),
        ),
    ],
)
def test_figures_that_contradict_each_other_are_named_together(values, names):
    with pytest.raises(SettingError, match="cannot be used together") as caught:
        settled(**values)
    for part in names:
        assert part in str(caught.value)


# What settings mean to others


def test_a_tool_may_have_a_limit_of_its_own_or_none():
    settings = settled(offload_by_tool={"Bash": 9_000, "Read": "never"})
    assert settings.offload_limit("Bash") == 9_000
    assert settings.offload_limit("Read") is None
    assert settings.offload_limit("Grep") == 50_000


@pytest.mark.spec("S0.1", "S0.3", "S0.4")
def test_the_settings_of_the_window_are_those_its_levels_are_made_from():
    settings = settled(
        context_window=500_000, compact_window=120_000, compact_percent=50, blocking_limit=90_000
    )
    window = Window.of(
        find("claude-sonnet-5-5"),
        override=settings.context_window,
        cap=settings.compact_window,
        percent=settings.compact_percent,
        blocking=settings.blocking_limit,
    )
    assert (window.context, window.source, window.capped) == (500_000, "setting", 120_000)
    assert (window.threshold, window.blocking) == (50_000, 90_000)


def test_every_setting_has_a_sentence_a_unit_where_it_is_a_figure_and_a_stage():
    for setting in all_settings():
        assert setting.says.endswith("."), setting.name
        assert setting.says[0].isupper(), setting.name
        assert bool(setting.unit) == (setting.kind in ("whole number", "number", "table")), setting.name
        assert setting.stage in ("stable", "preview", "planned")
        assert checked(setting.name, setting.default, "default") == setting.default
        assert set(setting.needs + setting.yields_to) <= set(NAMES)


# Plain text, as variables have it


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        *(("offload", text, True) for text in ("1", "true", "on", "yes", " TRUE ")),
        *(("offload", text, False) for text in ("0", "false", "off", "no", "Off")),
        ("offload", "maybe", "maybe"),
        ("offload_characters", "20_000", 20_000),
        ("offload_characters", "20000", 20_000),
        ("offload_characters", "20k", "20k"),
        ("compact_percent", "62.5", 62.5),
        ("telemetry", " jsonl ", "jsonl"),
        ("offload_by_tool", "Bash=20_000, Read = never", {"Bash": 20_000, "Read": "never"}),
        ("offload_by_tool", "Bash", "Bash"),
        ("compact_engines", "fork, provider", ["fork", "provider"]),
        ("long_lifetime_sources", "", []),
    ],
)
def test_text_is_read_as_its_setting_needs_it_and_stays_text_if_it_cannot_be(name, text, value):
    assert from_text(by_name()[name], text) == value


# No input breaks it


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**15)
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.dates()
    | st.sampled_from(["never", "off", "gate", "always", "otel"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=5,
)
raw_layers = st.lists(
    st.builds(
        SettingsLayer,
        st.just("somewhere"),
        st.dictionaries(
            st.sampled_from(NAMES) | st.text(st.characters()) | st.integers(), anything, max_size=3
        ),
    ),
    max_size=3,
)


@given(raw_layers)
def test_whatever_the_layers_hold_there_are_valid_settings_or_a_setting_error(layers):
    try:
        resolved = resolve(layers)
    except SettingError as error:
        told = str(error)
    else:
        told = "somewhere"
        again = resolve([SettingsLayer("again", structs.asdict(resolved.settings))])
        assert again.settings == resolved.settings
    assert "somewhere" in told


@given(st.sampled_from(NAMES), st.text(st.characters()))
def test_whatever_text_a_variable_holds_it_is_a_valid_value_or_a_setting_error(name, text):
    try:
        value = checked(name, from_text(by_name()[name], text), "variable")
    except SettingError:
        return
    assert checked(name, value, "again") == value


figures = {
    "switch": st.booleans(),
    "whole number": st.integers(1, 60_000),
    "number": st.floats(0.1, 0.9),
    "list": st.lists(st.sampled_from(["fork", "plain"]), max_size=2),
    "table": st.dictionaries(st.sampled_from(["Bash", "Grep"]), st.integers(1, 60_000) | st.just("never")),
}
values = st.fixed_dictionaries(
    {},
    optional={one.name: figures[one.kind] for one in all_settings() if one.kind in figures},
)


def allowed(chosen: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for name, value in chosen.items():
        try:
            kept[name] = checked(name, value, "drawn")
        except SettingError:
            continue
    return kept


@given(values)
def test_laid_over_others_values_that_clash_are_left_out_and_told(chosen):
    chosen = allowed(chosen)
    settings, complaints = overlaid(Settings(), chosen, {})
    assert resolve([SettingsLayer("again", structs.asdict(settings))]).settings == settings
    left_out = {name for name, value in chosen.items() if getattr(settings, name) != value}
    assert bool(left_out) == bool(complaints)
    for name in left_out:
        assert any(name in complaint for complaint in complaints)


@pytest.mark.spec("S6.4")
@given(values, values)
def test_a_session_keeps_what_is_latched_and_follows_the_rest(before, after):
    opened, _ = overlaid(Settings(), allowed(before), {})
    now, _ = overlaid(Settings(), allowed(after), {})
    went_by = latch(opened, now)
    for setting in all_settings():
        assert getattr(went_by, setting.name) == getattr(opened if setting.latched else now, setting.name)
    # Rules between two settings hold across the two moments as well.
    assert resolve([SettingsLayer("again", structs.asdict(went_by))]).settings == went_by


@pytest.mark.spec("S6.4")
def test_what_would_change_bytes_already_sent_is_latched():
    latched = {one.name for one in all_settings() if one.latched}
    assert {"long_lifetime", "provider_edits", "pinned_edits", "gap_keep", "size_keep"} <= latched
    assert {name for name in NAMES if name.startswith("edits_")} <= latched


@pytest.mark.spec("S8.2")
def test_every_other_switch_can_be_flipped_while_a_session_runs():
    held = {one.name for one in all_settings() if one.kind == "switch" and one.latched}
    assert held == {"long_lifetime", "long_lifetime_bedrock", "provider_edits", "pinned_edits"}
