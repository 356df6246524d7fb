"""What a line of shell runs, what it may be hiding, and which commands only look.

A *plain* line is a list of simple commands joined by ``;``, ``&``, ``&&``, ``||``, ``|`` or line ends, whose words are
all there to be seen. Substitutions, groups, here-documents, arithmetic and anything not understood make a line not
plain: then no rule about its beginning says anything about the whole of it. The splitting follows bash; where the two
could differ the line is not plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct


def names(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


# -- parsing -------------------------------------------------------------------------------------

_OPERATORS = ("&&", "||", "|&", ";", "|", "&", "\n")
_BLANK = " \t"
_REDIRECTION = re.compile(r"([0-9]{0,3})(&>>|&>|>>|>\||>&|<>|<&|>|<)")
_NAME = re.compile(r"\$(?:\w+|\{\w+\}|[?#@*!$-])")
_ASSIGNMENT = re.compile(r"\w+(?:\[[^]]*\])?\+?=")
_CRUDE = re.compile(r"\$\(|&&|\|\||[;&|(){}`\n<>]")
_RESERVED = names(
    "if then else elif fi for while until do done case esac in function select time coproc ! { } [["
)
_HARMLESS_FILES = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr")
_NETWORK = ("/dev/tcp/", "/dev/udp/")
"""Redirections for which bash opens a connection."""


class SimpleCommand(Struct, frozen=True):
    """One simple command."""

    words: tuple[str, ...]
    """Without the quotes they were written in."""
    text: str
    """As it was written."""
    assigns: bool = False
    """It sets variables for itself."""
    reads: tuple[str, ...] = ()
    """Files redirected to its input."""
    writes: tuple[str, ...] = ()
    """Files its output is redirected to."""
    feeds: bool = False
    """Its output is piped into the next command."""
    literal: bool = True
    """The shell expands none of its words: no variable, no pattern, no home directory."""


class ShellLine(Struct, frozen=True):
    """A parsed line of shell."""

    commands: tuple[SimpleCommand, ...]
    plain: bool = True
    why: str = ""
    """What makes it not plain."""


class _NotPlain(Exception):
    """The line holds something this parser does not read."""


def parse(line: str) -> ShellLine:
    """The commands a line runs. For one that is not plain, all that looks like a command anywhere in it."""
    try:
        return ShellLine(tuple(_Parser(line).commands()))
    except _NotPlain as odd:
        crude = (chunk.strip() for chunk in _CRUDE.split(line))
        commands = (SimpleCommand(tuple(unquoted(chunk).split()), chunk) for chunk in crude if chunk)
        return ShellLine(tuple(commands), False, str(odd))


def unquoted(text: str) -> str:
    """The text without quotes and backslashes, wherever they are."""
    return re.sub(r"[\"'\\]", "", text)


class _Parser:
    """Goes through a line once."""

    def __init__(self, line: str) -> None:
        if "\0" in line:
            raise _NotPlain("a NUL character")
        self._line = line
        self._at = 0

    def commands(self) -> list[SimpleCommand]:
        found = []
        while self._at < len(self._line):
            if command := self._simple():
                found.append(command)
        return found

    def _simple(self) -> SimpleCommand | None:
        """The next simple command, past the operator behind it; None if there is only the operator."""
        words: list[str] = []
        reads: list[str] = []
        writes: list[str] = []
        literal, assigns, start, operator, line = True, False, self._at, "", self._line
        while self._at < len(line) and not operator:
            at = self._at
            if line[at] in _BLANK:
                self._at += 1
            elif line.startswith("\\\n", at):
                self._at += 2
            elif line[at] == "#":
                end = line.find("\n", at)
                self._at = end if end >= 0 else len(line)
            elif redirection := _REDIRECTION.match(line, at):
                self._redirect(redirection, reads, writes)
            elif operator := next((one for one in _OPERATORS if line.startswith(one, at)), ""):
                self._at += len(operator)
            else:
                word, plain = self._word()
                if not words and _ASSIGNMENT.match(line, at, self._at):
                    assigns = True
                else:
                    words.append(word)
                literal = literal and plain
        if words and words[0] in _RESERVED:
            raise _NotPlain(f"the shell's own {words[0]!r}")
        if not (words or assigns or reads or writes):
            return None
        text = line[start : self._at - len(operator)].strip()
        feeds = operator in ("|", "|&")
        return SimpleCommand(tuple(words), text, assigns, tuple(reads), tuple(writes), feeds, literal)

    def _redirect(self, found: re.Match[str], reads: list[str], writes: list[str]) -> None:
        sign = found[2]
        self._at = found.end()
        if self._following() in ("<", "(", ">"):
            raise _NotPlain("a here-document or process substitution")
        while self._following() in tuple(_BLANK):
            self._at += 1
        target, literal = self._word()
        if sign in (">&", "<&") and re.fullmatch(r"[0-9]+|-", target):
            return
        if not target or not literal:
            raise _NotPlain("a redirection to an unnamed target")
        if target.startswith(_NETWORK):
            raise _NotPlain("a network connection")
        if target not in _HARMLESS_FILES:
            if "<" in sign:
                reads.append(target)
            if ">" in sign:
                writes.append(target)

    def _following(self, ahead: int = 0) -> str:
        """The character so far ahead; empty at the end of the line."""
        return self._line[self._at + ahead : self._at + ahead + 1]

    def _word(self) -> tuple[str, bool]:
        """The next word without its quotes, and whether the shell leaves it as it is."""
        word: list[str] = []
        literal, start = True, self._at
        while self._at < len(self._line):
            sign = self._line[self._at]
            if sign in " \t\n;&|<>":
                break
            if sign in "()`" or (sign in "{}" and self._at == start and self._stands_alone()):
                raise _NotPlain(f"a group or substitution ({sign})")
            if sign == "'":
                word.append(self._single_quoted())
            elif sign == '"':
                quoted, whole = self._double_quoted()
                word.append(quoted)
                literal = literal and whole
            elif sign == "\\":
                word.append(self._escaped())
            elif sign == "$":
                word.append(self._variable())
                literal = False
            else:
                if sign.isspace():
                    raise _NotPlain("a blank that shells treat differently")
                literal = literal and sign not in "*?[{" and not (sign == "~" and self._expands_home(start))
                word.append(sign)
                self._at += 1
        return "".join(word), literal

    def _stands_alone(self) -> bool:
        return self._following(1) in ("", " ", "\t", "\n", ";")

    def _expands_home(self, start: int) -> bool:
        return self._at == start or self._line[self._at - 1] in "=:"

    def _escaped(self) -> str:
        sign = self._following(1)
        if sign in ("", "\n"):
            # Bash joins the lines on both sides of it before it looks at anything else.
            raise _NotPlain("a backslash at the end of a line")
        self._at += 2
        return sign

    def _single_quoted(self) -> str:
        end = self._line.find("'", self._at + 1)
        if end < 0:
            raise _NotPlain("a quote that is not closed")
        quoted = self._line[self._at + 1 : end]
        self._at = end + 1
        return quoted

    def _double_quoted(self) -> tuple[str, bool]:
        quoted: list[str] = []
        literal = True
        self._at += 1
        while self._at < len(self._line):
            sign, following = self._line[self._at], self._following(1)
            if sign == '"':
                self._at += 1
                return "".join(quoted), literal
            if sign == "`":
                raise _NotPlain("a substitution (`)")
            if sign == "$" and following != '"':
                quoted.append(self._variable())
                literal = False
            elif sign == "\\" and following in tuple('$`"\\\n'):
                quoted.append(self._escaped())
            else:
                quoted.append(sign)
                self._at += 1
        raise _NotPlain("a quote that is not closed")

    def _variable(self) -> str:
        found = _NAME.match(self._line, self._at)
        if found:
            self._at = found.end()
            return found[0]
        if self._following(1) in ("", *" \t\n;|&/.%=:"):
            self._at += 1
            return "$"
        raise _NotPlain(f"a substitution ({self._line[self._at : self._at + 3]})")


# -- commands behind commands --------------------------------------------------------------------

_SHELLS = names("sh bash zsh dash ash ksh mksh rbash fish csh tcsh")
_SOURCES = names("source .")
_LAUNCHERS = (
    _SHELLS
    | _SOURCES
    | names(
        "sudo doas su runuser pkexec env command builtin exec eval trap nohup nice ionice chrt taskset prlimit time "
        "timeout setsid setpriv stdbuf unbuffer watch xargs parallel find fd entr flock script chroot unshare nsenter "
        "systemd-run strace ltrace gdb valgrind perf busybox toybox ssh at batch uv uvx poetry pipenv pdm hatch conda "
        "npx npm pnpm yarn bun bunx"
    )
)
"""Programs that run what their words say."""
_DEEPEST = 4
"""How many levels of lines within lines are followed."""
_SETS_VARIABLE = re.compile(r"\w+=")
_MORE_THAN_A_WORD = re.compile(r"[\s;&|<>()`$]")


class CommandText(Struct, frozen=True):
    """The words of a command, and the places in them at which what it really runs may begin."""

    text: str
    starts: tuple[int, ...]


def possible_commands(line: ShellLine, depth: int = 0) -> Iterator[CommandText]:
    """Everything a line may run: also behind ``sudo``, in ``bash -c``, or piped into ``sh``.

    This is for rules that deny or ask, so it errs on their side: behind a program that runs others, every word may
    begin a command, and every word that could be a line of shell is parsed as one. Each word is looked at once, however
    many such programs come before it.
    """
    to_a_shell = False
    for command in reversed(line.commands):
        fed = command.feeds and to_a_shell
        launches = _launches(command.words)
        to_a_shell = fed or (launches and any(_program(word) in _SHELLS for word in command.words))
        anywhere = fed or launches
        if command.words:
            yield CommandText(" ".join(command.words), tuple(_starts(command.words, anywhere)))
        if anywhere and depth < _DEEPEST:
            for word in filter(_MORE_THAN_A_WORD.search, dict.fromkeys(command.words)):
                yield from possible_commands(parse(word), depth + 1)


def hidden_part(line: ShellLine) -> str:
    """Why a line does not show all it runs; empty if it does."""
    return line.why or next(filter(None, map(_hidden_in, line.commands)), "")


def _hidden_in(command: SimpleCommand) -> str:
    words = command.words
    if not words:
        return ""
    launches = _launches(words)
    if not command.literal and (
        set("$*?[{~") & set(words[0]) or (launches and any(word.startswith("$") for word in words))
    ):
        return "a variable or pattern in the place of a command"
    shell = max((place for place, word in enumerate(words) if _program(word) in _SHELLS), default=-1)
    shell = 0 if words[0] in _SOURCES else shell
    if launches and shell >= 0 and _reads_its_input(words[shell + 1 :]):
        return f"what {_program(words[shell])} reads from elsewhere"
    return ""


def _reads_its_input(given: tuple[str, ...]) -> bool:
    return "-s" in given or all(word.startswith(("-", "/dev/")) for word in given)


def _starts(words: tuple[str, ...], anywhere: bool) -> Iterator[int]:
    """The place of each word that may begin a command, with and without its folder."""
    last = len(words) if anywhere else _head(words)
    place = 0
    for word in words[: last + 1]:
        yield place
        if "/" in word:
            yield place + word.rindex("/") + 1
        place += len(word) + 1


def _head(words: tuple[str, ...]) -> int:
    """The first word that is neither the shell's own nor sets a variable."""
    ahead = (
        place
        for place, word in enumerate(words)
        if word not in _RESERVED and not _SETS_VARIABLE.match(word)
    )
    return next(ahead, len(words))


