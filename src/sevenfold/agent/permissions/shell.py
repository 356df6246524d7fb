"""Reading a line of shell, far enough to know which commands it runs, and to know when that cannot be known.

A *plain* line is a list of simple commands joined by ``;``, ``&``, ``&&``, ``||``, ``|`` or line ends, whose words are
all there to be seen. Substitutions, groups, here-documents, arithmetic and anything not understood make a line not
plain: then no rule about its beginning says anything about the whole of it. The splitting follows bash; where the two
could differ the line is not plain.
"""

from __future__ import annotations

import re

from msgspec import Struct

from sevenfold.agent.tools.words import names

_OPERATORS = ("&&", "||", "|&", ";", "|", "&", "\n")
_BLANK = " \t"
_REDIRECTION = re.compile(r"([0-9]{0,3})(&>>|&>|>>|>\||>&|<>|<&|>|<)")
_NAME = re.compile(r"\$(?:\w+|\{\w+\}|[?#@*!$-])")
_ASSIGNMENT = re.compile(r"\w+(?:\[[^]]*\])?\+?=")
_CRUDE = re.compile(r"\$\(|&&|\|\||[;&|(){}`\n<>]")
RESERVED = names(
    "if then else elif fi for while until do done case esac in function select time coproc ! { } [["
)
_HARMLESS = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr")
_NETWORK = ("/dev/tcp/", "/dev/udp/")
"""What bash opens a connection for, where it redirects."""


class Simple(Struct, frozen=True):
    """One simple command."""

    words: tuple[str, ...]
    """Without the quotes they were written in."""
    text: str
    """As it was written."""
    assigns: bool = False
    """It sets variables for itself."""
    reads: tuple[str, ...] = ()
    """Files it is given as input."""
    writes: tuple[str, ...] = ()
    """Files it sends output to."""
    feeds: bool = False
    """Its output is the next one's input."""
    literal: bool = True
    """No word is completed by the shell: no variable, no pattern, no home directory."""


class Line(Struct, frozen=True):
    """A line of shell."""

    commands: tuple[Simple, ...]
    plain: bool = True
    why: str = ""
    """What makes it not plain."""


class _Odd(Exception):
    """The line has something in it that is not read here."""


def read(line: str) -> Line:
    """The commands a line runs. Of one that is not plain, all that looks like a command anywhere in it."""
    try:
        commands = tuple(_Reader(line).commands())
    except _Odd as odd:
        crude = (chunk.strip() for chunk in _CRUDE.split(line))
        return Line(tuple(Simple(_crude_words(chunk), chunk) for chunk in crude if chunk), False, str(odd))
    return Line(commands)


def _line_end(line: str, start: int) -> int:
    end = line.find("\n", start)
    return end if end >= 0 else len(line)


def _crude_words(chunk: str) -> tuple[str, ...]:
    return tuple(re.sub(r"[\"'\\]", "", chunk).split())


class _Reader:
    """Goes through a line once."""

    def __init__(self, line: str) -> None:
        if "\0" in line:
            raise _Odd("a NUL character")
        self._line = line
        self._at = 0

    def commands(self) -> list[Simple]:
        found = []
        while self._at < len(self._line):
            if command := self._simple():
                found.append(command)
        return found

    def _simple(self) -> Simple | None:
        """The next simple command, and past the operator behind it; None if nothing is there."""
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
                self._at = _line_end(line, at)
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
        if words and words[0] in RESERVED:
            raise _Odd(f"the shell's own {words[0]!r}")
        if not (words or assigns or reads or writes):
            return None
        text = line[start : self._at - len(operator)].strip()
        feeds = operator in ("|", "|&")
        return Simple(tuple(words), text, assigns, tuple(reads), tuple(writes), feeds, literal)

    def _redirect(self, found: re.Match[str], reads: list[str], writes: list[str]) -> None:
        sign = found[2]
        self._at = found.end()
        if self._line[self._at : self._at + 1] in ("<", "(", ">"):
            raise _Odd("a here-document or process substitution")
        while self._line[self._at : self._at + 1] in tuple(_BLANK):
            self._at += 1
        target, literal = self._word()
        if sign in (">&", "<&") and re.fullmatch(r"[0-9]+|-", target):
            return
        if not target or not literal:
            raise _Odd("a redirection to a place not written out")
        if target.startswith(_NETWORK):
            raise _Odd("a network connection")
        if target not in _HARMLESS:
            if "<" in sign:
                reads.append(target)
            if ">" in sign:
                writes.append(target)

    def _word(self) -> tuple[str, bool]:
        """The next word without its quotes, and whether the shell leaves it as it is."""
        word: list[str] = []
        literal, start = True, self._at
        while self._at < len(self._line):
            sign = self._line[self._at]
            if sign in " \t\n;&|<>":
                break
            if sign in "()`" or (sign in "{}" and self._at == start and self._alone()):
                raise _Odd(f"a group or substitution ({sign})")
            if sign == "'":
                word.append(self._until("'"))
            elif sign == '"':
                said, whole = self._double()
                word.append(said)
                literal = literal and whole
            elif sign == "\\":
                word.append(self._escaped())
            elif sign == "$":
                word.append(self._variable())
                literal = False
            else:
                if sign.isspace():
                    raise _Odd("a blank that shells do not agree about")
                literal = literal and sign not in "*?[{" and not (sign == "~" and self._opens_home(start))
                word.append(sign)
                self._at += 1
        return "".join(word), literal

    def _alone(self) -> bool:
        return self._line[self._at + 1 : self._at + 2] in ("", " ", "\t", "\n", ";")

    def _opens_home(self, start: int) -> bool:
        return self._at == start or self._line[self._at - 1] in "=:"

    def _escaped(self) -> str:
        sign = self._line[self._at + 1 : self._at + 2]
        if sign in ("", "\n"):
            # Before a line end it joins what stands on both sides, before anything else is looked at.
            raise _Odd("a backslash at the end of a line")
        self._at += 2
        return sign

    def _until(self, quote: str) -> str:
        end = self._line.find(quote, self._at + 1)
        if end < 0:
            raise _Odd("a quote that is not closed")
        said = self._line[self._at + 1 : end]
        self._at = end + 1
        return said

    def _double(self) -> tuple[str, bool]:
        said: list[str] = []
        literal = True
        self._at += 1
        while self._at < len(self._line):
            sign = self._line[self._at]
            following = self._line[self._at + 1 : self._at + 2]
            if sign == '"':
                self._at += 1
                return "".join(said), literal
            if sign == "`":
                raise _Odd("a substitution (`)")
            if sign == "$" and following != '"':
                said.append(self._variable())
                literal = False
            elif sign == "\\" and following in tuple('$`"\\\n'):
                said.append(self._escaped())
            else:
                said.append(sign)
                self._at += 1
        raise _Odd("a quote that is not closed")

    def _variable(self) -> str:
        found = _NAME.match(self._line, self._at)
        if found:
            self._at = found.end()
            return found[0]
        if self._line[self._at + 1 : self._at + 2] in ("", *" \t\n;|&/.%=:"):
            self._at += 1
            return "$"
        raise _Odd(f"a substitution ({self._line[self._at : self._at + 3]})")
