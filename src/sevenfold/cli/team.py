"""`sevenfold team run FILE.md`: an agent prepares, others (by default its forks) do the tasks, it joins the reports."""

from __future__ import annotations

import argparse
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import get_args

from msgspec import Struct
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sevenfold.agent.agent import Agent
from sevenfold.agent.permissions.engine import Mode
from sevenfold.agent.team.team import MAPPED
from sevenfold.cli.chat.start import DEFAULT_MODEL, ChatOptions, agent_options
from sevenfold.cli.output import plain_table
from sevenfold.cli.text import add_folder, clean, complain, money, one_line, plural
from sevenfold.errors import InputError, Refused, UserError
from sevenfold.memory.front_matter import split
from sevenfold.record.blocks import text_of
from sevenfold.record.decisions import AgentEnd

JOIN = "Join these reports into one answer: what was found or done, without repetition, and what is open."
REPORTS = "team-reports"
"""The key of the note that holds the agents' reports."""
_HEADING = re.compile(r"^##[ \t]+(tasks|join)[ \t]*$", re.IGNORECASE | re.MULTILINE)
_ITEM = re.compile(r"^(?:[-*]|\d+[.)])[ \t]+", re.MULTILINE)
KNOWN = ("model", "mode", "name", "agent", "max_usd")
MOST_TASKS = 200


class TeamFile(Struct, frozen=True, kw_only=True):
    """The content of a team file: what the team should do, and with which settings."""

    opening: str
    tasks: tuple[str, ...]
    join: str = JOIN
    name: str
    model: str = DEFAULT_MODEL
    mode: Mode | None = None
    agent: str = "fork"
    max_usd: float | None = None


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    command.add_argument("action", choices=("run",))
    command.add_argument("file", type=Path, metavar="FILE.md")
    command.add_argument("--model", default="", metavar="NAME")
    command.add_argument("--mode", choices=get_args(Mode))
    command.add_argument("--max-usd", type=float, metavar="USD")
    add_folder(command, exists=True)


def run(options: argparse.Namespace) -> int:
    """Carry out the command; returns 0 if every task was completed, else 1."""
    team = read_team(options.file)
    model = options.model or team.model
    chosen = ChatOptions(
        folder=options.folder,
        name=team.name,
        model=model,
        mode=options.mode or team.mode,
        max_usd=options.max_usd or team.max_usd,
    )
    chosen.require_key()
    agent_settings = agent_options(chosen)
    with closing(agent_settings["client"]), Agent(model, **agent_settings) as agent:
        return _work(agent, team)


def _work(agent: Agent, team: TeamFile) -> int:
    log = agent.session.conversation.transcript.log
    if log.mentions(team.opening):
        _finish_interrupted_turn(agent)
    elif len(agent.session.conversation.transcript.view):
        raise Refused(
            f"the session {team.name} is about something else; give the team another name in its file (name: …)"
        )
    else:
        complain("preparing the agent")
        agent.run(team.opening)
    workers = agent.team
    assert workers is not None
    if not log.keyed(REPORTS):
        with TaskView(team.tasks, workers.spent) as view:
            ended = agent.map(team.tasks, team.agent, view.progress)
            view.ended(ended)
        complain("merging the reports")
        entries = filter(None, (workers.roster.get(end.agent) for end in ended))
        # A note, because the agents' reports must not count as the user's words.
        reports = (f"Task: {entry.started.prompt}\n\n{workers.report(entry)}" for entry in entries)
        agent.session.conversation.note("\n\n".join(reports), key=REPORTS)
    newest = agent.session.conversation.transcript.view.newest
    joined = newest is None or newest.record.key != REPORTS
    text = _finish_interrupted_turn(agent) if joined else agent.run(team.join).text
    sys.stdout.write(f"{clean(text)}\n")
    mapped = [entry for entry in workers.roster if entry.started.call.startswith(MAPPED)]
    failed = sum(entry.status != "completed" for entry in mapped)
    usd = agent.session.gauge.usd
    done = f"{plural(len(team.tasks) - failed, 'task')} done{f', {failed} not' if failed else ''}"
    cost = f", {money(usd)} in all" if usd is not None else ""
    complain(f"{done}{cost}; to continue: sevenfold chat --resume {team.name}")
    return 1 if failed else 0


