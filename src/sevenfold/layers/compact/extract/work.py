"""The work done: tool calls with their results, and the files, commands and errors in them.

Any agent's tools are understood, by the kinds it declares for them or else by the shape of their input. A call that
names a command runs it; one that names a path and new content changes the file; one that names only a path reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.layers.compact.extract.notation import WAYS, Command, File, FoundError, Quote
from sevenfold.layers.compact.extract.patterns import keys, pattern
from sevenfold.layers.compact.extract.words import one_line
from sevenfold.record import authorship, blocks
from sevenfold.record.blocks import ToolResult, ToolUse, read_fields
from sevenfold.record.entries import Said
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
    arguments: Mapping[str, Any]
    result: str | None = None
    failed: bool = False
    exit: str = ""
    """The exit code, if the result contains one."""
    reply: str = ""
    """The user's words in the result: an answer, or the reason for refusing the call."""

    @cached_property
    def command(self) -> str:
        """The command line it runs; empty for tools other than a shell."""
        return _command(self.arguments) if self.kind == "shell" else ""

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The files named in its input."""
        named = [self.arguments.get(key) for key in keys("path")]
        several = self.arguments.get("paths")
        if isinstance(several, list):
            named += several
        patch = next(filter(_is_patch, self.arguments.values()), "")
        paths = [path for path in named if isinstance(path, str) and path]
        return tuple(dict.fromkeys([*paths, *_PATCHED.findall(patch)]))

    @cached_property
    def about(self) -> str:
        """The subject of the call, in short: its command, paths, address or search pattern."""
        if short := self.command or ", ".join(self.paths):
            return short
        subjects = map(self.arguments.get, keys("subject"))
        return next((subject for subject in subjects if isinstance(subject, str) and subject), "")


def _is_patch(argument: object) -> bool:
    return isinstance(argument, str) and argument.startswith("*** Begin")


def calls(items: Iterable[Item], kinds: Mapping[str, str] = {}) -> list[Call]:
    """All tool calls in these records, in order, each with its result if there is one."""
    items = [item for item in items if not item.hidden_by]
    all_blocks = chain.from_iterable(item.record.blocks for item in items)
    results = {block.id: block for block in all_blocks if block.kind == "tool_result"}
    tool_calls = []
    for item in items:
        requests = _requests(item.record)
        tool_calls += [_call(item.record.uuid, asked, results.get(asked.id), kinds) for asked in requests]
    return tool_calls


def _requests(record: Said) -> Iterator[ToolUse]:
    """The tool calls in a record, as the model wrote them."""
    for block in record.blocks if record.calls else ():
        if block.kind == "tool_use" and isinstance(body := block.body(), ToolUse):
            yield body


def _call(record: str, request: ToolUse, result: blocks.Block | None, kinds: Mapping[str, str]) -> Call:
    arguments = read_fields(request.input)
    kind = kinds.get(request.name) or kind_by_shape(request.name, arguments)
    if result is None:
        return Call(request.name, kind, record, arguments)
    text = blocks.words_of(result)
    body = result.body()
    exit_match = _exit(text[:_LOOKED_AT]) or (_exit(text[-_LOOKED_AT:]) if kind == "shell" else None)
    code = (exit_match[1] or exit_match[2]) if exit_match else ""
    failed = isinstance(body, ToolResult) and bool(body.is_error)
    failed = failed or bool(_TOOL_ERROR.match(text)) or (kind == "shell" and code not in ("", "0"))
    reply = authorship.reply(result, request.name)
    return Call(request.name, kind, record, arguments, text, failed, code, reply)


def _exit(text: str) -> re.Match[str] | None:
    # A search for the pattern takes far longer, and hardly any result has the word.
    return _EXIT.search(text) if "exit" in text.lower() else None


def kind_by_shape(name: str, arguments: Mapping[str, Any]) -> str:
    """The probable kind of a tool that has no declared kind; empty if unknown."""
    has_path = any(isinstance(arguments.get(key), str) for key in keys("path"))
    if name == "apply_patch" or (has_path and any(key in arguments for key in keys("change"))):
        return "edit"
    if has_path and any(key in arguments for key in keys("content")):
        return "write"
    if any(key in arguments for key in keys("search")):
        return "web" if "web" in name.lower() else "search"
    if "url" in arguments:
        return "web"
    if not has_path and _command(arguments):
        return "shell"
    return "read" if has_path else ""


def _command(arguments: Mapping[str, Any]) -> str:
    value = next((arguments[key] for key in keys("command") if arguments.get(key)), "")
    if isinstance(value, list):
        argv = [str(argument) for argument in value]
        return argv[-1] if argv[1:2] in (["-c"], ["-lc"]) else " ".join(argv)
    return value if isinstance(value, str) else ""


def replies(tool_calls: Iterable[Call]) -> Iterator[Quote]:
    """The user's replies in these calls, oldest first: to a question, to a plan, or when refusing a call."""
    for call in tool_calls:
        text = call.reply or (call.result if not call.failed and _PLANS.search(call.name) else "")
        if text:
            yield Quote(one_line(text, _LONGEST_REPLY), call.record)


