"""What a session costs and keeps under a policy, with figures that can be checked by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from sevenfold.errors import InputError, SettingError
from sevenfold.lab import replay
from sevenfold.lab.replay import retention
from sevenfold.lab.replay.figures import FactCounts, PolicyTotal, Replayed, ReplayLimits, RuleCounts
from sevenfold.lab.replay.policies import ClaudeCode
from sevenfold.lab.replay.prose import LINE, TOKENS, Prose
from sevenfold.lab.replay.recording import RecordedSummary
from sevenfold.lab.simulator.tokens import Counter
from sevenfold.profiles import find
from tests.replay.telling import CORRECTION, REMARK, RULE, session

MODEL = "claude-opus-4-6"
WINDOW = 30_000
SUMMARISING = ("summarise-80", "claude-code", "ours")


def replayed(path: Path, policy: str, window: int | None = WINDOW, model: str = MODEL) -> Replayed:
    return replay.replay(replay.read(path), replay.policy(policy), model=model, window=window)


@pytest.fixture(scope="module")
def long_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return session(tmp_path_factory.mktemp("replay") / "long.jsonl")


@pytest.fixture(scope="module")
def compared(long_session: Path) -> dict[str, Replayed]:
    return {name: replayed(long_session, name) for name in replay.STANDARD}


# -- what it costs -----------------------------------------------------------------------------------


@pytest.mark.spec("S31.5")
@pytest.mark.parametrize("policy", replay.STANDARD)
def test_a_session_that_fits_costs_what_its_prompts_and_answers_cost(tmp_path: Path, policy: str) -> None:
    path = session(tmp_path / "one.jsonl", rounds=0)
    made = replayed(path, policy, window=None)
    price = find(MODEL).price(0)
    assert price is not None
    output = Counter().text("All panels are read.", "claude-a")
    written = made.prompt_tokens  # The only prompt is written to the cache, or is too short to be cached.
    least = (written * price.input + output * price.output) / 1e6
    most = (written * price.write_5m + output * price.output) / 1e6
    assert made.figures.cost_usd is not None
    assert least - 1e-9 <= made.figures.cost_usd <= most + 1e-9
    assert made.figures.peak_context_tokens == made.prompt_tokens


@pytest.mark.spec("S31.5")
def test_a_session_that_outgrows_the_window_fails_without_a_policy(compared: dict[str, Replayed]) -> None:
    nothing = compared["nothing"]
    assert not nothing.completed
    assert f"{WINDOW} maximum" in nothing.failure
    assert nothing.figures.cost_usd is None
    assert nothing.figures.ideal_cost_usd is None
    assert nothing.figures.cache_read_share is None


@pytest.mark.spec("S31.5")
@pytest.mark.parametrize("policy", replay.STANDARD[1:])
def test_every_other_policy_holds_it_within_the_window(compared: dict[str, Replayed], policy: str) -> None:
    made = compared[policy]
    assert made.completed, made.failure
    assert made.figures.peak_context_tokens <= WINDOW
    assert made.figures.cost_usd is not None
    assert made.figures.ideal_cost_usd is not None
    assert 0 < made.figures.ideal_cost_usd <= made.figures.cost_usd + 1e-9
    assert made.series.cost_usd[-1] == pytest.approx(made.figures.cost_usd)
    assert max(made.series.context_tokens) == made.figures.peak_context_tokens
    assert made.series.request == tuple(range(1, made.requests + 1))


@pytest.mark.spec("S31.5")
def test_a_pause_that_outlives_the_cache_makes_a_session_dearer(tmp_path: Path) -> None:
    quick = replayed(session(tmp_path / "quick.jsonl", 8), "nothing", None)
    slow = replayed(session(tmp_path / "slow.jsonl", 8, pause=400.0), "nothing", None)
    assert quick.prompt_tokens == slow.prompt_tokens
    assert (quick.figures.cache_read_share or 0) > 0.5
    assert slow.figures.cache_read_share == 0
    assert (slow.figures.cost_usd or 0) > 2 * (quick.figures.cost_usd or 0)
    assert slow.figures.ideal_cost_usd == pytest.approx(quick.figures.ideal_cost_usd)
    assert slow.figures.unexpected_breaks == 0


@pytest.mark.spec("S31.5")
def test_clearing_all_but_the_newest_results_breaks_the_cache_at_each_request(
    compared: dict[str, Replayed],
) -> None:
    kept = compared["keep-last-3"].figures
    ours = compared["ours"].figures
    assert (kept.cache_read_share or 0) < (ours.cache_read_share or 0)
    assert kept.compactions == 0


@pytest.mark.spec("S31.5")
def test_the_same_replay_gives_the_same_figures(long_session: Path, compared: dict[str, Replayed]) -> None:
    for policy in ("sliding-window", "ours"):
        assert replayed(long_session, policy) == compared[policy]


@pytest.mark.spec("S31.5")
@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-haiku-4-5", "claude-3-haiku"])
def test_any_model_can_be_asked_whether_it_thinks_and_whether_its_thinking_is_bound(
    long_session: Path, model: str
) -> None:
    for policy in replay.STANDARD[1:]:
        made = replayed(long_session, policy, model=model)
        assert made.completed, f"{policy}: {made.failure}"
        assert made.figures.cost_usd is not None


@pytest.mark.spec("S31.5")
def test_a_model_without_known_prices_has_no_cost(long_session: Path) -> None:
    made = replayed(long_session, "summarise-80", model="gpt-5.6")
    assert made.completed, made.failure
    assert made.figures.cost_usd is None
    assert made.figures.compactions > 0


@pytest.mark.spec("S31.5")
def test_without_a_name_the_model_is_the_recordings_own(long_session: Path) -> None:
    assert replayed(long_session, "nothing", window=None, model="").model == "claude-opus-4-5-20251101"


def test_a_window_that_the_model_does_not_have_is_refused(long_session: Path) -> None:
    with pytest.raises(InputError, match="has a window of 200,000 tokens"):
        replayed(long_session, "nothing", window=300_000, model="claude-haiku-4-5")


# -- summaries -----------------------------------------------------------------------------------------


@pytest.mark.spec("S31.6")
def test_summaries_are_waited_for_unless_they_are_made_in_the_background(tmp_path: Path) -> None:
    path = session(tmp_path / "lookups.jsonl", tool="mcp__harbour__lookup")
    settings = tmp_path / "ahead.toml"
    settings.write_text("notes = false\n")
    waits = {}
    for policy in (*SUMMARISING, str(settings)):
        made = replayed(path, policy)
        assert made.completed, made.failure
        assert made.figures.compactions > 0, policy
        assert made.stand_in
        waits[policy] = made.figures.foreground_waits
    assert waits[str(settings)] == 0 < min(waits["summarise-80"], waits["claude-code"])
    assert replayed(path, "sliding-window").figures.foreground_waits == 0


@pytest.mark.spec("S31.6")
@pytest.mark.parametrize("policy", SUMMARISING)
def test_a_recorded_summary_is_what_every_policy_gets(tmp_path: Path, policy: str) -> None:
    path = session(tmp_path / "compacted.jsonl", summary_after=12, tool="mcp__harbour__lookup")
    recording = replay.read(path)
    assert [summary.step for summary in recording.summaries] == [13]
    made = replayed(path, policy)
    assert made.figures.compactions > 0
    assert not made.stand_in


@pytest.mark.spec("S31.6")
def test_prose_is_the_next_recorded_summary_or_the_last_or_says_nothing() -> None:
    early = RecordedSummary(5, "early")
    late = RecordedSummary(9, "late")
    prose = Prose.of((early, late), "claude-a")
    assert [prose.at(step) for step in (2, 5, 6, 9, 30)] == ["early", "early", "late", "late", "late"]
    nothing = Prose.of((), "claude-a").at(3)
    assert set(nothing.splitlines()) == {LINE.strip()}
    assert Counter().text(nothing, "claude-a") == pytest.approx(TOKENS, rel=0.02)


# -- what is kept ----------------------------------------------------------------------------------------


@pytest.mark.spec("S31.7")
def test_rules_are_lost_where_the_users_words_leave_the_context_and_ours_keeps_them(
    compared: dict[str, Replayed],
) -> None:
    rules = {name: made.figures.rules for name, made in compared.items()}
    assert rules["sliding-window"] == RuleCounts(0, 2)
    assert rules["summarise-80"] == RuleCounts(0, 2)
    assert rules["claude-code"] == RuleCounts(0, 2)
    assert rules["keep-last-3"] == RuleCounts(2, 0)
    assert rules["ours"] == RuleCounts(2, 0)


@pytest.mark.spec("S31.7")
def test_all_policies_are_asked_for_the_same_facts(compared: dict[str, Replayed]) -> None:
    counts = {
        name: made.figures.facts.in_context + made.figures.facts.reachable + made.figures.facts.lost
        for name, made in compared.items()
        if made.completed
    }
    assert len(set(counts.values())) == 1
    assert set(counts.values()) != {0}
    assert compared["claude-code"].figures.facts.lost == 0
    assert compared["sliding-window"].figures.facts.reachable == 0
    assert compared["ours"].figures.facts.lost == 0


@pytest.mark.spec("S31.7")
def test_facts_are_looked_for_in_the_whole_session_up_to_the_last_request(long_session: Path) -> None:
    recording = replay.read(long_session)
    facts = retention.facts_of(recording, len(recording.steps))
    texts = {fact.text for fact in facts}
    assert {CORRECTION, RULE} <= texts
    early = {fact.text for fact in retention.facts_of(recording, 1)}
    assert RULE in early
    assert CORRECTION not in early


@pytest.mark.spec("S31.9")
def test_a_result_with_words_of_the_user_is_not_cleared(tmp_path: Path) -> None:
    path = session(tmp_path / "refused.jsonl", 30, refusal=True)
    recording = replay.read(path)
    assert any(REMARK in fact.text for fact in retention.facts_of(recording, len(recording.steps)))
    settings = tmp_path / "clearing.toml"
    settings.write_text("compaction = false\nsize_trigger_tokens = 4000\nsize_target_tokens = 3000\n")
    cleared = replayed(path, str(settings), window=None)
    assert cleared.completed, cleared.failure
    assert cleared.figures.rules.lost == 0
    assert replayed(path, "keep-last-3", window=None).figures.rules.lost == 1


# -- policies by name --------------------------------------------------------------------------------------


def test_a_policy_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(
        InputError, match="there is no policy 'best'; choose nothing, sliding-window, keep-last-3"
    ):
        replay.policy("best")
    with pytest.raises(InputError, match="keep-last-N takes a number from 1 to 100"):
        replay.policy("keep-last-none")
    with pytest.raises(InputError, match="summarise-N takes a number"):
        replay.policy("summarise-400")


def test_a_settings_file_is_a_policy_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text("notes = false\n")
    assert replay.policy(str(file)).settings is not None
    file.write_text("nots = false\n")
    with pytest.raises(SettingError, match="nots"):
        replay.policy(str(file))
    with pytest.raises(InputError, match="no such settings file"):
        replay.policy(str(tmp_path / "missing.toml"))


def test_neither_files_nor_environment_of_this_machine_change_what_ours_does(
    long_session: Path, compared: dict[str, Replayed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEVENFOLD_COMPACTION", "off")
    assert replayed(long_session, "ours") == compared["ours"]


def test_claude_code_puts_the_files_read_last_back_behind_the_summary(
    compared: dict[str, Replayed],
) -> None:
    sizes = compared["claude-code"].series.context_tokens
    falls = [after for before, after in pairwise(sizes) if after < before]
    assert len(falls) == compared["claude-code"].figures.compactions
    assert min(falls) > TOKENS + ClaudeCode.files * 500


# -- limits ------------------------------------------------------------------------------------------------


def total(**figures: object) -> PolicyTotal:
    usual: dict[str, object] = {
        "policy": "ours",
        "sessions": 2,
        "failed": 0,
        "cost_usd": 3.0,
        "ideal_cost_usd": 2.0,
        "cache_read_share": 0.9,
        "unexpected_breaks": 0,
        "peak_context_tokens": 1,
        "compactions": 1,
        "foreground_waits": 0,
        "facts": FactCounts(90, 8, 2),
        "rules": RuleCounts(1, 0),
    }
    return PolicyTotal(**{**usual, **figures})  # type: ignore[arg-type]


@pytest.mark.spec("S31.8")
@pytest.mark.parametrize(
    ("limits", "figures", "problem"),
    [
        (ReplayLimits(), {"failed": 2}, ""),
        (ReplayLimits(max_cost=3.0), {}, ""),
        (ReplayLimits(max_cost=2.5), {}, "it costs $3.00, and at most $2.50 is allowed"),
        (ReplayLimits(max_cost=9.0), {"cost_usd": None}, "its cost is unknown"),
        (ReplayLimits(max_cost=9.0), {"failed": 1}, "1 of 2 sessions did not fit the window"),
        (ReplayLimits(min_retention=0.98), {}, ""),
        (ReplayLimits(min_retention=0.99), {}, "98.00% of the facts"),
        (ReplayLimits(no_unexpected_breaks=True), {}, ""),
        (ReplayLimits(no_unexpected_breaks=True), {"unexpected_breaks": 2}, "the cache broke 2 times"),
    ],
)
def test_a_limit_is_exceeded_or_not(limits: ReplayLimits, figures: dict[str, object], problem: str) -> None:
    found = limits.exceeded(total(**figures))
    assert len(found) == bool(problem)
    assert problem in "".join(found)
