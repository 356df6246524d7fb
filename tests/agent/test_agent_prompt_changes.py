"""What varies in an agent's prompt: sent once, and what becomes of it appended, section by section."""

from __future__ import annotations

import os
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.clock import ManualClock
from sevenfold.errors import SettingError
from sevenfold.events import EpochOpened
from sevenfold.lab.simulator.invariant import extends
from sevenfold.stores.trust import Trust, user_folder
from tests.agent.working import Model, agent, messages, model_of, options, texts, use, world

pytestmark = pytest.mark.spec("S6.1", "S9.3")

DAY = 24 * 3_600
FREE = "claude-opus-4-6"
"""Takes no system messages."""
THINKS = [{"type": "thinking", "thinking": "Hm.", "signature": "s" * 40}, {"type": "text", "text": "Yes."}]


def changes(request: dict[str, Any]) -> list[str]:
    """What the model was told, in the conversation, about its prompt."""
    return [
        block["text"]
        for message in messages(request)
        for block in message["content"]
        if block["type"] == "text" and "<changed-section>" in block["text"]
    ]


def system(request: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in request["system"])


def append_only(made: sevenfold.Agent) -> bool:
    bodies = [call.body for call in model_of(made).asked]
    return all(extends(before, now) is None for before, now in pairwise(bodies))


def count() -> str:
    """Counts."""
    return "one more"


def test_a_new_day_is_told_once_and_nothing_else_changes(folder: Path) -> None:
    clock = ManualClock()
    with agent([THINKS] * 5, folder, system=None, clock=clock) as made:
        made.run("Hello.")
        for seconds, told in ((DAY, 1), (60, 1), (DAY, 2)):
            clock.advance(seconds)
            made.run("And now?")
            assert len(changes(model_of(made).requests[-1])) == told
        first, *_, last = model_of(made).requests
        assert first["system"][1]["text"] == last["system"][1]["text"]
        assert '"today"' in changes(last)[0]
        assert messages(last)[-2]["role"] == "system" or messages(last)[-1]["role"] == "system"
        assert append_only(made)


@pytest.mark.parametrize("model", [FREE, "claude-haiku-5-5", "local-8k"])
def test_models_that_take_no_system_messages_are_told_on_the_users_side(model: str, folder: Path) -> None:
    midnight = datetime(2026, 11, 16).timestamp()
    clock, heard = ManualClock(midnight - 60), list[Any]()
    client = Model(["One.", "Two."])
    given = options(folder, {"system": None, "clock": clock, "listen": [heard.append]})
    with sevenfold.Agent(model, client=client, **given) as made:
        made.run("Hello.")
        heard.clear()
        clock.advance(120)
        made.run("And now?")
        assert not [event for event in heard if isinstance(event, EpochOpened)]
        assert "Today is 2026-11-16." in changes(client.requests[-1])[0]
        assert {message["role"] for message in messages(client.requests[-1])} == {"user", "assistant"}
        assert extends(*(call.body for call in client.asked)) is None


def test_what_is_left_of_limits_is_told_in_steps(folder: Path) -> None:
    steps = [*[[use("count")] for _ in range(9)], "Done."]
    with agent(steps, folder, system=None, tools=[count], max_turns=20) as made:
        made.run("Count.")
        first, *_, last = model_of(made).requests
        assert "- Turns: 20" in system(first)
        assert changes(last) == []
    steps = [*[[use("count")] for _ in range(19)], "Done."]
    with agent(steps, folder, system=None, tools=[count], max_turns=20) as made:
        made.run("Count.")
        told = changes(model_of(made).requests[-1])
        assert [word.partition("- Turns: ")[2].split()[0] for word in told] == ["10", "5", "2"]
        assert append_only(made)


def test_without_limits_nothing_is_said_of_them(folder: Path) -> None:
    with agent(["Hm."], folder, system=None) as made:
        made.run("Hello.")
        assert "<budgets>" not in system(model_of(made).requests[0])


def test_a_session_that_goes_on_is_told_which_sections_changed_meanwhile(folder: Path) -> None:
    Trust(user_folder(os.environ)).add(folder)
    (folder / "AGENTS.md").write_text("Use tabs.")
    with agent([THINKS], folder, system=None, name="s") as made:
        made.run("Hello.")
        before = model_of(made).asked[-1].body
    (folder / "AGENTS.md").write_text("Use spaces.")
    for told in (1, 1):
        with agent([THINKS], folder, system=None, name="s") as made:
            made.run("And now?")
            assert extends(before, before := model_of(made).asked[-1].body) is None
            request = model_of(made).requests[-1]
            assert len(changes(request)) == told
            assert "Use spaces." in changes(request)[0]
            assert "Use tabs." in system(request)
            assert "# Tone" not in texts(request), "only what changed"
    (folder / "AGENTS.md").unlink()
    with agent([THINKS], folder, system=None, name="s") as made:
        made.run("And now?")
        assert "no longer applies" in changes(model_of(made).requests[-1])[-1]


def test_how_the_user_wants_it_is_in_the_prompt(folder: Path) -> None:
    styles = user_folder(os.environ) / "output-styles"
    styles.mkdir(parents=True)
    (styles / "terse.md").write_text("---\nname: Terse\n---\nAnswer in one line.\n")
    settings = {"language": "German", "output_style": "terse"}
    with agent(["Hm."], folder, system=None, settings=settings, guidance="The house is on fire.") as made:
        made.run("Hello.")
        told = system(model_of(made).requests[0])
        assert "Write to the user in German" in told
        assert '"terse"' in told
        assert "Answer in one line." in told
        assert "name: Terse" not in told
        assert "The house is on fire." in told


def test_a_style_of_a_project_counts_when_its_folder_is_trusted(folder: Path) -> None:
    place = folder / ".sevenfold" / "output-styles"
    place.mkdir(parents=True)
    (place / "loud.md").write_text("Shout.")
    with pytest.raises(SettingError, match=r"no style 'loud'; write how to answer into .*loud\.md"):
        agent(["Hm."], folder, system=None, settings={"output_style": "loud"})
    Trust(user_folder(os.environ)).add(folder)
    with agent(["Hm."], folder, system=None, settings={"output_style": "loud"}) as made:
        made.run("Hello.")
        assert "Shout." in system(model_of(made).requests[0])


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", FREE])
def test_the_provider_takes_a_change_of_day_on_every_kind_of_model(model: str, folder: Path) -> None:
    with world(lambda prompt: THINKS) as there:
        with there.agent(folder, model=model, system=None, thinking={"type": "adaptive"}) as made:
            for _ in range(3):
                made.run("Hello.")
                there.clock.advance(DAY)
            made.run("Hello.")
        assert {request.status for request in there.simulator.requests} == {200}
        first, last = there.bodies[0], there.bodies[-1]
        assert changes(last) or system(first) != system(last)
