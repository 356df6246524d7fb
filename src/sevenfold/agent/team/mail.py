"""Whom an agent can write to, and how those agents get to see their mail."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sevenfold.agent.team.messages import Correspondent, due
from sevenfold.errors import Refused, SevenfoldError

if TYPE_CHECKING:
    from sevenfold.agent.team.roster import AgentEntry
    from sevenfold.agent.team.team import Team
    from sevenfold.ports import Clock, Mailbox

MAIL_HAS_COME = "A message for you has come after you ended. Act on it."


class TeamMail:
    """The mail of one agent's team; a `sevenfold.agent.team.messages.Directory`."""

    def __init__(self, team: Team, mailbox: Mailbox | None, clock: Clock) -> None:
        self._team = team
        self._mailbox = mailbox
        self._clock = clock
        self._held: dict[str, float] = {}
        """When mail that is held for an agent may be delivered, by its id; under no id, that for the agent itself."""

    def everyone(self) -> list[Correspondent]:
        """The agents it may write to: the one that started it, those it has started, and those next to it."""
        team, above = self._team, self._team.above
        known = [Correspondent(one.id, one.started.name, "worker") for one in reversed(list(team.roster))]
        if above is None:
            return known
        peers = [Correspondent(one.id, one.started.name) for one in reversed(list(above.roster))]
        leader = Correspondent(above.address, "leader", "leader")
        return [leader, *known, *(one for one in peers if one.id != team.owner)]

    def notify(self, to: Correspondent, due: float = 0.0) -> str:
        """There is a message for an agent: one that waits looks, and one that has ended goes on."""
        team = self._team.above if to.relation != "worker" else None
        team = team or self._team
        entry = None if to.relation == "leader" else team.roster.get(to.id)
        if due > self._clock.now():
            team.mail.hold(entry.id if entry else "", due)
        elif to.relation == "leader":
            team.wake_up()
        elif entry is not None:
            return team.mail.bring(entry)
        return ""

    def hold(self, agent: str, due: float) -> None:
        """There is mail for an agent that may not be delivered before then."""
        self._held[agent] = min(due, self._held.get(agent, due))

    def bring_held(self) -> None:
        """Have agents see to mail that was held for them and is due now, those below this one included."""
        now = self._clock.now()
        for agent in [agent for agent, until in list(self._held.items()) if until <= now]:
            del self._held[agent]
            entry = self._team.roster.get(agent)
            if entry is None:
                self._team.wake_up()
            elif entry.status in ("working", "completed"):
                self.bring_late(entry)
        for team in self._team.below():
            team.mail.bring_held()

    def bring(self, entry: AgentEntry) -> str:
        """Let an agent see to its mail; says what is done for that."""
        team = self._team
        team.wake_up_in(entry)
        if entry.ended is None:
            return "it is working"
        try:
            team.launch(team.continue_work(entry, MAIL_HAS_COME))
        except Refused as error:
            return f"it has ended, and goes on later: {error}"
        return "it had ended, and goes on"

    def bring_late(self, entry: AgentEntry) -> None:
        """What came when the agent was about to end is not left lying."""
        with suppress(SevenfoldError):
            waiting = self._mailbox.waiting(entry.id) if self._mailbox else ()
            # Only for what it will really get: a held message would bring it back again and again.
            if due(waiting, self._clock.now()):
                self.bring(entry)
            elif waiting:
                self.hold(entry.id, min(one.due for one in waiting if one.due > self._clock.now()))
