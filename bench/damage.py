"""Damage files of every kind that the engine writes, and check that the session still opens and can be sent.

    python bench/damage.py [--count N] [--seed N]

An agent works once in a folder: it reads, writes and edits files, runs commands in the background, keeps notes and
memory, stores results, checkpoints and telemetry, is trusted and reads its settings. Then, again and again, one to
three of the files it left are damaged: bytes overwritten, cut off, doubled, taken out or zeroed, a file emptied,
removed, replaced by a folder or by a link to itself. After each damage the agent is opened and asked again. What must
hold: no exception that is not ours, nothing written to standard error by the interpreter, and a request that is sent,
that the provider's rules accept, with every message the user had typed if the transcript itself was not damaged. An
error of ours counts as refused, and is a problem too, except where a file of the user's (settings, trust) is what is
wrong, or a folder or a link is in the place of the transcript, its lock or the telemetry. The same seed repeats a run.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import sevenfold  # noqa: E402  # needs the path above
from bench.foreign_logs import bent  # noqa: E402
from sevenfold.errors import SevenfoldError  # noqa: E402
from sevenfold.lab.simulator.errors import ApiError  # noqa: E402
from sevenfold.lab.simulator.parameters import ApiFeatures  # noqa: E402
from sevenfold.lab.simulator.preparation import prepare  # noqa: E402
from sevenfold.lab.simulator.provider import Simulator  # noqa: E402
from sevenfold.lab.simulator.schema import check_shape  # noqa: E402
from sevenfold.layers.compact.offline import summarise, take_notes  # noqa: E402
from sevenfold.memory.entry import new_entry  # noqa: E402
from sevenfold.ports import AgentMessage, Call, Reply, Watcher  # noqa: E402
from sevenfold.providers.offline import OfflineClient, Script  # noqa: E402
from sevenfold.stores.jsonl.store import JsonlStore  # noqa: E402
from sevenfold.stores.trust import Trust, user_folder  # noqa: E402

COUNT = 5_000
WORDS = "The harbour code is 7741."
"""What the user typed, and must be in every request as long as the transcript is whole."""
NEEDED = ("s.jsonl", "s.jsonl.lock", "telemetry.jsonl")
"""Files without which nothing can be written: if a folder or a link to itself is in their place, an error says so."""
USERS_OWN = ("settings.toml", "trusted.json", "hooks.json")
"""Files in which an error of ours is the right answer to damage."""


class Found(Struct):
    """The totals of a run."""

    tried: int = 0
    kinds: Counter[str] = Counter()
    """How often a file of each kind was damaged."""
    problems: dict[str, list[int]] = {}
    """The seeds at which a problem was found, by its description."""
    told: Counter[str] = Counter()
    """Errors of ours about files of the user's."""

    def __str__(self) -> str:
        """Return a one-line summary."""
        number = sum(map(len, self.problems.values()))
        return f"{number} problems in {self.tried:,} damages of {len(self.kinds)} kinds of files"


class Listening(OfflineClient):
    """A model that plays a script, and what it was asked."""

    def __init__(self, steps: Sequence[Any]) -> None:
        super().__init__(Script(steps, jobs={"compact": summarise, "session_memory": take_notes}))
        self.asked: list[bytes] = []
        self.refused = ""
        """Why a provider would have refused a request; empty if it would have taken all of them."""

    def ask(self, call: Call, watch: Watcher | None = None) -> Reply:
        """Answer with the next step."""
        if call.source in ("main", "sdk"):
            self.asked.append(call.body)
            self.refused = self.refused or refusal_of(call)
        return super().ask(call, watch)


def refusal_of(call: Call) -> str:
    """Why the simulated provider would refuse a request; empty if it would take it."""
    body = msgspec.json.decode(call.body)
    simulator = Simulator()
    profile = simulator.profile(body["model"])
    assert profile is not None
    features = ApiFeatures("2026-10-21", frozenset(call.betas))
    try:
        check_shape(body, features)
        prepare(simulator, body, profile, features)
    except ApiError as error:
        return str(error)
    return ""


def use(name: str, **given: Any) -> dict[str, Any]:
    """Return a tool call."""
    return {"type": "tool_use", "name": name, "input": given}


class Place:
    """A folder to work in and a home for what the engine writes, both restored before each damage."""

    def __init__(self, root: Path) -> None:
        self.home, self.work, self.kept = root / "home", root / "work", root / "kept"
        self.work.mkdir()
        os.environ["SEVENFOLD_HOME"] = str(self.home)

    def agent(self, steps: Sequence[Any]) -> tuple[sevenfold.Agent, Listening]:
        """Return the agent of the session, with a model that plays these steps."""
        client = Listening(steps)
        made = sevenfold.Agent(
            "claude-sonnet-5-5",
            client=client,
            folder=self.work,
            name="s",
            mode="autonomous",
            checkpoints=True,
            settings={"telemetry": "jsonl"},
        )
        return made, client

    def begin(self) -> None:
        """Let an agent work once, and keep what it left."""
        (self.work / "a.txt").write_text("old")
        (self.work / "long.txt").write_text("a line of words\n" * 30_000)
        self.home.mkdir(mode=0o700)
        (self.home / "settings.toml").write_text("notes = true\n")
        Trust(user_folder(os.environ)).add(self.work)
        steps = [
            [
                use("Read", path=str(self.work / "a.txt")),
                use("Write", path=str(self.work / "b.txt"), content="new"),
                use("Shell", command="cat long.txt"),
                use("Shell", command="echo ready", background=True),
            ],
            [use("Edit", path=str(self.work / "b.txt"), old_text="new", new_text="newer")],
            "Done.",
        ]
        made, _ = self.agent(steps)
        with made:
            made.run(f"{WORDS} Always use tabs from now on.")
            list(made.session.recall("harbour"))
            self.remember(made)
            made.session.compact(engine="extractive")
        made, _ = self.agent(["Again."])
        with made:
            made.run("And again.")
        shutil.copytree(self.home, self.kept, symlinks=True)

    def remember(self, made: sevenfold.Agent) -> None:
        """Write memory entries, notes and a message that nobody has read yet."""
        memory = made.session.memory
        assert memory is not None
        for number in range(3):
            words = f"The user wants tabs in file {number}."
            memory.write(new_entry(f"tabs-{number}", "project", words, words), "user", "added by hand")
        store = made.assembly.store.store
        assert isinstance(store, JsonlStore)
        store.notes("s").write("# Notes\n\nThe code is in the harbour office.\n")
        store.mailbox().send(AgentMessage("m1", "other", "s", "Is the code right?"))

    def restore(self) -> None:
        """Put everything back."""
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self.kept, self.home, symlinks=True)

    def files(self) -> list[Path]:
        """Return all files in the home."""
        return sorted(path for path in self.home.rglob("*") if path.is_file() and not path.is_symlink())


