"""Layer 1 in whole sessions: big results go to disk once, and what was sent once is sent the same ever after."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sevenfold.errors import ContextFull, ResultMissing, TranscriptDenied, TranscriptError, TranscriptFull
from sevenfold.record import entries
from sevenfold.record.decisions import Keep, Offloaded
from sevenfold.record.entries import Decision, Said
from sevenfold.stores.jsonl.store import FileResults
from sevenfold.stores.memory import MemoryLog, MemoryResults
from tests.session.holding import LINE, PICTURE, Held, calls, scripted

BIG = LINE * 2_000
"""About 74,000 characters."""


class BrokenResults(MemoryResults):
    """A disk that takes no results."""

    def __init__(self, error: TranscriptError) -> None:
        super().__init__()
        self.error: TranscriptError | None = error

    def keep(self, name: str, content: bytes) -> str:
        if self.error is not None:
            raise self.error
        return super().keep(name, content)


class FullLog(MemoryLog):
    """A disk with room for small lines only, or for a few."""

    def __init__(self, room: int) -> None:
        self.room, self.lines_left = room, 10**9
        super().__init__()

    def append(self, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        if sum(map(len, lines)) > self.room or len(lines) > self.lines_left:
            raise TranscriptFull("no space left on the disk")
        self.lines_left -= len(lines)
        return super().append(lines, durable=durable)


def answered(*results: Any, tools: Sequence[str] = ("Shell",), **options: Any) -> tuple[Held, list[str]]:
    """A session in which tools were called and have answered with these."""
    names = tools if len(tools) == len(results) else [tools[0]] * len(results)
    held = scripted(calls(*names), **options)
    held.session.user("Begin.")
    made = [call.id for call in held.ask().calls]
    held.session.tool_results(dict(zip(made, results, strict=True)))
    return held, made


def recorded(held: Held, kind: type) -> list[Any]:
    found = (entries.read(line) for _, line in held.store.log.read())
    return [
        entry.record for entry in found if isinstance(entry, Decision) and isinstance(entry.record, kind)
    ]


def said_in_full(held: Held, words: str) -> bool:
    """Does the log itself hold a result with all these words?"""
    found = (entries.read(line) for _, line in held.store.log.read())
    blocks = [
        block
        for entry in found
        if isinstance(entry, Said)
        for block in entry.blocks
        if block.kind == "tool_result"
    ]
    return any(json.loads(block.raw)["content"] == words for block in blocks)


@pytest.mark.spec("S12.3", "S1.1")
def test_a_stored_result_that_was_changed_is_not_returned(tmp_path: Path) -> None:
    held, (call,) = answered(BIG, results=FileResults(tmp_path / "tool-results"))
    (stored,) = (tmp_path / "tool-results").iterdir()
    assert held.session.fetch(call) == BIG.encode()
    stored.write_bytes(BIG.encode().replace(b"a", b"b"))
    with pytest.raises(ResultMissing, match="changed since it was stored"):
        held.session.fetch(call)


@pytest.mark.spec("S1.1")
def test_a_big_result_goes_to_disk_before_it_is_recorded_and_leaves_a_preview() -> None:
    held, (call,) = answered(BIG)
    said = held.shown()[call]
    assert said.startswith("<persisted-output>")
    assert len(said) < 2_500
    assert "kept as result:" in said
    assert held.session.fetch(call) == BIG.encode()
    assert not said_in_full(held, BIG)
    (acted,) = held.told("Acted", layer="offload")
    assert acted.tokens_before > 10 * acted.tokens_after
    assert not acted.undoable
    assert held.session.fetch(acted.reference) == BIG.encode()


@pytest.mark.spec("S1.1")
def test_thresholds_are_per_tool_and_a_tool_may_be_exempt() -> None:
    settings = {"offload_by_tool": {"Grep": 3_000, "Shell": "never"}}
    held, (grep, shell, ask, read) = answered(
        LINE * 100, BIG, BIG, BIG, tools=("Grep", "Shell", "Ask", "Read"), settings=settings
    )
    stored = [call for call, said in held.shown().items() if said.startswith("<persisted-output>")]
    assert stored == [grep, ask]
    assert held.shown()[shell] == held.shown()[read] == BIG


@pytest.mark.spec("S1.1")
def test_what_the_reader_reads_of_a_stored_result_is_not_stored_again() -> None:
    held = scripted(calls("Shell"), calls("Read"))
    held.session.user("Begin.")
    held.run(1, BIG)
    held.run(1, BIG)
    first, second = held.shown().values()
    assert first.startswith("<persisted-output>")
    assert second == BIG


@pytest.mark.spec("S1.1")
def test_structured_content_is_stored_as_json() -> None:
    content = [
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": BIG}]}
    ]
    held, (call,) = answered(content)
    (acted,) = held.told("Acted")
    assert acted.reference.endswith(".json")
    assert json.loads(held.session.fetch(call)) == content


@pytest.mark.spec("S1.4")
def test_pictures_stay_in_the_context_when_the_text_beside_them_goes() -> None:
    held, (call, only) = answered([{"type": "text", "text": BIG}, PICTURE], [PICTURE])
    preview, picture = held.shown()[call]
    assert preview["text"].startswith("<persisted-output>")
    assert picture == PICTURE
    assert held.shown()[only] == [PICTURE]
    assert held.session.gauge.images == 2


@pytest.mark.spec("S1.4")
@pytest.mark.parametrize("empty", ["", "  \n", None, [], [{"type": "text", "text": ""}]])
def test_an_empty_result_gets_a_word(empty: Any) -> None:
    held, (call,) = answered(empty)
    assert held.shown()[call] == "[The tool finished and returned nothing]"


@pytest.mark.spec("S1.3")
def test_what_was_decided_holds_whatever_the_settings_become_after_a_resume_and_in_forks() -> None:
    held, (_big, small) = answered(BIG, LINE * 100)
    before = held.session.prepare().body
    held.ask()
    held.settings.set(offload_characters=1_000_000, preview_bytes=50, round_characters=1_000_000)
    held.session.user("Go on.")
    held.ask()
    held.settings.set(offload_characters=100, round_characters=100, preview_bytes=50)
    held.session.user("Go on.")
    held.ask()
    shown = held.shown()
    held.opened()
    held.session.user("Once more.")
    again = json.loads(held.session.prepare().body)["messages"]
    fork = held.session.fork()
    fork.user("And aside?")
    aside = json.loads(fork.prepare().body.raw)["messages"]
    for messages in (again, aside):
        assert _unmarked(messages)[:3] == _unmarked(json.loads(before)["messages"])
    assert held.shown() == shown
    assert shown[small] == LINE * 100


@pytest.mark.spec("S1.2", "S1.3")
def test_results_too_big_together_are_decided_about_when_the_request_is_prepared() -> None:
    sizes = [LINE * n for n in (1_300, 1_250, 1_200, 1_100, 1_150)]
    held, made = answered(*sizes)
    assert list(held.shown().values()) == sizes
    assert all(said_in_full(held, words) for words in sizes)
    (proposed,) = held.session.dry_run()
    assert (proposed.layer, proposed.mechanism, proposed.targets) == ("offload", "share", (made[0],))
    assert not recorded(held, Offloaded), "a dry run decides nothing"
    held.session.prepare()
    assert [one.tool_use_id for one in recorded(held, Offloaded)] == [made[0]]
    assert [one.tool_use_ids for one in recorded(held, Keep)] == [made[1:]]
    assert held.session.fetch(made[0]) == sizes[0].encode()
    shown = held.shown()
    held.opened()
    assert held.shown() == shown
    assert [len(words) for words in shown.values()][1:] == [len(one) for one in sizes[1:]]


@pytest.mark.spec("S1.2", "S1.3")
def test_what_was_sent_once_is_not_offloaded_later_also_if_that_request_failed() -> None:
    held, _made = answered(*[LINE * 1_000] * 5)
    sent = held.session.prepare().body
    held.settings.set(round_characters=50_000, offload_characters=3_000)
    assert held.session.prepare().body == sent
    held.opened()
    assert held.session.prepare().body == sent
    assert not recorded(held, Offloaded)


@pytest.mark.spec("S1.3")
def test_what_a_fork_has_sent_is_decided_about_as_well() -> None:
    held, _made = answered(*[LINE * 1_250] * 5)
    fork = held.session.fork()
    fork.user("Aside.")
    body = json.loads(fork.prepare().body.raw)
    assert sum(len(block["content"]) for block in body["messages"][2]["content"]) < 200_000
    main = json.loads(held.session.prepare().body)
    assert _unmarked(main["messages"]) == [
        *_unmarked(body["messages"])[:2],
        {"role": "user", "content": _unmarked(body["messages"])[2]["content"][:5]},
    ]


@pytest.mark.spec("S1.5")
@pytest.mark.parametrize("error", [TranscriptFull("no space left"), TranscriptDenied("read-only disk")])
def test_what_cannot_be_stored_stays_in_the_log_and_is_sent_cut(error: TranscriptError) -> None:
    held, (call,) = answered(BIG, results=BrokenResults(error))
    said = held.shown()[call]
    assert said.startswith("<cut-output>")
    assert str(error) in said
    assert 49_000 < len(said) < 50_500
    assert held.session.fetch(call) == BIG.encode()
    assert said_in_full(held, BIG)
    (told,) = held.told("SteppedAside")
    assert (told.layer, told.error) == ("offload", type(error).__name__)
    body = held.session.prepare().body
    held.opened()
    assert held.session.prepare().body == body


@pytest.mark.spec("S1.4", "S1.5")
def test_pictures_stay_too_when_the_text_beside_them_cannot_be_stored() -> None:
    held, (call,) = answered(
        [{"type": "text", "text": BIG}, PICTURE], results=BrokenResults(TranscriptFull("full"))
    )
    words, picture = held.shown()[call]
    assert words["text"].startswith("<cut-output>")
    assert picture == PICTURE


@pytest.mark.spec("S1.5")
def test_a_log_that_takes_no_decision_either_is_asked_again_before_the_request() -> None:
    broken, log = BrokenResults(TranscriptFull("full")), FullLog(10**9)
    held = scripted(calls("Shell"), results=broken, log=log)
    held.session.user("Begin.")
    (call,) = (one.id for one in held.ask().calls)
    log.lines_left = 1
    held.session.tool_results({call: BIG})
    assert held.shown()[call] == BIG
    log.lines_left = 10**9
    broken.error = None
    held.session.prepare()
    assert held.shown()[call].startswith("<persisted-output>")
    assert held.session.fetch(call) == BIG.encode()


@pytest.mark.spec("S1.5")
def test_with_the_log_full_as_well_what_fits_is_kept() -> None:
    log = FullLog(60_000)
    held, (call,) = answered(BIG, results=BrokenResults(TranscriptFull("no space")), log=log)
    assert held.shown()[call].startswith("<cut-output>")
    held.session.prepare()


@pytest.mark.spec("S1.5")
@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/abs/olute", "a\0b", "con", "x" * 300, "a.json", "ünï"]
)
def test_ids_from_the_network_are_never_file_names(name: str, tmp_path: Any) -> None:
    folder = tmp_path / "results"
    held = scripted(
        [{"type": "tool_use", "id": name, "name": "Shell", "input": {}}], results=FileResults(folder)
    )
    held.session.user("Begin.")
    held.run(1, BIG)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.parent == folder
    assert file.suffix == ".txt"
    assert file.read_text() == BIG
    assert held.session.fetch(name) == BIG.encode()


@pytest.mark.spec("S1.3", "S8.2")
def test_a_veto_leaves_the_result_alone_for_good() -> None:
    held, (call,) = answered(BIG, veto=lambda event: type(event).__name__ == "Proposed")
    held.session.prepare()
    assert held.shown()[call] == BIG
    assert len(held.told("Vetoed")) == 1
    assert not held.told("Acted")


@pytest.mark.spec("S8.2")
@pytest.mark.parametrize("switch", ["layers", "offload"])
def test_switched_off_nothing_is_offloaded(switch: str) -> None:
    held, _made = answered(*[BIG] * 4, settings={switch: False})
    held.session.prepare()
    assert list(held.shown().values()) == [BIG] * 4


@pytest.mark.spec("S0.5", "S1.1")
def test_in_a_small_window_results_are_offloaded_sooner() -> None:
    held, (call,) = answered(LINE * 300, settings={"context_window": 20_000})
    assert held.shown()[call].startswith("<persisted-output>")


def test_a_stored_result_that_is_gone_says_so() -> None:
    held, _ = answered(BIG)
    with pytest.raises(ResultMissing):
        held.session.fetch("toolu_unknown")


def _unmarked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            **one,
            "content": [
                {k: v for k, v in block.items() if k != "cache_control"} for block in one["content"]
            ],
        }
        for one in messages
    ]


@pytest.mark.spec("S21.23")
def test_where_new_results_alone_are_over_the_blocking_limit_the_largest_go_and_the_request_fits() -> None:
    settings = {"context_window": 40_000, "offload_characters": 10**6, "round_characters": 10**6}
    held, (large, small) = answered(LINE * 4_000, LINE * 200, settings=settings)
    held.session.prepare()
    shown = held.shown()
    assert shown[large].startswith("<persisted-output>")
    assert shown[small] == LINE * 200
    assert held.session.fetch(large) == (LINE * 4_000).encode()
    conversation = held.session.conversation
    assert conversation.size().high < conversation.window.blocking


@pytest.mark.spec("S21.23")
def test_results_that_fit_are_left_alone_where_only_pictures_are_too_many() -> None:
    settings = {"images_limit": 1, "offload_characters": 10**6, "round_characters": 10**6}
    content = [{"type": "text", "text": LINE * 300}, PICTURE]
    held, made = answered(content, content, tools=("Ask",), settings=settings)
    with pytest.raises(ContextFull):
        assert held.session.prepare().body
    assert [held.shown()[call][0]["text"] for call in made] == [LINE * 300] * 2
    assert not held.told("Acted", layer="offload")
