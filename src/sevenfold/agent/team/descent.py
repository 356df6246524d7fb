"""What distinguishes a sub-agent from other agents: how its options, permissions and settings follow from its parent.

Its permissions are never broader than its parent's. They are not copied: each decision uses the parent's current mode
and rules, so that revoking a permission of the parent also revokes it for all its agents. A definition can only narrow
them further. Tools are restricted when they are called, not by leaving them out of the list, because a fork sends its
parent's list.
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
from sevenfold.profiles import ALIASES, full_name
from sevenfold.providers.registry import provider_for
from sevenfold.record.decisions import Forked
from sevenfold.record.quoting import quoted_lines, without_tag_characters
from sevenfold.record.usage import MILLION
from sevenfold.request.frame import Frame
from sevenfold.stores.folder import read_regular
from sevenfold.stores.home import user_home

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly
    from sevenfold.agent.executor import Asked, Consented, ConsentFunction
    from sevenfold.agent.options import AgentOptions
    from sevenfold.agent.permissions.engine import Grants, Permissions
    from sevenfold.agent.team.definitions import AgentDefinition
    from sevenfold.agent.team.roster import AgentEntry
    from sevenfold.profiles import Profile
    from sevenfold.session.factory import SessionParts
    from sevenfold.settings import Settings, Source

_NARROWEST_FIRST: tuple[Mode, ...] = ("plan", "ask", "accept_edits", "autonomous")
assert set(_NARROWEST_FIRST) == set(get_args(Mode))
EXPECTED_REQUESTS = 10
"""The number of requests assumed when comparing the cost of a fork and a fresh agent."""
BYTES_PER_TOKEN = 3
MEMORY = "agent-memory"
"""The folder for agents' notes: in the user's home for Sevenfold, in the project, or in our data for the project."""


class SubPermissions(Permissions, frozen=True, kw_only=True):
    """The permissions of a sub-agent at one moment."""

    definitions: tuple[Any, ...]
    """The `AgentDefinition` of the agent, followed by those of its ancestors."""

    def decide(self, request: PermissionRequest) -> PermissionDecision:
        """Deny what any of the definitions does not allow; otherwise decide as for any agent."""
        for definition in self.definitions:
            if reason := self._not_allowed_by(definition, request):
                return PermissionDecision("deny", reason)
        return super().decide(request)

    def _not_allowed_by(self, definition: AgentDefinition, request: PermissionRequest) -> str:
        if not definition.allows(request.tool):
            return f"{definition.name} agents may not use {request.tool}. Do without it, or report what is needed."
        tool_rules = [PermissionRule.parse(line) for line in definition.tools or ()]
        limits = [rule for rule in tool_rules if rule.pattern and rule.concerns(request)]
        if not limits or any(rule.concerns(request) and not rule.pattern for rule in tool_rules):
            return ""
        restricted = Permissions(
            workspace=self.workspace, home=self.home, rules=PermissionRules(allow=tuple(limits))
        ).decide(request)
        if restricted.verdict == "allow" and restricted.rule:
            return ""
        return f"{definition.name} agents may use {request.tool} only as {', '.join(map(str, limits))}."


class SubGrants(Grants):
    """The current permissions of a sub-agent."""

    def __init__(self, permissions: Permissions, descent: Descent) -> None:
        self._parent = descent.parent.state.grants
        self._definitions = descent.definitions
        self._own_permissions = permissions
        super().__init__(permissions)

    @property
    def now(self) -> Permissions:
        """Its own permissions, limited by its parent's current ones."""
        permissions = self._own_permissions
        parent = self._parent.now
        rules = permissions.rules + parent.rules
        if permissions.workspace != parent.workspace:
            # Its workspace is a working copy: rules about the project's paths must apply there too.
            rules += _moved(parent.rules, parent.workspace, permissions.workspace)
        mode = min(permissions.mode, parent.mode, key=_NARROWEST_FIRST.index)
        fields = {**asdict(permissions), "rules": rules, "mode": mode}
        return SubPermissions(**fields, definitions=self._definitions)

    @now.setter
    def now(self, permissions: Permissions) -> None:
        # If these permissions were derived from the parent's, only their mode is its own.
        derived = isinstance(permissions, SubPermissions)
        self._own_permissions = (
            replace(self._own_permissions, mode=permissions.mode) if derived else permissions
        )

    def allow(self, *rules: str) -> None:
        """Add allow rules to the parent, so that they hold for the whole session."""
        self._parent.allow(*rules)


