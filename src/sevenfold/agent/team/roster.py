"""The roster: every agent that an agent has started, with its state, cost and result.

It is folded from two kinds of records in the parent's log, so it is the same after a compaction, a restart and a kill.
An agent's id is derived from the session and the tool call that started it, so one call cannot start two agents. A
result is pending until the log contains it, either as the result of the tool call or as a message under the key of that
work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.errors import InputError
from sevenfold.record.decisions import AgentEnd, AgentStart
from sevenfold.session.options import unknown

if TYPE_CHECKING:
    from sevenfold.conversation.conversation import Conversation

AgentStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""The same states as MCP defines for tasks."""
GENERAL = "general"
"""The default type of agent."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ID = re.compile(r"agent-[0-9a-f]{12}")
NOT_NAMES = frozenset({"leader", "user", "human", "system", "assistant", "session"})
"""Names that an agent may not have, because it could be mistaken for someone else in a message."""
_Record = TypeVar("_Record", AgentStart, AgentEnd)


class AgentEntry(Struct, frozen=True):
    """An agent on the roster."""

    started: AgentStart
    """The work it was last given."""
    ended: AgentEnd | None = None
    """How that work ended; None while it is working."""
    runs: int = 1
    """How often it was given work."""
    usd: float | None = 0.0
    """The cost of all its finished work; None if unknown."""
    delivered: bool = False
    """Whether the log contains the result."""

    @property
    def id(self) -> str:
        """Its id."""
        return self.started.agent

    @property
    def label(self) -> str:
        """Its name, or else its id, with its type, for display."""
        return f"{self.started.name or self.id} ({self.started.agent_type})"

    @property
    def status(self) -> AgentStatus:
        """Its state according to the log."""
        return "working" if self.ended is None else self.ended.state

    @property
    def key(self) -> str:
        """The key of its current work, under which the task and the report are each recorded once."""
        return f"{self.id}#{self.runs}"

    @property
    def pending(self) -> bool:
        """Whether it has a result that is not in the log yet."""
        return self.ended is not None and not self.delivered

    def result(self) -> tuple[str, str]:
        """Return its final answer, and a line about how its work ended."""
        ended = self.ended
        agent = f"agentId: {self.id}. {self.label}"
        if ended is None:
            return "", f"[{agent} was stopped with the program; it goes on when the session does.]"
        cost = "" if ended.usd is None else f", ${ended.usd:.4f}"
        cost += f", ${ended.saved_usd:.4f} saved by the cache" if ended.saved_usd >= 0.0001 else ""
        outcome = ended.state if not ended.detail else f"{ended.state}, {ended.detail}"
        turns = "1 turn" if ended.turns == 1 else f"{ended.turns} turns"
        return ended.text or "(It said nothing.)", f"[{agent}: {outcome}; {turns}{cost}]"


class Roster:
    """The agents that one agent has started."""

    def __init__(self, conversation: Conversation, owner: str) -> None:
        """``owner`` is the id of the agent that the roster belongs to; empty for the session's main agent."""
        self._conversation = conversation
        self._owner = owner
        self._entries: dict[str, AgentEntry] = {}
        log = conversation.transcript.log
        records: list[tuple[int, AgentStart | AgentEnd]] = [
            *log.decisions(AgentStart),
            *log.decisions(AgentEnd),
        ]
        seen_ids: set[str] = set()
        for _, record in sorted(records, key=lambda positioned: positioned[0]):
            if record.owner == owner and record.id not in seen_ids:
                self._apply(record)
            seen_ids.add(record.id)
        for entry in self:
            self._entries[entry.id] = replace(entry, delivered=self._holds(entry))

    def __iter__(self) -> Iterator[AgentEntry]:
        return iter(tuple(self._entries.values()))

    def get(self, agent: str) -> AgentEntry | None:
        """Return the entry with this id, or None."""
        return self._entries.get(agent)

    def find(self, to: str) -> AgentEntry:
        """Return the agent with this id or name; raises `InputError`, which suggests similar names."""
        entry = self._entries.get(to) or next(
            (candidate for candidate in reversed(self._entries.values()) if candidate.started.name == to),
            None,
        )
        if entry is None:
            names = [candidate.started.name or candidate.id for candidate in self._entries.values()]
            raise InputError(
                unknown("agent", to, names) if names else f"there is no agent {to!r}; no agent was started"
            )
        return entry

    def start(self, work: AgentStart) -> AgentEntry:
        """Record that an agent gets work; raises `InputError` if another working agent has the same name."""
        working = {agent.started.name for agent in self if agent.ended is None and agent.id != work.agent}
        if work.name and work.name in working:
            raise InputError(
                f"{work.name!r} is the name of an agent that is still working; choose another one"
            )
        return self._record(work)

    def end(self, result: AgentEnd) -> AgentEntry:
        """Record how an agent's work ended, and charge its cost to this conversation."""
        conversation = self._conversation
        with conversation.lock:
            entry = self._record(result)
            conversation.charge(result.usd, own=False)
        return entry

    def deliver(self, agent: str) -> None:
        """Mark an agent's result as delivered."""
        self._entries[agent] = replace(self._entries[agent], delivered=True)

    def _record(self, record: _Record) -> AgentEntry:
        with self._conversation.lock:
            recorded = self._conversation.transcript.decide(replace(record, owner=self._owner))
            return self._apply(recorded)

    def _apply(self, decision: AgentStart | AgentEnd) -> AgentEntry:
        earlier = self._entries.get(decision.agent)
        if isinstance(decision, AgentStart):
            # Several agents may have had the same name; it means the last one that got it.
            runs, usd = (earlier.runs + 1, earlier.usd) if earlier else (1, 0.0)
            entry = AgentEntry(decision, runs=runs, usd=usd)
        elif earlier is None:
            raise AssertionError(f"{decision.agent} ended without having started")
        else:
            usd = None if earlier.usd is None or decision.usd is None else earlier.usd + decision.usd
            entry = replace(earlier, ended=decision, usd=usd, delivered=False)
        self._entries[decision.agent] = entry
        return entry

    def _holds(self, entry: AgentEntry) -> bool:
        if entry.ended is None:
            return False
        log = self._conversation.transcript.log
        if entry.started.background:
            return bool(log.keyed(entry.key))
        return log.result(entry.started.call) is not None


def agent_id(session: str, owner: str, call: str) -> str:
    """Return the id of the agent that a tool call starts."""
    origin = "\0".join((session, owner, call))
    return f"agent-{sha256(origin.encode()).hexdigest()[:12]}"


def check_agent_name(name: str) -> None:
    """Raise `InputError` if this cannot name an agent or a type; names are used in paths, keys and messages."""
    if not _NAME.fullmatch(name) or _ID.fullmatch(name) or ".." in name or name.lower() in NOT_NAMES:
        raise InputError(
            f"{name[:80]!r} cannot be an agent's name; use up to 64 letters from a to z, digits, -, _ and ., beginning "
            "with a letter or digit, and nothing that names someone else"
        )
