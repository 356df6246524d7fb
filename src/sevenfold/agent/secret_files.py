"""Files that look as if they held secrets: told by their names, or by what is in them.

What a tool reads is sent to the provider and stays in the transcript, so such a file is asked about before it is read
where there is a user to ask, and its secrets are masked elsewhere.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.permissions.known_programs import tables
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.permissions.shell import parse
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.record.known_secrets import KnownSecrets, parse_dotenv
from sevenfold.record.redact import find, mask
from sevenfold.record.secret_patterns import patterns
from sevenfold.stores.folder import read_regular

MOST_BYTES = 256_000
"""How much of a file is looked through."""
MOST_FILES = 20
"""How many files that a command names are looked at."""
NOTE = "[Secrets in this output are masked. Ask the user if you need one; never write a mask back into a file.]"

_OPEN_WORDS = re.compile(
    r"(?i:true|false|yes|no|on|off|none|null|localhost|development|production|staging|test|\d{1,7})"
)
_LEAST_VALUE = 8
_LINE_NUMBER = re.compile(r"(?m)^\s*\d+[\t:|→-]\s?")


class FileNames(Struct, frozen=True):
    """The patterns of `secret_files.toml`, which explains each part."""

    names: tuple[str, ...]
    paths: tuple[str, ...]
    harmless: tuple[str, ...]
    settings: tuple[str, ...]


@cache
def file_names() -> FileNames:
    """The patterns, read on first use."""
    table = tomllib.loads(Path(__file__).with_name("secret_files.toml").read_text("utf-8"))
    return FileNames(**{table_key: tuple(patterns.split()) for table_key, patterns in table.items()})


def named_secret(path: str) -> str:
    """Why a file looks like secrets by its name; empty if it does not."""
    patterns = file_names()
    lowered = path.lower()
    name = PurePosixPath(lowered).name
    if any(fnmatchcase(name, pattern) for pattern in patterns.harmless):
        return ""
    if any(fnmatchcase(name, pattern) for pattern in patterns.names) or any(
        fnmatchcase(lowered, pattern) for pattern in patterns.paths
    ):
        return "by its name"
    return ""


def secret_inside(path: str) -> str:
    """Why a file looks like secrets by its content; empty if it does not, or cannot be read."""
    try:
        if Path(path).stat().st_size > 4 * MOST_BYTES:
            return ""
        raw = read_regular(Path(path)) or b""
    except OSError:
        return ""
    if b"\0" in raw[:4_096]:
        return ""
    findings = find(raw[:MOST_BYTES].decode(errors="replace"))
    name = PurePosixPath(path.lower()).name
    certain = patterns().format_kinds | {"private-key"}
    settings = "." not in name or any(fnmatchcase(name, pattern) for pattern in file_names().settings)
    for finding in findings:
        if settings or finding.kind in certain:
            return f"it contains what looks like a secret ({finding.kind})"
    return ""


def with_secrets(request: PermissionRequest) -> PermissionRequest:
    """The request, with the file that looks like secrets, if it is about one."""
    if request.action in ("read", "write"):
        why = named_secret(request.subject) or (named_secret(request.named) if request.named else "")
        if not why and request.action == "read":
            why = secret_inside(request.subject)
        return replace(request, secret=f"{request.subject} ({why})") if why else request
    if request.action != "run":
        return request
    shows = _shows_files(request.subject)
    for path in request.paths[:MOST_FILES]:
        why = named_secret(path) or (secret_inside(path) if shows else "")
        if why and Path(path).is_file():
            return replace(request, secret=f"{path} ({why})")
    return request


def _shows_files(command: str) -> bool:
    """Whether a line plainly shows the files it names."""
    line = parse(command)
    shows_files = tables().show_files
    return any(simple.words and simple.words[0] in shows_files for simple in line.commands)


def masked(output: ToolOutput, *, named: bool) -> ToolOutput:
    """The output with its secrets masked; in a file that is ``named`` like one, every telling value is."""
    if isinstance(output.content, str):
        text = _masked(output.content, named=named)
        return output if text == output.content else replace(output, content=f"{text}\n\n{NOTE}")
    blocks: list[Mapping[str, Any]] = []
    for block in output.content:
        block_text = block.get("text")
        if isinstance(block_text, str):
            blocks.append({**block, "text": _masked(block_text, named=named)})
        else:
            blocks.append(block)
    return output if blocks == list(output.content) else replace(output, content=blocks)


def _masked(text: str, *, named: bool) -> str:
    if not named:
        return mask(text).text
    # Lines may have numbers before them, as Read shows them.
    unnumbered = _LINE_NUMBER.sub("", text)
    # The file may have another format, where # begins no comment: rather a comment too many is masked.
    assigned = parse_dotenv(unnumbered, comments=False)
    values = (value for value in assigned.values() if len(value) >= _LEAST_VALUE)
    secrets = {value: value for value in values if not _OPEN_WORDS.fullmatch(value)}
    return mask(text, KnownSecrets(secrets)).text
