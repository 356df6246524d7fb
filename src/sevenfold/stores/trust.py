"""The user's own folder, and which other folders the user trusts.

A project folder's settings, hooks and servers take effect only after the user has agreed once; otherwise the author of
the project would decide what runs here. A folder is trusted by its real path, and only that folder: not its subfolders,
and not another folder that a link of the same name points to later. And it is trusted as it was seen: if the files that
decide what runs here change, by a pull or by an agent, the user is asked again.

The list carries a seal, so that an edit by anything but Sevenfold is noticed; then nothing in it counts. The key is
beside it: this stops a command that writes the file, not one that was written to get around it, which only a sandbox
stops.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from sevenfold.errors import SettingError, TranscriptLocked, UserError
from sevenfold.record.decoding import NOT_JSON
from sevenfold.stores.files import private_parent, write_whole
from sevenfold.stores.jsonl.lock import FileLock
from sevenfold.stores.lineage import must_be_user

HOME_VARIABLE = "SEVENFOLD_HOME"
"""Names one folder for all data and settings, instead of the default ones."""
_WAIT_SECONDS = 5.0


SEEN: Mapping[str, tuple[str, ...]] = {
    "settings": (".sevenfold/settings.toml",),
    "hooks": (".sevenfold/hooks.json",),
    "servers": (".mcp.json",),
    "agents": (
        ".sevenfold/agents/**/*.md",
        ".claude/agents/**/*.md",
        ".codex/agents/*.toml",
        ".gemini/agents/*.md",
        ".qwen/agents/*.md",
        ".opencode/agents/**/*.md",
        ".opencode/agent/**/*.md",
    ),
    "commands": (".sevenfold/commands/**/*.md", ".claude/commands/**/*.md", ".codex/prompts/*.md"),
}
"""The files of a folder that decide what runs here. Trust is for these files as they were when it was given."""
_RUN = ("hooks", "servers")
"""What names programs; those in the folder itself count as well."""
PROGRAMS = "programs"
RECIPES: Mapping[str, tuple[str, ...]] = {
    "bun": ("package.json",),
    "deno": ("deno.json", "deno.jsonc"),
    "just": ("justfile", "Justfile", ".justfile"),
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "npm": ("package.json",),
    "nox": ("noxfile.py",),
    "pnpm": ("package.json",),
    "rake": ("Rakefile",),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "tox": ("tox.ini",),
    "yarn": ("package.json",),
}
"""Programs that run what a file of the folder says, and these files."""
MOST_SEEN = 2_000
"""Files that match one pattern and are listed by name; those beyond it are seen as one."""
LARGEST_READ = 4 * 1024 * 1024
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_VARIABLE = re.compile(r"\$\{?(?:CLAUDE|SEVENFOLD)_PROJECT_DIR\}?/?")

TrustState = Literal["trusted", "changed", "unknown"]
"""``changed``: the folder was trusted, and brings something else now."""


class TrustedFolder(Struct, frozen=True):
    """What a folder brought when the user trusted it."""

    seen: dict[str, str] = {}
    """The digest of each file, by its kind and path."""
    servers: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    """The digest of each of its servers that the user agreed to, by name; left out where there is none."""


class _Listed(Struct, frozen=True):
    """The content of the file."""

    folders: dict[str, TrustedFolder] | tuple[str, ...] = {}
    """By real path; an older version listed the paths alone."""
    seal: str = ""
    """Shows that Sevenfold wrote the list, and not something else."""


def brings(folder: Path) -> dict[str, str]:
    """The files of a folder that take effect if it is trusted, as ``kind path``, each with its digest."""
    digests: dict[str, str] = {}
    named: set[Path] = set()
    for kind, patterns in SEEN.items():
        for pattern in patterns:
            matching = _matching(folder, pattern)
            if further := matching[MOST_SEEN:]:
                digests[f"{kind} {pattern}, {len(further):,} further files"] = _state_of(further)
            for path in matching[:MOST_SEEN]:
                content = _content(path)
                digests[f"{kind} {path.relative_to(folder).as_posix()}"] = hashlib.sha256(
                    content
                ).hexdigest()
                if kind in _RUN:
                    named.update(_programs(folder, content))
    for path in sorted(named):
        shown = f"{PROGRAMS} {path.relative_to(folder).as_posix()}"
        digests[shown] = hashlib.sha256(_content(path)).hexdigest()
    return digests


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What a folder brings that it did not bring before, or no longer, in words."""
    changed = [f"changed: {name}" for name in now if name in before and before[name] != now[name]]
    new = [f"new: {name}" for name in now if name not in before]
    gone = [f"gone: {name}" for name in before if name not in now]
    return [*changed, *new, *gone]


