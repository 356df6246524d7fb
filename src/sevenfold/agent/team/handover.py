"""What a sub-agent gets at the beginning of its work, and what it hands back at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sevenfold.agent.team import worktree
from sevenfold.agent.team.roster import AgentEntry
from sevenfold.agent.texts import ForkTask
from sevenfold.conversation.history import saved_by_cache
from sevenfold.record import blocks
from sevenfold.record.decisions import AgentEnd

if TYPE_CHECKING:
    from sevenfold.agent.agent_events import Finished
    from sevenfold.agent.assembly import Assembly
    from sevenfold.agent.team.definitions import AgentDefinition

ENDS: Mapping[str, str] = {
    "interrupted": "it was stopped",
    "max_turns": "it had used all the turns it may take",
    "budget": "the budget is used up",
    "cut": "its last answer was cut off",
    "refused": "its model refused to answer",
    "blocked": "a hook stopped it",
}


def task_of(child: Assembly, entry: AgentEntry, definition: AgentDefinition) -> str:
    """The message with which an agent's work begins."""
    started = entry.started
    # The skills and the first prompt of its definition are in its log already if it worked before.
    if entry.runs > 1:
        return started.prompt
    loaded = [child.skill_text(name) for name in definition.skills]
    task = "\n\n".join(filter(None, (*loaded, definition.initial_prompt, started.prompt)))
    if not started.fork:
        return task
    # A fork has the system prompt of its parent, so what its definition says comes with the task.
    notes = child.descent.memory_text() if child.descent is not None else ""
    fork_task = ForkTask(entry.label, definition.prompt or None, task).render()
    return "\n\n".join(filter(None, (fork_task, notes)))


def end_of_work(finished: Finished, child: Assembly, entry: AgentEntry, usd: float | None) -> AgentEnd:
    """How an agent's work ended that cost ``usd``."""
    started = entry.started
    worktree_note = worktree.remove_if_unchanged(started.worktree) if started.worktree else ""
    text = "\n\n".join(filter(None, (finished.text, worktree_note)))
    log = child.conversation.transcript.log
    task_record = log.record(log.keyed(entry.key))
    ended = AgentEnd(
        agent=entry.id,
        text=text,
        usd=usd,
        turns=finished.turns,
        tokens=finished.tokens,
        saved_usd=saved_by_cache(log, task_record[0]) if task_record else 0.0,
    )
    if finished.end == "done":
        return ended
    stopped = finished.end == "interrupted"
    detail = finished.detail or ENDS[finished.end]
    return replace(ended, state="cancelled" if stopped else "failed", detail=detail)


def last_words(child: Assembly) -> str | None:
    """Return an agent's final answer if that is the last message in its log, else None."""
    view = child.conversation.transcript.view
    newest = view.newest
    if newest is None or newest.record.role != "assistant" or view.pending_calls:
        return None
    return blocks.text_of(newest.record.blocks)
