"""Import and export of other tools' memory, without loss.

Other tools keep their memory as files in a folder or as a JSON list. On import, each becomes an entry with the same
bytes and the origin ``import``; on export, it gets its own path back. Nothing imported counts as the user's words until
the user confirms it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold.errors import InputError
from sevenfold.memory.entry import MAX_BYTES, PINNED, free_file, is_entry, shortened, slug
from sevenfold.memory.generation import Provenance, digest
from sevenfold.memory.memory import INDEX, EntryEdit, KnownEntry, Memory

TOOLS: Mapping[str, str] = {
    "claude": "Claude Code: ~/.claude/projects/<project>/memory/",
    "qwen": "Qwen Code: ~/.qwen/projects/<project>/memory/",
    "basic-memory": "basic-memory: a folder of notes",
    "stores": "Anthropic Memory Stores: a JSON list of path, content, content_sha256",
    "codex": "Codex: ~/.codex/memories/ (import only)",
}
"""The supported tools, and where they keep their memory."""

JSON = "stores"
_OWN_KEYS = ("path", "content", "content_sha256")
IMPORT_ONLY = frozenset({"codex"})


LONGEST_GIST = 100
"""The most characters of an entry in an exported index."""


class Imported(Struct, frozen=True):
    """The outcome of an import."""

    taken: tuple[str, ...]
    known: tuple[str, ...]
    """Files that were already imported."""
    left: Mapping[str, str]
    """Files that were not imported, and why."""


def take_in(
    memory: Memory, tool: str, files: Mapping[str, bytes], now: float, extras: Mapping[str, str] = {}
) -> Imported:
    """Import files of another tool, by their path below its folder, in one change.

    ``extras`` has additional data, as JSON, that the tool keeps with some of them.
    """
    present = {entry.entry.file: entry.stamp for entry in memory.entries()}
    by_source = {stamp.source: file for file, stamp in present.items()}
    edits: dict[str, EntryEdit] = {}
    unchanged: list[str] = []
    not_imported: dict[str, str] = {}
    for path, content in sorted(files.items()):
        source = f"{tool}:{path}"
        extra = extras.get(path, "")
        problem = _unfit(path, content) or memory.refuses(content)
        file = by_source.get(source) or free_entry(path, {*present, *edits})
        if problem:
            not_imported[path] = problem
        elif file in present and present[file].sha256 == digest(content):
            unchanged.append(path)
        elif file in present and present[file].trusted:
            not_imported[path] = f"you confirmed another text of it: {file}; forget that first"
        else:
            stamp = Provenance(digest(content), "import", source=source, extra=extra, created=now)
            edits[file] = EntryEdit(content, stamp)
    if edits:
        memory.commit(edits, "import", f"imported from {tool}: {len(edits)} files")
    return Imported(tuple(edits), tuple(unchanged), not_imported)


def give_out(entries: Iterable[KnownEntry], tool: str) -> dict[str, bytes]:
    """Entries as files of another tool: under their original path if they came from it, otherwise under their name."""
    if tool in IMPORT_ONLY or tool not in TOOLS:
        raise InputError(
            f"memory cannot be exported for {tool!r}; choose {', '.join(sorted(TOOLS.keys() - IMPORT_ONLY))}"
        )
    listed = list(entries)
    files = {their_path(entry, tool): entry.entry.render() for entry in listed}
    if tool != JSON:
        files.setdefault(INDEX, _linked_index(listed).encode())
    return files


def _linked_index(entries: Iterable[KnownEntry]) -> str:
    """An index in the shape that other tools read: a title with a link, and the gist."""
    trusted = sorted(
        (known_entry.entry for known_entry in entries if known_entry.stamp.trusted),
        key=lambda entry: entry.file,
    )
    lines = [
        f"- [{entry.name}]({entry.file}) — {shortened(entry.statement, LONGEST_GIST)}" for entry in trusted
    ]
    return "# Memory\n\n" + "\n".join(lines) + "\n"


def their_path(known_entry: KnownEntry, tool: str) -> str:
    """The path of an entry in another tool: the original one if it came from there, otherwise its file name."""
    from_tool, _, path = known_entry.stamp.source.partition(":")
    return path if from_tool == tool and path else known_entry.entry.file


def read_stores(content: bytes) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files in a JSON list of Memory Stores, and the other data it has about each; raises `InputError`."""
    try:
        # Not msgspec's own parser, which refuses unpaired surrogates.
        records = msgspec.convert(json.loads(content), list[dict[str, Any]])
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected a JSON list of memories: {error}") from error
    files: dict[str, bytes] = {}
    extras: dict[str, str] = {}
    for number, record in enumerate(records):
        path = record.get("path")
        text = record.get("content")
        if path in files:
            raise InputError(f"{path}: the list has two memories with this path; remove one")
        if not isinstance(path, str) or not isinstance(text, str):
            raise InputError(f"memory {number} of the list has no path or no content")
        held = _bytes(text)
        expected = record.get("content_sha256")
        if isinstance(expected, str) and expected != digest(held):
            raise InputError(f"{path}: its content does not match its content_sha256; the file is damaged")
        files[path] = held
        if extra := {key: value for key, value in record.items() if key not in _OWN_KEYS}:
            extras[path] = json.dumps(extra)
    return files, extras


def write_stores(entries: Iterable[KnownEntry]) -> bytes:
    """Entries as a JSON list of Memory Stores, with the other data that came with them on import."""
    known = list(entries)
    extras = {
        their_path(entry, JSON): json.loads(entry.stamp.extra) for entry in known if entry.stamp.extra
    }
    texts = {path: _text(content) for path, content in sorted(give_out(known, JSON).items())}
    listed = [
        {**extras.get(path, {}), "path": path, "content": text, "content_sha256": digest(_bytes(text))}
        for path, text in texts.items()
    ]
    # Unpaired surrogates have no encoding in UTF-8, so they are written as JSON escapes.
    return f"{json.dumps(listed, ensure_ascii=False, indent=2)}\n".encode(errors="backslashreplace")


def _text(content: bytes) -> str:
    try:
        return content.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return content.decode(errors="replace")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _unfit(path: str, content: bytes) -> str:
    if not path.isascii() and path != path.encode(errors="ignore").decode():
        return "its name is not valid Unicode; rename it"
    if len(content) > MAX_BYTES:
        return f"it has more than {MAX_BYTES:,} bytes"
    if b"\0" in content[:1024]:
        return "it is not text"
    return "" if content.strip() else "it is empty"


def free_entry(path: str, taken_names: Iterable[str]) -> str:
    """A free entry file name for a path of another tool."""
    wanted = PurePosixPath(path)
    pinned = PINNED if wanted.parent.name == PINNED.strip("/") else ""
    names = (wanted.name.lower(), f"{slug(wanted.stem)}.md", "imported-index.md")
    plain = next(filter(is_entry, (f"{pinned}{name}" for name in names)))
    return free_file(plain, set(taken_names))
