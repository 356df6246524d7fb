"""Scripts and habits from Claude Code: its options mean the same here, or are refused with what to use instead."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sevenfold.cli import main as cli
from sevenfold.cli.chat.claude_flags import _refused_flags, read_settings, translated_rules
from sevenfold.cli.chat.history import sessions
from sevenfold.errors import InputError
from sevenfold.stores.jsonl.log import JsonlLog

pytestmark = pytest.mark.spec("S37.1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        code = cli.main(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    output = capsys.readouterr()
    return code, output.out, output.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("-p", "hi there"),
        ("-p", "--output-format", "text", "hi there"),
        ("chat", "-p", "hi there", "--verbose"),
        ("hi there", "-p"),
        ("-p", "hi there", "--permission-mode", "acceptEdits"),
        ("-p", "hi there", "--permission-mode", "default", "--max-turns", "3"),
        ("-p", "hi there", "--allowedTools", "Bash(git log *)", "Edit", "--disallowedTools", "WebFetch"),
        ("-p", "hi there", "--append-system-prompt", "Be brief.", "--add-dir", "/"),
        ("-p", "hi there", "--settings", '{"permissions": {"deny": ["Bash(rm:*)"]}}'),
        ("-p", "hi there", "--agents", '{"looker": {"description": "Looks.", "prompt": "Look."}}'),
        ("-p", "--retry", "hi there"),
        ("-p", "hi there", "--mcp-config", '{"mcpServers": {}}', "--strict-mcp-config"),
    ],
    ids=" ".join,
)
def test_options_of_claude_code_are_taken(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, out, err = run(capsys, *arguments, "--model", "offline")
    assert (code, err) == (0, "")
    assert out.endswith("You said: hi there\n")


@pytest.mark.parametrize("flag", sorted(_refused_flags()))
def test_an_option_without_an_equal_is_refused_by_name_with_what_to_use(
    capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    code, out, err = run(capsys, "-p", "hi", flag)
    assert (code, out) == (2, "")
    assert err == f"sevenfold: there is no {flag} here: {_refused_flags()[flag]}\n"


@pytest.mark.parametrize("mode", ["bypassPermissions", "dontAsk", "auto"])
def test_a_mode_that_would_mean_something_else_is_refused(
    capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    code, _, err = run(capsys, "-p", "hi", "--permission-mode", mode)
    assert code == 2
    assert f"no mode {mode} here" in err
    assert "--mode a" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("chat", "--nope-at-all"), "chat has no option --nope-at-all; "),
        (("-p", "hi", "--efort", "x"), "did you mean --effort?"),
        (("profile", "--jsn"), "did you mean --json?"),
        (("sesions",), "did you mean sessions?"),
        (("fix the bug",), "needs a terminal, or -p"),
        (("-p", "fix", "--max-turns", "x"), "'x' is not a whole number above 0"),
        (("-p", "one", "two"), "there are two prompts"),
        (("-p", "hi", "--fork-session"), "--fork-session goes with --resume or --continue"),
        (("-p", "hi", "--allowedTools", "Zork(x)"), "the rule Zork(x) is about a tool that does not exist"),
        (("-p", "hi", "--settings", '{"env": {}}'), "--settings: env is not taken"),
        (("-p", "hi", "--settings", "{"), "--settings: cannot be understood"),
        (("-p", "hi", "--settings", "none.json"), "cannot be read"),
        (("-p", "hi", "--mcp-config", "{}"), 'the table "mcpServers" is missing'),
        (("-p", "hi", "--agents", '{"a": {}}'), "--agents: a: it has no description"),
        (("-p", "hi", "--add-dir", "/none"), "there is no such folder"),
    ],
)
def test_what_cannot_be_meant_is_one_line_with_what_to_do(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ("Bash(git log:*)", ["Shell(git log:*)"]),
        ("Bash(npm run test *)", ["Shell(npm run test:*)"]),
        ("Read,Edit Write", ["Read", "Edit", "Edit"]),
        ("Edit(/src/**) Read(//etc/**)", ["Edit(./src/**)", "Read(/etc/**)"]),
        ("mcp__github__*", ["mcp__github__*"]),
        ("Bash(echo (x)), Grep", ["Shell(echo (x))", "Grep"]),
    ],
)
def test_its_rules_become_ours(given: str, ours: list[str]) -> None:
    assert list(translated_rules(given)) == ours


def test_its_settings_become_ours(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    permissions = {
        "allow": ["Bash(make:*)"],
        "defaultMode": "plan",
        "additionalDirectories": [str(tmp_path / "more")],
    }
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"model": "opus", "effortLevel": "high", "permissions": permissions}))
    settings = read_settings(str(file))
    assert settings.rules == {"allow": ["Shell(make:*)"]}
    assert (settings.mode, settings.model) == ("plan", "opus")
    assert settings.folders == ((tmp_path / "more").resolve(),)
    assert settings.settings == {"effort": "high"}
    with pytest.raises(InputError, match="zork is not taken"):
        read_settings('{"permissions": {"zork": []}}')


@pytest.mark.spec("S37.2")
def test_a_session_goes_on_as_a_copy_and_is_left_as_it_is(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    run(capsys, "-p", "the first", "--model", "offline")
    [first] = sessions(folder)
    assert first.path
    before = first.path.read_bytes()
    code, out, _ = run(capsys, "--continue", "--fork-session", "-p", "the second", "--model", "offline")
    assert (code, out.count("the second")) == (0, 1)
    assert first.path.read_bytes() == before
    copy = next(kept for kept in sessions(folder) if kept.name != first.name)
    assert copy.path
    assert copy.path.read_bytes().startswith(before)


@pytest.mark.spec("S37.2")
def test_a_session_that_is_open_elsewhere_offers_a_copy(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    run(capsys, "-p", "the first", "--model", "offline")
    [first] = sessions(folder)
    assert first.path
    log = JsonlLog.open(first.path)
    try:
        code, _, err = run(capsys, "-p", "more", "--resume", first.name, "--model", "offline")
        assert code == 2
        assert f"sevenfold chat --resume {first.name} --fork-session" in err
        code, out, _ = run(
            capsys, "-p", "more", "--resume", first.name, "--fork-session", "--model", "offline"
        )
        assert (code, "You said: more" in out) == (0, True)
    finally:
        log.close()
