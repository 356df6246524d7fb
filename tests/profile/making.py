"""Hand-made transcripts whose every figure is known."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sevenfold.archive.profile.figures import SessionProfile
from sevenfold.archive.profile.files import profile_file

MODEL = "claude-opus-4-5-20251101"
START = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)


def usage(fresh: int = 0, read: int = 0, short: int = 0, long: int = 0, output: int = 0) -> dict[str, Any]:
    """A usage object: plain, read, written for five minutes, written for an hour."""
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": short + long,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        "output_tokens": output,
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str, ident: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": ident, "name": name, "input": given}


def result(ident: str, words: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": ident, "content": words, **more}


class Tape:
    """A transcript of parent-linked messages, written record by record."""

    def __init__(self, **shared: Any) -> None:
        self.lines: list[str] = []
        self.now = START
        self.parent: str | None = None
        self._shared = {"sessionId": "s-1", "isSidechain": False, **shared}

    def wait(self, seconds: float) -> Tape:
        self.now += timedelta(seconds=seconds)
        return self

    def line(self, raw: str) -> Tape:
        """A line that is written as it is."""
        self.lines.append(raw)
        return self

    def record(self, kind: str, **fields: Any) -> Tape:
        self.wait(1)
        uuid = f"u{len(self.lines)}"
        stamp = self.now.isoformat().replace("+00:00", "Z")
        linked = {"uuid": uuid, "parentUuid": self.parent, "timestamp": stamp}
        self.parent = uuid
        return self.line(json.dumps({"type": kind, **self._shared, **linked, **fields}))

    def user(self, *content: Any, **fields: Any) -> Tape:
        said = content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)
        return self.record("user", message={"role": "user", "content": said}, **fields)

    def answer(self, ident: str, report: dict[str, Any] | None, *content: Any, **fields: Any) -> Tape:
        model, stop = fields.pop("model", MODEL), fields.pop("stop", "end_turn")
        message = {"role": "assistant", "id": ident, "model": model, "content": list(content)}
        message |= {"usage": report, "stop_reason": stop, "diagnostics": fields.pop("diagnostics", None)}
        return self.record("assistant", message=message, **fields)

    def compacted(self, summary: str = "What happened so far.", before: int = 90_000) -> Tape:
        behind, self.parent = self.parent, None
        about = {"trigger": "auto", "preTokens": before}
        fields = {"subtype": "compact_boundary", "logicalParentUuid": behind, "compactMetadata": about}
        self.record("system", **fields)
        return self.user(summary, isCompactSummary=True)

    def cleared(self, *calls: str) -> Tape:
        about = {"trigger": "auto", "preTokens": 1, "tokensSaved": 1, "compactedToolIds": list(calls)}
        return self.record("system", subtype="microcompact_boundary", microcompactMetadata=about)

    def save(self, path: Path) -> Path:
        path.write_text("".join(line + "\n" for line in self.lines), encoding="utf-8")
        return path

    def profile(self, folder: Path) -> SessionProfile:
        return profile_file(self.save(folder / "tape.jsonl"))[0]


class Rollout:
    """A rollout of timestamped payloads."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now = START
        self._total: dict[str, int] = {}

    def record(self, kind: str, **payload: Any) -> Rollout:
        self.now += timedelta(seconds=1)
        stamp = self.now.isoformat().replace("+00:00", "Z")
        self.lines.append(json.dumps({"timestamp": stamp, "type": kind, "payload": payload}))
        return self

    def item(self, kind: str, **fields: Any) -> Rollout:
        return self.record("response_item", type=kind, **fields)

    def count(self, *, grew: bool = True, read: int = 0, prompt: int = 0, output: int = 0) -> Rollout:
        """A report; one that grew adds a call to the totals."""
        last = {"input_tokens": prompt, "cached_input_tokens": read, "output_tokens": output}
        last["total_tokens"] = prompt + output
        if grew:
            self._total = {key: self._total.get(key, 0) + value for key, value in last.items()}
        info = {"total_token_usage": self._total, "last_token_usage": last, "model_context_window": 258_400}
        return self.record("event_msg", type="token_count", info=info)

    def save(self, path: Path) -> Path:
        path.write_text("".join(line + "\n" for line in self.lines), encoding="utf-8")
        return path

    def profile(self, folder: Path) -> SessionProfile:
        return profile_file(self.save(folder / "rollout.jsonl"))[0]
