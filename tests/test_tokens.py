"""Weighing and estimating: what a block counts for, what the estimate makes of it, and how it learns."""

from __future__ import annotations

import json
import random
import re
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.weight import (
    FLAT,
    NOTHING,
    PADDING,
    Estimator,
    Weight,
    measure,
    opening,
    total,
    typical,
)

WORDS = (
    "the",
    "of",
    "fold",
    "parse",
    "HTTPServer",
    "user_id",
    "=",
    "(",
    "{",
    "0x1f",
    "2048",
    "//",
    "->",
    "\n\t",
)
CLASSES = ("letters", "capitals", "digits", "spaces", "lines", "tabs", "marks", "wide")


def block(**fields: object) -> Block:
    return blocks.read(json.dumps(fields, ensure_ascii=False).encode())


def prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))


def by_pieces(text: str, longest: int) -> int:
    """A tokenizer of the test's own: pieces of words up to a length, and single signs."""
    return len(re.findall(rf"\w{{1,{longest}}}|[^\w ]", text))


def by_plain_rule(weight: Weight) -> int:
    return Estimator.of("unknown").estimate(weight).tokens


# Weighing


@pytest.mark.spec("S0.8")
def test_text_that_was_not_seen_is_made_of_what_text_is_made_of() -> None:
    unseen = typical(10_000)
    assert unseen.text == sum(getattr(unseen, name) for name in CLASSES) == 10_000
    assert (
        unseen.letters > unseen.spaces > unseen.marks > unseen.digits == unseen.capitals > unseen.lines > 0
    )
    seen = measure(blocks.text(" ".join(["a plain sentence about nothing, with 42 commas"] * 200)))
    per_byte = [Estimator.of("claude-b").tokens(one) / one.text for one in (unseen, seen)]
    assert per_byte[0] == pytest.approx(per_byte[1], rel=0.35)


@pytest.mark.spec("S0.8")
@given(st.text())
def test_every_byte_of_a_text_is_of_one_class(words):
    weight = measure(blocks.text(words))
    assert sum(getattr(weight, name) for name in CLASSES) == weight.text == len(words.encode())


@pytest.mark.spec("S0.8")
def test_characters_are_counted_by_class():
    weight = measure(blocks.text("Go 1.22:\n\tfmt é"))
    assert weight == Weight(
        text=16,
        letters=4,
        capitals=1,
        digits=3,
        spaces=2,
        lines=1,
        tabs=1,
        marks=2,
        wide=2,
        wire=weight.wire,
    )


@pytest.mark.spec("S0.8")
@given(st.text(alphabet=st.sampled_from("az AZ09\n\t.{}é🌊\x1f"), max_size=2_999))
def test_each_character_counts_in_its_own_class(words):
    weight = measure(blocks.text(words))
    ascii_only = [letter for letter in words if letter.isascii()]
    assert weight.letters == sum(letter.islower() for letter in ascii_only)
    assert weight.capitals == sum(letter.isupper() for letter in ascii_only)
    assert weight.digits == sum(letter.isdigit() for letter in ascii_only)
    assert [weight.spaces, weight.lines, weight.tabs] == [words.count(blank) for blank in " \n\t"]
    assert weight.wide == len(words.encode()) - len(ascii_only)


@pytest.mark.spec("S0.8")
@pytest.mark.parametrize("words", ["Aa 1.\n\t", "Ää 1.\n\t"])
def test_a_long_text_weighs_what_its_parts_do(words):
    once, often = measure(blocks.text(words)), measure(blocks.text(words * 4_000))
    for name in CLASSES:
        assert getattr(often, name) == pytest.approx(4_000 * getattr(once, name), rel=0.02)


@pytest.mark.spec("S0.8")
def test_a_call_weighs_its_name_and_its_serialised_input_without_the_backslashes_of_json():
    weight = measure(block(type="tool_use", id="a", name="Run", input={"say": 'a "b"'}))
    assert (weight.calls, weight.json, weight.text) == (1, len('Run{"say": "a \\"b\\""}'), 0)
    assert weight.marks == len('{"":""}') + len('""')


@pytest.mark.spec("S0.8")
def test_a_structured_result_is_json_and_any_other_is_text():
    plain, structured = measure(blocks.result("a", "12 files")), measure(blocks.result("a", ' {"n": 12}'))
    assert (plain.text, plain.json, plain.results) == (8, 0, 1)
    assert (structured.text, structured.json, structured.results) == (0, 10, 1)


