"""What makes an agent a sub-agent: where its parts come from, if they are not those of any agent.

Its permissions are never wider than those of the agent that started it. They are not copied: each decision looks at the
parent's mode and rules as they are at that moment, so what the user takes back from the parent is taken back from all
its agents. A definition can only narrow them further. Tools are restricted when they are called, not by leaving them
out of the list, because a fork sends its parent's list.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, get_args

from msgspec import Struct
from msgspec.structs import asdict, replace

from sevenfold.agent.permissions.engine import Grants, Mode, PermissionDecision, Permissions
from sevenfold.agent.permissions.rules import PermissionRequest, PermissionRule, PermissionRules
from sevenfold.agent.texts import AgentNotes
from sevenfold.conversation.epoch import recorded_frame
from sevenfold.conversation.fork import in_agents_fork
from sevenfold.conversation.history import account_of
from sevenfold.conversation.hooks import HookInput, SubagentStart, SubagentStop
from sevenfold.conversation.options import window_for
from sevenfold.errors import InputError, Refused
from sevenfold.providers.registry import provider_for
from sevenfold.record.decisions import Forked
from sevenfold.record.usage import MILLION
from sevenfold.request.frame import Frame
from sevenfold.stores.folder import read_regular
from sevenfold.stores.home import user_home

if TYPE_CHECKING:
    from sevenfold.agent.assembly import AgentOptions, Assembly
    from sevenfold.agent.executor import Asked, Consented, ConsentFunction
    from sevenfold.agent.permissions.engine import Grants, Permissions
    from sevenfold.agent.team.definitions import AgentDefinition
    from sevenfold.agent.team.roster import AgentEntry
    from sevenfold.profiles import Profile
    from sevenfold.session.factory import SessionParts
    from sevenfold.settings import Settings, Source

_NARROWEST_FIRST: tuple[Mode, ...] = ("plan", "ask", "accept_edits", "autonomous")
assert set(_NARROWEST_FIRST) == set(get_args(Mode))
EXPECTED_REQUESTS = 10
"""How many requests an agent is expected to make when a fork is weighed against a fresh agent."""
BYTES_PER_TOKEN = 3
MEMORY = "agent-memory"
"""The folder of agents' notes: in our home, in the project, or in our data about the project."""


class SubPermissions(Permissions, frozen=True, kw_only=True):
    """What is permitted to a sub-agent."""

    definitions: tuple[Any, ...]
    """The `AgentDefinition` of the agent, and those of the agents above it."""

    def decide(self, request: PermissionRequest) -> PermissionDecision:
        """Deny what one of the definitions does not allow; otherwise as always."""
        for definition in self.definitions:
            if reason := self._not_allowed_by(definition, request):
                return PermissionDecision("deny", reason)
        return super().decide(request)

    def _not_allowed_by(self, definition: AgentDefinition, request: PermissionRequest) -> str:
        if not definition.allows(request.tool):
            return f"{definition.name} agents may not use {request.tool}. Do without it, or report what is needed."
        listed = [PermissionRule.parse(line) for line in definition.tools or ()]
        limits = [rule for rule in listed if rule.pattern and rule.concerns(request)]
        if not limits or any(rule.concerns(request) and not rule.pattern for rule in listed):
            return ""
        only = Permissions(
            workspace=self.workspace, home=self.home, rules=PermissionRules(allow=tuple(limits))
        ).decide(request)
        if only.verdict == "allow" and only.rule:
            return ""
        return f"{definition.name} agents may use {request.tool} only as {', '.join(map(str, limits))}."


class SubGrants(Grants):
    """The permissions of a sub-agent as they are now."""

    def __init__(self, permissions: Permissions, descent: Descent) -> None:
        self._parent, self._definitions = descent.parent.state.grants, descent.definitions
        self._own = permissions
        super().__init__(permissions)

    @property
    def now(self) -> Permissions:
        """Its own permissions within those its parent has at this moment."""
        own, parent = self._own, self._parent.now
        rules = own.rules + parent.rules
        if own.workspace != parent.workspace:
            # A working copy elsewhere: what is ruled about the project holds there too.
            rules += _moved(parent.rules, parent.workspace, own.workspace)
        mode = min(own.mode, parent.mode, key=_NARROWEST_FIRST.index)
        fields = {**asdict(own), "rules": rules, "mode": mode}
        return SubPermissions(**fields, definitions=self._definitions)

    @now.setter
    def now(self, permissions: Permissions) -> None:
        # Of what was made from the parent's, only the mode is its own to change.
        made = isinstance(permissions, SubPermissions)
        self._own = replace(self._own, mode=permissions.mode) if made else permissions

    def allow(self, *rules: str) -> None:
        """What the user always allows holds in the whole session."""
        self._parent.allow(*rules)