def _moved(rules: PermissionRules, workspace: str, copy: str) -> PermissionRules:
    """Return the deny and ask rules about paths in a workspace, changed to the paths of its copy."""

    def moved(listed: tuple[PermissionRule, ...]) -> tuple[PermissionRule, ...]:
        concerned = (rule for rule in listed if workspace in rule.pattern)
        return tuple(replace(rule, pattern=rule.pattern.replace(workspace, copy)) for rule in concerned)

    return PermissionRules(ask=moved(rules.ask), deny=moved(rules.deny))


def one_at_a_time(consent: ConsentFunction) -> ConsentFunction:
    """Wrap the function that asks the user, so that agents ask one at a time."""
    asking = Lock()

    def ask(question: Asked) -> Consented:
        with asking:
            return consent(question)

    return ask


class Descent(Struct, frozen=True):
    """The origin of a sub-agent: its parent, its definition and its entry on the roster."""

    parent: Assembly
    definition: AgentDefinition
    entry: AgentEntry

    @property
    def fork(self) -> bool:
        """Whether it starts with its parent's conversation."""
        return self.entry.started.fork

    @property
    def depth(self) -> int:
        """The number of its ancestors."""
        parent_descent = self.parent.descent
        return 1 if parent_descent is None else parent_descent.depth + 1

    @property
    def definitions(self) -> tuple[AgentDefinition, ...]:
        """Its definition and those of its ancestors; it may only do what all of them allow."""
        parent_descent = self.parent.descent
        return (self.definition, *(parent_descent.definitions if parent_descent else ()))

    def options(self) -> AgentOptions:
        """Return the agent's options: its parent's, with changes from its definition."""
        parent = self.parent
        definition = self.definition
        started = self.entry.started
        if provider_for(started.model).name != provider_for(parent.model).name:
            raise InputError(
                f"{started.model} belongs to another provider than {parent.model}; choose a model of the same one"
            )
        system = parent.options.get("system")
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
        if started.model != parent.model:
            # What was chosen for the parent's model need not suit another.
            options |= {"effort": None, "thinking": None}
        prompt = "\n\n".join(filter(None, (definition.prompt, "" if self.fork else self.memory_text())))
        if self.fork:
            # A fork must send the same prefix as its parent, so the definition's prompt is not added here.
            options["system"] = parent.prompt.sent if system is None else system
        elif isinstance(system, str):
            options["system"] = "\n\n".join(filter(None, (system, prompt)))
        else:
            options["guidance"] = prompt or None
        return options

    def _labelled(self, consent: ConsentFunction | None) -> ConsentFunction | None:
        """Wrap the function that asks the user, so that it names the asking agent."""
        label = self.entry.label
        return consent and (lambda asked: consent(replace(asked, agent=asked.agent or label)))

    @property
    def memory(self) -> Path | None:
        """The folder for notes of agents of its type; None if they keep none. Raises `Refused` for a link."""
        workspace = self.parent.workspace
        home = user_home()
        match self.definition.memory:
            case "user":
                root = home.root
            case "project":
                root = workspace / ".sevenfold"
            case "local":
                root = home.project(workspace).folder
            case None:
                return None
        folder = root.resolve() / MEMORY / self.definition.name
        leaves_workspace = self.definition.memory == "project" and not folder.is_relative_to(workspace)
        if leaves_workspace or folder.resolve() != folder:
            # The agent may read and write this folder, and a link in a project could lead anywhere.
            raise Refused(
                f"{root / MEMORY / self.definition.name} is behind a symbolic link; replace the link with a folder"
            )
        return folder

    def memory_text(self) -> str:
        """Return the notes of agents of its type, quoted, and where they come from; empty if they keep none.

        A fork gets them with its task, because its system prompt is its parent's.
        """
        if self.memory is None:
            return ""
        content = read_regular(self.memory / "MEMORY.md") or b""
        notes = without_tag_characters(content.decode(errors="replace").strip())[0]
        shown = quoted_lines(notes) if notes else "(There are no notes yet.)"
        return AgentNotes(str(self.memory), shown, self._memory_origin()).render()

    def _memory_origin(self) -> str:
        """Return who may have written the notes."""
        if self.definition.memory != "project":
            return "earlier agents, who may have copied them from anywhere"
        remark = "" if self.parent.trusted else ", which the user has not trusted"
        return f"earlier agents, or anyone who can write to this project{remark}"

    def open(self) -> SessionParts:
        """Open its log and the other session parts, new or continued."""
        store = self.parent.store
        conversation = self.parent.conversation
        if not self.fork:
            return store.branch_off(self.entry.id, empty=True)
        with conversation.lock:
            # The prefix of a fork must not change any more.
            conversation.ladder.freeze(conversation)
            return store.branch_off(self.entry.id, empty=False)

    def grants(self, permissions: Permissions) -> Grants:
        """Return its permissions, limited by its parent's."""
        if self.memory is not None:
            permissions = replace(permissions, roots=(*permissions.roots, str(self.memory)))
        # A definition has only ask and deny rules; the mode is limited by the parent's in `SubGrants.now`.
        rules = PermissionRules.of(self.definition.rules)
        mode = self.definition.mode or "autonomous"
        narrowed = replace(permissions, mode=mode, rules=rules)
        return SubGrants(narrowed, self)

    def frame(self, store: SessionParts) -> Frame | None:
        """Return the system prompt and tools that a fork's parent last sent; None for any other agent."""
        return recorded_frame(store.log) if self.fork else None

    def started(self, store: SessionParts, common: dict[str, Any]) -> list[HookInput]:
        """Return the input for hooks when it starts; empty if an earlier process already gave it its task."""
        return [] if store.log.keyed(self.entry.key) else [SubagentStart(**common)]

    def stop(self, **fields: Any) -> SubagentStop:
        """Return the input for hooks when it considers itself finished."""
        return SubagentStop(**fields, agent_transcript_path=self.parent.store.branch_path(self.entry.id))

    def inherited_usd(self, store: SessionParts) -> float | None:
        """Return what the conversation that it starts with had cost; None if a price is unknown."""
        for position, decision in store.log.decisions(Forked):
            if decision.name == store.branch:
                return account_of(store.log.upto(position)).usd
        return 0.0