def _matching(folder: Path, pattern: str) -> list[Path]:
    try:
        return [path for path in sorted(folder.glob(pattern)) if path.is_file()]
    except (OSError, ValueError):
        return []


def _state_of(paths: Sequence[Path]) -> str:
    """A digest that changes when one of many files does."""
    state = hashlib.sha256()
    for path in paths:
        content = hashlib.sha256(_content(path)).hexdigest()
        state.update(f"{len(path.parts)} {path} {content}\n".encode(errors="surrogateescape"))
    return state.hexdigest()


def _content(path: Path) -> bytes:
    """What is in a file; for one that cannot be read whole, something that changes when the file does."""
    try:
        about = path.stat()
        if about.st_size > LARGEST_READ:
            return f"{about.st_size} {about.st_mtime_ns}".encode()
        return path.read_bytes()
    except OSError as error:
        return f"unreadable: {error.errno}".encode()


def _programs(folder: Path, content: bytes) -> Iterator[Path]:
    """The files in the folder that the commands in a JSON file name."""
    try:
        values: list[object] = [msgspec.json.decode(content)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list):
            values += value
        elif isinstance(value, str):
            for word in re.split(r"[\s;|&<>()'\"=]+", _VARIABLE.sub("", value)):
                for name in _may_run(word):
                    with suppress(OSError, ValueError, RuntimeError):
                        path = (folder / name).resolve()
                        if path.is_file() and path.is_relative_to(folder):
                            yield path


