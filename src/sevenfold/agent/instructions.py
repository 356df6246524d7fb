"""Instruction files: written by the user and a project's authors for the agent.

`load` reads AGENTS.md and CLAUDE.md of the user, then of every folder from the project's root down to the working
directory, and the files they import with ``@path``. Imports cannot leave the owner's folder: the project's files import
from the project, the user's from the user's folder, and links that lead outside are refused. The content of a file
never makes loading fail: in place of a file that could not be loaded, the prompt says why.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.texts import InstructionFile, InstructionProblem, Instructions
from sevenfold.errors import InputError
from sevenfold.stores.files import real_path

NAMES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
"""The files read in every folder, in this order."""

LARGEST = 4 * 1024 * 1024
"""The size of the largest file that is read, in bytes."""

MOST_HOPS = 4
"""How deep imports may be nested: the imports of a file's imports are two hops away from it."""

MOST_IMPORTS = 500
"""How many imports are followed in all."""

MOST_CHARACTERS = 4 * LARGEST
"""How much text may be loaded before imports are no longer followed."""

Owner = Literal["user", "project"]
LoadReason = Literal["session_start", "compact", "include"]
_Identity = tuple[int, int]
"""The device and inode of a file, which identify it under any name."""

_FENCE = re.compile(r"[\s>]*(`{3,}|~{3,})(.*)")
_LIST_ITEM = re.compile(r"\s*([-*+]|\d+[.)])\s")
_BLANK_LINES = re.compile(r"\n\s*\n")
_BACKTICKS = re.compile(r"`+")
_IMPORT = re.compile(r"""(?:(?<=[\s("'\[])|^)@((?:\\ |[^\s\\])+)""", re.MULTILINE)
_AFTER_PATH = ".,;:!?)]}\"'"
_LIKE_A_PATH = re.compile(r"(\.{0,2}|~)/.|.*\.\w+$")
# Characters of the Unicode tag block are invisible everywhere, but models read them.
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\U000e0000-\U000e007f]")


class LoadedFile(Struct, frozen=True):
    """An instruction file that was found: its text, why it was loaded, and any problem."""

    path: str
    owner: Owner
    reason: LoadReason
    """Why it was loaded: at session start, after a compaction, or because another file imports it."""
    text: str = ""
    parent: str | None = None
    """The file that imports it."""
    problem: str = ""
    """Why there is no text; empty if there is."""
    note: str | None = None
    """How the text had to be repaired."""
    known: str = ""
    """The path of an earlier file with the same text, if any; then the text is left out here."""


def load(
    root: Path, cwd: Path, home: Path | None = None, *, reason: LoadReason = "session_start"
) -> tuple[LoadedFile, ...]:
    """Load all instruction files, from the most general to the most specific, each followed by its imports.

    ``home`` is the folder with the user's own instructions; ``~`` in an import means this folder. Raises `InputError`
    if ``cwd`` is not inside ``root``.
    """
    root = root.resolve()
    cwd = cwd.resolve()
    if not cwd.is_relative_to(root):
        raise InputError(f"{cwd} is not inside {root}; name the project's root above the working directory")
    home = home.resolve() if home else None
    loader = _Loader(home)
    if home:
        loader.folder(home, home, "user", reason)
    for folder in reversed([cwd, *cwd.parents]):
        if folder.is_relative_to(root):
            loader.folder(folder, root, "project", reason)
    return tuple(loader.loaded)


def upwards(workspace: Path, home: Path) -> Iterator[Path]:
    """The folder and its parents up to the repository root; stops before the user's home, which is not a project."""
    for folder in (workspace, *workspace.parents):
        if folder == home:
            return
        yield folder
        if (folder / ".git").exists():
            return


def project_root(workspace: Path, home: Path) -> Path:
    """The root of the repository that contains the folder; the folder itself if there is none."""
    return next((folder for folder in upwards(workspace, home) if (folder / ".git").exists()), workspace)


def as_text(loaded: tuple[LoadedFile, ...]) -> Instructions | None:
    """The loaded files as a prompt section; None if there is neither text nor a problem to report."""
    return Instructions.of([_framed(file) for file in loaded if file.text or file.problem])


def imports(text: str) -> tuple[str, ...]:
    """The paths a text imports, each once; ``@path`` inside code is not an import."""
    paths: dict[str, None] = {}
    for paragraph in _BLANK_LINES.split(_without_code_blocks(text)):
        for match in _IMPORT.finditer(_without_code_spans(paragraph)):
            if path := match[1].replace("\\ ", " ").rstrip(_AFTER_PATH):
                paths[path] = None
    return tuple(paths)


