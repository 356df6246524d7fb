"""What was done: files touched, commands run, errors met."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from sevenfold.layers.compact.extract.calls import Call
from sevenfold.layers.compact.extract.facts import Command, File, FoundError
from sevenfold.layers.compact.extract.words import one_line

LONGEST_LINE = 240
_LONGEST_COMMAND = 160
_MOST_LINES = 3

_PATH_IN_COMMAND = re.compile(
    r"(?<![\w@:/.~>})$*\\-])((?:~|\.{1,2}|[A-Za-z]:)?[/\\]?(?:[\w.@+-]{1,100}[/\\]){0,40}[\w@+-][\w.@+-]{0,100}\.[A-Za-z]\w{0,7})(?![\w/\\(])"
)
_ADDRESS = re.compile(r"\b\w{1,20}://\S+")
_BARE_NAME = re.compile(
    r"\.(?:c|cc|cfg|conf|cpp|cs|css|csv|go|h|html|ini|java|js|json|jsonl|jsx|kt|lock|log|lua|md|mod|php|proto|ps1"
    r"|py|rb|rs|rst|sh|sql|sum|svg|swift|toml|ts|tsx|txt|xml|yaml|yml)\Z"
)
"""Without a folder in front, only a usual ending tells a file from `object.attribute`."""
_HEREDOC = re.compile(r"<<-?\s*['\"]?\w+.*", re.DOTALL)
_LOOKS = re.compile(r"(?:cd \S+ && )?(?:grep|rg|find|ls|cat|head|tail|sed -n|wc|pwd|echo|tree)\b")

_TAGS = re.compile(r"</?tool_use_error>")
_REFUSED = re.compile(
    r"\A\s*The user doesn't want to (?:proceed|take this action)(?:.*(?:the user said|for the rejection)(:.+))?",
    re.DOTALL,
)
_EXIT_LINE = re.compile(r"\A\s*Exit code -?\d+\s*\Z")
_TELLING = re.compile(
    r"error|exception|fail|fatal|panic|undefined|cannot|can['’]t|could ?n[o'’]t|not found|denied|no such|unknown"
    r"|invalid|missing|refused|timed? ?out|unexpected|expected|does(?:n['’]t| not)|the user (?:said|provided)",
    re.IGNORECASE,
)
_RAISED = re.compile(
    r"^\s*(?:[\w.]+(?:Error|Exception|Warning)|panic|fatal|error(?:\[\w+\])?)\b.*:", re.IGNORECASE
)
_AROUND_A_COMMAND = re.compile(
    r"\A\s*cd [^&;|]+(?:&&|;)\s*|\s{0,8}2>&1\b|\s{0,8}\|\s{0,8}(?:head|tail)\b[^|&;]*(?=\Z|&&)"
)


def files(made: Iterable[Call]) -> list[File]:
    """The files worked with; those changed first, and of each the newest."""
    found: dict[str, File] = {}
    for call in made:
        if call.failed or call.result is None:
            continue
        how = {"edit": "edited", "write": "written", "read": "read"}.get(call.kind or "")
        for path in call.paths if how else ():
            _touch(found, path, how or "", call.record)
        for path in paths_in(_HEREDOC.sub("", call.command)):
            _touch(found, path, "mentioned", call.record)
    return list(reversed(merged(found.values())))


def paths_in(text: str) -> list[str]:
    """Paths of files in a command line or a sentence."""
    bare = _ADDRESS.sub(" ", text)
    found = dict.fromkeys(_PATH_IN_COMMAND.findall(bare))
    return [path for path in found if "/" in path or "\\" in path or _BARE_NAME.search(path)]


def merged(found: Iterable[File]) -> list[File]:
    """Oldest first; a path from the working directory is taken together with the one full path it ends."""
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
    one, other = _plain(one), _plain(other)
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _together(before: File, after: File) -> File:
    return replace(
        before,
        last=after.last,
        read=before.read + after.read,
        edited=before.edited + after.edited,
        written=before.written + after.written,
        mentioned=before.mentioned + after.mentioned,
    )


def _touch(found: dict[str, File], path: str, how: str, record: str) -> None:
    before = found.pop(path, None) or File(path, record, record)
    found[path] = replace(before, last=record, **{how: getattr(before, how) + 1})


def commands(made: Iterable[Call]) -> list[Command]:
    """The command lines, each with how its last run ended: newest first, behind them those that only look."""
    found: dict[str, Command] = {}
    for call in made:
        if line := one_line(bare_command(call.command), _LONGEST_COMMAND):
            before = found.pop(line, None)
            found[line] = Command(line, _state(call), call.record, before.count + 1 if before else 1)
    newest_first = list(found.values())[::-1]
    return sorted(newest_first, key=lambda command: bool(_LOOKS.match(command.line)))


def bare_command(line: str) -> str:
    """A command line without what only changes where it runs or how much of its output is shown."""
    return _AROUND_A_COMMAND.sub("", _HEREDOC.sub("<<…", line))


def _state(call: Call) -> str:
    if call.result is None:
        return "no result"
    if call.exit not in ("", "0"):
        return f"exit {call.exit}"
    return "failed" if call.failed else "ok"


def problems(made: Iterable[Call]) -> list[FoundError]:
    """The errors, newest first, those settled later behind those that were not."""
    done: set[tuple[str, str]] = set()
    found: dict[tuple[str, str], FoundError] = {}
    for call in reversed(list(made)):
        if call.result is None:
            continue
        if not call.failed:
            done.update(_deeds(call))
            continue
        problem = FoundError(
            call.name, telling_lines(call.result), call.record, not done.isdisjoint(_deeds(call))
        )
        found.setdefault((problem.tool, problem.lines), problem)
    return sorted(found.values(), key=lambda problem: problem.settled)


def _deeds(call: Call) -> Iterator[tuple[str, str]]:
    """What a call tries to do: the same deed done later settles the error."""
    kind = call.kind or call.name
    if line := call.command:
        yield kind, " ".join(bare_command(line).split())
    elif call.paths:
        for path in call.paths:
            yield "change" if kind in ("edit", "write") else kind, path
    else:
        yield call.name, call.about


def telling_lines(result: str) -> str:
    """The few lines by which an error is known, joined; the first line if none stands out."""
    if refused := _REFUSED.match(result):
        return one_line(f"the call was refused {refused[1] or ''}", LONGEST_LINE)
    lines = [line.strip() for line in _TAGS.sub("", result[:200_000]).splitlines() if line.strip()]
    lines = [line for line in lines if not _EXIT_LINE.match(line)] or lines
    raised = [line for line in lines if _RAISED.match(line)]
    telling = raised[-1:] + [line for line in lines if _TELLING.search(line)]
    chosen = list(dict.fromkeys(telling or lines[:1]))[:_MOST_LINES]
    follows = _after_colon(lines, chosen)
    return " ⏎ ".join(one_line(line, LONGEST_LINE) for line in [*chosen, *follows])


def _after_colon(lines: list[str], chosen: list[str]) -> list[str]:
    """The line behind one that ends in a colon is what that line announces."""
    if not chosen or not chosen[-1].endswith(":"):
        return []
    place = lines.index(chosen[-1]) + 1
    return lines[place : place + 1]
