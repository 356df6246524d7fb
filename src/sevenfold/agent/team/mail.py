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

    def everyone(self) -> list[Correspondent]:
        """The agents it may write to: the one that started it, those it has started, and those next to it."""
        team, above = self._team, self._team.above
        known = [Correspondent(one.id, one.started.name, "worker") for one in reversed(list(team.roster))]
        if above is None:
            return known
        peers = [Correspondent(one.id, one.started.name) for one in reversed(list(above.roster))]
        leader = Correspondent(above.address, "leader", "leader")
        return [leader, *known, *(one for one in peers if one.id != team.owner)]

    def notify(self, to: Correspondent) -> str:
        """There is a message for an agent: one that waits looks, and one that has ended goes on."""
        above = self._team.above
        if above is not None and to.relation == "leader":
            above.wake_up()
            return ""
        team = above if above is not None and to.relation == "peer" else self._team
        entry = team.roster.get(to.id)
        return "" if entry is None else team.mail.bring(entry)

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
            # Only for what it will really get: a held message would bring it back again and again.
            if self._mailbox and due(self._mailbox.waiting(entry.id), self._clock.now()):
                self.bring(entry)