def _may_run(word: str) -> Iterator[str]:
    """The files that a word of a command may stand for: a path, a module of Python, or a recipe."""
    if word:
        yield word
    yield from RECIPES.get(word, ())
    if _MODULE.fullmatch(word):
        path = word.replace(".", "/")
        yield from (f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py")


def user_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder with the user's own settings."""
    try:
        if chosen := environ.get(HOME_VARIABLE):
            return Path(chosen).expanduser().absolute()
        configured = Path(environ.get("XDG_CONFIG_HOME") or "")
        # The XDG standard says to ignore relative paths in that variable.
        return (configured if configured.is_absolute() else Path.home() / ".config") / "sevenfold"
    except RuntimeError as error:
        raise SettingError(f"there is no home folder to keep settings in; set {HOME_VARIABLE}") from error


class Trust:
    """The folders a user trusts."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "trusted.json"
        """The file that lists them; only its owner may be able to write it."""
        self._key_file = folder / "trusted.key"

    def folders(self) -> tuple[str, ...]:
        """Return the real paths of all trusted folders."""
        return tuple(self._listed())

    @property
    def foreign(self) -> bool:
        """Whether something other than Sevenfold changed the list, so that nothing in it counts."""
        listed = self._read()
        return bool(listed.folders) and not self._sealed(listed)

    def covers(self, folder: Path) -> bool:
        """Whether this folder is trusted, and brings what it brought when it was."""
        return self.state(folder) == "trusted"

    def state(self, folder: Path) -> TrustState:
        """Whether this folder is trusted, or was before it changed."""
        real = _real(folder)
        trusted = self._listed().get(str(real))
        if trusted is None:
            return "unknown"
        return "trusted" if brings(real) == trusted.seen else "changed"

    def changes(self, folder: Path) -> list[str]:
        """What a trusted folder brings that it did not bring when it was trusted, or no longer, in words."""
        real = _real(folder)
        trusted = self._listed().get(str(real))
        return differences(trusted.seen, brings(real)) if trusted is not None else []

    def add(self, folder: Path) -> Path:
        """Trust a folder as it is now, and return its real path."""
        real = _real(folder)
        if not real.is_dir():
            raise UserError(f"{folder}: there is no such folder to trust; check the path")
        self._change(
            real, lambda trusted: TrustedFolder(brings(real), trusted.servers if trusted else msgspec.UNSET)
        )
        return real

    def servers(self, folder: Path) -> dict[str, str]:
        """The servers of a trusted folder that the user agreed to, each with the digest of what was seen."""
        trusted = self._listed().get(str(_real(folder)))
        return trusted.servers if trusted is not None and isinstance(trusted.servers, dict) else {}

    def server(self, folder: Path, name: str) -> str:
        """The digest of a server of a trusted folder as the user agreed to it; empty if they did not."""
        return self.servers(folder).get(name, "")

    def agree_to(self, folder: Path, name: str, digest: str) -> None:
        """Remember that the user agreed to a server of a trusted folder; does nothing for any other folder."""

        def with_server(trusted: TrustedFolder | None) -> TrustedFolder | None:
            if trusted is None:
                return None
            held = trusted.servers if isinstance(trusted.servers, dict) else {}
            return TrustedFolder(trusted.seen, held | {name: digest})

        self._change(_real(folder), with_server)

    def remove(self, folder: Path) -> bool:
        """Stop trusting a folder, which need not exist any more; return whether it was trusted."""
        return self._change(_real(folder), lambda known: None)

    def _listed(self) -> dict[str, TrustedFolder]:
        """The trusted folders; none if something other than Sevenfold wrote the list."""
        listed = self._read()
        return listed.folders if isinstance(listed.folders, dict) and self._sealed(listed) else {}

    def _read(self) -> _Listed:
        try:
            with self.path.open("rb") as file:
                self._refuse_foreign(os.fstat(file.fileno()))
                return msgspec.json.decode(file.read(), type=_Listed)
        except FileNotFoundError:
            return _Listed()
        except OSError as error:
            raise SettingError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        except NOT_JSON as error:
            raise SettingError(
                f"{self.path}: is damaged ({error}); remove it and trust your folders again"
            ) from error

    def _sealed(self, listed: _Listed) -> bool:
        key = self._key()
        # As bytes: of two texts, only ASCII can be compared, and a damaged file may have anything there.
        return bool(key) and hmac.compare_digest(
            _seal(key, listed).encode(), listed.seal.encode(errors="replace")
        )

    def _key(self) -> bytes:
        """The key of the seal; empty if there is none yet."""
        try:
            return self._key_file.read_bytes()
        except OSError:
            return b""

    def _change(self, folder: Path, change: Callable[[TrustedFolder | None], TrustedFolder | None]) -> bool:
        """Change what is listed for the folder, None standing for nothing; return whether the list changed."""
        must_be_user("trusting a folder")
        try:
            private_parent(self.path)
            lock = FileLock(self.path, wait=_WAIT_SECONDS)
        except TranscriptLocked as error:
            raise UserError(f"{self.path}: another process is changing it; try again") from error
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror or error}") from error
        with lock:
            folders_before = self._listed()
            entry = change(folders_before.get(str(folder)))
            if folders_before.get(str(folder)) == entry:
                return False
            listed = {path: trusted for path, trusted in folders_before.items() if path != str(folder)}
            if entry is not None:
                listed[str(folder)] = entry
            if not (key := self._key()):
                key = secrets.token_hex(16).encode()
                write_whole(self._key_file, key)
            content = _Listed(dict(sorted(listed.items())))
            content = msgspec.structs.replace(content, seal=_seal(key, content))
            write_whole(self.path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
        return True

    def _refuse_foreign(self, about: os.stat_result) -> None:
        """Raise `SettingError` if other users could have written the list."""
        if os.name != "posix":
            return
        if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SettingError(
                f"{self.path}: others can write it, so it counts for nothing; "
                f"look it through, make it yours and run: chmod 600 {self.path}"
            )


def _seal(key: bytes, listed: _Listed) -> str:
    return hmac.new(key, msgspec.json.encode(listed.folders), hashlib.sha256).hexdigest()


def _real(folder: Path) -> Path:
    try:
        return folder.expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SettingError(f"{folder}: the path cannot be followed: {error}; check it") from error
