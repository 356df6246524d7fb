"""Facts to look for, those that a compaction must not lose: what the user wants, and the state of the work.

What the user wants is every message, and in it what corrects, what insists, and what settles a question. Pasted matter
(code, logs, somebody's review) is not taken for the user's wishes: only sentences of prose count, and only those with a
plain sign. A decision needs a source: the user's own choice of words, the answer to a question that was put, or the
approval of a plan. The state of the work is the files that were changed, what failed, what is still to be done, and the
present step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct

from sevenfold.lab.fidelity.reader import Account, Call, Told
from sevenfold.lab.fidelity.sentences import LONGEST_SENTENCE, folded, pattern, sentences, telling
from sevenfold.ports import FoundRecord
from sevenfold.recall.search import Hit

USER_MESSAGE, CORRECTION, PREFERENCE, DECISION = "user_message", "correction", "preference", "decision"
EDITED_FILE, ERROR, PENDING_TASK = "edited_file", "error", "pending_task"
CURRENT_STEP, IDENTIFIER = "current_step", "identifier"
MOST = {
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
"""What facts there are, those that matter most first, and how many of each are looked for at most."""
KINDS = tuple(MOST)

SHORT = 14
"""Characters up to which a message could be anywhere by chance."""

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
"""Characters from which on a message is mostly something pasted: only its edges are read for wishes."""
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
"""Characters of a failure that are looked at, half from either end."""


class Probe(Struct, frozen=True):
    """A fact from the records a compaction hides, and how to tell whether it is still there."""

    kind: str
    text: str
    """What to look for, and what to ask recall."""
    record: str
    """The record it comes from; the newest, if several hold it."""
    sought: tuple[str, ...]
    """The kinds of record, as recall names them, among which that is found."""
    match: Match = "words"
    """How it counts as present: all of it (verbatim), to the letter between other signs (exact), or by its
    words, most of which must be close together."""
    accepts: tuple[str, ...] = ()
    """Other texts that say the same and count as well."""

    def found_among(self, hits: Iterable[Hit | FoundRecord]) -> bool:
        """Is its record among what recall found? Another that holds the same words does not count."""
        return any(hit.uuid == self.record for hit in hits)


class Task(Struct, frozen=True):
    """Something on a list of things to do."""

    text: str
    record: str
    over: bool


# -- what the user wants --------------------------------------------------------------------------


def messages(told: Account) -> Iterator[Probe]:
    """Each message of the user; one that was sent several times is one fact, of the last time."""
    said: dict[str, list[Told]] = {}
    for words in (*told.user, *told.refusals):
        said.setdefault(folded(words.text), []).append(words)
    for same in said.values():
        newest = same[-1]
        yield Probe(USER_MESSAGE, newest.text, newest.record, (newest.known_as,), "verbatim")


def wishes(told: Account) -> Iterator[Probe]:
    """Sentences of the user that correct, insist or choose."""
    for words in told.user:
        for sentence in _own_sentences(words.text):
            if kind := _wish(sentence):
                yield Probe(kind, sentence, words.record, (words.known_as,))
    for words in told.refusals:
        first = next(sentences(words.text), "")
        if len(telling(first)) >= 2:
            yield Probe(CORRECTION, first, words.record, (words.known_as,))


def decisions(told: Account) -> Iterator[Probe]:
    """What was settled: proposals the user agreed to, questions answered, plans approved."""
    for words in told.user:
        before = told.preceding.get(words.record)
        if before is not None and _BARE.fullmatch(words.text) and (proposal := _proposal(before.text)):
            yield Probe(DECISION, proposal, before.record, (before.known_as,))
    for call in told.calls:
        answer = told.results.get(call.id)
        if answer is not None:
            yield from _settled(call, answer)


def _settled(call: Call, answer: Told) -> Iterator[Probe]:
    if _ASKS.search(call.name):
        for hit in _ANSWER.finditer(answer.text):
            yield Probe(DECISION, hit[0], answer.record, (answer.known_as,))
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
    kept = "\n".join(line for line in text.splitlines() if not _LOG_LINE.match(line))
    for sentence in sentences(kept):
        if len(telling(sentence)) >= 2:
            yield sentence


def _wish(sentence: str) -> str:
    """Which kind of wish a sentence is; empty if it is none."""
    if sentence.endswith("?") and not _FIRMLY.search(sentence):
        return ""
    if _CORRECTS.search(sentence):
        return CORRECTION
    if _INSISTS.search(sentence):
        return PREFERENCE
    return DECISION if _ASSENTS.search(sentence) else ""


def _proposal(text: str) -> str:
    """The question the model ended with; empty if it did not ask one."""
    asked = [sentence for sentence in sentences(text[-1_500:]) if sentence.endswith("?")]
    return asked[-1] if asked and len(telling(asked[-1])) >= 2 else ""


# -- files -------------------------------------------------------------------------------------


def edited_files(told: Account) -> Iterator[Probe]:
    """Files a call changed, the one changed last at the end; a part of the path that is no other's will do."""
    calls: dict[str, Call] = {}
    for call in told.calls:
        changes = _CHANGES & call.given.keys() or _CHANGING.search(call.name)
        if changes and (path := _path(call)):
            # Taken out and put in again, so that the order is that of the last change.
            calls.pop(path, None)
            calls[path] = call
    tails = Counter(tail for path in set(map(_path, told.calls)) for tail in _tails(path))
    for path, made in calls.items():
        accepts = tuple(tail for tail in _tails(path) if tails[tail] == 1)
        known_as = "edit" if _CHANGES & made.given.keys() else "tool_use"
        yield Probe(EDITED_FILE, path, made.record, (known_as,), "exact", accepts)


