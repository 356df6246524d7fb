"""Determines what a shell line runs, what it may hide, and which commands are read-only.

A *plain* line is a list of simple commands joined by ``;``, ``&``, ``&&``, ``||``, ``|`` or newlines, with all words
visible. Two parsers must agree on that: the bash grammar, of which only a few node types are accepted, and a regular
expression for what such a line may contain. Substitutions, groups, here-documents, arithmetic and anything else that
either of them does not know make a line not plain: then a rule about its beginning does not cover the whole line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Language, Node


def names(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


# -- parsing -------------------------------------------------------------------------------------

_LONGEST = 20_000
"""The maximum length in bytes for the grammar, whose time is quadratic on lines that it does not understand."""
_SHAPES = names(
    "program list pipeline redirected_statement command command_name file_redirect variable_assignments"
)
"""Grammar nodes that are accepted if all of their children are."""
_WORDS = names("word number string raw_string concatenation simple_expansion expansion variable_assignment")
_JOINTS = names("; & && || | |&") | {"\n"}
_REDIRECTIONS = names("> >> < >| &> &>> >& <&")
_PARTS = _WORDS | _JOINTS | _REDIRECTIONS | names(">&- <&- comment file_descriptor")
_VARIABLE = r"\$(?:[A-Za-z0-9_]+|\{[A-Za-z0-9_]+\}|[?\#@*!$-])"
_PIECE = rf"""
    (?P<bare>[^\s'"\\`$;&|<>()\0]+)
  | \\(?P<escaped>[^\n\0])
  | '(?P<single>[^'\0]*)'
  | "(?P<double>(?:[^"\\`$\0]|\\[^\n\0]|{_VARIABLE}|\$(?=[\ \t\n;|&/.%=:"]))*+)"
  | (?P<variable>{_VARIABLE}|\$(?=[\ \t\n;|&/.%=:]|\Z))
"""
"""A piece of a word. A backslash at the end of a line is not one, because bash joins the two lines."""
_WORD_PIECE = re.compile(_PIECE, re.VERBOSE)
_UNNAMED = re.sub(r"\?P<\w+>", "?:", _PIECE)
_PLAIN = re.compile(
    rf"(?: (?<![^\s;&|])\#[^\n\0]* | {_UNNAMED} | [\ \t\n] | \\\n | (?!<<|[;&|<>]{{4}})[;&|<>] )*+",
    re.VERBOSE,
)
"""Matches as much of a line as could be plain: comments, words, blanks and operators."""
_GAP = re.compile(r"(?:[ \t\n]|(?<=[ \t])\\\n|\\\n(?=[ \t]))*")
"""Matches what may be between two words."""
_ASSIGNMENT = re.compile(r"\w+(?:\[[^]]*\])?\+?=")
_EXPANDS = re.compile(r"[*?\[{$]|(?:\A|[=:])~")
_CRUDE = re.compile(r"\$\(|&&|\|\||[;&|(){}`\n<>]")
_RESERVED = names(
    "if then else elif fi for while until do done case esac in function select time coproc ! { } [["
)
_HARMLESS_FILES = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr")
_NETWORK = ("/dev/tcp/", "/dev/udp/")
"""Redirection targets for which bash opens a network connection."""


class SimpleCommand(Struct, frozen=True):
    """One simple command."""

    words: tuple[str, ...]
    """The words without their quotes."""
    text: str
    """The command as written."""
    assigns: bool = False
    """True if it sets variables for itself."""
    reads: tuple[str, ...] = ()
    """Files redirected to its input."""
    writes: tuple[str, ...] = ()
    """Files that its output is redirected to."""
    piped_in: bool = False
    """True if the output of the previous command is piped into it."""
    literal: bool = True
    """True if the shell expands none of its words: no variable, no pattern, no home directory."""
    expands_only_patterns: bool = True
    """True if the shell expands nothing but file patterns in a named folder, which cannot become options."""


class ShellLine(Struct, frozen=True):
    """A parsed shell line."""

    commands: tuple[SimpleCommand, ...]
    plain: bool = True
    why: str = ""
    """The reason why it is not plain."""


class _NotPlain(Exception):
    """The line contains something that is not understood."""


class _Token(Struct, frozen=True):
    kind: str
    """``word``, or the operator itself."""
    start: int
    end: int
    text: str = ""


