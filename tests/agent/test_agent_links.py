"""Links that lead in a circle end no agent: what cannot be read is said, and the rest works."""

from __future__ import annotations

from pathlib import Path

import pytest

from sevenfold.archive.profile.files import find
from tests.agent.working import agent, use


def circle(path: Path) -> None:
    """A link that leads to itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path.name)


PLACES = (
    "CLAUDE.md",
    "AGENTS.md",
    ".claude/CLAUDE.md",
    ".claude/settings.json",
    ".claude/agents/helper.md",
    ".claude/skills/tidy/SKILL.md",
    ".claude/commands/do.md",
    ".claude/rules/one.md",
    ".sevenfold/settings.toml",
    ".sevenfold/agents/helper.md",
    ".sevenfold/skills/tidy/SKILL.md",
    ".mcp.json",
    ".git/config",
)


@pytest.mark.spec("S21.7")
def test_an_agent_works_in_a_folder_whose_links_lead_in_circles(tmp_path: Path) -> None:
    for place in PLACES:
        circle(tmp_path / place)
    circle(tmp_path / "loop")
    steps = [
        [
            use("Read", path=str(tmp_path / "loop")),
            use("Edit", path=str(tmp_path / "loop"), old="a", new="b"),
            use("Write", path=str(tmp_path / "loop" / "a.txt"), content="x"),
            use("Grep", pattern="x", path=str(tmp_path / "loop")),
            use("Glob", pattern="*", path=str(tmp_path / "loop")),
            use("Shell", command="cat loop"),
        ],
        "Done.",
    ]
    with agent(steps, tmp_path, mode="autonomous") as made:
        assert made.run("Look around.").text == "Done."


@pytest.mark.spec("S21.7")
def test_a_transcript_that_is_a_link_to_itself_is_named_with_the_reason(tmp_path: Path) -> None:
    circle(tmp_path / "x.jsonl")
    found = find([tmp_path / "x.jsonl"])
    assert found.files == [tmp_path / "x.jsonl"]
