"""The side of `bench/compactbench.py` that runs in compactbench's own environment: its cases, and its scorer.

    python compactbench_bridge.py cases FOLDER SEEDS DIFFICULTY     cases of the templates in the folder, as JSON
    python compactbench_bridge.py score < ANSWERS                   scores by compactbench's scorer, as JSON

Only the standard library and compactbench are imported here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compactbench.dsl import DifficultyLevel, parse_template_file
from compactbench.engine import GenerationError, generate_case
from compactbench.runner.continuation import select_continuation_prompt
from compactbench.scoring import run_check

CYCLES = 3


def cases(folder: Path, seeds: int, difficulty: str) -> list[dict[str, Any]]:
    """Generate the cases of all templates in a folder that have this difficulty."""
    generated = []
    for path in sorted(folder.rglob("*.yaml")):
        template = parse_template_file(path)
        for seed in range(seeds):
            try:
                case = generate_case(template, seed, DifficultyLevel(difficulty))
            except GenerationError:
                break
            prompts = [select_continuation_prompt(seed, cycle) for cycle in range(1, CYCLES)]
            generated.append({**case.model_dump(mode="json"), "continuation": prompts})
    return generated


def scores(answers: Sequence[dict[str, Any]]) -> list[float]:
    """Score texts: each answer has what is expected, as an evaluation item of a case has it, and the text."""
    return [run_check(answer["expected"], answer["text"]) for answer in answers]


def main(arguments: Sequence[str]) -> int:
    """Print what was asked for as JSON."""
    match arguments:
        case ["cases", folder, seeds, difficulty]:
            result: Any = cases(Path(folder), int(seeds), difficulty)
        case ["score"]:
            result = scores(json.load(sys.stdin))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    json.dump(result, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
