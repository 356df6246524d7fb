"""Questions: moving, choosing, ticking, writing; and what permission questions mean."""

from __future__ import annotations

import pytest

from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.permissions.engine import Decision
from sevenfold.agent.permissions.rules import Action, PermissionRequest
from sevenfold.agent.tools import context
from sevenfold.cli.chat import consent as agent_asks
from sevenfold.cli.chat.keyboard import Momentum
from sevenfold.cli.chat.questions import (
    PAGE,
    Asking,
    Choice,
    Picked,
    Question,
    answered,
    drawn,
    listed,
)
from sevenfold.cli.chat.screen import POOR, RICH
from sevenfold.session.results import ToolCall

from .printed import printed


def test_the_y_of_a_word_that_is_being_typed_permits_nothing():
    momentum = Momentum()
    momentum.typed(10.0)
    momentum.asked(10.2, "the da")
    assert momentum.carries(10.3)
    assert momentum.carries(11.0)
    assert not momentum.carries(12.0)


def test_whoever_was_not_typing_can_answer_at_once():
    momentum = Momentum()
    momentum.typed(10.0)
    momentum.asked(10.1, "")
    assert not momentum.carries(10.2)
    momentum.asked(20.0, "an old draft")
    assert not momentum.carries(20.1)


DRINK = Question(
    "Which?", (Choice("Tea", "t"), Choice("Coffee", "c", "strong"), Choice("Other", words="which"))
)


def test_enter_takes_what_the_pointer_is_at_and_it_goes_round():
    assert Asking.begin(DRINK).entered() == Picked((0,))
    assert Asking.begin(DRINK).moved(1).entered() == Picked((1,))
    assert Asking.begin(DRINK).moved(-1).moved(1).entered() == Picked((0,))


def test_a_letter_or_a_number_takes_its_choice_at_once():
    assert Asking.begin(DRINK).pressed("c") == Picked((1,))
    assert Asking.begin(DRINK).pressed("2") == Picked((1,))
    assert Asking.begin(DRINK).pressed("z") == Asking.begin(DRINK)


def test_a_choice_with_words_asks_for_them_and_can_be_left_again():
    writing = Asking.begin(DRINK).pressed("3")
    assert isinstance(writing, Asking)
    assert writing.writing
    assert writing.entered(" cocoa ") == Picked((2,), "cocoa")
    assert not writing.back().writing


def test_several_may_be_ticked():
    asking = Asking.begin(Question("Which?", DRINK.choices[:2], several=True)).ticking().moved(1).ticking()
    assert asking.entered() == Picked((0, 1))
    assert asking.ticking().entered() == Picked((0,))


def test_a_question_without_choices_wants_words():
    assert Asking.begin(Question("Why?")).entered("because") == Picked((), "because")


@pytest.mark.parametrize("signs", [RICH, POOR])
def test_the_pointer_is_seen_without_colour(signs):
    lines = printed(drawn(Asking.begin(DRINK).moved(1), signs, 60)).splitlines()
    assert [line.strip() for line in lines if line.startswith(signs.pointer)] == [
        f"{signs.pointer} 2. Coffee (c)  strong"
    ]


def test_without_a_cursor_a_line_answers():
    assert list(listed(DRINK))[1] == "  1. Tea"
    assert answered(DRINK, "2") == Picked((1,))
    assert answered(DRINK, "t") == Picked((0,))
    assert answered(DRINK, "nonsense") is None
    assert answered(Question("Which?", DRINK.choices[:2], several=True), "1, 2") == Picked((0, 1))
    assert answered(Question("Why?"), "so") == Picked((), "so")


def asked(
    deed: Action = "run",
    subject: str = "make all",
    rules: tuple[str, ...] = ("Shell(make *)",),
    **given: str,
) -> Asked:
    wish = PermissionRequest("Shell", deed, subject)
    return Asked(
        ToolCall("t", "Shell", given), wish, Decision("ask", "Commands are asked for.", would_allow=rules)
    )


def test_permission_is_yes_always_or_no_with_a_remark():
    labels = [choice.label for choice in agent_asks.permission(asked()).choices]
    assert labels == ["Yes", "Yes, and from now on", "No, and tell it why"]
    assert agent_asks.consented(asked(), Picked((0,))) == Consented(True)
    assert agent_asks.consented(asked(), Picked((1,))) == Consented(True, always=True)
    assert agent_asks.consented(asked(), Picked((2,), "not now")) == Consented(False, remark="not now")
    assert agent_asks.consented(asked(), None) == Consented(False)


