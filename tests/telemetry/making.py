"""Events made by hand and by chance, of every kind there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_type_hints

from hypothesis import strategies as st

from sevenfold.events import (
    Acted,
    AgentChanged,
    Answered,
    CacheBroke,
    Checked,
    Compacted,
    Compacting,
    Dreaming,
    EpochOpened,
    Event,
    Failed,
    Masked,
    Proposed,
    Repaired,
    Sending,
    SteppedAside,
    Vetoed,
    Waiting,
)

MODEL = "claude-sonnet-5-5"
BEGAN = 1_700_000_000.0

SAMPLES: tuple[Event, ...] = (
    Proposed(layer="clear", mechanism="local", what="Clear 3 results", why="over the threshold", usd=0.01),
    Acted(
        layer="clear", mechanism="local", what="3 cleared", why="room", tokens_before=900, tokens_after=200
    ),
    Vetoed(layer="snip", mechanism="rounds", what="Snip 2 rounds", reason="not now"),
    SteppedAside(layer="compact", reason="no answer", error="Overloaded"),
    Checked(
        used=50_000,
        band=800,
        sent=50_500,
        threshold=160_000,
        effective=180_000,
        blocking=177_000,
        freed=0,
        wire=210_000,
        images=1,
        percent_left=68,
        verdict="fits",
        budget="tokens",
    ),
    Sending(request="r1", model=MODEL, provider="anthropic", epoch="e1", tokens=50_000, body_bytes=210_000),
    Answered(
        request="r1",
        model=MODEL,
        provider="anthropic",
        response="msg_1",
        stop_reason="end_turn",
        input_tokens=20,
        output_tokens=700,
        usd=0.06,
        seconds=4.5,
    ),
    Failed(request="r2", model=MODEL, provider="anthropic", error="Overloaded", reason="busy"),
    Waiting(attempt=2, of=40, status=529, until=BEGAN + 9, seconds=2.0, what="API overloaded (529)"),
    CacheBroke(cause="tool", part="tools[3]", tokens=9_000, usd=0.03, elapsed=12.0, expected=False),
    EpochOpened(reason="tools changed", epoch="e2", drops_thinking=True, usd=0.2),
    Compacting(stage="hooks_start", hook="PreCompact"),
    Compacted(
        boundary="b1", trigger="auto", engine="fork", left=("provider: none",), tokens_before=9, kept=2
    ),
    Dreaming(phase="prune", state="completed", stage="updating", turns=2, tool_uses=1, paths=("tabs.md",)),
    Repaired(what="an answer to no call left out", where="record 7"),
    Masked(kinds=("github",), count=2),
    AgentChanged(
        agent="agent-0123456789ab", name="reader", type="general", state="completed", usd=0.01, turns=3
    ),
)


def kinds(base: type[Event] = Event) -> Iterator[type[Event]]:
    """Every kind of event the engine defines, however deep; bases of several are none."""
    for kind in base.__subclasses__():
        if kind.__module__ == Event.__module__ and not kind.__subclasses__():
            yield kind
        yield from kinds(kind)


def stamped(event: Event, after: float = 0.0, /, **more: Any) -> Event:
    """The event as a session sends it, so many seconds after the beginning."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return type(event)(**{**fields, "session": "s1", "at": BEGAN + after, **more})


_FEW = {
    "session": st.sampled_from(["s1", "s2"]),
    "source": st.sampled_from(["main", "compact", "agent:reviewer"]),
    "request": st.sampled_from(["r1", "r2", "r3"]),
    "layer": st.sampled_from(["clear", "compact"]),
    "at": st.floats(BEGAN, BEGAN + 9) | st.floats(allow_nan=True),
}
_WORDS = st.text(st.characters(), max_size=8)
_COUNTS = st.integers(-(2**53), 2**53)
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: _WORDS,
    int: _COUNTS,
    float: st.floats(),
    bool: st.booleans(),
    float | None: st.none() | st.floats(),
    int | None: st.none() | _COUNTS,
    tuple[str, ...]: st.lists(_WORDS, max_size=3).map(tuple),
}


def any_event() -> st.SearchStrategy[Event]:
    """An event of any kind; ids come from few values, so that events meet."""
    return st.one_of([_any_of(kind) for kind in kinds()])


def _any_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    hints = get_type_hints(kind)
    fields = {
        name: _FEW[name] if name in _FEW else _BY_TYPE[hints[name]] for name in kind.__struct_fields__
    }
    return st.builds(kind, **fields)
