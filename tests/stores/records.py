"""Records of every kind a query asks for, and what each query should find among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sevenfold.ports import Log, LogIdentity
from sevenfold.record import entries
from sevenfold.record.decisions import Commit, Epoch, OwnDecision, Pin, Request, Undone
from sevenfold.record.entries import Boundary, Clearing, Decision, Entry, Said
from sevenfold.record.log import decided

NAMES = ["a1", 'b"2', "c\\3", "dé4"]
"""Few, so that records name one another; with what JSON escapes."""
KINDS: list[type[OwnDecision]] = [Epoch, Request, Pin, Undone]


def line(**fields: Any) -> bytes:
    return msgspec.json.encode(fields) + b"\n"


def said(uuid: str, parent: str, role: str, name: str, **more: Any) -> bytes:
    content = {
        "text": [{"type": "text", "text": f"about {name}"}],
        "call": [{"type": "tool_use", "id": name, "name": "Read", "input": {}}],
        "result": [{"type": "tool_result", "tool_use_id": name, "content": "ok"}],
    }[more.pop("what", "text")]
    message = {"role": role, "model": "m", "content": content}
    return line(type=role, uuid=uuid, parentUuid=parent, message=message, **more)


def records() -> SearchStrategy[bytes]:
    """One line."""
    name = st.sampled_from(NAMES)
    made: list[SearchStrategy[OwnDecision]] = [
        st.builds(Epoch, id=name, reason=st.just("start"), model=name),
        st.builds(Request, id=name, epoch=name, tip=name),
        st.builds(Pin, id=name, record=name),
        st.builds(Undone, id=name, decision=name),
        st.builds(Commit, id=name, boundary=name),
    ]
    place = {"path": "results/1.txt", "size": 1, "sha256": ""}
    return st.one_of(
        st.builds(said, name, name, st.sampled_from(["user", "assistant"]), name),
        st.builds(said, name, name, st.just("assistant"), name, what=st.just("call")),
        st.builds(said, name, name, st.just("user"), name, what=st.just("result")),
        st.builds(said, name, name, st.just("user"), name, sevenfold_key=name),
        st.builds(
            said,
            name,
            name,
            st.just("user"),
            name,
            what=st.just("result"),
            sevenfold_results=name.map(lambda call: {call: place}),
        ),
        st.builds(said, name, name, st.just("user"), name, sessionId=name, cwd=st.sampled_from(["", "/w"])),
        name.map(lambda uuid: line(type="system", subtype="compact_boundary", uuid=uuid)),
        name.map(lambda uuid: line(type="system", subtype="microcompact_boundary", uuid=uuid)),
        st.one_of(made).map(lambda one: decided(one).line),
        st.sampled_from([b"\n", b"damaged\n", b'{"type":"user"\n', b'"a1"\n']),
    )


class Model:
    """What a log should answer, by looking at every record."""

    def __init__(self, lines: Sequence[tuple[int, bytes]]) -> None:
        self.lines = list(reversed(lines))
        self.found = [(position, entries.read(raw)) for position, raw in self.lines]

    def agrees(self, log: Log) -> None:
        """Raise unless the log answers every query as it should."""
        cuts = [None, *(position for position, _ in self.found)]
        for before in cuts:
            known = [one for one in self.found if before is None or one[0] < before]
            assert list(log.boundaries(before)) == [one for one in known if isinstance(one[1], Boundary)]
            for name in NAMES:
                assert log.record(name, before) == next(
                    (one for one in known if _uuid(one[1]) == name), None
                )
        for kind in KINDS:
            assert list(log.decisions(kind)) == self._decisions(kind)
        assert list(log.answers()) == [one for one in self._said() if one.role == "assistant"]
        assert list(log.said()) == self._said()
        for name in NAMES:
            self._agrees_on(log, name)
        assert log.stored("results/1.txt") == next((place for place in self._stored(None)), None)
        assert log.identity() == self._identity()
        assert list(log.head(3)) == [raw for _, raw in reversed(self.lines)][:3]

    def _agrees_on(self, log: Log, name: str) -> None:
        said = self._said()
        assert log.keyed(name) == next((one.uuid for one in said if one.key == name), "")
        result = log.result(name)
        answering = [one for one in said if name in one.answers]
        assert (result in answering[0].blocks) if answering else result is None
        assert log.called(name) == any(name in one.calls for one in said)
        assert log.stored(name) == next((place for place in self._stored(name)), None)
        decided = (position for position, entry in self.found if name in _decides(entry))
        assert log.decided_at(name) == next(decided, None)
        mentioning = [
            raw for _, raw in self.lines if json.dumps(name, ensure_ascii=False)[1:-1].encode() in raw
        ]
        assert log.mentions(name) == any(isinstance(entries.read(raw), Said) for raw in mentioning)

    def _said(self) -> list[Said]:
        return [entry for _, entry in self.found if isinstance(entry, Said)]

    def _decisions(self, kind: type[OwnDecision]) -> list[tuple[int, OwnDecision]]:
        decisions = [
            (position, entry.made) for position, entry in self.found if isinstance(entry, Decision)
        ]
        return [one for one in decisions if isinstance(one[1], kind)]

    def _stored(self, call: str | None) -> list[object]:
        return [
            place
            for one in self._said()
            for name, place in one.stored.items()
            if call is None or name == call
        ]

    def _identity(self) -> LogIdentity:
        for _, raw in self.lines:
            try:
                fields = json.loads(raw)
            except ValueError:
                continue
            if isinstance(fields, dict) and fields.get("sessionId") and fields.get("cwd"):
                return LogIdentity(fields["sessionId"], fields["cwd"])
        return LogIdentity()


def _uuid(entry: Entry) -> str | None:
    return getattr(entry, "uuid", None)


def _decides(entry: Entry) -> set[str]:
    match entry:
        case Boundary(uuid=name) | Clearing(uuid=name):
            return {name}
        case Decision(made=Commit(id=name, boundary=other)):
            return {name, other}
        case Decision(made=Undone(id=name, decision=other)):
            return {name, other}
        case Decision(made=made):
            return {made.id}
        case _:
            return set()
