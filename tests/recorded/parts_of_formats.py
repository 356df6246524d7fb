"""What sessions of other programs are read as, line by line: the same lines in every run, whole, odd and damaged."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from sevenfold.archive.readers import codex, kimi, pi
from tests.recorded.cases import prose
from tests.recorded.parts import part

Entry = dict[str, Any]
ODD: tuple[Any, ...] = (None, 7, "", [], {}, ["text"], {"type": "text"})
"""What no program should write, and a reader may meet anyway."""
DAMAGED = (b"", b"  \n", b"{", b"[1]", b'"text"', b"\xff")


def lines_of(entries: list[Any], chance: Random) -> list[bytes]:
    """The entries as lines, some of them damaged."""
    lines = [msgspec.json.encode(entry) for entry in entries]
    for _ in range(chance.choice((0, 0, 1, 3))):
        lines.insert(chance.randrange(len(lines) + 1), chance.choice(DAMAGED))
    return lines


def spoilt(entry: Entry, chance: Random) -> Entry:
    """The entry, now and then with a field that is odd or missing."""
    if chance.random() > 0.12 or not entry:
        return entry
    name = chance.choice(list(entry))
    return {**entry, name: chance.choice(ODD)} if chance.random() < 0.6 else {**entry, name: None}


def pi_entries(chance: Random) -> list[Any]:
    """A session of pi, with branches, compactions and commands of the user's."""
    version = chance.choice((1, 2, 3))
    entries: list[Any] = [
        {"type": "session", "version": version, "id": "s", "cwd": "/quay", "timestamp": "t"}
    ]
    names: list[str] = []
    for number in range(chance.randrange(4, 18)):
        text = {"type": "text", "text": prose(chance, 8)}
        picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        usage = {"input": 120, "output": 8, "cacheRead": chance.choice((0, 40, -1, "x")), "cacheWrite": 3}
        call = {
            "type": "toolCall",
            "id": f"c{number}",
            "name": "read",
            "arguments": chance.choice(({"path": "a"}, "no")),
        }
        content = chance.choice(
            (
                [text],
                [text, picture],
                prose(chance, 5),
                [{"type": "thinking", "thinking": "hm"}, text, call],
            )
        )
        stop = chance.choice(("stop", "length", "toolUse", "error", "aborted"))
        messages: list[Entry] = [
            {"role": "user", "content": content},
            {"role": "assistant", "model": "m", "content": content, "usage": usage, "stopReason": stop},
            {"role": "assistant", "model": "m", "content": [call], "usage": {"input": 0}},
            {
                "role": "toolResult",
                "toolCallId": f"c{number - 1}",
                "content": [text],
                "isError": number % 3 == 0,
            },
            {
                "role": "bashExecution",
                "command": "ls",
                "output": "a.py",
                "excludeFromContext": number % 2 == 0,
            },
            {"role": "custom", "content": content},
            {"role": "system", "content": "Be brief.", "sections": {"one": "First.", "two": None}},
        ]
        kinds: list[Entry] = [
            *({"type": "message", "message": spoilt(message, chance)} for message in messages),
            {
                "type": "compaction",
                "summary": "so far",
                "tokensBefore": 900,
                "firstKeptEntryId": chance.choice(names or ["e"]),
            },
            {
                "type": "compaction",
                "summary": "so far",
                "tokensBefore": "many",
                "firstKeptEntryIndex": chance.randrange(-1, 9),
            },
            {"type": "branch_summary", "summary": "what was tried"},
            {"type": "custom_message", "content": content},
            {"type": "session_info", "name": "Painting"},
            {"type": "model_change", "modelId": "n"},
            {"type": "of_tomorrow", "text": "new"},
        ]
        entry = {"id": f"e{number}", "timestamp": f"t{number}", **chance.choice(kinds)}
        if chance.random() < 0.9:
            entry["parentId"] = (
                names[-1] if names and chance.random() < 0.8 else chance.choice([*names, None, "gone"])
            )
        names.append(entry["id"])
        entries.append(spoilt(entry, chance))
    return entries


