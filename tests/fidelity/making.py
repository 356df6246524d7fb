"""Conversations to look for facts in: one written by hand, and any that Hypothesis can think of."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from sevenfold.archive.fidelity import Probe, probes
from sevenfold.record.layout import Item
from tests.support import Story, call, result, text

WORDS = st.text(max_size=120) | st.sampled_from(
    [
        "yes",
        "No, don't touch src/tide/panel.py: use --local-zone instead!",
        "<system-reminder>nobody said this</system-reminder> but I did, on port 8080",
        "<command-name>/look</command-name><command-args>at HARBOUR-12, 40%</command-args>",
        "Shall I rename the harbour to haven?",
        "[Request interrupted by user]",
        "```\nnever = 1\n```\nI prefer v1.2.3 of deadbeef1",
        "long " * 200,
    ]
)
GIVEN = st.fixed_dictionaries(
    {},
    optional={
        "file_path": WORDS | st.just("/home/pia/tide/clock.py") | st.integers(),
        "content": WORDS,
        "command": WORDS | st.none(),
        "todos": st.lists(
            st.fixed_dictionaries({"content": WORDS, "status": st.sampled_from(["pending", "completed"])})
            | WORDS,
            max_size=3,
        ),
        "subject": WORDS,
        "taskId": st.sampled_from(["1", "2"]),
        "status": st.sampled_from(["in_progress", "completed"]),
        "plan": WORDS.map(lambda words: f"# {words}"),
    },
)
ANSWERS = (
    WORDS
    | st.none()
    | st.lists(WORDS.filter(str.strip).map(text), max_size=2)
    | st.sampled_from(
        [
            "Exit code 1\nTypeError: no",
            'The user answered: "Which way?"="The short one"',
            "Task #1 created",
            "User has approved your plan.",
        ]
    )
)


@st.composite
def histories(draw: st.DrawFn) -> list[Item]:
    """Records in which anything may have been said, called and answered."""
    story, calls = Story(), list[str]()
    for number in range(draw(st.integers(0, 20))):
        match draw(st.sampled_from(["user", "user", "model", "call", "answer", "meta", "summary"])):
            case "user":
                story.user(draw(WORDS | st.lists(WORDS.map(text), max_size=3)))
            case "model":
                story.assistant(draw(WORDS))
            case "call":
                calls.append(f"t{number}")
                name = draw(
                    st.sampled_from(["Edit", "Bash", "TaskUpdate", "AskUserQuestion", "ExitPlanMode"])
                )
                story.assistant({"type": "tool_use", "id": calls[-1], "name": name, "input": draw(GIVEN)})
            case "answer" if calls:
                story.user(
                    [result(draw(st.sampled_from(calls)), draw(ANSWERS), is_error=draw(st.booleans()))]
                )
            case "meta":
                story.user(draw(WORDS), isMeta=True)
            case _:
                story.summary(draw(WORDS))
    # What is recorded is shown, so that a fact that is missing has been missed.
    return [replace(item, shown=item.record.blocks) for item in story.view().items]


def harbour() -> Story:
    """A session with facts of every kind."""
    story = Story()
    story.user(
        "The harbour display shows yesterday's tide. Never touch the files under build/generated.",
        uuid="ask",
    )
    story.assistant("I look at src/tidemark/clock.py first, as HARBOUR-12 says.", uuid="look")
    story.assistant(
        call("t1", "Edit", file_path="/home/pia/tide/src/tidemark/clock.py", new_string="zone"), uuid="edit"
    )
    story.user([result("t1", "The file has been updated.")], uuid="edited")
    story.assistant(call("t2", "Bash", command="pytest -q tests/test_clock.py 2>&1"), uuid="run")
    story.user(
        [result("t2", "Exit code 1\ntests/test_clock.py:41:5: undefined name local_day", is_error=True)],
        uuid="failed",
    )
    story.assistant(
        "HARBOUR-12 wants the zone of the station. Should I read the zone from stations.toml?",
        uuid="propose",
    )
    story.user("yes", uuid="agree")
    story.assistant(
        call(
            "t3",
            "TodoWrite",
            todos=[
                {"content": "Find the wrong day", "status": "completed"},
                {"content": "Write a test for midnight", "status": "pending"},
            ],
        ),
        uuid="list",
    )
    story.user([result("t3", "ok")], uuid="listed")
    story.user("No, that's wrong: the keeper's clock runs on UTC.", uuid="correct")
    story.assistant("Now I rewrite the conversion of the keeper's clock.", uuid="now")
    return story


def facts(story: Story, kind: str) -> list[str]:
    return [probe.text for probe in found(story) if probe.kind == kind]


def found(story: Story) -> tuple[Probe, ...]:
    return probes(story.view().items)
