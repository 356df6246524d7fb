"""compactbench: how many of a conversation's prohibitions and decisions are in the next request after compactions.

    python bench/compactbench.py [--quick]

The package compactbench and its published cases (18 templates with a seed, in its source distribution only) are
fetched into `.dev/compactbench` on first use; nothing of it ships with this project. Each case is held as published
and with talk put between its turns up to 18,000, 52,000 and 157,000 tokens, half of it the user's, in a window of
200,000, and compacted three times with its own prompts in between. Its scorer then looks for what the user forbade and
decided in the next request; what it does not even find in the whole conversation is left out. By code alone, and with
a model that says nothing of it in its summary and names nine in ten of such messages. The exit status is 1 if a bar is
missed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.chats.models import Naming  # noqa: E402 - started as a script, the folder is not on the path
from bench.chats.session import CYCLES, Held, hold_messages  # noqa: E402
from bench.chats.talk import Line, padded  # noqa: E402
from bench.compaction import Bar, show  # noqa: E402
from sevenfold.layers.compact.compaction import EngineName  # noqa: E402

HOME = ROOT / ".dev" / "compactbench"
BRIDGE = Path(__file__).with_name("chats") / "compactbench_bridge.py"
PACKAGE = "compactbench==0.1.0"
PATIENCE = 600
"""Seconds that each command may take."""
PADDED = (18_000, 52_000, 157_000)
WINDOW = 200_000
SEEDS = 5
"""Cases of each template as published; one when padded."""
PROHIBITIONS, DECISIONS, LARGEST = 1.0, 0.98, 0.8
DIFFICULTY = "hard"


class Unavailable(Exception):
    """compactbench cannot be fetched here; the text says why."""


class Case(Struct, frozen=True):
    """A published case."""

    name: str
    seed: int
    lines: tuple[Line, ...]
    prompts: tuple[str, ...]
    """What the user says between two compactions."""
    prohibitions: tuple[str, ...]
    decisions: tuple[str, ...]


class Found(Struct):
    """How many prohibitions and decisions there are, and how many of them the next requests contain."""

    prohibitions: int = 0
    prohibitions_kept: int = 0
    decisions: int = 0
    decisions_kept: int = 0
    unscored: int = 0
    """What the scorer does not find in the whole conversation."""
    missing: list[str] = []


# compactbench in its own environment


def fetch() -> tuple[Path, Path]:
    """Return an interpreter that has compactbench, and the folder of its cases; raises `Unavailable`."""
    python = HOME / "bin" / "python"
    source = HOME / "source"
    done = HOME / "installed"
    if not done.exists() or done.read_text() != PACKAGE:
        shutil.rmtree(HOME, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(HOME)])
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        # Building the metadata of a source distribution needs its build system, which pip fetches by itself.
        _run([*pip, "download", "--no-binary", "compactbench", "--no-deps", "--dest", str(source), PACKAGE])
        (archive,) = source.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(source, filter="data")
        _run([*pip, "install", str(archive)])
        # Written last, so that an interrupted installation counts as none.
        done.write_text(PACKAGE)
    folders = list(source.glob("*/benchmarks/public"))
    if not folders:
        raise Unavailable("the source distribution of compactbench has no folder benchmarks/public")
    return python, folders[0]


def _run(command: Sequence[str], given: str | None = None) -> str:
    try:
        done = subprocess.run(
            command, input=given, check=True, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or "").strip().splitlines()
        raise Unavailable(lines[-1] if lines else f"exit code {error.returncode}") from error
    except (subprocess.TimeoutExpired, OSError) as error:
        raise Unavailable(str(error)) from error
    return done.stdout


def published(python: Path, folder: Path, seeds: int) -> list[Case]:
    """Generate the published cases, this many of each template."""
    generated = json.loads(_run([str(python), str(BRIDGE), "cases", str(folder), str(seeds), DIFFICULTY]))
    return [_case(case) for case in generated]


def _case(case: Mapping[str, Any]) -> Case:
    truth = case["ground_truth"]
    return Case(
        name=case["case_id"],
        seed=case["seed"],
        lines=tuple(
            Line("assistant" if turn["role"] == "assistant" else "user", turn["content"])
            for turn in case["transcript"]["turns"]
        ),
        prompts=tuple(case["continuation"]),
        prohibitions=tuple(truth["forbidden_behaviors"]),
        decisions=tuple(truth["locked_decisions"]),
    )


# Holding the cases


def hold_case(case: Case, tokens: int, *, by_model: bool = False) -> Held:
    """Hold a case with this much talk, and compact it three times with its own prompts in between."""
    lines = list(padded(case.lines, tokens, case.seed) if tokens else case.lines)
    parts = [
        lines[len(lines) * part // CYCLES : len(lines) * (part + 1) // CYCLES] for part in range(CYCLES)
    ]
    spoken: list[Line] = []
    for part, prompt in zip(parts, (*case.prompts, ""), strict=True):
        spoken += part
        if prompt:
            spoken += [Line("user", prompt), Line("assistant", "Let me think about that.")]
    messages = [{"role": line.role, "content": line.text} for line in spoken]
    engine: EngineName = "fork" if by_model else "extractive"
    client = Naming(_lasting(case), case.seed) if by_model else None
    return hold_messages(case.name, messages, {}, WINDOW, engine=engine, client=client)


def _lasting(case: Case) -> list[str]:
    """The user's messages that forbid or decide something."""
    wanted = [text.casefold() for text in (*case.prohibitions, *case.decisions)]
    users = [line.text for line in case.lines if line.role == "user"]
    return [text for text in users if any(wish in text.casefold() for wish in wanted)]


