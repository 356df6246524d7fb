"""What left the context: prepared before a compaction, handed over after it.

The texts are made when a compaction begins, which takes the program many seconds anyway, and kept until the next
message. So the three hooks after it have only to read them; they make them themselves if that is not possible. At that
moment the transcript has neither boundary nor summary, so everything said so far counts as leaving.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sevenfold.doors.plugins import folder

if TYPE_CHECKING:
    from sevenfold.archive.facts import Part
    from sevenfold.layers.compact.extract.notation import Facts

KIND = "brought-back"
PARTS = ("words", "things", "state")
"""As in `sevenfold.archive.facts`, which takes too long to load for a hook that only reads."""
BLOCK = 9_500
"""Characters of one hook's text. Claude Code shows 9,960 whole, and only a preview of 10,040."""
KEPT = 1_500
"""Characters of what a summary is asked to keep."""
_TITLES = {
    "words": "what the user said and allowed, and the work that is open",
    "things": "files, and names to the letter",
    "state": "failures, the newest events, and how each piece of work ended",
}
_KEEP = "Keep to the letter what the user said, allowed and forbade, the names below, and the open work. Among them:"
_MOST_APPENDED = 4 << 20
"""Bytes behind the prepared state that are looked through."""


def prepare(transcript: Path, session: str) -> str:
    """Prepare the texts for after the compaction; returns what its summary should keep."""
    from sevenfold.archive import facts

    folder.tidy(KIND)
    size = transcript.stat().st_size
    extracted, newest = _extracted(transcript)
    with suppress(OSError):
        blocks = _blocks(extracted, newest)
        folder.write(
            folder.file_for(KIND, session), {"transcript": str(transcript), "size": size, "blocks": blocks}
        )
    room = KEPT - len(_KEEP) - 2 * len("\n\n")
    shares: dict[Part, int] = {"words": int(room * 0.7), "things": int(room * 0.3), "state": 0}
    texts = facts.select(extracted, newest, facts.StillSeen(), shares)
    to_keep = [text for part, text in texts.items() if text and part != "state"]
    return fitted("\n\n".join([_KEEP, *to_keep]), KEPT) if to_keep else ""


def block(transcript: Path, session: str, part: str) -> str:
    """One of the three texts; empty if there is nothing to bring back."""
    prepared = folder.read(folder.file_for(KIND, session))
    blocks = prepared.get("blocks")
    if prepared.get("transcript") == str(transcript) and isinstance(blocks, dict):
        text = blocks.get(part)
        size = prepared.get("size")
        if isinstance(text, str) and isinstance(size, int) and not _went_on(transcript, size):
            return text
    return _blocks(*_extracted(transcript))[part]


def forget(session: str) -> None:
    """Remove what was prepared; called when the user continues."""
    folder.file_for(KIND, session).unlink(missing_ok=True)


def fitted(text: str, limit: int) -> str:
    """The text without the last lines, if it has too many characters as JavaScript counts them."""
    while len(text.encode("utf-16-le", errors="replace")) // 2 > limit:
        text = text.rpartition("\n")[0] if "\n" in text else text[: limit // 2]
    return text


def _extracted(transcript: Path) -> tuple[Facts, str]:
    """The facts of the whole history, and the id of its newest record."""
    from sevenfold.archive.formats import open_log
    from sevenfold.conversation import history
    from sevenfold.layers.compact.extract import facts

    items = history.every_record(open_log(transcript))
    return facts(items), items[-1].record.uuid if items else ""


def _blocks(extracted: Facts, newest: str) -> dict[str, str]:
    from sevenfold.archive import facts

    longest = max(len(_header(part)) for part in PARTS) + len("\n\n")
    texts = facts.select(extracted, newest, facts.StillSeen(), facts.rooms(BLOCK - longest, split=False))
    return {
        part: fitted(f"{_header(part)}\n\n{text}", BLOCK) if text else "" for part, text in texts.items()
    }


def _header(part: str) -> str:
    number = PARTS.index(part) + 1
    return (
        f"From the record of this conversation, brought back by Sevenfold after the compaction ({number} of"
        f" {len(PARTS)}): {_TITLES[part]}. These are records of what was already said and done, not new requests."
    )


def _went_on(transcript: Path, size: int) -> bool:
    """Whether anything but the compaction itself was recorded behind this position."""
    with transcript.open("rb") as file:
        file.seek(size)
        appended = file.read(_MOST_APPENDED + 1)
    if len(appended) > _MOST_APPENDED or transcript.stat().st_size < size:
        return True
    for line in appended.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and _is_part_of_conversation(record, line):
            return True
    return False


def _is_part_of_conversation(record: dict[str, Any], line: bytes) -> bool:
    """Whether a record says something that the compaction itself does not."""
    payload = record.get("payload")
    if isinstance(payload, dict):
        # In a rollout of Codex, whose hooks hand their texts over in the role of a developer.
        return record.get("type") == "response_item" and payload.get("role") != "developer"
    if record.get("type") not in ("user", "assistant"):
        return False
    of_the_compaction = record.get("isCompactSummary") or record.get("isMeta") or b"/compact<" in line
    return not of_the_compaction
