"""Fuzz sessions with random conversations: whatever the caller does, the provider must accept the next request.

    python bench/conversations.py [--count 2000] [--seed N] [--processes 2]

Each conversation draws a model, an API, a window (8K, 32K or 200K) and a handful of steps: text, blocks and Python
values of every kind, documents and pictures of every size, answers with tool calls, thinking and server tools in every
order, partial or repeated results, forks, undo, rewind, snip, compaction, and message lists from the caller in any
API's format. Some are stored, and go on in the middle with another model, another API and another window; some of
these begin on another tool's transcript, or on a damaged one. The simulator in this process checks every
body. Two things count as problems: a refused body, and an exception that is not one of ours. Two refusals are none: a
prompt that the provider counts as longer than its window, if `failed()` then finds a way on, or says that there is
none; so is a damaged name of a field in another tool's log ("Extra inputs are not permitted"), which only the provider
can know, if the next request has the block as text. The same seed repeats a conversation.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import json
import math
import multiprocessing
import random
import sys
import tempfile
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

import sevenfold
from sevenfold import profiles
from sevenfold.errors import ModelError, PromptTooLong, RequestRefused, SevenfoldError, TranscriptError
from sevenfold.lab.simulator.brains import ModelPrompt, ModelReply
from sevenfold.lab.simulator.chat import complete
from sevenfold.lab.simulator.clock import VirtualClock
from sevenfold.lab.simulator.errors import ApiError
from sevenfold.lab.simulator.messages import answer
from sevenfold.lab.simulator.parameters import ApiFeatures
from sevenfold.lab.simulator.preparation import prepare
from sevenfold.lab.simulator.provider import Setup, Simulator
from sevenfold.lab.simulator.responses import respond
from sevenfold.lab.simulator.schema import check_shape
from sevenfold.providers.anthropic import MESSAGES
from sevenfold.providers.failures import Endpoint, explain
from sevenfold.wire.error_report import report_of

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.foreign_logs import document, foreign_log, picture  # noqa: E402  # needs the path above

Json = dict[str, Any]
MODELS = (
    *(("messages", name) for name in ("claude-sonnet-5-5", "claude-opus-5-5", "claude-opus-4-6")),
    *(("messages", name) for name in ("claude-haiku-4-5", "claude-sonnet-5")),
    ("chat", "gpt-4.1"),
    ("responses", "gpt-5.6"),
)
WINDOWS = (8_000, 32_000, 200_000)
SETTINGS = {
    **dict.fromkeys(("notes", "background_compaction", "model_listing", "recall_ahead"), False),
    **dict.fromkeys(("size_keep", "gap_keep"), 1),
    "offload_characters": 3_000,
    "preview_bytes": 300,
    "size_trigger_tokens": 2_000,
    "size_target_tokens": 500,
    "size_least_tokens": 300,
}
TOOLS = [
    sevenfold.tool({"name": "Read", "input_schema": {"type": "object"}}, kind="read"),
    sevenfold.tool({"name": "Ask", "input_schema": {"type": "object"}}),
]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
VERSION = "2026-10-21"
DAMAGED_FIELD = "Extra inputs are not permitted"


class Found(Struct):
    """The totals of a run of conversations."""

    conversations: int = 0
    requests: int = 0
    steps: int = 0
    too_long: int = 0
    """Prompts that the provider counted as longer than its window, and that were made again with less, if possible."""
    damaged_fields: int = 0
    """Blocks of another tool's log with a field that is not one, found by the refusal and then sent as text."""
    declined: int = 0
    """Calls that ended in one of our own errors, which record nothing."""
    refused: dict[str, list[int]] = {}
    """Bodies that the provider refused: the seeds of their conversations, by error message."""
    untyped: dict[str, list[int]] = {}

    def add(self, other: Found) -> None:
        """Add the totals of another run."""
        self.conversations += other.conversations
        self.requests += other.requests
        self.steps += other.steps
        self.declined += other.declined
        self.too_long += other.too_long
        self.damaged_fields += other.damaged_fields
        for mine, theirs in ((self.refused, other.refused), (self.untyped, other.untyped)):
            for words, seeds in theirs.items():
                mine.setdefault(words, []).extend(seeds)

    @property
    def problems(self) -> int:
        """The number of refused bodies plus errors that are not ours."""
        return sum(len(seeds) for seeds in (*self.refused.values(), *self.untyped.values()))