def score(python: Path, cases: Sequence[Case], conversations: Sequence[Held]) -> Found:
    """Look for the prohibitions and decisions of the cases in the next requests, with compactbench's scorer."""
    asked: list[tuple[str, str, dict[str, Any]]] = []
    for case, held in zip(cases, conversations, strict=True):
        whole = "\n".join(line.text for line in case.lines if line.role == "user")
        wanted = [*(("prohibition", text) for text in case.prohibitions)]
        wanted += [("decision", text) for text in case.decisions]
        for kind, text in wanted:
            expected = {"check": "contains_normalized", "value": text}
            asked.append((kind, text, {"expected": expected, "text": whole}))
            asked.append((kind, text, {"expected": expected, "text": held.context}))
    answers = json.dumps([answer for *_, answer in asked])
    scores: list[float] = json.loads(_run([str(python), str(BRIDGE), "score"], answers))
    found = Found()
    for (kind, text, _), before, after in zip(asked[::2], scores[::2], scores[1::2], strict=True):
        if before < 1:
            found.unscored += 1
        elif kind == "prohibition":
            found.prohibitions += 1
            found.prohibitions_kept += after == 1
        else:
            found.decisions += 1
            found.decisions_kept += after == 1
        if before == 1 > after:
            found.missing.append(f"{kind}: {text}")
    return found


def bars(sort: str, found: Found, conversations: Sequence[Held]) -> list[Bar]:
    """Return the bars for some cases."""
    made = [growth for held in conversations for growth in held.compactions]
    not_made = sum(held.not_made for held in conversations)
    large = sum(growth.share > LARGEST for growth in made)
    prohibitions = found.prohibitions_kept / max(1, found.prohibitions)
    decisions = found.decisions_kept / max(1, found.decisions)
    return [
        (
            f"compactbench {sort}: prohibitions in the next request",
            f"{found.prohibitions_kept} of {found.prohibitions} ({prohibitions:.1%})",
            f"at least {PROHIBITIONS:.0%}",
            found.prohibitions > 0 and prohibitions >= PROHIBITIONS,
        ),
        (
            f"compactbench {sort}: decisions in the next request",
            f"{found.decisions_kept} of {found.decisions} ({decisions:.1%})",
            f"at least {DECISIONS:.0%}",
            found.decisions > 0 and decisions >= DECISIONS,
        ),
        (
            f"compactbench {sort}: larger than {LARGEST} of before",
            f"{large} of {len(made)} compactions, {not_made} not made",
            "0",
            large == 0,
        ),
    ]


def measure(*, is_quick: bool = False) -> list[Bar]:
    """Hold all cases and return the bars; raises `Unavailable` if compactbench cannot be fetched."""
    python, folder = fetch()
    found: list[Bar] = []
    for tokens in (0, *PADDED[: 1 if is_quick else None]):
        cases = published(python, folder, SEEDS if not tokens and not is_quick else 1)
        for by_model in (False, True):
            conversations = [hold_case(case, tokens, by_model=by_model) for case in cases]
            scored = score(python, cases, conversations)
            size = f"padded to {tokens:,} tokens" if tokens else "as published"
            sort = f"{size}, {'by a model that names nine in ten' if by_model else 'by code alone'}"
            found += bars(sort, scored, conversations)
            sizes = sorted(held.summary_tokens for held in conversations)
            users = sorted(held.user_tokens for held in conversations)
            print(
                f"{sort}: {len(cases)} cases, {scored.unscored} wishes not in the conversation itself; "
                f"the user's words {users[len(users) // 2]:,} tokens, the summary {sizes[len(sizes) // 2]:,}"
            )
            for text in scored.missing:
                print(f"      missing  {text}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure everything; return exit status 0 if all bars are met, else 1."""
    parser = argparse.ArgumentParser(description="compactbench, as published and padded.")
    parser.add_argument("--quick", action="store_true", help="one case of each template, little padding")
    options = parser.parse_args(arguments)
    try:
        measured = measure(is_quick=options.quick)
    except Unavailable as error:
        print(f"not tested: compactbench cannot be fetched: {error}")
        return 1
    return 0 if show(measured) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