@lru_cache(maxsize=16)
def parse(line: str) -> ShellLine:
    """Parse the commands that a line runs; for a line that is not plain, everything that looks like a command."""
    try:
        return ShellLine(tuple(_commands(line)))
    except (_NotPlain, UnicodeError) as odd:
        crude = (chunk.strip() for chunk in _CRUDE.split(line))
        commands = (SimpleCommand(tuple(unquoted(chunk).split()), chunk) for chunk in crude if chunk)
        return ShellLine(tuple(commands), False, str(odd))


def unquoted(text: str) -> str:
    """Return the text with all quotes and backslashes removed."""
    return re.sub(r"[\"'\\]", "", text)


@cache
def _grammar() -> Language:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise _NotPlain("not been checked, which needs the extra: pip install 'sevenfold[agent]'") from None
    return tree_sitter.Language(tree_sitter_bash.language())


def _root(source: bytes) -> Node:
    grammar = _grammar()
    from tree_sitter import Parser  # loaded with the grammar

    # A new parser each time: parsers have state, and calls are checked in several threads.
    return Parser(grammar).parse(source).root_node


def _commands(line: str) -> Iterator[SimpleCommand]:
    understood = _PLAIN.match(line)
    end = understood.end() if understood else 0
    source = line.encode()
    if end < len(line):
        raise _NotPlain(f"{line[end : end + 2]!r}, which may hide what it runs")
    if len(source) > _LONGEST:
        raise _NotPlain(f"more than {_LONGEST:,} bytes")
    group: list[_Token] = []
    piped_in = False
    for token in (*_tokens(source), _Token("\n", len(source), len(source))):
        if token.kind not in _JOINTS:
            group.append(token)
        elif group:
            yield _simple(group, source[group[0].start : group[-1].end].decode(), piped_in)
            group = []
            piped_in = token.kind in ("|", "|&")


def _tokens(source: bytes) -> Iterator[_Token]:
    """Yield the words and operators of a line, and the newlines that separate commands."""
    root = _root(source)
    if root.has_error:
        raise _NotPlain("syntax that is not understood")
    previous = _Token("\n", 0, 0)
    for node in _leaves(root):
        kind = "word" if node.type in _WORDS else node.type
        token = _Token(
            kind, node.start_byte, node.end_byte, source[node.start_byte : node.end_byte].decode()
        )
        gap = source[previous.end : token.start].decode()
        if not _GAP.fullmatch(gap) or not (gap or _may_touch(previous, token)):
            raise _NotPlain("words that could be read in two ways")
        if "\n" in gap.replace("\\\n", ""):
            yield _Token("\n", previous.end, previous.end)
        if kind not in ("comment", "file_descriptor"):
            yield token
        previous = token
    if not _GAP.fullmatch(source[previous.end :].decode()):
        raise _NotPlain("a backslash at its end")


def _may_touch(previous: _Token, token: _Token) -> bool:
    """Whether two tokens are separate even with no space between them."""
    if previous.kind == "file_descriptor":
        return token.kind in _REDIRECTIONS and re.fullmatch("[0-9]{1,3}", previous.text) is not None
    if previous.kind == "word":
        number = token.kind in _REDIRECTIONS and previous.text.isdigit()
        return token.kind not in ("word", "comment", "file_descriptor") and not number
    return True


