"""Tools that the program around the agent carries out itself, in its own time: after a minute, a day or a restart.

The model calls them like any other. The run ends as ``input_required`` once everything else in the answer is done; the
program records the results, and the next run continues from there. Nothing is waited for in between, and no process has
to stay alive: the log has the calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.tool import Input, Kind
from sevenfold.errors import InputError
from sevenfold.session.factory import tool as checked_tool


class HandedOverTool(Struct, frozen=True, eq=False):
    """A tool whose calls are handed over to the program; see `handed_over`."""

    name: str
    description: str
    schema: Mapping[str, Any]
    kind: Kind = ""
    concurrent: bool = True

    def permission_request(self, arguments: Input, context: Context) -> PermissionRequest:
        """No permission: the program decides whether it carries out a call."""
        return PermissionRequest(self.name, "none")

    def run(self, arguments: Input, context: Context) -> ToolOutput:
        """Fail: this is called where calls are not handed over, as in a fork."""
        return failed(
            f"{self.name} is carried out by the program that runs this agent, and cannot be used here."
        )


def handed_over(schema: Mapping[str, Any], *, kind: Kind = "") -> HandedOverTool:
    """Make a tool that the program carries out, from its definition in the format of any API.

    Raises `sevenfold.errors.InputError` if a model could not call it. With a ``kind``, its results can be obtained
    again, so old ones may be cleared.
    """
    # Imported here because loading it takes a moment, and most agents have no such tools.
    from jsonschema import Draft202012Validator, SchemaError

    definition = checked_tool(schema, kind=kind).schema
    name = definition.get("name")
    if not isinstance(name, str):
        raise InputError(f"a tool needs a name, got {name!r}")
    try:
        Draft202012Validator.check_schema(definition["input_schema"])
    except SchemaError as error:
        raise InputError(
            f"the input_schema of the tool {name!r} is no JSON schema: {error.message}"
        ) from error
    return HandedOverTool(
        name,
        str(definition.get("description", "")),
        definition["input_schema"],
        kind,
    )
