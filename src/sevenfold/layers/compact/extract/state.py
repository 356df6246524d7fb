"""The state of the work: the model's last words in each turn, the newest rounds line by line, and open tasks.

There are two kinds of to-do tools. One passes its whole list each time, and the last list counts. The other creates
entries one by one and changes them by number. Both are recognised by their input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from sevenfold.layers.compact.extract.notation import Quote, Task
from sevenfold.layers.compact.extract.patterns import keys, pattern
from sevenfold.layers.compact.extract.words import (
    LONGEST_SENTENCE,
    models_words,
    one_line,
    sentences,
    users_words,
)
from sevenfold.layers.compact.extract.work import Call, bare_command, telling_lines
from sevenfold.record.layout import Item, rounds

_ROUNDS = 10
_LONGEST_OUTCOME = 700
_LONGEST_LAST_WORDS = 2_000
_LONGEST_WORDS = 300
_LONGEST_CALL = 160
_TO_DO_TOOL = re.compile(r"task|todo", re.IGNORECASE)
_CREATED = re.compile(r"#(\w+)")
_LONGEST_TASK = 300

_WORD = re.compile(r"[^\W\d_]{4,}|\d{2,}")
_SAME = 0.6
"""Share of a pending line's words that a report of finished work must contain to settle it."""


def outcomes(items: Sequence[Item]) -> list[Quote]:
    """The model's last words before each message of the user, and its newest words."""
    last_words: list[Quote] = []
    last: Quote | None = None
    for item in items:
        if text := models_words(item):
            last = Quote(one_line(text, _LONGEST_OUTCOME), item.record.uuid)
        elif last and users_words(item):
            last_words.append(last)
            last = None
    return [*last_words, last] if last else last_words


def newest(items: Sequence[Item], tool_calls: Sequence[Call], names: dict[str, str]) -> list[str]:
    """The events of the newest rounds as lines, oldest first; the model's last words are shown at more length."""
    by_record: dict[str, list[Call]] = {}
    for call in tool_calls:
        by_record.setdefault(call.record, []).append(call)
    newest_rounds = chain.from_iterable(recent.items for recent in rounds(items)[-_ROUNDS:])
    recent = [item for item in newest_rounds if not item.hidden_by]
    spoken = [item.record.uuid for item in recent if models_words(item)]
    lines: list[str] = []
    for item in recent:
        name = names.get(item.record.uuid, item.record.uuid)
        if text := models_words(item):
            limit = _LONGEST_LAST_WORDS if item.record.uuid == spoken[-1] else _LONGEST_WORDS
            lines.append(f"- the model said: “{one_line(text, limit)}” [{name}]")
        elif text := users_words(item):
            lines.append(f"- the user said: “{one_line(text, _LONGEST_WORDS)}” [{name}]")
        lines += [f"- {_came_of(call)} [{name}]" for call in by_record.get(item.record.uuid, ())]
    return lines


def _came_of(call: Call) -> str:
    did = f"{call.name} {one_line(_about(call), _LONGEST_CALL)}".strip()
    if call.result is None:
        return f"{did} → no result yet"
    if call.failed:
        return f"{did} → failed: “{telling_lines(call.result)}”"
    lines = map(str.strip, reversed(call.result[-2_000:].splitlines()))
    end = next(filter(None, lines), "")
    shows = call.kind in ("shell", "")
    return f"{did} → ok, ends: “{one_line(end, 120)}”" if shows and end else f"{did} → ok"


def _about(call: Call) -> str:
    """The subject of a call in short: a bare command, or the ends of its paths; other lists have them in full."""
    if call.command:
        return bare_command(call.command)
    near = [path.replace("\\", "/").split("/")[-3:] for path in call.paths]
    return ", ".join("/".join(ends) for ends in near) or call.about


# -- open tasks --------------------------------------------------------------------


