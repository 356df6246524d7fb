"""The policies of other programs: what each does to the list of messages before a request.

nothing         everything is sent; a session that outgrows the window fails
sliding-window  the oldest rounds are left out until the rest fits
keep-last-N     all tool results but the newest N are cleared
summarise-P     at P% of the window, a request of its own summarises all but the newest messages
claude-code     Claude Code's defaults: large results go to files, results are cleared after an hour's pause, and at
                the threshold a request that shares the cache summarises everything; recently read files and open
                tasks are put back
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from msgspec.structs import replace

from sevenfold.errors import InputError
from sevenfold.lab.replay.plain import Json, PlainConversation
from sevenfold.lab.replay.recording import KINDS, path_of
from sevenfold.lab.replay.retention import Reachable, everywhere, nowhere
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.record.window import Window


class PlainPolicy(Protocol):
    """Shortens the messages before a request."""

    @property
    def name(self) -> str:
        """Its name, as users give it."""

    @property
    def reachable(self) -> Reachable:
        """Whether the model can look up a fact that left the context."""

    def before(self, conversation: PlainConversation) -> bool:
        """Prepare for the next request; returns whether a summary was made."""


class Nothing:
    """Sends everything."""

    name = "nothing"
    reachable = staticmethod(nowhere)

    def before(self, conversation: PlainConversation) -> bool:
        """Do nothing."""
        return False


class SlidingWindow:
    """Leaves out the oldest rounds until the rest fits."""

    name = "sliding-window"
    reachable = staticmethod(nowhere)

    def before(self, conversation: PlainConversation) -> bool:
        """Leave out as many rounds as needed, and never the newest."""
        over = conversation.size() - min(window_of(conversation).effective, longest_prompt(conversation))
        dropped = 0
        while over > 0 and dropped < len(conversation.rounds) - 1:
            over -= conversation.size_of(conversation.rounds[dropped])
            dropped += 1
        if dropped:
            conversation.drop(dropped)
        return False


class KeepLast:
    """Clears all tool results but the newest."""

    reachable = staticmethod(nowhere)

    def __init__(self, results: int) -> None:
        self.name = f"keep-last-{results}"
        self._results = results

    def before(self, conversation: PlainConversation) -> bool:
        """Clear the results; those of the newest calls stay, however many they are."""
        newest = sum(block["type"] == "tool_result" for block in conversation.rounds[-1].incoming)
        conversation.clear(max(self._results, newest))
        return False


class SummariseAt:
    """Summarises all but the newest messages once the window is filled to a share."""

    reachable = staticmethod(nowhere)
    kept: ClassVar[float] = 0.1
    """The share of the window that the newest messages may fill."""

    def __init__(self, percent: int) -> None:
        self.name = f"summarise-{percent}"
        self._share = percent / 100

    def before(self, conversation: PlainConversation) -> bool:
        """Summarise if the next prompt would reach the share of the window."""
        window = conversation.provider.profile.window
        limit = min(self._share * window, longest_prompt(conversation))
        if conversation.size() < limit or len(conversation.rounds) < 2:
            return False
        start = len(conversation.rounds) - 1
        room = self.kept * window - conversation.size_of(conversation.rounds[-1])
        while start > 1 and (size := conversation.size_of(conversation.rounds[start - 1])) <= room:
            start -= 1
            room -= size
        text = _summary(conversation, start, shares_cache=False)
        conversation.replace(start, [_text(f"Summary of the conversation so far:\n\n{text}")])
        return True


class ClaudeCode:
    """Claude Code's defaults."""

    name = "claude-code"
    reachable = staticmethod(everywhere)
    """The summary names the file with the whole conversation."""
    result_characters: ClassVar[int] = 50_000
    round_characters: ClassVar[int] = 200_000
    preview: ClassVar[int] = 2_000
    pause: ClassVar[float] = 3_600.0
    kept_results: ClassVar[int] = 5
    files: ClassVar[int] = 5
    file_tokens: ClassVar[int] = 5_000
    """Of each file at most; in small windows less, as every budget there."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._tasks: list[Any] = []
        self._looked = 0

    def before(self, conversation: PlainConversation) -> bool:
        """Offload, clear after a pause, and summarise at the threshold."""
        self._look(conversation)
        self._offload(conversation)
        answered_at = conversation.answered_at
        if answered_at is not None and conversation.provider.clock.now() - answered_at > self.pause:
            conversation.clear(self.kept_results, tools=KINDS)
        limit = min(window_of(conversation).threshold, longest_prompt(conversation))
        if conversation.size() < limit:
            return False
        text = _summary(conversation, len(conversation.rounds), shares_cache=True)
        conversation.replace(
            len(conversation.rounds), [_text(_continued(text)), *self._restored(conversation)]
        )
        # What was given last is in the summary, and the request has the summary alone.
        conversation.forget_rounds()
        return True

    def _offload(self, conversation: PlainConversation) -> None:
        """Put large results into files, the largest first if together they are too large; what was read stays."""
        newest = conversation.rounds[-1]
        names = conversation.tool_names()
        sizes: dict[int, int] = {}
        for index, block in enumerate(newest.incoming):
            content = block.get("content")
            if block["type"] != "tool_result" or not isinstance(content, str):
                continue
            if KINDS.get(names.get(block["tool_use_id"], "")) != "read":
                sizes[index] = len(content)
        total = sum(sizes.values())
        for index, size in sorted(sizes.items(), key=lambda entry: -entry[1]):
            if size > self.result_characters or total > self.round_characters:
                newest.incoming[index] = _previewed(newest.incoming[index], self.preview)
                newest.tokens = None
                total -= size - self.preview

    def _look(self, conversation: PlainConversation) -> None:
        """Note the files that were read and the tasks that are open."""
        results: dict[str, Any] = {}
        for block in conversation.rounds[-1].incoming:
            if block["type"] == "tool_result" and not block.get("is_error"):
                results[block["tool_use_id"]] = block.get("content")
        answer_before = conversation.rounds[-2].answer if len(conversation.rounds) > 1 else []
        for block in answer_before:
            if block["type"] != "tool_use" or not isinstance(block["input"], dict):
                continue
            path = path_of(block["input"])
            if KINDS.get(block["name"]) == "read" and path and block["id"] in results:
                self._files.pop(path, None)
                self._files[path] = _words(results[block["id"]])
            if isinstance(todos := block["input"].get("todos"), list):
                self._tasks = todos

    def _restored(self, conversation: PlainConversation) -> list[Json]:
        """The files read last and the open tasks, as they are put behind a summary."""
        restored: list[Json] = []
        limit = window_of(conversation).budget(self.file_tokens)
        for path, text in list(reversed(self._files.items()))[: self.files]:
            tokens = max(1, conversation.provider.tokens([_text(text)], "user"))
            shown = text[: len(text) * limit // tokens] if tokens > limit else text
            restored.append(_text(f"Read before the summary: {path}\n{shown}"))
        if self._tasks:
            tasks = [task for task in self._tasks if isinstance(task, dict)]
            lines = [f"[{task.get('status')}] {task.get('content')}" for task in tasks]
            restored.append(_text("The list of tasks:\n" + "\n".join(lines)))
        return restored


NAMED: Mapping[str, type[Nothing] | type[SlidingWindow] | type[ClaudeCode]] = {
    "nothing": Nothing,
    "sliding-window": SlidingWindow,
    "claude-code": ClaudeCode,
}
PREFIXES: Mapping[str, type[KeepLast] | type[SummariseAt]] = {
    "keep-last-": KeepLast,
    "summarise-": SummariseAt,
}
OURS = "ours"
STANDARD = ("nothing", "sliding-window", "keep-last-3", "summarise-80", "claude-code", OURS)
"""The policies that are compared if none is named."""


def plain_policy(name: str) -> PlainPolicy | None:
    """The policy of this name, new; None if it is none of these. Raises `InputError` for a number out of range."""
    if name in NAMED:
        return NAMED[name]()
    for prefix, kind in PREFIXES.items():
        number = name.removeprefix(prefix)
        if number != name:
            if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= 100:
                raise InputError(
                    f"{name}: {prefix}N takes a number from 1 to 100, as in {prefix}{kind_example(kind)}"
                )
            return kind(int(number))
    return None


def kind_example(kind: type[KeepLast] | type[SummariseAt]) -> int:
    """A usual number for a policy."""
    return 3 if kind is KeepLast else 80


def window_of(conversation: PlainConversation) -> Window:
    """The window with its levels, without those that a model's price would lower."""
    return Window.of(replace(conversation.provider.profile, economic_window=None))


