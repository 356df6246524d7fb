"""What is still to be done: entries of to-do tools that are not finished, and what the model announced.

To-do tools come in two shapes. One hands over its whole list each time, and the last list counts. The
other creates entries one by one and changes them by number. Both are known by what they are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from sevenfold.layers.compact.extract.calls import Call
from sevenfold.layers.compact.extract.facts import Quote, Task
from sevenfold.layers.compact.extract.words import LONGEST_SENTENCE, sentences
from sevenfold.layers.compact.extract.work import one_line

_LISTS = ("todos", "tasks", "plan", "items", "steps")
_TEXTS = ("content", "text", "title", "subject", "step", "task", "description")
_NUMBERS = ("taskId", "task_id", "todo_id", "id")
_DONE = frozenset({"completed", "complete", "done", "cancelled", "canceled", "deleted", "removed"})
_DOING = frozenset({"in_progress", "in-progress", "doing", "active", "started"})
_TO_DO_TOOL = re.compile(r"task|todo", re.IGNORECASE)
_CREATED = re.compile(r"#(\w+)")
_LONGEST = 300

_ANNOUNCES = re.compile(
    r"\b(?:next(?:,| step| up| I)|remaining|remains? to|still (?:need|have|to)|left to do|to-?do\b|not yet"
    r"|follow-?up|pending|outstanding|after that|I(?:['’]ll| will) (?:now|next|then)|now I(?:['’]ll| will)"
    r"|let me (?:now|next)|now let me)",
    re.IGNORECASE,
)


def open_tasks(made: Iterable[Call], before: Iterable[Task] = ()) -> list[Task]:
    """The to-do list as it stands after these calls, if it stood so before; what is done is left out."""
    tasks = {task.number or task.text: task for task in before}
    for call in made:
        if call.failed:
            continue
        if (entries := _whole_list(call.given)) is not None:
            tasks = {task.text: task for task in _read_list(entries, call.record)}
        elif _TO_DO_TOOL.search(call.name):
            _change(tasks, call)
    return list(tasks.values())


def _whole_list(given: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    for name in _LISTS:
        entries = given.get(name)
        if isinstance(entries, list) and all(map(_is_entry, entries)):
            return entries
    return None


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and "status" in entry and bool(_text(entry))


def _read_list(entries: Sequence[Mapping[str, Any]], record: str) -> Iterable[Task]:
    for entry in entries:
        state = str(entry["status"]).lower()
        if state not in _DONE:
            yield Task(_text(entry), record, state in _DOING)


def _change(tasks: dict[str, Task], call: Call) -> None:
    """One entry made or changed; which number a new one has, only the answer tells."""
    given, state = call.given, str(call.given.get("status", "")).lower()
    number = next((str(given[key]) for key in _NUMBERS if isinstance(given.get(key), str | int)), "")
    if not number and isinstance(given.get("subject") or given.get("title"), str):
        told = _CREATED.search(call.result or "")
        number = told[1] if told else ""
        tasks[number or _text(given)] = Task(_text(given), call.record, state in _DOING, number)
    elif number and state in _DONE:
        tasks.pop(number, None)
    elif number in tasks:
        tasks[number] = replace(
            tasks[number],
            text=one_line(str(given.get("subject") or tasks[number].text), _LONGEST),
            doing=state in _DOING if state else tasks[number].doing,
            record=call.record,
        )


def _text(entry: Mapping[str, Any]) -> str:
    found = (value for name in _TEXTS if isinstance(value := entry.get(name), str) and value.strip())
    return one_line(next(found, ""), _LONGEST)


def announced(last: Iterable[Quote]) -> list[Quote]:
    """Sentences in which the model said what is still to come."""
    return [
        Quote(one_line(sentence, LONGEST_SENTENCE), said.record)
        for said in last
        for sentence in sentences(said.text)
        if _ANNOUNCES.search(sentence)
    ]
