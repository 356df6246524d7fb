"""What Claude Code or Codex calls for an event: `python -P -m sevenfold.doors.plugins.hook EVENT`.

A hook must never disturb the program. Whatever goes wrong, it ends with exit code 0 and prints nothing; if it takes
too long it ends as well. What it is given is data: nothing in it is run, and no name in it becomes a file's name.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

TIME_LIMIT = 3.0
"""Seconds after which a hook ends without an answer, below the limit that the plugin gives the program."""
COMPACTION_TIME_LIMIT = 25.0
"""The same for the hooks around a compaction, which takes the program longer than that anyway."""
AROUND_A_COMPACTION = frozenset({"before-compaction", "prepare-compaction", "words", "things", "state"})
MOST_INPUT = 16 << 20
"""Bytes of an event that are read; a prompt may contain a large paste."""

Event = dict[str, Any]


def main(arguments: Sequence[str]) -> NoReturn:
    """Answer one event and end the process, always with exit code 0."""
    patient = bool(arguments) and arguments[0] in AROUND_A_COMPACTION
    deadline = threading.Timer(COMPACTION_TIME_LIMIT if patient else TIME_LIMIT, os._exit, (0,))
    deadline.daemon = True
    deadline.start()
    # The process ends before there is anything worth collecting, and searching for it took a third of the time.
    gc.disable()
    try:
        event = json.loads(sys.stdin.buffer.read(MOST_INPUT))
        if isinstance(event, dict) and arguments and arguments[0] in _ANSWERS:
            answer = _ANSWERS[arguments[0]](event)
            if answer:
                sys.stdout.buffer.write(answer.encode("utf-8", errors="replace"))
                sys.stdout.buffer.flush()
    except BaseException:  # noqa: BLE001 (the program continues as if there were no hook)
        pass
    # Not `sys.exit`: that frees a transcript object by object, and flushes standard output once more, which fails
    # again if its reader is gone.
    os._exit(0)


def _session_starts(event: Event) -> str:
    from sevenfold.doors.plugins import window

    window.remember_session(_session(event), _transcript(event), Path(str(event.get("cwd") or "")))
    return ""


def _before_compaction(event: Event) -> str:
    from sevenfold.doors.plugins import bring_back

    return bring_back.prepare(_transcript(event), _session(event))


def _prepare_compaction(event: Event) -> str:
    """The same for a program that takes no text before a compaction."""
    _before_compaction(event)
    return ""


def _after_compaction(part: str) -> Callable[[Event], str]:
    def answer(event: Event) -> str:
        from sevenfold.doors.plugins import bring_back

        if event.get("source") != "compact":
            return ""
        text = bring_back.block(_transcript(event), _session(event), part)
        output = {"hookEventName": "SessionStart", "additionalContext": text}
        return json.dumps({"hookSpecificOutput": output}) if text else ""

    return answer


def _before_message(event: Event) -> str:
    from sevenfold.doors.plugins import bring_back, cold

    bring_back.forget(_session(event))
    # A command such as /compact or /clear is the cheaper way itself.
    if str(event.get("prompt") or "").lstrip().startswith("/"):
        return ""
    notice = cold.notice(_transcript(event), time.time())
    return json.dumps({"systemMessage": notice}) if notice else ""


def _status(event: Event) -> str:
    from sevenfold.doors.plugins.status_line import status_line

    return status_line(event, time.time())


_ANSWERS: dict[str, Callable[[Event], str]] = {
    "session-starts": _session_starts,
    "before-compaction": _before_compaction,
    "prepare-compaction": _prepare_compaction,
    "words": _after_compaction("words"),
    "things": _after_compaction("things"),
    "state": _after_compaction("state"),
    "before-message": _before_message,
    "status-line": _status,
}


def _session(event: Event) -> str:
    session = event["session_id"]
    if not isinstance(session, str) or not session:
        raise ValueError("the event has no session id")
    return session


def _transcript(event: Event) -> Path:
    path = Path(event["transcript_path"])
    if not path.is_absolute():
        raise ValueError("the path of the transcript is not absolute")
    return path


if __name__ == "__main__":
    # msgspec takes from it what this Python's own `typing` has too, and loading it takes as long as msgspec itself.
    sys.modules.setdefault("typing_extensions", None)  # type: ignore[arg-type]
    main(sys.argv[1:])
