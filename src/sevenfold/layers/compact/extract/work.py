"""The work done: tool calls with their results, and the files, commands and errors in them.

Any agent's tools are understood, by the kinds it declares for them or else by the shape of their input. A call that
names a command runs it; one that names a path and new content changes the file; one that names only a path reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.layers.compact.extract.notation import WAYS, Command, File, FoundError, Quote
from sevenfold.layers.compact.extract.patterns import keys, pattern
from sevenfold.layers.compact.extract.words import one_line
from sevenfold.record import authorship, blocks
from sevenfold.record.blocks import ToolResult, ToolUse, read_fields
from sevenfold.record.layout import Item

_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)

_EXIT = re.compile(
    r"\A\s*Exit code (-?\d+)|(?:exited with|exit) (?:code|status)[: ]+(-?\d+)", re.IGNORECASE
)
_TOOL_ERROR = re.compile(r"\A\s*<tool_use_error>")
_LOOKED_AT = 300
_PLANS = re.compile(r"exit_?plan", re.IGNORECASE)
_LONGEST_REPLY = 1_000


class Call(Struct, frozen=True, dict=True):
    """A tool call and its result."""

    name: str
    kind: str
    """What the tool does: read, shell, search, web, edit or write; empty if unknown."""
    record: str
    given: Mapping[str, Any]
    result: str | None = None
    failed: bool = False
    exit: str = ""
    """The exit code, if the result contains one."""
    reply: str = ""
    """The user's words in the result: an answer, or the reason for refusing the call."""

    @cached_property
    def command(self) -> str:
        """The command line it runs; empty for tools other than a shell."""
        return _command(self.given) if self.kind == "shell" else ""

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The files named in its input."""
        found = [value for key in keys("path") if isinstance(value := self.given.get(key), str) and value]
        several = self.given.get("paths")
        found += [path for path in several if isinstance(path, str)] if isinstance(several, list) else []
        patches = (v for v in self.given.values() if isinstance(v, str) and v.startswith("*** Begin"))
        return tuple(dict.fromkeys([*found, *_PATCHED.findall(next(patches, ""))]))

    @cached_property
    def about(self) -> str:
        """The subject of the call, in short: its command, paths, address or search pattern."""
        named = (v for key in keys("subject") if isinstance(v := self.given.get(key), str) and v)
        return self.command or ", ".join(self.paths) or next(named, "")


def calls(items: Iterable[Item], kinds: Mapping[str, str] = {}) -> list[Call]:
    """All tool calls in these records, in order, each with its result if there is one."""
    items = [item for item in items if not item.hidden_by]
    found = (block for item in items for block in item.said.blocks)
    results = {block.id: block for block in found if block.kind == "tool_result"}
    return [
        _call(item.said.uuid, body, results.get(body.id), kinds)
        for item in items
        if item.said.calls
        for block in item.said.blocks
        if block.kind == "tool_use" and isinstance(body := block.body(), ToolUse)
    ]


def _call(record: str, asked: ToolUse, answer: blocks.Block | None, kinds: Mapping[str, str]) -> Call:
    given = read_fields(asked.input)
    kind = kinds.get(asked.name) or kind_by_shape(asked.name, given)
    if answer is None:
        return Call(asked.name, kind, record, given)
    words = blocks.words_of(answer)
    body = answer.body()
    found = _exit(words[:_LOOKED_AT]) or (_exit(words[-_LOOKED_AT:]) if kind == "shell" else None)
    code = (found[1] or found[2]) if found else ""
    failed = isinstance(body, ToolResult) and bool(body.is_error)
    failed = failed or bool(_TOOL_ERROR.match(words)) or (kind == "shell" and code not in ("", "0"))
    reply = authorship.reply(answer, asked.name)
    return Call(asked.name, kind, record, given, words, failed, code, reply)


def _exit(words: str) -> re.Match[str] | None:
    # A search for the pattern takes far longer, and hardly any result has the word.
    return _EXIT.search(words) if "exit" in words.lower() else None


def kind_by_shape(name: str, given: Mapping[str, Any]) -> str:
    """The probable kind of a tool that has no declared kind; empty if unknown."""
    has_path = any(isinstance(given.get(key), str) for key in keys("path"))
    if name == "apply_patch" or (has_path and any(key in given for key in keys("change"))):
        return "edit"
    if has_path and any(key in given for key in keys("content")):
        return "write"
    if any(key in given for key in keys("search")):
        return "web" if "web" in name.lower() else "search"
    if "url" in given:
        return "web"
    if not has_path and _command(given):
        return "shell"
    return "read" if has_path else ""


def _command(given: Mapping[str, Any]) -> str:
    value = next((given[key] for key in keys("command") if given.get(key)), "")
    if isinstance(value, list):
        words = [str(word) for word in value]
        return words[-1] if words[1:2] in (["-c"], ["-lc"]) else " ".join(words)
    return value if isinstance(value, str) else ""


def replies(made: Iterable[Call]) -> Iterator[Quote]:
    """The user's replies in these calls, oldest first: to a question, to a plan, or when refusing a call."""
    for call in made:
        words = call.reply or (call.result if not call.failed and _PLANS.search(call.name) else "")
        if words:
            yield Quote(one_line(words, _LONGEST_REPLY), call.record)


# -- files, commands and errors ---------------------------------------------------------------