@dataclass
class Row:
    """A value that is not JSON."""

    name: str
    size: int


class RandomBrain:
    """A model that thinks, talks, calls tools, and leaves server tools unfinished."""

    def __init__(self, dice: random.Random, wire: str) -> None:
        self.dice, self.wire, self.count = dice, wire, 0

    def reply(self, prompt: ModelPrompt) -> ModelReply:
        """Return a random answer."""
        self.count += 1
        dice, said = self.dice, list[Json]()
        last = prompt.messages[-1]
        for block in last["content"] if last["role"] == "assistant" and dice.random() < 0.8 else ():
            if block["type"] == "server_tool_use":
                said.append({"type": "web_search_tool_result", "tool_use_id": block["id"], "content": []})
        if self.wire == "messages" and (prompt.body.get("thinking") or {}).get("type") == "adaptive":
            said += [{"type": "thinking", "thinking": f"step {self.count}"}] * dice.choice((0, 1, 1))
        if dice.random() < 0.8:
            said.append({"type": "text", "text": dice.choice(("Part.", "你好", "x" * 300))})
        stop = None
        if self.wire == "messages" and dice.random() < 0.12:
            name = f"srvtoolu_{self.count}_{dice.randrange(10**9)}"
            said.append(
                {"type": "server_tool_use", "id": name, "name": "web_search", "input": {"query": "x"}}
            )
            if dice.random() < 0.5:
                said.append({"type": "web_search_tool_result", "tool_use_id": name, "content": []})
            else:
                stop = "pause_turn"
        named = dice.random() < 0.9
        calls: list[Json] = []
        for each in range(dice.choice((0, 0, 1, 2, 3))):
            call = f"toolu_{self.count}x{each}x{dice.randrange(10**9)}" if named else f"call_{each}"
            calls.append({"type": "tool_use", "id": call, "name": "Read", "input": {"path": f"{each}.py"}})
        if dice.random() < 0.5:
            said += calls
        else:
            # A call of the client may stand anywhere after the reasoning, also between a search and its result.
            first = sum(block["type"] == "thinking" for block in said)
            for called in calls:
                said.insert(dice.randint(first, len(said)), called)
        if calls and stop == "pause_turn":
            stop = "tool_use"
        return ModelReply(said or [{"type": "text", "text": "Yes."}], stop)


