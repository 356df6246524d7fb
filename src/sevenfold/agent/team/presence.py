"""How an agent can be reached while its process runs: its tasks from other terminals, its mail, its socket."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, NoReturn

from sevenfold.agent.team.messages import Outgoing, Post
from sevenfold.agent.team.tasks import BEAT, AgentTasks, CommandTasks, TaskFile
from sevenfold.errors import Refused
from sevenfold.stores.files import safe_name
from sevenfold.stores.home import user_home

if TYPE_CHECKING:
    from sevenfold.agent.assembly import Assembly
    from sevenfold.ports import AgentMessage, Mailbox

PLAN_SENT = (
    "The agent that started you decides about the plan. End your turn: you go on when its answer comes."
)


class Presence:
    """Connects an agent with what is outside it."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._ends = ExitStack()
        self._watching = False
        self._beating = threading.Lock()
        """Held while other terminals are shown what runs: not any more once this is closed."""
        tasks, team = assembly.conversation.tasks, assembly.team
        tasks.sources.append(CommandTasks(assembly.state.processes))
        if team is not None:
            tasks.sources.append(AgentTasks(team))
            if team.post is not None and assembly.store.mailbox is not None:
                self._connect(team.post, assembly.store.mailbox, team.wake_up)

    def _connect(self, post: Post, mailbox: Mailbox, wake_up: Callable[[], None]) -> None:
        """Connect the mail with the agent's plans and its end, and with other sessions."""
        # Imported here, because few agents have agents.
        from sevenfold.agent.team import sockets

        assembly = self._assembly
        post.leave = lambda: assembly.loop.interrupt()
        post.control = self._obey
        post.by_socket = sockets.send
        if assembly.descent is not None and assembly.descent.definition.mode == "plan":
            assembly.state.plans.approve = partial(self._ask_leader, post)
            # That is: whatever its parent may do, which is all it is permitted at most.
            assembly.state.grants.after_planning = "autonomous"
        if assembly.descent is None and assembly.store.settings.current().message_socket:
            name = safe_name(f"{assembly.store.name}:{assembly.store.path or assembly.workspace}")
            path = user_home().root / "sockets" / f"{name}.sock"
            socket = sockets.MessageSocket(path, mailbox, post.address, wake_up)
            self._ends.callback(socket.close)
            post.by_socket = socket.send

    def _ask_leader(self, post: Post, plan: str) -> NoReturn:
        """Send a plan to the agent that started this one; the answer comes as a message."""
        key = f"plan {sha256(plan.encode(errors='replace')).hexdigest()}"
        (receipt,) = post.send("leader", Outgoing(plan, "a plan that waits for your approval"), key)
        raise Refused(f"{PLAN_SENT} ({receipt})")

    def _obey(self, message: AgentMessage) -> None:
        """Do what a control message says; see `Post.control`."""
        plans = self._assembly.state.plans
        if message.kind == "plan_approval_response" and message.approve and plans.planning:
            plans.leave()

    def watch(self) -> None:
        """Show other terminals what runs in the background, and take orders to stop it, if the session is kept."""
        assembly, team = self._assembly, self._assembly.team
        runner, mailbox = assembly.conversation.background, assembly.store.mailbox
        if self._watching or runner is None or mailbox is None or assembly.home.temporary:
            return
        self._watching = True
        file, conversation = TaskFile(assembly.home.folder, mailbox), assembly.conversation

        def beat() -> None:
            with self._beating:
                if not self._watching:
                    return
                file.update(conversation.tasks, conversation.events.tell)
            if team is not None:
                team.write_progress()
            if team is not None and team.post is not None:
                team.mail.bring_held()
                if team.post.waiting:
                    # It may come from another process, which cannot wake this one.
                    team.wake_up()

        self._ends.callback(file.remove)
        self._ends.callback(runner.every(BEAT, beat))

    def close(self) -> None:
        """Be reached no longer."""
        with self._beating:
            self._watching = False
        self._ends.close()
