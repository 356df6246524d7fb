"""Sessions of other tools, converted on reading; their files stay as they are."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sevenfold
from sevenfold.archive import sessions
from sevenfold.archive.formats import READERS
from sevenfold.archive.readers import kimi, pi
from sevenfold.errors import TranscriptError, TranscriptForeign
from sevenfold.record import entries
from sevenfold.stores.memory import MemoryLog
from tests.profile.making import Rollout

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.spec("S14.6")
Entry = dict[str, Any]


def written(path: Path, *lines: Entry) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def header(version: int = 3) -> Entry:
    return {"type": "session", "version": version, "id": "s-1", "timestamp": "", "cwd": "/projects/quay"}


def entry(name: str, parent: str | None, kind: str = "message", **fields: Any) -> Entry:
    at = "2026-03-01T10:00:00.000Z"
    return {"type": kind, "id": name, "parentId": parent, "timestamp": at, **fields}


def user(name: str, parent: str | None, text: str) -> Entry:
    return entry(name, parent, message={"role": "user", "content": text})


def answer(name: str, parent: str, *content: Entry, **fields: Any) -> Entry:
    usage = {"input": 120, "output": 8, "cacheRead": 40, "cacheWrite": 3}
    message = {"role": "assistant", "model": "claude-sonnet-5-5", "usage": usage, "stopReason": "stop"}
    return entry(name, parent, message={**message, "content": list(content), **fields})


def text(words: str) -> Entry:
    return {"type": "text", "text": words}


def texts(path: Path) -> list[tuple[str, str]]:
    with sevenfold.transcript(path) as transcript:
        return [(record.speaker, record.text) for record in transcript.records()]


def context(path: Path) -> list[tuple[str, str]]:
    with sevenfold.transcript(path) as transcript:
        return [(record.speaker, record.text) for record in transcript.context()]


# -- pi --------------------------------------------------------------------------------------


def test_messages_calls_and_results_of_pi_are_read(tmp_path: Path) -> None:
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "tide.csv"}}
    result = {"role": "toolResult", "toolCallId": "c1", "content": [text("04:12")], "isError": True}
    path = written(
        tmp_path / "2026_s-1.jsonl",
        header(),
        user("a", None, "When is high water?"),
        answer("b", "a", text("I'll look."), call),
        entry("c", "b", message=result),
        answer("d", "c", text("At 04:12.")),
    )
    read = texts(path)
    assert [speaker for speaker, _ in read] == ["user", "model", "tool", "model"]
    assert "tide.csv" in read[1][1]
    assert "04:12" in read[2][1]
    with sevenfold.transcript(path) as transcript:
        profile = transcript.profile()
    assert (profile.format, profile.project, profile.api_calls) == ("pi", "/projects/quay", 2)
    assert profile.usage.output_tokens == 16


def test_a_branch_of_pi_that_was_left_is_not_in_the_context(tmp_path: Path) -> None:
    path = written(
        tmp_path / "talk.jsonl",
        header(),
        user("a", None, "Paint the buoy."),
        answer("b", "a", text("Red?")),
        user("c", "b", "Yes, red."),
        answer("d", "c", text("Painted red.")),
        entry("e", "b", "model_change", modelId="claude-opus-5"),
        user("f", "e", "No, green."),
        answer("g", "f", text("Painted green.")),
    )
    assert [words for _, words in context(path)] == [
        "Paint the buoy.",
        "Red?",
        "No, green.",
        "Painted green.",
    ]


@pytest.mark.parametrize("kept", [{"firstKeptEntryId": "c"}, {"firstKeptEntryIndex": 3}])
def test_a_compaction_of_pi_keeps_what_it_says_it_kept(tmp_path: Path, kept: Entry) -> None:
    linked = "firstKeptEntryId" in kept
    lines = [
        header(3 if linked else 1),
        user("a", None, "The lamp is called Lantern 7."),
        answer("b", "a", text("Noted.")),
        user("c", "b", "Look at the tide."),
        answer("d", "c", text("It rises.")),
        entry("e", "d", "compaction", summary="A harbour is built.", tokensBefore=9_000, **kept),
        user("f", "e", "Go on."),
    ]
    if not linked:
        lines = [{key: line[key] for key in line if key not in ("parentId",)} for line in lines]
    path = written(tmp_path / "talk.jsonl", *lines)
    assert context(path) == [
        ("summary", "A harbour is built."),
        ("user", "Look at the tide."),
        ("model", "It rises."),
        ("user", "Go on."),
    ]
    assert texts(path)[0] == ("user", "The lamp is called Lantern 7.")


def test_a_compaction_of_pi_that_kept_nothing_leaves_the_summary_alone(tmp_path: Path) -> None:
    path = written(
        tmp_path / "talk.jsonl",
        header(),
        user("a", None, "Hello."),
        entry("e", "a", "compaction", summary="Greetings were exchanged.", firstKeptEntryId="e"),
    )
    assert context(path) == [("summary", "Greetings were exchanged.")]


def test_what_pi_put_in_is_nobodys_words_and_a_shell_line_is_the_users(tmp_path: Path) -> None:
    shell = {"role": "bashExecution", "command": "make", "output": "all good", "exitCode": 0}
    hidden = {"role": "bashExecution", "command": "cat key", "output": "hush", "excludeFromContext": True}
    path = written(
        tmp_path / "talk.jsonl",
        header(),
        entry("a", None, message={"role": "system", "content": "", "sections": {"cwd": "/projects/quay"}}),
        entry("b", "a", "custom_message", customType="lint", content="Two warnings."),
        entry("c", "b", message=shell),
        entry("d", "c", message=hidden),
        {**entry("e", "d", "session_info"), "name": "The quay"},
        user("f", "e", "Mend the quay."),
    )
    read = texts(path)
    assert ("note", "Two warnings.") in read
    assert not any("hush" in words for _, words in read)
    assert [words for speaker, words in read if speaker == "user"][-1] == "Mend the quay."
    assert sessions.read_label(path).title == "The quay"


def test_a_session_of_a_newer_pi_is_refused_by_its_version(tmp_path: Path) -> None:
    path = written(tmp_path / "talk.jsonl", header(4), user("a", None, "Hello."))
    with pytest.raises(TranscriptForeign, match=r"pi session of version 4, .* up to 3; look for a newer"):
        sevenfold.transcript(path)


# -- Kimi ------------------------------------------------------------------------------------


def test_a_context_file_of_kimi_is_read(tmp_path: Path) -> None:
    function = {"name": "ReadFile", "arguments": '{"path": "tide.csv"}'}
    path = written(
        tmp_path / "context.jsonl",
        {"role": "_system_prompt", "content": "You are Kimi."},
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": [text("<system>CHECKPOINT 0</system>")]},
        {"role": "user", "content": "When is high water?"},
        {
            "role": "assistant",
            "content": [{"type": "think", "think": "The table."}, text("I'll look.")],
            "tool_calls": [{"type": "function", "id": "c1", "function": function}],
        },
        {"role": "tool", "content": [text("04:12")], "tool_call_id": "c1"},
        {"role": "_usage", "token_count": 812},
        {"role": "assistant", "content": "At 04:12."},
    )
    read = texts(path)
    assert [speaker for speaker, _ in read] == ["note", "user", "model", "tool", "model"]
    assert "tide.csv" in read[2][1]
    assert read[-1][1] == "At 04:12."


# -- every reader ----------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "type", "text", "message", "id", "parentId", "summary", "usage"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
FIELDS = (
    *("id", "parentId", "message", "content", "summary", "firstKeptEntryId", "firstKeptEntryIndex"),
    *("tool_calls", "version", "cwd", "timestamp", "name", "tool_call_id"),
)
SHAPES = st.builds(
    lambda kind, role, rest: {**rest, "type": kind, "role": role},
    st.sampled_from(["session", "message", "compaction", "branch_summary", "label", "new", "user"]),
    st.sampled_from(["user", "assistant", "tool", "_usage", "toolResult", "bashExecution", "system"]),
    st.dictionaries(
        st.sampled_from(FIELDS),
        VALUES,
        max_size=8,
    ),
)


@given(
    lines=st.lists(
        SHAPES.map(lambda shape: json.dumps(shape).encode()) | st.binary(max_size=20), max_size=12
    )
)
def test_whatever_stands_in_a_file_becomes_records_that_can_be_folded(lines: list[bytes]) -> None:
    for reader in READERS:
        made = list(reader.convert(lines))
        assert all(line.endswith(b"\n") for line in made)
        for line in made:
            entries.read(line)
        from sevenfold.conversation.history import whole

        whole(MemoryLog(made))


def test_half_a_surrogate_pair_is_kept_out_of_trouble() -> None:
    lines = [json.dumps(header()).encode(), json.dumps(user("a", None, "\ud800 here")).encode()]
    assert b"\\ud800 here" in b"".join(pi.convert(lines))
    assert list(kimi.convert([b"{broken"])) == [b"damaged\n"]


# -- archived and compressed -----------------------------------------------------------------


def rollout() -> bytes:
    made = Rollout().record("session_meta", id="r-1", cwd="/projects/quay")
    content = [{"type": "input_text", "text": "Light the quay."}]
    made.record("response_item", type="message", role="user", content=content)
    return ("\n".join(made.lines) + "\n").encode()


def test_a_compressed_rollout_is_read_and_found_among_the_archived_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "SEVENFOLD_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / ".codex"))
    folder = tmp_path / ".codex" / "archived_sessions"
    folder.mkdir(parents=True)
    path = folder / "rollout-2026-03-01T10-00-00-r-1.jsonl.zst"
    path.write_bytes(zstd.compress(rollout()))
    (found,) = sessions.stored()
    assert (found.name, found.tool, found.about().title) == ("r-1", "Codex", "Light the quay.")
    assert texts(sessions.find("r-1")) == [("user", "Light the quay.")]


def test_a_compressed_file_that_is_cut_or_no_zstd_says_so_or_gives_what_it_holds(tmp_path: Path) -> None:
    whole = zstd.compress(rollout() + b'{"a": "' + b"x" * 500_000 + b'"}\n', level=1)
    cut = tmp_path / "cut.jsonl.zst"
    cut.write_bytes(whole[:-10])
    assert texts(cut) in ([("user", "Light the quay.")], [])
    other = tmp_path / "other.jsonl.zst"
    other.write_bytes(gzip.compress(rollout()))
    with pytest.raises(TranscriptError, match="damaged or not compressed with zstd"):
        sevenfold.transcript(other)


def test_odd_values_in_a_session_of_kimi_cost_no_more_than_their_line(tmp_path: Path) -> None:
    path = written(
        tmp_path / "context.jsonl",
        {"role": "_system_prompt", "content": "Be brief."},
        {"role": {}, "content": "whose?"},
        {"role": "assistant", "content": "Painted.", "tool_calls": 7},
    )
    assert ("model", "Painted.") in texts(path)


def test_a_file_that_begins_with_an_odd_role_is_no_session_and_no_crash(tmp_path: Path) -> None:
    path = written(tmp_path / "context.jsonl", {"role": {}}, {"role": ["user"]})
    with pytest.raises(TranscriptError):
        texts(path)