def test_where_no_rule_would_allow_it_always_is_not_offered_and_never_meant():
    once = asked(rules=())
    assert [choice.key for choice in agent_asks.permission(once).choices] == ["y", "n"]
    assert agent_asks.consented(once, Picked((1,), "no")) == Consented(False, remark="no")


def test_the_whole_command_is_seen_before_it_is_permitted():
    long = "echo one && \\\n  rm -rf two \x1b[8m# hidden"
    shown = printed(*agent_asks.shown_before(asked(subject=long)))
    assert "$ echo one && \\" in shown
    assert "rm -rf two # hidden" in shown


def test_what_an_edit_would_change_is_seen_before_it_is_permitted(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("old\n")
    edit = asked("write", str(file), old="old", new="new")
    write = asked("write", str(file), content="other\n")
    assert "+new" in printed(*agent_asks.shown_before(edit))
    shown = printed(*agent_asks.shown_before(write))
    assert "-old" in shown
    assert "+other" in shown


def test_an_answer_to_the_model_is_a_label_or_the_users_own_words():
    question = context.Question("Which?", (context.Option("Tea"), context.Option("Coffee")), several=True)
    assert len(agent_asks.from_model(question).choices) == 3
    assert agent_asks.answer(question, Picked((0, 1))) == "Tea, Coffee"
    assert agent_asks.answer(question, Picked((2,), "water")) == "water"
    assert agent_asks.answer(context.Question("Why?"), Picked((), "so")) == "so"


# -- many choices, long ones -----------------------------------------------------------------

MANY = Question("Which?", tuple(Choice(f"message {n}", before="14:05") for n in range(1, 41)))


def test_of_many_choices_those_around_the_pointer_are_shown_and_the_others_counted():
    first = printed(drawn(Asking.begin(MANY), RICH, 60))
    assert "1. 14:05  message 1" in first
    assert "message 11" not in first
    assert "… 30 more below" in first
    assert "PgDn" in first
    middle = printed(drawn(Asking.begin(MANY).leapt(PAGE).leapt(PAGE), RICH, 60))
    assert "more above" in middle
    assert "❯ 21. 14:05  message 21" in middle
    last = printed(drawn(Asking.begin(MANY).leapt(99), RICH, 60))
    assert "❯ 40. 14:05  message 40" in last
    assert "more below" not in last


def test_leaping_stops_at_the_ends_and_moving_goes_round():
    assert Asking.begin(MANY).leapt(-PAGE).at == 0
    assert Asking.begin(MANY).leapt(99).moved(1).at == 0


def test_many_choices_are_listed_by_the_page_where_there_is_no_cursor():
    assert list(listed(MANY))[-1] == "  ... 30 more; Enter shows them"
    assert list(listed(MANY, 30))[-1] == "  40. 14:05  message 40"


def test_what_would_be_granted_is_seen_whole_in_a_narrow_window():
    rule = "Shell(make release --with everything --and nothing --left out)"
    question = Question("Run it? " + "It is asked for. " * 5, (Choice("Yes, and from now on", "a", rule),))
    shown = printed(drawn(Asking.begin(question), RICH, 40), width=40)
    assert rule in " ".join(shown.split())
    assert question.title.strip() in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 40


# -- plans -----------------------------------------------------------------------------------


def test_a_plan_is_carried_out_as_freely_as_the_user_says():
    assert agent_asks.approved("accept_edits", Picked((0,))) == (Consented(True), "ask")
    assert agent_asks.approved("ask", Picked((1,))) == (Consented(True), "accept_edits")
    assert agent_asks.approved("ask", Picked((2,), "wood")) == (Consented(False, remark="wood"), "ask")
    assert agent_asks.approved("ask", None) == (Consented(False), "ask")


def test_autonomy_after_a_plan_is_offered_only_to_whoever_had_it():
    assert [one.key for one in agent_asks.plan("ask").choices] == ["y", "a", "n"]
    had = agent_asks.plan("autonomous")
    assert had.choices[had.start].label == "Yes, and work autonomously as before"
    assert agent_asks.approved("autonomous", Picked((2,))) == (Consented(True), "autonomous")
