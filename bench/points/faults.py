"""Small faults put into Python source: a comparison turned round, a condition negated, a call left out.

Only what a run can notice is changed: no docstrings, annotations, texts, assertions, class options or decorators.
Nor is a fault one that changes nothing: a limit of thousands that is off by one, or None where False was meant. Such a
figure becomes ten times as large, and what a function that answers yes or no returns is turned round. A fault replaces
one expression or statement and leaves every other byte as it is.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

_TURNED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
}
_NO_EFFECT = ("log", "logger", "logging", "warnings")
"""Calls on these are left alone: no test should depend on them."""
SMALL = 10
"""Figures below this one are counts and places, where being off by one matters."""
_FOR_READERS = ("__repr__", "__str__")


class Fault(Struct, frozen=True):
    """One change to one file."""

    path: str
    """From the root of the tree."""
    line: int
    start: int
    """In bytes from the beginning of the file, as is the end."""
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        """Where it is and what it changes, in a line."""
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {old} -> {new}"

    def applied(self, source: bytes) -> bytes:
        """The file with the fault in it."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def choose(root: Path, packages: Sequence[str], number: int, seed: int) -> list[Fault]:
    """So many faults from all over the packages, the same for the same tree and seed."""
    chance = random.Random(seed)
    paths = [path for name in packages for path in sorted((root / name).rglob("*.py"))]
    found = [fault for path in paths for fault in faults(path.read_bytes(), str(path.relative_to(root)))]
    return chance.sample(found, min(number, len(found)))


def faults(source: bytes, path: str = "") -> list[Fault]:
    """Every fault that can be put into a file."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        return starts[line - 1] + column

    made = []
    for node, wrong in _changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = place(node.lineno, node.col_offset)
        end = place(node.end_lineno, node.end_col_offset)
        # Brackets, because what is around it may bind more tightly than what it was.
        new = f"({ast.unparse(wrong)})" if isinstance(wrong, ast.expr) else ast.unparse(wrong)
        made.append(Fault(path, node.lineno, begin, end, source[begin:end].decode(), new))
    return made


Place = ast.expr | ast.stmt


def _changes(node: ast.AST, *, answers: bool = False) -> Iterator[tuple[Place, Place]]:
    """What can be replaced below a node, and by what; ``answers``: it is in a function that returns a bool."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        answers = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
    if isinstance(node, Place):
        yield from ((node, wrong) for wrong in _wrongs(node, answers=answers))
    for child in _run_parts(node):
        yield from _changes(child, answers=answers)


def _run_parts(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that run in a way a test can notice."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield from () if name in _FOR_READERS else node.body
        case ast.ClassDef():
            yield from node.body
        case ast.AnnAssign(value=value):
            yield from () if value is None else (value,)
        case ast.Assert() | ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return
        case ast.If(test=ast.Name("TYPE_CHECKING")):
            return
        case _:
            yield from ast.iter_child_nodes(node)


def _wrongs(node: Place, *, answers: bool) -> Iterator[Place]:
    wrong = copy.deepcopy(node)
    match wrong:
        case ast.Compare(ops=[op]) if type(op) in _TURNED:
            wrong.ops = [_TURNED[type(op)]()]  # type: ignore[list-item]
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in _TURNED:
            wrong.op = _TURNED[type(op)]()  # type: ignore[assignment]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            wrong = operand
        case ast.IfExp():
            wrong.body, wrong.orelse = wrong.orelse, wrong.body
        case ast.Constant(value=bool(value)):
            wrong.value = not value
        case ast.Constant(value=int(value)):
            wrong.value = value + 1 if value < SMALL else value * 10
        case ast.Expr(value=ast.Call() as call) if _root(call.func) not in _NO_EFFECT:
            wrong = ast.Pass()
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant | ast.JoinedStr):
            wrong.value = ast.UnaryOp(ast.Not(), value) if answers else ast.Constant(None)
        case ast.Continue():
            wrong = ast.Break()
        case _:
            return
    yield wrong


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""
