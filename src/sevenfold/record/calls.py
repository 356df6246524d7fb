"""Ids of tool calls: one call, one id, unique in a whole transcript.

Everything about a result uses the id of its call: pairing, the closure of a branch, offloaded files, clearings, the
list of files read, recall. Providers of hosted models generate random, unique ids. Smaller servers use a counter
(``call_0`` in every answer) or the tool's name. Instead of making every part handle two ``call_0``, the second one is
renamed before it is recorded. Servers only require that call and result have the same id, so they accept the new one.
It contains the original id, so results from a caller who knows only that one can still be matched.
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
_UNNAMED = "call"
"""The name of a call that its server gave none."""
_RENAMED = re.compile(rf"(.+){_AGAIN}[0-9a-f]{{12}}", re.DOTALL)
_RANDOM = re.compile(r"(?=[0-9]*[A-Za-z])(?=[A-Za-z]*[0-9])[A-Za-z0-9]{8,}$")
_FIELDS = {"tool_use": "id", "tool_result": "tool_use_id"}


def is_random_id(name: str) -> bool:
    """Whether an id is random and thus unique, rather than a counter or the tool's name."""
    return _RANDOM.search(name) is not None


def original_id(name: str) -> str:
    """The original id of a call, from the server."""
    renaming = _RENAMED.fullmatch(name)
    return renaming[1] if renaming else name


def distinct(answer: Answer, is_taken: Callable[[str], bool], new_id: Callable[[], str]) -> Answer:
    """The answer, with new ids for calls whose ids are already taken."""
    names: set[str] = set()
    blocks = []
    for block in answer.blocks:
        if block.kind == "tool_use":
            if not block.id or block.id in names or is_taken(block.id):
                mark = hashlib.sha256(new_id().encode()).hexdigest()[:12]
                block = renamed(block, f"{block.id or _UNNAMED}{_AGAIN}{mark}")
            names.add(block.id)
        blocks.append(block)
    return replace(answer, blocks=tuple(blocks))


def matched(results: Iterable[Block], waiting: Iterable[str]) -> tuple[dict[str, Block], list[Block]]:
    """Results by the waiting call each belongs to, with the recorded id; and those that belong to none.

    A result belongs to the waiting call with its id, or else to the first with that original id and no result yet.
    """
    names = dict.fromkeys(waiting)
    # Read only as far as needed: thousands of calls may wait, and be answered one by one.
    unread = iter(names)
    called: dict[str, deque[str]] = {}
    results_by_call: dict[str, Block] = {}
    unmatched = []

    def find(name: str) -> str | None:
        """The first call with that id and no result yet, else the last call with that id."""
        queue = called.setdefault(name, deque())
        last = None
        while True:
            while queue and (last := queue[0]) in results_by_call:
                queue.popleft()
            if queue:
                return last
            if (call := next(unread, None)) is None:
                queue.extend([last] if last else [])
                return last
            for alias in {call, original_id(call)}:
                called.setdefault(alias, deque()).append(call)

    for block in results:
        call = block.id if block.id in names and block.id not in results_by_call else find(block.id)
        if call is None:
            unmatched.append(block)
        else:
            results_by_call[call] = renamed(block, call)
    return results_by_call, unmatched


def renamed(block: Block, name: str) -> Block:
    """A tool call or result with another id; every other byte of its fields stays."""
    if block.id == name:
        return block
    fields = msgspec.json.decode(block.raw, type=dict[str, Raw])
    fields[_FIELDS[block.kind]] = Raw(msgspec.json.encode(name))
    return Block(block.kind, msgspec.json.encode(fields), name)
