"""Tools of MCP servers, named ``mcp__<server>__<tool>``: makes their listings and results safe to send.

Nothing a server sends is trusted. Names are adapted, descriptions truncated and schemas cleaned; a tool that cannot be
used is left out with a reason, and the others are used. Malformed parts of a result are mentioned but never passed on.
Every call asks for permission, whatever the server says about itself, and no result is ever cleared, because it may not
be possible to get it again.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from sevenfold.agent.permissions.rules import PermissionRequest
from sevenfold.agent.tools.context import Context
from sevenfold.agent.tools.output import ToolOutput, failed
from sevenfold.agent.tools.read import picture
from sevenfold.agent.tools.tool import Input
from sevenfold.errors import Aborted, InputError
from sevenfold.prompts.text import KB, cut

PREFIX = "mcp__"
LONGEST_NAME = 64
"""Maximum characters of a tool's name: the lowest limit of all providers."""
LONGEST_SERVER = 32
"""Maximum characters of the server's name within a tool's name."""
MOST_DESCRIPTION = 2 * KB
MOST_TOOLS = 200
"""Maximum tools of one server."""
MOST_BYTES = 256 * KB
"""Maximum size of the descriptions and schemas of all tools of one server."""
_TICK = 0.05
_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_-]+")
MOST_SCHEMA_BYTES = 16 * KB
"""Maximum size of one schema."""
MOST_PARTS = 1000
"""Maximum number of schemas within one schema, with references expanded."""
DEEPEST = 24
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems"})
_NOT_AT_THE_TOP = frozenset({"anyOf", "oneOf", "allOf", "enum", "const"})
MOST_IMAGE_CHARACTERS = 5_000_000
"""Maximum size of one image, in base64."""
MOST_IMAGES = 20
MOST_ALL_IMAGES = 10_000_000
"""Maximum size of all images of a result, in base64 characters."""
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")

Block = dict[str, Any]
Caller = Callable[[str, Mapping[str, Any], Callable[[str], None]], Future[Mapping[str, Any]]]
"""Starts a call, given the server's own name for the tool, the input, and a function to report progress to."""


class AgreesToServer(Protocol):
    """The user's agreement to a server."""

    @property
    def question(self) -> str:
        """What the user must agree to before the server is used; empty if they did."""

    def grant(self) -> None:
        """Remember that the user agreed."""


