"""Agents that are made or closed the wrong way: nothing is ignored, above all no limit and no rule."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.agent.hooks.registry import run_command
from sevenfold.errors import ContextFull, InputError
from tests.agent.working import MODEL, AsyncModel, Model, agent, options

UNPRICED = "qwen3:8b"
HOOKS: dict[str, Any] = {"run": run_command, "environ": {}, "project_dir": "."}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rule": {"deny": ["Shell"]}}, "there is no option 'rule'; did you mean 'rules'"),
        ({"permission_mode": "plan"}, "there is no option 'permission_mode'"),
        ({"mode": "yolo"}, "mode is 'yolo'; it must be one of ask, accept_edits, plan, autonomous"),
        (
            {"rules": {"denied": ["Shell"]}},
            "there is no list of rules 'denied'; there are allow, ask and deny",
        ),
        ({"rules": {"deny": "Shell"}}, "it must be a mapping from allow, ask and deny to lists of rules"),
        ({"rules": ["Shell"]}, "it must be a mapping from allow, ask and deny to lists of rules"),
        ({"hooks": 3}, "hooks is 3; it must be a sevenfold.Hooks"),
        ({"hooks": sevenfold.AsyncHooks(**HOOKS)}, "it must be a sevenfold.Hooks"),
        ({"listen": [3]}, "it must be a list of functions"),
        ({"tools": [3]}, "tools must be functions or tools, got 3"),
        ({"consent": "yes"}, "consent is 'yes'; it must be a function"),
        ({"max_usd": -1}, "it must be an amount of dollars, 0 or more"),
        ({"max_usd": float("nan")}, "it must be an amount of dollars, 0 or more"),
        ({"max_turns": 0}, "it must be a whole number above 0"),
        ({"name": ""}, "it must be a name"),
    ],
)
def test_an_option_that_is_none_or_has_no_fitting_value_is_named(
    folder: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        agent([], folder, **({"name": "s"} | given))
    with agent([], folder, name="s"):
        pass


def test_the_mode_cannot_become_one_there_is_not(folder: Path) -> None:
    with agent([], folder) as made:
        with pytest.raises(InputError, match="there is no mode 'yolo'; there are ask, accept_edits, plan"):
            made.grants.mode = "yolo"  # type: ignore[assignment]
        assert made.grants.mode == "ask"


def test_an_awaited_agent_wants_hooks_it_can_await(folder: Path) -> None:
    with pytest.raises(InputError, match=r"it must be a sevenfold\.AsyncHooks"):
        sevenfold.AsyncAgent(MODEL, client=AsyncModel([]), hooks=sevenfold.Hooks(**HOOKS), folder=folder)


def test_an_agent_whose_closing_fails_half_way_can_be_opened_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> None:
        raise OSError("cannot be ended")

    made = agent([], folder, name="s")
    monkeypatch.setattr(made.assembly.state, "close", failing)
    with pytest.raises(OSError, match="cannot be ended"):
        made.close()
    with agent([], folder, name="s"):
        pass

    async def closing() -> None:
        awaited = sevenfold.AsyncAgent(MODEL, client=AsyncModel([]), **options(folder, {"name": "s"}))
        monkeypatch.setattr(awaited.assembly.state, "close", failing)
        with pytest.raises(OSError, match="cannot be ended"):
            await awaited.close()

    asyncio.run(closing())
    with agent([], folder, name="s"):
        pass


@pytest.mark.spec("S9.6")
def test_a_limit_in_dollars_that_cannot_be_kept_is_refused(folder: Path) -> None:
    made = options(folder, {"name": "s"})
    with pytest.raises(
        InputError, match=r"max_usd=1.0 cannot be enforced: the price of qwen3:8b is unknown.*max_turns"
    ):
        sevenfold.Agent(UNPRICED, client=Model([]), max_usd=1.0, **made)
    with pytest.raises(InputError, match="the price of qwen3:8b is unknown"):
        agent([], folder, max_usd=1.0, settings={"summary_model": UNPRICED})
    with agent([], folder, max_usd=1.0):
        pass


@pytest.mark.spec("S0.1", "S0.5")
def test_whoever_does_not_fit_a_window_that_was_only_assumed_is_told_how_to_say_it(folder: Path) -> None:
    given: dict[str, Any] = {"client": Model(["Hi."]), "folder": folder, "system": "word " * 30_000}
    words = r"assuming 8,192: if it is larger, set context_window \(SEVENFOLD_CONTEXT_WINDOW"
    with sevenfold.Agent(UNPRICED, **given) as made, pytest.raises(ContextFull, match=words):
        made.run("hello")
    given["settings"] = {"context_window": 9_000}
    with sevenfold.Agent(UNPRICED, **given) as made, pytest.raises(ContextFull) as caught:
        made.run("hello")
    assert "context_window" not in str(caught.value)


@pytest.mark.spec("S0.4", "S0.8")
def test_a_first_request_that_may_well_fit_is_not_held_back_by_how_little_is_known() -> None:
    system = "A careful assistant works here, step by step, and says what it does. " * 100
    with sevenfold.Session.in_memory(model=UNPRICED, system=system, client=Model(["Hi."])) as session:
        session.user("hello")
        size, blocking = session.conversation.size(), session.conversation.window.blocking
        assert size.tokens < blocking < size.high
        assert session.complete().text == "Hi."
