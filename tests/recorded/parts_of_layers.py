"""What layers choose, mark and ask for in made-up conversations: the same cases in every run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from functools import partial
from itertools import product
from random import Random
from typing import Literal

from msgspec.structs import replace

from sevenfold.layers import breaker
from sevenfold.layers.breaker import Progress
from sevenfold.layers.compact.extract import facts
from sevenfold.layers.compact.recogniser import by_word_lists, nothing
from sevenfold.layers.compact.summary.claims import topic
from sevenfold.layers.compact.summary.draft import lines_that_name, read_draft
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.layers.compact.summary.marks import bare, mark, sentences
from sevenfold.layers.compact.user_words import UserMessage, fits, line, select
from sevenfold.layers.offload import policy as offload
from sevenfold.layers.remember.answers import tagged
from sevenfold.layers.remember.look import Look, Neighbours, read_facts
from sevenfold.profiles import find
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import Lasting
from sevenfold.record.window import Window
from sevenfold.settings import Settings
from tests.compaction.histories import count, permissions_and_refusals
from tests.recorded.cases import REQUESTS, conversation, prose
from tests.recorded.parts import OLD, part, short
from tests.recorded.parts_of_memory import MESSAGES, STATEMENTS, TODAY, drawn
from tests.recorded.parts_of_record import block_of
from tests.support import result

CLAIMS = (
    "The user asked to delete the old branch.",
    "The user agreed to delete the old timer thread.",
    "You may restart the staging server whenever you need to.",
    "The user wants us to push the branch to the remote.",
    "Permission was given to drop the database.",
    "The assistant may publish the keys of the harbour office.",
    "The user did not allow pushing the branch.",
    'The user said: "keep the old colour table".',
    'The user said: "delete everything".',
    "It was agreed that production is deployed on Fridays.",
    "Should the branch be deleted?",
    "If the tests pass, the branch may be merged.",
    "Run `rm -rf build` as the user approved.",
    "Der Benutzer erlaubte, den Branch zu löschen.",
    "Next, restart it.",
    "The lamp flickers because of timer.py. The user wants it mended.",
    "All keys may be rotated, e.g. by Dr. Lee. The user insists on it.",
    "<said>keep the old colour table</said>",
    "<said>drop the database</said>",
)
LAYOUTS = (
    "{}",
    "- {}",
    "1. [x] {}",
    "Allowed by the user:\n- {}\n- nothing else",
    "```\n{}\n```\n{}",
    "**{}** and more",
)
ANSWERS = (
    "",
    "<nothing/>",
    "no tags at all",
    '<fact type="feedback" message="1"><quote>use tabs</quote><note>why</note></fact>',
    '<FACT type="Project" until="2026-01-31"><quote message="[2]">“we ship”</quote>'
    '<date words="Friday">2025-03-07</date>',
    '<fact><quote>one<quote>two</quote></fact><forget message="#1"><earlier>m1</earlier></forget>',
    '<fact message="99" until="soon"><replaces>m2</replaces><replaces>My name is Ada.</replaces>'
    '<date words="">x</date></fact>',
    "<fact><quote>open <note>inside</note> still</fact> rest",
    "</fact><quote>outside</quote><forget><earlier>m9</earlier>",
    "<fact type='odd'><quote> «spaced» </quote></fact>" * 30,
)


def messages(chance: Random) -> list[UserMessage]:
    """Messages of a user: long and short, rules and small talk, some named as lasting or shown before."""
    made = []
    for number in range(chance.randrange(3, 24)):
        text = chance.choice(
            (
                chance.choice(STATEMENTS),
                chance.choice(REQUESTS),
                " ".join(chance.sample(STATEMENTS, 9)),
                prose(chance, 200),
                "文字" * chance.randrange(1, 90),
                "thanks",
                "Why is that? And when?",
            )
        )
        marks = []
        for _ in range(chance.choice((0, 0, 0, 1, 2))):
            start = chance.randrange(len(text))
            end = chance.randrange(start, len(text)) + 1
            marks.append(Lasting(start, end, number=chance.randrange(1, 9)))
        lasting = chance.random() < 0.5
        made.append(
            UserMessage(
                f"record{number}",
                text,
                f"u{number}",
                kind=chance.choice(("message", "message", "answer")),
                lasting=tuple(marks) if lasting else (),
                named=() if lasting else tuple(marks),
                shown=((0, min(9, len(text))),) if chance.random() < 0.3 else (),
                is_new=chance.random() < 0.6,
            )
        )
    return made


@part
def users_words_chosen() -> Iterator[str]:
    """Which of the user's messages are shown in which room, and how they are cut."""
    for seed in range(18):
        chance = Random(seed)
        said = messages(chance)
        if seed % 8 == 0:
            said = [replace(message, shown=((0, len(message.text) // 2 + 1),)) for message in said]
        whole = sum(count(line(message, message.text)) + 1 for message in said)
        for budget, recognise in product((0, 60, 200, 700, whole - 1, whole), (by_word_lists, nothing)):
            chosen = select(said, budget, count, recognise)
            left = [(message.name, rank.name) for message, rank in chosen.left_out]
            yield f"{seed} {budget} {fits(said, budget, count)}: left {left} {chosen.counts} {chosen.lasting_left_out}"
            for shown in chosen.shown:
                yield f"  {shown.message.name} {shown.rank.name} {shown.lost} {shown.spans} {shown.text[:70]!r}"


@part
def claims_marked() -> Iterator[str]:
    """Which sentences of a summary are marked as claims that no record supports, in every layout."""
    for name, story in {
        "talk": permissions_and_refusals(),
        **{f"made{seed}": conversation(seed, 6) for seed in range(2)},
    }.items():
        held = story.view().items
        first = held[:2]
        evidence = Evidence(facts(held), held, partial(tuple, [item.record for item in first]))
        for claim in CLAIMS:
            meant = topic(bare(claim))
            yield f"{name} {claim!r}: {evidence.touches(meant)} {sorted(meant.acts)} {sorted(meant.about)}"
            for layout in LAYOUTS if name == "talk" else LAYOUTS[:1]:
                marked = mark({5: layout.replace("{}", claim), 6: "Nothing."}, evidence)
                yield f"  {marked.sections[5]!r} {marked.sentences}"
            yield f"  {[*sentences(claim)]} {evidence.said_by_user(claim)} {evidence.record_of(claim)}"
    for answer in (
        "<analysis>a</analysis><summary>1. Intent: x\n2. Next: y</summary>",
        "<summary>open",
        "no tags",
        "",
        "<summary></summary>",
        "<summary>1. One\n\n5. Five\n```\n6. not a section\n```</summary><lasting>u1, u2</lasting>",
        "<lasting>\nu3 3\n[u4]: 1-2\n</lasting>",
    ):
        for stop in (None, "max_tokens", "refusal"):
            yield f"{answer!r} {stop}: {short(read_draft(answer, stop))} {lines_that_name(answer)}"


@part
def looks_for_facts() -> Iterator[str]:
    """What a model is asked about lasting facts, and how its answers are read."""
    for seed in range(8):
        chance = Random(seed)
        records = {f"r{number}": message for number, message in enumerate(chance.sample(MESSAGES, 3))}
        look = Look.at(
            records,
            {"r0": date(2025, 3, 7), "r2": date(2025, 3, 8)},
            {"r1": Neighbours("Shall I?\nReally?", 'I "did".' * 90), "r2": Neighbours(after="Fine.")},
            drawn(chance, 30),
            TODAY,
        )
        yield f"--- {seed}"
        yield repr(look.instruction(in_view=False))
        yield repr(look.alone().instruction(in_view=True, reading=("Read", "Grep")))
        for answer in ANSWERS:
            found = look.read(answer)
            yield f"{answer[:80]!r}: {found and [short(fact) for fact in found[:4]]} {found and len(found)}"
    for answer in ANSWERS:
        yield f"{[short(tag) for tag in list(tagged(answer))[:3]]} {short(read_facts(answer) or [])[:300]}"


@part
def passes_judged() -> Iterator[str]:
    """When a layer rests because its passes achieve nothing, and how long an engine that fails is left alone."""
    window = Window.of(find(OLD), override=40_000)
    little = int(breaker.LITTLE * window.effective)
    for freed, size, gap in product(
        (0, little - 1, little, little + 1, 5_000), (0, little, 6_000), (0, 1, 2)
    ):
        progress = Progress()
        for number in range(4):
            rests = progress.rests(window, 20_000 + size)
            yield f"{freed} {size} {gap} after {number}: {rests}"
            progress = progress.after(number * gap, freed, 20_000)
    for failures in range(7):
        yield f"{failures} failures: {breaker.is_open(failures)} {breaker.interval_factor(failures)}"


@part
def results_put_away() -> Iterator[str]:
    """Which results are put away, alone or because of the others in a message, and what is sent instead."""
    kinds = {"Read": "read", "Shell": "shell", "Ask": ""}
    limited: tuple[Mapping[str, int | Literal["never"]], ...] = (
        {},
        {"Shell": 900, "Ask": 0},
        {"Read": "never"},
    )
    for context, limits in product((8_000, 200_000), limited):
        settings = Settings(
            offload_characters=3_000,
            round_characters=7_000,
            preview_bytes=200,
            offload_by_tool=limits,
        )
        budget = offload.Budget(settings, Window.of(find(OLD), override=context), kinds)
        sizes = (budget.together, budget.preview, budget.reader)
        yield f"{context} {limits}: {[(name, budget.alone(name), budget.shares(name)) for name in kinds]} {sizes}"
        for seed in range(12):
            chance = Random(seed)
            results: list[tuple[str, Block]] = []
            for number in range(chance.randrange(1, 6)):
                text = "line of output\n" * chance.choice((1, 60, 199, 200, 201, 900))
                block = block_of(result(f"t{number}", text))
                results.append((chance.choice(("Read", "Shell", "Ask", "")), block))
            alone = [offload.too_big(block, tool, budget) for tool, block in results]
            together = offload.too_much_together(results, budget)
            for big in (*filter(None, alone), *together):
                yield f"{seed}: {big.block.id} {big.limit} {big.mechanism} {big.why} {len(big.content.text)}"
            for big in together[:1]:
                yield f"  {offload.stored(big, '/kept/t1.txt', budget)!r}"
                yield f"  {offload.stored(big, 'result:t1', budget)[:300]!r}"
                yield f"  {offload.truncated(big, 'the disk is full')[-200:]!r}"