class RandomConversation:
    """One session and the random steps applied to it."""

    def __init__(self, seed: int, found: Found) -> None:
        self.seed, self.found, self.dice = seed, found, random.Random(seed)
        self.wire, self.model = self.dice.choice(MODELS)
        self.clock = VirtualClock()
        self.window = self.dice.choice(WINDOWS)
        self.brain = RandomBrain(self.dice, self.wire)
        self.simulator = Simulator(self.brain, Setup(), clock=self.clock)
        self.system = "Be brief."
        self.tools = TOOLS
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.file: Path | None = None
        self.foreign = False
        if self.dice.random() < 0.4:
            self.folder = tempfile.TemporaryDirectory()
            self.file = Path(self.folder.name) / "s.jsonl"
            self.foreign = self.dice.random() < 0.7
            if self.foreign:
                self.file.write_bytes(foreign_log(self.dice))
        self.session = self.opened()
        self.theirs: list[Json] = []
        """The conversation as a caller with its own message list would have it, in the Messages API's format."""

    def opened(self) -> sevenfold.Session:
        """The session with the current model, API and window, served by a simulator that knows them."""
        profile = replace(profiles.find(self.model), window=self.window)
        self.simulator.setup = replace(self.simulator.setup, models={self.model: profile})
        options: dict[str, Any] = {"system": self.system, "tools": self.tools, "max_tokens": 4_000}
        adaptive = self.wire == "messages" and self.model != "claude-haiku-4-5"
        if adaptive and self.dice.random() < 0.8:
            options["thinking"] = {"type": "adaptive"}
        options |= {"model": self.model, "clock": self.clock, "wire": self.wire}
        options["settings"] = {**SETTINGS, "context_window": self.window}
        if self.file is None:
            return sevenfold.Session.in_memory(**options)
        return sevenfold.Session.open("s", file=self.file, **options)

    def run(self) -> None:
        """Take random steps, then make a last request."""
        steps: list[Callable[[], None]] = [
            *[self.ask] * 8,
            *[self.speak] * 5,
            *[self.give_results] * 6,
            *[self.fork, self.follow, self.follow, self.adopt],
            *[self.rewind, self.undo, self.redo, self.snip, self.compact, self.wait],
            *[self.move] * 2,
        ]
        self.attempt(self.speak if self.dice.random() < 0.8 else self.adopt)
        for _ in range(self.dice.randint(3, 14)):
            self.attempt(self.dice.choice(steps))
        self.attempt(self.finish)
        self.session.close()
        if self.folder is not None:
            self.folder.cleanup()
        self.found.conversations += 1

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step; one of our own errors is acceptable, unless it says that the API cannot express the request."""
        self.found.steps += 1
        try:
            step()
        except RequestRefused as error:
            # We refuse what an API cannot express before sending it; for the caller that is no better.
            self.found.refused.setdefault(_plain(str(error)), []).append(self.seed)
        except SevenfoldError:
            self.found.declined += 1
        except ApiError as error:
            self.found.refused.setdefault(_plain(str(error)), []).append(self.seed)
        except Exception as error:  # noqa: BLE001 (what is looked for)
            where = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{type(error).__name__} in {Path(where.filename).name}:{where.name}: {error}"
            self.found.untyped.setdefault(_plain(words), []).append(self.seed)

    def ask(self) -> None:
        """Prepare, send and observe; sometimes only a part of the answer arrives."""
        body, came = self.answered()
        if self.dice.random() < 0.1:
            self.speak()
        if self.dice.random() < 0.1 and self.wire == "messages":
            cut = {**came, "stop_reason": None, "content": came["content"][: self.dice.randint(0, 2)]}
            self.session.observe(cut, partial=True)
            self.theirs = []
            return
        self.session.observe(came if self.dice.random() < 0.5 else json.dumps(came))
        if self.wire == "messages":
            self.theirs = [*json.loads(body)["messages"], {"role": "assistant", "content": came["content"]}]

    def answered(self) -> tuple[bytes, Json]:
        """Return the next request and its answer; one that is too long for the provider is made again with less."""
        while True:
            request = self.session.prepare()
            body = request.body
            try:
                return body, self.sent(body, request.headers)
            except ApiError as refusal:
                error = self.too_long(refusal)
                if error is not None:
                    self.found.too_long += 1
                    if not self.session.failed(error):
                        raise error from None
                elif self.foreign and DAMAGED_FIELD in str(refusal):
                    self.found.damaged_fields += 1
                    if not self.session.failed(self.explained(refusal)):
                        raise
                else:
                    raise

    def too_long(self, refusal: ApiError) -> PromptTooLong | None:
        """The error for a prompt that the provider counts as too long; None for any other refusal."""
        error = self.explained(refusal)
        return error if isinstance(error, PromptTooLong) else None

    def explained(self, refusal: ApiError) -> ModelError:
        """The error of ours that a client would raise for a refusal."""
        body = refusal.messages_body("req") if self.wire == "messages" else refusal.openai_body()
        return explain(report_of(body, refusal.status), Endpoint(MESSAGES.vendor, "simulator"))

    def sent(self, body: bytes, headers: Mapping[str, str]) -> Json:
        """Return the provider's answer; raise `ApiError` if it refuses."""
        self.found.requests += 1
        asked = json.loads(body)
        if self.wire == "chat":
            return complete(self.simulator, asked)
        if self.wire == "responses":
            return respond(self.simulator, asked)
        betas = frozenset(filter(None, headers.get("anthropic-beta", "").split(",")))
        features = ApiFeatures(VERSION, betas)
        check_shape(asked, features)
        profile = self.simulator.profile(asked["model"])
        assert profile is not None
        return answer(self.simulator, prepare(self.simulator, asked, profile, features))[0]

    def speak(self) -> None:
        """Add a user message."""
        self.session.user(self.content())

    def give_results(self) -> None:
        """Give some or all of the pending results, and sometimes one for an unknown call."""
        waiting = list(self.session.conversation.waiting)
        self.dice.shuffle(waiting)
        if waiting and self.dice.random() < 0.3:
            waiting = waiting[: self.dice.randint(1, len(waiting))]
        if self.dice.random() < 0.05:
            waiting.append("toolu_unknown")
        given = {call: self.value() for call in waiting}
        match self.dice.randrange(4):
            case 0:
                listed = [
                    {"role": "tool", "tool_call_id": call, "content": one} for call, one in given.items()
                ]
                self.session.tool_results(listed)
            case 1:
                blocks = [
                    {"type": "tool_result", "tool_use_id": call, "content": one}
                    for call, one in given.items()
                ]
                self.session.tool_results(blocks)
            case _:
                self.session.tool_results(given)

    def fork(self) -> None:
        """Ask a question in a fork."""
        fork = self.session.fork()
        fork.user(self.content())
        prepared = fork.prepare()
        provider = self.session._provider
        put = provider.put(prepared.call)
        try:
            self.sent(put.body, put.headers)
        except ApiError as refusal:
            if self.too_long(refusal) is None:
                raise
            self.found.too_long += 1

    def follow(self) -> None:
        """Sync with the caller's own list, which may be rewritten, cut short or continued."""
        listed = [rewritten for one in self.theirs for rewritten in self.rewritten(one)]
        if self.dice.random() < 0.3:
            listed = listed[: self.dice.randint(0, len(listed))]
        if self.dice.random() < 0.7:
            listed += self.foreign_messages(self.dice.randint(1, 3))
        self.session.sync(listed)

    def adopt(self) -> None:
        """Import a conversation."""
        self.session.messages(self.foreign_messages(self.dice.randint(1, 8)))

    def rewind(self) -> None:
        """Rewind to a random record, or to the start."""
        items = self.session.conversation.transcript.view.items
        self.session.rewind(self.dice.choice([None, *(item.record.uuid for item in items)]))
        self.theirs = []

    def undo(self) -> None:
        """Undo the newest decision."""
        self.session.undo()

    def redo(self) -> None:
        """Redo the newest undone decision."""
        self.session.redo()

    def snip(self) -> None:
        """Snip a random span of records."""
        items = [item.record.uuid for item in self.session.conversation.transcript.view.items] or [""]
        first = self.dice.randrange(len(items))
        self.session.snip(items[first], items[self.dice.randrange(first, len(items))])

    def compact(self) -> None:
        """Compact without a model."""
        self.session.compact()

    def wait(self) -> None:
        """Let the cache expire."""
        self.clock.advance(4_000)

    def move(self) -> None:
        """Close a stored session and go on with it: with another model, API, window, system prompt, other tools."""
        if self.file is None:
            return
        self.session.close()
        self.wire, self.model = self.dice.choice(MODELS)
        self.brain.wire = self.wire
        self.system = self.dice.choice(("Be brief.", "Be brief, and polite."))
        self.tools = TOOLS[: self.dice.choice((1, 2, 2))]
        self.window = self.dice.choice(WINDOWS)
        self.session = self.opened()
        self.theirs = []

    def finish(self) -> None:
        """Check that after any history, with all results and a user message added, the next request is accepted."""
        conversation = self.session.conversation
        self.session.tool_results(dict.fromkeys(conversation.waiting, "done"))
        self.session.user("and now?")
        self.answered()

    # Content

    def content(self) -> Any:
        """Return something that a caller may pass to user(); most of it is valid."""
        if self.dice.random() < 0.5:
            return self.dice.choice(("go on", "你好 🙂", "x" * 500, "a\x00b"))
        if self.dice.random() < 0.7:
            return [self.block() for _ in range(self.dice.randint(1, 3))]
        return self.value()

    def block(self) -> Any:
        """Return a content block of any API, well formed or not."""
        image = {"type": "base64", "media_type": "image/png", "data": PNG}
        mark = {"cache_control": {"type": "ephemeral"}}
        return self.dice.choice(
            (
                "words",
                {"type": "text", "text": "words"},
                {"type": "text", "text": "marked", **mark},
                {"type": "text", "text": "marked", "cache_control": None},
                {"type": "text", "text": "cited", "citations": [{"type": "char_location"}]},
                {"type": "text", "text": " "},
                {"type": "text"},
                {"type": "text", "text": None},
                {"type": "text", "text": 5},
                {"type": "text", "text": "x", "unheard_of": 1},
                {"type": "image", "source": image, **mark},
                {"type": "image"},
                {"type": "image", "source": "here"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                {"type": "image_url", "image_url": 5},
                {"type": "input_image", "image_url": "https://example.com/a.png"},
                {"type": "input_text", "text": "words"},
                document(self.dice),
                document(self.dice),
                picture(self.dice),
                {
                    "type": "search_result",
                    "source": "a",
                    "title": "b",
                    "content": [{"type": "text", "text": "c"}],
                },
                {"type": "search_result", "source": "a"},
                {"type": "bogus"},
                {"type": "tool_use", "id": "x", "name": "y", "input": {}},
                {"type": "thinking", "thinking": "x", "signature": "y"},
                {"type": 5},
                {},
                None,
                7,
            )
        )

    def value(self, depth: int = 0) -> Any:
        """Return any Python value."""
        dice = self.dice
        if dice.random() < 0.3:
            return dice.choice(("done", "", " ", "x" * 4_000, "half \ud83d", "a\x00b"))
        if depth < 3 and dice.random() < 0.3:
            inner = [self.value(depth + 1) for _ in range(dice.randint(0, 3))]
            return dice.choice(
                (
                    inner,
                    tuple(inner),
                    {f"k{n}": one for n, one in enumerate(inner)},
                    {1: inner},
                    iter(inner),
                )
            )
        if dice.random() < 0.3:
            return [self.block() for _ in range(dice.randint(1, 3))]
        plain = (None, True, 0, -7, 10**30, 1.5, math.nan, math.inf, b"raw \xff", bytearray(b"x"), {1, 2})
        made = (Row("a", 1), datetime.datetime(2026, 1, 1), decimal.Decimal("1.5"), Path("a/b"))
        odd = (
            ValueError("no"),
            object,
            object(),
            range(3),
            {"rows": 3},
            {"type": "text"},
            {"type": "bogus"},
        )
        return dice.choice((*plain, *made, *odd, uuid.UUID(int=1), self.block()))

    def foreign_messages(self, count: int) -> list[Any]:
        """Return a conversation in the format of a random API."""
        made: list[Any] = []
        shape = self.dice.choice(("messages", "chat", "responses"))
        for number in range(count):
            made += self.foreign_turn(shape, number)
        return made

    def foreign_turn(self, shape: str, number: int) -> Iterator[Any]:
        """Yield a turn of such a conversation: text, perhaps a tool call and its result."""
        call, dice = f"call_{number}_{self.dice.randrange(10**9)}", self.dice
        role = dice.choice(("user", "user", "user", "system", "developer"))
        yield {"role": role, "content": dice.choice(("hello", "why?", [{"type": "text", "text": "hm"}]))}
        calls = dice.random() < 0.5
        match shape:
            case "messages":
                parts: list[Json] = [{"type": "text", "text": "well"}]
                if calls:
                    parts.append({"type": "tool_use", "id": call, "name": "Read", "input": {}})
                yield {"role": "assistant", "content": parts}
                if calls and dice.random() < 0.8:
                    result = {"type": "tool_result", "tool_use_id": call, "content": self.value()}
                    yield {"role": "user", "content": [result]}
            case "chat":
                said: Json = {"role": "assistant", "content": dice.choice(("well", None, ""))}
                if calls:
                    function = {"name": "Read", "arguments": "{}"}
                    said["tool_calls"] = [{"id": call, "type": "function", "function": function}]
                yield said
                if calls and dice.random() < 0.8:
                    yield {"role": "tool", "tool_call_id": call, "content": "done"}
            case _:
                output = [{"type": "output_text", "text": "well", "annotations": []}]
                yield {"type": "message", "role": "assistant", "content": output}
                if calls:
                    yield {"type": "function_call", "call_id": call, "name": "Read", "arguments": "{}"}
                    if dice.random() < 0.8:
                        yield {"type": "function_call_output", "call_id": call, "output": "done"}

    def rewritten(self, message: Json) -> list[Any]:
        """Return a message as a client may write it the next time."""
        content = message["content"]
        if isinstance(content, list) and len(content) == 1 and content[0].get("type") == "text":
            return [{**message, "content": content[0]["text"]}] if self.dice.random() < 0.5 else [message]
        return [message]


def _plain(words: str) -> str:
    """Return an error message without the parts that vary between conversations, so that equal errors group."""
    short = " ".join("#" if any(c.isdigit() for c in word) else word for word in words.split())
    return short[:160]


def conversations(seeds: range) -> Found:
    """Run a conversation for each seed."""
    found = Found()
    for seed in seeds:
        try:
            RandomConversation(seed, found).run()
        except TranscriptError:
            # The damage left nothing by which the file could be known, so it is refused, and nothing is written to it.
            found.declined += 1
            found.conversations += 1
        except Exception:  # noqa: BLE001 (what is looked for)
            words = traceback.format_exc(limit=-2).strip().splitlines()[-1]
            found.untyped.setdefault(words, []).append(seed)
    return found


def search(count: int, seed: int, processes: int = 1) -> Found:
    """Run this many conversations in this many processes."""
    size = 250
    chunks = [range(start, min(start + size, seed + count)) for start in range(seed, seed + count, size)]
    found = Found()
    if processes == 1:
        for chunk in chunks:
            found.add(conversations(chunk))
        return found
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for each in pool.imap_unordered(conversations, chunks):
            found.add(each)
    return found


def main() -> int:
    """Search for problems and print them; return 1 if there are any, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    found = search(given.count, given.seed, given.processes)
    print(
        f"{found.conversations:,} conversations from seed {given.seed}, {found.steps:,} steps, {found.requests:,} "
        f"requests, {found.declined:,} calls declined with an error of ours, {found.too_long:,} prompts too long, "
        f"{found.damaged_fields:,} damaged fields sent as text"
    )
    for name, kinds in (("refused", found.refused), ("untyped", found.untyped)):
        print(f"{sum(map(len, kinds.values())):,} {name}")
        for words, number in Counter({words: len(seeds) for words, seeds in kinds.items()}).most_common(20):
            print(f"  {number:>6,}  {words}  (seed {kinds[words][0]})")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