@pytest.mark.spec("S0.8")
def test_a_picture_in_a_result_counts_as_a_picture_and_its_bytes_only_on_the_wire():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 9000}}
    weight = measure(
        block(type="tool_result", tool_use_id="a", content=[picture, {"type": "text", "text": "ok"}])
    )
    assert (weight.images, weight.results, weight.text, weight.json) == (1, 1, 2, 0)
    assert weight.wire > 9000


def test_weights_of_parts_add_up_to_the_weight_of_the_whole():
    said = [
        blocks.text("Hello"),
        blocks.result("a", "Line 1\nLine 2"),
        block(type="thinking", signature="x" * 50),
    ]
    assert total(said) == sum(map(measure, said), NOTHING)
    assert total(said) - measure(said[0]) == total(said[1:])
    assert total([]) == NOTHING


# The plain rule


@pytest.mark.spec("S0.8")
@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        (blocks.text("x" * 400), 100),
        (blocks.text("é" * 200), 100),
        (block(type="thinking", thinking="x" * 400, signature="s" * 999), 100),
        (block(type="tool_use", id="a", name="Edit", input={"a": "x" * 387}), 200),
        (blocks.result("a", "x" * 400), 100),
        (blocks.result("a", "[" + "1" * 398 + "]"), 200),
        (block(type="image", source={"data": "x" * 5000}), FLAT),
        (block(type="document", source={"data": "x" * 5000}), FLAT),
        (block(type="brand_new", data="x" * 367), 200),
        (blocks.text(""), 0),
    ],
)
def test_a_tokenizer_nobody_knows_is_estimated_by_the_plain_rule_padded_by_a_third(content, tokens):
    assert by_plain_rule(measure(content)) == ceil(round(tokens * PADDING, 6))


@pytest.mark.spec("S0.8")
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 5000)), max_size=20),
    st.floats(3, 8),
    st.floats(1.5, 8),
)
def test_the_plain_rule_never_falls_short_by_more_than_its_padding(
    pieces, bytes_a_token, bytes_a_json_token
):
    said = [blocks.result("a", "[" + "1" * n if structured else "x" * n) for structured, n in pieces]
    weight = total(said)
    truth = weight.text / bytes_a_token + weight.json / bytes_a_json_token
    assert by_plain_rule(weight) >= truth - 1e-6


# Generations


def test_the_newer_generation_makes_more_tokens_of_the_same_text():
    weight = measure(blocks.text(prose(random.Random(1), 500)))
    older, newer = Estimator.of("claude-a").tokens(weight), Estimator.of("claude-b").tokens(weight)
    assert 1.15 < newer / older < 1.6


@pytest.mark.parametrize("tokenizer", ["claude-a", "claude-b"])
def test_hidden_reasoning_is_estimated_from_its_signature(tokenizer):
    short = block(type="thinking", thinking="", signature="s" * 2_000)
    long = block(type="thinking", thinking="", signature="s" * 20_000)
    estimator = Estimator.of(tokenizer)
    assert 250 < estimator.tokens(measure(short)) < 600
    assert 3_500 < estimator.tokens(measure(long)) < 6_500


@pytest.mark.spec("S0.8")
def test_system_and_tools_are_estimated_from_their_bytes():
    raw = json.dumps([{"name": f"tool{n}", "description": "Reads a file."} for n in range(50)]).encode()
    assert len(raw) / 4 < Estimator.of("claude-b").tokens(opening(b"[]", raw)) < len(raw) / 1.5


# Learning


def session(longest: int, rounds: int, seed: int, outliers: float = 0.0) -> list[tuple[Weight, int]]:
    """Rounds of a call and a result as a tokenizer with pieces of that length counts them."""
    chance = random.Random(seed)
    counted = []
    for _ in range(rounds):
        given = {"command": prose(chance, chance.randint(5, 60))}
        answer = prose(chance, chance.randint(20, 3000))
        call = block(type="tool_use", id="a", name="Bash", input=given)
        truth = by_pieces(given["command"], longest) + by_pieces(answer, longest) + 70
        if chance.random() < outliers:
            truth += chance.choice([900, 4_000, -60_000])
        counted.append((total([call, blocks.result("a", answer)]), truth))
    return counted


