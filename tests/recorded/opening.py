"""Going on: with another model or prompt, after a crash, from another tool's transcript, from somebody else's list."""

from __future__ import annotations

import json
import shutil
from typing import Any

import sevenfold
from tests.recorded.history import THINKS, prepared
from tests.recorded.playing import (
    ASKED,
    BOUND,
    FREE,
    SYSTEM,
    TOOLS,
    options,
    output,
    refused,
    scenario,
    summary,
    tool,
    work,
)
from tests.recorded.rig import Fault, Mind, Rig


@scenario
async def resumed_in_the_middle_of_a_turn(rig: Rig) -> None:
    rig.provider(Mind(thinks=True))
    given = options(rig, **THINKS)
    for number in range(3):
        async with rig.open(**given) as session:
            if not number:
                await session.user(ASKED)
            await prepared(rig, session)
        async with rig.open(**given) as session:
            await prepared(rig, session)
            await work(rig, session, 1)


@scenario
async def another_model(rig: Rig) -> None:
    rig.provider(Mind(thinks=True))
    client = rig.client()
    for model in (BOUND, FREE, BOUND):
        async with rig.open(**options(rig, model=model, client=client, **THINKS)) as session:
            if not rig.asked:
                await session.user(ASKED)
            await work(rig, session, 2)
            rig.note("gauge", session.gauge)


@scenario
async def another_system_prompt_and_other_tools(rig: Rig) -> None:
    rig.provider(Mind(thinks=True))
    client = rig.client()
    changes: list[dict[str, Any]] = [
        {},
        {"system": [SYSTEM, "Speak French."]},
        {"tools": [*TOOLS, tool("Grep", "search")]},
        {"tools": TOOLS[1:]},
        {},
    ]
    for number, change in enumerate(changes):
        async with rig.open(**options(rig, client=client, **THINKS, **change)) as session:
            if not number:
                await session.user(ASKED)
            await work(rig, session, 1)


@scenario
async def another_system_prompt_where_nothing_can_be_added(rig: Rig) -> None:
    client = rig.client()
    for system in (SYSTEM, f"{SYSTEM}Speak French."):
        async with rig.open(**options(rig, client=client, model=FREE, system=system)) as session:
            if not rig.asked:
                await session.user(ASKED)
            await work(rig, session, 2)


@scenario
async def another_lifetime(rig: Rig) -> None:
    client = rig.client()
    for lifetime in ("5m", "1h"):
        given = options(rig, client=client, lifetime=lifetime, betas=["some-beta-2026-01-01"])
        async with rig.open(**given) as session:
            if lifetime == "5m":
                await session.user(ASKED)
            await work(rig, session, 2)


@scenario
async def a_torn_line(rig: Rig) -> None:
    given = options(rig)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 2)
    with rig.log.open("ab") as log:
        log.write(b'{"type":"user","uuid":"torn","mess')
    async with rig.open(**given) as session:
        await prepared(rig, session)
        await work(rig, session, 1)


@scenario
async def a_tail_cut_off(rig: Rig) -> None:
    given = options(rig)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 3)
        await summary(rig, await session.compact(engine="extractive"))
    whole = rig.log.read_bytes()
    # The compaction is one write of several lines: without its last one it has not happened.
    boundary = whole.rindex(b'"compact_boundary"')
    for cut in (whole.index(b"\n", boundary) + 1, boundary, len(whole) - 40):
        rig.log.write_bytes(whole[:cut])
        async with rig.open(**given) as session:
            await prepared(rig, session)
    rig.log.write_bytes(whole)
    async with rig.open(**given) as session:
        await work(rig, session, 1)


@scenario
async def killed_while_it_waits(rig: Rig) -> None:
    given = options(rig)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 1)
        await prepared(rig, session)
        # What a process that is killed here leaves: no closing, and a lock nobody holds.
        left = rig.log.read_bytes()
    rig.log.write_bytes(left)
    async with rig.open(**given) as session:
        await prepared(rig, session)
        await work(rig, session, 1)


