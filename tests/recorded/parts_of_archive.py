"""What reports say of recorded sessions: figures, audits, facts that left the context. The same sessions each time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from sevenfold.archive import facts
from sevenfold.archive.fidelity import sample
from sevenfold.archive.fidelity.judge import judge
from sevenfold.archive.log_reader import LogReader
from sevenfold.archive.profile.advice import advice, dominating
from sevenfold.archive.profile.files import profile_file
from sevenfold.archive.summaries import SessionSummary
from sevenfold.archive.transcript import ArchivedSession
from tests.compaction.histories import picture
from tests.profile.making import Rollout, Tape, call, result, text, usage
from tests.recorded.cases import conversation, eventful, items, prose
from tests.recorded.parts import part, short

MODELS = ("claude-opus-4-6", "claude-sonnet-5-5", "claude-haiku-4-5", "gpt-5.6", "of-nobody")


def taped(seed: int) -> Tape:
    """A session of another tool with idle times, models in turn, sub-agents, compactions, clearings and odd lines."""
    chance = Random(seed)
    tape = Tape(cwd="/projects/harbour", version="2.1.0")
    calls: list[str] = []
    size = 900
    for number in range(chance.randrange(6, 16)):
        model = MODELS[number // 4 % len(MODELS)] if seed % 2 else MODELS[seed % 3]
        tape.wait(chance.choice((1.0, 20.0, 400.0, 4_000.0)))
        side = {"isSidechain": True} if chance.random() < 0.15 else {}
        tape.user(prose(chance, 40), **side)
        for step in range(chance.randrange(0, 4)):
            name = f"t{number}_{step}"
            path = f"/projects/harbour/f{chance.randrange(3)}.py"
            size += chance.randrange(100, 9_000)
            read = chance.choice((0, size // 2, size - 300, size - 300, size - 300))
            report = usage(
                chance.randrange(3, 40),
                read,
                *((size - read, 0) if chance.random() < 0.7 else (0, size - read)),
                output=chance.randrange(5, 900),
            )
            asked = chance.choice(
                (
                    call("Read", name, file_path=path),
                    call("Bash", name, command=f"pytest {path}"),
                    call("Edit", name, file_path=path, old_string="a", new_string=prose(chance, 9)),
                    call("Task", name, prompt=prose(chance, 20)),
                )
            )
            again = f"m{number}" if chance.random() < 0.1 else f"m{number}_{step}"
            tape.answer(again, report, text(prose(chance, 20)), asked, model=model, stop="tool_use", **side)
            calls.append(name)
            tape.user(result(name, prose(chance, 120), is_error=chance.random() < 0.2), **side)
        match chance.randrange(9):
            case 0:
                tape.compacted(prose(chance, 30), size)
                size = 2_000
            case 1 if calls:
                tape.cleared(*chance.sample(calls, min(2, len(calls))))
            case 2:
                tape.line('{"type":"user","uuid":"torn')
            case 3:
                tape.user(picture(), text("look"))
            case 4:
                tape.answer(
                    f"e{number}", None, text("API Error: 529"), model="<synthetic>", isApiErrorMessage=True
                )
            case _:
                tape.answer(
                    f"m{number}", usage(9, size, 200, output=30), text(prose(chance, 30)), model=model
                )
    return tape


def rolled(seed: int) -> Rollout:
    """A session of Codex, with calls, reports and compactions."""
    chance = Random(seed)
    rollout = Rollout()
    rollout.record("session_meta", id=f"r{seed}", cwd="/projects/harbour", originator="codex_cli_rs")
    rollout.record("turn_context", model=chance.choice(("gpt-5.6", "gpt-5.5")), cwd="/projects/harbour")
    prompt = 3_000
    for number in range(chance.randrange(4, 10)):
        message = {"type": "input_text", "text": prose(chance, 30)}
        rollout.item("message", role="user", content=[message])
        rollout.record("event_msg", type="user_message", message=message["text"])
        for step in range(chance.randrange(0, 3)):
            name = f"c{number}_{step}"
            arguments = msgspec.json.encode({"command": ["bash", "-lc", f"pytest {step}"]}).decode()
            rollout.item(
                "reasoning", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="c2ln"
            )
            rollout.item("function_call", name="shell", call_id=name, arguments=arguments)
            output = {"output": prose(chance, 90), "metadata": {"exit_code": chance.choice((0, 1))}}
            rollout.item("function_call_output", call_id=name, output=msgspec.json.encode(output).decode())
            prompt += 900
            rollout.count(grew=chance.random() < 0.9, read=prompt - 900, prompt=prompt, output=40)
        said = {"type": "output_text", "text": prose(chance, 30)}
        rollout.item("message", role="assistant", content=[said])
        rollout.count(read=chance.choice((0, prompt)), prompt=prompt + 50, output=90)
        if chance.random() < 0.2:
            rollout.record("compacted", message=prose(chance, 20))
            prompt = 2_000
    return rollout


def saved(folder: Path) -> Iterator[Path]:
    """Files with sessions of every kind."""
    for seed in range(10):
        yield taped(seed).save(folder / f"tape{seed}.jsonl")
    for seed in range(4):
        yield rolled(seed).save(folder / f"rollout{seed}.jsonl")
    for seed in range(6):
        story = eventful(Random(seed)) if seed % 2 else conversation(seed, 8, MODELS[:2])
        path = folder / f"made{seed}.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in story.lines))
        yield path


def told(value: Any, folder: Path) -> str:
    """Any value as JSON without the name of the folder, its figures rounded so that every machine shows the same."""
    return msgspec.json.encode(_rounded(msgspec.to_builtins(value))).decode().replace(str(folder), "")


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, 6)
        case dict():
            return {name: _rounded(field) for name, field in sorted(value.items())}
        case list() | tuple():
            return [_rounded(element) for element in value]
        case _:
            return value


@part
def profiles_of_sessions() -> Iterator[str]:
    """Where context and money of sessions went, and what is advised."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for path in saved(folder):
            profile, _ = profile_file(path)
            yield f"--- {path.stem}"
            for field, value in msgspec.structs.asdict(profile).items():
                yield f"{field}: {told(value, folder)}"
            yield from advice(profile, lambda usd: f"${usd or 0:.4f}")
            yield from dominating(profile)
            yield told(SessionSummary.of(profile), folder)


