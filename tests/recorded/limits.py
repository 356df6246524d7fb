"""What keeps the layers from acting, what they do when things fail, and windows in which little fits."""

from __future__ import annotations

from typing import Any

import sevenfold
from tests.recorded.form import LINE
from tests.recorded.history import GAP, THINKS, prepared
from tests.recorded.playing import ASKED, FREE, options, output, refused, scenario, summary, work
from tests.recorded.rig import Fault, Mind, NoSummary, Rig

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@scenario
async def a_hook_steers_a_summary(rig: Rig) -> None:
    told: list[str] = []

    def begins(event: Any) -> dict[str, Any]:
        words = f"source {event.source}: speak French"
        return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": words}}

    hooks = rig.hooks(
        PreCompact=lambda event: {"additionalInstructions": "look after the ports"},
        SessionStart=begins,
        PostCompact=lambda event: told.append(event.compact_summary),
    )
    async with rig.open(**options(rig, hooks=hooks)) as session:
        await session.user(ASKED)
        await work(rig, session, 3)
        await summary(rig, await session.compact("keep the flags", engine="fork"))
        rig.note("heard", [len(words) for words in told])
        await work(rig, session, 1)


@scenario
async def a_hook_refuses_a_compaction(rig: Rig) -> None:
    hooks = rig.hooks(PreCompact=lambda event: {"decision": "block", "reason": "not today"})
    async with rig.open(**options(rig, hooks=hooks)) as session:
        await session.user(ASKED)
        await work(rig, session, 2)
        await summary(rig, await session.compact())
        await refused(rig, _until(rig, session, 8_000), sevenfold.errors.ContextFull)


@scenario
async def a_listener_refuses(rig: Rig) -> None:
    rig.veto = lambda event: isinstance(event, sevenfold.events.Proposed) and event.layer != "snip"
    given = {**GAP, "offload_characters": 4_000, "preview_bytes": 300}
    async with rig.open(**options(rig, model=FREE, settings=given)) as session:
        await session.user(ASKED)
        await work(rig, session, 2, 2_000)
        rig.clock.advance(4_000)
        await work(rig, session, 1, 3_000)
        await summary(rig, await session.compact())
        rig.veto = lambda event: False
        rig.clock.advance(4_000)
        await work(rig, session, 1, 100)


@scenario
async def all_layers_off(rig: Rig) -> None:
    given = {**GAP, "layers": False, "size_clearing": True, "notes": True, "background_compaction": True}
    async with rig.open(**options(rig, model=FREE, settings=given)) as session:
        await session.user(ASKED)
        await work(rig, session, 3, 2_000, settle=True)
        rig.clock.advance(4_000)
        await refused(rig, session.compact())
        await refused(rig, _until(rig, session, 8_000), sevenfold.errors.ContextFull)


@scenario
async def compaction_off(rig: Rig) -> None:
    async with rig.open(**options(rig, settings={"compaction": False})) as session:
        await session.user(ASKED)
        await refused(rig, session.compact())
        await refused(rig, _until(rig, session, 8_000), sevenfold.errors.ContextFull)
        rig.note("gauge", session.gauge)


@scenario
async def automatic_compaction_off(rig: Rig) -> None:
    async with rig.open(**options(rig, settings={"auto_compact": False})) as session:
        await session.user(ASKED)
        await refused(rig, _until(rig, session, 8_000), sevenfold.errors.ContextFull)
        await summary(rig, await session.compact(engine="fork"))
        await work(rig, session, 1, 100)


async def _until(rig: Rig, session: Any, size: int) -> None:
    """Work until something is raised."""
    for _ in range(12):
        await work(rig, session, 1, size)


@scenario
async def settings_from_a_file_that_changes(rig: Rig) -> None:
    file = rig.home / "settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text("gap_clearing = false\ngap_keep = 1\n")
    given = options(rig, model=FREE)
    given["settings"] = {name: value for name, value in given["settings"].items() if "gap" not in name}
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 3, 2_000)
        rig.clock.advance(4_000)
        rig.note("due", await session.dry_run())
        file.write_text("gap_clearing = true\ngap_keep = 1\noffload = false\n")
        rig.note("due", await session.dry_run())
        await work(rig, session, 1, 100)


@scenario
async def a_window_of_8k(rig: Rig) -> None:
    rig.provider(Mind(thinks=False))
    given = {"context_window": 8_000, "size_clearing": True, "gap_clearing": True}
    async with rig.open(**options(rig, system="Be brief.", max_tokens=800, settings=given)) as session:
        await session.user(ASKED)
        await work(rig, session, 10, 2_500)
        rig.note("gauge", session.gauge)