def open_tasks(tool_calls: Iterable[Call], tasks_before: Iterable[Task] = ()) -> list[Task]:
    """The open entries of the to-do list after these calls, given the list before them."""
    tasks = {task.number or task.text: task for task in tasks_before}
    for call in tool_calls:
        if call.failed:
            continue
        if (entries := _whole_list(call.arguments)) is not None:
            unfinished = {text: state for text, state in entries if state not in keys("done")}
            tasks = {
                text: Task(text, call.record, state in keys("doing")) for text, state in unfinished.items()
            }
        elif _TO_DO_TOOL.search(call.name):
            _change(tasks, call)
    return list(tasks.values())


def _whole_list(arguments: Mapping[str, Any]) -> list[tuple[str, str]] | None:
    """The entries of a to-do list passed as a whole, each with its state; None if the input has no such list."""
    for name in keys("list"):
        entries = arguments.get(name)
        if isinstance(entries, list) and all(
            isinstance(entry, dict) and "status" in entry and _text(entry) for entry in entries
        ):
            return [(_text(entry), str(entry["status"]).lower()) for entry in entries]
    return None


def _change(tasks: dict[str, Task], call: Call) -> None:
    """Apply a call that creates or changes one entry; only the result contains the number of a new one."""
    arguments = call.arguments
    state = str(call.arguments.get("status", "")).lower()
    number = next(
        (str(arguments[key]) for key in keys("number") if isinstance(arguments.get(key), str | int)), ""
    )
    if not number and isinstance(arguments.get("subject") or arguments.get("title"), str):
        created = _CREATED.search(call.result or "")
        number = created[1] if created else ""
        tasks[number or _text(arguments)] = Task(
            _text(arguments), call.record, state in keys("doing"), number
        )
    elif number and state in keys("done"):
        tasks.pop(number, None)
    elif task := tasks.get(number):
        text = one_line(str(arguments.get("subject") or task.text), _LONGEST_TASK)
        doing = state in keys("doing") if state else task.doing
        tasks[number] = replace(task, text=text, doing=doing, record=call.record)


def _text(entry: Mapping[str, Any]) -> str:
    texts = (text for key in keys("entry") if isinstance(text := entry.get(key), str) and text.strip())
    return one_line(next(texts, ""), _LONGEST_TASK)


def announced(items: Sequence[Item]) -> list[Quote]:
    """Sentences of the newest answer that announce next steps; those of earlier answers have been started since."""
    answer = rounds(items)[-1].answer if items else ()
    quotes = []
    for item in answer:
        announcements = filter(pattern("announces").search, sentences(models_words(item)))
        quotes += [
            Quote(one_line(sentence, LONGEST_SENTENCE), item.record.uuid) for sentence in announcements
        ]
    return quotes


def still_open(text: str, items: Iterable[Item], tool_calls: Iterable[Call]) -> str:
    """The pending tasks of an earlier summary, without the lines that a later record reports as done."""
    if not text.strip():
        return text
    done = list(map(_stems, [*_reported_done(items), *_checked_off(tool_calls)]))
    return "\n".join(line for line in text.split("\n") if not _settled(_stems(line), done))


def _reported_done(items: Iterable[Item]) -> Iterator[str]:
    """The sentences in which the model reports that something is done."""
    for item in items:
        for sentence in sentences(models_words(item)):
            if pattern("is_done").search(sentence) and not pattern("is_not_done").search(sentence):
                yield sentence


def _checked_off(tool_calls: Iterable[Call]) -> Iterator[str]:
    """The entries of to-do lists that are marked as done."""
    for call in tool_calls:
        entries = None if call.failed else _whole_list(call.arguments)
        for text, state in entries or ():
            if state in keys("done"):
                yield text


def _settled(wanted: frozenset[str], done: Iterable[frozenset[str]]) -> bool:
    return len(wanted) > 1 and any(len(wanted & report) >= _SAME * len(wanted) for report in done)


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem[:5] for stem in _WORD.findall(text.casefold()))
