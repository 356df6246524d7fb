"""`sevenfold memory`: shows memory and changes it by hand."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from sevenfold.cli.text import add_folder, clean, money, plural, run_editor
from sevenfold.cli.transcripts import add_store, opened_store
from sevenfold.clock import SystemClock
from sevenfold.errors import InputError
from sevenfold.memory import exchange
from sevenfold.memory.entry import KINDS, free_file, new_entry, parse_entry, slug
from sevenfold.memory.generation import MemoryChange
from sevenfold.memory.memory import KnownEntry, Memory
from sevenfold.memory.words import holds
from sevenfold.session.factory import open_memory
from sevenfold.stores.lineage import must_be_user
from sevenfold.stores.settings_files import load

ALL_WELL = "nothing to look at"
BY_HAND = frozenset(("add", "edit", "forget", "close", "confirm", "pin", "unpin", "undo", "import"))
"""Actions that change memory on the user's behalf; an agent may not run them."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("--user", action="store_true")
    add_folder(command)
    add_store(command)
    command.add_argument("--json", action="store_true")
    actions = command.add_subparsers(dest="action", metavar="ACTION")
    for name, (_, does) in _ACTIONS.items():
        action = actions.add_parser(name, help=does)
        match name:
            case "show" | "edit" | "forget" | "close" | "confirm" | "pin" | "unpin":
                action.add_argument("name", metavar="NAME")
            case "add":
                action.add_argument("words", nargs="+", metavar="WORDS")
                action.add_argument("--type", choices=KINDS, default="project", dest="kind")
            case "diff":
                action.add_argument("number", type=int, metavar="NUMBER")
            case "undo":
                action.add_argument(
                    "number", nargs="?", type=int, metavar="NUMBER", help="default: the newest"
                )
            case "import" | "export":
                action.add_argument("tool", choices=sorted(exchange.TOOLS))
                action.add_argument("path", type=Path, metavar="PATH")


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code."""
    options.budget = load(options.folder).settings.memory_daily_budget
    with opened_store(options.store) as store:
        text = perform(open_memory(options.folder, user=options.user, store=store), options)
    sys.stdout.write(f"{clean(text)}\n")
    return 1 if options.action == "check" and not text.endswith(ALL_WELL) else 0


def perform(memory: Memory, options: argparse.Namespace) -> str:
    """Carry out an action; returns the text to print. Raises `sevenfold.errors.UserError` if it cannot be done."""
    if options.action in BY_HAND:
        must_be_user(f"memory {options.action}")
    return _ACTIONS[options.action or "list"][0](memory, options)


def _list(memory: Memory, options: argparse.Namespace) -> str:
    entries = memory.entries()
    if options.json:
        return _json([_facts(known) for known in entries])
    lines = [_line(known, memory.today()) for known in entries]
    lines = lines or [f"nothing is remembered here yet ({memory.path})"]
    if memory.spent:
        of = "" if options.budget is None else f" of {money(options.budget)}"
        lines.append(f"spent on memory today: {money(memory.spent)}{of}")
    return "\n".join(lines)


def _line(known: KnownEntry, today: str) -> str:
    marks = ["pinned"] * known.entry.pinned
    if not known.stamp.trusted:
        marks.append(f"unconfirmed: {_origin(known)}")
    if known.entry.has_expired(today):
        marks.append(f"held until {known.entry.until}")
    mark = f"  [{', '.join(marks)}]" if marks else ""
    return f"{known.entry.name}  {known.entry.description}{mark}"


def _show(memory: Memory, options: argparse.Namespace) -> str:
    known = memory.entry(options.name)
    if options.json:
        return _json(_facts(known))
    stamp = known.stamp
    doubt = "" if stamp.trusted else " (unconfirmed)"
    about = [
        ("type", known.entry.kind),
        ("origin", f"{_origin(known)}{doubt}"),
        ("created", _day(stamp.created)),
        ("confirmed", _day(stamp.verified) if stamp.verified else ""),
        ("until", known.entry.until),
        *(("evidence", record) for record in stamp.evidence),
        (
            "recalled",
            f"{plural(known.usage.used, 'time')}, taken up in {plural(known.usage.helped, 'answer')}",
        ),
        ("file", f"{memory.path}/{known.entry.file}"),
    ]
    return "\n".join([known.entry.body, "", *(f"{name:9}  {value}" for name, value in about if value)])


def _add(memory: Memory, options: argparse.Namespace) -> str:
    sentence = " ".join(options.words).strip()
    if not sentence:
        raise InputError("there is nothing to remember: give a sentence")
    entries = memory.entries()
    for known in entries:
        if known.stamp.trusted and holds(known.entry.statement, sentence):
            return f"already remembered: {known.entry.name}"
    file_names = {f"{known.entry.name}.md" for known in entries}
    name = free_file(f"{slug(sentence)}.md", file_names).removesuffix(".md")
    memory.write(new_entry(name, options.kind, sentence, sentence), "user", "added by hand")
    return f"remembered: {name}"


def _edit(memory: Memory, options: argparse.Namespace) -> str:
    existing = {known_entry.entry.name: known_entry for known_entry in memory.entries()}.get(options.name)
    entry = existing.entry if existing else new_entry(options.name, "project", "", "")
    text = _edited(entry.render(), options.name)
    if existing and text == entry.render():
        return f"{options.name} is unchanged; to vouch for it as it is: sevenfold memory confirm {options.name}"
    changed = parse_entry(entry.file, text)
    if not changed.body:
        raise InputError(f"{options.name} would be empty; to remove it: memory forget {options.name}")
    memory.write(changed, "user", "edited by hand")
    return f"{options.name} is saved"


def _edited(content: bytes, name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.md"
        path.write_bytes(content)
        run_editor(path)
        return path.read_bytes()


def _forget(memory: Memory, options: argparse.Namespace) -> str:
    number = memory.forget(options.name).number
    return f"{options.name} is forgotten; memory undo {number} brings it back"


def _close(memory: Memory, options: argparse.Namespace) -> str:
    number = memory.close(options.name).number
    return f"{options.name} no longer counts; memory undo {number} brings it back"


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
        rows = [{name: getattr(change, name) for name in fields} for change in changes]
        return _json(
            [{**row, "files": list(change.entries)} for row, change in zip(rows, changes, strict=True)]
        )
    shown = []
    for change in changes:
        at = datetime.fromtimestamp(change.at).isoformat(sep=" ", timespec="minutes")
        shown.append(f"{change.number:4}  {at}  {change.by:8}  {change.reason}  ({_files(change)})")
    return "\n".join(shown) or "no changes yet"


def _diff(memory: Memory, options: argparse.Namespace) -> str:
    return memory.diff(memory.change(options.number)).rstrip("\n")


def _undo(memory: Memory, options: argparse.Namespace) -> str:
    undoing = memory.undo(options.number)
    last = memory.change(undoing.number)
    return f"done ({last.reason}): {_files(last)}; memory undo {undoing.number} reverts it"


def _import(memory: Memory, options: argparse.Namespace) -> str:
    path: Path = options.path.expanduser()
    extras: dict[str, str] = {}
    if options.tool == exchange.JSON:
        files, extras = exchange.read_stores(_read(path))
    elif path.is_dir():
        paths = (file for file in sorted(path.rglob("*.md")) if file.is_file() and not file.is_symlink())
        files = {file.relative_to(path).as_posix(): _read(file) for file in paths}
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
    targets = {path / name: content for name, content in files.items()}
    if options.tool == exchange.JSON:
        targets = {path: exchange.write_stores(memory.entries())}
    elif any(".." in Path(name).parts or Path(name).is_absolute() for name in files):
        raise InputError(f"a path among the entries would lead out of {path}")
    try:
        for target, content in targets.items():
            if target != path:
                target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    return f"{len(files)} files written to {path}"


def _check(memory: Memory, options: argparse.Namespace) -> str:
    problems = memory.problems()
    entries = memory.entries()
    for known in entries:
        if not known.stamp.trusted:
            problems.append(
                f"{known.entry.name}: unconfirmed ({_origin(known)}); confirm, edit or forget it"
            )
        if known.entry.has_expired(memory.today()):
            over = f"held until {known.entry.until}; forget it, or edit it if it still holds"
            problems.append(f"{known.entry.name}: {over}")
    verdict = f"{len(problems)} to look at" if problems else ALL_WELL
    return "\n".join([*problems, f"{plural(len(entries), 'entry', 'entries')}, {verdict}"])


_ACTIONS: Mapping[str, tuple[Callable[[Memory, argparse.Namespace], str], str]] = {
    "list": (_list, "what is remembered (default)"),
    "show": (_show, "show an entry"),
    "edit": (_edit, "change an entry in $EDITOR, or make one"),
    "forget": (_forget, "remove an entry"),
    "close": (_close, "end an entry: keep it, and neither list nor recall it"),
    "confirm": (_confirm, "let an entry count as your own words"),
    "pin": (_pin, "keep everything automatic away from an entry"),
    "unpin": (_pin, "let it be merged and updated again"),
    "add": (_add, "remember a sentence"),
    "log": (_log, "every change, the newest first"),
    "diff": (_diff, "what a change did"),
    "undo": (_undo, "take a change back"),
    "import": (_import, "take in another tool's memory"),
    "export": (_export, "give memory out to another tool"),
    "check": (_check, "look for damage, files that cannot be used, and what is out of date"),
}


def _facts(known: KnownEntry) -> dict[str, object]:
    return {
        "name": known.entry.name,
        "file": known.entry.file,
        "type": known.entry.kind,
        "description": known.entry.description,
        "body": known.entry.body,
        "origin": known.stamp.origin,
        "source": known.stamp.source,
        "confirmed": known.stamp.trusted,
        "evidence": list(known.stamp.evidence),
        "created": known.stamp.created,
        "until": known.entry.until or None,
        "verified": known.stamp.verified or None,
        "used": known.usage.used,
        "helped": known.usage.helped,
    }


def _origin(known: KnownEntry) -> str:
    return f"{known.stamp.origin} {known.stamp.source}".strip()


def _files(change: MemoryChange) -> str:
    names = [file.removesuffix(".md") for file in change.entries]
    return ", ".join([*names[:4], *["…"] * (len(names) > 4)])


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).date().isoformat()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
