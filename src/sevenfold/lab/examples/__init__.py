"""Example sessions that come with Sevenfold. Their content is invented."""

from __future__ import annotations

from pathlib import Path


def coding_session() -> Path:
    """The path of a small coding session's transcript: parallel calls, cleared results, a compaction, an idle gap."""
    return Path(__file__).parent / "coding-session.jsonl"
