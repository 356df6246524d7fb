"""The status line of the plugin for Claude Code."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from sevenfold.doors.plugins import kept
from sevenfold.doors.plugins.status_line import status_line
from tests.profile.making import Tape, text, usage

pytestmark = pytest.mark.spec("S23.7")
NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC).timestamp()


def clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%H:%M")


def test_it_shows_context_cache_cost_and_the_last_miss() -> None:
    told = {
        "context_window": {"used_percentage": 45.2, "context_window_size": 200_000},
        "cost": {"total_cost_usd": 1.234},
        "prompt_cache": {"warm": True, "expires_at": NOW + 600, "last_miss_cause": "tools_changed"},
    }
    expected = (
        f"context 45% of 200k · cache warm until {clock(NOW + 600)} · $1.23 · last miss: tools changed"
    )
    assert status_line(told, NOW) == expected


def test_a_cold_cache_says_how_much_has_to_be_written() -> None:
    told = {"prompt_cache": {"warm": False, "recache_tokens_if_cold": 152_000}}
    assert status_line(told, NOW) == "cache cold, 152k to write"


def test_what_the_program_does_not_tell_comes_from_the_newest_answer(tmp_path: Path) -> None:
    tape = Tape()
    tape.now = datetime.fromtimestamp(NOW, UTC)
    tape.user("Hello.").answer("a1", usage(10, read=40_000, output=5), text("Hello."))
    told = {"transcript_path": str(tape.save(tmp_path / "talk.jsonl"))}
    assert status_line(told, NOW).startswith("context 40k · cache warm until ")
    assert status_line(told, NOW + 4_000) == "context 40k · cache cold, 40k to write"


def test_values_of_the_wrong_kind_are_left_out_and_control_characters_removed() -> None:
    told = {
        "context_window": "full",
        "cost": {"total_cost_usd": "much"},
        "prompt_cache": {"warm": "yes", "last_miss_cause": "\x1b]0;pwned\x07"},
    }
    assert status_line(told, NOW) == "last miss: ]0;pwned"


def test_the_causes_of_the_last_miss_are_named_with_what_the_misses_cost() -> None:
    # The shape in which Claude Code 2.1.327 tells it.
    told = {
        "model": {"id": "claude-opus-4-6"},
        "prompt_cache": {
            "warm": True,
            "ttl": "1h",
            "expires_at": NOW + 600,
            "misses": 2,
            "miss_recache_tokens": 100_000,
            "last_miss_cause": {"causes": ["tools_changed", "system_changed"], "tools_added": 3},
        },
    }
    line = status_line(told, NOW)
    assert line.endswith("last miss: tools changed, system changed (2 misses: 100k written again, $0.95)")


@pytest.mark.parametrize("cause", [None, 3, [], {}, {"causes": "x"}, {"causes": [None, {"causes": 1}]}])
def test_a_cause_in_an_unknown_shape_is_left_out(cause: object) -> None:
    told = {"cost": {"total_cost_usd": 1}, "prompt_cache": {"last_miss_cause": cause, "misses": "x"}}
    assert "miss" not in status_line(told, NOW)


def test_it_shows_what_a_gateway_in_between_saved_and_what_its_own_calls_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path))
    told = {"session_id": "talk", "cost": {"total_cost_usd": 2.0}}
    assert status_line(told, NOW) == "$2.00"
    kept.tell("talk", 1.504, 0.04)
    assert status_line(told, NOW) == "$2.00 · gateway: saved $1.50, own calls $0.04"
    assert status_line({"session_id": "another"}, NOW) == ""
    kept.tell("talk", -0.2, 0.001)
    assert status_line(told, NOW) == "$2.00 · gateway: cost $0.20 more"
    kept.tell("talk", 0.001, 0.001)
    assert status_line(told, NOW) == "$2.00"
    (file,) = tmp_path.rglob("*.json")
    file.write_text("[1]")
    assert status_line(told, NOW) == "$2.00"