LONGEST_LINE = 240
_LONGEST_COMMAND = 160
_MOST_LINES = 3

_ADDRESS = re.compile(r"\b\w{1,20}://\S+")
_HEREDOC = re.compile(r"<<-?\s*['\"]?\w+.*", re.DOTALL)

_TAGS = re.compile(r"</?tool_use_error>")
_EXIT_LINE = re.compile(r"\A\s*Exit code -?\d+\s*\Z")


def files(made: Iterable[Call]) -> list[File]:
    """The files used by these calls, the most recently used first."""
    found: dict[str, File] = {}
    for call in made:
        if call.failed or call.result is None:
            continue
        how = {"edit": "edited", "write": "written", "read": "read"}.get(call.kind, "")
        for path in call.paths if how else ():
            _touch(found, path, how, call.record)
        for path in paths_in(_HEREDOC.sub("", call.command)):
            _touch(found, path, "mentioned", call.record)
    return list(reversed(merged(found.values())))


def paths_in(text: str) -> list[str]:
    """File paths in a command line or a sentence."""
    bare = _ADDRESS.sub(" ", text)
    found = dict.fromkeys(pattern("path_in_command").findall(bare))
    return [path for path in found if "/" in path or "\\" in path or pattern("bare_name").search(path)]


def merged(found: Iterable[File]) -> list[File]:
    """Merge entries for the same file, oldest first: a relative path joins the one longer path that ends with it."""
    whole: dict[str, File] = {}
    by_name: dict[str, set[str]] = {}
    for file in found:
        name = _plain(file.path).rpartition("/")[2]
        same = [path for path in by_name.setdefault(name, set()) if _same(path, file.path)]
        if len(same) == 1:
            before = whole.pop(same[0])
            by_name[name].discard(same[0])
            file = _together(replace(before, path=max(before.path, file.path, key=len)), file)
        whole[file.path] = file
        by_name[name].add(file.path)
    return list(whole.values())


def _plain(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")


def _same(one: str, other: str) -> bool:
    one = _plain(one)
    other = _plain(other)
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _together(before: File, after: File) -> File:
    counts = {way: getattr(before, way) + getattr(after, way) for way in WAYS}
    return replace(before, last=after.last, **counts)


def _touch(found: dict[str, File], path: str, how: str, record: str) -> None:
    before = found.pop(path, None) or File(path, record, record)
    found[path] = replace(before, last=record, **{how: getattr(before, how) + 1})


def commands(made: Iterable[Call]) -> list[Command]:
    """The command lines, each with the outcome of its last run: newest first, read-only ones last."""
    found: dict[str, Command] = {}
    for call in made:
        if line := one_line(bare_command(call.command), _LONGEST_COMMAND):
            before = found.pop(line, None)
            found[line] = Command(line, _state(call), call.record, before.count + 1 if before else 1)
    newest_first = list(found.values())[::-1]
    return sorted(newest_first, key=lambda command: bool(pattern("looks").match(command.line)))


def bare_command(line: str) -> str:
    """A command line without heredocs and the parts that only set its directory or limit its output."""
    return pattern("around_a_command").sub("", _HEREDOC.sub("<<…", line))


def _state(call: Call) -> str:
    if call.result is None:
        return "no result"
    if call.exit not in ("", "0"):
        return f"exit {call.exit}"
    return "failed" if call.failed else "ok"


def problems(made: Iterable[Call]) -> list[FoundError]:
    """The errors, newest first; those settled by a later success come last."""
    done: set[tuple[str, str]] = set()
    found: dict[tuple[str, str], FoundError] = {}
    for call in reversed(list(made)):
        if call.result is None:
            continue
        if not call.failed:
            done.update(_deeds(call))
            continue
        lines = telling_lines(call.result)
        settled = not done.isdisjoint(_deeds(call))
        found.setdefault((call.name, lines), FoundError(call.name, lines, call.record, settled))
    return sorted(found.values(), key=lambda problem: problem.settled)


def _deeds(call: Call) -> Iterator[tuple[str, str]]:
    """What a call tries to do: if a later call succeeds at the same, the error is settled."""
    kind = call.kind or call.name
    if line := call.command:
        yield kind, " ".join(bare_command(line).split())
    elif call.paths:
        for path in call.paths:
            yield "change" if kind in ("edit", "write") else kind, path
    else:
        yield call.name, call.about


def telling_lines(result: str) -> str:
    """The few characteristic lines of an error, joined; the first line if there are none."""
    if refused := pattern("call_refused").match(result):
        return one_line(f"the call was refused {refused[1] or ''}", LONGEST_LINE)
    lines = [line.strip() for line in _TAGS.sub("", result[:200_000]).splitlines() if line.strip()]
    lines = [line for line in lines if not _EXIT_LINE.match(line)] or lines
    raised = next((line for line in reversed(lines) if pattern("raised").match(line)), None)
    telling = dict.fromkeys([] if raised is None else [raised])
    for line in lines:
        if len(telling) == _MOST_LINES:
            break
        if pattern("telling").search(line.lower()):
            telling[line] = None
    chosen = list(telling) or lines[:1]
    if chosen and chosen[-1].endswith(":"):
        # A line that ends with a colon announces the next one, so include that too.
        place = lines.index(chosen[-1]) + 1
        chosen += lines[place : place + 1]
    return " ⏎ ".join(one_line(line, LONGEST_LINE) for line in chosen)
