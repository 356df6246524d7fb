"""Long inputs made to be slow are read in time that grows with their length.

Where a pattern looks at a text once for each of its characters, these lengths take many minutes, and the time-out ends
the process that tries; where it does not, they take a second or two.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

LENGTH = 300_000
PATIENCE = 120.0
MAKING = {
    "one long word": "'a' * N",
    "hex": "('deadbeef0123' * N)[:N]",
    "blanks": "' ' * N + 'x'",
    "empty lines": "'\\n' * N + 'x'",
    "tags that are never closed": "('<system-reminder ' * N)[:N]",
    "tags in one another": "('<bash-stdout>' * N)[:N] + '</bash-stdout>'",
    "quotes": "('\"' * N)",
    "dots": "('.' * N)",
    "paths": "('a/' * N)[:N]",
    "claims": "('the user asked to be ' * N)[:N]",
    "sentences": """('It is "done." The user ' * N)[:N]""",
}
DOING = {
    "masked": """
from sevenfold.record.redact import mask
from sevenfold.record.secret_patterns import patterns
mask(text)
if text[:2] == "aa":
    for hint in {hint for rule in patterns().rules for hint in rule.hints}:
        for filler in ("", "A1b2-", "x" * 30, "=\\'", "://a:b@", "%3D\\x1b[0m"):
            mask((hint + filler) * (N // 100 // len(hint + filler)))
""",
    "shown in a terminal": "from sevenfold.cli.text import clean; clean(text)",
    "the user's words": """
from sevenfold.layers.compact.extract.words import users_words
from sevenfold.record import blocks
from sevenfold.record.layout import Item
from sevenfold.record.entries import Said
users_words(Item.of(Said("u", None, "user", (blocks.text(text),)), 0))
""",
    "marked": """
from sevenfold.layers.compact.extract.notation import Facts, QuotedMessage
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.layers.compact.summary.marks import mark
mark({5: text}, Evidence(Facts(messages=(QuotedMessage("u", "push it"), QuotedMessage("v", text))), []))
""",
    "searched for": "from sevenfold.recall.ranking import Query; Query.of(text)",
    "compacted": """
import sevenfold
read = sevenfold.tool({"name": "read", "input_schema": {"type": "object"}}, kind="read")
with sevenfold.Session.in_memory(model="claude-opus-4-6", tools=[read]) as session:
    session.user(text)
    session.complete()
    session.user("and on")
    session.complete()
    session.compact(engine="extractive")
""",
}


@pytest.mark.parametrize("doing", DOING.values(), ids=DOING)
def test_no_text_is_slow_to_read(doing):
    texts = "[" + ", ".join(MAKING.values()) + "]"
    program = f"N = {LENGTH}\nfor text in {texts}:\n" + "\n".join(
        "    " + line for line in doing.strip().splitlines()
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)
