"""What the plugin for Hermes asks of us, answered by a process of its own: questions and answers are lines of JSON.

Hermes pins the packages of its environment, so the plugin in it has no package but Python's own, and starts this
process with the Python that `sevenfold` was installed for. Hermes keeps the list of messages; a session follows it,
compacts it when Hermes asks for that, and finds again what has left it.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

from sevenfold.doors.mcp_server.answers import MOST_HITS, Found, RecallQuestion, recall
from sevenfold.doors.mcp_server.sessions import SessionShelf
from sevenfold.doors.plugins import folder
from sevenfold.errors import InputError, UserError
from sevenfold.ports import Client
from sevenfold.providers.anthropic import AnthropicClient
from sevenfold.providers.http_client import HttpClient
from sevenfold.providers.openai.client import OpenAIClient
from sevenfold.session.session import Session

MOST_OPEN = 16
"""Sessions that are kept open; the one used longest ago is closed to make room."""
MOST_BROUGHT_BACK = 3
"""Records of earlier sessions that are shown before a message."""
MOST_CHARACTERS = 500
"""Of each of them."""
_ALIASES = "hermes"
"""The kind of the files that say under which name a conversation is recorded whose id Hermes has changed."""

Message = Mapping[str, Any]


class HermesQuestion(Struct, frozen=True, kw_only=True):
    """A line from the plugin."""

    do: str
    session: str = ""
    messages: list[dict[str, Any]] = []
    model: str = ""
    window: int = 0
    address: str = ""
    key: str = ""
    api: str = ""
    """What Hermes calls the mode of the API."""
    query: str = ""
    instructions: str = ""
    before: str = ""
    """The id that the conversation had until now."""


class HermesAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The line in answer."""

    error: str = ""
    messages: list[dict[str, Any]] = []
    text: str = ""


class HermesEndpoint(Struct, frozen=True):
    """The model that Hermes asks, and where; empty where it is not known yet."""

    model: str
    window: int
    address: str
    key: str
    api: str


class _OpenSession(NamedTuple):
    endpoint: HermesEndpoint
    session: Session


class HermesDesk:
    """Answers the questions of one Hermes."""

    def __init__(self, project: Path | None = None) -> None:
        self._project = project or Path.cwd()
        self._shelf = SessionShelf(self._project, lambda: None)
        self._open: OrderedDict[str, _OpenSession] = OrderedDict()
        self._answers: Mapping[str, Callable[[HermesQuestion], HermesAnswer]] = {
            "compact": self._compact,
            "record": self._record,
            "rename": self._rename,
            "recall": self._recall,
            "remind": self._remind,
            "end": self._end,
        }

    def answer(self, question: HermesQuestion) -> HermesAnswer:
        """The answer to a question; whatever goes wrong is in it."""
        act = self._answers.get(question.do)
        if act is None:
            return HermesAnswer(error=f"nothing is known under the name {question.do!r}")
        try:
            return act(question)
        except (UserError, OSError) as error:
            return HermesAnswer(error=str(error))

    def close(self) -> None:
        """Close all sessions."""
        while self._open:
            self._open.popitem()[1].session.close()
        self._shelf.close()

    def _compact(self, question: HermesQuestion) -> HermesAnswer:
        # A request ends in something to answer; what the model said last stays behind the summary as it is.
        listed = list(question.messages)
        last_answers: list[dict[str, Any]] = []
        while listed and listed[-1].get("role") == "assistant" and not listed[-1].get("tool_calls"):
            last_answers.insert(0, listed.pop())
        system = [message for message in listed if message.get("role") == "system"]
        if not any(message.get("role") == "assistant" for message in listed):
            raise InputError("there is nothing to summarise yet")
        session = self._followed(question, listed)
        if session.compact(question.instructions) is None:
            raise InputError("a hook refused the compaction")
        shown = [dict(message) for message in session.prepare()["messages"]]
        theirs = _with_their_own([message for message in shown if message.get("role") != "system"], listed)
        return HermesAnswer(messages=[*system, *theirs, *last_answers])

    def _record(self, question: HermesQuestion) -> HermesAnswer:
        self._followed(question, question.messages)
        return HermesAnswer()

    def _rename(self, question: HermesQuestion) -> HermesAnswer:
        """Hermes gave the conversation another id, as it does at each compaction: the same session continues."""
        name = _name_of(question.before)
        if question.session != question.before:
            folder.write(folder.file_for(_ALIASES, question.session), {"session": name})
        return HermesAnswer()

    def _recall(self, question: HermesQuestion) -> HermesAnswer:
        opened = self._open.get(_name_of(question.session))
        if opened is None:
            return HermesAnswer(text="\n".join(self._in_other_sessions(question, lambda hit: True)))
        hits = opened.session.recall(question.query)
        lines = [f"[{hit.uuid}] {hit.timestamp} {hit.kind}: {hit.excerpt}" for hit in hits]
        return HermesAnswer(text="\n\n".join(lines) or "Nothing like it was said in this conversation.")

    def _remind(self, question: HermesQuestion) -> HermesAnswer:
        # Hermes tells the model to take it as authoritative, so nothing that a tool returned may be in it.
        lines = self._in_other_sessions(question, lambda hit: hit.kind == "user" and not hit.weak)
        return HermesAnswer(text="\n".join(lines))

    def _in_other_sessions(self, question: HermesQuestion, fits: Callable[[Found], bool]) -> list[str]:
        wanted = RecallQuestion(query=question.query[:2_000], scope="project", limit=MOST_HITS)
        own = _name_of(question.session)
        others = [hit for hit in recall(self._shelf, wanted).found if hit.session != own and fits(hit)]
        return [
            f"[{hit.session}, {hit.when}] {hit.text[:MOST_CHARACTERS]}"
            for hit in others[:MOST_BROUGHT_BACK]
        ]

    def _end(self, question: HermesQuestion) -> HermesAnswer:
        opened = self._open.pop(_name_of(question.session), None)
        if opened is not None:
            opened.session.close()
        return HermesAnswer()

    def _followed(self, question: HermesQuestion, messages: Sequence[Message]) -> Session:
        """The session of the conversation, with everything in it that Hermes has."""
        name = _name_of(question.session)
        endpoint = HermesEndpoint(
            question.model, question.window, question.address, question.key, question.api
        )
        opened = self._open.pop(name, None)
        # What only records a turn does not say which model is asked.
        if opened is not None and endpoint.model and opened.endpoint != endpoint:
            opened.session.close()
            opened = None
        if opened is None:
            opened = _OpenSession(endpoint, _opened(name, endpoint, self._project))
        self._open[name] = opened
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)[1].session.close()
        session = opened.session
        # The system prompt is Hermes' own, in front of whatever we return.
        said = [_for_the_record(message) for message in messages if message.get("role") != "system"]
        session.sync(said)
        return session


