"""Where the work stands: how the model closed its turns, and the newest rounds line by line."""

from __future__ import annotations

from collections.abc import Sequence

from sevenfold.layers.compact.extract.calls import Call
from sevenfold.layers.compact.extract.facts import Quote
from sevenfold.layers.compact.extract.words import users_words
from sevenfold.layers.compact.extract.work import bare_command, one_line, telling_lines
from sevenfold.record import blocks
from sevenfold.record.layout import Item, rounds

_ROUNDS = 10
_LONGEST_OUTCOME = 700
_LONGEST_LAST_WORDS = 2_000
_LONGEST_WORDS = 300
_LONGEST_CALL = 160


def models_words(item: Item) -> str:
    """What the model said in this record, reasoning aside."""
    if item.said.role != "assistant" or item.said.synthetic or item.hidden_by:
        return ""
    texts = (blocks.words_of(block).strip() for block in item.said.blocks if block.kind == "text")
    return "\n".join(filter(None, texts))


def outcomes(items: Sequence[Item]) -> list[Quote]:
    """The last words of the model before the user spoke again, for each time that happened."""
    found: list[Quote] = []
    last: Quote | None = None
    for item in items:
        if words := models_words(item):
            last = Quote(one_line(words, _LONGEST_OUTCOME), item.said.uuid)
        elif last and users_words(item):
            found.append(last)
            last = None
    return [*found, last] if last else found


def last_words(items: Sequence[Item]) -> list[Quote]:
    """What the model said in its newest answer: what it announced before that, it has begun since."""
    answer = rounds(items)[-1].answer if items else ()
    return [Quote(words, item.said.uuid) for item in answer if (words := models_words(item))]


def newest(items: Sequence[Item], made: Sequence[Call], names: dict[str, str]) -> list[str]:
    """What happened in the newest rounds, oldest first; the very last words at length."""
    by_record: dict[str, list[Call]] = {}
    for call in made:
        by_record.setdefault(call.record, []).append(call)
    recent = [item for late in rounds(items)[-_ROUNDS:] for item in late.items if not item.hidden_by]
    spoken = [item.said.uuid for item in recent if models_words(item)]
    lines: list[str] = []
    for item in recent:
        name = names.get(item.said.uuid, item.said.uuid)
        if words := models_words(item):
            most = _LONGEST_LAST_WORDS if item.said.uuid == spoken[-1] else _LONGEST_WORDS
            lines.append(f"- the model said: “{one_line(words, most)}” [{name}]")
        elif words := users_words(item):
            lines.append(f"- the user said: “{one_line(words, _LONGEST_WORDS)}” [{name}]")
        lines += [f"- {_came_of(call)} [{name}]" for call in by_record.get(item.said.uuid, ())]
    return lines


def _came_of(call: Call) -> str:
    did = f"{call.name} {one_line(_about(call), _LONGEST_CALL)}".strip()
    if call.result is None:
        return f"{did} → no result yet"
    if call.failed:
        return f"{did} → failed: {telling_lines(call.result)}"
    end = next((line.strip() for line in reversed(call.result[-2_000:].splitlines()) if line.strip()), "")
    shows = call.kind == "shell" or call.kind is None
    return f"{did} → ok, ends: {one_line(end, 120)}" if shows and end else f"{did} → ok"


def _about(call: Call) -> str:
    """A command without its wrapping, a path without the folders far above it: both are listed in full."""
    if call.command:
        return bare_command(call.command)
    near = [path.replace("\\", "/").split("/")[-3:] for path in call.paths]
    return ", ".join("/".join(parts) for parts in near) or call.about
