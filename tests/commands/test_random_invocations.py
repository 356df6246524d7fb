"""Commands called with random arguments: whatever they are given, an error is one line with its cause."""

from __future__ import annotations

import argparse
import io
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sevenfold.cli.main import COMMANDS, main, parser
from tests.commands.recorded import foreign

pytestmark = pytest.mark.spec("S14.3")

INVOCATIONS = 500
PROCESSES = 8
SERVES = ("acp", "demo", "gateway", "inspect", "mcp", "serve", "simulate", "work")
"""They run until they are stopped, or for long: they only get arguments that they must refuse."""
VALUES = [
    *(
        "",
        " ",
        ".",
        "-",
        "nope",
        "last",
        "LAST",
        "0",
        "-1",
        "1",
        "7d",
        "1e9",
        "nan",
        "inf",
        "99999999999999999999",
    ),
    *(
        "é😀",
        "a" * 5_000,
        "../../etc",
        "/dev/null",
        "/proc/self/mem",
        "~nosuchuser/x",
        "2026-13-45",
        "*",
        "[",
        "%s",
        "{}",
    ),
    *(
        "\udcff",
        "\x1b[31m",
        "a\nb",
        "http://127.0.0.1:9",
        "list",
        "delete",
        "show",
        "add",
        "locomo",
        "json",
        "user",
    ),
]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A home and a folder of odd files; gives the values that arguments may have."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / ".sevenfold"))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    good = foreign(tmp_path / "good.jsonl")
    whole = good.read_bytes()
    odd = {
        "empty.jsonl": b"",
        "cut.jsonl": whole[: len(whole) // 2],
        "binary.jsonl": bytes(range(256)) * 20,
        "list.json": b"[1, 2, {}]",
        "null.jsonl": b"null\n" * 5,
        "deep.jsonl": b'{"type":"user","uuid":"u","message":' + b"[" * 5_000 + b"]" * 5_000 + b"}\n",
        "wrong.jsonl": b'{"type":"user","uuid":7,"message":{"role":3,"content":{"a":1}}}\n' * 3,
        "text.txt": b"words and words\n",
        "bad.toml": b"a = = 1\n",
        "latin.md": "é".encode("latin-1") * 10,
    }
    for name, content in odd.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    stored = tmp_path / ".claude/projects/-x"
    stored.mkdir(parents=True)
    (stored / "broken.jsonl").write_bytes(whole[:-40])
    return [*VALUES, *odd, "good.jsonl", "good", "folder", "loop", "missing.jsonl", "folder/missing.jsonl"]


def options_of(command: str) -> tuple[list[argparse.Action], int]:
    """The options of a command, and how many positional arguments it takes."""
    top = parser(command)
    [commands] = [each for each in top._actions if isinstance(each, argparse._SubParsersAction)]
    actions = commands.choices[command]._actions
    flags = [each for each in actions if each.option_strings and "--help" not in each.option_strings]
    return flags, sum(not each.option_strings for each in actions)


def invocations(values: list[str], seed: int) -> Iterator[list[str]]:
    chance = random.Random(seed)
    commands = [*COMMANDS, "no-such-command", ""]
    while True:
        command = chance.choice(commands)
        given = [command]
        if command in SERVES:
            yield [
                command,
                chance.choice(["--port=nope", "--seed=x", "--no-such", "--turns=-1", "--port=-7"]),
            ]
            continue
        flags, places = options_of(command) if command in COMMANDS else ([], 2)
        if command == "chat":
            given.append("-p")
        given += [chance.choice(values) for _ in range(chance.randint(0, places + 1))]
        for flag in chance.sample(flags, min(len(flags), chance.randint(0, 3))):
            given.append(flag.option_strings[-1])
            if flag.nargs != 0:
                choices = list(flag.choices or ()) * 2
                given.append(str(chance.choice([*choices, *values])))
        yield given


def told(code: object, err: str) -> str:
    """What is wrong with how a command ended; empty if nothing is."""
    if code not in (0, 1, 2, 3, 4, 5):
        return f"exit code {code}"
    if "Traceback" in err or "[Errno" in err:
        return err
    if code == 2 and not any(line.startswith(("sevenfold: ", "sevenfold ")) for line in err.splitlines()):
        return f"no cause: {err!r}"
    return ""


def test_random_invocations_end_with_an_exit_code_and_a_line(
    world: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = []
    made = invocations(world, seed=7)
    for _ in range(INVOCATIONS):
        arguments = next(made)
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))
        try:
            code: object = main(arguments)
        except SystemExit as ended:
            code = ended.code
        except Exception as error:  # noqa: BLE001, every traceback is what this looks for
            code = repr(error)
        said = capsys.readouterr()
        if problem := told(code, said.err):
            wrong.append(f"{[each[:60] for each in arguments]}: {problem[:300]}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


def test_random_invocations_end_the_same_way_in_processes_of_their_own(world: list[str]) -> None:
    made = invocations(world, seed=11)
    for _ in range(PROCESSES):
        arguments = next(made)
        done = subprocess.run(
            [sys.executable, "-m", "sevenfold", *map(os.fsencode, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert not told(done.returncode, done.stderr.decode(errors="replace")), arguments


@pytest.mark.parametrize(
    "arguments",
    [
        ["scan", "user", "\udcff", "--json"],
        ["chat", "-p", "hi", "--folder", "loop"],
        ["chat", "-p", "hi", "--folder", "~nobody/x"],
        ["agents", "--folder", "a" * 5_000],
    ],
)
def test_names_that_lead_nowhere_end_with_a_line(
    arguments: list[str],
    world: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    try:
        code: object = main(arguments)
    except SystemExit as ended:
        code = ended.code
    assert not told(code, capsys.readouterr().err)


def test_brackets_without_end_are_a_file_that_is_none(
    world: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["audit"], ["profile"], ["recall", "--status"], ["notes"], ["compact"]):
        assert main([command[0], "deep.jsonl", *command[1:]]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "Sevenfold reads" in said


def test_a_benchmark_without_its_file_names_the_cause(
    world: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "locomo", "--data", "missing.json"]) == 2
    said = capsys.readouterr().err
    assert "missing.json: No such file" in said
    assert "Errno" not in said


def test_a_scan_advises_a_purge_only_where_a_purge_acts(
    world: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "slack xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx\n"
    own = tmp_path / ".sevenfold/projects/p.1/memory"
    own.mkdir(parents=True)
    (own / "a.md").write_text(secret)
    (tmp_path / ".claude/projects/-x/b.txt").write_text(secret)
    assert main(["scan", ".claude"]) == 1
    elsewhere = capsys.readouterr().out
    assert "slack-token" in elsewhere
    assert "sevenfold purge" not in elsewhere
    assert "other tools" in elsewhere
    assert main(["scan"]) == 1
    assert "sevenfold purge --secret-digest" in capsys.readouterr().out