def kind_of(path: Path, home: Path) -> str:
    """Return the kind of a file: its folder and ending, without the names of one session."""
    parts = path.relative_to(home).parts
    shown = [part for part in parts[2:-1] if len(part) > 2] if parts[0] == "projects" else list(parts[:-1])
    # Contents are kept under their hashes.
    name = path.suffix or ("contents" if len(path.name) > 20 else path.name)
    return "/".join([*shown[:2], name])


def damage(path: Path, dice: random.Random) -> None:
    """Damage a file in one of many ways."""
    raw = path.read_bytes()
    match dice.randrange(12):
        case 0:
            path.write_bytes(b"")
        case 1:
            path.unlink()
        case 2:
            path.unlink()
            path.mkdir()
        case 3:
            path.unlink()
            path.symlink_to(path.name)
        case 4:
            path.write_bytes(b"[" * 100_000)
        case 5:
            path.write_bytes(raw + b"\xff\xfe\x00")
        case _:
            path.write_bytes(bent(raw, dice))


def search(count: int, seed: int) -> Found:
    """Damage files this often."""
    found = Found()
    noise: list[str] = []
    before, home = sys.unraisablehook, os.environ.get("SEVENFOLD_HOME")
    sys.unraisablehook = lambda told: noise.append(f"{told.exc_type.__name__} in {told.object!r}"[:80])
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = Place(Path(folder).resolve())
            place.begin()
            for number in range(seed, seed + count):
                _try(place, number, found, noise)
    finally:
        sys.unraisablehook = before
        if home is None:
            os.environ.pop("SEVENFOLD_HOME", None)
        else:
            os.environ["SEVENFOLD_HOME"] = home
    return found


def _try(place: Place, seed: int, found: Found, noise: list[str]) -> None:
    dice = random.Random(seed)
    place.restore()
    files = place.files()
    kinds: dict[str, list[Path]] = {}
    for path in files:
        kinds.setdefault(kind_of(path, place.home), []).append(path)
    chosen = [dice.choice(kinds[kind]) for kind in dice.sample(sorted(kinds), dice.choice((1, 1, 1, 2, 3)))]
    names = [kind_of(path, place.home) for path in chosen]
    for path in chosen:
        damage(path, dice)
    found.tried += 1
    found.kinds.update(names)
    if problem := _problem(place, chosen, found):
        found.problems.setdefault(f"{' + '.join(names)}: {problem}", []).append(seed)
    if noise:
        found.problems.setdefault(f"{' + '.join(names)}: noise: {noise[0]}", []).append(seed)
        noise.clear()


def _problem(place: Place, damaged: Sequence[Path], found: Found) -> str:
    """Open the session and ask again; return what is wrong, or an empty text."""
    try:
        made, client = place.agent(["Yes."])
        with made:
            answered = made.run("What is the code?").text
    except SevenfoldError as error:
        line = f"{type(error).__name__}: {error}"[:160]
        replaced = [path for path in damaged if path.is_symlink() or path.is_dir()]
        if any(path.name in USERS_OWN for path in damaged) or any(path.name in NEEDED for path in replaced):
            found.told[line[:60]] += 1
            return ""
        return f"refused: {line}"
    except Exception as error:  # noqa: BLE001  # what is looked for
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(where.filename).name}:{where.name}: {error}"[:160]
    if answered != "Yes." or not client.asked:
        return f"the answer was {answered!r}"
    if client.refused:
        return f"the provider would refuse: {client.refused}"[:160]
    whole = not any(path.name == "s.jsonl" for path in damaged)
    if whole and WORDS.encode() not in client.asked[-1]:
        return "the user's words are lost"
    return ""


def main(arguments: Sequence[str]) -> int:
    """Search and print the problems; return 1 if there are any, else 0."""
    parser = argparse.ArgumentParser(description="Damages files and looks whether the session still works.")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    found = search(options.count, options.seed)
    print(f"{found}, from seed {options.seed}")
    for kind, number in sorted(found.kinds.items()):
        print(f"  {number:>6,}  {kind}")
    for words, seeds in sorted(found.problems.items(), key=lambda problem: -len(problem[1])):
        print(f"{len(seeds):>6,}  {words}  (seed {seeds[0]})")
    return 1 if found.problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
