"""The permissions of a sub-agent: never wider than those of the agent that started it.

They are not copied: each decision looks at the parent's mode and rules as they are at that moment, so what the user
takes back from the parent is taken back from all its agents. A definition can only narrow them further. Tools are
restricted when they are called, not by leaving them out of the list, because a fork sends its parent's list.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, get_args

from msgspec.structs import replace

from sevenfold.agent.permissions.engine import Grants, Mode, PermissionDecision, Permissions
from sevenfold.agent.permissions.rules import PermissionRequest, PermissionRule, PermissionRules

if TYPE_CHECKING:
    from sevenfold.agent.executor import Asked, Consented, ConsentFunction
    from sevenfold.agent.team.definitions import AgentDefinition

_NARROWEST_FIRST: tuple[Mode, ...] = ("plan", "ask", "accept_edits", "autonomous")
assert set(_NARROWEST_FIRST) == set(get_args(Mode))


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

    def __init__(
        self, permissions: Permissions, parent: Grants, definitions: tuple[AgentDefinition, ...]
    ) -> None:
        self._parent = parent
        self._definitions = definitions
        self._own: Permissions = permissions
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
        fields = {name: getattr(own, name) for name in Permissions.__struct_fields__}
        return SubPermissions(**{**fields, "rules": rules, "mode": mode}, definitions=self._definitions)

    @now.setter
    def now(self, permissions: Permissions) -> None:
        # Of what was made from the parent's, only the mode is its own to change.
        made = isinstance(permissions, SubPermissions)
        self._own = replace(self._own, mode=permissions.mode) if made else permissions

    def allow(self, *rules: str) -> None:
        """What the user always allows holds in the whole session."""
        self._parent.allow(*rules)


def sub_permissions(permissions: Permissions, definition: AgentDefinition) -> Permissions:
    """The permissions an agent begins with: nothing allowed by itself, and what its definition forbids."""
    rules = PermissionRules.of(definition.rules)
    return replace(permissions, mode=definition.mode or "autonomous", rules=rules)


def _moved(rules: PermissionRules, workspace: str, copy: str) -> PermissionRules:
    """The rules that deny or ask about paths of a workspace, for a copy of it."""

    def moved(kept: tuple[PermissionRule, ...]) -> tuple[PermissionRule, ...]:
        return tuple(
            replace(rule, pattern=rule.pattern.replace(workspace, copy))
            for rule in kept
            if workspace in rule.pattern
        )

    return PermissionRules(ask=moved(rules.ask), deny=moved(rules.deny))


def one_at_a_time(consent: ConsentFunction) -> ConsentFunction:
    """The function that asks the user, for several agents that ask one after another."""
    asking = Lock()

    def ask(asked: Asked) -> Consented:
        with asking:
            return consent(asked)

    return ask
