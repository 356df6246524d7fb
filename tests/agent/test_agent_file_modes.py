"""Whatever the umask, nobody but its owner can read what the engine writes for itself."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sevenfold.stores.lineage import for_user

PROGRAM = """
    import os, sys
    from pathlib import Path
    os.umask(0)
    import sevenfold
    from sevenfold.stores.trust import Trust, user_folder
    from tests.agent.working import agent, use
    folder = Path(sys.argv[1])
    (folder / "a.txt").write_text("old")
    (folder / "long.txt").write_text("a line of words\\n" * 30_000)
    steps = [
        [
            use("Read", path=str(folder / "a.txt")),
            use("Write", path=str(folder / "b.txt"), content="new"),
            use("Shell", command="cat long.txt"),
            use("Shell", command="echo ready; exit 0", background=True),
        ],
        [use("Edit", path=str(folder / "b.txt"), old_text="new", new_text="newer")],
        "Done.",
    ]
    settings = {"telemetry": "jsonl", "notes": True, "recall_ahead": True}
    made = agent(steps, folder, name="s", mode="autonomous", checkpoints=True, settings=settings)
    with made:
        made.run("Work on it: always use tabs.")
        made.session.compact(engine="extractive")
        list(made.session.recall("tabs"))
    with agent(["Again."], folder, name="s", mode="autonomous") as made:
        made.run("And again.")
    Trust(user_folder(os.environ)).add(folder)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no modes there")
@pytest.mark.spec("S21.10")
def test_everything_written_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    home = tmp_path / "home" / "deep" / "sevenfold"
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "home").mkdir(mode=0o755)
    environ = {**os.environ, "SEVENFOLD_HOME": str(home), "HOME": str(tmp_path / "home")}
    program = textwrap.dedent(PROGRAM)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], env=environ, stderr=subprocess.PIPE, text=True
    ) as child:
        # Another test's agent may still be open in this process; this child is the user's all the same.
        with for_user(child.pid):
            _, errors = child.communicate()
        assert child.returncode == 0, errors
    written = [path for path in (tmp_path / "home").rglob("*") if not path.is_symlink()]
    kinds = {
        path.name if path.suffix in ("", ".toml") else path.suffix for path in written if path.is_file()
    }
    wrong = {
        str(path.relative_to(home)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in written
        if path.stat().st_mode & 0o077
    }
    assert {".jsonl", ".log", ".lock"} <= kinds, json.dumps(sorted(kinds))
    names = " ".join(sorted(str(path.relative_to(home)) for path in written if path.is_relative_to(home)))
    for name in ("journal.jsonl", "/tasks/task-1.log", "tool-results/", "telemetry", "trusted"):
        assert name in names
    assert wrong == {}
