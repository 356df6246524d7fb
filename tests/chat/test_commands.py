"""Every command that is listed works, and says what went wrong if it cannot."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sevenfold.agent.agent import Agent
from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.permissions.engine import PermissionDecision
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.cli.chat import chat as chat_module
from sevenfold.cli.chat import slash_commands as commands
from sevenfold.cli.chat import start as opening
from sevenfold.cli.chat.chat import Chat
from sevenfold.cli.chat.driver import Driver
from sevenfold.cli.chat.history import chat_sessions, find_session, new_name, sessions
from sevenfold.cli.chat.kept_rules import kept_rules
from sevenfold.cli.chat.menu import Menu, MenuAnswer
from sevenfold.cli.chat.pages import help_page
from sevenfold.cli.chat.resumed import show_resumed
from sevenfold.cli.chat.screen import notification
from sevenfold.cli.chat.start import ChatOptions
from sevenfold.cli.text import source, wording
from sevenfold.conversation.request import ToolCall
from sevenfold.layers.compact.offline import summarise, take_notes
from sevenfold.layers.remember.offline import find_facts
from sevenfold.providers.offline import OfflineClient, Script
from sevenfold.stores.home import user_home

from .printed import Page, printed

pytestmark = pytest.mark.usefixtures("compactions_of_any_size")

WORDS = {
    "recall": "blue heron",
    "export": "out.md",
    "model": "claude-opus-4-6",
    "permissions": "allow Shell(git *)",
    "config": "offload",
    "mode": "plan",
    "show": "1",
    "rename": "the heron",
}
MAY_REFUSE = {"summary", "undo", "redo", "resume", "fork"}
"""Those that need something to have happened first."""


def heard(request: Mapping[str, Any]) -> str:
    said = [
        part["text"] for one in request["messages"] for part in one["content"] if part["type"] == "text"
    ]
    return f"I heard: {said[-1][:60]}"


def going_back(place: int) -> Callable[[Menu], MenuAnswer]:
    """Answers: one of the messages, and of what can be done there the first."""
    return lambda menu: MenuAnswer((place if menu.title.startswith("Go back") else 0,))


class Talk:
    """A chat with the offline model."""

    def __init__(self, folder: Path, screen: Page | None = None, steps: list[Any] | None = None) -> None:
        self.screen = screen or Page(lambda _: MenuAnswer((0,)))
        jobs = {"compact": summarise, "session_memory": take_notes} | ({} if steps else {"main": heard})
        self.client = OfflineClient(Script(steps or [], jobs=jobs))
        start = ChatOptions(folder=folder, name="one", model="claude-sonnet-5-5")
        self.chat = Chat(self.screen, self.opens, start)

    def opens(self, options: ChatOptions, chat: Chat) -> Agent:
        made = opening.agent_options(options)
        made |= {
            "client": self.client,
            "consent": chat.consent,
            "ask": chat.answer,
            "listen": (chat.listen,),
        }
        return Agent(options.model, **made)

    def __call__(self, line: str) -> str:
        before = len(self.screen.shown)
        if commands.is_command(line):
            commands.run(self.chat, line)
        else:
            self.chat.turn(line)
        return "".join(self.screen.shown[before:])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def talk(folder):
    made = Talk(folder)
    yield made
    made.chat.close()


@pytest.mark.parametrize("name", wording("commands"))
def test_every_listed_command_works(talk, name):
    talk("the blue heron stands in the reeds")
    talk.chat.folded.add(lambda: "what is behind it")
    shown = talk(f"/{name} {WORDS.get(name, '')}")
    if name in MAY_REFUSE and "error:" in shown:
        assert "there is n" in shown or "nothing" in shown
    else:
        assert "error:" not in shown
        assert shown or name == "quit"


def test_help_lists_exactly_the_commands_there_are(talk):
    shown = talk("/help")
    assert {line.split()[0] for line in shown.splitlines() if line.startswith("/")} == {
        f"/{one.name}" for one in commands.commands(talk.chat.options.folder)
    }
    assert {"/init", "/review", "/agents"} <= set(shown.split())


@pytest.mark.spec("S4.19")
@pytest.mark.spec("S8.12")
def test_a_session_resumed_after_a_long_time_says_its_name_and_what_the_next_message_costs(
    folder, monkeypatch
):
    monkeypatch.setenv("SEVENFOLD_IDLE_LEAST_TOKENS", "1000")
    first = Talk(folder)
    first("one two three four " * 2_000)
    first("/rename the herons")
    first.chat.close()
    transcript = user_home().project(folder).session("one").transcript
    transcript.write_text(re.sub(r'"20\d\d-', '"2020-', transcript.read_text()))
    again = Talk(folder)
    try:
        before = len(again.screen.shown)
        show_resumed(again.chat)
        shown = " ".join("".join(again.screen.shown[before:]).split())
    finally:
        again.chat.close()
    assert "resumed: the herons (" in shown
    assert "the cache has expired: your next message costs about $" in shown
    offered = set(re.findall(r"; /(\w+)", shown.partition("the cache has expired")[2]))
    assert offered == {"compact", "clear"}
    assert offered <= {one.name for one in commands.commands(folder)}


@pytest.mark.parametrize("width", [60, 80])
def test_the_help_has_room_for_what_a_command_does(width: int) -> None:
    shown = printed(
        help_page([("/memory [show, add, forget, confirm, pin]", "what is remembered")], []), width=width
    )
    assert "what is remembered" in shown


def test_a_mistyped_command_is_pointed_to_the_right_one(talk):
    assert "did you mean /compact?" in talk("/compct")


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("/help", True),
        ("/nothing at all", True),
        ("/usr/bin/env is a path", False),
        ("/", False),
        ("hi /help", False),
    ],
)
def test_a_path_is_not_taken_for_a_command(line, is_one):
    assert commands.is_command(line) is is_one


def test_a_compaction_is_seen_undone_and_done_again(talk):
    for number in range(6):
        talk(f"remember that the code of door {number} is {number}{number}{number}")
    before = talk.chat.agent.session.gauge.seen
    assert "compact: summarised" in talk("/compact keep the codes")
    assert "undone" in talk("/undo")
    assert talk.chat.agent.session.gauge.seen == pytest.approx(before, rel=0.05)
    assert "redone: " in talk("/redo")


def test_rewinding_goes_back_to_before_a_message_and_offers_it_for_another_try(folder):
    screen = Page(going_back(1))
    talk = Talk(folder, screen)
    talk("first")
    talk("second")
    assert "rewound 4 records" in talk("/rewind")
    assert screen.suggested == ["first"]
    assert len(talk.chat.agent.session.conversation.transcript.view) == 0
    talk.chat.close()


def test_another_model_goes_on_with_the_same_conversation(talk):
    talk("my name is Ada")
    talk("/model claude-opus-4-6")
    talk("go on")
    sent = msgspec.json.decode(talk.chat.agent.session.at(-1))
    assert sent["model"] == "claude-opus-4-6"
    assert "my name is Ada" in msgspec.json.encode(sent["messages"]).decode()
    assert talk.chat.options.name == "one"


def test_a_new_session_begins_and_the_one_before_can_be_resumed(talk):
    talk("the first session")
    assert "/resume one" in talk("/clear")
    talk("the second session")
    assert "› the first session" in talk("/resume one")
    assert "no other session named nobody" in talk("/resume nobody")


def test_a_session_that_cannot_be_opened_leaves_the_present_one_in_place(talk):
    talk("here I am")
    other = talk.opens(
        ChatOptions(folder=talk.chat.options.folder, name="two", model="claude-sonnet-5-5"), talk.chat
    )
    other.session.user("locked")
    assert "error:" in talk("/resume two")
    assert "I heard: still here" in talk("still here")
    other.close()


def test_the_conversation_is_exported_once_and_never_over_a_file(talk, folder):
    talk("the blue heron")
    talk("/compact")
    assert "records written to" in talk("/export out.md")
    assert "the blue heron" in (folder / "out.md").read_text()
    assert "exists and is not overwritten" in talk("/export out.md")
    talk("/export out.jsonl")
    assert all(msgspec.json.decode(line) for line in (folder / "out.jsonl").read_bytes().splitlines())


@pytest.mark.parametrize("name", ["out.md", "out.jsonl"])
def test_an_exported_conversation_has_its_secrets_masked(talk, folder, name):
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    talk(f"my token is {secret}")
    talk(f"/export {name}")
    text = (folder / name).read_text()
    assert secret not in text
    assert "[masked github-token" in text


def test_permissions_can_be_granted_and_revoked(talk):
    assert "Shell(git *)" in talk("/permissions allow Shell(git *)")
    assert "Shell(git *)" not in talk("/permissions revoke Shell(git *)")
    assert "was not granted" in talk("/permissions revoke Shell(git *)")
    assert "error:" in talk("/mode reckless")


def test_what_is_shown_of_a_turn_is_numbered_and_opens(folder):
    (folder / "a.txt").write_text("inside the file\n")
    call = {"type": "tool_use", "id": "toolu_a", "name": "Read", "input": {"path": "a.txt"}}
    talk = Talk(
        folder, steps=[[{"type": "thinking", "thinking": "hm, let me look"}, call], "It is *short*."]
    )
    shown = talk("look at it")
    assert "thought: hm, let me look [1]" in shown
    assert "✓ Read a.txt · 1 line · [2]" in shown
    assert "It is short." in shown
    assert "inside the file" in talk("/show")
    assert "hm, let me look" in talk("/show 1")
    assert "There is no [9]" in talk("/show 9")
    talk.chat.close()


def test_an_error_of_the_provider_is_one_line_and_the_chat_goes_on(folder):
    talk = Talk(folder, steps=["only this"])
    assert "only this" in talk("one")
    assert "error: The offline model's script has 1 steps" in talk("two").replace("\n", " ")
    assert "the offline model answers" in talk("/cost").replace("\n", " ")
    talk.chat.close()


@pytest.mark.spec("S8.6")
def test_rewinding_reaches_messages_from_before_compactions(folder):
    screen = Page(lambda asked: MenuAnswer((len(asked.items) - 1,)))
    talk = Talk(folder, screen)
    for words in ("first\nof all", "second", "third"):
        talk(words)
    talk("/compact")
    talk("fourth")
    talk("/compact")
    talk("fifth")
    assert "to before the compaction" in talk("/rewind")
    offered = screen.asked[-1].items
    assert [one.label for one in offered] == ["fifth", "fourth", "third", "second", "first (+1 line)"]
    assert [one.before.endswith("compacted") for one in offered] == [False, True, True, True, True]
    assert screen.suggested == ["first\nof all"]
    talk("another beginning")
    sent = msgspec.json.decode(talk.chat.agent.session.at(-1))
    assert [part["text"] for part in sent["messages"][0]["content"]] == ["another beginning"]
    talk.chat.close()


@pytest.mark.parametrize("place", range(5))
def test_after_a_rewind_the_model_sees_exactly_what_was_said_before(folder, place):
    said = ["one", "two", "three", "four", "five"]
    talk = Talk(folder, Page(going_back(len(said) - 1 - place)))
    for number, words in enumerate(said):
        talk(words)
        if number in (1, 3):
            talk("/compact")
    seen = {words: _heard_at(talk, words) for words in said}
    talk("/rewind")
    view = talk.chat.agent.session.conversation.transcript.view
    assert _texts([msgspec.json.decode(raw) for raw in view.encoded()]) == seen[said[place]]
    talk.chat.close()


def _heard_at(talk: Talk, words: str) -> list[str]:
    """All that came before these words in the first request that held them."""
    session = talk.chat.agent.session
    for number in range(session.gauge.requests):
        past = session.conversation.past(number)
        texts = _texts(msgspec.json.decode(past.body)["messages"])
        if past.record.source == "main" and words in texts:
            return texts[: texts.index(words)]
    raise AssertionError(words)


def _texts(messages: list[Any]) -> list[str]:
    return [part["text"] for message in messages for part in message["content"]]


def test_the_books_span_all_runs_of_a_session_and_show_this_one_apart(folder):
    talk = Talk(folder)
    talk("first")
    talk("/compact")
    alone = talk("/cost")
    assert "this run" not in alone
    assert "of it compact" in alone
    talk.chat.close()
    again = Talk(folder)
    again("second")
    shown = again("/cost")
    rows = {line[:16].strip(): line[16:].split() for line in shown.splitlines()}
    assert rows[""] == ["session", "this", "run"]
    assert rows["answers"] == ["3", "1"]
    assert int(rows["prompt tokens"][0].replace(",", "")) > int(rows["prompt tokens"][1].replace(",", ""))
    again.chat.close()


def test_another_session_has_books_of_its_own(talk):
    talk("first")
    talk("/clear")
    assert "nothing was charged" in talk("/cost")
    assert "nothing is cached" in talk("/cache")


def test_the_status_follows_undo_rewind_and_another_model(talk):
    for number in range(4):
        talk(f"door {number} " + "is green " * 200)
    talk("/compact")
    small = talk.chat.status.gauge
    talk("/undo")
    assert talk.chat.status.compaction_undone
    assert talk.chat.status.gauge.seen != small.seen
    talk("/redo")
    assert not talk.chat.status.compaction_undone
    assert talk.chat.status.gauge.seen == pytest.approx(small.seen, rel=0.05)
    talk("/model claude-opus-4-6")
    assert talk.chat.status.model == "claude-opus-4-6"
    assert talk.chat.status.gauge.context == talk.chat.agent.session.gauge.context
    talk("/rewind")
    assert talk.chat.status.gauge.seen == talk.chat.agent.session.gauge.seen


def test_a_notice_of_a_hook_is_shown(folder):
    talk = Talk(folder)
    held = talk.chat.agent.assembly.options["hooks"]
    held.add("UserPromptSubmit", lambda _: {"systemMessage": "Mind the step."})
    assert "Mind the step." in talk("hello")
    talk.chat.close()


def test_a_compaction_shows_how_far_it_is(folder):
    stages: list[str] = []
    talk = Talk(folder)
    changed = talk.screen.changed

    def noted() -> None:
        stages.append(talk.chat.live.stage)
        changed()

    talk.screen.changed = noted  # type: ignore[method-assign]
    talk("hello")
    talk("/compact")
    assert "compacting: PreCompact hooks" in stages
    assert "compacting: writing the summary" in stages
    assert stages[-1] == ""
    talk.chat.close()


FACTS = ("the heron is blue", "the reed is tall", "the pond is deep")


def answers_in_view(talk: Talk) -> list[str]:
    """The facts whose answers are still there word for word."""
    items = talk.chat.agent.session.conversation.transcript.view.items
    heard = b" ".join(
        item.record.blocks[0].raw for item in items if item.record.role == "assistant"
    ).decode()
    return [fact for fact in FACTS if f"I heard: {fact}" in heard]


@pytest.mark.spec("S4.5")
@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("/compact from 2", FACTS[:1]),
        ("/compact up to 2", FACTS[1:]),
        ("/compact FROM 1 keep the pond", FACTS[:2]),
        ("/compact from the birds keep the colour", ()),
    ],
)
def test_a_part_is_compacted_from_or_up_to_a_message_of_the_user(talk, line, kept):
    for fact in FACTS:
        talk(fact)
    assert "error:" not in talk(line)
    assert answers_in_view(talk) == list(kept)


@pytest.mark.spec("S4.5")
def test_without_a_number_the_message_is_chosen_and_a_rewritten_cache_is_asked_about_first(folder):
    answers = iter([MenuAnswer((1,)), MenuAnswer((1,)), None])
    talk = Talk(folder, Page(lambda _: next(answers)))
    for fact in FACTS:
        talk(fact)
    talk("/compact up to")
    choosing, confirming = talk.screen.asked
    assert [item.label for item in choosing.items] == list(reversed(FACTS))
    assert "writes" in confirming.title
    assert "to the cache again" in confirming.title
    talk("/compact from")
    assert answers_in_view(talk) == list(FACTS)
    assert "there is no message 9" in talk("/compact from 9")
    talk.chat.close()


def test_a_command_sent_before_the_last_one_is_quite_over_runs_after_it(folder):
    drawn, go_on, over = threading.Event(), threading.Event(), threading.Event()

    class Slow(Page):
        """Has shown a page long before the command that shows it is over."""

        def show(self, *shown):
            super().show(*shown)
            if "largest items" in self.text and not drawn.is_set():
                drawn.set()
                go_on.wait(60)

    talk = Talk(folder, Slow())
    talk(FACTS[0])
    driver = Driver(talk.chat, lambda error: over.set())
    driver.submit("/context")
    assert drawn.wait(60)
    driver.submit("/compact")
    go_on.set()
    assert over.wait(60)
    assert "compact: summarised" in talk.screen.text
    assert "cannot run" not in talk.screen.text
    driver.close()


@pytest.mark.spec("S4.19")
def test_an_idle_chat_is_woken_before_the_cache_expires_and_not_once_it_is_used_or_closed(
    folder, monkeypatch
):
    alarms: list[Any] = []
    over = threading.Event()

    class Alarm:
        """A timer whose time comes when the test says so."""

        def __init__(self, seconds: float, rings: Callable[[], None]) -> None:
            self.seconds, self.rings, self.cancelled = seconds, rings, False
            alarms.append(self)

        def start(self) -> None:
            over.set()

        def cancel(self) -> None:
            self.cancelled = True

    monkeypatch.setenv("SEVENFOLD_IDLE_LEAST_TOKENS", "1")
    monkeypatch.setattr(threading, "Timer", Alarm)
    talk = Talk(folder)
    driver = Driver(talk.chat, lambda error: None)
    driver.submit(FACTS[0])
    assert over.wait(60)
    over.clear()
    alarms[0].rings()
    assert over.wait(60), "it is not time yet, so it is asked again"
    assert all(200 < alarm.seconds <= 270 for alarm in alarms)
    assert [alarm.cancelled for alarm in alarms] == [True, False]
    driver.close()
    assert alarms[1].cancelled


def remembering(folder: Path, name: str = "one") -> Talk:
    """A chat with the offline model as users have it, which remembers by fixed rules."""
    talk = Talk(folder)
    talk.chat.options = msgspec.structs.replace(talk.chat.options, name=name)
    talk.client = OfflineClient(Script([], jobs={"main": heard, "extract_memories": find_facts}))
    talk.chat.agent.close()
    talk.chat.agent = talk.opens(talk.chat.options, talk.chat)
    return talk


@pytest.mark.spec("S5.2", "S5.8")
def test_a_new_chat_in_the_same_folder_knows_what_the_last_one_was_told_and_from_when(folder):
    first = remembering(folder)
    first("Please always answer in one sentence.")
    first.chat.agent.session.settle()
    first.chat.close()
    second = remembering(folder, "two")
    shown = " ".join(second("How long should an answer be, one sentence or more?").split())
    assert re.search(
        r"recalled from memory: please-always-answer-in-one-sentence \(your words of \d{4}-", shown
    )
    assert "Please always answer in one sentence." in second("/memory")
    second.chat.close()


@pytest.mark.spec("S5.2", "S5.8")
def test_a_preference_is_remembered_shown_undone_and_recalled(folder):
    talk = remembering(folder)
    talk("Please always indent Makefiles with tabs.")
    talk.chat.agent.session.settle()
    assert "please-always-indent-makefiles-with-tabs" in talk("/memory")
    assert "origin     user" in talk("/memory show please-always-indent-makefiles-with-tabs")
    assert "recalled from memory: please-always-indent" in talk("Write a Makefile with tabs.")
    assert "undo 1" in talk("/memory undo")
    assert "nothing is remembered" in talk("/memory")
    talk.chat.close()


def test_a_line_after_a_number_sign_is_remembered_and_not_sent(talk):
    assert "remembered: we-deploy-on-tuesdays" in talk("# We deploy on Tuesdays.")
    assert "we-deploy-on-tuesdays" in talk("/memory")
    assert len(talk.chat.agent.session.conversation.transcript.view) == 0


@pytest.mark.parametrize("line", ["# Heading\n\nand text below", "#one", "## A heading", "#", "a # b"])
def test_pasted_markdown_is_not_taken_for_something_to_remember(line):
    assert not commands.is_command(line)


@pytest.mark.parametrize(
    "line", ["/memory show", "/memory show nothing", "/memory fly", "/memory undo x", "/memory diff"]
)
def test_mistakes_about_memory_are_explained(talk, line):
    assert "error:" in talk(line)


@pytest.mark.spec("S13.3")
def test_a_model_is_chosen_from_a_list_with_its_window_and_price_or_by_an_alias(folder):
    screen = Page(lambda menu: MenuAnswer(([one.label for one in menu.items].index("claude-haiku-5-5"),)))
    talk = Talk(folder, screen)
    talk("/model")
    assert talk.chat.options.model == "claude-haiku-5-5"
    about = {one.label: one.about for one in screen.asked[0].items}
    assert "haiku, window" in about["claude-haiku-5-5"]
    assert "$2 in, $10 out per million tokens" in about["claude-sonnet-5-5"]
    talk("/model opus")
    assert talk.chat.options.model == "claude-opus-5-5"
    talk.chat.close()


@pytest.mark.spec("S13.3")
def test_a_misspelt_model_is_pointed_to_the_nearest_and_may_be_used_as_typed(folder):
    answers = iter([MenuAnswer((0,)), MenuAnswer((1,)), None])
    screen = Page(lambda _: next(answers))
    talk = Talk(folder, screen)
    talk("/model claude-sonet-5-5")
    assert "did you mean claude-sonnet-5-5?" in screen.asked[0].title
    assert talk.chat.options.model == "claude-sonnet-5-5"
    talk("/model claude-sonnet-9")
    assert talk.chat.options.model == "claude-sonnet-9"
    talk("/model claude-opsu")
    assert talk.chat.options.model == "claude-sonnet-9"
    talk.chat.close()


@pytest.mark.spec("S13.3")
def test_a_session_is_named_and_found_by_its_name_and_runs_of_scripts_are_not_listed(talk):
    talk("hello")
    talk("/rename The Heron")
    talk("/clear")
    talk("another")
    kept = sessions(talk.chat.options.folder)
    named = find_session(kept, "the heron")
    assert named is not None
    assert (named.name, named.title) == ("one", "The Heron")
    assert find_session(kept, "the her") == named
    assert find_session([named, named], "the her") is None
    script = msgspec.structs.replace(named, name=new_name(printed=True))
    assert chat_sessions([script, named]) == [named]
    assert find_session([script], script.name) == script


@pytest.mark.spec("S13.4")
@pytest.mark.parametrize("part", ["Summarise from here", "Summarise up to here"])
def test_from_the_list_of_messages_a_part_is_summarised_after_its_price_was_shown(folder, part):
    def choose(menu: Menu) -> MenuAnswer:
        labels = [one.label for one in menu.items]
        return MenuAnswer((labels.index(part) if part in labels else 2,))

    screen = Page(choose)
    talk = Talk(folder, screen)
    for number in range(6):
        talk(f"remember that the code of door {number} is {number}{number}{number}")
    assert "compact: summarised" in talk("/rewind")
    [price] = [one.about for one in screen.asked[-1].items if one.label == part]
    assert "tokens become at most" in price
    assert "$" in price
    talk.chat.close()


def test_what_is_undone_is_said_in_words(talk):
    for number in range(6):
        talk(f"remember that the code of door {number} is {number}{number}{number}")
    talk("/compact")
    assert re.search(r"undone: summarised \d+", talk("/undo"))
    assert re.search(r"redone: summarised \d+", talk("/redo"))


def test_costs_are_listed_by_what_they_were_for():
    assert [source(one) for one in ("session_memory", "compact", "agent:reviewer")] == [
        "notes",
        "compaction",
        "agent reviewer",
    ]


@pytest.mark.spec("S13.5")
@pytest.mark.parametrize("how", ["bell", "desktop", "off"])
def test_a_user_who_may_look_elsewhere_is_called_when_it_is_done_or_waits(folder, monkeypatch, how):
    monkeypatch.setenv("SEVENFOLD_NOTIFY", how)
    monkeypatch.setattr(chat_module, "AWAY_SECONDS", -1.0)
    call = {"type": "tool_use", "id": "toolu_1", "name": "Shell", "input": {"command": "true 1 > made"}}
    talk = Talk(folder, steps=[[call], "done"])
    talk("hello")
    talk.chat.close()
    called = [] if how == "off" else [("waiting for your answer: work", how), ("done: work", how)]
    assert talk.screen.notified == called
    assert notification("done: \x1b]0;x\x07work", "desktop") == "\x1b]9;done: work\a"
    assert notification("done", "bell") == "\a"


def test_a_user_who_has_just_sent_something_is_not_called(talk):
    talk("hello")
    assert talk.screen.notified == []


@pytest.mark.spec("S13.5")
def test_the_agents_that_are_defined_are_listed_and_those_at_work(talk):
    shown = talk("/agents")
    assert re.search(r"^general +Works on one task", shown, re.MULTILINE)
    assert len(shown.splitlines()) == 3
    assert "No agent is at work." in shown
    assert "error:" in talk("/agents kill nothing")
    assert "no agent called 'nothing' is at work" in talk("/agents nothing")


@pytest.mark.spec("S37.4")
def test_a_task_is_shown_and_stopped_by_its_name(folder, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_SANDBOX", "off")
    line = "for n in $(seq 60); do echo line $n; done; sleep 600"
    call = {"type": "tool_use", "name": "Shell", "input": {"command": line, "background": True}}
    talk = Talk(folder, steps=[[call], "started"])
    talk("hello")
    talk.chat.agent.assembly.state.processes.wait("task-1", 0.0, lambda: True)
    while "line 60" not in talk("/tasks for n in"):
        pass
    shown = talk("/tasks task-1")
    assert "line 21" in shown
    assert "line 20\n" not in shown
    assert "20 earlier lines" in shown
    assert "/tasks kill task-1 stops it" in shown
    assert "task-1 was stopped" in talk("/tasks kill for n")
    assert "still at work" not in talk("/tasks task-1")
    assert "error: there is no task 'nothing'; there are: " in talk("/tasks nothing")
    talk.chat.close()


@pytest.mark.spec("S37.5")
def test_settings_are_found_changed_and_put_back_in_the_chat(talk, folder):
    shown = talk("/config cache lifetime")
    assert "cache_lifetime" in shown
    assert "offload_characters" not in shown
    path = folder.parent / "home/settings.toml"
    assert str(path) in "".join(line.strip() for line in talk("/config").splitlines()[:4])
    assert 'notify = "off"' in talk("/config set notify off")
    assert path.read_text() == 'notify = "off"\n'
    assert "no longer in" in talk("/config unset notify")
    assert "error:" in talk("/config set notify loud")


@pytest.mark.spec("S37.6")
def test_after_a_compaction_it_says_what_was_kept_and_shows_the_summary_on_demand(talk):
    assert "error: nothing has been summarised" in talk("/summary")
    for number in range(4):
        talk(f"the heron number {number} is blue " * 40)
    assert "/summary shows it" in " ".join(talk("/compact").split())
    shown = talk("/summary")
    assert "heron" in shown
    assert "facts in view" in " ".join(shown.split())


def test_nothing_to_undo_names_the_way_to_an_earlier_message(talk):
    assert "/rewind" in talk("/undo")


@pytest.mark.parametrize(
    ("typed", "meant"), [("/comapct", "/compact"), ("/nope", ""), ("/foo", ""), ("/hlep", "/help")]
)
def test_only_what_was_nearly_typed_is_suggested(talk, typed, meant):
    shown = talk(typed)
    assert (f"did you mean {meant}?" in shown) if meant else "/help lists all commands" in shown


# -- what the agent asks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "said", "kept"),
    [
        (MenuAnswer((0,)), Consented(True), ()),
        (MenuAnswer((1,)), Consented(True, always=True), ()),
        (MenuAnswer((2,)), Consented(True, always=True), ("Shell(make *)",)),
        (MenuAnswer((3,), "not now"), Consented(False, remark="not now"), ()),
        (None, Consented(False), ()),
    ],
)
def test_permission_is_given_as_the_user_answers(
    folder: Path, answer: MenuAnswer | None, said: Consented, kept: tuple[str, ...]
) -> None:
    talk = Talk(folder, Page(lambda _: answer))
    decision = PermissionDecision("ask", "Commands are asked for.", would_allow=("Shell(make *)",))
    asked = Asked(ToolCall("t", "Shell", {}), PermissionRequest("Shell", "run", "make all"), decision)
    assert talk.chat.consent(asked) == said
    assert kept_rules(folder) == kept
    talk.chat.close()


@pytest.mark.parametrize(
    ("answer", "said", "mode"),
    [
        (MenuAnswer((1,)), Consented(True), "accept_edits"),
        (MenuAnswer((2,), "wood"), Consented(False, remark="wood"), "ask"),
        (None, Consented(False), "ask"),
    ],
)
def test_a_plan_is_approved_as_the_user_answers(
    folder: Path, answer: MenuAnswer | None, said: Consented, mode: str
) -> None:
    talk = Talk(folder, Page(lambda _: answer))
    request, decision = PermissionRequest("PlanReady", "call"), PermissionDecision("ask", "A plan.")
    assert talk.chat.consent(Asked(ToolCall("", "PlanReady", {"plan": "Dig."}), request, decision)) == said
    assert talk.chat.agent.grants.after_planning == mode
    talk.chat.close()


@pytest.mark.spec("S37.16")
@pytest.mark.parametrize(("place", "copied"), [(0, True), (1, False)])
def test_a_copy_that_costs_much_to_read_is_made_only_if_the_user_agrees(
    folder, monkeypatch, place: int, copied: bool
):
    screen = Page(lambda _: MenuAnswer((place,)))
    talk = Talk(folder, screen)
    talk("hello")
    talk("/fork")
    assert screen.asked == [], "this one costs little"
    before = talk.chat.options.name
    monkeypatch.setenv("SEVENFOLD_FORK_USD", "0")
    talk("/clear")
    talk("hello again")
    cleared = talk.chat.options.name
    shown = talk("/fork")
    assert "reads the whole conversation: " in screen.asked[-1].title
    assert "tokens, about $" in screen.asked[-1].title
    assert (talk.chat.options.name != cleared) == copied
    assert ("nothing was copied" in shown) != copied
    assert before != cleared
    talk.chat.close()