class McpTool(Struct, eq=False):
    """One tool of a server."""

    name: str
    own_name: str
    """The server's own name for it."""
    description: str
    schema: Mapping[str, Any]
    concurrent: bool
    call: Caller
    kind: Literal[""] = ""
    identity: str = ""
    """A digest of all that the server says about it; what the user allows is the tool as it was."""

    approval: AgreesToServer | None = None
    """The user's agreement to its server; None if none is needed."""

    def permission_request(self, arguments: Input, context: Context) -> PermissionRequest:
        """Request permission for a ``call``, because only the server knows what the tool does."""
        unapproved = self.approval.question if self.approval is not None else ""
        return PermissionRequest(self.name, "call", identity=self.identity, server=unapproved)

    def permitted(self) -> None:
        """The user permitted a call, and so agreed to the server."""
        if self.approval is not None:
            self.approval.grant()

    def run(self, arguments: Input, context: Context) -> ToolOutput:
        """Call the tool and wait for its output; if the call is aborted, cancel it and raise `Aborted`."""
        future = self.call(self.own_name, arguments, context.progress)
        while not future.done():
            wait([future], _TICK)
            if context.abort.is_set() and not future.done():
                future.cancel()
                raise Aborted()
        return output_of(future.result())

    async def run_async(self, arguments: Input, context: Context) -> ToolOutput:
        """Call the tool asynchronously; cancelling this tells the server to stop."""
        future = asyncio.wrap_future(self.call(self.own_name, arguments, context.progress))
        try:
            return output_of(await future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # This task was not cancelled; the connection was closed.
            return failed("The MCP servers were closed while this was running.")


class ToolListing(Struct, frozen=True):
    """The usable tools of a server."""

    tools: tuple[McpTool, ...] = ()
    problems: tuple[str, ...] = ()
    """Which tools were left out, and why."""


def usable_tools(server: str, listed: Iterable[Any], call: Caller) -> ToolListing:
    """Return the usable tools among those that a server lists, sorted by name."""
    tools: dict[str, McpTool] = {}
    problems: list[str] = []
    room = MOST_BYTES
    for listed_tool in listed:
        own_name = str(listed_tool.get("name", "")) if isinstance(listed_tool, Mapping) else ""
        try:
            tool = _tool(server, own_name, listed_tool, call)
            room -= len(tool.description) + len(str(tool.schema))
            if tool.name in tools:
                raise InputError("another tool has the same name")
            if len(tools) == MOST_TOOLS or room < 0:
                raise InputError("the server lists too much")
        except InputError as error:
            problems.append(f"{own_name[:80]!r} is left out: {error}")
        else:
            tools[tool.name] = tool
    return ToolListing(tuple(tools[name] for name in sorted(tools)), tuple(problems))


def server_key(name: str) -> str:
    """Return a server's name as used in its tools' names: without ``__``, so that its end is unambiguous."""
    return _short(re.sub(r"_+", "_", _replaced(name)).strip("_") or "server", LONGEST_SERVER)


def tool_name(server: str, own_name: str) -> str:
    """Return the name by which the model calls a server's tool."""
    return _short(f"{PREFIX}{server_key(server)}__{_replaced(own_name)}", LONGEST_NAME)


def _short(name: str, limit: int) -> str:
    """Truncate a name that is too long, and add a hash to keep it unique."""
    if len(name) <= limit:
        return name
    return f"{name[: limit - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _tool(server: str, own_name: str, listed_tool: Any, call: Caller) -> McpTool:
    if not own_name.strip():
        raise InputError("it has no name")
    notes = listed_tool.get("annotations")
    only_reads = isinstance(notes, Mapping) and notes.get("readOnlyHint") is True
    name = tool_name(server, own_name)
    schema = input_schema(listed_tool.get("inputSchema"))
    description = _description(server, listed_tool.get("description"))
    return McpTool(name, own_name, description, schema, only_reads, call, identity=_identity(listed_tool))


def _identity(listed_tool: Mapping[str, Any]) -> str:
    """A digest of a tool as the server lists it, before anything is cut or cleaned; the order of keys is no change."""
    described = {
        key: listed_tool.get(key) for key in ("name", "title", "description", "inputSchema", "annotations")
    }
    text = json.dumps(described, sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _description(server: str, description_sent: Any) -> str:
    if not isinstance(description_sent, str) or not description_sent.strip():
        return f"A tool of the server {server}, which does not describe it."
    shown = _visible(description_sent.strip())
    cut_text = cut(shown, MOST_DESCRIPTION)
    if cut_text == shown:
        return shown
    return f"{cut_text}\n[cut: the server says more than {MOST_DESCRIPTION:,} bytes]"


def _visible(text: str) -> str:
    """Return the text without invisible characters, which could give a model instructions that no user would see."""
    return "".join(filter(_is_visible, text))


def _is_visible(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co")


def _replaced(name: str) -> str:
    return _NOT_ALLOWED.sub("_", name)


# -- schemas ---------------------------------------------------------------------------------------


def input_schema(listed_schema: Any) -> dict[str, Any]:
    """Return the cleaned schema of a tool's input; raises `InputError` if it cannot be used.

    One tool whose schema a provider rejects would make every request of a session fail, so only known keywords with
    values of the right type are kept. References are expanded. A regular expression is moved to the description,
    because running an untrusted one could take forever.
    """
    schema = _plain(listed_schema)
    cleaned = _Cleaner(schema).clean(schema)
    usable = {key: value for key, value in cleaned.items() if key not in _NOT_AT_THE_TOP}
    usable = {**usable, "type": "object", "properties": usable.get("properties", {})}
    if unfit := [name for name in usable["properties"] if not _PROPERTY.fullmatch(name)]:
        raise InputError(f"its property {unfit[0][:80]!r} has a name no model can fill")
    _plain(usable)
    return usable


def _plain(listed_schema: Any) -> dict[str, Any]:
    """Return the schema as plain JSON; raises `InputError` if it is not JSON, not an object, or too large."""
    try:
        raw = msgspec.json.encode(listed_schema)
        schema = msgspec.json.decode(raw)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"its schema cannot be written as JSON ({error})") from error
    if len(raw) > MOST_SCHEMA_BYTES:
        raise InputError(f"its schema has {len(raw):,} bytes; {MOST_SCHEMA_BYTES:,} are allowed")
    if not isinstance(schema, dict):
        raise InputError("its schema is not an object")
    return schema


class _Cleaner:
    """Cleans one schema and all schemas in it."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._definitions: dict[str, Any] = {}
        for definitions in (schema.get("$defs"), schema.get("definitions")):
            if isinstance(definitions, dict):
                self._definitions |= definitions
        self._schemas_left = MOST_PARTS

    def clean(self, schema: Any, enclosing: tuple[str, ...] = (), depth: int = 0) -> dict[str, Any]:
        """Return the cleaned schema; an invalid or self-referencing one becomes a schema that allows everything."""
        self._schemas_left -= 1
        if self._schemas_left < 0 or depth > DEEPEST:
            raise InputError("its schema has too many parts")
        if not isinstance(schema, dict):
            return {}
        cleaned_schema: dict[str, Any] = {}
        match = _REFERENCE.fullmatch(str(schema.get("$ref", "")))
        if match and match[1] in self._definitions and match[1] not in enclosing:
            cleaned_schema = self.clean(self._definitions[match[1]], (*enclosing, match[1]), depth + 1)
        for key, value in schema.items():
            cleaned = self._keyword(key, value, enclosing, depth + 1)
            if cleaned is not None:
                cleaned_schema[key] = cleaned
        if isinstance(pattern := schema.get("pattern"), str):
            cleaned_schema["description"] = (
                f"{cleaned_schema.get('description', '')} (must match {pattern})".strip()
            )
        return cleaned_schema

    def _keyword(self, key: str, value: Any, enclosing: tuple[str, ...], depth: int) -> Any:
        """Return the cleaned value of a keyword, or None to drop it."""
        match key, value:
            case "properties", dict():
                return {name: self.clean(inner, enclosing, depth) for name, inner in value.items()}
            case "items" | "additionalProperties", dict():
                return self.clean(value, enclosing, depth)
            case "anyOf" | "oneOf" | "allOf", [_, *_]:
                return [self.clean(inner, enclosing, depth) for inner in value]
            case _:
                return _simple(key, value)


def _simple(key: str, value: Any) -> Any:
    """Return the cleaned value of a keyword that contains no schemas, or None to drop it."""
    match key, value:
        case "type", str():
            return value if value in _TYPES else None
        case "type", list():
            return [item for item in _TYPES if item in value] or None
        case "required", list():
            return list(dict.fromkeys(item for item in value if isinstance(item, str))) or None
        case "enum", [_, *_]:
            return list({msgspec.json.encode(item): item for item in value}.values())
        case (
            ("description" | "format", str()) | ("additionalProperties", bool()) | ("default" | "const", _)
        ):
            return value
        case _, int() | float() if key in _NUMBERS and not isinstance(value, bool):
            return value
        case _, int() if key in _COUNTS and not isinstance(value, bool) and value >= 0:
            return value
        case _:
            return None


# -- results ---------------------------------------------------------------------------------------


def output_of(result: Any) -> ToolOutput:
    """Convert a result of the protocol to content for the model.

    The session limits text, and offloads what is too large; images are limited here.
    """
    if not isinstance(result, Mapping):
        return ToolOutput("The server returned an invalid answer.", is_error=True)
    content = result.get("content")
    blocks = _few_pictures([_block(part) for part in content] if isinstance(content, list) else [])
    structured = result.get("structuredContent")
    if not blocks and structured is not None:
        blocks = [_text(_json(structured))]
    failed = result.get("isError") is True
    if failed or all(block["type"] == "text" for block in blocks):
        # Providers accept only text in an error result.
        texts = (block["text"] if block["type"] == "text" else "[picture]" for block in blocks)
        return ToolOutput("\n".join(texts), is_error=failed)
    return ToolOutput(blocks)


def _block(part: Any) -> Block:
    match part:
        case {"type": "text", "text": str() as text}:
            return _text(text)
        case {"type": "image", "data": str() as data, "mimeType": str() as kind}:
            return _picture(data, kind)
        case {"type": "audio", "mimeType": str() as kind}:
            return _text(f"[sound, {kind}: it cannot be shown]")
        case {"type": "resource_link", "uri": str() as uri}:
            details = [part.get(key) for key in ("title", "name", "mimeType", "description")]
            texts = (detail for detail in details if isinstance(detail, str) and detail)
            description = ", ".join(dict.fromkeys(texts))
            return _text(f"[resource {uri}{': ' + description if description else ''}]")
        case {"type": "resource", "resource": Mapping() as resource}:
            return _resource(resource)
        case _:
            return _text("[a part of the answer of unknown kind]")


def _resource(resource: Mapping[str, Any]) -> Block:
    uri = resource.get("uri")
    kind = resource.get("mimeType")
    match resource:
        case {"text": str() as words}:
            return _text(f"[resource {uri}]\n{words}")
        case {"blob": str() as data} if kind in _PICTURES:
            return _picture(data, str(kind))
        case {"blob": str() as data}:
            return _text(
                f"[resource {uri}, {kind or 'of unknown kind'}, about {len(data) * 3 // 4:,} bytes]"
            )
        case _:
            return _text(f"[resource {uri} without content]")


def _picture(data: str, kind: str) -> Block:
    if kind not in _PICTURES:
        return _text(f"[picture, {kind[:80]}: only PNG, JPEG, GIF and WebP can be shown]")
    if len(data) > MOST_IMAGE_CHARACTERS:
        return _text(f"[picture of {len(data):,} characters; {MOST_IMAGE_CHARACTERS:,} can be shown]")
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return _text("[damaged picture]")
    if picture(raw) != kind:
        return _text(f"[picture that is not {kind}]")
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _few_pictures(blocks: list[Block]) -> list[Block]:
    """Return the blocks with images limited in number and size; further ones are replaced by a note."""
    shown = []
    count = 0
    size = 0
    for block in blocks:
        if block["type"] == "image":
            count = count + 1
            size = size + len(block["source"]["data"])
            if count > MOST_IMAGES or size > MOST_ALL_IMAGES:
                size -= len(block["source"]["data"])
                block = _text("[too many pictures; ask for fewer at a time]")
        shown.append(block)
    return shown


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return "[structured content that cannot be written as JSON]"


def _text(text: str) -> Block:
    """Return a text block without lone surrogates, which no request may contain."""
    return {"type": "text", "text": text.encode(errors="replace").decode()}
