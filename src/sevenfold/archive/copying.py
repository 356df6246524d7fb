"""Copies a recorded session under a new name, so that work can continue from there while the session stays as it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec

from sevenfold.archive.rewrite import DraftLog, write_new
from sevenfold.stores.home import SessionFiles

_STATE = "state.json"
_OWN_FOLDERS = ("scratch", "tasks", "checkpoints")
"""What an agent's folder has of the processes that ran and the files they changed: a copy does not continue them."""
_OWN_STATE = ("tasks", "pending", "granted")
"""Parts of an agent's state that hold for its session alone: running commands, open questions, and grants."""


def copy_session(source: SessionFiles, target: SessionFiles) -> SessionFiles:
    """Copy a session's transcript, stored results, notes and the agent's state; returns the files of the copy.

    The session may be open elsewhere: the copy has every whole record that it had when the copy began.
    """
    # The transcript refers to results, so they are there before it is.
    if source.results.is_dir():
        shutil.copytree(source.results, target.results, dirs_exist_ok=True, symlinks=True)
    if source.agent.is_dir():
        shutil.copytree(
            source.agent, target.agent, ignore=shutil.ignore_patterns(*_OWN_FOLDERS), symlinks=True
        )
        _leave_out_own_state(target.agent / _STATE)
    if source.notes.is_file():
        target.notes.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.notes, target.notes)
    write_new(target.transcript, DraftLog(source.transcript))
    return target


def _leave_out_own_state(path: Path) -> None:
    """Remove from a copied state what holds for the other session alone."""
    if not path.is_file():
        return
    try:
        state: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except msgspec.DecodeError:
        # A damaged state is reported, and started anew, when the session opens.
        return
    foreign = {name: value for name, value in state.items() if name not in _OWN_STATE}
    path.write_bytes(msgspec.json.encode(foreign))