def _launches(words: tuple[str, ...]) -> bool:
    return any(_program(word) in _LAUNCHERS for word in words[_head(words) :][:1])


def _program(word: str) -> str:
    return word.rpartition("/")[2]


# -- commands that only look ---------------------------------------------------------------------

_DIGITS = "0123456789"


class _Options(Struct, frozen=True):
    """The options with which a command is known to do no harm."""

    flags: str = ""
    valued: str = ""
    """Letters that take the rest of the word, or the next one, as their value."""
    long: frozenset[str] = frozenset()
    anything: bool = False
    """The command opens no file, whatever its words."""

    def include(self, word: str) -> bool:
        """Whether all of this word is known to be harmless."""
        if self.anything or not word.startswith("-"):
            return True
        if word.startswith("--"):
            return word == "--" or word[2:].partition("=")[0] in self.long
        for letter in word[1:]:
            if letter in self.valued:
                return True
            if letter not in self.flags:
                return False
        return True


# An option that is not listed might write a file, run a program, take further paths from a file, or follow links that
# lead elsewhere; so a command counts only with options listed in full. None of them takes a path, and each means the
# same, or as little, wherever these programs come from.
_ANYTHING = _Options(anything=True)
_READ_ONLY = {
    "basename": _ANYTHING,
    "cat": _Options("AbeEnstTuv", long=names("number number-nonblank show-all show-ends squeeze-blank")),
    "cd": _Options("LP"),
    "cmp": _Options("bls", "in", names("bytes print-bytes quiet silent verbose")),
    "cut": _Options("nsz", "bcdf", names("bytes characters complement delimiter fields only-delimited")),
    "df": _Options("ahHiklmPT", long=names("all human-readable inodes local portability print-type si")),
    "dirname": _ANYTHING,
    "du": _Options(
        "abchkmsx", "d", names("all apparent-size bytes human-readable max-depth summarize total")
    ),
    "echo": _ANYTHING,
    "false": _ANYTHING,
    "grep": _Options(
        "EFGPabchHilLnoqrsTUvwxyz" + _DIGITS,
        "ABCem",
        names(
            "after-context before-context byte-offset color colour context count exclude exclude-dir extended-regexp "
            "files-with-matches files-without-match fixed-strings ignore-case include invert-match line-number "
            "line-regexp max-count no-filename no-messages null only-matching perl-regexp quiet recursive regexp "
            "silent text with-filename word-regexp"
        ),
    ),
    "head": _Options("qvz" + _DIGITS, "cn", names("bytes lines quiet silent verbose")),
    "ls": _Options(
        "1aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ",
        long=names(
            "all almost-all author classify color directory full-time group-directories-first human-readable inode "
            "no-group numeric-uid-gid recursive reverse size sort time time-style"
        ),
    ),
    "nl": _Options("p", "bdfhilnsvw"),
    "pwd": _ANYTHING,
    "stat": _Options("flnqrstx", "c", names("file-system format printf terse")),
    "tail": _Options("fFqrvz" + _DIGITS, "cn", names("bytes follow lines quiet retry silent verbose")),
    "true": _ANYTHING,
    "uname": _Options("aimnoprsv"),
    "wc": _Options("cLlmw", long=names("bytes chars lines max-line-length words")),
    "whoami": _ANYTHING,
}
_SHOW_FILES = names("cat cmp cut grep head nl tail wc")


def is_read_only(words: tuple[str, ...]) -> bool:
    """Whether a command changes nothing, and opens nothing but what its words name."""
    known = _READ_ONLY.get(words[0])
    # Words behind "--" are checked too: it may be the value of the option before it.
    return known is not None and all(map(known.include, words[1:]))


def shows_files(words: tuple[str, ...]) -> bool:
    """Whether it is a command that shows the content of files."""
    return words[0] in _SHOW_FILES
