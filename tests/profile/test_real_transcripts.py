"""Real transcripts, held against a recount that shares no code with the profiler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sevenfold.archive.profile import files
from sevenfold.archive.profile.figures import ProfileReport, SessionProfile

FIELDS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


@pytest.fixture(scope="module")
def profile(corpus: Path) -> ProfileReport:
    return files.profile(files.find([corpus]))


def of_format(profile: ProfileReport, name: str) -> Iterator[tuple[SessionProfile, list[dict[str, Any]]]]:
    for session in profile.sessions:
        if session.format == name:
            with Path(session.file).open(encoding="utf-8") as file:
                yield session, [json.loads(line) for line in file if line.strip()]


def calls(records: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Usage by response id: what its last record reports."""
    return {
        record["message"]["id"]: {name: record["message"]["usage"].get(name) or 0 for name in FIELDS}
        for record in records
        if record.get("type") == "assistant" and record["message"]["model"] != "<synthetic>"
    }


def prompt(usage: dict[str, int]) -> int:
    return sum(usage[name] for name in FIELDS[:3])


def test_every_transcript_of_a_known_kind_is_profiled(profile: ProfileReport, corpus: Path) -> None:
    refused = {Path(error.file).relative_to(corpus).parts[0] for error in profile.errors}
    assert refused <= {"MANIFEST.jsonl"}
    assert {session.format for session in profile.sessions} == {"transcript", "codex", "pi"}


@pytest.mark.spec("S0.7")
def test_calls_and_usage_are_those_of_a_plain_recount(profile: ProfileReport) -> None:
    for session, records in of_format(profile, "transcript"):
        counted = calls(records)
        assert session.api_calls == len(counted), session.file
        for name in FIELDS:
            assert getattr(session.usage, name) == sum(one[name] for one in counted.values()), session.file
        assert session.peak_context_tokens == max(map(prompt, counted.values())), session.file
        assert session.damaged_lines == 0
        assert session.unknown_lines == {}


def test_every_boundary_and_every_clearing_is_accounted_for(profile: ProfileReport) -> None:
    for session, records in of_format(profile, "transcript"):
        kinds = [record.get("subtype") for record in records if record.get("type") == "system"]
        assert session.compactions == kinds.count("compact_boundary"), session.file
        assert session.clearings == kinds.count("microcompact_boundary"), session.file
        assert len(session.compaction_events) == session.compactions
        assert len(session.clearing_events) == session.clearings


@pytest.mark.spec("S6.6")
def test_every_clearing_shows_the_prompts_around_it_and_the_cache_it_cost(profile: ProfileReport) -> None:
    for session, records in of_format(profile, "transcript"):
        counted = calls(records)
        order = list(counted)
        for event in session.clearing_events:
            before, after = counted[order[event.call - 1]], counted[order[event.call]]
            assert (event.tokens_before, event.tokens_after) == (prompt(before), prompt(after))
            lost = next(one for one in session.cache_breaks if one.call == event.call + 1)
            assert lost.cause == "clearing"
            assert lost.tokens == prompt(after) - after["cache_read_input_tokens"] - after[
                "input_tokens"
            ] or (lost.tokens == prompt(after) - after["cache_read_input_tokens"])


@pytest.mark.spec("S0.6")
def test_all_prompt_tokens_are_accounted_for_by_category(profile: ProfileReport) -> None:
    for session in profile.sessions:
        carried = sum(session.carried_by_category.values())
        assert carried == pytest.approx(session.usage.prompt, abs=len(session.carried_by_category)), (
            session.file
        )


def test_costs_are_ordered_as_they_must_be(profile: ProfileReport) -> None:
    priced = [session for session in profile.sessions if session.cost_usd is not None]
    assert priced
    for session in priced:
        assert session.uncached_cost_usd is not None
        assert session.ideal_cost_usd is not None
        assert 0 < session.ideal_cost_usd <= session.uncached_cost_usd * 2


def test_the_rule_of_four_characters_falls_short_and_the_estimate_does_not(profile: ProfileReport) -> None:
    growth = profile.total.growth
    assert growth.chars4_share is not None
    assert growth.estimate_share is not None
    assert growth.chars4_share < 0.8
    assert 0.95 < growth.estimate_share < 1.05


def test_a_rollout_s_usage_is_its_last_total(profile: ProfileReport) -> None:
    for session, records in of_format(profile, "codex"):
        reports = [
            record["payload"]["info"]["total_token_usage"]
            for record in records
            if record["payload"].get("type") == "token_count" and record["payload"]["info"]
        ]
        assert session.api_calls == len({report["total_tokens"] for report in reports})
        assert session.usage.prompt == reports[-1]["input_tokens"]
        assert session.usage.cache_read_input_tokens == reports[-1]["cached_input_tokens"]
        assert session.usage.output_tokens == reports[-1]["output_tokens"]
        assert session.compactions == sum(record["type"] == "compacted" for record in records)
