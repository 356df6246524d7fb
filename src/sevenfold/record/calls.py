"""Names of tool calls: one call, one name, in the whole of a transcript.

Everything that concerns a result goes by the name of its call: the pairing, the closure of a branch, offloaded files,
clearings, the register of files read, recall. Providers of hosted models make such names up so that no two are alike.
Smaller servers count (``call_0`` in every answer), or take the tool's name. Rather than teach each register to tell two
``call_0`` apart, the second is renamed before it is recorded. Only call and result have to agree on a name, so no
server minds; and as the name it came with can be read off the new one, a caller who knows only that is understood.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from sevenfold.record.blocks import Block
from sevenfold.record.log import Answer

_AGAIN = "-again-"
_RENAMED = re.compile(rf"(.+){_AGAIN}[0-9a-f]{{12}}", re.DOTALL)
_DRAWN = re.compile(r"(?=[0-9]*[A-Za-z])(?=[A-Za-z]*[0-9])[A-Za-z0-9]{8,}$")
_FIELDS = {"tool_use": "id", "tool_result": "tool_use_id"}


def drawn(name: str) -> bool:
    """Is the name one of those that are made up, and never twice, rather than counted or taken from the tool's?"""
    return _DRAWN.search(name) is not None


def given(name: str) -> str:
    """The name a call came with."""
    found = _RENAMED.fullmatch(name)
    return found[1] if found else name


def distinct(answer: Answer, taken: Callable[[str], bool], new_id: Callable[[], str]) -> Answer:
    """The answer, its calls renamed where their names are taken."""
    names: set[str] = set()
    said = []
    for block in answer.blocks:
        if block.kind == "tool_use":
            if block.id in names or taken(block.id):
                mark = hashlib.sha256(new_id().encode()).hexdigest()[:12]
                block = renamed(block, f"{block.id}{_AGAIN}{mark}")
            names.add(block.id)
        said.append(block)
    return replace(answer, blocks=tuple(said))


def matched(results: Iterable[Block], waiting: Iterable[str]) -> tuple[dict[str, Block], list[Block]]:
    """Results by the waiting call each belongs to, under its name on record, and those that belong to none.

    A result belongs to the waiting call of its name, or to the first one that came with it and has none yet.
    """
    names = dict.fromkeys(waiting)
    # Read only as far as a name must be looked for: thousands may wait, and be answered one by one.
    unread = iter(names)
    called: dict[str, deque[str]] = {}
    found: dict[str, Block] = {}
    others = []

    def find(name: str) -> str | None:
        """The first call of that name without a result, else the last one with it."""
        queue, last = called.setdefault(name, deque()), None
        while True:
            while queue and (last := queue[0]) in found:
                queue.popleft()
            if queue:
                return last
            if (call := next(unread, None)) is None:
                queue.extend([last] if last else [])
                return last
            for one in {call, given(call)}:
                called.setdefault(one, deque()).append(call)

    for block in results:
        call = block.id if block.id in names and block.id not in found else find(block.id)
        if call is None:
            others.append(block)
        else:
            found[call] = renamed(block, call)
    return found, others


def renamed(block: Block, name: str) -> Block:
    """A call, or a result, under another name; every other byte of its fields stays."""
    if block.id == name:
        return block
    fields = msgspec.json.decode(block.raw, type=dict[str, Raw])
    fields[_FIELDS[block.kind]] = Raw(msgspec.json.encode(name))
    return Block(block.kind, msgspec.json.encode(fields), name)
