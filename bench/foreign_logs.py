"""Transcripts of other tools, and damaged ones: what a session may be opened on."""

from __future__ import annotations

import base64
import json
import random
import struct
from typing import Any

from sevenfold.archive.readers import codex

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
DAMAGES: list[tuple[str, Any]] = [
    ("assistant", {"type": "tool_use", "name": "Read", "input": {"path": "a.py"}}),
    ("assistant", {"type": "tool_use", "id": "", "name": "Read", "input": {}}),
    ("assistant", {"type": "tool_use", "id": "toolu_9", "input": {}}),
    ("assistant", {"type": "tool_use", "id": "toolu_9", "name": "Read"}),
    ("assistant", {"type": "tool_use", "id": "toolu_9", "name": "Read", "input": "x"}),
    ("assistant", {"type": "tool_use", "id": 9, "name": "Read", "input": {}}),
    ("assistant", {"type": "tool_use", "id": "toolu_0", "name": "Read", "input": {}}),
    ("assistant", {"type": "thinking", "thinking": "hm"}),
    ("assistant", {"type": "thinking"}),
    ("assistant", {"type": "redacted_thinking"}),
    ("assistant", {"type": "text"}),
    ("assistant", {"type": "text", "text": 5}),
    ("assistant", {"type": "text", "text": ""}),
    ("assistant", {"type": "tool_result", "tool_use_id": "toolu_0", "content": "x"}),
    ("assistant", IMAGE),
    ("assistant", {"type": "document", "source": {"type": "text", "data": "x"}}),
    ("assistant", {"type": "server_tool_use", "name": "web_search", "input": {}}),
    ("assistant", {"type": "web_search_tool_result", "content": []}),
    ("assistant", {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_7", "content": []}),
    ("user", {"type": "tool_result", "content": "x"}),
    ("user", {"type": "tool_result", "tool_use_id": "", "content": "x"}),
    ("user", {"type": "tool_result", "tool_use_id": 4, "content": "x"}),
    ("user", {"type": "tool_result", "tool_use_id": "toolu_0", "content": {"a": 1}}),
    ("user", {"type": "tool_result", "tool_use_id": "toolu_0", "content": [{"a": 1}]}),
    ("user", {"type": "tool_result", "tool_use_id": "toolu_0", "content": [{"type": "text"}]}),
    ("user", {"type": "tool_result", "tool_use_id": "toolu_0", "content": [{"type": "image"}]}),
    ("user", {"type": "tool_result", "tool_use_id": "toolu_0", "content": ["x"]}),
    ("user", {"type": "tool_use", "id": "toolu_9", "name": "Read", "input": {}}),
    ("user", {"type": "thinking", "thinking": "hm", "signature": "s"}),
    ("user", {"type": "server_tool_use", "id": "srvtoolu_9", "name": "web_search", "input": {}}),
    ("user", {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
    ("user", {"type": "image"}),
    ("user", {"type": "image", "source": "here"}),
    ("user", {"type": "document"}),
    ("user", {"type": "document", "source": None}),
    ("user", {"type": "search_result", "content": []}),
    ("user", {"type": "container_upload"}),
    ("user", {"type": "text", "text": None}),
    ("assistant", {"type": "teext", "text": "x"}),
    ("assistant", {"type": "tool_usf", "id": "toolu_8", "name": "Read", "input": {}}),
    ("assistant", {"type": "hologram", "depth": 1}),
    ("user", {"type": "tt", "text": "x"}),
    ("user", {"type": "tool_resut", "tool_use_id": "toolu_0", "content": "x"}),
    ("user", {"no": "type"}),
    ("user", "words"),
]
ARGUMENTS = ('{"command":["ls"]}', "{}", '{"command":', "", "null", "[1]", '"ls"')


def log_with(role: str, block: Any) -> list[dict[str, Any]]:
    """A transcript of another tool: a question, a call, its result, an answer; the block is in one of them."""
    call = {"type": "tool_use", "id": "toolu_0", "name": "Read", "input": {"path": "a.py"}}
    answered = {"type": "tool_result", "tool_use_id": "toolu_0", "content": "x"}
    replaces = isinstance(block, dict) and block.get("tool_use_id") == "toolu_0" and role == "user"
    turns: list[tuple[str, list[Any]]] = [
        ("user", [{"type": "text", "text": "Begin."}]),
        ("assistant", [{"type": "text", "text": "Looking."}, call]),
        ("user", [block] if replaces else [answered]),
        ("assistant", [{"type": "text", "text": "Read."}]),
    ]
    if not replaces:
        place = 3 if role == "assistant" else 2
        turns[place][1].append(block)
    records = []
    for number, (speaker, content) in enumerate(turns):
        message: dict[str, Any] = {"role": speaker, "content": content}
        if speaker == "assistant":
            message |= {"id": f"msg_{number}", "model": "claude-sonnet-5-5", "type": "message"}
        parent = f"00000000-0000-0000-0000-00000000000{number - 1}" if number else None
        records.append(
            {
                "type": speaker,
                "uuid": f"00000000-0000-0000-0000-00000000000{number}",
                "parentUuid": parent,
                "message": message,
            }
        )
    return records


def foreign_log(dice: random.Random) -> bytes:
    """A transcript that another tool wrote, with linked messages or converted from a rollout; often damaged."""
    return damaged_log(dice) if dice.random() < 0.7 else converted_rollout(dice)


def converted_rollout(dice: random.Random) -> bytes:
    """A Codex rollout with calls of its own tools and of the provider's, as records; its lines may be damaged."""
    lines = [json.dumps({"type": kind, "payload": payload}).encode() for kind, payload in rollout(dice)]
    match dice.randrange(5):
        case 0:
            lines = bent(b"\n".join(lines), dice).split(b"\n")
        case 1:
            dice.shuffle(lines)
        case 2:
            del lines[dice.randrange(len(lines))]
    return b"".join(line.rstrip(b"\n") + b"\n" for line in codex.convert(lines))


def rollout(dice: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """The types and payloads of a Codex rollout: a few turns with every kind of item in any order."""
    items: list[tuple[str, dict[str, Any]]] = [("session_meta", {"id": "s-1", "cwd": "/work"})]

    def item(kind: str, **fields: Any) -> None:
        items.append(("response_item", {"type": kind, **fields}))

    for turn in range(dice.randint(1, 5)):
        item("message", role="user", content=[{"type": "input_text", "text": f"Question {turn}?"}])
        for step in range(dice.randint(0, 4)):
            call = f"call_{turn}_{step}"
            match dice.randrange(7):
                case 0:
                    item(
                        "reasoning",
                        summary=[{"type": "summary_text", "text": "hm"}],
                        encrypted_content="gAA=",
                    )
                case 1:
                    item("web_search_call", status="completed", action={"type": "search", "query": "x"})
                case 2:
                    item("custom_tool_call", call_id=call, name="apply_patch", input="*** Begin Patch")
                    item("custom_tool_call_output", call_id=call, output="Done")
                case 3:
                    item("function_call_output", call_id=call, output="an answer to nothing")
                case 4:
                    item("image_generation_call", id=call, status="completed", result="AAAA")
                case _:
                    item("function_call", call_id=call, name="shell", arguments=dice.choice(ARGUMENTS))
                    if dice.random() < 0.8:
                        item(
                            "function_call_output",
                            call_id=call,
                            output=dice.choice(("done", "", "x" * 4_000)),
                        )
        if dice.random() < 0.2:
            kept = [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Kept."}]}
            ]
            items.append(("compacted", {"message": "The summary.", "replacement_history": kept}))
        item("message", role="assistant", content=[{"type": "output_text", "text": f"Answer {turn}."}])
    return items


def damaged_log(dice: random.Random) -> bytes:
    """A short transcript with up to three blocks that no provider takes, sometimes with bytes that are damaged too."""
    records = log_with(*dice.choice(DAMAGES))
    for _ in range(dice.choice((0, 0, 1, 2))):
        role, block = dice.choice(DAMAGES)
        spoken = [record for record in records if record["type"] == role]
        dice.choice(spoken)["message"]["content"].append(block)
    lines = [json.dumps(record).encode() for record in records]
    raw = b"\n".join(lines) + b"\n"
    match dice.randrange(8):
        case 0:
            return bent(raw, dice)
        case 1:
            dice.shuffle(lines)
        case 2:
            lines.append(dice.choice(lines))
        case 3:
            del lines[dice.randrange(len(lines))]
    return b"\n".join(lines) + b"\n"


def bent(raw: bytes, dice: random.Random) -> bytes:
    """The bytes with some of them cut off, overwritten, doubled or taken out."""
    start = dice.randrange(len(raw) + 1)
    end = min(len(raw), start + dice.choice((1, 2, 7, 60, 900)))
    match dice.randrange(5):
        case 0:
            return raw[:start]
        case 1:
            return raw[:start] + dice.randbytes(end - start) + raw[end:]
        case 2:
            return raw[:end] + raw[start:]
        case 3:
            return raw[:start] + b"\0" * (end - start) + raw[end:]
        case _:
            return raw[:start] + raw[end:]


def document(dice: random.Random) -> dict[str, Any]:
    """A document of any kind: text short or long, texts with a picture, a PDF, a file elsewhere."""
    text = dice.choice(("x", "A line of a report.\n" * 40, "A line of a report.\n" * 2_000, "你好 " * 900))
    match dice.randrange(6):
        case 0 | 1:
            source: dict[str, Any] = {"type": "text", "media_type": "text/plain", "data": text}
        case 2:
            source = {"type": "content", "content": text}
        case 3:
            source = {"type": "content", "content": [{"type": "text", "text": text}, picture(dice)]}
        case 4:
            pages = dice.choice((1, 3, 30))
            file = b"%PDF-1.7\n" + b"<< /Type /Page /Parent 1 0 R >>\n" * pages
            data = base64.b64encode(file).decode()
            source = {"type": "base64", "media_type": "application/pdf", "data": data}
        case _:
            source = {"type": "url", "url": "https://example.com/a.pdf"}
    made: dict[str, Any] = {"type": "document", "source": source}
    if dice.random() < 0.3:
        made["title"] = "The report"
    return made


def picture(dice: random.Random) -> dict[str, Any]:
    """A picture of any size."""
    width, height = dice.choice(((1, 1), (300, 200), (1_000, 1_000), (4_000, 3_000)))
    data = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\2\0\0\0"
    encoded = base64.b64encode(data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": encoded}}
