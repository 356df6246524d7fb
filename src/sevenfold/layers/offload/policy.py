"""Layer 1: a tool result too big for the context is moved to disk, and a preview stays in its place.

A result over its tool's own limit is stored before it is recorded: the record contains the preview and says where the
rest is. Results that are small enough individually but too big in total are recorded whole, and the largest of them are
replaced before they are first sent. Either way, each result is decided once, and is sent the same way ever after.

The tool that reads files is exempt, because reading a stored result would store it again; but a result that would fill
most of the window by itself is stored, whichever tool returned it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from sevenfold.conversation.results import Whole, whole
from sevenfold.prompts.context import CutResult, KeptResult, StoredResult
from sevenfold.prompts.text import cut
from sevenfold.record.blocks import Block
from sevenfold.record.entries import RESULT
from sevenfold.record.window import Window
from sevenfold.settings import Settings

READER = "read"
"""The kind of tool that can read a stored result."""
SOME_READER = "a tool that reads files"
FILLS_THE_WINDOW = 2
"""Characters per token of the threshold: a result of that size leaves hardly any room for anything else."""


class Budget(Struct, frozen=True):
    """The limits on tool results in a window; smaller windows have smaller limits."""

    settings: Settings
    window: Window
    kinds: Mapping[str, str]

    def alone(self, tool: str) -> int | None:
        """The most characters a result of this tool may have; None if unlimited."""
        if tool in self.settings.offload_by_tool:
            return self.settings.offload_limit(tool)
        usual = self.window.budget(self.settings.offload_characters)
        if self.kinds.get(tool) != READER:
            return usual
        return max(usual, FILLS_THE_WINDOW * self.window.threshold)

    def shares(self, tool: str) -> bool:
        """Whether results of this tool count towards the limit for all results in one message."""
        return self.kinds.get(tool) != READER and self.alone(tool) is not None

    @property
    def together(self) -> int:
        """The most characters that all results in one message may have."""
        return self.window.budget(self.settings.round_characters)

    @property
    def preview(self) -> int:
        """The size of a preview, in bytes."""
        return self.window.budget(self.settings.preview_bytes)

    @property
    def reader(self) -> str:
        """The name of the tool that can read a stored result."""
        return next((name for name, kind in self.kinds.items() if kind == READER), SOME_READER)


class Big(Struct, frozen=True):
    """A result that should be offloaded."""

    block: Block
    content: Whole
    limit: int
    """The most characters of it to send if it cannot be stored."""
    why: str
    mechanism: str
    """Either "store" (too big by itself) or "share" (too big together with others)."""


def too_big(block: Block, tool: str, budget: Budget) -> Big | None:
    """The result as one to offload, if it exceeds its tool's own limit; otherwise None."""
    limit = budget.alone(tool)
    if limit is None or len(block.raw) <= limit:
        return None
    content = whole(block)
    if len(content.text) <= limit:
        return None
    why = f"a result of {tool or 'a tool'} may have {limit:,} characters"
    return Big(block, content, limit, why, "store")


def too_much_together(results: Sequence[tuple[str, Block]], budget: Budget) -> list[Big]:
    """The results, given with their tools, to offload so that the rest fit into one message: the largest first."""
    sharing = [block for tool, block in results if budget.shares(tool)]
    if sum(len(block.raw) for block in sharing) <= budget.together:
        return []
    contents = [whole(block) for block in sharing]
    sizes = sorted(((len(content.text), index) for index, content in enumerate(contents)), reverse=True)
    excess = sum(size for size, _ in sizes) - budget.together
    why = f"results in one message may have {budget.together:,} characters together"
    leaving: list[Big] = []
    for size, index in sizes:
        if excess <= 0 or size <= budget.preview:
            break
        leaving.append(Big(sharing[index], contents[index], budget.together, why, "share"))
        excess -= size - budget.preview
    return leaving


def stored(big: Big, path: str, budget: Budget) -> str:
    """The text to send in place of a stored result."""
    content = big.content
    text = cut(content.text, budget.preview)
    if path.startswith(RESULT):
        return KeptResult(characters=len(content.text), name=path, text=text).render()
    return StoredResult(characters=len(content.text), path=path, reader=budget.reader, text=text).render()


def truncated(big: Big, problem: str) -> str:
    """The text to send for a result that could not be stored: as much of it as its limit allows."""
    content = big.content
    shown = cut(big.content.text[: big.limit], big.limit)
    return CutResult(shown=len(shown), characters=len(content.text), problem=problem, text=shown).render()
