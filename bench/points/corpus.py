"""Real transcripts: they load and round-trip, their figures match a recount, and every request in them is valid."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from bench.points import Outcome, Point, all_of, without_corpus
from bench.points.recount import USAGE, Count, count, kind_of
from sevenfold.archive import formats
from sevenfold.archive.audit import audit, unsupported
from sevenfold.archive.profile import files as transcripts
from sevenfold.archive.profile.figures import SessionProfile
from sevenfold.conversation.resume import fold, resume
from sevenfold.lab.rules import RuleFacts, refusals
from sevenfold.profiles import find
from sevenfold.recall.index import RecallIndex
from sevenfold.record import entries
from sevenfold.record.entries import Boundary, Clearing, Said
from sevenfold.record.view import View
from sevenfold.stores.jsonl.log import JsonlLog, Sync

PROFILED = "every Claude and Codex file is profiled"
ACCOUNTED = "calls, usage, compactions and clearings are those of a recount"
COPIED = "files written again through the store are the same bytes"
KEPT = "content blocks are the bytes of their lines"
OPENED = "opened from the end, the view is that of the whole file"
VALID = "requests rebuilt at every call would be taken by a server"
MENDED = "valid once mended"
FOUND = "what users said is found by recall among their words"
TRUE = "quoted, what users said is not called invented"
INVENTED = "statements about the user called invented"
OPENING = "opens its file"
"""For responses with nothing before them: their prompt is in no file."""

_decode = msgspec.json.Decoder().decode


def _files(corpus: Path) -> dict[Path, str]:
    """The Claude and Codex files in the corpus, each with its kind."""
    kinds = {path: kind_of(path) for path in sorted(corpus.rglob("*.jsonl"))}
    return {path: kind for path, kind in kinds.items() if kind}


def profiled(corpus: Path | None) -> list[Outcome]:
    """Every file can be profiled, and its figures match the recount."""
    if corpus is None:
        return without_corpus(PROFILED, ACCOUNTED)
    files = _files(corpus)
    sessions = {Path(one.file): one for one in transcripts.profile(transcripts.find(list(files))).sessions}
    whole = [path for path in files if path in sessions and sessions[path].damaged_lines == 0]
    agreeing = [path for path in whole if _counted(sessions[path]) == count(path, files[path])]
    return [all_of(PROFILED, len(whole), len(files)), all_of(ACCOUNTED, len(agreeing), len(files))]


def _counted(session: SessionProfile) -> Count:
    usage = tuple(getattr(session.usage, name) for name in USAGE)
    return Count(session.api_calls, usage, session.compactions, session.clearings)


def round_trip(corpus: Path | None) -> list[Outcome]:
    """Copied lines and blocks keep their bytes, and a file opened from its end gives the same view."""
    if corpus is None:
        return without_corpus(COPIED, KEPT, OPENED)
    files = _files(corpus)
    claude = [path for path, kind in files.items() if kind == "claude"]
    blocks = Counter(kept for path in claude for kept in _blocks_kept(path))
    return [
        all_of(COPIED, sum(map(_copies, files)), len(files)),
        all_of(KEPT, blocks[True], blocks.total()),
        all_of(OPENED, sum(map(_opens, claude)), len(claude)),
    ]


def _copies(path: Path) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        copy = JsonlLog.open(Path(folder, "copy.jsonl"), sync=Sync.NEVER)
        for _, line in JsonlLog(path).read():
            copy.append([line])
        copy.close()
        return copy.path.read_bytes() == path.read_bytes()


def _blocks_kept(path: Path) -> Iterator[bool]:
    """Whether the bytes of each block occur in its line; skips plain strings, which only reading makes into blocks."""
    for _, line in JsonlLog(path).read():
        entry = entries.read(line)
        if isinstance(entry, Said) and isinstance(_decode(line).get("message", {}).get("content"), list):
            yield from (block.raw in line for block in entry.blocks)


def _opens(path: Path) -> bool:
    whole, tail = fold(JsonlLog(path)), resume(JsonlLog(path))
    return (tail.encoded(), tail.tip, tail.boundary) == (whole.encoded(), whole.tip, whole.boundary)


def requests(corpus: Path | None) -> list[Outcome]:
    """The view before every response, checked against the rules for the model that gave the response."""
    if corpus is None:
        return without_corpus(VALID)
    found, calls = Counter[str](), 0
    for path, kind in _files(corpus).items():
        if kind == "claude":
            calls += count(path, kind).calls
            for sidechain in (False, True):
                found.update(_requests(path, sidechain=sidechain))
    mended = found.pop(MENDED, 0)
    outcome = all_of(VALID, found.pop(VALID, 0) + mended, calls - found.pop(OPENING, 0))
    reasons = [f"{mended} of them mended", *(f"{times} {code}" for code, times in found.most_common(3))]
    return [msgspec.structs.replace(outcome, figure=f"{outcome.figure}, {', '.join(reasons)}")]


def _requests(path: Path, *, sidechain: bool) -> Iterator[str]:
    """For each call of the main conversation, or of the sidechains, whether its request is valid, or why not."""
    view, seen = View(), set[str]()
    for _, line in JsonlLog(path).read():
        entry = entries.read(line)
        if isinstance(entry, Said | Boundary | Clearing) and entry.sidechain != sidechain:
            continue
        if isinstance(entry, Said) and entry.usage and entry.message_id not in seen:
            seen.add(entry.message_id)
            facts = RuleFacts.of(find(entry.model))
            broken = refusals([_decode(message) for message in view.encoded()], facts=facts)
            if not view.items:
                yield OPENING
            else:
                yield broken[0].code if broken else MENDED if view.repairs else VALID
        view.add(entry)


def whose_words(corpus: Path | None) -> list[Outcome]:
    """The users' words, read from the raw lines by separate rules, checked against recall and the audit."""
    if corpus is None:
        return without_corpus(FOUND, TRUE, INVENTED)
    found, believed, said, invented, statements = 0, 0, 0, 0, 0
    for path in _files(corpus):
        log = formats.open_log(path)
        words = [one.strip() for line in JsonlLog(path).read() for one in _said(line[1]) if one.strip()]
        with closing(RecallIndex(log)) as index:
            index.catch_up()
            found += sum(bool(index.search(one[:150], kind="user", k=1)) for one in words)
            total = audit(log, index).total
        invented, statements = invented + total.invented, statements + total.boundaries
        quoted = [
            f'The user said: "{" ".join(one[:150].replace(chr(34), chr(39)).split())}"' for one in words
        ]
        marked = unsupported([f"1. Request:\n- {one}" for one in quoted], resume(log).items, log)
        said, believed = said + len(words), believed + len(words) - len(marked)
    compared = f"{invented} in {statements} summaries" if statements else "no summary to look at"
    return [
        all_of(FOUND, found, said),
        all_of(TRUE, believed, said),
        Outcome(INVENTED, invented == 0 if statements else None, compared, "none"),
    ]


def _said(line: bytes) -> Iterator[str]:
    """The user's words on a line, wherever the client records them."""
    match _decode(line) if line.strip() else None:
        case {"type": "queue-operation", "operation": "enqueue", "content": str() as words}:
            yield from [words] if not words.startswith(("<", "/")) else []
        case {"type": "user", "isMeta": True} | {"type": "user", "isCompactSummary": True}:
            return
        case {"type": "user", "isSidechain": True}:
            return
        case {"type": "user", "message": {"content": str() as words}}:
            yield from [words] if not words.startswith(("<", "[Request")) else []
        case {"type": "user", "message": {"content": list() as parts}}:
            for part in parts:
                words = str(part.get("content", "")) if part.get("is_error") else ""
                if words.startswith("The user doesn't want"):
                    yield re.split("the user said:|for the rejection:|$", words)[1].partition("\n\nNote:")[
                        0
                    ]
        case {"type": "event_msg", "payload": {"type": "user_message", "message": str() as words}}:
            yield words


POINTS: list[Point] = [
    ("real transcripts: profile", profiled),
    ("real transcripts: round trip", round_trip),
    ("real transcripts: requests", requests),
    ("real transcripts: whose words", whose_words),
]