def errors(estimator: Estimator, counted: list[tuple[Weight, int]]) -> list[float]:
    return sorted(abs(estimator.tokens(weight) - truth) / truth for weight, truth in counted)


@pytest.mark.spec("S0.8")
@pytest.mark.parametrize("tokenizer", ["claude-a", "claude-b", "openai", "unknown"])
@pytest.mark.parametrize("longest", [2, 4, 12])
def test_rates_converge_on_a_tokenizer_that_counts_differently(tokenizer, longest):
    estimator = Estimator.of(tokenizer)
    unseen = session(longest, 40, seed=99)
    before = errors(estimator, unseen)
    for weight, truth in session(longest, 80, seed=7):
        estimator = estimator.observe(weight, truth)
    after = errors(estimator, unseen)
    assert after[20] < max(0.04, before[20] / 4)
    assert after[38] < 0.15


@pytest.mark.spec("S0.8")
def test_reports_that_are_far_off_do_not_spoil_what_was_learnt():
    estimator = Estimator.of("claude-a")
    for weight, truth in session(4, 120, seed=3, outliers=0.15):
        estimator = estimator.observe(weight, truth)
    assert errors(estimator, session(4, 40, seed=98))[20] < 0.06


@pytest.mark.spec("S0.8")
@pytest.mark.parametrize("tokenizer", ["claude-a", "claude-b", "unknown"])
def test_the_band_holds_the_truth_19_times_out_of_20(tokenizer):
    held = []
    for seed in range(8):
        estimator = Estimator.of(tokenizer)
        for weight, truth in session(3 + seed % 4, 60, seed, outliers=0.02):
            foreseen = estimator.estimate(weight)
            held.append(foreseen.low <= truth <= foreseen.high)
            estimator = estimator.observe(weight, truth)
    assert sum(held) / len(held) >= 0.95


@pytest.mark.spec("S0.8")
def test_the_band_narrows_while_it_holds_and_widens_when_it_does_not():
    (weight, truth), *_ = session(4, 1, seed=5)
    new = Estimator.of("unknown")
    calm = new
    for _ in range(30):
        calm = calm.observe(weight, truth)
    shocked = calm.observe(weight, truth + 50_000)
    widths = [one.estimate(weight).high - one.estimate(weight).tokens for one in (new, calm, shocked)]
    assert widths[1] < widths[0] / 3
    assert widths[2] > widths[1]


@pytest.mark.spec("S0.8")
def test_the_band_becomes_no_narrower_than_the_noise_of_what_it_holds():
    (weight, truth), *_ = session(4, 1, seed=5)
    estimator = Estimator.of("unknown")
    narrowest = []
    for _ in range(400):
        estimator = estimator.observe(weight, truth)
        narrowest.append((estimator.above, estimator.below))
    assert narrowest[-1] == (1.0, 1.0)
    assert all(factor >= 1.0 for factors in narrowest for factor in factors)
    assert any(1.0 < above < 2.0 for above, _ in narrowest)
    assert any(1.0 < below < 2.0 for _, below in narrowest)


def test_what_never_occurred_keeps_the_rate_it_had():
    picture = measure(block(type="image", source={}))
    estimator = Estimator.of("claude-b")
    for weight, truth in session(2, 50, seed=4):
        estimator = estimator.learn(weight, truth)
    assert estimator.tokens(picture) == FLAT


def test_learning_leaves_the_estimator_it_began_with_as_it_was():
    estimator = Estimator.of("claude-a")
    (weight, truth), *_ = session(2, 1, seed=6)
    expected = estimator.estimate(weight)
    assert estimator.observe(weight, truth * 2).estimate(weight) != expected
    assert estimator.estimate(weight) == expected


@pytest.mark.spec("S0.8")
@given(st.text(alphabet="abc XYZ019_,.\n", min_size=1, max_size=90), st.integers(200, 2_000))
def test_a_long_text_is_weighed_by_a_part_of_it_however_it_repeats_itself(line, times):
    long = measure(blocks.text(line * times))
    short = measure(blocks.text(line))
    for name in ("letters", "capitals", "digits", "spaces", "marks"):
        expected = times * getattr(short, name)
        assert abs(getattr(long, name) - expected) <= 0.2 * len(line) * times
    assert long.text == len(line) * times
