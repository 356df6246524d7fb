"""What the commands of an agent may read, write and reach.

A policy is a list of paths with what holds for each: the deepest path that contains a file decides about it. It is made
anew for each command, from paths that no earlier command could change.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.sandbox.newcomers import GuardedName, without_links

_NAMES_A_PATH = re.compile(r'^\s*(hookspath|path)\s*=\s*"?([^"\n]+?)"?\s*$', re.IGNORECASE | re.MULTILINE)
Access = Literal["read", "write", "hidden", "absent"]
"""``hidden``: it seems not to exist. ``absent``: a folder that does not exist, and must not come into being."""
MOST_SYSTEM_FILES = 50_000
"""How many files below /etc are looked at for those that only the administrator may read."""


class PathRule(Struct, frozen=True):
    """What commands may do with a path and everything below it, unless a rule about a deeper path says otherwise."""

    path: Path
    access: Access


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """What a command may read, write and reach."""

    workspace: Path
    rules: tuple[PathRule, ...]
    """In order of depth, so that each rule comes after those about the folders around it."""
    home: Path
    """The user's home, in whose place commands see a private one."""
    hosts: tuple[str, ...] = ()
    """The hosts that commands may reach; none: there is no network."""
    newcomers: tuple[GuardedName, ...] = ()
    """Files that decide what runs later, if they come to exist."""

    def access(self, path: Path) -> Access | None:
        """What commands may do with a path; None if no rule is about it, so that it does not exist for them."""
        deciding = [rule for rule in self.rules if path.is_relative_to(rule.path)]
        return deciding[-1].access if deciding else None

    def agreeing(self, paths: Collection[Path]) -> SandboxPolicy:
        """The policy for a command of which the user has agreed that it writes these guarded files."""
        if not paths:
            return self
        rules: list[PathRule] = []
        for rule in self.rules:
            agreed = any(path.is_relative_to(rule.path) for path in paths)
            around = [other.access for other in self.rules if other.path in rule.path.parents]
            is_guard = rule.access in ("read", "absent") and around[-1:] == ["write"]
            if not (agreed and is_guard):
                rules.append(rule)
        newcomers = [
            name for name in self.newcomers if not any(path.is_relative_to(name.path) for path in paths)
        ]
        return replace(self, rules=tuple(rules), newcomers=tuple(newcomers))


@cache
def path_lists() -> Mapping[str, tuple[str, ...]]:
    """The lists of ``paths.toml``."""
    text = Path(__file__).with_name("paths.toml").read_text(encoding="utf-8")
    return {name: tuple(entries) for name, entries in tomllib.loads(text).items()}


def make_policy(
    workspace: Path,
    *,
    writable: Sequence[Path] = (),
    unguarded: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    hidden: Sequence[Path] = (),
    denied: Iterable[Path] = (),
    hosts: Sequence[str] = (),
) -> SandboxPolicy:
    """The policy for commands that work in a workspace.

    ``writable`` are further folders that count as the workspace, ``unguarded`` folders of the agent's own in which
    nothing is guarded, ``hidden`` what must not exist for commands, such as the store of sessions, and ``denied`` files
    in the workspace that the user's rules keep from the agent.
    """
    home = Path.home().resolve()
    lists = path_lists()
    rules: dict[Path, Access] = {}
    for path in _existing((*lists["system"], *lists["tools"]), home):
        rules[path] = "read"
    for folder in readable:
        rules[folder.resolve()] = "read"
    for path in (*_existing(lists["credentials"], home), *_for_the_administrator(), *hidden):
        rules[path.resolve()] = "hidden"
    roots = [workspace, *writable]
    for root in roots:
        rules[root] = "write"
    for root in roots:
        rules.update(_guards(root))
        rules.update(_repository_elsewhere(root))
    for root in roots:
        rules.update((path, "read") for path in _named_in_settings(root, roots) if path.exists())
    for folder in unguarded:
        rules[folder.resolve()] = "write"
    rules.update((path, "hidden") for path in denied)
    return SandboxPolicy(
        workspace=workspace,
        rules=_ordered(rules),
        home=home,
        hosts=tuple(hosts),
        newcomers=tuple(newcomer for root in roots for newcomer in _newcomers(root)),
    )


def _newcomers(root: Path) -> Iterator[GuardedName]:
    """What must not come into being in a folder that may be written, and in the repository it belongs to."""
    lists = path_lists()
    names = {*lists["guarded_files"], *lists["guarded_folders"]} - set(lists["never_created"])
    repositories = [folder for folder, access in _repository_elsewhere(root) if access == "write"]
    if (root / ".git").is_dir() and not (root / ".git").is_symlink():
        repositories.append(root / ".git")
    candidates = [(root, name) for name in sorted(names)]
    candidates += [(folder, name) for folder in repositories for name in lists["guarded_in_git"]]
    for folder, name in candidates:
        guarded = without_links(folder, name)
        if guarded is not None:
            yield guarded
    for path in _named_in_settings(root, [root]):
        yield GuardedName(root, str(path.relative_to(root)))


