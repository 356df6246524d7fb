"""`sevenfold memory`: what outlives a session, looked at and changed by hand."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from sevenfold.cli.text import add_folder, clean, money, plural
from sevenfold.clock import SystemClock
from sevenfold.errors import InputError
from sevenfold.memory import exchange
from sevenfold.memory.entry import KINDS, free_name, read_entry, slug, write_entry
from sevenfold.memory.generation import MemoryChange
from sevenfold.memory.memory import KnownEntry, Memory
from sevenfold.session.factory import open_memory
from sevenfold.stores.settings_files import load

ALL_WELL = "nothing to look at"


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("--user", action="store_true")
    add_folder(command)
    command.add_argument("--json", action="store_true")
    actions = command.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="what is remembered (default)")
    for name, does in (
        ("show", "show an entry"),
        ("edit", "change an entry in $EDITOR, or make one"),
        ("forget", "remove an entry"),
        ("confirm", "let an entry count as your own words"),
        ("pin", "keep everything automatic away from an entry"),
        ("unpin", "let it be merged and updated again"),
    ):
        actions.add_parser(name, help=does).add_argument("name", metavar="NAME")
    add = actions.add_parser("add", help="remember a sentence")
    add.add_argument("words", nargs="+", metavar="WORDS")
    add.add_argument("--type", choices=KINDS, default="project", dest="kind")
    actions.add_parser("log", help="every change, the newest first")
    actions.add_parser("diff", help="what a change did").add_argument("number", type=int, metavar="NUMBER")
    undo = actions.add_parser("undo", help="take a change back")
    undo.add_argument("number", nargs="?", type=int, metavar="NUMBER", help="default: the newest")
    for name, does in (
        ("import", "take in another tool's memory"),
        ("export", "give memory out to another tool"),
    ):
        action = actions.add_parser(name, help=does)
        action.add_argument("tool", choices=sorted(exchange.TOOLS))
        action.add_argument("path", type=Path, metavar="PATH")
    actions.add_parser("check", help="look for damage, files that cannot be used, and what is out of date")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    memory = open_memory(options.folder, user=options.user)
    options.budget = load(options.folder).settings.memory_daily_budget
    text = perform(memory, options)
    sys.stdout.write(f"{clean(text)}\n")
    return 1 if options.action == "check" and not text.endswith(ALL_WELL) else 0


def perform(memory: Memory, options: argparse.Namespace) -> str:
    """Carry out an action; returns what to print. Raises `sevenfold.errors.UserError`."""
    return _ACTIONS[options.action or "list"](memory, options)


def _list(memory: Memory, options: argparse.Namespace) -> str:
    known = memory.entries()
    if options.json:
        return _json([_facts(one) for one in known])
    lines = [_line(one, memory.today()) for one in known] or [
        f"nothing is remembered here yet ({memory.path})"
    ]
    if memory.spent:
        of = "" if options.budget is None else f" of {money(options.budget)}"
        lines.append(f"spent on memory today: {money(memory.spent)}{of}")
    return "\n".join(lines)


def _line(one: KnownEntry, today: str) -> str:
    marks = ["pinned"] * one.entry.pinned
    if not one.stamp.trusted:
        marks.append(f"unconfirmed: {_origin(one)}")
    if one.entry.until and one.entry.until < today:
        marks.append(f"held until {one.entry.until}")
    mark = f"  [{', '.join(marks)}]" if marks else ""
    return f"{one.entry.name}  {one.entry.description}{mark}"


def _show(memory: Memory, options: argparse.Namespace) -> str:
    one = memory.entry(options.name)
    if options.json:
        return _json(_facts(one))
    stamp = one.stamp
    about = [
        ("type", one.entry.kind),
        ("origin", f"{_origin(one)}{'' if stamp.trusted else ' (unconfirmed)'}"),
        ("created", _day(stamp.created)),
        ("confirmed", _day(stamp.verified) if stamp.verified else ""),
        ("until", one.entry.until),
        *(("evidence", record) for record in stamp.evidence),
        ("recalled", plural(one.usage.used, "time")),
        ("file", f"{memory.path}/{one.entry.file}"),
    ]
    return "\n".join([one.entry.body, "", *(f"{name:9}  {value}" for name, value in about if value)])


def _add(memory: Memory, options: argparse.Namespace) -> str:
    words = " ".join(options.words).strip()
    if not words:
        raise InputError("there is nothing to remember: give a sentence")
    taken = {f"{one.entry.name}.md" for one in memory.entries()}
    name = free_name(f"{slug(words)}.md", taken).removesuffix(".md")
    memory.write(write_entry(name, options.kind, words, words), "user", "added by hand")
    return f"remembered: {name}"


def _edit(memory: Memory, options: argparse.Namespace) -> str:
    known = {one.entry.name: one for one in memory.entries()}.get(options.name)
    entry = known.entry if known else write_entry(options.name, "project", "", "")
    text = _edited(entry.render(), options.name)
    if known and text == entry.render():
        return f"{options.name} is unchanged; to vouch for it as it is: sevenfold memory confirm {options.name}"
    changed = read_entry(entry.file, text)
    if not changed.body:
        raise InputError(
            f"{options.name} would be empty; to remove it: sevenfold memory forget {options.name}"
        )
    memory.write(changed, "user", "edited by hand")
    return f"{options.name} is saved"


def _edited(content: bytes, name: str) -> bytes:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.md"
        path.write_bytes(content)
        try:
            code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
        except OSError as error:
            raise InputError(
                f"the editor {editor!r} could not be started ({error.strerror}); set EDITOR"
            ) from error
        if code != 0:
            raise InputError(f"the editor {editor!r} ended with exit code {code}; nothing was changed")
        return path.read_bytes()


def _forget(memory: Memory, options: argparse.Namespace) -> str:
    made = memory.forget(options.name)
    return f"{options.name} is forgotten; memory undo {made.number} brings it back"


def _confirm(memory: Memory, options: argparse.Namespace) -> str:
    memory.confirm(options.name)
    return f"{options.name} now counts as your own words"


def _pin(memory: Memory, options: argparse.Namespace) -> str:
    memory.pin(options.name, pinned=options.action == "pin")
    return f"{options.name} is {options.action}ned"


def _log(memory: Memory, options: argparse.Namespace) -> str:
    changes = list(memory.changes())
    if options.json:
        fields = ("number", "at", "by", "reason", "session")
        return _json(
            [
                {**{name: getattr(one, name) for name in fields}, "files": list(one.entries)}
                for one in changes
            ]
        )
    shown = [
        f"{one.number:4}  {_minute(one.at)}  {one.by:8}  {one.reason}  ({_files(one)})" for one in changes
    ]
    return "\n".join(shown) or "no changes yet"


def _diff(memory: Memory, options: argparse.Namespace) -> str:
    return memory.diff(memory.change(options.number)).rstrip("\n")


def _undo(memory: Memory, options: argparse.Namespace) -> str:
    made = memory.undo(options.number)
    last = memory.change(made.number)
    return f"done ({last.reason}): {_files(last)}; memory undo {made.number} reverts it"


def _import(memory: Memory, options: argparse.Namespace) -> str:
    path: Path = options.path.expanduser()
    extras: dict[str, str] = {}
    if options.tool == exchange.JSON:
        files, extras = exchange.read_stores(_read(path))
    elif path.is_dir():
        found = (one for one in sorted(path.rglob("*.md")) if one.is_file() and not one.is_symlink())
        files = {one.relative_to(path).as_posix(): _read(one) for one in found}
    else:
        raise InputError(f"{path} is not a folder; {exchange.TOOLS[options.tool]}")
    done = exchange.take_in(memory, options.tool, files, SystemClock().now(), extras)
    counts = f"{len(done.taken)} imported as unconfirmed, {len(done.known)} already here, {len(done.left)} left out"
    return "\n".join([counts, *(f"  {name}: {why}" for name, why in done.left.items())])


def _export(memory: Memory, options: argparse.Namespace) -> str:
    path: Path = options.path.expanduser()
    files = exchange.give_out(memory.entries(), options.tool)
    if path.exists() and (options.tool == exchange.JSON or not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path} is there already; export to a new one")
    if (
        any(".." in Path(name).parts or Path(name).is_absolute() for name in files)
        and options.tool != exchange.JSON
    ):
        raise InputError(f"a path among the entries would lead out of {path}")
    try:
        if options.tool == exchange.JSON:
            path.write_bytes(exchange.write_stores(memory.entries()))
        else:
            for name, content in files.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(content)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    return f"{len(files)} files written to {path}"


def _check(memory: Memory, options: argparse.Namespace) -> str:
    problems = memory.problems()
    known = memory.entries()
    for one in known:
        if not one.stamp.trusted:
            problems.append(f"{one.entry.name}: unconfirmed ({_origin(one)}); confirm, edit or forget it")
        if one.entry.until and one.entry.until < memory.today():
            problems.append(
                f"{one.entry.name}: held until {one.entry.until}; forget it, or edit it if it still holds"
            )
    verdict = f"{len(problems)} to look at" if problems else ALL_WELL
    return "\n".join([*problems, f"{len(known)} entries, {verdict}"])


_ACTIONS: MappingProxyType[str, Callable[[Memory, argparse.Namespace], str]] = MappingProxyType(
    {
        "list": _list,
        "show": _show,
        "add": _add,
        "edit": _edit,
        "forget": _forget,
        "confirm": _confirm,
        "pin": _pin,
        "unpin": _pin,
        "log": _log,
        "diff": _diff,
        "undo": _undo,
        "import": _import,
        "export": _export,
        "check": _check,
    }
)


def _facts(one: KnownEntry) -> dict[str, object]:
    return {
        "name": one.entry.name,
        "file": one.entry.file,
        "type": one.entry.kind,
        "description": one.entry.description,
        "body": one.entry.body,
        "origin": one.stamp.origin,
        "source": one.stamp.source,
        "confirmed": one.stamp.trusted,
        "evidence": list(one.stamp.evidence),
        "created": one.stamp.created,
        "until": one.entry.until or None,
        "used": one.usage.used,
    }


def _origin(one: KnownEntry) -> str:
    return f"{one.stamp.origin} {one.stamp.source}".strip()


def _files(change: MemoryChange) -> str:
    return ", ".join(file.removesuffix(".md") for file in list(change.entries)[:4]) + ", …" * (
        len(change.entries) > 4
    )


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).date().isoformat()


def _minute(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(sep=" ", timespec="minutes")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
