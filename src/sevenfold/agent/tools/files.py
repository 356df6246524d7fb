"""Safe file access: the file that is opened is the file that was permitted.

A path is resolved once, links included, and permission is requested for the result. Later that path is opened one
component at a time with links refused, so a link that was put in place in between is not followed. Only regular files
are read, because a pipe or device could block the reader forever. Writing replaces a file as a whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, Literal

from msgspec import Struct

from sevenfold.agent.permissions.paths import in_repository
from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.tools.context import Context
from sevenfold.errors import InputError, Refused

MOST_BYTES = 32 * 1024 * 1024
"""The size of the largest file that is loaded into memory, for editing and for versions by content hash."""
LONGEST_PATH = 4_000
"""The most bytes of a path. Longer ones could be created step by step, but no other program could open them."""
_VIRTUAL = ("/proc", "/sys")
"""Folders of virtual files: reading them may block, or reveal environments that contain keys."""
_STEPS = os.supports_dir_fd >= {os.open, os.mkdir, os.rename, os.unlink} and hasattr(os, "O_NOFOLLOW")
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY) | _NO_LINKS
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


class FilePath(Struct, frozen=True):
    """An absolute path as it was given, and with links resolved."""

    named: str
    real: str


def resolve(path: str, context: Context) -> FilePath:
    """Resolve a path, relative to the working directory; ``~`` is the home folder.

    Raises `InputError` if it is not a valid path.
    """
    if "\0" in path or not path:
        raise InputError(f"{path!r} is not a valid path; give a file's path without NUL characters")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InputError(f"{path!r} is not a valid path: incomplete character") from None
    named = os.path.normpath(context.desk.cwd / Path(path).expanduser())
    if len(os.fsencode(named)) > LONGEST_PATH:
        raise InputError(f"{path[:100]!r}… is not a valid path: it has more than {LONGEST_PATH:,} bytes")
    # Not from the normalised path: after a link, ".." leads somewhere else than the text suggests.
    return FilePath(named, os.path.realpath(context.desk.cwd / Path(path).expanduser()))


def request(tool: str, action: Literal["read", "write"], path: str, context: Context) -> PermissionRequest:
    """The permission request for a tool to read or write a path."""
    resolved = resolve(path, context)
    named = resolved.named if resolved.named != resolved.real else ""
    guarded = (resolved.real,) if action == "write" and in_repository(resolved.real) else ()
    return PermissionRequest(tool, action, resolved.real, named, in_repository=guarded)


def permitted_path(path: str, context: Context) -> str:
    """The resolved path that was permitted; if no permission was requested, the path resolved now."""
    return context.permitted.subject if context.permitted else resolve(path, context).real


@contextmanager
def opened(real: str) -> Iterator[BinaryIO]:
    """Open a regular file, given its resolved path, for reading; raises `Refused` for anything else."""
    must_be_stored(real)
    with _parent(real) as (folder, name):
        try:
            descriptor = os.open(name, os.O_RDONLY | _NO_LINKS | _AT_ONCE, dir_fd=folder)
        except FileNotFoundError:
            raise Refused(_missing(real)) from None
        except OSError as error:
            raise Refused(_unreadable(real, error)) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise Refused(f"{real} is {_kind(mode)}, not a file that can be read.")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def must_be_stored(real: str) -> None:
    """Raise `Refused` for virtual files: they show the current state of the system, or of this very program."""
    if any(f"{real}/".startswith(f"{folder}/") for folder in _VIRTUAL):
        raise Refused(f"{real} is a virtual file; look at it with a command.")


def content(real: str) -> bytes:
    """The whole content of a file; raises `Refused` if it is too large to be changed here."""
    with opened(real) as file:
        content_read = file.read(MOST_BYTES + 1)
    if len(content_read) > MOST_BYTES:
        raise Refused(f"{real} has more than {MOST_BYTES:,} bytes; change it with a command instead.")
    return content_read


def exists(real: str) -> bool:
    """Whether there is anything at this path."""
    return os.path.lexists(real)


def version(content: bytes) -> str:
    """The version of a content: its hash."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def version_by_date(file: BinaryIO) -> str:
    """The version of a file too large to hash: its modification time, size and inode."""
    state = os.fstat(file.fileno())
    return f"{state.st_mtime_ns}-{state.st_size}-{state.st_ino}"


def write(real: str, content: bytes, expected: str | None) -> None:
    """Write a file atomically, and create the folders it needs.

    ``expected`` is the version on disk, None if there should be no file. Raises `Refused` and writes nothing if the
    file on disk differs.
    """
    with _parent(real, make=True) as (folder, name):
        old_mode = _mode(name, folder, real)
        temporary = f".{name[:100]}.{secrets.token_hex(6)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS | getattr(os, "O_BINARY", 0)
        descriptor = os.open(temporary, flags, 0o666, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                if old_mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(descriptor, old_mode)
            _expect(real, expected)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def _expect(real: str, expected: str | None) -> None:
    current = version(content(real)) if exists(real) else None
    if current != expected:
        raise Refused(f"{real} was changed by another program; nothing was written. Read it again.")


def _mode(name: str, folder: int | None, real: str) -> int | None:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise Refused(f"{real} is {_kind(mode)}; only files can be written.")
    return stat.S_IMODE(mode)


@contextmanager
def _parent(real: str, *, make: bool = False) -> Iterator[tuple[int | None, str]]:
    """Open a file's folder, one path component at a time; yields its descriptor and the name of the file in it."""
    path = Path(real)
    if not path.is_absolute() or not path.name:
        raise Refused(f"{real} is not a file.")
    if not _STEPS:
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
        yield None, real
        return
    descriptor = os.open(path.anchor, _FOLDER)
    try:
        for component in path.parts[1:-1]:
            next_descriptor = _step(component, descriptor, real, make=make)
            os.close(descriptor)
            descriptor = next_descriptor
        yield descriptor, path.name
    finally:
        os.close(descriptor)


def _step(component: str, folder: int, real: str, *, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(component, dir_fd=folder)
    try:
        return os.open(component, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        raise Refused(_missing(real)) from None
    except OSError as error:
        raise Refused(
            f"{real}: {component} is not a folder that can be opened ({error.strerror})."
        ) from error


def _missing(real: str) -> str:
    """The error text for a missing file, with similar names in its folder."""
    path = Path(real)
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return f"There is no file {real}, and no folder {path.parent}."
    similar = get_close_matches(path.name, names, 3, 0.5)
    similar += [name for name in names if Path(name).stem == path.stem and name not in similar][:3]
    return f"There is no file {real}." + (
        f" In the same folder there is {', '.join(similar)}." if similar else ""
    )


def _unreadable(real: str, error: OSError) -> str:
    if Path(real).is_symlink():
        return f"{real} has just become a link to somewhere else; it is not followed. Try again."
    return f"{real} cannot be read: {error.strerror}."


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISLNK(mode):
        return "a link"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"
