"""Parses shell lines into the commands that they run.

A *plain* line is a list of simple commands joined by ``;``, ``&``, ``&&``, ``||``, ``|`` or newlines, with all words
visible. Two parsers must agree on that: the bash grammar, of which only a few node types are accepted, and a regular
expression for what such a line may contain. Substitutions, groups, here-documents, arithmetic and anything else that
either of them does not know make a line not plain: then a rule about its beginning does not cover the whole line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from sevenfold.agent.permissions.known_programs import word_set

if TYPE_CHECKING:
    from tree_sitter import Language, Node


_LONGEST = 20_000
"""The maximum length in bytes for the grammar, whose time is quadratic on lines that it does not understand."""
_SHAPES = word_set(
    "program list pipeline redirected_statement command command_name file_redirect variable_assignments"
)
"""Grammar nodes that are accepted if all of their children are."""
_WORDS = word_set(
    "word number string raw_string concatenation simple_expansion expansion variable_assignment"
)
_JOINTS = word_set("; & && || | |&") | {"\n"}
_REDIRECTIONS = word_set("> >> < >| &> &>> >& <&")
_PARTS = _WORDS | _JOINTS | _REDIRECTIONS | word_set(">&- <&- comment file_descriptor")
_VARIABLE = r"\$(?:[A-Za-z0-9_]+|\{[A-Za-z0-9_]+\}|[?\#@*!$-])"
"""A variable and nothing else: ``${x:-$(make)}`` and the like run commands, and ``$'…'`` has escapes of its own."""
_PIECE = rf"""
    (?P<bare>[^\s'"\\`$;&|<>()\0]+)
  | \\(?P<escaped>[^\n\0])
  | '(?P<single>[^'\0]*)'
    # Between double quotes, a dollar sign stands for itself before these characters. The group is possessive (*+), so
    # that no line makes the expression backtrack.
  | "(?P<double>(?:[^"\\`$\0]|\\[^\n\0]|{_VARIABLE}|\$(?=[\ \t\n;|&/.%=:"]))*+)"
  | (?P<variable>{_VARIABLE}|\$(?=[\ \t\n;|&/.%=:]|\Z))
"""
"""A piece of a word. A backslash at the end of a line is not one, because bash joins the two lines. No piece contains a
NUL, which bash drops and other programs take for the end of the text."""
_WORD_PIECE = re.compile(_PIECE, re.VERBOSE)
_UNNAMED = re.sub(r"\?P<\w+>", "?:", _PIECE)
_PLAIN = re.compile(
    rf"""(?:
    (?<![^\s;&|])\#[^\n\0]*          # a comment: only where a word could begin
  | {_UNNAMED}
  | [\ \t\n] | \\\n
  | (?!<<|[;&|<>]{{4}})[;&|<>]       # no here-document; and no operator has four signs, so four could mean anything
    )*+""",
    re.VERBOSE,
)
"""Matches as much of a line as could be plain: comments, words, blanks and operators."""
_GAP = re.compile(r"(?:[ \t\n]|(?<=[ \t])\\\n|\\\n(?=[ \t]))*")
"""Matches what may be between two words."""
_ASSIGNMENT = re.compile(r"\w+(?:\[[^]]*\])?\+?=")
_EXPANDS = re.compile(r"[*?\[{$]|(?:\A|[=:])~")
_BETWEEN_COMMANDS = re.compile(r"\$\(|&&|\|\||[;&|(){}`\n<>]")
RESERVED_WORDS = word_set(
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
        # Too much rather than too little: deny rules are checked against these commands.
        chunks = [chunk.strip() for chunk in _BETWEEN_COMMANDS.split(line)]
        commands = [SimpleCommand(tuple(unquoted(chunk).split()), chunk) for chunk in chunks if chunk]
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
    newline_at_end = _Token("\n", len(source), len(source))
    for token in (*_tokens(source), newline_at_end):
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
        # The second opinion on where words begin and end: the grammar accepts more than bash does between them.
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
    reads: list[str] = []
    writes: list[str] = []
    assigns = False
    for previous, token in pairwise([_Token("", 0, 0), *tokens]):
        if previous.kind in _REDIRECTIONS:
            opened = writes if ">" in previous.kind else reads
            opened += _target(token, previous.kind)
        elif token.kind == "word":
            word, shape = _read_word(token.text)
            shapes.append(shape)
            # Only before the first word: in `env A=b`, the assignment is an argument.
            if not words and _ASSIGNMENT.match(token.text):
                assigns = True
            else:
                words.append(word)
    if tokens[-1].kind in _REDIRECTIONS:
        raise _NotPlain("a redirection without a target")
    if words and words[0] in RESERVED_WORDS:
        raise _NotPlain(f"the shell's own {words[0]!r}")
    expanded = [shape for shape in shapes if _EXPANDS.search(shape)]
    return SimpleCommand(
        words=tuple(words),
        text=text,
        assigns=assigns,
        reads=tuple(reads),
        writes=tuple(writes),
        piped_in=piped_in,
        literal=not expanded,
        expands_only_patterns=all(map(_is_file_pattern, expanded)),
    )


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