def _named_in_settings(root: Path, roots: Sequence[Path]) -> list[Path]:
    """What the settings of a folder's repository name in the workspace: folders of hooks, and further settings."""
    repositories = [root / ".git", *(folder for folder, _ in _repository_elsewhere(root))]
    named: list[Path] = []
    for repository in repositories:
        try:
            text = (repository / "config").read_text(errors="replace")
        except OSError:
            continue
        for key, value in _NAMES_A_PATH.findall(text):
            beside = root if key.lower() == "hookspath" else repository
            path = Path(os.path.normpath(beside / Path(value).expanduser())).resolve()
            inside = any(path.is_relative_to(other) for other in roots)
            around = any(other.is_relative_to(path) for other in roots)
            if inside and not around:
                named.append(path)
    return named


def _ordered(rules: Mapping[Path, Access]) -> tuple[PathRule, ...]:
    """The rules by depth, without those that say again what holds for a folder around them."""
    ordered: list[PathRule] = []
    for path, access in sorted(rules.items(), key=lambda entry: (len(entry[0].parts), entry[0])):
        around = [rule.access for rule in ordered if path.is_relative_to(rule.path)]
        if access != "read" or around[-1:] != ["read"]:
            ordered.append(PathRule(path, access))
    return tuple(ordered)


def _existing(entries: Iterable[str], home: Path) -> Iterator[Path]:
    """The entries of a list that exist, with links resolved."""
    for entry in entries:
        path = home / entry[2:] if entry.startswith("~/") else Path(entry)
        if os.path.lexists(path):
            yield path.resolve()


def _guards(root: Path) -> Iterator[tuple[Path, Access]]:
    """The rules for what decides what runs later, at the top of a folder that may be written."""
    lists = path_lists()
    for name in lists["guarded_folders"]:
        folder = root / name
        if folder.is_symlink() or folder.is_file():
            yield from _guard_existing(root, folder)
        elif not folder.exists():
            # Where the user may not create anything, neither may a command, and nothing could be mounted there.
            if name in lists["never_created"] and os.access(root, os.W_OK):
                yield folder, "absent"
        elif name == ".git":
            yield folder, "write"
            yield from _guards_in_git(folder)
        else:
            yield folder, "read"
    for name in lists["guarded_files"]:
        if os.path.lexists(root / name):
            yield from _guard_existing(root, root / name)


def _guard_existing(root: Path, path: Path) -> Iterator[tuple[Path, Access]]:
    """Make a file read only, and the folder around it a place that cannot be renamed."""
    if path.parent != root and not path.parent.is_symlink():
        yield path.parent, "write"
    target = path.resolve()
    # What a link leads to is guarded too where it may be written. The link itself cannot be: see `newcomers`.
    if target.exists():
        yield target, "read"


def _guards_in_git(folder: Path) -> Iterator[tuple[Path, Access]]:
    for name in path_lists()["guarded_in_git"]:
        path = folder / name
        if path.is_symlink():
            target = path.resolve()
            if target.exists():
                yield target, "read"
        elif path.exists():
            if path.parent != folder:
                yield path.parent, "write"
            yield path, "read"
        elif name in ("hooks", "modules", "worktrees") and os.access(folder, os.W_OK):
            yield path, "absent"


def _repository_elsewhere(root: Path) -> Iterator[tuple[Path, Access]]:
    """Where the root is a linked worktree, the repository it belongs to, if that names the worktree in turn.

    A file ``.git`` may name any folder, so the folder must name this file.
    """
    link = root / ".git"
    if not link.is_file() or link.is_symlink():
        return
    try:
        data = (root / link.read_text().removeprefix("gitdir:").strip()).resolve()
        back = Path((data / "gitdir").read_text().strip())
        common = (data / (data / "commondir").read_text().strip()).resolve()
    except (OSError, UnicodeDecodeError, ValueError):
        return
    if back.resolve() != link.resolve() or data.parent != common / "worktrees":
        return
    yield common, "write"
    yield from _guards_in_git(common)
    yield data, "write"
    yield from _guards_in_git(data)


@cache
def _for_the_administrator() -> tuple[Path, ...]:
    """Where commands run as the administrator: system files that no other user may read."""
    is_administrator = hasattr(os, "geteuid") and os.geteuid() == 0
    return tuple(_unreadable_for_others()) if is_administrator else ()


def _unreadable_for_others() -> Iterator[Path]:
    looked_at = 0
    for folder, names, files in os.walk("/etc"):
        for name in [*names, *files]:
            looked_at += 1
            if looked_at > MOST_SYSTEM_FILES:
                return
            path = Path(folder, name)
            with suppress(OSError):
                mode = path.lstat().st_mode
                needed = stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
                if not stat.S_ISLNK(mode) and not mode & needed:
                    yield path