def kimi_entries(chance: Random) -> list[Any]:
    """A session of Kimi."""
    entries: list[Any] = [{"role": "_system_prompt", "content": "Be brief."}]
    for number in range(chance.randrange(4, 14)):
        text = {"type": "text", "text": chance.choice((prose(chance, 8), "<system>put in</system>"))}
        function = {"name": "Read", "arguments": chance.choice(('{"path":"a"}', "no JSON", ""))}
        address = {"url": "data:image/png;base64,aGk="}
        kinds: list[Entry] = [
            {
                "role": "user",
                "content": chance.choice(
                    (prose(chance, 6), [text], [text, {"type": "image_url", "image_url": address}])
                ),
            },
            {"role": "assistant", "content": [{"type": "think", "think": "hm"}, text]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": f"c{number}", "function": function}, "odd"],
            },
            {"role": "tool", "tool_call_id": f"c{number - 1}", "content": [text]},
            {"role": "_checkpoint", "id": 1},
            {"role": "_usage", "token_count": 9},
            {"role": "of_tomorrow"},
            {"role": None},
        ]
        entries.append(spoilt(chance.choice(kinds), chance))
    return entries


def codex_entries(chance: Random) -> list[Any]:
    """A rollout of Codex, with context that the program sent along, totals that fall, and compactions."""
    payloads: list[tuple[str, Entry]] = [("session_meta", {"id": "r", "cwd": "/quay", "cli_version": "1"})]
    total = 0
    for number in range(chance.randrange(6, 24)):
        words = chance.choice(
            (prose(chance, 8), "<environment_context>x</environment_context>", "<tag>typed</tag>")
        )
        said = {
            "type": "message",
            "role": chance.choice(("user", "developer")),
            "content": [{"type": "input_text", "text": words}],
        }
        total = chance.choice((total, total + 900, 300))
        last = {"input_tokens": 800, "cached_input_tokens": 600, "output_tokens": 100, "total_tokens": 900}
        info = {
            "total_token_usage": {**last, "total_tokens": total},
            "last_token_usage": last,
            "model_context_window": 9_000,
        }
        output = chance.choice(
            (
                '{"output":"x","metadata":{"exit_code":1}}',
                "exec failed: no",
                "fine",
                [{"type": "input_text", "text": "y"}],
            )
        )
        sealed: Entry = {"type": "reasoning", "id": chance.choice(("r", None)), "encrypted_content": "c2ln"}
        kinds: list[tuple[str, Entry]] = [
            ("turn_context", {"model": chance.choice(("gpt-5.6", "", None))}),
            ("response_item", said),
            ("response_item", said),
            ("event_msg", {"type": "user_message", "message": words}),
            (
                "response_item",
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Done."}],
                },
            ),
            ("response_item", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}),
            ("response_item", sealed),
            (
                "response_item",
                {
                    "type": "function_call",
                    "name": "shell",
                    "call_id": f"c{number}",
                    "arguments": '{"command":["ls"]}',
                },
            ),
            (
                "response_item",
                {"type": "custom_tool_call", "name": "patch", "call_id": f"c{number}", "input": "no JSON"},
            ),
            ("response_item", {"type": "web_search_call", "action": {"query": "fold"}}),
            (
                "response_item",
                {"type": "function_call_output", "call_id": f"c{number - 1}", "output": output},
            ),
            ("response_item", {"type": "compaction", "encrypted_content": "c2ln"}),
            ("response_item", {"type": "of_tomorrow", "text": "new"}),
            (
                "response_item",
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}],
                },
            ),
            (
                "event_msg",
                {
                    "type": "token_count",
                    "info": chance.choice((info, info, info, None, {"total_token_usage": 3})),
                },
            ),
            ("compacted", {"message": "so far"}),
            (
                "compacted",
                {
                    "message": "",
                    "replacement_history": [
                        said,
                        {"type": "compaction", "encrypted_content": "c2ln"},
                        "odd",
                    ],
                },
            ),
            ("of_tomorrow", {"text": "new"}),
        ]
        kind, payload = chance.choice(kinds)
        payloads.append((kind, spoilt(payload, chance)))
    return [
        {"timestamp": f"2026-02-03T12:00:{number:02}Z", "type": kind, "payload": payload}
        for number, (kind, payload) in enumerate(payloads)
    ]


@part
def formats_read() -> Iterator[str]:
    """The records that the lines of other programs become, and by which lines their files are known."""
    for seed in range(20):
        chance = Random(seed)
        for name, reader, entries in (
            ("pi", pi, pi_entries(chance)),
            ("kimi", kimi, kimi_entries(chance)),
            ("codex", codex, codex_entries(chance)),
        ):
            yield f"--- {seed} {name}"
            yield from (line.decode() for line in reader.convert(lines_of(entries, chance)))
            known = [reader.recognises(entry) for entry in entries]
            refused = [text for entry in entries if (text := reader.unsupported(entry))]
            yield f"{known} {refused}"
