"""Agents in small windows: what they are told and given fits, and the usual work can be done."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sevenfold
from sevenfold.agent.standard_tools import SMALL, TINY, Fit
from sevenfold.cli import main as cli
from sevenfold.errors import ContextFull
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.server import serve
from sevenfold.profiles import find
from sevenfold.record.window import Window
from sevenfold.stores.trust import Trust, user_folder
from tests.agent.working import QUIET, agent, model_of, results, use

pytestmark = pytest.mark.spec("S0.5", "S9.7")

LOCAL = "qwen3:8b"
CHAT = "/v1/chat/completions"
SUMMARY = "<analysis>Files.</analysis><summary>Files are read, one after another.</summary>"
CODE = '''"""Prices."""


def total(prices, rate):
    return sum(prices) * (1 + rate)


def discount(price, share):
    return price * share
'''
TESTS = """from prices import discount

assert discount(100, 0.1) == 90, discount(100, 0.1)
print("all tests passed")
"""


@contextmanager
def local(steps: Any, folder: Path, **more: Any) -> Iterator[tuple[sevenfold.Agent, Simulator]]:
    """An agent on a model of 8K behind the simulator, over HTTP and the official SDK."""
    simulator = Simulator(ScriptedBrain(steps), Setup(models={LOCAL: find(LOCAL)}))
    with (
        serve(simulator) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="simulated-key") as client,
        sevenfold.Agent(LOCAL, client=client, folder=folder, mode="autonomous", **more) as made,
    ):
        yield made, simulator


def bodies(simulator: Simulator) -> list[dict[str, Any]]:
    return [json.loads(request.raw) for request in simulator.requests.answered(CHAT)]


def project(folder: Path) -> None:
    (folder / "prices.py").write_text(CODE)
    (folder / "test_prices.py").write_text(TESTS)


FIX = {"path": "prices.py", "old": "return price * share", "new": "return price * (1 - share)"}


def test_at_8k_a_file_is_read_and_edited_and_the_tests_are_run(folder: Path) -> None:
    project(folder)
    steps = [
        [use("Read", "c1", path="prices.py")],
        [use("Edit", "c2", **FIX)],
        [use("Shell", "c3", command="python3 test_prices.py")],
        "The discount is right now, and the tests pass.",
    ]
    with local(steps, folder, settings=QUIET) as (made, simulator):
        assert made.assembly.conversation.window.context == 8_192
        done = made.run("The discount is wrong: mend it, and run the tests.")
        assert (done.end, done.turns) == ("done", 4)
        assert "(1 - share)" in (folder / "prices.py").read_text()
        last = bodies(simulator)[-1]
        assert "all tests passed" in json.dumps(last["messages"])
        assert made.session.gauge.percent_left > 40


def test_at_8k_work_goes_on_for_a_hundred_turns(folder: Path) -> None:
    """Many times what the window holds is read; it is compacted on the way, and no request is too large."""
    for number in range(8):
        lines = [f"value_{number}_{line} = {line * number}" for line in range(150)]
        (folder / f"f{number}.py").write_text("\n".join(lines) + "\n")
    steps = iter([*([use("Read", path=f"f{number % 8}.py")] for number in range(100)), "Read."])

    def said(prompt: ModelPrompt) -> Any:
        return SUMMARY if "<analysis>" in prompt.last_text else next(steps)

    with local(said, folder, settings=QUIET) as (made, simulator):
        done = made.run("Read all files, again and again.")
        made.session.settle()
        assert (done.end, done.turns) == ("done", 101)
        assert made.session.health.compactions >= 2
        assert {one.status for one in simulator.requests if one.path == CHAT} == {200}
        assert "Read all files, again and again." in json.dumps(bodies(simulator)[-1]["messages"])


def test_one_large_file_is_read_in_pieces_that_fit(folder: Path) -> None:
    (folder / "big.py").write_text("".join(f"line_{n} = {n}\n" for n in range(5_000)))
    steps = [[use("Read", "c1", path="big.py")], [use("Read", "c2", path="big.py", offset=200)], "Read."]
    with local(steps, folder, settings=QUIET) as (made, simulator):
        made.run("Read it.")
        found = [one["content"] for one in bodies(simulator)[-1]["messages"] if one["role"] == "tool"]
        assert all(len(one) <= made.assembly.fit.room + 300 for one in found)
        assert "offset" in found[0]


def test_every_result_at_8k_stays_within_its_room(folder: Path) -> None:
    (folder / "wide.txt").write_text("needle " * 3_000 + "\n")
    (folder / "many.txt").write_text("needle\n" * 5_000)
    steps = [
        [use("Read", path="wide.txt")],
        [use("Grep", pattern="needle", show="lines")],
        [use("Shell", command="yes | head -c 100000")],
        "Done.",
    ]
    with local(steps, folder, settings=QUIET) as (made, simulator):
        assert made.run("Look.").end == "done"
        for body in bodies(simulator):
            for one in body["messages"]:
                if one["role"] == "tool":
                    assert len(one["content"]) <= 4_500


@pytest.mark.parametrize(
    ("window", "size", "tools"),
    [(8_192, "tiny", 6), (16_384, "small", 14), (32_768, "small", 14), (40_960, "full", 14)],
)
def test_what_is_told_follows_from_the_window_alone(
    window: int, size: str, tools: int, folder: Path
) -> None:
    frames = []
    for _ in range(2):
        with sevenfold.Agent(LOCAL, folder=folder, settings={**QUIET, "context_window": window}) as made:
            assert made.assembly.fit.size == size
            frames.append(made.assembly.conversation.epoch.frame)
            assert len(frames[-1].tools) == tools
            made.session.user("Hello.")
            assert made.session.gauge.high < made.assembly.conversation.window.threshold
    assert frames[0].tools == frames[1].tools


@given(st.integers(8_192, 1_000_000))
def test_prompt_answer_and_a_result_fit_every_window_from_8k_on(window: int) -> None:
    made = Window.of(find(LOCAL), override=window)
    fit = Fit.of(made)
    assert fit.size == ("tiny" if window < TINY else "small" if window < SMALL else "full")
    assert fit.room / 3 < made.threshold / 2
    if fit.answer is not None:
        assert made.effective + fit.answer <= made.context


def test_instruction_files_are_cut_to_what_fits_and_it_is_said_where_the_rest_is(folder: Path) -> None:
    Trust(user_folder(os.environ)).add(folder)
    (folder / "AGENTS.md").write_text("Use tabs.\n" + "Be careful with the billing code.\n" * 500)
    with local(["Hm."], folder, settings=QUIET) as (made, simulator):
        made.run("Hello.")
        (first,) = (one for one in bodies(simulator)[0]["messages"] if one["role"] == "system")
        words = json.dumps(first["content"])
        assert "Use tabs." in words
        assert "[Cut here; the full text is in" in words
        assert str(folder / "AGENTS.md") in words
        assert len(words) < 4_000


def test_the_same_prompt_is_sent_through_a_whole_session(folder: Path) -> None:
    project(folder)
    steps = [[use("Read", path="prices.py")], "Read.", "And on."]
    with local(steps, folder, settings=QUIET) as (made, simulator):
        made.run("Read it.")
        made.run("Go on.")
        sent = bodies(simulator)
        assert all(body["tools"] == sent[0]["tools"] for body in sent)
        assert all(body["messages"][0] == sent[0]["messages"][0] for body in sent)


def test_a_tool_in_few_words_takes_what_the_whole_one_takes(folder: Path) -> None:
    """A model that knows more than it was told is understood; what is wrong is refused all the same."""
    (folder / "a.py").write_text("x = 1\nx = 1\n")
    calls = [
        use("Read", "c1", path="a.py"),
        use("Edit", "c2", path="a.py", old="x = 1", new="x = 2", replace_all=True),
        use("Shell", "c3", command=""),
        use("Shell", "c4"),
    ]
    with agent([calls, "Done."], folder, mode="autonomous", settings={"context_window": 8_192}) as made:
        made.run("Change it.")
        answers = results(model_of(made).requests[-1])
        assert (folder / "a.py").read_text() == "x = 2\nx = 2\n"
        assert "Invalid input for Shell" in answers["c3"]
        assert "Invalid input for Shell" in answers["c4"]


def test_a_window_too_small_for_anything_says_so(folder: Path) -> None:
    settings = {**QUIET, "context_window": 2_000}
    with (
        sevenfold.Agent(LOCAL, folder=folder, settings=settings) as made,
        pytest.raises(ContextFull, match="larger window"),
    ):
        made.run("Hello.")


def test_chat_at_8k_does_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project(folder)
    steps: list[Any] = [
        [use("Read", path="prices.py")],
        [use("Edit", **FIX)],
        [use("Shell", command="python3 test_prices.py")],
        "Mended, and the tests pass.",
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SEVENFOLD_NOTES", "off")
    monkeypatch.setenv("OPENAI_API_KEY", "simulated-key")
    with serve(Simulator(ScriptedBrain(steps), Setup(models={LOCAL: find(LOCAL)}))) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        asked = [
            "chat",
            "--model",
            LOCAL,
            "--mode",
            "autonomous",
            "-p",
            "Mend the discount, run the tests.",
        ]
        assert cli.main(asked) == 0
    assert "Mended, and the tests pass." in capsys.readouterr().out
    assert "(1 - share)" in (folder / "prices.py").read_text()
