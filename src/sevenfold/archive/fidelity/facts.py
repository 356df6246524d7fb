"""Facts that a compaction must not lose: what the user wants, and the state of the work.

What the user wants is every message, and in it every correction, preference and decision. Pasted content (code, logs,
another's review) does not count as the user's wishes: only sentences of prose do, and only those that match a pattern.
A decision needs a source: the user's own words, the answer to a question, or the approval of a plan. The state of the
work is the changed files, the failures, the open tasks and the current step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Literal

from msgspec import Struct

from sevenfold.archive.fidelity.reader import Call, ContentByAuthor, Excerpt
from sevenfold.archive.fidelity.sentences import LONGEST_SENTENCE, content_stems, folded, pattern, sentences
from sevenfold.ports import FoundRecord
from sevenfold.recall.search import Hit

USER_MESSAGE = "user_message"
CORRECTION = "correction"
PREFERENCE = "preference"
DECISION = "decision"
EDITED_FILE = "edited_file"
ERROR = "error"
PENDING_TASK = "pending_task"
CURRENT_STEP = "current_step"
IDENTIFIER = "identifier"
MOST_PER_KIND = {
    USER_MESSAGE: 120,
    CORRECTION: 30,
    PREFERENCE: 30,
    DECISION: 30,
    PENDING_TASK: 30,
    CURRENT_STEP: 2,
    EDITED_FILE: 40,
    ERROR: 20,
    IDENTIFIER: 40,
}
"""The kinds of facts, the most important first, and how many of each are looked for at most."""
KINDS = tuple(MOST_PER_KIND)

SHORT = 14
"""Characters up to which a message could occur anywhere by chance."""

Match = Literal["verbatim", "exact", "words"]
_CORRECTS = pattern("corrects")
_INSISTS = pattern("insists")
_FIRMLY = re.compile(r"\b(?:don't|do not|never|make sure|ensure|must|avoid)\b", re.I)
_ASSENTS = pattern("assents")
_BARE = pattern("bare")
_ANSWER = re.compile(r'"([^"\n]{3,400})"="([^"\n]{1,400})"')
_APPROVED = re.compile(r"\b(?:has approved your plan|plan (?:was|has been) approved)\b", re.I)
_HEADING = re.compile(r"^#{1,3} +(\S.*)$", re.M)
_ASKS = re.compile(r"question|\bask", re.I)
_LOG_LINE = re.compile(r"^(?:\s{4,}|\t|\||\$ |[-=]{3}|\d{4}-\d\d-\d\d|\S+:\d+(?::\d+)?[: ]|at \S+\()")
LONG_MESSAGE = 2_500
"""Characters above which a message is mostly pasted: only its two ends are searched for wishes."""
_PATHS = ("file_path", "notebook_path", "path", "filename", "file")
_CHANGES = frozenset(
    ["content", "new_string", "new_str", "file_text", "edits", "new_source", "patch", "diff"]
)
_CHANGING = re.compile(r"edit|write|create|patch|replace|insert", re.I)
_TASK_TEXTS = ("content", "step", "subject", "title", "task", "text", "description")
_OVER = re.compile(r"complete|done|cancel|delet|finish|closed|abandon|skip", re.I)
_TASK_TOOL = re.compile(r"task|todo|plan", re.I)
_NUMBER = re.compile(r"#(\d+)")
_FAILS = pattern("fails")
_FAILS_PLAINLY = pattern("fails_plainly")
_CODE = pattern("code")
_LOCATION = re.compile(r"^\S+:\d+(?::\d+)?:?\s+")
_FAILED_TEST = re.compile(r"\bFAIL(?:ED)?:?\s+(\S{6,})")
_NO_NEWS = pattern("no_news")
_WRAPPED = re.compile(r"</?tool_use_error>")
_USAGE = re.compile(r"<tool_use_error>|has not been read yet|string to replace not found", re.I)
_RUN = ("command", "cmd", "query", "pattern", "url", "prompt", *_PATHS)
_SHELL = re.compile(r"\s*(?:\d?>|\||&&|;)")
LONGEST_LINE = 180
READ = 3_000
"""How many characters of a failure are searched, half from each end."""


class Probe(Struct, frozen=True):
    """A fact from the records a compaction hides, and how to check whether it is still there."""

    kind: str
    text: str
    """The text to look for, also the query for recall."""
    record: str
    """The record it comes from; the newest if there are several."""
    sought: tuple[str, ...]
    """The kinds of record, in recall's terms, to search for it."""
    match: Match = "words"
    """When it counts as present: as a whole, case aside (verbatim), to the letter and not inside a longer word
    (exact), or if most of its words occur close together (words)."""
    accepts: tuple[str, ...] = ()
    """Other texts that count as the same fact."""

    def found_among(self, hits: Iterable[Hit | FoundRecord]) -> bool:
        """Whether recall found its record; another record with the same words does not count."""
        return any(hit.uuid == self.record for hit in hits)


