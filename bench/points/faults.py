"""Small faults to put into Python source: a comparison changed, a condition negated, a call removed.

Only code whose effect a test can notice is changed: no docstrings, annotations, texts, assertions (the ``strict`` of
`zip` is one), class options or decorators. Faults that would change nothing that matters are avoided too, such as a
limit in the thousands that is off by one, or None returned instead of False. So a large figure becomes ten times as
large, a comparison with one is reversed completely, and the result of a function that returns a bool is negated. A
fault replaces one expression or statement and leaves every other byte unchanged.
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
_ROUND: dict[type[ast.AST], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
}
"""Complete reversals, for comparisons with a limit, where being off by one changes nothing that matters."""
_NO_EFFECT = ("log", "logger", "logging", "warnings")
"""Calls on these are left alone: no test should depend on them."""
SMALL = 10
"""Figures below this are counts and indexes, where being off by one matters."""
_FOR_READERS = ("__repr__", "__str__")


class Fault(Struct, frozen=True):
    """One change to one file."""

    path: str
    """Relative to the root of the tree."""
    line: int
    start: int
    """An offset in bytes from the beginning of the file, like ``end``."""
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        """The location and the change, on one line."""
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {old} -> {new}"

    def applied(self, source: bytes) -> bytes:
        """The source of the file with the fault in it."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def choose(root: Path, packages: Sequence[str], number: int, seed: int) -> list[Fault]:
    """Draw ``number`` faults (all, if there are fewer) from the packages; reproducible for a tree and seed."""
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
    tree = ast.parse(source)
    limits = _limits(tree)
    for node, wrong in _changes(tree, limits):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = place(node.lineno, node.col_offset)
        end = place(node.end_lineno, node.end_col_offset)
        # Parentheses, because the surrounding code may bind more tightly than the new expression.
        new = f"({ast.unparse(wrong)})" if isinstance(wrong, ast.expr) else ast.unparse(wrong)
        made.append(Fault(path, node.lineno, begin, end, source[begin:end].decode(), new))
    return made


Place = ast.expr | ast.stmt


def _limits(tree: ast.Module) -> frozenset[str]:
    """The names of a module's constants that are limits, not small counts."""
    found: set[str] = set()
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=value):
                found |= {name} if _is_limit(value, frozenset(found)) else set()
            case ast.Assign(targets=[ast.Tuple(names)], value=ast.Tuple(values)):
                pairs = zip(names, values, strict=True)
                found |= {
                    name.id
                    for name, value in pairs
                    if isinstance(name, ast.Name) and _is_limit(value, frozenset(found))
                }
            case _:
                pass
    return frozenset(found)


def _is_limit(node: ast.expr, limits: frozenset[str]) -> bool:
    """Whether an expression is a limit, that is, a figure that is not a small count, or is computed from one."""
    match node:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int(value)):
            return value >= SMALL
        case ast.Constant(value=float()):
            return True
        case ast.Name(name):
            return name in limits
        case ast.BinOp(left=left, right=right):
            return _is_limit(left, limits) or _is_limit(right, limits)
        case _:
            return False


def _changes(
    node: ast.AST, limits: frozenset[str], *, answers: bool = False
) -> Iterator[tuple[Place, Place]]:
    """The nodes to replace in a tree, with their replacements; ``answers``: inside a function that returns a bool."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        answers = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
    if isinstance(node, Place):
        yield from ((node, wrong) for wrong in _wrongs(node, limits, answers=answers))
    for child in _run_parts(node):
        yield from _changes(child, limits, answers=answers)


def _run_parts(node: ast.AST) -> Iterator[ast.AST]:
    """The children of a node whose effect a test can notice."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield from () if name in _FOR_READERS else node.body
        case ast.ClassDef():
            yield from node.body
        case ast.keyword(arg="strict"):
            return
        case ast.AnnAssign(value=value):
            yield from () if value is None else (value,)
        case ast.Assert() | ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return
        case ast.If(test=ast.Name("TYPE_CHECKING")):
            return
        case _:
            yield from ast.iter_child_nodes(node)


def _wrongs(node: Place, limits: frozenset[str], *, answers: bool) -> Iterator[Place]:
    wrong = copy.deepcopy(node)
    match wrong:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _ROUND and (
            _is_limit(left, limits) or _is_limit(right, limits)
        ):
            wrong.ops = [_ROUND[type(op)]()]
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