def _moved(rules: PermissionRules, workspace: str, copy: str) -> PermissionRules:
    """The rules that deny or ask about paths of a workspace, for a copy of it."""

    def moved(kept: tuple[PermissionRule, ...]) -> tuple[PermissionRule, ...]:
        about = (rule for rule in kept if workspace in rule.pattern)
        return tuple(replace(rule, pattern=rule.pattern.replace(workspace, copy)) for rule in about)

    return PermissionRules(ask=moved(rules.ask), deny=moved(rules.deny))


def one_at_a_time(consent: ConsentFunction) -> ConsentFunction:
    """The function that asks the user, for several agents that ask one after another."""
    asking = Lock()

    def ask(asked: Asked) -> Consented:
        with asking:
            return consent(asked)

    return ask


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
    def definitions(self) -> tuple[AgentDefinition, ...]:
        """Its definition and those of the agents above it: what one of them does not allow, it may not do."""
        above = self.parent.descent
        return (self.definition, *(above.definitions if above else ()))

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
        """The folder in which agents of its type keep notes; None if they keep none. Raises `Refused`."""
        workspace, home = self.parent.workspace, user_home()
        match self.definition.memory:
            case "user":
                place = home.root
            case "project":
                place = workspace / ".sevenfold"
            case "local":
                place = home.project(workspace).folder
            case None:
                return None
        folder = place.resolve() / MEMORY / self.definition.name
        astray = self.definition.memory == "project" and not folder.is_relative_to(workspace)
        if astray or folder.resolve() != folder:
            # What is there may be read and written, and a project's link could lead anywhere.
            raise Refused(
                f"{place / MEMORY / self.definition.name} is reached by a link; replace it by a folder"
            )
        return folder

    def _memory_text(self) -> str:
        if self.memory is None or self.fork:
            return ""
        words = read_regular(self.memory / "MEMORY.md") or b""
        notes = words.decode(errors="replace").strip()
        return AgentNotes(str(self.memory), notes or "(There are no notes yet.)").render()

    def open(self) -> SessionParts:
        """Its log, and what goes with it: new, or continued."""
        store, conversation = self.parent.store, self.parent.conversation
        if not self.fork:
            return store.branch_off(self.entry.id, empty=True)
        with conversation.lock:
            # What a fork begins with has to stay as it is.
            conversation.ladder.freeze(conversation)
            return store.branch_off(self.entry.id, empty=False)

    def grants(self, permissions: Permissions) -> Grants:
        """Its permissions, within those of its parent."""
        if self.memory is not None:
            permissions = replace(permissions, roots=(*permissions.roots, str(self.memory)))
        # Nothing is allowed by itself, and what the definition forbids is not.
        rules, mode = PermissionRules.of(self.definition.rules), self.definition.mode or "autonomous"
        own = replace(permissions, mode=mode, rules=rules)
        return SubGrants(own, self)

    def frame(self, store: SessionParts) -> Frame | None:
        """What precedes the messages of a fork: what its parent was sent last."""
        return recorded_frame(store.log) if self.fork else None

    def started(self, store: SessionParts, common: dict[str, Any]) -> list[HookInput]:
        """What hooks receive when it begins: nothing if an earlier process has told it what to do."""
        return [] if store.log.keyed(self.entry.key) else [SubagentStart(**common)]

    def stop(self, **fields: Any) -> SubagentStop:
        """What hooks receive when it considers itself finished."""
        return SubagentStop(**fields, agent_transcript_path=self.parent.store.branch_path(self.entry.id))

    def inherited_usd(self, store: SessionParts) -> float | None:
        """What the conversation it begins with had cost; None if a price is unknown."""
        for position, made in store.log.decisions(Forked):
            if made.name == store.branch:
                return account_of(store.log.upto(position)).usd
        return 0.0


class SubSettings:
    """The settings of a sub-agent: those of its parent, with a window that its own model has."""

    def __init__(self, source: Source, descent: Descent, profile: Profile) -> None:
        self._source = source
        self._descent = descent
        self._profile = profile
        self._made: tuple[Settings, Settings] | None = None

    def current(self) -> Settings:
        """The settings now; the same object as long as nothing has changed."""
        given = self._source.current()
        if self._made is None or self._made[0] is not given:
            descent, own = self._descent, given
            if self._profile.model != descent.parent.profile.model:
                # A window that was set for the parent says nothing about another model.
                own = replace(given, context_window=None)
            most = descent.definition.window or (None if descent.fork else given.agent_window)
            if most is not None:
                # Its model may take a million tokens, but to read so many with every request is dear.
                own = replace(own, context_window=min(most, window_for(self._profile, own).context))
            self._made = given, own
        return self._made[1]


def cheaper_as_fork(parent: Assembly, model: str | None) -> tuple[bool, str]:
    """Whether an agent that reads its parent's conversation with every request costs less than one with a prompt of
    its own, and why."""
    conversation = parent.conversation
    if in_agents_fork(parent.store.log) or (model and model != parent.model):
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