class Task(Struct, frozen=True):
    """An item of a to-do list."""

    text: str
    record: str
    over: bool


# -- what the user wants --------------------------------------------------------------------------


def messages(content: ContentByAuthor) -> Iterator[Probe]:
    """Yield each message of the user; repeated messages are one fact, from the newest record."""
    excerpts: dict[str, list[Excerpt]] = {}
    for excerpt in (*content.user, *content.refusals):
        excerpts.setdefault(folded(excerpt.text), []).append(excerpt)
    for repeats in excerpts.values():
        newest = repeats[-1]
        yield Probe(USER_MESSAGE, newest.text, newest.record, (newest.recall_kind,), "verbatim")


def wishes(content: ContentByAuthor) -> Iterator[Probe]:
    """Yield the user's sentences that correct, insist or choose."""
    for excerpt in content.user:
        for sentence in _own_sentences(excerpt.text):
            if kind := _wish(sentence):
                yield Probe(kind, sentence, excerpt.record, (excerpt.recall_kind,))
    for excerpt in content.refusals:
        first = next(sentences(excerpt.text), "")
        if len(content_stems(first)) >= 2:
            yield Probe(CORRECTION, first, excerpt.record, (excerpt.recall_kind,))


def decisions(content: ContentByAuthor) -> Iterator[Probe]:
    """Yield what was decided: proposals the user agreed to, questions answered, plans approved."""
    for excerpt in content.user:
        preceding = content.preceding.get(excerpt.record)
        if (
            preceding is not None
            and _BARE.fullmatch(excerpt.text)
            and (proposal := _proposal(preceding.text))
        ):
            yield Probe(DECISION, proposal, preceding.record, (preceding.recall_kind,))
    for call in content.calls:
        answer = content.results.get(call.id)
        if answer is not None:
            yield from _settled(call, answer)


def _settled(call: Call, answer: Excerpt) -> Iterator[Probe]:
    if _ASKS.search(call.name):
        for hit in _ANSWER.finditer(answer.text):
            yield Probe(DECISION, hit[0], answer.record, (answer.recall_kind,))
    plan = call.given.get("plan")
    if isinstance(plan, str) and _APPROVED.search(answer.text) and (title := _HEADING.search(plan)):
        text = title[1].strip()[:LONGEST_SENTENCE]
        yield Probe(DECISION, text, call.record, ("tool_use",))


