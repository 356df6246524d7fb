"""Makes the pictures of the inspector for the docs: real pages over sessions of the demo, whose model is simulated."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.inspecting import Machine, browser, machine

NAMES = ("harbour", "harbour-at-night")
"""What the folders of the demo are called here: their own names have parts that chance made."""
PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def prepare(served: Machine) -> None:
    """Two sessions of the demo, made here."""
    for scale in ([], ["--fast"]):
        command = [sys.executable, "-m", "sevenfold", "demo", "--keep", "--json", *scale]
        env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(served.folder), "HOME": str(served.folder)}
        subprocess.run(command, env=env, capture_output=True, check=False)
    for number, home in enumerate(sorted(served.folder.glob("sevenfold-demo-*/home"))):
        for project in (home / "projects").iterdir():
            name = f"{NAMES[number]}{project.suffix}"
            shutil.copytree(project, served.home / "projects" / name)


def main() -> None:
    with machine() as served:
        prepare(served)
        served.start()
        for theme, suffix in (("light", ""), ("dark", "-dark")):
            with browser(color_scheme=theme, viewport={"width": 1280, "height": 860}) as page:
                page.goto(served.address)
                page.wait_for_selector(".pill.good, .pill.bad, .pill.warn, .pill.note")
                page.wait_for_timeout(1500)
                rows = page.evaluate(
                    "fetch('/api/sessions', {headers: {'X-Sevenfold-Token': localStorage.getItem('sevenfold-token')}})"
                    ".then((answer) => answer.json())"
                )["sessions"]
                page.screenshot(path=PICTURES / f"inspector-sessions{suffix}.png")
                largest = max(
                    (row for row in rows if not row["parent"]), key=lambda row: row.get("requests", 0)
                )
                page.evaluate(f"location.hash = '#/s/{largest['key']}'")
                page.wait_for_selector("#context-chart canvas")
                page.wait_for_timeout(600)
                page.screenshot(path=PICTURES / f"inspector-session{suffix}.png")
                # It stays at the top of the window, so it would cover a card that is larger than that.
                page.evaluate("document.querySelector('header.top').style.position = 'static'")
                page.get_by_role("button", name="Check them").click()
                page.wait_for_selector(".three", timeout=120_000)
                page.locator("section[aria-label='Compactions']").screenshot(
                    path=PICTURES / f"inspector-compactions{suffix}.png"
                )
                page.get_by_role("button", name="Another policy").click()
                page.wait_for_selector("section[aria-label='What if'] canvas", timeout=120_000)
                page.wait_for_timeout(400)
                page.locator("section[aria-label='What filled the context']").screenshot(
                    path=PICTURES / f"inspector-policies{suffix}.png"
                )
                page.evaluate("document.querySelector(\"section[aria-label='Ledger']\")?.scrollIntoView()")
                page.screenshot(path=PICTURES / f"inspector-ledger{suffix}.png")
                page.evaluate(f"location.hash = '#/s/{largest['key']}/r/{min(80, largest['requests'])}'")
                page.wait_for_selector("#sha", timeout=60_000)
                page.wait_for_timeout(400)
                page.screenshot(path=PICTURES / f"inspector-request{suffix}.png")
                page.evaluate("location.hash = '#/memory'")
                page.wait_for_function(
                    "() => document.querySelector('h1')?.textContent === 'What is remembered'"
                )
                page.wait_for_timeout(300)
                page.screenshot(path=PICTURES / f"inspector-memory{suffix}.png")
                parents = {row["parent"] for row in rows if row["parent"]}
                for key in sorted(parents)[:1]:
                    page.evaluate(f"location.hash = '#/s/{key}'")
                    page.wait_for_selector("#context-chart canvas")
                    page.locator("section[aria-label='Agents']").screenshot(
                        path=PICTURES / f"inspector-agents{suffix}.png"
                    )


if __name__ == "__main__":
    main()