def _finish_interrupted_turn(agent: Agent) -> str:
    """Finish the turn that an earlier process began, if any; returns the text of the agent's last answer."""
    newest = agent.session.conversation.transcript.view.newest
    if newest is not None and newest.record.role != "assistant":
        return agent.run().text
    blocks = newest.record.blocks if newest is not None else ()
    return text_of(blocks)


def read_team(path: Path) -> TeamFile:
    """Read a team file; raises `UserError`, which says what is wrong with it."""
    try:
        page = split(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: it is not a text in UTF-8") from error
    if unknown := [key for key in page.values if key not in KNOWN]:
        raise InputError(f"{path}: unknown key {unknown[0]!r} in its head; there are {', '.join(KNOWN)}")
    opening, *sections_text = _HEADING.split(page.body)
    # The split alternates between headings and what is below them.
    headings = map(str.lower, sections_text[::2])
    sections = dict(zip(headings, sections_text[1::2], strict=True))
    items = _ITEM.split(sections.get("tasks", ""))[1:]
    tasks = [" ".join(item.split()) for item in items if item.strip()]
    if not opening.strip():
        raise InputError(f"{path}: say above the tasks what the agent should know or read first")
    if not tasks or len(tasks) > MOST_TASKS:
        raise InputError(
            f"{path}: it needs a list of 1 to {MOST_TASKS} tasks under the heading '## Tasks', each beginning with '- '"
        )
    head = page.values
    mode: Mode | None = next((known for known in get_args(Mode) if known == head.get("mode")), None)
    if mode is None and "mode" in head:
        raise InputError(f"{path}: mode is {head['mode']!r}; it must be one of {', '.join(get_args(Mode))}")
    limit = head.get("max_usd")
    try:
        max_usd = None if limit is None else float(limit)
    except ValueError:
        raise InputError(f"{path}: max_usd is {limit!r}; it must be a number of dollars") from None
    return TeamFile(
        opening=opening.strip(),
        tasks=tuple(tasks),
        join=sections.get("join", "").strip() or JOIN,
        name=head.get("name") or f"team-{path.stem}",
        model=head.get("model") or DEFAULT_MODEL,
        mode=mode,
        agent=head.get("agent") or "fork",
        max_usd=max_usd,
    )


class TaskView:
    """Shows the progress and cost of each task: as a table on a terminal, else as a line for each tool call."""

    def __init__(
        self,
        tasks: Sequence[str],
        spent: Callable[[], float | None] = lambda: None,
        console: Console | None = None,
    ) -> None:
        """``spent`` returns the total cost so far, None if it is unknown."""
        self._tasks = tasks
        self._spent = spent
        self._doing = dict.fromkeys(range(len(tasks)), "waiting")
        self._console = console or Console(stderr=True)
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> TaskView:
        if self._console.is_terminal:
            self._live = Live(get_renderable=self.table, console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def progress(self, number: int, line: str) -> None:
        """Show what the agent of a task is doing."""
        with self._lock:
            self._doing[number] = one_line(clean(line), 60)
        if self._live is None:
            self._console.print(Text(f"task {number + 1}: {one_line(clean(line), 100)}"))

    def ended(self, ended: Sequence[AgentEnd]) -> None:
        """Show how each task ended."""
        with self._lock:
            for number, end in enumerate(ended):
                cost = f", {money(end.usd)}" if end.usd is not None else ""
                self._doing[number] = f"{end.state}, {plural(end.turns, 'turn')}{cost}"

    def table(self) -> Group:
        """The table as it is now, with the time and cost so far."""
        table = plain_table(("", {}), ("task", {}), ("now", {}))
        with self._lock:
            for number, task in enumerate(self._tasks):
                table.add_row(str(number + 1), Text(one_line(clean(task), 50)), Text(self._doing[number]))
        usd = self._spent()
        cost = f", {money(usd)} so far" if usd is not None else ""
        return Group(table, Text(f"{time.monotonic() - self._began:.0f} s{cost}", style="dim"))
