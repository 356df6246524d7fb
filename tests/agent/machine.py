"""One machine of `test_second_machine.py`: an agent in a process of its own, with its own home and workspace.

python -m tests.agent.machine URL FOLDER first|next
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import sevenfold
from tests.agent.working import agent, model_of, use

LISTING = "".join(f"line {number}: nothing of interest\n" for number in range(1, 5_001))
MEMORY = b"---\nname: harbour\n---\nThe harbour opens at six.\n"


def opened(url: str, folder: Path, steps: list[Any]) -> sevenfold.Agent:
    return agent(steps, folder, name="s", store=url, mode="autonomous", checkpoints=True)


def first(url: str, folder: Path) -> dict[str, Any]:
    """Work, so that there is something of everything."""
    (folder / "a.txt").write_text("before")
    (folder / "list.sh").write_text(f"cat <<'END'\n{LISTING}END\n")
    steps = [
        [use("Shell", "c1", command="printf after > a.txt")],
        [use("Shell", "c2", command="bash list.sh")],
        "The harbour is called Quayside.",
    ]
    with opened(url, folder, steps) as worker:
        worker.run("Work at the harbour.")
        worker.assembly.state.plans.submit("The plan.")
        (worker.assembly.home.scratch / "kept.txt").write_text("from scratch")
        store = worker.session.conversation.transcript
        asked = next(item.record.uuid for item in store.view.items)
    return {"asked": asked}


def following(url: str, folder: Path) -> dict[str, Any]:
    """Go on, and report what there is and what was sent."""
    asked = sys.argv[4]
    with opened(url, folder, ["Going on."]) as worker:
        there = {
            "plan": worker.assembly.state.plans.text(),
            "scratch": (worker.assembly.home.scratch / "kept.txt").read_text(),
            "restores": sorted(file.path for file in worker.restore_plan(asked).files),
            "recall": [hit.excerpt for hit in worker.session.recall("Quayside")],
            "result": len(worker.session.fetch("c2")),
        }
        worker.run("Go on.")
        return {**there, "body": model_of(worker).asked[-1].body.decode()}


if __name__ == "__main__":
    work = {"first": first, "next": following}[sys.argv[3]]
    print(json.dumps(work(sys.argv[1], Path(sys.argv[2]))))
