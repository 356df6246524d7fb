"""What can be typed next: commands, what they take, and files."""

from __future__ import annotations

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from sevenfold.cli.chat.driver import ChatCompleter


@pytest.fixture
def offered(tmp_path, monkeypatch):
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    folder = tmp_path / "work"
    for name in (
        "src/app.py",
        "src/deep/appendix.md",
        "README.md",
        "a name.txt",
        ".hidden/app",
        "node_modules/app.js",
        "bad\x1bapp",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    completer = ChatCompleter(folder)

    def offer(text):
        return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]

    return offer


def test_commands_are_offered_at_the_beginning_only(offered):
    assert offered("/co") == ["/context", "/compact", "/cost", "/config"]
    assert offered("say /co") == []


def test_what_commands_take_is_offered(offered):
    assert offered("/mode a") == ["ask", "accept_edits", "autonomous"]
    assert "claude-sonnet-5-5" in offered("/model claude-sonnet")


def test_files_are_offered_behind_an_at_sign_the_nearest_first(offered):
    assert offered("look at @app") == ["@src/app.py", "@src/deep/appendix.md"]
    assert offered("look at @deep/") == ["@src/deep/", "@src/deep/appendix.md"]
    assert offered('look at @"a na') == offered("look at @name.txt") == ['@"a name.txt"']
    assert offered("look at @read") == ["@README.md"]
    assert offered("mail me@app") == []
