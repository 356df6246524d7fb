"""Rules about the tree itself: what may stand in it, how large its parts may be, what an install brings."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MOST_LINES_IN_A_FUNCTION = 60


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def texts() -> Iterator[tuple[Path, str]]:
    """Every text of the project with its path; what tools and benchmarks leave behind is not of it."""
    own = [
        path
        for path in ROOT.iterdir()
        if path.is_file() and not path.name.startswith((".coverage", ".git"))
    ]
    for folder in ("src", "tests", "docs", "bench", ".ci"):
        own.extend(path for path in (ROOT / folder).rglob("*") if path.is_file())
    left_behind = {"__pycache__", "venvs", "results"}
    for path in own:
        if not left_behind & set(path.parts):
            try:
                yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


# The lock file


def test_the_lock_records_no_address() -> None:
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    pattern = re.compile(
        r"://|^\s*-(i|f|-index-url|-extra-index-url|-find-links|-trusted-host)\b|\s@\s|# from"
    )
    assert [line for line in lines if pattern.search(line)] == []


def test_every_pin_in_the_lock_is_exact_and_carries_hashes() -> None:
    pins = re.split(r"\n(?=\w)", LOCK.read_text(encoding="utf-8"))
    assert [pin.splitlines()[0] for pin in pins if "==" not in pin or "--hash=sha256:" not in pin] == []


UNPINNED = {"meaning", "meaning-e5"}
"""Extras that cannot be had on every machine: what they bring has no place in a lock for all."""


def test_the_lock_pins_everything_the_project_names() -> None:
    table, groups = pyproject()["project"], pyproject()["dependency-groups"]
    lists = [
        table["dependencies"],
        *(listed for extra, listed in table["optional-dependencies"].items() if extra not in UNPINNED),
        *groups.values(),
    ]
    pinned = {
        line.split("==")[0]: line for line in LOCK.read_text(encoding="utf-8").splitlines() if "==" in line
    }
    for requirement in (Requirement(line) for listed in lists for line in listed):
        name = canonicalize_name(requirement.name)
        if name != "sevenfold":
            assert name in pinned, f"{requirement} is not in requirements.lock: run ./dev lock"
            version = re.split(r"[ ;\\]", pinned[name].split("==")[1])[0]
            assert requirement.specifier.contains(version), (
                f"{name} {version} is not {requirement.specifier}"
            )


# What stands in the tree


def test_no_text_names_a_path_of_this_machine() -> None:
    found = []
    for home in {ROOT.parent, Path.home()} - {Path(ROOT.anchor), Path(tempfile.gettempdir())}:
        beneath = re.compile(rf"(?<![\w./-]){re.escape(str(home))}/([\w.+-]+)")
        for path, text in texts():
            # Made-up transcripts may use any path; one that exists here was not made up.
            found += [f"{path}: {hit[0]}" for hit in beneath.finditer(text) if (home / hit[1]).exists()]
    assert found == []


def test_links_in_the_documentation_lead_somewhere() -> None:
    links = [
        (path, link)
        for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    ]
    assert [
        (path.name, link) for path, link in links if "://" not in link and not (path.parent / link).exists()
    ] == []


def test_the_design_names_every_part() -> None:
    named = re.findall(r"^\| `([\w.]+)/?` \|", (ROOT / "docs/design.md").read_text(encoding="utf-8"), re.M)
    parts = (ROOT / "src" / "sevenfold").iterdir()
    assert set(named) == {part.name for part in parts if part.suffix == ".py" or [*part.glob("*.py")]} - {
        "__init__.py",
        "__main__.py",
    }


def test_functions_stay_small() -> None:
    long = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MOST_LINES_IN_A_FUNCTION:
                    long[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = lines
    assert long == {}


# The import contracts


def names_used(path: Path) -> set[str]:
    """Every name a file reads or imports, or has in a text that is no docstring (annotations, lazy exports)."""
    used: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                used.add(name)
            case ast.ImportFrom(names=names):
                used.update(alias.name for alias in names)
            case ast.Constant(value=str(words)) if len(words) < 60 and id(node) not in docstrings:
                used.update(re.findall(r"\w+", words))
    return used


def public_names(path: Path) -> Iterator[str]:
    """What a module has for others: functions, classes and constants without an underscore."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name


def test_nothing_is_there_that_only_tests_use() -> None:
    users = [*SOURCES, *(ROOT / "bench").rglob("*.py")]
    used = set[str]().union(*map(names_used, users))
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    documented = {
        name for code in re.findall(r"```.*?```|`[^`]+`", pages, re.S) for name in re.findall(r"\w+", code)
    }
    dead = {
        name: str(path.relative_to(ROOT))
        for path in SOURCES
        for name in public_names(path)
        if not name.startswith("_") and name not in used | documented
    }
    assert dead == {}


def test_every_module_has_its_place_in_the_import_contracts() -> None:
    one_way, facts_apart, no_world = pyproject()["tool"]["importlinter"]["contracts"]
    assert facts_apart["forbidden_modules"] == ["sevenfold.layers"]
    listed = set().union(*(re.findall(r"[\w.]+", layer) for layer in one_way["layers"]))
    package = ROOT / "src" / "sevenfold"
    parts = {
        f"sevenfold.{path.stem}"
        for path in package.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    parts -= {"sevenfold.__init__", "sevenfold.__main__"}
    assert parts - listed == set(), "in no layer of the contract"
    pure = {"layers", "request", "prompts", "record", "events", "ports", "errors", "profiles"}
    assert {f"sevenfold.{name}" for name in pure} - set(no_world["source_modules"]) == set()


# What an install brings and an import costs


def core_distributions(*extras: str) -> set[str]:
    """All that an install of the core, or of it and extras, brings, itself included, by the installed metadata."""
    project = pyproject()["project"]
    named = [one for extra in extras for one in project["optional-dependencies"][extra]]
    brought, waiting = {"sevenfold"}, [*project["dependencies"], *named]
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if name not in brought and (
            requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ):
            brought.add(name)
            waiting += metadata.requires(name) or []
    return brought


def test_the_core_install_is_light() -> None:
    assert core_distributions() == {"sevenfold", "msgspec"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ["rich", "anthropic", "openai", "asyncio", "starlette", "numpy"]
    script = f"import sys, sevenfold; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_the_demo_installs_what_it_needs_and_no_more() -> None:
    dev = runpy.run_path(str(ROOT / "dev"))
    pins = dev["demo_pins"](LOCK.read_text(encoding="utf-8"))
    pinned = [line for line in pins.splitlines() if not line.startswith(" ")]
    here = [Requirement(line.rstrip(" \\")) for line in pinned]
    names = {one.name for one in here if one.marker is None or one.marker.evaluate({"extra": ""})}
    assert names == core_distributions("anthropic", "cli", "simulator") - {"sevenfold"}
    assert pins.count("--hash=") >= len(names)
