"""Records of every kind a query asks for, in any number and order."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sevenfold.record.decisions import Commit, Epoch, OwnDecision, Pin, Request, Undone
from sevenfold.record.log import decided
from sevenfold.testing.logs import NAMES, RESULT_PATH, json_line, message

USER = st.just("user")


def records() -> SearchStrategy[bytes]:
    """One line."""
    name = st.sampled_from(NAMES)
    decisions: list[SearchStrategy[OwnDecision]] = [
        st.builds(Epoch, id=name, reason=st.just("start"), model=name),
        st.builds(Request, id=name, epoch=name, tip=name),
        st.builds(Pin, id=name, record=name),
        st.builds(Undone, id=name, decision=name),
        st.builds(Commit, id=name, boundary=name),
    ]
    stored = {"path": RESULT_PATH, "size": 1, "sha256": ""}
    results = name.map(lambda call: {call: stored})
    return st.one_of(
        st.builds(message, name, name, st.sampled_from(["user", "assistant"]), name),
        st.builds(message, name, name, st.just("assistant"), name, what=st.just("call")),
        st.builds(message, name, name, USER, name, what=st.just("result")),
        st.builds(message, name, name, USER, name, sevenfold_key=name),
        st.builds(message, name, name, USER, name, what=st.just("result"), sevenfold_results=results),
        st.builds(message, name, name, USER, name, sessionId=name, cwd=st.sampled_from(["", "/w"])),
        name.map(lambda uuid: json_line(type="system", subtype="compact_boundary", uuid=uuid)),
        name.map(lambda uuid: json_line(type="system", subtype="microcompact_boundary", uuid=uuid)),
        st.one_of(decisions).map(lambda decision: decided(decision).line),
        st.sampled_from([b"\n", b"damaged\n", b'{"type":"user"\n', b'"a1"\n']),
    )
