"""Files a prompt mentions are read as the tools read them, and never taken for the user's words."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sevenfold.agent.agent_events import Mentioned
from sevenfold.agent.executor import Asked, Consented
from sevenfold.agent.mentions import mentioned, plainly_a_path

from .working import agent, async_agent, blocks, model_of, texts, use

PICTURE = b"\x89PNG\r\n\x1a\n" + b"0" * 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    (place / "src").mkdir(parents=True)
    (place / "src" / "app.py").write_text("def app():\n    return 1\n")
    (place / "a name.md").write_text("spaced\n")
    (place / "seal.png").write_bytes(PICTURE)
    (place / "blob.bin").write_bytes(b"\x00\x01\x02")
    (tmp_path / "outside.txt").write_text("not yours\n")
    return place


def told(made: Any, prompt: str) -> list[Mentioned]:
    return [event for event in made.stream(prompt) if isinstance(event, Mentioned)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("look at @src/app.py.", ("src/app.py",)),
        ("(@a.py), @a.py and @b/", ("a.py", "b/")),
        ('see @"a name.md"!', ("a name.md",)),
        ("write to me@example.com", ()),
        ("an @ alone, and @... too", ()),
    ],
)
def test_paths_are_found_behind_the_sign(text, found):
    assert mentioned(text) == found


def test_what_is_often_pasted_is_not_plainly_a_path():
    assert all(map(plainly_a_path, ("src/app.py", "missing.py", "docs/", "~/notes/a.md")))
    assert not any(map(plainly_a_path, ("dataclass", "types/node", "media", "v4")))


@given(st.text())
def test_any_text_can_be_searched(text):
    assert all(word and word in text for word in mentioned(text))


def test_a_file_is_put_beside_the_message_and_is_not_the_users_words(folder):
    with agent(["Seen."], folder, mentions=True) as made:
        (event,) = told(made, "what does @src/app.py do?")
        assert event.path == "src/app.py"
        assert not event.output.is_error
        (request,) = model_of(made).requests
        words, attached = [block["text"] for block in blocks(request, "text")]
        assert words == "what does @src/app.py do?"
        assert "def app():" in attached
        assert str(folder / "src" / "app.py") in attached
        records = made.session.conversation.transcript.view.items
        assert [(item.record.attachment, item.record.meta) for item in records[:2]] == [
            ("", False),
            ("file", True),
        ]


def test_a_file_that_was_mentioned_counts_as_read(folder):
    edit = use("Edit", "c", path="src/app.py", old="return 1", new="return 2")
    with agent([[edit], "Done."], folder, mentions=True, mode="accept_edits") as made:
        made.run("in @src/app.py return 2")
    assert "return 2" in (folder / "src" / "app.py").read_text()


def test_folders_names_with_spaces_and_pictures(folder):
    with agent(["Seen."], folder, mentions=True) as made:
        events = told(made, 'compare @src/ with @"a name.md" and @seal.png')
        assert [(event.path, event.folder) for event in events] == [
            ("src/", True),
            ("a name.md", False),
            ("seal.png", False),
        ]
        (request,) = model_of(made).requests
        assert "app.py" in texts(request)
        assert "spaced" in texts(request)
        assert len(blocks(request, "image")) == 1


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("@src/missing.py", "There is no file"),
        ("@blob.bin", "is not text"),
        ("@../outside.txt", "Not permitted"),
    ],
)
def test_what_cannot_be_read_is_told_and_the_text_is_sent_as_typed(folder, prompt, why):
    with agent(["Well."], folder, mentions=True) as made:
        (event,) = told(made, f"see {prompt} please")
        assert event.output.is_error
        assert why in str(event.output.content)
        (request,) = model_of(made).requests
        assert texts(request) == f"see {prompt} please"


def test_what_is_no_path_is_passed_over(folder):
    with agent(["Well."], folder, mentions=True) as made:
        assert told(made, "use @dataclass and @types/node") == []


def test_a_file_outside_is_read_once_the_user_permits_it(folder):
    asked: list[Asked] = []

    def consent(one: Asked) -> Consented:
        asked.append(one)
        return Consented(True)

    with agent(["Seen."], folder, mentions=True, consent=consent) as made:
        (event,) = told(made, "and @../outside.txt")
        assert [one.call.name for one in asked] == ["Read"]
        assert not event.output.is_error
        assert "not yours" in texts(model_of(made).requests[0])


def test_a_rule_that_forbids_reading_holds_for_mentions(folder):
    with agent(["Well."], folder, mentions=True, rules={"deny": ["Read(./src/**)"]}) as made:
        (event,) = told(made, "see @src/app.py")
        assert "forbids" in str(event.output.content)
        assert "def app" not in texts(model_of(made).requests[0])


def test_what_would_fill_a_small_window_is_left_out(folder):
    for name in ("one.txt", "two.txt", "three.txt"):
        (folder / name).write_text(f"many words in {name}\n" * 2_000)
    with agent(["Well."], folder, mentions=True, settings={"context_window": 16_000}) as made:
        *_, last = told(made, "see @one.txt, @two.txt and @three.txt")
        assert "fit with this message" in str(last.output.content)
        assert "many words in three.txt" not in texts(model_of(made).requests[0])


def test_without_the_option_nothing_is_read(folder):
    with agent(["Well."], folder) as made:
        assert told(made, "see @src/app.py") == []


def test_a_queued_message_and_an_agent_that_is_awaited_read_as_well(folder):
    async def main() -> list[str]:
        async with async_agent(["Seen."], folder, mentions=True) as made:
            events = [event async for event in made.stream("see @src/app.py")]
            return [event.path for event in events if isinstance(event, Mentioned)]

    assert asyncio.run(main()) == ["src/app.py"]
    with agent(["Seen."], folder, mentions=True) as made:
        made.queue("see @src/app.py")
        assert [event.path for event in told(made, "")] == ["src/app.py"]