def _own_sentences(text: str) -> Iterator[str]:
    if len(text) > LONG_MESSAGE:
        text = (
            text[: LONG_MESSAGE // 2].rpartition("\n")[0]
            + "\n"
            + text[-LONG_MESSAGE // 2 :].partition("\n")[2]
        )
    prose = "\n".join(line for line in text.splitlines() if not _LOG_LINE.match(line))
    for sentence in sentences(prose):
        if len(content_stems(sentence)) >= 2:
            yield sentence


def _wish(sentence: str) -> str:
    """The kind of wish a sentence expresses; empty if none."""
    if sentence.endswith("?") and not _FIRMLY.search(sentence):
        return ""
    if _CORRECTS.search(sentence):
        return CORRECTION
    if _INSISTS.search(sentence):
        return PREFERENCE
    return DECISION if _ASSENTS.search(sentence) else ""


def _proposal(text: str) -> str:
    """The last question near the end of the model's text; empty if there is none."""
    questions = [sentence for sentence in sentences(text[-1_500:]) if sentence.endswith("?")]
    return questions[-1] if questions and len(content_stems(questions[-1])) >= 2 else ""


# -- files -------------------------------------------------------------------------------------


def edited_files(content: ContentByAuthor) -> Iterator[Probe]:
    """Yield the changed files, the last changed last; an unambiguous tail of the path counts as well."""
    calls: dict[str, Call] = {}
    for call in content.calls:
        changes = _CHANGES & call.given.keys() or _CHANGING.search(call.name)
        if changes and (path := _path(call)):
            # Removed first, so that the order of the dict is that of the last changes.
            calls.pop(path, None)
            calls[path] = call
    paths = set(map(_path, content.calls))
    tails = Counter(chain.from_iterable(map(_tails, paths)))
    for path, edits in calls.items():
        accepts = tuple(tail for tail in _tails(path) if tails[tail] == 1)
        recall_kind = "edit" if _CHANGES & edits.given.keys() else "tool_use"
        yield Probe(EDITED_FILE, path, edits.record, (recall_kind,), "exact", accepts)


def _path(call: Call) -> str:
    arguments = (call.given.get(name) for name in _PATHS)
    return next((path for path in arguments if isinstance(path, str) and path and path == path.strip()), "")


def _tails(path: str) -> list[str]:
    """A path and its shorter forms: without its first parts, down to the file name."""
    segments = [segment for segment in re.split(r"[/\\]", path) if segment]
    return ["/".join(segments[start:]) for start in range(len(segments))]


# -- failures ----------------------------------------------------------------------------------


def errors(content: ContentByAuthor) -> Iterator[Probe]:
    """Yield the line that identifies each failure; misused tools come first, as they matter least."""
    failures_by_line: dict[str, Excerpt] = {}
    for failure in sorted(content.failures, key=lambda failure: not _USAGE.search(failure.text)):
        if line := identifying_line(failure.text):
            failures_by_line[line] = failure
    for line, failure in failures_by_line.items():
        yield Probe(ERROR, line, failure.record, (failure.recall_kind,), "words", _in_other_words(line))


def identifying_line(text: str) -> str:
    """The first line that names the error (in a traceback the last), else the last with any content; may be empty."""
    ends = text if len(text) <= READ else f"{text[: READ // 2]}\n{text[-READ // 2 :]}"
    lines = _WRAPPED.sub("", ends).splitlines()
    telling_lines = [line.strip() for line in lines if not _NO_NEWS.match(line.strip())]
    if "Traceback (most recent call last):" in text:
        telling_lines.reverse()
    if "<tool_use_error>" in text and telling_lines:
        return telling_lines[0][:LONGEST_LINE].strip()
    plain = [line for line in telling_lines if not _CODE.search(line)] or telling_lines
    bad = [line for line in plain if _FAILS.search(line)]
    chosen = next((line for line in bad if _FAILS_PLAINLY.search(line)), bad[0] if bad else "")
    return (chosen or (plain[-1] if plain else ""))[:LONGEST_LINE].strip()


def _in_other_words(line: str) -> tuple[str, ...]:
    """Texts that count as the same error: the message without its location, the name of the failed test."""
    complaint = _LOCATION.sub("", line)
    test = _FAILED_TEST.search(line)
    return tuple(text for text in (complaint, test[1] if test else "") if len(text) > 8 and text != line)


# -- tasks and the current step ----------------------------------------------------------------


def pending_tasks(content: ContentByAuthor) -> Iterator[Probe]:
    """Yield the open tasks of the to-do lists in their latest state."""
    lists: dict[str, list[Task]] = {}
    single: dict[str, Task] = {}
    for call in content.calls:
        if (listed := _listed(call)) is not None:
            lists[call.name] = listed
        elif _TASK_TOOL.search(call.name):
            _track_single_task(single, call, content.results.get(call.id))
    yielded: set[str] = set()
    for task in (*chain.from_iterable(lists.values()), *single.values()):
        if not task.over and folded(task.text) not in yielded:
            yielded.add(folded(task.text))
            yield Probe(PENDING_TASK, task.text, task.record, ("tool_use",))


def _listed(call: Call) -> list[Task] | None:
    """The tasks of a call that writes a whole list; None if it does not."""
    for value in call.given.values():
        if isinstance(value, list) and any(
            isinstance(fields, dict) and "status" in fields for fields in value
        ):
            tasks = (_task(call.record, fields) for fields in value)
            return [task for task in tasks if task]
    return None


def _task(record: str, fields: Any) -> Task | None:
    if not isinstance(fields, dict):
        return None
    texts = (fields.get(name) for name in _TASK_TEXTS)
    text = next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")
    return Task(text, record, bool(_OVER.search(str(fields.get("status", ""))))) if text else None


def _track_single_task(single: dict[str, Task], call: Call, answer: Excerpt | None) -> None:
    """Track tasks that are created and changed one at a time, by the number the tool gave them."""
    number = str(call.given.get("taskId") or call.given.get("task_id") or call.given.get("id") or "")
    if number in single:
        status = str(call.given.get("status", ""))
        earlier = single[number]
        single[number] = Task(
            earlier.text, earlier.record, bool(_OVER.search(status)) if status else earlier.over
        )
    elif "subject" in call.given and (task := _task(call.record, call.given)):
        assigned = _NUMBER.search(answer.text[:200]) if answer else None
        single[assigned[1] if assigned else f"{call.record} {call.id}"] = task


def current_step(content: ContentByAuthor) -> Iterator[Probe]:
    """Yield the model's last meaningful sentence and the main argument of its last call."""
    for excerpt in reversed(content.model):
        telling = [sentence for sentence in sentences(excerpt.text) if len(content_stems(sentence)) >= 3]
        if telling:
            yield Probe(CURRENT_STEP, telling[-1], excerpt.record, ("assistant",))
            break
    if content.calls and (argument := _main_argument(content.calls[-1])):
        call = content.calls[-1]
        shorter = _tails(argument)[-2:] if argument == _path(call) else _SHELL.split(argument)[:1]
        accepts = tuple(text for text in shorter if len(text) > 5)
        yield Probe(CURRENT_STEP, argument, call.record, ("tool_use",), "exact", accepts)


def _main_argument(call: Call) -> str:
    arguments = (call.given.get(name) for name in _RUN)
    texts = (value.strip() for value in arguments if isinstance(value, str))
    first_lines = (text.splitlines()[0].strip() for text in texts if text)
    return next(first_lines, "")[:LONGEST_LINE].strip()
