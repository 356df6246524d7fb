"""Questions: moving, choosing, ticking, writing; and what permission questions mean."""

from __future__ import annotations

import pytest

from sevenfold.agent.executor import Asked
from sevenfold.agent.permissions.engine import PermissionDecision
from sevenfold.agent.permissions.rules import Action, PermissionRequest
from sevenfold.agent.tools import context
from sevenfold.cli.chat import consent
from sevenfold.cli.chat.keyboard import TypingGuard
from sevenfold.cli.chat.menu import (
    PAGE,
    Menu,
    MenuAnswer,
    MenuItem,
    MenuState,
    list_menu,
    read_answer,
)
from sevenfold.cli.chat.screen import ASCII, UNICODE, draw_menu
from sevenfold.conversation.request import ToolCall

from .printed import printed


def test_the_y_of_a_word_that_is_being_typed_permits_nothing():
    guard = TypingGuard()
    guard.typed(10.0)
    guard.asked(10.2, "the da")
    assert guard.guards(10.3)
    assert guard.guards(11.0)
    assert not guard.guards(12.0)


def test_whoever_was_not_typing_can_answer_at_once():
    guard = TypingGuard()
    guard.typed(10.0)
    guard.asked(10.1, "")
    assert not guard.guards(10.2)
    guard.asked(20.0, "an old draft")
    assert not guard.guards(20.1)


DRINK = Menu(
    "Which?", (MenuItem("Tea", "t"), MenuItem("Coffee", "c", "strong"), MenuItem("Other", prompt="which"))
)


def test_enter_takes_what_the_pointer_is_at_and_it_goes_round():
    assert MenuState.open(DRINK).enter() == MenuAnswer((0,))
    assert MenuState.open(DRINK).move(1).enter() == MenuAnswer((1,))
    assert MenuState.open(DRINK).move(-1).move(1).enter() == MenuAnswer((0,))


def test_a_letter_or_a_number_takes_its_choice_at_once():
    assert MenuState.open(DRINK).press("c") == MenuAnswer((1,))
    assert MenuState.open(DRINK).press("2") == MenuAnswer((1,))
    assert MenuState.open(DRINK).press("z") == MenuState.open(DRINK)


def test_a_choice_with_words_asks_for_them_and_can_be_left_again():
    writing = MenuState.open(DRINK).press("3")
    assert isinstance(writing, MenuState)
    assert writing.writing
    assert writing.enter(" cocoa ") == MenuAnswer((2,), "cocoa")
    assert not writing.back().writing


def test_several_may_be_ticked():
    asking = MenuState.open(Menu("Which?", DRINK.items[:2], several=True)).toggle().move(1).toggle()
    assert asking.enter() == MenuAnswer((0, 1))
    assert asking.toggle().enter() == MenuAnswer((0,))


def test_a_question_without_choices_wants_words():
    assert MenuState.open(Menu("Why?")).enter("because") == MenuAnswer((), "because")


@pytest.mark.parametrize("signs", [UNICODE, ASCII])
def test_the_pointer_is_seen_without_colour(signs):
    lines = printed(draw_menu(MenuState.open(DRINK).move(1), signs, 60)).splitlines()
    assert [line.strip() for line in lines if line.startswith(signs.pointer)] == [
        f"{signs.pointer} 2. Coffee (c)  strong"
    ]


def test_without_a_cursor_a_line_answers():
    assert list(list_menu(DRINK))[1] == "  1. Tea"
    assert read_answer(DRINK, "2") == MenuAnswer((1,))
    assert read_answer(DRINK, "t") == MenuAnswer((0,))
    assert read_answer(DRINK, "nonsense") is None
    assert read_answer(Menu("Which?", DRINK.items[:2], several=True), "1, 2") == MenuAnswer((0, 1))
    assert read_answer(Menu("Why?"), "so") == MenuAnswer((), "so")


def asked(
    action: Action = "run",
    subject: str = "make all",
    rules: tuple[str, ...] = ("Shell(make *)",),
    **given: str,
) -> Asked:
    requested = PermissionRequest("Shell", action, subject)
    return Asked(
        ToolCall("t", "Shell", given),
        requested,
        PermissionDecision("ask", "Commands are asked for.", would_allow=rules),
    )


def test_permission_is_yes_always_or_no_with_a_remark():
    items = consent.permission_menu(asked()).items
    assert [item.label for item in items] == [
        "Yes, this once",
        "Yes, and don't ask again in this session",
        "Yes, and never ask again in this folder",
        "No, and say why",
    ]
    assert items[1].about.endswith("also after a resume, but in no other session")
    assert "permissions.json" in items[2].about
    assert [item.value for item in items] == ["once", "always", "for good", None]


def test_where_no_rule_would_allow_it_always_is_not_offered_and_never_meant():
    once = asked(rules=())
    assert [item.key for item in consent.permission_menu(once).items] == ["y", "n"]
    assert consent.permission_menu(once).chosen(MenuAnswer((1,), "no")) is None