@scenario
async def killed_with_calls_under_way(rig: Rig) -> None:
    rig.provider(Mind(calls=2))
    given = options(rig)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await session.complete()
    async with rig.open(**given) as session:
        await session.user("Where were we?")
        await work(rig, session, 1)
        await refused(rig, session.tool_results({"toolu_1_0": "too late"}))


@scenario
async def a_transcript_of_another_tool(rig: Rig) -> None:
    file = rig.project / "foreign.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in _foreign(str(rig.project))))
    for number in (1, 2):
        async with rig.open(**options(rig, file=file, **THINKS)) as session:
            rig.note("title", session.title)
            await session.user("Go on with it.")
            await session.complete()
            await session.tool_results({f"toolu_{number}_0": "x = 1"})
    async with rig.open(**options(rig, file=file, **THINKS)) as session:
        await summary(rig, await session.compact(engine="extractive"))
        await work(rig, session, 1)


def _foreign(cwd: str) -> list[dict[str, Any]]:
    """A transcript as Claude Code writes them, with what a reader has to pass over."""
    usual = {
        "isSidechain": False,
        "userType": "external",
        "cwd": cwd,
        "sessionId": "f-1",
        "version": "2.0.1",
    }
    usage = {"input_tokens": 12, "cache_read_input_tokens": 9_000, "output_tokens": 40}
    answer: dict[str, Any] = {"type": "message", "role": "assistant", "id": "msg_1"}
    answer |= {"model": "claude-sonnet-4-5"}
    answer |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    call = {"type": "tool_use", "id": "toolu_f1", "name": "Bash", "input": {"command": "ls src"}}
    thought = {"type": "thinking", "thinking": "look first", "signature": "c2lnbmVk"}
    result = {"type": "tool_result", "tool_use_id": "toolu_f1", "content": "main.py\nutil.py"}
    said: list[tuple[str, dict[str, Any]]] = [
        ("user", {"message": {"role": "user", "content": "What is in src? Keep utils small."}}),
        ("assistant", {"message": {**answer, "content": [thought]}, "requestId": "req_1"}),
        ("assistant", {"message": {**answer, "content": [call]}, "requestId": "req_1"}),
        (
            "user",
            {"message": {"role": "user", "content": [result]}, "toolUseResult": {"stdout": "main.py"}},
        ),
        ("system", {"subtype": "informational", "content": "Something for the screen", "isMeta": False}),
        (
            "assistant",
            {"message": {**answer, "id": "msg_2", "content": [{"type": "text", "text": "Two files."}]}},
        ),
    ]
    lines: list[dict[str, Any]] = [{"type": "summary", "summary": "Files in src", "leafUuid": "f0000006"}]
    parent = None
    for number, (kind, fields) in enumerate(said, 1):
        uuid = f"f000000{number}-0000-4000-8000-000000000000"
        stamp = f"2026-11-01T00:00:0{number}.000Z"
        lines.append(
            {"parentUuid": parent, **usual, "type": kind, "uuid": uuid, "timestamp": stamp, **fields}
        )
        parent = uuid
    lines.append({"type": "file-history-snapshot", "messageId": "f0000001", "snapshot": {}})
    return lines


@scenario
async def a_conversation_brought_in(rig: Rig) -> None:
    async with rig.open(**options(rig)) as session:
        await session.messages(_list())
        await session.user("And now?")
        await session.complete()
        await refused(rig, session.messages(_list()))


