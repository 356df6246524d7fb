"""What a gateway that asks proposes for a session, for the page on which a person decides it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from sevenfold.agent.team.presence import TaskFile, TaskList
from sevenfold.agent.team.proposals import described
from sevenfold.doors.inspector.wording import shown
from sevenfold.record.decoding import NOT_JSON
from sevenfold.stores.home import SessionFiles
from sevenfold.stores.jsonl.lock import is_held


def proposals_view(path: Path) -> dict[str, Any]:
    """What waits for a decision in the session of this transcript, as long as a gateway has it open."""
    file = SessionFiles(path.parent, path.stem).agent / TaskFile.NAME
    if not file.is_file() or not is_held(path):
        return {"proposals": []}
    try:
        listed = msgspec.json.decode(file.read_bytes(), type=TaskList)
    except (OSError, *NOT_JSON):
        return {"proposals": []}
    return {
        "proposals": [
            {
                "id": shown(proposal.id, 60),
                "layer": shown(proposal.layer, 40),
                "text": shown(described(proposal), 600),
            }
            for proposal in listed.proposals
        ]
    }
