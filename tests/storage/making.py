"""A home with sessions in it, and commands run as the command line would."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Raw

from sevenfold.clock import ManualClock, RandomIds
from sevenfold.conversation.resume import resume
from sevenfold.conversation.transcript import Transcript
from sevenfold.record import blocks
from sevenfold.record.blocks import Block
from sevenfold.record.decisions import Epoch, Offloaded
from sevenfold.record.log import Place
from sevenfold.stores.files import private_folder
from sevenfold.stores.home import Home, Project
from sevenfold.stores.jsonl.log import JsonlLog
from sevenfold.stores.jsonl.store import FileResults
from tests.support import answer

MODEL = "claude-sonnet-5-5"


def run(module: Any, *arguments: object) -> int:
    """Carry out a command given as its module."""
    assert isinstance(module, ModuleType)
    parser = argparse.ArgumentParser()
    module.arguments(parser)
    return int(module.run(parser.parse_args([*map(str, arguments)])))


def thought(words: str = "hm") -> Block:
    return blocks.read(b'{"type":"thinking","thinking":"%s","signature":"c2lnbmF0dXJl"}' % words.encode())


def call(id: str, command: str = "ls") -> Block:
    return blocks.read(
        b'{"type":"tool_use","id":"%s","name":"Bash","input":{"command":"%s"}}'
        % (id.encode(), command.encode())
    )


def made(project: Project) -> Project:
    """The project, its folder made."""
    private_folder(project.folder)
    return project


class Worker:
    """A session under way: what is said goes to the disk, as the runtime would write it."""

    def __init__(self, home: Home, session: str, folder: Path = Path("/made/up")) -> None:
        self.project: Project = made(home.project(folder))
        self.files = self.project.session(session)
        self.results = FileResults(self.files.results)
        self.script = Transcript(
            JsonlLog.open(self.files.transcript), Place(session), clock=ManualClock(), ids=RandomIds()
        )
        if self.script.view.epoch is None:
            system = [Raw(b'{"type":"text","text":"be brief"}')]
            self.script.decide(Epoch(reason="start", model=MODEL, max_tokens=9, system=system))

    def turn(self, question: str = "go on", reply: str = "done", *, id: str) -> str:
        """A question and an answer with reasoning; returns the question's record."""
        asked = self.script.user([blocks.text(question)])
        self.script.model(answer(thought(), reply, id=f"msg_{id}"))
        return asked

    def result(self, id: str, content: str) -> str:
        """A call whose result is stored away; returns where."""
        self.script.model(answer(thought(), call(id), id=f"msg_{id}"))
        self.script.user([blocks.result(id, content)])
        path = self.results.keep(id, content.encode())
        self.script.decide(
            Offloaded(tool_use_id=id, preview="see there", path=path, size=len(content), sha256="0" * 64)
        )
        return path

    def close(self) -> None:
        self.script.close()


def reopened(files: Any) -> Any:
    """The view of a stored session, read anew."""
    return resume(JsonlLog(files.transcript))
