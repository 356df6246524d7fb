"""The standard tools with what they need: processes, a searcher, the skills of a folder."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sevenfold.agent.processes import LocalProcesses
from sevenfold.agent.tools.edit import Edit, Write
from sevenfold.agent.tools.read import Read
from sevenfold.agent.tools.search import FindFiles, Grep
from sevenfold.agent.tools.searchers import find_searcher
from sevenfold.agent.tools.session_tools import AskUserTool, PlanReady, PlanStart, RecallTool, TodoTool
from sevenfold.agent.tools.shell import Shell, ShellOutput, ShellStop
from sevenfold.agent.tools.skills import Skills, SkillTool
from sevenfold.agent.tools.tool import Tool
from sevenfold.agent.tools.web import WebFetch


def file_tools() -> list[Tool]:
    """Reading, searching and changing files."""
    searcher = find_searcher()
    return [Read(), Edit(), Write(), Grep(searcher), FindFiles(searcher)]


def shell_tools(processes: LocalProcesses) -> list[Tool]:
    """Running commands; whoever made the processes closes them."""
    return [Shell(processes), ShellOutput(processes), ShellStop(processes)]


def standard_tools(
    processes: LocalProcesses, *, skills: Skills | None = None, private_hosts: Collection[str] = ()
) -> list[Tool]:
    """All tools an agent at a terminal has."""
    tools = [*file_tools(), *shell_tools(processes), WebFetch(private=private_hosts)]
    tools += [TodoTool(), PlanStart(), PlanReady(), AskUserTool(), RecallTool()]
    return [*tools, SkillTool(skills)] if skills and skills.known else tools


def background_folder(session: Path) -> Path:
    """Where commands in the background leave their output."""
    return session / "tasks"
