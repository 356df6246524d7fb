"""Which of the user's words a summary shows: everything while it fits, and an order beyond that."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sevenfold.layers.compact.naming import heeded, listing, named
from sevenfold.layers.compact.recogniser import Recogniser, by_word_lists, nothing
from sevenfold.layers.compact.statements import statements
from sevenfold.layers.compact.user_words import UserMessage, block, line, select
from sevenfold.record.decisions import Lasting


def count(text: str) -> int:
    """A token for every four characters, as a stand-in for an estimator."""
    return len(text) // 4 + 1


def message(number: int, text: str, **fields: object) -> UserMessage:
    return UserMessage(f"record-{number}", text, f"r{number}", **fields)  # type: ignore[arg-type]


texts = st.text(
    st.sampled_from("abcdefg .?!\n-:0123456789 äé国家。規則「」"), min_size=1, max_size=400
).filter(str.strip)
marks = st.lists(st.builds(Lasting, st.just(0), st.integers(1, 30), number=st.integers(1, 9)), max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> list[UserMessage]:
    said = draw(st.lists(texts, max_size=25))
    return [
        message(
            number,
            text,
            kind=draw(st.sampled_from(["message", "answer"])),
            lasting=tuple(mark for mark in draw(marks) if mark.end <= len(text)),
            named=tuple(mark for mark in draw(marks) if mark.end <= len(text)),
        )
        for number, text in enumerate(said)
    ]


recognisers = st.sampled_from([by_word_lists, nothing, lambda statement: "a" in statement])


@pytest.mark.spec("S16.1")
@given(conversations(), st.integers(0, 2_000), recognisers)
def test_nothing_is_chosen_twice_or_lost_and_the_order_and_the_budget_hold(messages, budget, recognise):
    chosen = select(messages, budget, count, recognise)

    shown = [kept.message.record for kept in chosen.shown]
    gone = [message.record for message, _ in chosen.left_out]
    order = [message.record for message in messages]
    assert sorted([*shown, *gone]) == sorted(order)
    assert shown == sorted(shown, key=order.index)
    assert gone == sorted(gone, key=order.index)
    assert sum(count(line(kept.message, kept.text)) + 1 for kept in chosen.shown) <= budget
    assert sum(chosen.counts.values()) == len(gone)


@pytest.mark.spec("S16.1")
@given(conversations(), recognisers)
def test_everything_that_fits_is_kept_to_the_letter_whatever_it_says(messages, recognise):
    budget = sum(count(line(message, message.text)) + 1 for message in messages)

    chosen = select(messages, budget, count, recognise)

    assert [kept.text for kept in chosen.shown] == [message.text for message in messages]
    assert not chosen.left_out
    assert listing(messages, budget, count, 1_000, 1_000).text == ""


@pytest.mark.spec("S16.1")
@given(conversations(), st.integers(0, 2_000))
def test_what_is_shown_of_a_message_is_in_it(messages, budget):
    for kept in select(messages, budget, count, nothing).shown:
        parts = [part for piece in kept.text.split("[… ") for part in [piece.rpartition("…] ")[2]]]
        assert all(part.strip() in kept.message.text for part in parts)


@pytest.mark.spec("S16.1")
@given(texts)
def test_statements_hold_all_of_a_text(text):
    spans = [statement.span for statement in statements(text)]

    assert spans == sorted(spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())


def shown(messages: list[UserMessage], budget: int, recognise: Recogniser = nothing) -> list[str]:
    return [kept.message.name for kept in select(messages, budget, count, recognise).shown]


WORDS = "the crane lifts the crates onto the pier and back again "


def talk(ending: str) -> str:
    return f"{WORDS}{ending:>20}"


@pytest.mark.spec("S16.1")
def test_beyond_the_budget_each_rank_gives_way_to_those_before_it():
    said = [
        message(1, talk("carried"), lasting=(Lasting(0, 5, number=1),)),
        message(2, talk("named"), named=(Lasting(0, 5, number=2),)),
        message(3, talk("never on Fridays.")),
        message(8, talk("named late"), named=(Lasting(0, 5, number=3),), is_new=False),
        message(4, talk("answer"), kind="answer"),
        message(5, talk("request")),
        message(6, talk("question?")),
        message(7, talk("newest")),
    ]
    each = max(count(line(one, one.text)) + 1 for one in said)
    order = ["r1", "r2", "r3", "r8", "r7", "r4", "r5", "r6"]
    for room in range(1, 8):
        # Messages of more than a quarter of the budget are cut, so the rest of it is taken by what comes first.
        padding = [message(100 + n, talk("first"), lasting=(Lasting(0, 5),)) for n in range(6)]
        names = shown([*padding, *said], each * (6 + room), by_word_lists)
        assert sorted(names[6:]) == sorted(order[:room])


@pytest.mark.spec("S16.1")
@pytest.mark.parametrize(
    "rule",
    [
        "Never deploy on Fridays.",
        "Bitte nie direkt auf main pushen.",
        "On ne touche jamais à la base de production.",
        "Nunca borres los registros.",
        "绝对不要修改生产数据库。",
        "本番環境には絶対に触らないでください。",
        "Никогда не удаляй журналы.",
        "절대 운영 서버를 건드리지 마세요.",
    ],
)
def test_word_lists_put_rules_of_many_languages_before_talk(rule):
    said = [message(1, f"{WORDS}. {rule}"), *(message(2 + n, f"{WORDS} {n}") for n in range(20))]
    assert "r1" in shown(said, 200, by_word_lists)
    assert "r1" not in shown(said, 200, nothing)


@pytest.mark.spec("S16.3")
def test_what_was_named_first_keeps_its_place_before_whatever_is_named_later():
    old = [message(n, f"{WORDS} {n}", lasting=(Lasting(0, 20, number=n),)) for n in range(8)]
    before = [message(100 + n, f"{WORDS} {n}", lasting=(Lasting(0, 20, number=50 + n),)) for n in range(40)]
    assert {f"r{n}" for n in range(8)} <= {*shown([*before, *old], 200)}


@pytest.mark.spec("S16.3")
def test_old_small_talk_that_a_model_names_takes_the_room_of_no_rule_that_stands_there_by_its_wording():
    rule = message(0, f"Never deploy on Fridays. {WORDS}", is_new=False, shown=((0, len(WORDS)),))
    named_late = [
        message(n, f"{WORDS} {n}", named=(Lasting(0, 20, number=n),), is_new=False) for n in range(1, 40)
    ]
    assert "r0" in shown([rule, *named_late, message(90, WORDS)], 200, by_word_lists)
    said_since = [replace(old, is_new=True) for old in named_late]
    assert "r0" not in shown([rule, *said_since, message(90, WORDS)], 200, by_word_lists)


@pytest.mark.spec("S16.50")
def test_a_pasted_log_takes_the_room_of_no_message_that_was_typed():
    log = "\n".join(f"{number:05} worker {number % 7} restarted the pump" for number in range(400))
    typed = [message(n, f"{WORDS} {n}") for n in range(20)]
    said = [message(90, log), *typed, message(91, f"{log}\ndone"), message(92, "Go on.")]
    budget = sum(count(line(each, each.text)) + 1 for each in typed) + 200

    chosen = select(said, budget, count, nothing)

    whole = {kept.message.name for kept in chosen.shown if not kept.lost}
    assert whole == {*(each.name for each in typed), "r92"}
    assert [kept.message.name for kept in chosen.shown if kept.lost] == ["r90", "r91"]


@pytest.mark.spec("S16.50")
def test_one_message_full_of_rules_costs_no_other_message_its_rule():
    manual = "\n".join(f"Step {number} must never be left out." for number in range(200))
    old = message(1, f"Never deploy on Fridays. {WORDS * 4}")
    pasted = [message(10 + number, f"{manual}\n{number}") for number in range(6)]

    chosen = select([old, *pasted], 600, count, by_word_lists)

    (kept,) = [kept for kept in chosen.shown if kept.message is old]
    assert "Never deploy on Fridays." in kept.text


@pytest.mark.spec("S16.50")
def test_a_rule_before_a_question_is_no_mere_question():
    rule = message(1, f"The gate stays shut at night. {WORDS}. Is that clear?")
    questions = [message(2 + number, f"Is berth {number} free? {WORDS}?") for number in range(20)]
    for mark in "?？؟":
        asked = [replace(each, text=each.text.replace("?", mark)) for each in (rule, *questions)]
        assert "r1" in shown([*asked, message(90, WORDS)], 200)


@pytest.mark.spec("S16.50")
def test_of_what_the_user_said_again_in_the_same_words_the_newest_stays():
    again = [message(number, "Go on with the next berth, please.") for number in range(20)]
    others = [message(50 + number, f"{WORDS} {number}") for number in range(6)]
    said = [*again[:19], *others, again[19], message(90, WORDS)]

    budget = sum(count(line(each, each.text)) + 1 for each in said[19:])

    assert shown(said, budget) == [each.name for each in said[19:]]
    assert select(said, budget, count, nothing).counts == {"said again later in the same words": 19}


@pytest.mark.spec("S16.50")
def test_a_cut_goes_between_statements_or_at_least_between_words():
    text = " ".join(f"Berth {number} belongs to the harbour office." for number in range(60))
    pasted = " ".join(f"word{number}" for number in range(600))

    first, second = select([message(1, text), message(2, pasted)], 400, count, nothing).shown

    head, _, tail = re.split(r" \[… | …\] ", first.text)
    assert head.endswith("office.")
    assert tail.startswith("Berth")
    head, _, tail = re.split(r" \[… | …\] ", second.text)
    assert {*head.split(), *tail.split()} <= {*pasted.split()}


@pytest.mark.spec("S16.51")
@given(conversations(), recognisers)
def test_a_model_names_no_more_of_what_is_old_than_the_user_said_since(messages, recognise):
    ages = [replace(said, is_new=place % 3 == 2) for place, said in enumerate(messages)]

    after = heeded(ages, count, recognise)

    new_tokens = sum(count(line(said, said.text)) for said in ages if said.is_new)
    late = [(said.text, mark) for said in after if not said.is_new for mark in said.named]
    assert sum(count(text[mark.start : mark.end]) for text, mark in late) <= new_tokens
    for before, now in zip(ages, after, strict=True):
        assert {*now.named} <= {*before.named}
        assert replace(now, named=()) == replace(before, named=())
        assert now == before or not before.is_new


@pytest.mark.spec("S16.51")
def test_a_model_that_calls_everything_lasting_pushes_out_no_more_than_the_users_own_words():
    rules = [
        message(number, f"{talk('quay')} {number}.", is_new=False, shown=((0, 70),)) for number in range(10)
    ]
    old = [message(50 + number, f"{WORDS} {number}", is_new=False) for number in range(40)]
    everything = [
        replace(each, named=(Lasting(0, len(each.text), number=number),)) for number, each in enumerate(old)
    ]
    said = [*everything, *rules, message(99, "Thanks, on with it.")]
    budget = sum(count(line(each, each.text)) + 1 for each in said[40:])

    obeyed = shown(said, budget)
    kept = [kept.message.name for kept in select(heeded(said, count), budget, count, nothing).shown]

    assert not {each.name for each in rules} & {*obeyed}
    assert {each.name for each in rules} <= {*kept}


@pytest.mark.spec("S16.5")
def test_a_long_message_is_cut_to_what_lasts_in_it_its_beginning_and_its_end():
    paste = "\n".join(f"line {number} of the log that was pasted" for number in range(400))
    text = f"Look at this.\n{paste}\nThe gate code is 7714.\n{paste}\nWhat do you make of it"
    start = text.index("The gate code")
    long = message(1, text, named=(Lasting(start, start + len("The gate code is 7714."), number=1),))
    (kept,) = select([long], 1_000, count, nothing).shown
    assert "The gate code is 7714." in kept.text
    assert kept.text.startswith("Look at this.")
    assert kept.text.endswith("What do you make of it")
    assert "characters …]" in kept.text
    assert count(line(long, kept.text)) <= 250
    assert kept.lost == len(text) - sum(map(len, re.split(r" ?\[… [\d,]+ characters …\] ?", kept.text)))


@pytest.mark.spec("S16.4")
def test_a_model_names_messages_and_statements_by_id_and_nothing_else():
    long = "First we look around. " + WORDS * 20 + ". The port is 8443. Thanks!"
    said = [message(1, "Use tabs."), message(2, long), message(3, "No, two spaces.", date="2026-11-03")]
    asked = listing(said, 50, count, 5_000, 5_000).text
    (number,) = re.findall(r"\[r2\.(\d+)\] The port is 8443\.", asked)
    told = [
        "- [r1] sets a rule",
        f"[r2.{number}]: decides",
        "[r3] corrects [r1]",
        "[r9] forbids",
        "nothing",
        "[r2.99] x",
    ]

    marked = named(told, said)

    assert marked[0].named == (Lasting(0, 9, kind="sets a rule", number=1),)
    (mark,) = marked[1].named
    assert long[mark.start : mark.end] == "The port is 8443."
    assert marked[2].named[0].replaces == "record-1"
    assert named(["[r1] corrects [r3]"], said)[0].named[0].replaces == ""


@pytest.mark.spec("S16.4")
def test_a_statement_of_a_list_comes_with_what_introduces_it():
    text = "Never do any of these:\n- push to main\n- restart the gate\n\nAnd have fun. " + WORDS * 20
    said = [message(1, text)]
    (number,) = re.findall(r"\[r1\.(\d+)\] - restart", listing(said, 50, count, 5_000, 5_000).text)
    marks = named([f"[r1.{number}] forbids"], said)[0].named
    assert [text[mark.start : mark.end] for mark in marks] == [
        "Never do any of these:",
        "- restart the gate",
    ]


@pytest.mark.spec("S16.4")
def test_a_later_word_stands_next_to_the_one_it_replaces_with_its_date():
    said = [message(1, "Use tabs."), message(2, "Good."), message(3, "No, two spaces.", date="2026-11-03")]
    marked = named(["[r3] corrects [r1]"], said)
    lines = block(select(marked, 1_000, count, nothing)).splitlines()
    assert lines == ["[r1] Use tabs.", "[r3, 2026-11-03] No, two spaces.", "[r2] Good."]


@pytest.mark.spec("S16.42")
@given(conversations(), st.integers(0, 2_000))
def test_whatever_corrects_whatever_every_line_is_shown_once_and_none_is_said_to_replace_another(
    messages, budget
):
    newest = messages[-1].name if messages else ""
    told = [f"[{newest}] corrects [{each.name}]" for each in messages]
    told += [f"[{each.name}] corrects [{newest}]" for each in messages]

    marked = named(told, messages)

    chosen = select(marked, budget, count, nothing)
    assert len(chosen.shown) + len(chosen.left_out) == len(messages)
    plain = select(messages, sum(count(each.text) + 50 for each in messages), count, nothing)
    whole = block(select(marked, sum(count(each.text) + 50 for each in messages), count, nothing))
    assert sorted(re.sub(r"(?m)^\[(r\d+), [^]]*\]", r"[\1]", whole).splitlines()) == sorted(
        block(plain).splitlines()
    )


@pytest.mark.spec("S16.41")
def test_a_list_without_room_for_all_offers_those_first_that_were_offered_least_often():
    said = [
        message(1, "The crane is green. " * 8, offered=2),
        message(2, "The pier is closed. " * 8, offered=1),
        message(3, "The tide is coming. " * 8),
        message(4, "The ship is loaded. " * 8, shown=((0, 160),)),
        message(5, "The dock is for Ines. " * 8),
    ]

    some = listing(said, 50, count, 70, 70)
    everything = listing(said, 50, count, 5_000, 5_000)

    assert re.findall(r"^\[(r\d)\]", some.text, re.M) == ["r3", "r5"]
    assert some.records == {"record-3", "record-5"}
    assert not some.is_complete
    assert everything.is_complete
    assert len(everything.records) == 5


@pytest.mark.spec("S16.34")
@given(conversations(), st.integers(0, 2_000), recognisers)
def test_what_was_shown_stays_to_the_byte_while_the_user_says_nothing_new(messages, budget, recognise):
    first = select(messages, budget, count, recognise)
    everything = tuple(Lasting(0, 1, number=number) for number in range(3))
    again = [
        replace(kept.message, shown=kept.spans, named=everything if place % 2 else ())
        for place, kept in enumerate(first.shown)
    ]

    def sceptic(text: str) -> int:
        return 3 * count(text)

    second = select(again, budget, sceptic, by_word_lists)

    assert [kept.text for kept in second.shown] == [kept.text for kept in first.shown]
    assert not second.left_out
