"""What is made of blocks, records, pictures and secrets of every kind: the same cases in every run."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any

import msgspec

from sevenfold.record import authorship, blocks, entries, media, redact, sendable
from sevenfold.record.authorship import Queue
from sevenfold.record.blocks import Block
from sevenfold.record.known_secrets import KnownSecrets, parse_dotenv, secret_values
from sevenfold.record.log import Answer, Place, Stamp, said_by_model, said_by_user
from sevenfold.record.wire import Wire
from tests.compaction.histories import picture
from tests.recorded.cases import prose
from tests.recorded.parts import part, short
from tests.redaction.making import Maker
from tests.support import Story, call, result

KINDS: tuple[dict[str, Any], ...] = (
    {"type": "text", "text": "plain"},
    {"type": "text", "text": " \n"},
    {"type": "text", "text": "cited", "citations": [{"cited_text": "there"}]},
    call("t1", "Read", path="a.py"),
    call("", "Read"),
    call("t2", "", path="a.py"),
    {"type": "tool_use", "id": "t3", "name": "Read", "input": "no object"},
    result("t1", "done"),
    result("t2", [{"type": "text", "text": "one"}, picture(), {"type": "thinking", "thinking": "no"}]),
    result("t9", "", is_error=True),
    {"type": "tool_result", "content": "whose?"},
    picture(),
    {"type": "image"},
    {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
        "title": "t",
    },
    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
    {"type": "thinking", "thinking": "hm"},
    {"type": "redacted_thinking", "data": "c2ln"},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "fold"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
    {"type": "server_tool_use", "id": "s2", "name": "web_fetch", "input": {}},
    {"type": "mcp_tool_use", "id": "p1", "name": "find", "server_name": "x", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "p1", "content": [], "is_error": False},
    {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
    {"type": "search_result", "source": "s"},
    {"type": "container_upload", "file_id": "f"},
    {"type": "compaction", "content": "so far"},
    {"type": "tool_addition", "name": "Read"},
    {"type": "web_search_call", "id": "w1", "status": "completed"},
    {"type": "reasoning", "id": "r1", "encrypted_content": "c2ln", "summary": []},
    {"type": "of_tomorrow", "text": "new"},
    {"type": "fallback"},
)
ROLES = ("user", "assistant", "system")
DOTENV = """
# API_TOKEN=one-commented-out-4711
export SECRET_KEY="quoted # not a comment"
PASSWORD='single' # a comment
PLAIN = spaced value
EMPTY=
URL=postgres://ada:swordfish99@db/x
NOT A LINE
MULTI="a\\nb"
"""


def block_of(fields: dict[str, Any]) -> Block:
    """A block with these fields."""
    return blocks.read(msgspec.json.encode(fields))


@part
def blocks_sent() -> Iterator[str]:
    """Which blocks may be sent by which role, as what, and what is said instead of the others."""
    for fields, role, kinds in product(KINDS, ROLES, ((), ("of_tomorrow",))):
        block = block_of(fields)
        sent = sendable.sendable(role, block, kinds)
        yield f"{role} {block.raw.decode()} {kinds}: {sent and sent.raw.decode()}"
    for fields in KINDS:
        block = block_of(fields)
        instead = sendable.as_text(block, "it was refused")
        yield f"{block.raw.decode()}: {sendable.described(block)} {instead and instead.raw.decode()}"
        yield f"  sealed {sendable.is_sealed_reasoning(block)} new {sendable.new_kinds([block, block])}"
        yield f"  {block.kind} {block.id!r} {block.blank} {blocks.words_of(block)!r} {type(block.body()).__name__}"


@part
def messages_sent() -> Iterator[str]:
    """The messages that any sequence of blocks is sent as, what was repaired in them, and what still waits."""
    for seed in range(60):
        chance = Random(seed)
        unsupported = chance.choice(((), ("system_messages",), ("sealed_reasoning",)))
        wire = Wire(unsupported)
        copied = Wire()
        steps = chance.randrange(3, 14)
        for number in range(steps):
            role = chance.choice(("user", "user", "assistant", "assistant", "system"))
            parts = [block_of(fields) for fields in chance.sample(KINDS, chance.randrange(1, 4))]
            key = chance.choice(("", "m1", "m2"))
            wire.add(number, role, key, parts, chance.random() < 0.2, ("of_tomorrow",) if seed % 3 else ())
            if number == steps // 2:
                copied = wire.copy()
        yield f"--- {seed} {unsupported}"
        yield from (message.decode() for message in wire.encoded())
        repairs = [(repair.kind, repair.subject) for repair in wire.repairs()]
        yield f"repairs {repairs} pending {wire.pending()} sizes {[message.size for message in wire.messages()]}"
        yield f"half way {len(copied.messages())} {copied.pending()}"
        left = wire.truncate(steps - 2)
        yield f"cut {left}: {len(wire.messages())} {wire.pending()} {b''.join(wire.pieces())[-120:]!r}"


@part
def records_read() -> Iterator[str]:
    """What lines of every kind are read as, written by any client or damaged."""
    story = Story()
    story.user("hello", origin={"kind": "human"})
    story.user("hello", origin={"kind": "task"}, sevenfold_origin="pasted", sevenfold_typed="hel")
    story.user([{"type": "text", "text": "a"}, picture()], isMeta=True)
    story.user("<task-notification>done</task-notification>")
    story.assistant("fine", call("t", "Read"), used={"input_tokens": 3, "output_tokens": 2}, requestId="q")
    story.assistant("API Error", model="<synthetic>", isApiErrorMessage=True)
    story.assistant("aside", isSidechain=True)
    story.boundary(("u1", "a2", "u3"))
    story.summary("so far")
    story.clearing("t", attachments=("u1",))
    story.link()
    lines = [*story.lines]
    for kind in (
        "queued_command",
        "kept_message",
        "file",
        "edited_text_file",
        "command_permissions",
        "hook_success",
    ):
        attachment = {
            "type": kind,
            "prompt": "typed",
            "content": "words",
            "filename": "a.py",
            "snippet": "1: x",
        }
        for more in (
            {},
            {"commandMode": "task-notification"},
            {"content": [{"type": "text", "text": "two"}]},
        ):
            fields = {"type": "attachment", "uuid": kind, "attachment": {**attachment, **more}}
            lines.append(msgspec.json.encode(fields))
    others: tuple[Any, ...] = (
        {"type": "custom-title", "customTitle": "mine"},
        {"type": "ai-title", "aiTitle": "its"},
        {"type": "last-prompt", "lastPrompt": "newest"},
        {"type": "summary", "summary": "old"},
        {"type": "summary", "summary": "old", "uuid": "s"},
        {"type": "queue-operation", "operation": "enqueue", "content": "later"},
        {"type": "queue-operation", "operation": "enqueue", "content": [{"type": "text", "text": "later"}]},
        {"type": "queue-operation", "operation": "remove", "content": "later", "reason": "edited"},
        {"type": "queue-operation", "operation": "remove", "reason": "absorbed_mid_turn"},
        {"type": "sevenfold", "v": 99, "kind": "future"},
        {"type": "sevenfold", "v": 1, "kind": "nothing"},
        {"type": "user", "uuid": "u", "message": {"role": "user", "content": 7}},
        {"type": "user", "uuid": "u", "message": {"content": ["no block", {"type": "text", "text": "x"}]}},
        {"type": "user", "uuid": "u", "message": "none"},
        {"type": "user", "message": {"role": "user", "content": "no id"}},
        {"type": "system", "uuid": "y", "subtype": "other", "parentUuid": "u"},
        {"type": "progress", "isSidechain": "perhaps", "uuid": "y"},
        {"uuid": "bare"},
        [1, 2],
        "text",
    )
    lines += map(msgspec.json.encode, others)
    lines += [
        b"",
        b" \n",
        b"{",
        b'{"type":"user","uuid":"u","message":{"content":"\\ud800"}}',
        b"\xff\xfe{}",
    ]
    for line in lines:
        entry = entries.read(line)
        told = msgspec.json.encode(entry, enc_hook=repr).decode()
        yield f"{type(entry).__name__} {entries.name_of(entry)!r} {told}"


@part
def records_written() -> Iterator[str]:
    """How records of every kind are written, and that they are read as what was written."""
    for version, sidechain in product(("sevenfold-1.0", "2.1.0"), (False, True)):
        place = Place("session", "/repo", version, "main", sidechain)
        stamp = Stamp(place, "u1", None if sidechain else "u0", "2026-02-03T12:00:00.000Z")
        content = [block_of(KINDS[0]), block_of(KINDS[11])]
        variants: tuple[dict[str, Any], ...] = (
            {},
            {"meta": True},
            {"summary": True},
            {"key": "k", "origin": "pasted", "typed": "pl"},
            {"attachment": "queued_command", "facts": {"prompt": "plain"}},
            {"attachment": "file", "facts": {"filename": "a.py"}, "meta": True},
            {"role": "system", "origin": "program"},
        )
        for options in variants:
            written = said_by_user(stamp, content, **options)
            same = entries.read(written.line) == written.entry
            yield f"{written.line.decode()} {same} {short(written.entry)[:400]}"
        for stop, managed in product((None, "end_turn"), (b"null", b'{"applied_edits":[]}')):
            answer = Answer(
                "m1",
                "claude-opus-4-6",
                tuple(content[:1]),
                msgspec.Raw(b'{"input_tokens":5,"output_tokens":2}'),
                stop,
                "req" if stop else None,
                msgspec.Raw(managed),
                outdated=stop is None,
            )
            written = said_by_model(stamp, answer)
            same = entries.read(written.line) == written.entry
            yield f"{written.line.decode()} {same} {short(written.entry)[:400]} {answer.blank}"


@part
def secrets_masked() -> Iterator[str]:
    """What is masked in texts with secrets of every kind, known and unknown, plain and disguised."""
    maker = Maker(11)
    token = maker.github()
    password = "Tr0ub4dor&3xyz"
    secrets = {
        "github": token,
        "hex": maker.hex(40),
        "uuid": maker.uuid(),
        "jwt": maker.jwt(),
        "login": maker.login(),
        "password": password,
        "key": maker.private_key(),
        "example": "your-api-key-here",
        "short": "abc",
    }
    frames = (
        "{}",
        "token={}",
        "API_KEY='{}' # mine",
        '{{"password": "{}", "user": "ada"}}',
        '{{\\"client_secret\\": \\"{}\\"}}',
        "Authorization: Bearer {}",
        "Authorization: Basic {}",
        "postgres://ada:{}@db.example.org/x",
        "https://example.org/?access_token={}&page=2",
        "my password is {}, keep it",
        "\x1b[31m{}\x1b[0m",
        "x-api-key: {}\nnext line",
        "see {} and {} again",
        "--password {} --verbose",
        "export SECRET={}",
        "the commit {} is fine",
    )
    known = KnownSecrets.of([password, "another known value 99", "line one\nline two long"])
    lines = list(_masked(secrets, frames, known))
    for line in lines:
        # What is not masked must not stand in a recording either, where a scanner would take it for a leak.
        for name, secret in secrets.items():
            line = line.replace(secret, f"«{name}»").replace(repr(secret)[1:-1], f"«{name}»")
        yield line
    yield f"{parse_dotenv(DOTENV)} {parse_dotenv(DOTENV, comments=False)}"
    yield f"{sorted(secret_values(parse_dotenv(DOTENV)))} {short(KnownSecrets.of(['one two', 'x', 'aaaaaaaaaaaa']))}"


def _masked(secrets: Mapping[str, str], frames: Sequence[str], known: KnownSecrets) -> Iterator[str]:
    for (name, secret), frame in product(secrets.items(), frames):
        text = frame.replace("{}", secret).replace("{{", "{").replace("}}", "}")
        masked = redact.mask(text)
        with_known = redact.mask(text, known)
        again = redact.mask(masked.text).text == masked.text
        yield f"{name} in {frame!r}: {masked.text!r} {[finding.kind for finding in masked.findings]} {again}"
        if with_known.text != masked.text:
            yield f"  known: {with_known.text!r}"
        raw = msgspec.json.encode({"said": [text, {"deep": text}], text: 1, "signature": text})
        yield f"  in JSON: {redact.mask_json(raw, known).raw.decode()}"
        spread = text.replace(secret, "\u200b".join((secret[:5], secret[5:])))
        yield f"  spread: {redact.mask(spread, known).text!r} percent {redact.mask(text.replace('-', '%2D')).text!r}"
        stream = redact.MaskedStream(known)
        raw_text = text.encode()
        streamed = b"".join(stream.add(raw_text[at : at + 7]) for at in range(0, len(raw_text), 7))
        yield f"  streamed: {(streamed + stream.end()).decode()!r}"


@part
def pictures_measured() -> Iterator[str]:
    """The size of pictures, what it costs, and the pages of PDFs, as far as the first bytes tell."""
    made: dict[str, bytes] = {"nothing": b"", "text": b"hello"}
    for width, height in ((1, 1), (100, 60), (1568, 1568), (3_000, 200), (20_000, 9_000), (0, 5)):
        size = f"{width}x{height}"
        made[f"png {size}"] = (
            b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06"
        )
        made[f"gif {size}"] = b"GIF89a" + struct.pack("<HH", width, height) + b"\x00"
        frame = b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03\x01"
        for name, before in (
            ("plain", b""),
            ("with a header", b"\xff\xe0\x00\x04ab"),
            ("padded", b"\xff\xff\xd0\xff\xe1\x00\x02"),
        ):
            made[f"jpeg {name} {size}"] = b"\xff\xd8" + before + frame
        riff = b"RIFF\x00\x00\x00\x00WEBP"
        extended = struct.pack("<I", max(width, 1) - 1)[:3] + struct.pack("<I", max(height, 1) - 1)[:3]
        made[f"webp extended {size}"] = riff + b"VP8X" + bytes(8) + extended
        packed = struct.pack("<I", (max(width, 1) - 1) & 0x3FFF | ((max(height, 1) - 1) & 0x3FFF) << 14)
        made[f"webp lossless {size}"] = riff + b"VP8L" + bytes(5) + packed
        made[f"webp lossy {size}"] = (
            riff + b"VP8 " + bytes(10) + struct.pack("<HH", width & 0x3FFF, height & 0x3FFF)
        )
    for name, data in made.items():
        size_found = media.picture_size(data)
        costs = size_found and (size_found.patches, size_found.fine_patches, size_found.tiles)
        yield f"{name}: {short(size_found)} {costs} cut {short(media.picture_size(data[:-1]))}"
    page = b"<< /Type /Page /Parent 1 0 R >>\n"
    tree = b"<< /Type /Pages /Count %d >>\n"
    for pages, counted, packs in product((0, 1, 3), (0, 2, 3), (False, True)):
        content = page * pages + (tree % counted if counted else b"")
        held = b"<< /Type /ObjStm /Length 9 >> stream\r\n" + zlib.compress(content) if packs else content
        for head in (b"%PDF-1.7\n", b"x" * 1_020 + b"%PDF-1.7\n", b"no pdf\n"):
            yield f"{pages} pages, count {counted}, packed {packs}, {head[:9]!r}: {media.pdf_pages(head + held)}"


@part
def lines_typed() -> Iterator[str]:
    """Which lines of a message its author typed, and which are only quoted."""
    fragments = (
        "plain words",
        "> quoted",
        "＞ quoted widely",
        "&gt; escaped",
        "```",
        "````python",
        "~~~",
        "```inline``` text",
        "- > in a list",
        "1. ```",
        "<log>",
        "</log>",
        "<log>all of one line</log>",
        "before <b>inside</b> behind",
        "<b>",
        "</b>",
        "<br/>",
        authorship.PASTED,
        f"see {authorship.PASTED} there",
        "",
        "  indented",
    )
    for seed in range(120):
        chance = Random(seed)
        message = "\n".join(chance.choices(fragments, k=chance.randrange(1, 12)))
        yield f"{message!r}: {[*authorship.typed_lines(message)]}"


@part
def messages_queued() -> Iterator[str]:
    """Which messages that were typed meanwhile become part of the conversation, and where."""
    for seed in range(60):
        chance = Random(seed)
        queue = Queue()
        texts = ("one", "two", "three  words", "two")
        yield f"--- {seed}"
        for position in range(chance.randrange(4, 16)):
            fields: dict[str, Any]
            match chance.randrange(7):
                case 0 | 1 | 2:
                    fields = {
                        "type": "queue-operation",
                        "operation": "enqueue",
                        "content": chance.choice(texts),
                    }
                case 3:
                    operation = chance.choice(("dequeue", "remove", "popAll"))
                    fields = {"type": "queue-operation", "operation": operation}
                    if chance.random() < 0.6:
                        fields["content"] = chance.choice(texts)
                    if chance.random() < 0.3:
                        fields["reason"] = chance.choice(("absorbed_mid_turn", "edited"))
                case 4:
                    message: dict[str, Any] = {
                        "role": "user",
                        "content": chance.choice((*texts, prose(chance, 3))),
                    }
                    fields = {"type": "user", "uuid": f"u{position}", "message": message}
                case _:
                    message = {"role": "assistant", "content": [{"type": "text", "text": "so"}]}
                    fields = {"type": "assistant", "uuid": f"a{position}", "message": message}
            fields |= {
                "timestamp": f"2026-02-03T12:00:{position:02}Z",
                "isSidechain": chance.random() < 0.1,
            }
            due = queue.due(position, entries.read(msgspec.json.encode(fields)))
            told = [(place, authorship.users_words(said)) for place, said in due]
            yield f"{fields['type']} {fields.get('operation', '')} {fields.get('content', '')}: {told}"