@scenario
async def a_window_of_32k(rig: Rig) -> None:
    rig.provider(Mind(thinks=True, calls=2))
    given = {"context_window": 32_000, "size_clearing": True, "gap_clearing": True, "provider_edits": True}
    async with rig.open(**options(rig, settings=given, **THINKS)) as session:
        await session.user(ASKED)
        await work(rig, session, 9, 3_500)
        rig.note("gauge", session.gauge)


@scenario
async def nothing_fits(rig: Rig) -> None:
    given = {"context_window": 8_000}
    async with rig.open(**options(rig, system=LINE * 450, settings=given)) as session:
        await session.user(ASKED)
        await refused(rig, session.prepare(), sevenfold.errors.ContextFull)
        rig.note("gauge", session.gauge)
    async with rig.open("pictures", **options(rig, settings={"images_limit": 1})) as session:
        picture = {"type": "base64", "media_type": "image/png", "data": "aGk="}
        await session.user([{"type": "image", "source": picture}] * 3)
        await refused(rig, session.prepare(), sevenfold.errors.ContextFull)


@scenario
async def too_many_bytes(rig: Rig) -> None:
    given = {"wire_bytes_limit": 14_000, "size_clearing": True}
    async with rig.open(**options(rig, model=FREE, settings=given)) as session:
        await session.user(ASKED)
        await work(rig, session, 6, 2_500)


@scenario
async def secrets_masked_at_the_gate(rig: Rig) -> None:
    rig.provider(Mind([[_shell("c1")], "I see."]))
    given = {
        "redaction": "gate",
        "offload_characters": 3_000,
        "preview_bytes": 400,
        "context_window": 100_000,
    }
    async with rig.open(**options(rig, settings=given)) as session:
        await session.user(f"my token is {SECRET}")
        await session.complete()
        await session.tool_results({"c1": f"export TOKEN={SECRET}\n" + output(4_000)})
        await session.complete()
        assert SECRET.encode() not in rig.log.read_bytes()


@scenario
async def a_summary_call_that_fails(rig: Rig) -> None:
    given = options(rig, settings={"compact_engines": ["fork", "plain"]})
    async with rig.open(**given) as session:
        await session.user(ASKED)
        await work(rig, session, 4)
        rig.faults(Fault("server_error"))
        await summary(rig, await session.compact())
        await work(rig, session, 2)
        rig.faults(Fault("server_error"), 9)
        await summary(rig, await session.compact())


@scenario
async def the_breaker_opens(rig: Rig) -> None:
    mind = Mind(summary=lambda prompt: "<analysis>\nI would rather not.\n</analysis>")
    rig.provider(mind, summarise=lambda request: NoSummary())
    given = options(rig, system="Be brief.", settings={"context_window": 16_000})
    async with rig.open(**given) as session:
        await session.user("Begin.")
        for _ in range(16):
            await work(rig, session, 1, 12_000)
            if session.health.breaker_open:
                break
        rig.note("health", session.health)
        await work(rig, session, 3, 12_000)
    mind.summary = lambda prompt: "<summary>\n1. Primary request and intent:\nBegin.\n</summary>"
    async with rig.open(**given) as session:
        rig.note("health", session.health)
        await work(rig, session, 1, 500)
        await summary(rig, await session.compact("by hand", engine="fork"))
        rig.note("health", session.health)


@scenario
async def notes_that_fail(rig: Rig) -> None:
    rig.provider(Mind(notes=lambda prompt: "I have nothing to say about that."))
    async with rig.open(**options(rig, settings={"notes": True})) as session:
        await session.user(ASKED)
        await work(rig, session, 5, 2_500, settle=True)
        rig.note("notes", await session.notes())
        await summary(rig, await session.compact(engine="plain"))


@scenario
async def a_spending_cap(rig: Rig) -> None:
    async with rig.open(**options(rig, settings={"spending_cap_usd": 0.001, "notes": True})) as session:
        await session.user(ASKED)
        await work(rig, session, 4, 2_500, settle=True)
        await summary(rig, await session.compact(engine="fork"))
        await summary(rig, await _again(rig, session))


async def _again(rig: Rig, session: Any) -> Any:
    await work(rig, session, 2, 500, settle=True)
    return await session.compact()


@scenario
async def a_cache_that_is_lost(rig: Rig) -> None:
    async with rig.open(**options(rig)) as session:
        await session.user(ASKED)
        await work(rig, session, 2)
        rig.faults(Fault("cache_eviction"))
        await work(rig, session, 1)
        rig.clock.advance(400)
        await work(rig, session, 1)
        await prepared(rig, session)


def _shell(call: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "Shell", "input": {"command": f"cat {call}"}}
