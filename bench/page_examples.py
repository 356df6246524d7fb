"""The examples of the pages about other people's agents, as a newcomer runs them.

    python -m bench.page_examples [PAGE ...] [--json]

For each page a new environment gets what the page says, and nothing else; then the page's first example runs in it, in
an empty folder, with an empty home and without a network but the loopback device. It must end well and print something.
Packages come from PyPI.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.peers.environments import ROOT, Unavailable, fresh

PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "wrap": ("anthropic,simulator", ()),
    "langchain": ("langchain,simulator", ("langchain-anthropic",)),
    "openai-agents": ("openai-agents,simulator", ()),
    "pydantic-ai": ("pydantic-ai,simulator", ("pydantic-ai-slim[anthropic]",)),
}
"""The pages, and the extras and packages that each of them names."""
SECONDS = 200
_EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


class ExampleOutcome(Struct, frozen=True):
    """What became of an example."""

    page: str
    ended_well: bool | None
    """None if its packages could not be had."""
    detail: str
    """The last line that it printed, or of its error."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    outcomes = [run_example(page) for page in options.pages or PAGES]
    if options.json:
        print(msgspec.json.encode(outcomes).decode())
    else:
        verdicts = {True: "ended well", False: "FAILED", None: "not tested"}
        for outcome in outcomes:
            print(f"  {outcome.page:16} {verdicts[outcome.ended_well]:12} {outcome.detail}")
    return 0 if all(outcome.ended_well is not False for outcome in outcomes) else 1


def example_of(page: str) -> str:
    """The first example of a page."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    example = _EXAMPLE.search(text)
    if example is None:
        raise ValueError(f"docs/{page}.md has no example")
    return example[1]


def run_example(page: str) -> ExampleOutcome:
    """Install what a page says, and run its example."""
    extras, packages = PAGES[page]
    with tempfile.TemporaryDirectory(prefix="sevenfold-page-", dir="/var/tmp") as name:
        folder = Path(name)
        try:
            python = fresh(folder / "environment", (f"{ROOT}[{extras}]", *packages))
        except Unavailable as unavailable:
            return ExampleOutcome(page, None, f"{unavailable}")
        home = folder / "home"
        home.mkdir()
        example = folder / "example.py"
        example.write_text(example_of(page), encoding="utf-8")
        shell = 'ip link set lo up && exec "$@"'
        done = subprocess.run(
            ["unshare", "-rn", "sh", "-c", shell, "sh", str(python), str(example)],
            env={"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    printed = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return ExampleOutcome(page, done.returncode == 0 and bool(printed), printed[-1] if printed else "")


if __name__ == "__main__":
    sys.exit(main())
