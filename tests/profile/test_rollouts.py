"""Profiles of rollouts made of timestamped payloads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.profile.making import Rollout


def begun(model: str = "gpt-5.4") -> Rollout:
    rollout = Rollout().record("session_meta", id="r-1", cwd="/x", cli_version="0.118.0")
    rollout.record("turn_context", model=model)
    rollout.item("message", role="developer", content=[{"type": "input_text", "text": "Rules. " * 50}])
    return rollout.item("message", role="user", content=[{"type": "input_text", "text": "fix the fault"}])


def ran(rollout: Rollout, number: int, output: str) -> Rollout:
    given = json.dumps({"cmd": f"sed -n 1,90p file{number}.go"})
    rollout.item("function_call", name="exec_command", arguments=given, call_id=f"c{number}")
    return rollout.item("function_call_output", call_id=f"c{number}", output=output)


def test_a_call_is_a_report_whose_total_grew(tmp_path: Path) -> None:
    rollout = begun().record("event_msg", type="token_count", info=None)
    ran(rollout, 1, "package main").count(prompt=12_000, read=9_000, output=300)
    rollout.count(grew=False, prompt=12_000, read=9_000, output=300)
    ran(rollout, 2, "func main").count(prompt=13_000, read=12_000, output=100)
    session = rollout.profile(tmp_path)
    assert (session.format, session.session_id, session.api_calls) == ("codex", "r-1", 2)
    sums = session.usage
    assert (sums.input_tokens, sums.cache_read_input_tokens, sums.output_tokens) == (4_000, 21_000, 400)
    assert session.models == {"gpt-5.4": 2}
    assert (session.peak_context_tokens, session.window_tokens) == (13_000, 258_400)


def test_the_first_total_of_a_file_may_count_calls_that_are_elsewhere(tmp_path: Path) -> None:
    rollout = begun()
    rollout._total = {"input_tokens": 800_000, "output_tokens": 9_000, "total_tokens": 809_000}
    session = rollout.count(prompt=12_000, output=300).count(prompt=13_000, output=100).profile(tmp_path)
    assert session.usage.prompt == 25_000
    assert session.usage.output_tokens == 400


def test_costs_are_unknown_where_the_model_has_no_price(tmp_path: Path) -> None:
    session = begun("gpt-unheard-of").count(prompt=12_000, output=300).profile(tmp_path)
    assert (session.cost_usd, session.unpriced_calls) == (None, 1)


def test_tools_are_named_and_developer_messages_belong_to_the_system(tmp_path: Path) -> None:
    rollout = begun()
    rollout.item("reasoning", summary=[], encrypted_content="s" * 900)
    ran(rollout, 1, "line\n" * 400).count(prompt=2_000, output=60)
    rollout.item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="p1")
    rollout.item("custom_tool_call_output", call_id="p1", output="Success")
    rollout.item("message", role="assistant", content=[{"type": "output_text", "text": "Done."}])
    session = rollout.count(prompt=3_000, output=50).profile(tmp_path)
    assert {"tool_result:exec_command", "tool_result:apply_patch", "tool_inputs"} <= set(
        session.tokens_by_category
    )
    assert session.largest_items[0].tool == "exec_command"
    assert session.largest_items[0].what == "sed -n 1,90p file1.go"
    assert "thinking" in session.tokens_by_category
    assert session.tokens_by_category["system_and_tools"] > session.tokens_by_category["user_text"]


def test_a_compaction_replaces_the_history(tmp_path: Path) -> None:
    rollout = ran(begun(), 1, "word " * 9_000).count(prompt=12_000, output=300)
    rollout.count(prompt=30_000, read=12_000, output=100)
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix the fault"}]}
    rollout.record(
        "compacted",
        message="",
        replacement_history=[kept, {"type": "compaction", "encrypted_content": "x" * 99}],
    )
    rollout.count(grew=False, prompt=0)
    session = rollout.count(prompt=9_000, read=4_000, output=80).profile(tmp_path)
    assert (session.api_calls, session.compactions) == (3, 1)
    (event,) = session.compaction_events
    assert (event.call, event.tokens_before, event.tokens_after) == (2, 30_100, 9_000)
    assert [(one.cause, one.tokens) for one in session.cache_breaks] == [("compaction", 5_000)]
    assert session.largest_items[0].calls == 2
    assert "summaries" in session.tokens_by_category


def test_an_idle_gap_explains_a_lost_cache(tmp_path: Path) -> None:
    rollout = begun().count(prompt=20_000, read=10_000)
    rollout.item("message", role="assistant", content=[{"type": "output_text", "text": "hm"}])
    rollout.now = rollout.now.replace(hour=14)
    rollout.item("message", role="user", content=[{"type": "input_text", "text": "on"}])
    session = rollout.count(prompt=21_000, read=3_456).profile(tmp_path)
    assert [(one.cause, one.tokens) for one in session.cache_breaks] == [("expired", 16_544)]


@pytest.mark.spec("S0.6")
def test_the_tokens_carried_are_the_tokens_reported(tmp_path: Path) -> None:
    rollout = begun()
    for number, prompt in enumerate((12_000, 15_000, 14_000, 22_000)):
        ran(rollout, number, "line\n" * 300).count(prompt=prompt, output=50)
    assert sum(rollout.profile(tmp_path).carried_by_category.values()) == pytest.approx(63_000, abs=4)


def test_damaged_and_unknown_lines_are_counted(tmp_path: Path) -> None:
    rollout = begun().record("brand_new", anything=1)
    rollout.lines += ["{torn", '{"timestamp":"t","type":"event_msg","payload":"no object"}', ""]
    rollout.item("message", role="user", content=[{"type": "input_text", "text": "half: \ud83d"}])
    session = rollout.count(prompt=12_000, output=300).profile(tmp_path)
    assert (session.damaged_lines, session.unknown_lines) == (2, {"brand_new": 1})
    assert session.api_calls == 1
