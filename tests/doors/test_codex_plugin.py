"""The plugin for Codex: what installing it writes, and its hooks on rollouts."""

from __future__ import annotations

import json
import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sevenfold.cli.main import main
from sevenfold.doors.plugins import codex, cold
from sevenfold.doors.plugins.tail import newest_answer

Capsys = pytest.CaptureFixture[str]
TABLE = '[plugins."sevenfold@sevenfold"]\nenabled = true\n'
SETTINGS = [
    b"",
    b"\n",
    b'model = "gpt-5.5" # mine',
    b'# "sevenfold@sevenfold"\nmodel = "gpt-5.5"\n\n[mcp_servers.other]\ncommand = "x"\n',
    b'model = "gpt-5.5"\r\n[features]\r\nhooks = true\r\n',
    b'[plugins."other@place"]\nenabled = false\n',
]
NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC).timestamp()


@pytest.fixture(autouse=True)
def codex_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    (tmp_path / "codex").mkdir()
    return tmp_path / "codex"


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file and folder with its bytes and permissions."""
    return {
        str(path.relative_to(folder)): (path.read_bytes() if path.is_file() else b"", path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.spec("S23.8")
@pytest.mark.parametrize("settings", SETTINGS)
def test_uninstalling_leaves_every_byte_as_it_was(codex_home: Path, settings: bytes) -> None:
    (codex_home / "config.toml").write_bytes(settings)
    (codex_home / "config.toml").chmod(0o640)
    before = state(codex_home)
    assert main(["install", "codex"]) == 0
    written = (codex_home / "config.toml").read_bytes()
    assert written.startswith(settings)
    assert tomllib.loads(written.decode())["plugins"]["sevenfold@sevenfold"] == {"enabled": True}
    assert main(["uninstall", "codex"]) == 0
    assert state(codex_home) == before


@pytest.mark.spec("S23.8")
def test_what_was_not_there_is_gone_again(codex_home: Path) -> None:
    assert main(["install", "codex"]) == 0
    assert (codex_home / "config.toml").read_text() == TABLE
    plugin = codex_home / "plugins/cache/sevenfold/sevenfold/local"
    assert json.loads((plugin / ".codex-plugin/plugin.json").read_bytes())["name"] == "sevenfold"
    assert main(["uninstall", "codex"]) == 0
    assert state(codex_home) == {}


@pytest.mark.spec("S23.8")
def test_installing_shows_what_it_writes_and_that_the_hooks_have_to_be_trusted(
    codex_home: Path, capsys: Capsys
) -> None:
    assert main(["install", "codex", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "hooks/hooks.json" in shown
    assert '[plugins."sevenfold@sevenfold"]' in shown
    assert state(codex_home) == {}
    assert main(["install", "codex"]) == 0
    assert "trust the hooks of sevenfold" in capsys.readouterr().out
    assert "trusted_hash" not in (codex_home / "config.toml").read_text()


@pytest.mark.spec("S23.8")
def test_what_codex_and_the_user_add_meanwhile_stays(codex_home: Path) -> None:
    settings = codex_home / "config.toml"
    settings.write_text('model = "a"\n')
    main(["install", "codex"])
    trust = '\n[hooks.state."x"]\ntrusted_hash = "sha256:1"\n'
    settings.write_text(settings.read_text().replace('"a"', '"b"') + trust)
    assert main(["uninstall", "codex"]) == 0
    assert settings.read_text() == f'model = "b"\n{trust}'


@pytest.mark.spec("S23.8")
@pytest.mark.parametrize(
    "settings",
    [b"[", b"\xff = 1", b"plugins = {}\n", b'[plugins."sevenfold@sevenfold"]\nenabled = false\n'],
)
def test_settings_that_cannot_take_the_table_are_refused_before_anything_is_written(
    codex_home: Path, settings: bytes, capsys: Capsys
) -> None:
    (codex_home / "config.toml").write_bytes(settings)
    before = state(codex_home.parent)
    assert main(["install", "codex"]) == 2
    assert "config.toml" in capsys.readouterr().err
    assert state(codex_home.parent) == before


@pytest.mark.spec("S23.8")
def test_a_status_line_is_refused_because_codex_has_none(codex_home: Path, capsys: Capsys) -> None:
    assert main(["install", "codex", "--status-line"]) == 2
    assert "--status-line" in capsys.readouterr().err
    assert state(codex_home) == {}


# -- hooks ------------------------------------------------------------------------------------------------


def line(kind: str, payload: dict[str, Any], seconds: float = 0) -> str:
    at = datetime.fromtimestamp(NOW + seconds, UTC).isoformat()
    return json.dumps({"timestamp": at, "type": kind, "payload": payload})


def message(role: str, said: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": said}]}


def token_count(tokens: int, cached: int) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "cached_input_tokens": cached, "output_tokens": 100}
    return {"type": "token_count", "info": {"last_token_usage": usage, "total_token_usage": usage}}


def rollout(path: Path, *, model: str = "gpt-5.6-sol") -> list[str]:
    lines = [
        line("session_meta", {"id": "t-1", "cwd": "/projects"}),
        line("turn_context", {"model": model}),
    ]
    for number in range(60):
        said = f"Request {number}, codeword granite-{number}: {'build the pier higher ' * 20}"
        lines.append(line("response_item", message("user", said)))
        lines.append(line("event_msg", {"type": "user_message", "message": said}))
        answer = f"I build `pier_{number}.py` in /projects/pier_{number}.py."
        lines.append(line("response_item", message("assistant", answer)))
        lines.append(line("event_msg", token_count(150_000, 149_000)))
    path.write_text("\n".join(lines) + "\n")
    return lines


def call(event: str, given: dict[str, Any]) -> str:
    """Call a hook of the plugin as Codex does."""
    files = {file.path.name: file.content for file in codex.changes().files}
    groups = json.loads(files["hooks.json"])["hooks"].values()
    commands = [hook["command"] for group in groups for entry in group for hook in entry["hooks"]]
    command = next(command for command in commands if f" {event} " in command)
    done = subprocess.run(
        ["sh", "-c", command], input=json.dumps(given).encode(), capture_output=True, check=True
    )
    assert done.stderr == b""
    return done.stdout.decode()


def event_of(path: Path, **fields: Any) -> dict[str, Any]:
    return {
        "session_id": "t-1",
        "turn_id": "u-1",
        "transcript_path": str(path),
        "cwd": "/projects",
        **fields,
    }


@pytest.mark.spec("S23.9")
def test_after_a_compaction_the_users_words_come_back_from_the_whole_rollout(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    lines = rollout(path)
    assert call("prepare-compaction", event_of(path, trigger="auto")) == ""
    kept = [message("user", "Request 59"), message("user", "A summary of what was done.")]
    lines.append(line("compacted", {"message": "A summary.", "replacement_history": kept}))
    path.write_text("\n".join(lines) + "\n")
    blocks = []
    for part in ("words", "things", "state"):
        output = json.loads(call(part, event_of(path, source="compact")))["hookSpecificOutput"]
        assert output["hookEventName"] == "SessionStart"
        blocks.append(output["additionalContext"])
    assert all(len(block.encode()) // 4 < 8_000 for block in blocks)
    together = "\n".join(blocks)
    assert all(f"granite-{number}:" in together for number in range(60))


@pytest.mark.spec("S23.9")
def test_what_was_prepared_before_the_conversation_went_on_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    lines = rollout(path)
    call("prepare-compaction", event_of(path))
    said = "The last word is obsidian-1."
    lines += [
        line("response_item", message("user", said)),
        line("response_item", message("assistant", "Yes.")),
    ]
    lines.append(line("event_msg", {"type": "user_message", "message": said}))
    path.write_text("\n".join(lines) + "\n")
    assert "obsidian-1" in call("words", event_of(path, source="compact"))


@pytest.mark.spec("S23.9")
def test_only_a_compaction_brings_anything_back(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    rollout(path)
    assert call("words", event_of(path, source="resume")) == ""
    assert call("words", event_of(path, source="compact", transcript_path=None)) == ""


@pytest.mark.spec("S23.9")
def test_a_message_to_an_expired_cache_says_what_it_costs(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    lines = rollout(path)
    newest = newest_answer(path)
    assert newest is not None
    assert (newest.model, newest.context) == ("gpt-5.6-sol", 150_100)
    assert cold.notice(path, NOW + 29 * 60) == ""
    notice = cold.notice(path, NOW + 31 * 60)
    assert "150,100 tokens" in notice
    assert "/compact" in notice
    path.write_text("\n".join([*lines, line("compacted", {"message": "A summary."})]) + "\n")
    assert cold.notice(path, NOW + 31 * 60) == ""