# -- files, commands and errors ---------------------------------------------------------------

LONGEST_LINE = 240
_LONGEST_COMMAND = 160
_MOST_LINES = 3

_ADDRESS = re.compile(r"\b\w{1,20}://\S+")
_HEREDOC = re.compile(r"<<-?\s*['\"]?\w+.*", re.DOTALL)

_TAGS = re.compile(r"</?tool_use_error>")
_EXIT_LINE = re.compile(r"\A\s*Exit code -?\d+\s*\Z")


def files(tool_calls: Iterable[Call]) -> list[File]:
    """The files used by these calls, the most recently used first."""
    used: dict[str, File] = {}
    for call in tool_calls:
        if call.failed or call.result is None:
            continue
        how = {"edit": "edited", "write": "written", "read": "read"}.get(call.kind, "")
        for path in call.paths if how else ():
            _touch(used, path, how, call.record)
        for path in paths_in(_HEREDOC.sub("", call.command)):
            _touch(used, path, "mentioned", call.record)
    return list(reversed(merged(used.values())))


def paths_in(text: str) -> list[str]:
    """File paths in a command line or a sentence."""
    bare = _ADDRESS.sub(" ", text)
    candidates = dict.fromkeys(pattern("path_in_command").findall(bare))
    return [path for path in candidates if "/" in path or "\\" in path or pattern("bare_name").search(path)]


def merged(files: Iterable[File]) -> list[File]:
    """Merge entries for the same file, oldest first: a relative path joins the one longer path that ends with it."""
    whole: dict[str, File] = {}
    by_name: dict[str, set[str]] = {}
    for file in files:
        name = _plain(file.path).rpartition("/")[2]
        matching = [path for path in by_name.setdefault(name, set()) if _same(path, file.path)]
        if len(matching) == 1:
            earlier = whole.pop(matching[0])
            by_name[name].discard(matching[0])
            file = _together(replace(earlier, path=max(earlier.path, file.path, key=len)), file)
        whole[file.path] = file
        by_name[name].add(file.path)
    return list(whole.values())


def _plain(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")


def _same(path: str, other_path: str) -> bool:
    path = _plain(path)
    other_path = _plain(other_path)
    return path == other_path or path.endswith(f"/{other_path}") or other_path.endswith(f"/{path}")


def _together(earlier: File, later: File) -> File:
    counts = {way: getattr(earlier, way) + getattr(later, way) for way in WAYS}
    return replace(earlier, last=later.last, **counts)


def _touch(used: dict[str, File], path: str, how: str, record: str) -> None:
    file = used.pop(path, None) or File(path, record, record)
    used[path] = replace(file, last=record, **{how: getattr(file, how) + 1})


def commands(tool_calls: Iterable[Call]) -> list[Command]:
    """The command lines, each with the outcome of its last run: newest first, read-only ones last."""
    latest: dict[str, Command] = {}
    for call in tool_calls:
        if line := one_line(bare_command(call.command), _LONGEST_COMMAND):
            earlier = latest.pop(line, None)
            latest[line] = Command(line, _state(call), call.record, earlier.count + 1 if earlier else 1)
    newest_first = list(latest.values())[::-1]
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


def problems(tool_calls: Iterable[Call]) -> list[FoundError]:
    """The errors, newest first; those settled by a later success come last."""
    succeeded: set[tuple[str, str]] = set()
    errors: dict[tuple[str, str], FoundError] = {}
    for call in reversed(list(tool_calls)):
        if call.result is None:
            continue
        if not call.failed:
            succeeded.update(_attempts(call))
            continue
        lines = telling_lines(call.result)
        settled = not succeeded.isdisjoint(_attempts(call))
        errors.setdefault((call.name, lines), FoundError(call.name, lines, call.record, settled))
    return sorted(errors.values(), key=lambda problem: problem.settled)


def _attempts(call: Call) -> Iterator[tuple[str, str]]:
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
    lines = list(filter(None, map(str.strip, _TAGS.sub("", result[:200_000]).splitlines())))
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
        following = lines.index(chosen[-1]) + 1
        chosen += lines[following : following + 1]
    return " ⏎ ".join(one_line(line, LONGEST_LINE) for line in chosen)