def test_the_whole_command_is_seen_before_it_is_permitted():
    long = "echo one && \\\n  rm -rf two \x1b[8m# hidden"
    shown = printed(*consent.preview(asked(subject=long), "", UNICODE))
    assert "$ echo one && \\" in shown
    assert "rm -rf two # hidden" in shown


def test_what_an_edit_would_change_is_seen_before_it_is_permitted(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("old\n")
    edit = asked("write", str(file), old="old", new="new")
    write = asked("write", str(file), content="other\n")
    assert "+new" in printed(*consent.preview(edit, "", UNICODE))
    shown = printed(*consent.preview(write, "", UNICODE))
    assert "-old" in shown
    assert "+other" in shown


def test_an_answer_to_the_model_is_a_label_or_the_users_own_words():
    question = context.Question(
        "Which?", (context.QuestionOption("Tea"), context.QuestionOption("Coffee")), several=True
    )
    assert len(consent.model_menu(question).items) == 3
    assert consent.read_model_answer(question, MenuAnswer((0, 1))) == "Tea, Coffee"
    assert consent.read_model_answer(question, MenuAnswer((2,), "water")) == "water"
    assert consent.read_model_answer(context.Question("Why?"), MenuAnswer((), "so")) == "so"


# -- many choices, long ones -----------------------------------------------------------------

MANY = Menu("Which?", tuple(MenuItem(f"message {n}", before="14:05") for n in range(1, 41)))


def test_of_many_choices_those_around_the_pointer_are_shown_and_the_others_counted():
    first = printed(draw_menu(MenuState.open(MANY), UNICODE, 60))
    assert "1. 14:05  message 1" in first
    assert "message 11" not in first
    assert "… 30 more below" in first
    assert "PgDn" in first
    middle = printed(draw_menu(MenuState.open(MANY).jump(PAGE).jump(PAGE), UNICODE, 60))
    assert "more above" in middle
    assert "❯ 21. 14:05  message 21" in middle
    last = printed(draw_menu(MenuState.open(MANY).jump(99), UNICODE, 60))
    assert "❯ 40. 14:05  message 40" in last
    assert "more below" not in last


def test_leaping_stops_at_the_ends_and_moving_goes_round():
    assert MenuState.open(MANY).jump(-PAGE).at == 0
    assert MenuState.open(MANY).jump(99).move(1).at == 0


def test_many_choices_are_listed_by_the_page_where_there_is_no_cursor():
    assert list(list_menu(MANY))[-1] == "  ... 30 more; Enter shows them"
    assert list(list_menu(MANY, 30))[-1] == "  40. 14:05  message 40"


def test_what_would_be_granted_is_seen_whole_in_a_narrow_window():
    rule = "Shell(make release --with everything --and nothing --left out)"
    question = Menu(
        "Run it? " + "It is asked for. " * 5,
        (MenuItem("Yes, and don't ask again in this session", "a", rule),),
    )
    shown = printed(draw_menu(MenuState.open(question), UNICODE, 40), width=40)
    assert rule in " ".join(shown.split())
    assert question.title.strip() in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 40


# -- plans -----------------------------------------------------------------------------------


def test_a_plan_is_carried_out_as_freely_as_the_user_says():
    assert consent.plan_menu("accept_edits").chosen(MenuAnswer((0,))) == "ask"
    assert consent.plan_menu("ask").chosen(MenuAnswer((1,))) == "accept_edits"
    assert consent.plan_menu("ask").chosen(MenuAnswer((2,), "wood")) is None
    assert consent.plan_menu("ask").chosen(None) is None


def test_autonomy_after_a_plan_is_offered_only_to_whoever_had_it():
    assert [one.key for one in consent.plan_menu("ask").items] == ["y", "a", "n"]
    had = consent.plan_menu("autonomous")
    assert had.items[had.start].label == "Yes, and work autonomously as before"
    assert had.chosen(MenuAnswer((2,))) == "autonomous"


@pytest.mark.spec("S13.3")
def test_what_is_typed_narrows_a_long_list_and_enter_takes_what_is_left():
    long = MenuState.open(Menu("Which?", tuple(MenuItem(f"heron {n}") for n in range(30)), filtered=True))
    state: MenuState | MenuAnswer = long
    for key in "on 27":
        assert isinstance(state, MenuState)
        state = state.press(key)
    assert isinstance(state, MenuState)
    shown = printed(draw_menu(state, UNICODE, 60))
    assert "heron 27" in shown
    assert "heron 26" not in shown
    assert state.enter() == MenuAnswer((27,))
    nothing = state.filter_by("owl")
    assert "no matches" in printed(draw_menu(nothing, UNICODE, 60))
    assert nothing.enter() == nothing
    assert nothing.filter_by("").move(1).enter() == MenuAnswer((28,))
    assert read_answer(long.menu, "heron 27") == MenuAnswer((27,))
    assert read_answer(long.menu, "heron") is None
