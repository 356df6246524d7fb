"""PlanStart and PlanReady: looking around before anything is changed, and agreeing on what will be.

While a plan is made only reading is permitted, and writing the plan's own file. The plan outlives compactions because
it is in that file and not in the conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from sevenfold.agent.tools import files
from sevenfold.agent.tools.context import Abort, Context, Plans, Verdict
from sevenfold.agent.tools.output import PlanChanged, ToolOutput
from sevenfold.agent.tools.tool import StandardTool
from sevenfold.errors import Refused

LONGEST_PLAN = 50_000


class StartInput(Struct, forbid_unknown_fields=True):
    """Nothing is needed."""


class ReadyInput(Struct, forbid_unknown_fields=True):
    """The plan."""

    plan: Annotated[
        str,
        Meta(
            min_length=1, max_length=LONGEST_PLAN, description="The whole plan, as Markdown, for the user."
        ),
    ]


class PlanStart(StandardTool[StartInput]):
    """Begins to plan."""

    name = "PlanStart"
    input = StartInput

    def act(self, given: StartInput, context: Context) -> ToolOutput:
        """From now on nothing is changed."""
        plans = _plans(context)
        plans.enter()
        words = (
            "You are planning now: look around, change nothing. Notes for the plan may be written to "
            f"{plans.path}. When the plan is complete, hand it over with PlanReady."
        )
        return ToolOutput(words, facts=(PlanChanged(True, str(plans.path)),))


class PlanReady(StandardTool[ReadyInput]):
    """Hands the plan to the user."""

    name = "PlanReady"
    input = ReadyInput

    def act(self, given: ReadyInput, context: Context) -> ToolOutput:
        """Ask for approval."""
        plans = _plans(context)
        if not plans.planning:
            raise Refused("No plan is being made; begin with PlanStart, or simply do the work.")
        verdict = plans.submit(given.plan, context.abort)
        fact = PlanChanged(plans.planning, str(plans.path))
        remark = f" The user says: {verdict.remark}" if verdict.remark else ""
        if not verdict.approved:
            words = f"The plan was not approved.{remark} Go on planning, and hand it over again."
            return ToolOutput(words, is_error=True, facts=(fact,))
        return ToolOutput(
            f"The plan is approved; it is in {plans.path}. Carry it out.{remark}", facts=(fact,)
        )


class PlanFile:
    """A plan in a file; ``approve`` puts it to the user."""

    def __init__(
        self, path: Path, approve: Callable[[str, Abort], Verdict], *, planning: bool = False
    ) -> None:
        self._path = path
        self._approve = approve
        self._planning = planning

    @property
    def planning(self) -> bool:
        """Is nothing to be changed yet?"""
        return self._planning

    @property
    def path(self) -> Path:
        """Where the plan is kept."""
        return self._path

    def text(self) -> str:
        """The plan as it stands; empty if there is none."""
        real = str(self._path.resolve())
        return files.content(real).decode(errors="replace") if files.exists(real) else ""

    def enter(self) -> None:
        """Begin to plan."""
        self._planning = True

    def leave(self) -> None:
        """Stop planning, as when the user says so."""
        self._planning = False

    def submit(self, plan: str, abort: Abort) -> Verdict:
        """Keep the plan and ask for approval; planning ends with it."""
        real = str(self._path.resolve())
        before = files.version(files.content(real)) if files.exists(real) else None
        files.write(real, plan.encode(errors="replace"), before)
        verdict = self._approve(plan, abort)
        self._planning = self._planning and not verdict.approved
        return verdict


def _plans(context: Context) -> Plans:
    if context.plans is None:
        raise Refused("Plans are not kept in this session; tell the user what you intend to do instead.")
    return context.plans
