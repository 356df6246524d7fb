"""The sandbox: whether the attacks of the advisories do no damage in it, and whether that could be tested here.

Landlock and bubblewrap are tested separately. A machine without one of them cannot test it, and then it is not met.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from bench.points import Outcome, Point

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = (
    "test_sandbox.py",
    "test_sandbox_proxy.py",
    "test_sandbox_advisories.py",
    "test_sandbox_newcomers.py",
    "test_sandbox_own_attacks.py",
)


def attacks(_: Path | None) -> list[Outcome]:
    """How many tests of the sandbox pass; one that could not run here is counted as one that did not."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        paths = [f"tests/agent/{name}" for name in TESTS]
        line = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            *paths,
        ]
        subprocess.run(line, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    return [
        _outcome("bubblewrap", cases),
        _outcome("landlock", cases),
        _outcome("none", cases),
        _others(cases),
    ]


def _outcome(kind: str, cases: list[ElementTree.Element]) -> Outcome:
    named = [case for case in cases if _kind(case) == kind]
    name = (
        "attacks that succeed without a sandbox" if kind == "none" else f"attacks without damage in {kind}"
    )
    return _counted(name, named)


def _others(cases: list[ElementTree.Element]) -> Outcome:
    others = [case for case in cases if not _kind(case)]
    return _counted("rules, settings and the proxy of the sandbox", others)


def _kind(case: ElementTree.Element) -> str:
    """The mechanism that a test was run in, as its parameters say; empty if they name none."""
    parameters = re.split(r"[][-]", case.get("name", ""))[1:]
    return next((kind for kind in ("bubblewrap", "landlock", "none") if kind in parameters), "")


def _counted(name: str, cases: list[ElementTree.Element]) -> Outcome:
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = sum(len(case) == 0 or all(part.tag.startswith("system") for part in case) for case in cases)
    figure = f"{passed} of {len(cases)}" + (f", {skipped} could not be tested here" if skipped else "")
    return Outcome(name, passed == len(cases) > 0, figure, "all")


POINTS: list[Point] = [("the sandbox: attacks", attacks)]