class _Loader:
    """Loads all files in one pass, and remembers which files and texts it has loaded already."""

    def __init__(self, home: Path | None) -> None:
        self.loaded: list[LoadedFile] = []
        self._home = home
        self._followed = 0
        self._characters = 0
        self._known: dict[_Identity | str | None, str] = {}

    def folder(self, folder: Path, bounds: Path, owner: Owner, reason: LoadReason) -> None:
        """Load the instruction files of a folder; their imports must be inside ``bounds``."""
        for name in NAMES:
            if os.path.lexists(folder / name):
                self._add(*_read(LoadedFile(str(folder / name), owner, reason), bounds), bounds)

    def _add(self, file: LoadedFile, identity: _Identity | None, bounds: Path, hops: int = 0) -> None:
        # The same file under another name, a cycle of imports, or a copy: load it only once.
        known = self._known.get(identity) or self._known.get(file.text) or ""
        if file.problem or known:
            known = "" if file.problem else known
            self.loaded.append(replace(file, text="", note=None, known=known))
            return
        self._known |= {identity: file.path, file.text: file.path}
        self._characters += len(file.text)
        self.loaded.append(file)
        for reference in imports(file.text):
            if not self._imported(reference, file, bounds, hops + 1):
                break

    def _imported(self, reference: str, by: LoadedFile, bounds: Path, hops: int) -> bool:
        """Load an import; returns False if the limit is reached and no more imports should be loaded."""
        self._followed += 1
        path = Path(by.path).parent / reference
        if reference.startswith("~/") and self._home:
            path = self._home / reference[2:]
        file = LoadedFile(str(path), by.owner, "include", parent=by.path)
        if self._followed > MOST_IMPORTS or self._characters > MOST_CHARACTERS:
            problem = "there were too many imports before; the rest is left out"
            self._add(replace(file, problem=problem), None, bounds)
            return False
        file, identity = _read(file, bounds)
        if file.problem and not _LIKE_A_PATH.match(reference):
            return True  # not a path but an @name, as of a person or a package
        if hops > MOST_HOPS and identity not in self._known:
            file = replace(file, problem=f"it is more than {MOST_HOPS} imports away")
        self._add(file, identity, bounds, hops)
        return True


def _framed(file: LoadedFile) -> InstructionFile | InstructionProblem:
    if file.problem:
        return InstructionProblem(file.path, file.problem, file.parent)
    return InstructionFile(file.path, file.owner, file.text, file.parent, file.note)


def _read(file: LoadedFile, bounds: Path) -> tuple[LoadedFile, _Identity | None]:
    """Read a file; returns it with its text or problem, and its identity, None if it could not be read."""
    try:
        real = real_path(Path(file.path))
        if not real.is_relative_to(bounds):
            return replace(file, problem=f"it is outside {bounds}"), None
        file_stat = real.stat()
        if not stat.S_ISREG(file_stat.st_mode):
            return replace(file, problem="it is not a regular file"), None
        with real.open("rb") as opened:
            raw = opened.read(LARGEST + 1)
    except OSError as error:
        return replace(file, problem=(error.strerror or str(error)).lower()), None
    except (RuntimeError, ValueError) as error:
        return replace(file, problem=f"its path cannot be followed ({error})"), None
    if len(raw) > LARGEST:
        return replace(file, problem=f"it has more than {LARGEST:,} bytes"), None
    return _decoded(file, raw), (file_stat.st_dev, file_stat.st_ino)


def _decoded(file: LoadedFile, raw: bytes) -> LoadedFile:
    text = raw.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    broken = text.count("\ufffd") - raw.count("\ufffd".encode())
    if b"\0" in raw or broken > max(8, len(text) // 10):
        return replace(file, problem="it is not text in UTF-8")
    text, unseen = _UNSEEN.subn("", text)
    notes = [f"{broken:,} broken characters were replaced"] if broken else []
    notes += [f"{unseen:,} invisible characters were taken out"] if unseen else []
    return replace(file, text=text.strip("\n"), note="; ".join(notes) or None)


def _without_code_blocks(text: str) -> str:
    """The text with every line of a fenced or indented code block replaced by an empty line."""
    lines: list[str] = []
    fence = ""
    listing = False
    code_may_begin = True
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
            line = ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
            line = ""
        elif code_may_begin and not listing and line.startswith(("    ", "\t")):
            line = ""
        elif line.strip() and (_LIST_ITEM.match(line) or code_may_begin):
            # Indented lines in a list belong to its items and are not code.
            listing = bool(_LIST_ITEM.match(line)) or (listing and line[0].isspace())
        code_may_begin = not line.strip()
        lines.append(line)
    return "\n".join(lines)


def _without_code_spans(paragraph: str) -> str:
    """The paragraph without inline code, which is text between two equally long runs of backticks."""
    runs = list(_BACKTICKS.finditer(paragraph))
    closing_run: dict[int, int] = {}
    nearest_of_length: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        length = len(runs[index][0])
        if length in nearest_of_length:
            closing_run[index] = nearest_of_length[length]
        nearest_of_length[length] = index
    outside = []
    start = 0
    index = 0
    while index < len(runs):
        if index in closing_run:
            outside.append(paragraph[start : runs[index].start()])
            index = closing_run[index]
            start = runs[index].end()
        index += 1
    return "`".join([*outside, paragraph[start:]])
