"""Sessions that come with Sevenfold, to try things on. Their content is invented."""

from __future__ import annotations

from pathlib import Path


def coding_session() -> Path:
    """The transcript of a small coding session: parallel calls, a clearing, a compaction, an idle gap."""
    return Path(__file__).parent / "coding-session.jsonl"