class SubSettings:
    """The settings of a sub-agent: its parent's, with a context window that fits its own model."""

    def __init__(self, source: Source, descent: Descent, profile: Profile) -> None:
        self._source = source
        self._descent = descent
        self._profile = profile
        self._adjusted: tuple[Settings, Settings] | None = None

    def current(self) -> Settings:
        """Return the current settings; the same object until something changes."""
        settings = self._source.current()
        if self._adjusted is None or self._adjusted[0] is not settings:
            descent = self._descent
            adjusted = settings
            if self._profile.model != descent.parent.profile.model:
                # A window configured for the parent's model does not apply to another model.
                adjusted = replace(settings, context_window=None)
            window = descent.definition.window or (None if descent.fork else settings.agent_window)
            if window is not None:
                # Its model may accept a million tokens, but reading so many with every request is expensive.
                adjusted = replace(
                    adjusted, context_window=min(window, window_for(self._profile, adjusted).context)
                )
            self._adjusted = settings, adjusted
        return self._adjusted[1]


def model_for(parent: Assembly, requested: str | None) -> str:
    """Return the model of a new agent: its parent's, unless another one is wanted.

    An alias such as haiku names a model of one provider; where another one answers, it means the parent's model.
    """
    if requested is None:
        return parent.model
    model = full_name(requested)
    other_provider = provider_for(model).name != provider_for(parent.model).name
    return parent.model if other_provider and requested.strip().lower() in ALIASES else model


def cheaper_as_fork(parent: Assembly, model: str | None) -> tuple[bool, str]:
    """Return whether a fork, which reads its parent's conversation with every request, is cheaper, and why."""
    conversation = parent.conversation
    if in_agents_fork(parent.store.log) or (model and model != parent.model):
        return False, "it cannot be a fork"
    tokens = conversation.size().tokens
    price = conversation.profile.price(tokens)
    if price is None:
        return False, "what a fork would cost is not known"
    front = (
        sum(map(len, (*conversation.epoch.frame.system, *conversation.epoch.frame.tools)))
        // BYTES_PER_TOKEN
    )
    fork = tokens * price.read * EXPECTED_REQUESTS / MILLION
    fresh = front * (price.write_5m + price.read * (EXPECTED_REQUESTS - 1)) / MILLION
    compared = f"about ${fork:.4f} as a fork, ${fresh:.4f} with a prompt of its own"
    return fork < fresh, f"{compared}, for {EXPECTED_REQUESTS} requests"
