"""What makes an agent a sub-agent: where its parts come from, if they are not those of any agent."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sevenfold.agent.interrupt import AsyncInterruptibleClient, InterruptibleClient
from sevenfold.agent.team.permissions import SubGrants, sub_permissions
from sevenfold.agent.texts import AgentNotes
from sevenfold.conversation.epoch import recorded_frame
from sevenfold.conversation.flow import Ask, Effect, Flow, Run, Signal, translated
from sevenfold.conversation.history import account_of
from sevenfold.conversation.hooks import HookInput, SubagentStart, SubagentStop
from sevenfold.conversation.options import window_for
from sevenfold.errors import InputError
from sevenfold.providers.registry import provider_for
from sevenfold.record.decisions import Forked
from sevenfold.record.usage import MILLION
from sevenfold.request.frame import Frame
from sevenfold.stores.home import user_home

if TYPE_CHECKING:
    from sevenfold.agent.assembly import AgentOptions, Assembly
    from sevenfold.agent.executor import ConsentFunction
    from sevenfold.agent.permissions.engine import Grants, Permissions
    from sevenfold.agent.team.definitions import AgentDefinition
    from sevenfold.agent.team.roster import AgentEntry
    from sevenfold.ports import Watcher
    from sevenfold.profiles import Profile
    from sevenfold.session.factory import SessionParts
    from sevenfold.settings import Settings, Source


R = TypeVar("R")
EXPECTED_REQUESTS = 10
"""How many requests an agent is expected to make when a fork is weighed against a fresh agent."""
BYTES_PER_TOKEN = 3
MEMORY = "agent-memory"
"""The folder of agents' notes: in our home, in the project, or in our data about the project."""


class Descent(Struct, frozen=True):
    """Where a sub-agent comes from."""

    parent: Assembly
    definition: AgentDefinition
    entry: AgentEntry

    @property
    def fork(self) -> bool:
        """Whether it begins with its parent's conversation."""
        return self.entry.started.fork

    @property
    def depth(self) -> int:
        """How many agents are above it."""
        above = self.parent.descent
        return 1 if above is None else above.depth + 1

    @property
    def hook_fields(self) -> dict[str, Any]:
        """Fields of every hook input."""
        return {"agent_id": self.entry.id, "agent_type": self.definition.name}

    def options(self) -> AgentOptions:
        """The options of the agent: its parent's, but for what its definition says."""
        parent, definition, started = self.parent, self.definition, self.entry.started
        if provider_for(started.model).name != provider_for(parent.model).name:
            raise InputError(f"{started.model} is answered for by another provider than {parent.model}")
        own = parent.options.get("system")
        options: AgentOptions = {
            **parent.options,
            "folder": started.worktree or parent.workspace,
            "max_turns": definition.max_turns,
            "max_output_tokens": None,
            "source": f"agent:{definition.name}",  # type: ignore[typeddict-item]  # not for callers to choose
            "consent": self._labelled(parent.consent),
            "mcp": parent.servers,
            "mentions": False,
            "memory": False,
        }
        said = "\n\n".join(filter(None, (definition.prompt, self._memory_text())))
        if self.fork:
            # What precedes the messages is its parent's, and stays so.
            options["system"] = parent.prompt.sent if own is None else own
        elif isinstance(own, str):
            options["system"] = "\n\n".join(filter(None, (own, said)))
        else:
            options["guidance"] = said or None
        return options

    def _labelled(self, consent: ConsentFunction | None) -> ConsentFunction | None:
        """The function that asks the user, with the name of the agent that asks."""
        label = self.entry.label
        return consent and (lambda asked: consent(replace(asked, agent=asked.agent or label)))

    @property
    def memory(self) -> Path | None:
        """The folder in which agents of its type keep notes; None if they keep none."""
        name, workspace, home = self.definition.name, self.parent.workspace, user_home()
        match self.definition.memory:
            case "user":
                return home.root / MEMORY / name
            case "project":
                return workspace / ".sevenfold" / MEMORY / name
            case "local":
                return home.project(workspace).folder / MEMORY / name
            case None:
                return None

    def _memory_text(self) -> str:
        if self.memory is None or self.fork:
            return ""
        index = self.memory / "MEMORY.md"
        try:
            words = index.read_text(encoding="utf-8", errors="replace")
        except OSError:
            words = ""
        return AgentNotes(str(self.memory), words.strip() or "(There are no notes yet.)").render()

    def open(self) -> SessionParts:
        """Its log, and what goes with it: new, or continued."""
        store, conversation = self.parent.store, self.parent.conversation
        if not self.fork:
            return store.branch_off(self.entry.id, empty=True)
        with conversation.lock:
            # What a fork begins with has to stay as it is.
            conversation.ladder.freeze(conversation)
            return store.branch_off(self.entry.id, empty=False)

    def settings(self, source: Source, profile: Profile) -> Source:
        """Its parent's settings, with a window of its own model."""
        return SubSettings(source, self.definition.window, profile, self.parent.profile)

    def grants(self, permissions: Permissions) -> Grants:
        """Its permissions, within those of its parent."""
        if self.memory is not None:
            permissions = replace(permissions, roots=(*permissions.roots, str(self.memory.resolve())))
        own = sub_permissions(permissions, self.definition)
        return SubGrants(own, self.parent.state.grants, self.definition)

    def frame(self, store: SessionParts) -> Frame | None:
        """What precedes the messages of a fork: what its parent was sent last."""
        return recorded_frame(store.log) if self.fork else None

    def asked(self, store: SessionParts) -> bool:
        """Whether it knows what to do already, from an earlier process."""
        return bool(store.log.keyed(self.entry.key))

    def started(self, store: SessionParts, common: dict[str, Any]) -> list[HookInput]:
        """What hooks receive when it begins."""
        return [] if self.asked(store) else [SubagentStart(**common)]

    def stop(self, **fields: Any) -> SubagentStop:
        """What hooks receive when it considers itself finished."""
        return SubagentStop(**fields, agent_transcript_path=self.parent.store.path)

    def inherited_usd(self, store: SessionParts) -> float | None:
        """What the conversation it begins with had cost; None if a price is unknown."""
        for position, made in store.log.decisions(Forked):
            if made.name == store.branch:
                return account_of(store.log.upto(position)).usd
        return 0.0


