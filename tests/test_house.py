"""Rules of the source tree: what a name means, what a property does, how much a constructor takes."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

CLASS_NAMES_TWICE = 11
PARAMETERS = 6


@cache
def trees() -> dict[str, ast.Module]:
    """Every module by its dotted name."""
    parsed = {}
    for path in (SRC / "sevenfold").rglob("*.py"):
        name = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
        parsed[name] = ast.parse(path.read_text(encoding="utf-8"))
    return parsed


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "property" for one in function.decorator_list)


def writes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Does a method change its object?"""
    stored = (node for node in ast.walk(function) if isinstance(node, ast.Attribute | ast.Subscript))
    return any(not isinstance(node.ctx, ast.Load) and "'self'" in ast.dump(node) for node in stored)


def test_a_property_only_looks() -> None:
    found = {
        f"{name.split('.')[1]}: {one.name}"
        for name, tree in trees().items()
        for one in functions(tree)
        if is_property(one) and writes(one)
    }
    # These three remember what they worked out.
    assert found <= {"layers: allowed", "recall: index", "session: gauge"}


def test_a_class_name_means_one_thing() -> None:
    homes = [
        (node.name, name.split(".")[1] if "." in name else name)
        for name, tree in trees().items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    twice = {name for name, times in Counter(name for name, _ in homes).items() if times > 1}
    assert len(twice) <= CLASS_NAMES_TWICE, sorted(twice)
    assert [home for home, times in Counter(homes).items() if times > 1] == []


def test_constructors_take_few_parameters() -> None:
    many = {
        f"{name}.{node.name}": len(made.args.args) + len(made.args.kwonlyargs) - 1
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for made in node.body
        if isinstance(made, ast.FunctionDef) and made.name == "__init__"
    }
    del many["sevenfold.session.flags.FlagSource"]  # public, and each is a keyword with a default
    assert {name: count for name, count in many.items() if count > PARAMETERS} == {}
