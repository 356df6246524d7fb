"""The description of all requests, as OpenAPI."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from sevenfold import __version__
from sevenfold.doors.server import definition as bodies
from sevenfold.doors.server.definition import SESSION_NAME

ERRORS = {
    400: "the request cannot be read",
    401: "there is no token, or it is not good",
    402: "a budget is used up",
    403: "a page in a browser sent the request",
    404: "there is nothing of that name",
    405: "this address has no such method",
    408: "the body came too slowly",
    409: "that cannot be done now",
    413: "the body is too large",
    421: "the header Host does not name this server",
    422: "the body says something that is not accepted",
    429: "too much is under way; send it again after Retry-After",
    500: "the server failed",
    502: "the model's provider refused the request",
    503: "this server or its store takes nothing now; send it again after Retry-After",
    507: "the store is full",
}
"""What a status means; every one of these has the body of an error."""
_BODIES: tuple[type[Struct], ...] = (
    bodies.CreateBody,
    bodies.SayBody,
    bodies.ResultsBody,
    bodies.ContinueBody,
    bodies.InterruptBody,
    bodies.CompactBody,
    bodies.UndoBody,
)
_SCHEMAS = "#/components/schemas/"
_OPEN = ("/healthz", "/readyz", "/metrics", "/openapi.json")
_WORKS = "What the session is doing then; as a stream, if the header Accept asks for text/event-stream."


@cache
def document() -> dict[str, Any]:
    """The whole description."""
    _, components = msgspec.json.schema_components(_BODIES, ref_template=_SCHEMAS + "{name}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sevenfold",
            "version": __version__,
            "description": "Sessions with agents that work for hours or weeks in a bounded context window.",
        },
        "components": {
            "schemas": {**components, **_ANSWERS},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "parameters": _PARAMETERS,
            "responses": {
                "Problem": {
                    "description": "Why the request was not carried out, and what to do.",
                    "content": {"application/json": {"schema": {"$ref": f"{_SCHEMAS}Problem"}}},
                }
            },
        },
        "paths": {path: _of_session(path, operations) for path, operations in _paths().items()},
    }


def _of_session(path: str, operations: dict[str, Any]) -> dict[str, Any]:
    """The operations of a path, which may name a session."""
    if "{id}" not in path:
        return operations
    return {"parameters": [{"$ref": "#/components/parameters/SessionId"}], **operations}


def _paths() -> dict[str, Any]:
    session = "/v1/sessions/{id}"
    return {
        "/healthz": {"get": _operation("Whether the server is alive", _json("Alive"), open_=True)},
        "/readyz": {
            "get": _operation("Whether to send requests to this server", _json("Alive"), open_=True)
        },
        "/metrics": {"get": _operation("Metrics for Prometheus", _content("text/plain"), open_=True)},
        "/openapi.json": {"get": _operation("This description", _json("Anything"), open_=True)},
        "/v1/sessions": {
            "get": _operation(
                "The user's sessions, newest first", _json("Sessions"), query=("since", "limit")
            ),
            "post": _operation(
                "Make a session, or find that it is there",
                _json("Session"),
                body="CreateBody",
                status=(200, 201),
            ),
        },
        session: {
            "get": _operation("What a session is made of and what it is doing", _json("Session")),
            "delete": _operation("Remove a session for good", None, status=(204,)),
        },
        f"{session}/say": {"post": _work("Say something, and let the agent work", "SayBody")},
        f"{session}/results": {
            "post": _work("Bring results of calls that the run waits for", "ResultsBody")
        },
        f"{session}/continue": {"post": _work("Go on with a run that ended too early", "ContinueBody")},
        f"{session}/interrupt": {
            "post": _operation("Stop the run", _json("Interrupted"), body="InterruptBody")
        },
        **_session_reading(session),
        "/v1/memory": {"get": _operation("What is remembered of the user", _json("MemoryList"))},
        "/v1/memory/{name}": {
            "get": _operation("A part of what is remembered", _content("text/markdown"), path="MemoryName"),
            "delete": _operation(
                "Remove a part of what is remembered", None, status=(204,), path="MemoryName"
            ),
        },
        "/v1/usage": {"get": _operation("What was spent of the budgets", _json("Usage"))},
    }


def _session_reading(session: str) -> dict[str, Any]:
    """The requests that look at a session, or change what is in its context."""
    return {
        f"{session}/compact": {
            "post": _operation("Summarise the conversation", _json("Compacted"), body="CompactBody")
        },
        f"{session}/undo": {
            "post": _operation("Undo a decision of the layers", _json("Undone"), body="UndoBody")
        },
        f"{session}/events": {
            "get": _operation(
                "What happened and happens, as a stream",
                _STREAM,
                query=("after", "until"),
                headers=("LastEventId",),
            )
        },
        f"{session}/recall": {
            "get": _operation("Search everything that was said", _json("Hits"), query=("query", "most"))
        },
        f"{session}/export": {
            "get": _operation("The whole log, line by line", _content("application/jsonl"))
        },
    }


def _work(summary: str, body: str) -> dict[str, Any]:
    content = {**_json("Work"), **_STREAM}
    return _operation(summary, content, body=body, status=(200, 202), description=_WORKS)


def _operation(
    summary: str,
    content: dict[str, Any] | None,
    *,
    body: str = "",
    status: tuple[int, ...] = (200,),
    query: tuple[str, ...] = (),
    headers: tuple[str, ...] = (),
    path: str = "",
    open_: bool = False,
    description: str = "",
) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": description or summary}
    if content is not None:
        answer["content"] = content
    responses: dict[str, Any] = {str(code): answer for code in status}
    responses |= {str(code): {"$ref": "#/components/responses/Problem"} for code in ERRORS}
    operation: dict[str, Any] = {"summary": summary, "responses": responses, "security": []}
    named = [*query, *headers, *([path] if path else []), *([] if open_ else ["User"])]
    operation["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in named]
    if not open_:
        operation["security"] = [{"token": []}]
    if body:
        operation["requestBody"] = {
            "required": body in ("SayBody", "ResultsBody"),
            "content": {"application/json": {"schema": {"$ref": f"{_SCHEMAS}{body}"}}},
        }
    return operation


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"{_SCHEMAS}{name}"}}}


def _content(kind: str) -> dict[str, Any]:
    return {kind: {"schema": {"type": "string"}}}


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required or properties)}


_STREAM = {"text/event-stream": {"schema": {"$ref": f"{_SCHEMAS}Event"}}}
_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_WHOLE = {"type": "integer"}
_FLAG = {"type": "boolean"}
_MAYBE_NUMBER = {"type": ["number", "null"]}
_STATUS = {"type": "string", "enum": ["idle", "working", "input_required", "unfinished"]}
_CALLS = {"type": "array", "items": {"$ref": f"{_SCHEMAS}WaitingCall"}}


def _list(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


_ANSWERS: dict[str, Any] = {
    "Anything": {"type": "object"},
    "Alive": _object(status=_TEXT),
    "Event": _object(
        ("event", "data"),
        id={"type": "string", "description": "Sent back, it says where the stream goes on."},
        event=_TEXT,
        data={"type": "string", "description": "JSON."},
    ),
    "Problem": _object(error=_object(type=_TEXT, message=_TEXT)),
    "WaitingCall": _object(id=_TEXT, name=_TEXT, input={}),
    "RunEnd": _object(
        ("end",),
        end={
            "type": "string",
            "enum": [
                "done",
                "interrupted",
                "input_required",
                "max_turns",
                "budget",
                "refused",
                "blocked",
                "cut",
                "failed",
            ],
        },
        text=_TEXT,
        turns=_WHOLE,
        usd=_MAYBE_NUMBER,
        detail=_TEXT,
        error={**_object(type=_TEXT, message=_TEXT), "type": ["object", "null"]},
        waiting=_CALLS,
    ),
    "Work": _object(
        ("id", "status", "waiting", "after"),
        id=_TEXT,
        status=_STATUS,
        waiting=_CALLS,
        after={"type": "string", "description": "The event behind which those of this request begin."},
        key=_TEXT,
        run={"$ref": f"{_SCHEMAS}RunEnd"},
    ),
    "Session": _object(
        ("id", "model", "status", "waiting"),
        id=_TEXT,
        model=_TEXT,
        status=_STATUS,
        waiting=_CALLS,
        last_run={"$ref": f"{_SCHEMAS}RunEnd"},
        gauge=_object(
            tokens=_WHOLE, context=_WHOLE, percent_left=_WHOLE, requests=_WHOLE, usd=_MAYBE_NUMBER
        ),
    ),
    "Sessions": _object(sessions=_list(_object(id=_TEXT, modified=_NUMBER, bytes=_WHOLE))),
    "Interrupted": _object(id=_TEXT, interrupted=_FLAG, status=_STATUS, waiting=_CALLS),
    "Compacted": _object(
        made=_FLAG, reason=_TEXT, ways=_list(_TEXT), tokens_before=_WHOLE, tokens_after=_WHOLE
    ),
    "Undone": _object(undone=_TEXT),
    "Hits": _object(
        hits=_list(_object(id=_TEXT, kind=_TEXT, tool=_TEXT, at=_TEXT, excerpt=_TEXT, exact=_FLAG))
    ),
    "MemoryList": _object(memory=_list(_TEXT)),
    "Usage": _object(
        usage=_list(
            _object(
                of={"type": "string", "enum": ["tenant", "user"]},
                spent_usd=_NUMBER,
                reserved_usd=_NUMBER,
                budget_usd=_MAYBE_NUMBER,
                per={"type": ["string", "null"]},
            )
        )
    ),
}


def _parameter(
    name: str, location: str, about: str, schema: dict[str, Any], *, required: bool = False
) -> dict[str, Any]:
    return {"name": name, "in": location, "description": about, "schema": schema, "required": required}


_EVENT_ID = {"type": "string", "pattern": r"^\d{1,18}(:\d{1,6})?(~[0-9a-f]{16}\.\d{1,15})?$"}
_PARAMETERS: dict[str, Any] = {
    "User": _parameter(
        "Sevenfold-User",
        "header",
        "The tenant's own name for its user, percent-encoded; sessions, memory and budgets are this user's.",
        {"type": "string", "maxLength": 200},
    ),
    "LastEventId": _parameter("Last-Event-ID", "header", "The newest event that was received.", _EVENT_ID),
    "after": _parameter("after", "query", "The same, for programs that cannot set the header.", _EVENT_ID),
    "until": _parameter(
        "until",
        "query",
        "idle: end the stream when the session works no more.",
        {"type": "string", "enum": ["idle"]},
    ),
    "since": _parameter(
        "since", "query", "Seconds since 1970.", {"type": "integer", "minimum": 0, "maximum": 10**12}
    ),
    "limit": _parameter("limit", "query", "How many.", {"type": "integer", "minimum": 0, "maximum": 1_000}),
    "query": _parameter(
        "query", "query", "What to look for.", {"type": "string", "minLength": 1}, required=True
    ),
    "most": _parameter("most", "query", "How many.", {"type": "integer", "minimum": 0, "maximum": 100}),
    "MemoryName": _parameter("name", "path", "As listed by /v1/memory.", {"type": "string"}, required=True),
    "SessionId": _parameter(
        "id", "path", "The session.", {"type": "string", "pattern": SESSION_NAME}, required=True
    ),
}