class SubSettings:
    """The settings of a sub-agent: those of its parent, with a window that its own model has."""

    def __init__(self, source: Source, most: int | None, profile: Profile, parent: Profile) -> None:
        """``most`` is the most tokens its context may have by its definition."""
        self._source = source
        self._most = most
        self._profile = profile
        self._same_model = profile.model == parent.model
        self._made: tuple[Settings, Settings] | None = None

    def current(self) -> Settings:
        """The settings now; the same object as long as nothing has changed."""
        given = self._source.current()
        if self._made is None or self._made[0] is not given:
            # A window that was set for the parent says nothing about another model.
            set_for_it = given.context_window if self._same_model else None
            own = replace(given, context_window=set_for_it)
            if self._most is not None:
                own = replace(own, context_window=min(self._most, window_for(self._profile, own).context))
            self._made = given, own
        return self._made[1]


def cheaper_as_fork(parent: Assembly, model: str | None) -> tuple[bool, str]:
    """Whether an agent that reads its parent's conversation with every request costs less than one with a prompt of
    its own, and why."""
    conversation = parent.conversation
    if parent.descent is not None or (model and model != parent.model):
        return False, "it cannot be a fork"
    tokens = conversation.size().tokens
    price = conversation.profile.price(tokens)
    if price is None:
        return False, "what a fork would cost is not known"
    front = sum(map(len, (*conversation.frame.system, *conversation.frame.tools))) // BYTES_PER_TOKEN
    fork = tokens * price.read * EXPECTED_REQUESTS / MILLION
    fresh = front * (price.write_5m + price.read * (EXPECTED_REQUESTS - 1)) / MILLION
    compared = f"about ${fork:.4f} as a fork, ${fresh:.4f} with a prompt of its own"
    return fork < fresh, f"{compared}, for {EXPECTED_REQUESTS} requests"


def with_client(flow: Flow[R], child: Assembly, warm: Signal, heard: Watcher) -> Flow[R]:
    """The flow of a sub-agent with a client of its own, which stops with it; its answers are not shown.

    ``warm`` happens when its first answer has come; ``heard`` hears it while it comes.
    """
    client: Any = child.client  # of the kind that fits the driver, which makes one of the two calls

    def stopped() -> Signal:
        return child.loop.stopped

    ask, ask_async = InterruptibleClient(client, stopped).ask, AsyncInterruptibleClient(client, stopped).ask
    clock, limit = child.conversation.clock, child.descent.definition.timeout if child.descent else None
    until = None if limit is None else clock.now() + limit

    def step(effect: Effect) -> Flow[Any]:
        if until is not None and clock.now() >= until:
            child.loop.interrupt()
        if not isinstance(effect, Ask):
            return (yield effect)
        given = effect.call, heard
        got = yield from Run(partial(ask, *given), partial(ask_async, *given))
        warm.happen()
        return got

    return translated(flow, step)