def _opened(name: str, endpoint: HermesEndpoint, project: Path) -> Session:
    settings: dict[str, object] = {"notes": False}
    if endpoint.window:
        settings["context_window"] = endpoint.window
    client = _client(endpoint)
    model = endpoint.model or "unknown"
    if client is None:
        return Session.open(name, model=model, wire="chat", folder=project, settings=settings)
    return Session.open(name, model=model, wire="chat", folder=project, settings=settings, client=client)


def _client(endpoint: HermesEndpoint) -> Client | None:
    """A client with Hermes' address and credential; None if code has to write the summaries."""
    if not endpoint.address:
        return None
    with suppress(ImportError):
        bearer = {"authorization": f"Bearer {endpoint.key}"}
        if endpoint.api == "anthropic_messages":
            return AnthropicClient(HttpClient(endpoint.address, {"x-api-key": endpoint.key}))
        if endpoint.api == "chat_completions":
            return OpenAIClient(HttpClient(endpoint.address, bearer), api="chat")
        if endpoint.api == "codex_responses":
            return OpenAIClient(HttpClient(endpoint.address, bearer), api="responses")
    return None


def _name_of(session: str) -> str:
    """The name of the session in which a conversation of Hermes is recorded."""
    recorded = folder.read(folder.file_for(_ALIASES, session)).get("session")
    return recorded if isinstance(recorded, str) else f"hermes-{session or 'conversation'}"


def _for_the_record(message: Message) -> dict[str, Any]:
    """What of a message belongs to the conversation; Hermes notes more in it, such as times and reasons to stop."""
    fields = ("role", "content", "tool_calls", "tool_call_id")
    return {name: message[name] for name in fields if message.get(name) is not None}


def _with_their_own(
    shown: Sequence[dict[str, Any]], listed: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The messages to go on with: behind the summary Hermes' own, with all that it notes in them."""
    theirs: list[dict[str, Any]] = []
    own = [message for message in listed if message.get("role") != "system"]
    pairs = zip(reversed(shown), reversed(own), strict=False)
    for message, original in pairs:
        if _essence(message) != _essence(original):
            break
        theirs.insert(0, original)
    return [*shown[: len(shown) - len(theirs)], *theirs]


def _essence(message: Message) -> tuple[object, ...]:
    calls = [
        (call.get("id"), call.get("function", {}).get("name")) for call in message.get("tool_calls") or ()
    ]
    return message.get("role"), message.get("content") or "", message.get("tool_call_id"), calls


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer line by line until the questions end."""
    desk = HermesDesk()
    decoder = msgspec.json.Decoder(HermesQuestion)
    try:
        for line in questions:
            try:
                answer = desk.answer(decoder.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                answer = HermesAnswer(error=f"the question cannot be read: {error}")
            answers.write(msgspec.json.encode(answer) + b"\n")
            answers.flush()
    finally:
        desk.close()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