def longest_prompt(conversation: PlainConversation) -> int:
    """The tokens that a prompt may have: older models refuse it if the answer that is asked for would not fit too."""
    profile = conversation.provider.profile
    return profile.window - (0 if profile.output_may_overrun else conversation.provider.max_tokens)


def _summary(conversation: PlainConversation, rounds: int, *, shares_cache: bool) -> str:
    """Have the first rounds summarised; if that is too long, without the oldest fifth, and at last without most."""
    while True:
        try:
            return conversation.summarise(rounds, shares_cache=shares_cache)
        except ApiError:
            oldest = max(1, rounds // 5)
            if rounds - oldest < 1:
                raise
            conversation.drop(oldest)
            rounds -= oldest


def _continued(text: str) -> str:
    return (
        "This session goes on from an earlier conversation that did not fit any more. Its summary:\n\n"
        f"{text}\n\nThe whole conversation is in the session's transcript file. Go on with the last task."
    )


def _previewed(block: Json, characters: int) -> Json:
    content = str(block["content"])
    shown = content[:characters]
    return {**block, "content": f"{shown}\n[{len(content):,} characters in all; the rest is in a file]"}


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = (block for block in blocks if isinstance(block, dict) and block.get("type") == "text")
    return "\n".join(block["text"] for block in texts)


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
