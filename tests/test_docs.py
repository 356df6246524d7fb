"""Everything the documentation shows can be run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.forked import ran

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(code, id=f"{page.name}:{number}")
    for page in PAGES
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    )
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs_as_it_is_printed(code, tmp_path):
    done = ran(code, tmp_path, strict=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_readme_has_its_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "./dev demo" in readme
    assert "./dev test" in readme
