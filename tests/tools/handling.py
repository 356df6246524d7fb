"""A workspace with tools in it, as the tests use them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sevenfold.agent.tools.context import Context, Desk
from sevenfold.agent.tools.output import ToolOutput
from sevenfold.agent.tools.tool import Tool, Toolbox


def context_in(folder: Path, **more: Any) -> Context:
    root = folder.resolve()
    return Context(workspace=root, desk=Desk(root), environ=lambda: os.environ, **more)


class Hands:
    """Calls tools as a loop would: what is requested is what is done."""

    def __init__(self, context: Context, *tools: Tool) -> None:
        self.context = context
        self.box = Toolbox(tools)

    def __call__(self, name: str, **given: Any) -> ToolOutput:
        requested = self.box.permission_request(name, given, self.context)
        if isinstance(requested, ToolOutput):
            return requested
        return self.box.run(name, given, self.context.for_call("call-1", permitted=requested))

    def good(self, name: str, **given: Any) -> str:
        output = self(name, **given)
        assert not output.is_error, output.content
        assert isinstance(output.content, str)
        return output.content

    def bad(self, name: str, **given: Any) -> str:
        output = self(name, **given)
        assert output.is_error, output.content
        assert isinstance(output.content, str)
        return output.content