@part
def histories_of_sessions() -> Iterator[str]:
    """What every request of a session consisted of, how long each piece stayed, and what was decided when."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for path in saved(folder):
            reader = LogReader(path)
            reader.catch_up()
            history = reader.history
            yield f"--- {path.stem}: {history.records} records, own {history.own}, {told(history.agents, folder)}"
            yield f"ledger {told(history.ledger, folder)} recalled {history.recalled}"
            for number, lane in sorted(history.lanes.items()):
                yield f"lane {number}: {lane.categories} {short(lane.sums) if hasattr(lane, 'sums') else ''}"
                for index, sent in enumerate(lane.requests):
                    sizes = [round(size, 2) for size in sent.sizes]
                    usd = None if sent.usd is None else round(sent.usd, 6)
                    yield f"  {sent.request} {sizes} {usd} {sent.record} {sent.answer} {sent.decision}"
                    if index % 4 == 0:
                        composed = [
                            (stay.record, round(tokens, 2)) for stay, tokens in lane.composition(index)
                        ]
                        yield f"    {composed[:12]} of {len(composed)}"
                stays = [(stay.record, stay.entered, stay.left, stay.counted) for stay in lane.lifetimes]
                yield f"  stays {stays[:40]}"


@part
def contexts_of_sessions() -> Iterator[str]:
    """The records of sessions, what of them is in the context, and what an audit of their compactions says."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for path in saved(folder):
            with ArchivedSession(path) as session:
                yield f"--- {path.stem}"
                for record in session.records():
                    yield f"{told(record, folder)[:300]}"
                yield f"context {[record.id for record in session.context()]}"
                yield told(session.audit(), folder)
                for characters in (300, 1_500, 9_500):
                    yield f"{characters}: {session.facts(characters)}"
                yield f"hits {[hit.uuid for hit in session.recall('parser tests fail', k=5)]}"


@part
def facts_brought_back() -> Iterator[str]:
    """What is brought back of a conversation that left the context, in rooms of every size."""
    for seed in range(5):
        held = items(seed, 10)
        seen = facts.StillSeen(
            tuple(block.raw.decode() for item in held[-6:] for block in item.shown),
            frozenset(item.record.uuid for item in held[-6:]),
        )
        for context, size in product((facts.StillSeen(), seen), (90, 400, 1_200, 3_000, 20_000)):
            for which, content in facts.parts(
                held, context, facts.rooms(size, split=size != 1_200)
            ).items():
                yield f"--- {seed} {which} {size} {bool(context.records)} {len(content)}"
                yield content


@part
def facts_looked_for() -> Iterator[str]:
    """Which facts of a conversation an audit looks for, and which of them a context holds."""
    for seed, visible in product(range(6), (False, True)):
        held = items(seed, 9)
        chosen = sample(held, later_rounds_visible=visible)
        yield f"--- {seed} {visible}: left out {chosen.left_out}"
        context = [
            prose(Random(seed), 200),
            *(block.raw.decode() for item in held[::3] for block in item.shown),
        ]
        score = judge(chosen.probes, context, lambda probe: len(probe.text) % 2 == 0)
        for probe, state in score.states:
            yield f"{probe.kind} {state}: {short(probe)[:300]}"
        yield f"{short(score.total)} {short(dict(score.by_kind))}"
