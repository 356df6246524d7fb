"""The standard tools with what they need: processes, a searcher, the skills of a folder."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sevenfold.adapters.processes import LocalProcesses
from sevenfold.tools import ripgrep
from sevenfold.tools.ask import AskUserTool
from sevenfold.tools.edit import Edit, Write
from sevenfold.tools.plan import PlanReady, PlanStart
from sevenfold.tools.read import Read
from sevenfold.tools.recall import RecallTool
from sevenfold.tools.search import FindFiles, Grep
from sevenfold.tools.shell import Shell, ShellOutput, ShellStop
from sevenfold.tools.skills import Skills, SkillTool
from sevenfold.tools.todo import TodoTool
from sevenfold.tools.tool import Tool
from sevenfold.tools.walking import PlainSearch
from sevenfold.tools.web import WebFetch


def file_tools() -> list[Tool]:
    """Reading, searching and changing files."""
    searcher = ripgrep.find() or PlainSearch()
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