def _leaves(root: Node) -> Iterator[Node]:
    """Yield the leaf nodes of a line in order; raises `_NotPlain` at a node that is not understood."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type in _SHAPES:
            pending += reversed(node.children)
        elif node.type in _PARTS:
            yield node
        else:
            raise _NotPlain(f"a {node.type.replace('_', ' ')}")


def _simple(tokens: list[_Token], text: str, piped_in: bool) -> SimpleCommand:
    words: list[str] = []
    shapes: list[str] = []
    files: dict[bool, list[str]] = {False: [], True: []}
    assigns = False
    for previous, token in pairwise([_Token("", 0, 0), *tokens]):
        if previous.kind in _REDIRECTIONS:
            files[">" in previous.kind] += _target(token, previous.kind)
        elif token.kind == "word":
            word, shape = _read_word(token.text)
            shapes.append(shape)
            assigns = assigns or (not words and _ASSIGNMENT.match(token.text) is not None)
            if words or not _ASSIGNMENT.match(token.text):
                words.append(word)
    if tokens[-1].kind in _REDIRECTIONS:
        raise _NotPlain("a redirection without a target")
    if words and words[0] in _RESERVED:
        raise _NotPlain(f"the shell's own {words[0]!r}")
    expanded = [shape for shape in shapes if _EXPANDS.search(shape)]
    reads = tuple(files[False])
    writes = tuple(files[True])
    only_patterns = all(map(_is_file_pattern, expanded))
    return SimpleCommand(tuple(words), text, assigns, reads, writes, piped_in, not expanded, only_patterns)


def _target(token: _Token, redirection: str) -> list[str]:
    """Return the file that a redirection opens; empty for a harmless one or an open descriptor."""
    target, shape = _read_word(token.text) if token.kind == "word" else ("", "")
    if redirection in (">&", "<&") and re.fullmatch(r"[0-9]+|-", target):
        return []
    if not target or _EXPANDS.search(shape):
        raise _NotPlain("a redirection to an unnamed target")
    if target.startswith(_NETWORK):
        raise _NotPlain("a network connection")
    return [] if target in _HARMLESS_FILES else [target]


def _read_word(source: str) -> tuple[str, str]:
    """Return a word without quotes, and its shape: the same with quoted characters, which never expand, replaced."""
    word = ""
    shape = ""
    position = 0
    while position < len(source):
        match = _WORD_PIECE.match(source, position)
        if match is None:
            raise _NotPlain(f"{source[position : position + 2]!r}, which may hide what it runs")
        kind = match.lastgroup or ""
        piece = match[kind]
        if kind == "double":
            shape += re.sub(r"[^$/.-]", "_", re.sub(r"\\.", "_", piece))
            piece = re.sub(r"\\([$`\"\\])", r"\1", piece)
        else:
            shape += piece if kind in ("bare", "variable") else re.sub(r"[^/.-]", "_", piece)
        word = word + piece
        position = match.end()
    return word, shape


def _is_file_pattern(shape: str) -> bool:
    """Whether a word expands only to names of files in the folder it names, never to something like an option."""
    folder, _, name = shape.rpartition("/")
    fixed = not re.search(r"[*?\[]", folder) and not re.search(r"[{$~]", shape)
    return fixed and shape[0] not in "*?[-" and not name.startswith(".")


# -- known commands ------------------------------------------------------------------------------


class _Options(Struct, frozen=True):
    """The options with which a command is known to be harmless."""

    flags: str = ""
    valued: str = ""
    long: str = ""
    anything: bool = False

    def include(self, word: str) -> bool:
        """Whether this word is known to be harmless, with all options in it."""
        if self.anything or not word.startswith("-"):
            return True
        if word.startswith("--"):
            return word == "--" or word[2:].partition("=")[0] in names(self.long)
        for letter in word[1:]:
            if letter in self.valued:
                return True
            if letter not in self.flags:
                return False
        return True


class CommandTables:
    """The tables of ``commands.toml``; each is explained there."""

    def __init__(self) -> None:
        data = tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))
        self.shells = names(data["shells"])
        self.launchers = self.shells | names(data["launchers"])
        self.carriers = self.launchers | names(data["carriers"])
        self.interpreters = self.shells | names(data["interpreters"])
        self.obey_input = self.interpreters | names(data["obey_input"])
        self.show_files = names(data["show_files"])
        self.write_files = names(data["write_files"])
        self.harmless = {program: names(words) for program, words in data["harmless"].items()}
        self.guarded = names(" ".join(data["guarded"].values()))
        self.plain_hidden = names(data["hidden"]["harmless"])
        self.read_only = msgspec.convert(data["read_only"], dict[str, _Options])


@cache
def tables() -> CommandTables:
    """Return the tables of known commands and files, loaded once."""
    return CommandTables()


def is_read_only(words: tuple[str, ...]) -> bool:
    """Whether a command changes nothing and opens only files that its words name."""
    options = tables().read_only.get(words[0])
    # Words after "--" are checked too: "--" may be the value of the option before it.
    return options is not None and all(map(options.include, words[1:]))


# -- commands behind commands --------------------------------------------------------------------

_SOURCES = names("source .")
_DEEPEST = 4
"""How many levels of nested shell lines are parsed."""
_SETS_VARIABLE = re.compile(r"\w+=")
_VERSION = re.compile(r"[0-9.-]+t?\Z")
_MORE_THAN_A_WORD = re.compile(r"[\s;&|<>()`$]")


class CommandText(Struct, frozen=True):
    """The words of a command, and the offsets at which the command that it really runs may start."""

    text: str
    starts: tuple[int, ...]


def possible_commands(line: ShellLine, depth: int = 0) -> Iterator[CommandText]:
    """Yield every command that a line may run, including behind ``sudo``, in ``bash -c``, or piped into ``sh``.

    This is for deny and ask rules, so it finds too much rather than too little: after a program that runs others, any
    word may start a command, and every word that could be a shell line is parsed as one. Each word is checked once,
    however many such programs come before it.
    """
    to_a_shell = feeds = False
    for command in reversed(line.commands):
        piped = feeds and to_a_shell
        launches = _launches(command.words)
        to_a_shell = piped or (
            launches and any(_program(word) in tables().shells for word in command.words)
        )
        feeds = command.piped_in
        anywhere = piped or launches
        if command.words:
            yield CommandText(" ".join(command.words), tuple(_starts(command.words, anywhere)))
        if anywhere and depth < _DEEPEST:
            for word in filter(_MORE_THAN_A_WORD.search, dict.fromkeys(command.words)):
                yield from possible_commands(parse(word), depth + 1)


def hidden_part(line: ShellLine) -> str:
    """Return why a line does not show everything it runs; empty if it does."""
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
    shell = max(
        (index for index, word in enumerate(words) if _program(word) in tables().shells), default=-1
    )
    shell = 0 if words[0] in _SOURCES else shell
    if launches and shell >= 0 and _reads_its_input(words[shell + 1 :]):
        return f"what {_program(words[shell])} reads from elsewhere"
    return ""


def obeys_input(command: SimpleCommand) -> bool:
    """Whether a command may execute the input piped into it."""
    words = command.words
    return command.piped_in and any(_is(words[index], tables().obey_input) for index in _programs(words))


def is_interpreter(command: SimpleCommand) -> bool:
    """Whether a command only starts an interpreter that reads its input, such as ``sudo sh`` or ``python3 -``.

    Also true if one of its words is a shell line with such a command.
    """
    words = command.words
    programs = _programs(words)
    program_indices = [index for index in programs if _is(words[index], tables().interpreters)]
    if program_indices and _reads_its_input(words[program_indices[-1] + 1 :]):
        return True
    lines = filter(_MORE_THAN_A_WORD.search, words[1:] if len(programs) > 1 else ())
    return any(any(map(is_interpreter, parse(line).commands)) for line in lines)


def names_interpreter(command: SimpleCommand) -> bool:
    """Whether any word of a command names an interpreter."""
    return any(_is(word, tables().interpreters) for word in command.words)


def is_known(command: SimpleCommand) -> bool:
    """Whether a command is read-only, or has a subcommand that is harmless with any arguments and runs none of them."""
    words = command.words
    harmless = tables().harmless.get(words[0], frozenset()) if words else frozenset()
    return bool(words) and (is_read_only(words) or bool(harmless & set(words[1:2])))


def _programs(words: tuple[str, ...]) -> range:
    """Return the indexes of the words that may name the program a command runs."""
    head = _head(words)
    carried = head < len(words) and _program(words[head]) in tables().carriers
    return range(head, len(words) if carried else min(head + 1, len(words)))


def _is(word: str, programs: frozenset[str]) -> bool:
    """Whether a word names one of these programs, in any folder and version."""
    program = _program(word).lower()
    return program in programs or _VERSION.sub("", program) in programs


def _reads_its_input(arguments: tuple[str, ...]) -> bool:
    def names_no_file(word: str) -> bool:
        return word == "run" or word.startswith(("-", "/dev/", "/proc/"))

    return "-s" in arguments or all(map(names_no_file, arguments))


def _starts(words: tuple[str, ...], anywhere: bool) -> Iterator[int]:
    """Yield the offset of each word that may start a command, both with and without its folder."""
    last = len(words) if anywhere else _head(words)
    offset = 0
    for word in words[: last + 1]:
        yield offset
        if "/" in word:
            yield offset + word.rindex("/") + 1
        offset += len(word) + 1


def _head(words: tuple[str, ...]) -> int:
    """Return the index of the first word that is neither a reserved word nor an assignment."""
    for index, word in enumerate(words):
        if word not in _RESERVED and not _SETS_VARIABLE.match(word):
            return index
    return len(words)


def _launches(words: tuple[str, ...]) -> bool:
    return any(_program(word) in tables().launchers for word in words[_head(words) :][:1])


def _program(word: str) -> str:
    return word.rpartition("/")[2]
