"""The parts of the demonstration: the scratch project, the scripted assistant, the books, what is shown."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from sevenfold.cli import demo
from sevenfold.events import Acted, Answered
from sevenfold.lab.demo.figures import (
    MODEL,
    AgentStarted,
    DemoOutcome,
    Figures,
    Report,
    TaskEnded,
    ToolUsed,
    UserSpoke,
    bars,
    costs,
    naive,
)
from sevenfold.lab.demo.harbour import INCIDENT, TEXTS, check, files, harbour, write
from sevenfold.lab.demo.run import NAME, scratch_folder
from sevenfold.lab.demo.script import TASKS, Assistant, Move, Plan, plan, play
from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply
from sevenfold.profiles import find
from sevenfold.record.usage import Usage

PROFILE = find(MODEL)
FAULTS = len(TEXTS["faults"])

# The scratch project


def test_every_fault_is_found_by_a_test_and_mended_by_its_change(tmp_path: Path) -> None:
    parts = harbour(FAULTS, FAULTS)
    write(parts, tmp_path)
    assert f"{FAULTS} failed" in check(tmp_path)
    for part in parts:
        path = tmp_path / part["module"]
        text = path.read_text()
        assert text.count(part["wrong"]) == 1
        path.write_text(text.replace(part["wrong"], part["right"]))
    assert " 0 failed" in check(tmp_path)


def test_the_project_is_the_same_every_time() -> None:
    assert files(harbour(6, 3)) == files(harbour(6, 3))
    assert sum(INCIDENT in text for text in files(harbour(2, 1)).values()) == 1


def test_every_fact_is_in_what_the_agent_reads_and_no_bracket_is() -> None:
    assert all(fact in task.text for task in TASKS for fact in task.facts)
    assert not any("[[" in task.text for task in TASKS)
    assert sum(len(task.facts) for task in TASKS) == 9


def test_only_parts_that_fail_are_mended_in_the_order_they_are_reported() -> None:
    parts = harbour(4, 2)
    failing = [part["plural"] for part in reversed(parts) if "wrong" in part]
    work = plan(TASKS[0], parts)
    moves = [next(work)]
    report = (
        "\n".join(f"FAIL {name}: 1 failed" for name in failing) + "\n30 tests passed, 2 failed, in 4 parts"
    )
    words = ""
    while not words:
        try:
            moves.append(work.send([report, ""][: len(moves[-1].calls)]))
        except StopIteration as end:
            words = end.value
    edited = [call[1]["path"] for move in moves for call in move.calls if call[0] == "Edit"]
    assert edited == [f"tidewater/{name}.py" for name in failing]
    lists = [call[1]["todos"] for move in moves for call in move.calls if call[0] == "Todo"]
    assert [[entry["status"] for entry in entries].count("completed") for entries in lists] == [0, 1, 2]
    assert words.startswith("All tests pass again: 30 tests passed, 2 failed, in 4 parts.")


def test_the_scratch_folder_goes_whatever_happens_unless_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with suppress(RuntimeError), scratch_folder(keep=False) as folder:
        assert folder == (tmp_path / NAME).resolve()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with scratch_folder(keep=True) as kept, scratch_folder(keep=True) as other:
        assert other != kept
    assert {path.resolve() for path in tmp_path.iterdir()} == {kept, other}
    assert NAME not in {kept.name, other.name}


# The scripted assistant


def asked(*messages: Mapping[str, Any]) -> ModelPrompt:
    return ModelPrompt("m", "", (), messages, 100, {})


def said(role: str, *blocks: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def results(reply: ModelReply, text: str) -> dict[str, Any]:
    names = [block["id"] for block in reply.blocks if block["type"] == "tool_use"]
    return said("user", *({"type": "tool_result", "tool_use_id": name, "content": text} for name in names))


def two_steps() -> Plan:
    first = yield from play(Move("first", (("Shell", {"command": "one"}),), "hm"))
    second = yield from play(Move(f"heard {first}", (("Shell", {"command": "two"}),)))
    return f"then {second}"


def spoken(reply: ModelReply) -> str:
    return next(str(block["text"]) for block in reply.blocks if block["type"] == "text")


def test_a_plan_goes_on_with_what_the_tools_said() -> None:
    assistant = Assistant(iter([two_steps()]))
    begin = said("user", words("go"))
    first = assistant.reply(asked(begin))
    assert [block["type"] for block in first.blocks] == ["thinking", "text", "tool_use"]
    second = assistant.reply(asked(begin, said("assistant", *first.blocks), results(first, "42")))
    assert spoken(second) == "heard 42"
    assert spoken(assistant.reply(asked(begin, results(second, "43")))) == "then 43"
    assert (
        spoken(assistant.reply(asked(begin, said("user", words("more"))))) == "There is nothing left to do."
    )


def test_a_request_that_comes_again_gets_the_same_answer_wherever_its_markers_are() -> None:
    assistant = Assistant(iter([two_steps()]))
    marked = {**words("go"), "cache_control": {"type": "ephemeral"}}
    assert assistant.reply(asked(said("user", marked))) == assistant.reply(asked(said("user", words("go"))))
    assert assistant.moves == 1


def test_what_left_the_context_is_gone_for_the_assistant_too() -> None:
    assistant = Assistant(iter([two_steps()]))
    assistant.reply(asked(said("user", words("go"))))
    assert spoken(assistant.reply(asked(said("user", words("a summary"))))) == "heard "


def test_a_file_that_counts_as_unread_is_read_before_it_is_changed() -> None:
    change = play(Move("now", (("Edit", {"path": "a.py", "old": "x", "new": "y"}),)))
    assert next(change).calls[0][0] == "Edit"
    assert change.send(["a.py has not been read yet. Read it first."]).calls[0][0] == "Read"
    assert change.send(["1 x"]).calls[0][0] == "Edit"
    with pytest.raises(StopIteration) as end:
        change.send(["a.py was changed"])
    assert end.value.value == "a.py was changed"


# The books


def body(*texts: str, marked: bool = False) -> dict[str, Any]:
    blocks: Sequence[dict[str, Any]] = [words(text) for text in texts]
    if marked:
        blocks[-1]["cache_control"] = {"type": "ephemeral", "ttl": "5m"}
    messages = [{"role": "user", "content": [block]} for block in blocks]
    return {"model": "m", "messages": messages}


def used(prompt: int, output: int = 0, read: int = 0) -> Usage:
    return Usage.of(
        {"input_tokens": prompt - read, "cache_read_input_tokens": read, "output_tokens": output}
    )


def answered(prompt: int, output: int) -> Answered:
    return Answered(
        request="r", model=MODEL, provider="p", response="m", input_tokens=prompt, output_tokens=output
    )


def test_at_best_everything_is_written_once_and_read_ever_after() -> None:
    price = PROFILE.price(100)
    assert price is not None
    size = 4 + 28  # a message, and twenty words at 1.4 tokens each
    sentence = " ".join(["word"] * 20)
    first, second = (body(sentence), used(size)), (body(sentence, sentence, marked=True), used(2 * size))
    assert costs([first])[1] == pytest.approx(size * price.write_5m / 1e6)
    again = size * price.read + size * price.write_5m
    paid, ideal, _ = costs([first, second])
    assert ideal == pytest.approx((size * price.write_5m + again) / 1e6)
    assert paid == pytest.approx(3 * size * price.input / 1e6)


def test_tokens_behind_a_change_are_written_again() -> None:
    price = PROFILE.price(100)
    assert price is not None
    first, second = (body("a", "b", "c"), used(18)), (body("a", "x", "c"), used(18))
    added = costs([first, second])[1] - costs([first])[1]
    assert added == pytest.approx((6 * price.read + 12 * price.write_5m) / 1e6)


def test_the_naive_way_sends_everything_and_cuts_off_the_oldest() -> None:
    price = PROFILE.price(100)
    assert price is not None
    asked = UserSpoke(
        " ".join(["a1"] * 34), 0.0
    )  # 34 times two pieces at 1.4 tokens, and 4 for the message: 100
    told: list[Report] = [asked, answered(300, 50)]
    before, _ = naive(told, room=1_000)
    assert before == pytest.approx((300 * price.input + 50 * price.output) / 1e6)
    told += [ToolUsed("Read", "", 400), ToolUsed("Read", "", 300), answered(1_000, 10)]
    # 200 fixed, 100 asked, 50 answered, 700 of results: the oldest message goes, and then it fits.
    after, needed = naive(told, room=1_000)
    assert after - before == pytest.approx((950 * price.input + 10 * price.output) / 1e6)
    assert needed == 200 + 100 + 50 + 700 + 10


# What is shown

OUTCOME = DemoOutcome(
    Figures(
        turns=80,
        peak_context_tokens=20_000,
        threshold_tokens=21_000,
        cost_usd=2.0,
        naive_cost_usd=9.0,
        ideal_cost_usd=1.9,
        cache_read_share=0.91,
        layers={"offload": 3, "clear": 2, "notes": 9, "compact": 1},
        facts={"in_context": 40, "reachable": 3, "lost": 0},
    ),
    sizes=[10_000 + 100 * number for number in range(80)],
    acted=[(10, "offload"), (30, "clear"), (60, "compact"), (5, "notes")],
    needed_tokens=170_000,
    side_requests=9,
    killed=40,
    same_request=True,
    answer="HV-4417 and GT-20931",
    tests="32 tests passed, 0 failed",
    next_day="It is the harbour master's.",
)


@pytest.mark.parametrize("width", [60, 108])
def test_the_report_fits_and_says_that_the_model_is_simulated(width: int) -> None:
    page = io.StringIO()
    Console(file=page, width=width, highlight=False).print(demo.report(OUTCOME, width))
    lines = page.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "Simulated" in page.getvalue()
    signs = next(line for line in lines if "†" in line and "C" in line)
    assert [sign for sign in signs if not sign.isspace()] == ["o", "c", "†", "C"]


def test_a_bar_that_is_missed_is_shown_as_missed() -> None:
    bad = replace(
        OUTCOME,
        figures=replace(OUTCOME.figures, cost_usd=4.0, facts={"in_context": 1, "reachable": 1, "lost": 1}),
        lost=("a key",),
    )
    assert list(bars(bad).values()) == [False, True, False, False, True, True, True, True]
    page = io.StringIO()
    Console(file=page, width=80).print(demo.report(bad, 80))
    assert "lost: a key" in page.getvalue()
    assert page.getvalue().count("✗") == 3


COMPACTED = Acted(
    layer="compact",
    mechanism="",
    what="summarised 9 records",
    why="auto",
    tokens_before=20_000,
    tokens_after=9_000,
)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_what_layers_do_and_where_the_turns_are(terminal: bool) -> None:
    page = io.StringIO()
    console = Console(file=page, width=70, force_terminal=terminal, highlight=False, color_system=None)
    with demo.DemoProgress(console) as progress:
        progress.show(AgentStarted(20_000, resumed=False))
        for number in range(demo.EVERY):
            progress.show(ToolUsed("Read", f"file{number}.py", 100))
            progress.show(answered(10_000, 20))
        progress.show(COMPACTED)
        progress.show(AgentStarted(20_000, resumed=True))
        progress.show(TaskEnded("done", "All is well."))
    shown = page.getvalue()
    assert "The model is simulated" in shown
    assert "summarised 9 records, 20,000 → 9,000 tokens" in shown
    assert "killed" in shown
    assert "All is well." in shown
    assert "turn 25" in shown


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_said_is_never_cut_off(terminal: bool) -> None:
    page = io.StringIO()
    console = Console(file=page, width=60, force_terminal=terminal, highlight=False, color_system=None)
    with demo.DemoProgress(console, live=False) as progress:
        progress.show(TaskEnded("done", "The buoy is painted " + "very " * 30 + "red."))
    shown = page.getvalue()
    assert "red." in shown
    assert "…" not in shown
    assert terminal or "The buoy is painted " + "very " * 30 + "red.\n" in shown


def test_without_what_it_needs_the_command_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from sevenfold.cli.main import main; raise SystemExit(main(['demo', '--fast']))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "pip install 'sevenfold[anthropic,simulator]'" in ran.stderr
