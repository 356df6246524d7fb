"""What changed in a text, as a unified diff whose cost follows the change and not the file."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from io import StringIO

from msgspec import Struct

CONTEXT = 3
MOST_LINES = 400
"""Lines of a diff that are kept; the counts are always whole."""
_MOST_COMPARED = 1_000_000
_LONGEST_LINE = 500


class Diff(Struct, frozen=True):
    """A change."""

    text: str
    added: int
    removed: int


def diff(before: str, after: str, path: str) -> Diff:
    """The change from one text to another."""
    old, new = list(StringIO(before, "\n")), list(StringIO(after, "\n"))
    lines, added, removed = [f"--- {path}", f"+++ {path}"], 0, 0
    for group in _groups(old, new):
        first, last = group[0], group[-1]
        lines.append(f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                lines += [_line(" ", line) for line in old[old_start:old_end]]
            else:
                lines += [_line("-", line) for line in old[old_start:old_end]]
                lines += [_line("+", line) for line in new[new_start:new_end]]
                removed += old_end - old_start
                added += new_end - new_start
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"… {len(lines) - MOST_LINES:,} more lines"]
    return Diff("\n".join(lines), added, removed)


Step = tuple[str, int, int, int, int]


def _groups(old: Sequence[str], new: Sequence[str]) -> list[list[Step]]:
    """Stretches of change with some lines around them, by their places in the whole texts."""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    changed_old, changed_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not changed_old and not changed_new:
        return []
    steps: list[Step] = [("equal", 0, head, 0, head)]
    if len(changed_old) * len(changed_new) > _MOST_COMPARED:
        steps.append(("replace", head, head + len(changed_old), head, head + len(changed_new)))
    else:
        matcher = SequenceMatcher(None, changed_old, changed_new, autojunk=False)
        steps += [
            (tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes()
        ]
    steps.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return _with_context(steps)


def _with_context(steps: list[Step]) -> list[list[Step]]:
    groups: list[list[Step]] = []
    current: list[Step] = []
    for tag, a, b, c, d in steps:
        if tag == "equal" and b - a > 2 * CONTEXT:
            if current:
                groups.append([*current, ("equal", a, a + CONTEXT, c, c + CONTEXT)])
            current = [("equal", b - CONTEXT, b, d - CONTEXT, d)]
        elif tag == "equal" and not current:
            current = [("equal", max(a, b - CONTEXT), b, max(c, d - CONTEXT), d)]
        elif b > a or d > c:
            current.append((tag, a, b, c, d))
    groups.append(current)
    return [
        [*group[:-1], _shortened(group[-1])]
        for group in groups
        if any(step[0] != "equal" for step in group)
    ]


def _shortened(step: Step) -> Step:
    tag, a, b, c, d = step
    return (tag, a, min(b, a + CONTEXT), c, min(d, c + CONTEXT)) if tag == "equal" else step


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    number = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        number += 1
    return number


def _line(sign: str, line: str) -> str:
    shown = line.rstrip("\r\n")
    shown = shown if len(shown) <= _LONGEST_LINE else f"{shown[:_LONGEST_LINE]}…"
    return f"{sign}{shown}" if line.endswith("\n") else f"{sign}{shown}\n\\ No newline at end of file"