@scenario
async def a_list_followed_and_left(rig: Rig) -> None:
    rig.provider(Mind(["Yes.", "Left, then.", "Right, then.", "Good."]))
    kept = [{"role": "user", "content": "Begin."}]
    given = options(rig)
    async with rig.open(**given) as session:
        rig.note("new", await session.sync(kept))
        kept.append({"role": "assistant", "content": (await session.complete()).text})
        kept.append({"role": "user", "content": "Go left."})
        rig.note("new", await session.sync(kept))
        left = (await session.complete()).text
        rig.note("new", await session.sync([*kept, {"role": "assistant", "content": left}]))
        kept[-1] = {"role": "user", "content": "Go right."}
        rig.note("new", await session.sync(kept))
        kept.append({"role": "assistant", "content": (await session.complete()).text})
        await summary(rig, await session.compact(engine="extractive"))
        kept.append({"role": "user", "content": "And on."})
        rig.note("new", await session.sync(kept))
        await session.complete()
    async with rig.open(**given) as session:
        rig.note("new", await session.sync(kept))


def _list() -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "toolu_b1", "name": "Read", "input": {"path": "a.py"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_b1", "content": "x = 1"}
    return [
        {"role": "user", "content": "What does a.py say?"},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]},
        {"role": "user", "content": [result, {"type": "text", "text": "Only the first line."}]},
        {"role": "assistant", "content": "x is 1."},
    ]


@scenario
async def an_own_loop(rig: Rig) -> None:
    client = rig.client()
    async with rig.open(**options(rig, client=client, fields={"metadata": {"user_id": "u1"}})) as session:
        await session.user(ASKED, key="mail-17")
        await session.user(ASKED, key="mail-17")
        for number in range(3):
            request = await session.prepare()
            rig.note("shape", sorted(request))
            reply = client.messages.create(**request)
            answer = await session.observe(await reply if rig.awaited else reply)
            waiting = await session.tool_results({call.id: output(300) for call in answer.calls})
            rig.note(f"waiting after {number}", waiting)
        rig.note("the first again", await session.at(0))
        rig.note("why", await session.why(-1))


@scenario
async def an_answer_that_broke_off(rig: Rig) -> None:
    async with rig.open(**options(rig)) as session:
        await session.user(ASKED)
        await prepared(rig, session)
        said = [
            {"type": "text", "text": "I begin with the"},
            {"type": "tool_use", "id": "toolu_p1", "name": "Read", "input": {"path": "a.py"}},
        ]
        reply = {
            "id": "msg_p1",
            "type": "message",
            "role": "assistant",
            "model": BOUND,
            "content": said,
            "stop_reason": None,
            "usage": {"input_tokens": 1_500, "output_tokens": 7},
        }
        done = await session.observe(reply, partial=True)
        rig.note("kept", (done.text, done.stop_reason))
        await session.user("Go on where you stopped.")
        await work(rig, session, 1)


@scenario
async def a_stream_that_was_cut(rig: Rig) -> None:
    async with rig.open(**options(rig)) as session:
        await session.user(ASKED)
        await work(rig, session, 1)
        rig.faults(Fault("cut_stream", after=4))
        await refused(rig, session.complete())
        rig.faults(Fault("overloaded"))
        await refused(rig, session.complete())
        await work(rig, session, 1)


@scenario
async def kept_nowhere(rig: Rig) -> None:
    rig.provider(Mind(thinks=True))
    offloads = {"offload_characters": 4_000, "preview_bytes": 300, "offload_by_tool": {"Read": 4_000}}
    async with rig.in_memory(**options(rig, settings=offloads, **THINKS)) as session:
        await session.user(ASKED)
        await work(rig, session, 2, 3_000)
        await summary(rig, await session.compact(engine="extractive"))
        await work(rig, session, 1)


@scenario
async def held_by_somebody_else(rig: Rig) -> None:
    given = options(rig)
    async with rig.open(**given) as session:
        await session.user(ASKED)
        session.title = "The port"
        copied = rig.project / "copy.jsonl"
        shutil.copy(rig.log, copied)
        try:
            async with rig.open(**given):
                raise AssertionError("two writers")
        except sevenfold.errors.TranscriptLocked as error:
            rig.note("locked", type(error).__name__)
        async with rig.open("other", **{**given, "file": copied}) as other:
            await prepared(rig, other)
        copied.unlink()