def _path(call: Call) -> str:
    given = (call.given.get(name) for name in _PATHS)
    return next((path for path in given if isinstance(path, str) and path and path == path.strip()), "")


def _tails(path: str) -> list[str]:
    """The shorter ways to write a path: without its first parts, down to the name of the file."""
    parts = [part for part in re.split(r"[/\\]", path) if part]
    return ["/".join(parts[start:]) for start in range(len(parts))]


# -- failures ----------------------------------------------------------------------------------


def errors(told: Account) -> Iterator[Probe]:
    """The line by which each failure is known; mistakes in calling a tool come first, as they matter least."""
    seen: dict[str, Told] = {}
    for failure in sorted(told.failures, key=lambda failure: not _USAGE.search(failure.text)):
        if line := identifying_line(failure.text):
            seen[line] = failure
    for line, failure in seen.items():
        yield Probe(ERROR, line, failure.record, (failure.known_as,), "words", _in_other_words(line))


def identifying_line(text: str) -> str:
    """The first line that says what is wrong (in a traceback the last), else the last of all; empty if none does."""
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
    """What counts for the line: the complaint without its place, the name of the test that failed."""
    complaint = _LOCATION.sub("", line)
    test = _FAILED_TEST.search(line)
    return tuple(text for text in (complaint, test[1] if test else "") if len(text) > 8 and text != line)


# -- tasks and the present step ----------------------------------------------------------------


def pending_tasks(told: Account) -> Iterator[Probe]:
    """What is still open on the lists of things to do, as they stood last."""
    lists: dict[str, list[Task]] = {}
    single: dict[str, Task] = {}
    for call in told.calls:
        if (listed := _listed(call)) is not None:
            lists[call.name] = listed
        elif _TASK_TOOL.search(call.name):
            _keep_account(single, call, told.results.get(call.id))
    seen: set[str] = set()
    for task in (*(task for tasks in lists.values() for task in tasks), *single.values()):
        if not task.over and folded(task.text) not in seen:
            seen.add(folded(task.text))
            yield Probe(PENDING_TASK, task.text, task.record, ("tool_use",))


def _listed(call: Call) -> list[Task] | None:
    """The tasks of a call that hands over a whole list; None if it does not."""
    for value in call.given.values():
        if isinstance(value, list) and any(isinstance(one, dict) and "status" in one for one in value):
            return [task for one in value if (task := _task(call.record, one))]
    return None


def _task(record: str, fields: Any) -> Task | None:
    if not isinstance(fields, dict):
        return None
    texts = (fields.get(name) for name in _TASK_TEXTS)
    text = next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")
    return Task(text, record, bool(_OVER.search(str(fields.get("status", ""))))) if text else None


def _keep_account(single: dict[str, Task], call: Call, answer: Told | None) -> None:
    """Tasks that are made and changed one at a time, by the number the tool gave them."""
    number = str(call.given.get("taskId") or call.given.get("task_id") or call.given.get("id") or "")
    if number in single:
        status = str(call.given.get("status", ""))
        old = single[number]
        single[number] = Task(old.text, old.record, bool(_OVER.search(status)) if status else old.over)
    elif "subject" in call.given and (task := _task(call.record, call.given)):
        given = _NUMBER.search(answer.text[:200]) if answer else None
        single[given[1] if given else f"{call.record} {call.id}"] = task


def current_step(told: Account) -> Iterator[Probe]:
    """What the model last said it was doing, and the call it last made."""
    for words in reversed(told.model):
        said = [sentence for sentence in sentences(words.text) if len(telling(sentence)) >= 3]
        if said:
            yield Probe(CURRENT_STEP, said[-1], words.record, ("assistant",))
            break
    if told.calls and (argument := _main_argument(told.calls[-1])):
        call = told.calls[-1]
        shorter = _tails(argument)[-2:] if argument == _path(call) else _SHELL.split(argument)[:1]
        accepts = tuple(text for text in shorter if len(text) > 5)
        yield Probe(CURRENT_STEP, argument, call.record, ("tool_use",), "exact", accepts)


def _main_argument(call: Call) -> str:
    given = (call.given.get(name) for name in _RUN)
    lines = (
        value.strip().splitlines()[0].strip() for value in given if isinstance(value, str) and value.strip()
    )
    return next(lines, "")[:LONGEST_LINE].strip()
