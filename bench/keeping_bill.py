"""What a gateway that keeps costs, next to a program that compacts by itself, on recorded sessions.

    python bench/keeping_bill.py [FOLDER] [--drawn SEED] [--model NAME] [--window TOKENS]     default: ../shared/corpus

A program that keeps its own list of messages plays each session twice. Alone, it compacts at the threshold of its
window: it asks for a summary behind the whole conversation, which is in the cache, and goes on with the summary and
the five files that it read last, 5,000 tokens of each. Below a follower that keeps, it is the same program, and the
follower does what it does in `sevenfold gateway --mode keep`; its own calls are on the same bill, which
is the simulator's. Summaries have as many tokens as the recorded one, or 4,000, on both sides; the files are on disk,
so both restore them.

Only sessions in which the program compacts count for the total; all of them count for the worst. Wherever nothing was
done, the bodies are compared to the byte. A summary made beside the conversation is ready before the next request: a
replay takes no real time. The last two columns are what the share would be if the session had ended at its worst
moment, which is right behind a summary of ours, and after how many of its steps it would be above the bar. They are not
judged: recorded sessions end where people ended them. ``--drawn`` plays random sessions, which no rule was made on,
instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from msgspec import Struct
from msgspec.structs import replace

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench import policies  # noqa: E402 - started as a script, the project's folder is not on the path
from bench.replay.run import DESCRIPTION, KEY, MAX_TOKENS, SYSTEM, InsideClient  # noqa: E402
from sevenfold.clock import RandomIds  # noqa: E402
from sevenfold.doors.follower.answer_reading import BodyReading  # noqa: E402
from sevenfold.doors.follower.follower import CallEnd, ClientCall, FollowedCall  # noqa: E402
from sevenfold.doors.follower.keeper import REFUSED, KeepingFollower, KeepingOptions  # noqa: E402
from sevenfold.lab.replay.recording import KINDS, RecordedStep, Recording, read  # noqa: E402
from sevenfold.lab.simulator.brains import ModelPrompt, ScriptedBrain  # noqa: E402
from sevenfold.lab.simulator.clock import VirtualClock  # noqa: E402
from sevenfold.lab.simulator.provider import UNLIMITED, Setup, Simulator  # noqa: E402
from sevenfold.lab.simulator.server import create_app  # noqa: E402
from sevenfold.lab.simulator.tokens import Counter  # noqa: E402
from sevenfold.layers.compact.offline import summarise  # noqa: E402
from sevenfold.profiles import Profile, find  # noqa: E402
from sevenfold.record import blocks, entries  # noqa: E402
from sevenfold.record.blocks import text_of  # noqa: E402
from sevenfold.record.entries import Said  # noqa: E402
from sevenfold.record.usage import Usage  # noqa: E402
from sevenfold.record.window import Window  # noqa: E402
from sevenfold.settings import Settings  # noqa: E402
from sevenfold.stores.jsonl import log as lines  # noqa: E402
from sevenfold.stores.memory import MemoryStore  # noqa: E402

WINDOWS = (200_000, 100_000)
MOST_TOTAL = 0.95
MOST_EACH = 1.02
SUMMARY_TOKENS = 4_000
FILES = 5
FILE_TOKENS = 5_000
CHARACTERS = 4
"""Characters of a token, roughly; only for what the program itself estimates and restores."""
SUMMARISE = "CRITICAL: Respond with TEXT ONLY. Summarise this conversation for whoever goes on with it."
CONTINUED = "This session is being continued from a previous conversation that ran out of context.\n\n"
PATHS = ("file_path", "path")
"""The arguments of tools that name a file."""
FILLER = "The work went on as it was agreed, and what is open is in the list above. "
LOG_BYTES = 64_000_000
SETTLE_SECONDS = 120.0
OK = 200


class Bill(Struct, frozen=True):
    """What one way of playing a session cost."""

    usd: float = 0.0
    own_usd: float = 0.0
    """Of that, for calls that the program did not make."""
    requests: int = 0
    compactions: int = 0
    """Compactions of the program's own."""
    changed: int = 0
    """Requests that were sent in another way than the program wrote them."""
    refused: int = 0
    peak: int = 0
    after: tuple[float, ...] = ()
    """What had been spent after each step."""


class Compared(Struct, frozen=True):
    """A session's bills."""

    name: str
    model: str
    window: int
    alone: Bill
    kept: Bill
    same_bytes: bool
    """Whether every request was sent in the bytes in which the program wrote it, until one was changed."""
    problems: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """The bill below the follower over the program's alone."""
        return self.kept.usd / self.alone.usd

    @property
    def shares(self) -> list[float]:
        """The share if the session had ended after each of its steps."""
        pairs = zip(self.kept.after, self.alone.after, strict=False)
        return [kept / alone for kept, alone in pairs if alone]


class ReplayedModel:
    """A simulator with a clock of its own, whose model gives the recorded answers and summaries of a set length."""

    def __init__(self, profile: Profile, summary_tokens: int) -> None:
        self.clock = VirtualClock(0.0)
        self.answer: Sequence[Mapping[str, Any]] = ()
        """The next answer that is no summary."""
        self.usd = 0.0
        self.prompts: list[int] = []
        """Tokens of each prompt."""
        self.refused = 0
        self._summary_tokens = summary_tokens
        self._profile = profile
        self._seen = 0
        setup = Setup(limits=UNLIMITED, log_bytes=LOG_BYTES)
        self.simulator = Simulator(ScriptedBrain(self._said), setup, clock=self.clock)

    def at(self, seconds: float) -> None:
        """Move the clock to that time, unless it is already later."""
        self.clock.advance(max(0.0, seconds - self.clock.now()))

    def bill(self) -> None:
        """Add what was asked since the last call of this to the bill."""
        for received in self.simulator.requests:
            if received.number <= self._seen:
                continue
            self._seen = received.number
            self.refused += received.status >= REFUSED[0]
            if received.usage is not None:
                usage = Usage.of(received.usage)
                self.prompts.append(usage.prompt)
                self.usd += usage.billed.cost(self._profile) or 0.0

    def _said(self, prompt: ModelPrompt) -> str | Sequence[Mapping[str, Any]]:
        wanted = prompt.last_text
        if SUMMARISE in wanted or ("<analysis>" in wanted and "<summary>" in wanted):
            return self._summary(prompt)
        return self.answer

    def _summary(self, prompt: ModelPrompt) -> str:
        text = summarise({"messages": prompt.messages}).removesuffix("\n</summary>")
        return f"{of_length(text, self._summary_tokens, self._profile)}\n</summary>"


def of_length(text: str, tokens: int, profile: Profile) -> str:
    """The text, lengthened or cut to about that many tokens."""
    counter = Counter()
    generation = profile.tokenizer
    longer = text + FILLER * max(
        0, tokens - counter.text(text, generation) // counter.text(FILLER, generation)
    )
    return longer[: len(longer) * tokens // counter.text(longer, generation)]


class Passing:
    """Sends a program's requests as they are."""

    def __init__(self, provider: ReplayedModel) -> None:
        self.provider = provider
        self.sent: list[bytes] = []
        """A hash of each body as it was sent."""
        self.changed = 0
        """Requests that were sent in another way than the program wrote them."""
        self.first_change: int | None = None
        self.problems: list[str] = []
        transport = httpx2.ASGITransport(create_app(provider.simulator))
        self._http = httpx2.AsyncClient(transport=transport, base_url="http://simulator")
        self._loop = asyncio.new_event_loop()

    @property
    def own_usd(self) -> float:
        """What calls cost that the program did not make."""
        return 0.0

    def send(self, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        return self.post(body)

    def post(self, body: bytes) -> tuple[int, bytes]:
        """Send bytes to the provider."""
        self.sent.append(blake2b(body, digest_size=16).digest())
        headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json"}
        posted = self._http.post("/v1/messages", content=body, headers=headers)
        answered = self._loop.run_until_complete(posted)
        self.provider.bill()
        return answered.status_code, answered.content

    def close(self) -> None:
        """Close the connections."""
        self._loop.run_until_complete(self._http.aclose())
        self._loop.close()
        self.provider.bill()


class Keeping(Passing):
    """Shows each request to a follower first, as the gateway does."""

    def __init__(self, provider: ReplayedModel, window: int) -> None:
        super().__init__(provider)
        self._inside = InsideClient(provider.simulator)
        options = KeepingOptions(
            Settings(context_window=window),
            client=lambda call, address: self._inside,
            failed=lambda error: self.problems.append(repr(error)),
        )
        self._follower = KeepingFollower(
            MemoryStore(), "", b"secret", options, clock=provider.clock, ids=RandomIds()
        )

    @property
    def own_usd(self) -> float:
        """What calls cost that the program did not make."""
        return self._follower.figures.own_usd

    def send(self, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer to what the follower sends instead."""
        headers = {"x-claude-code-session-id": "replayed", "x-api-key": KEY}
        followed = self._follower.prepare(ClientCall("messages", "/v1/messages", headers, body), "")
        sent = body if followed.body is None else followed.body
        if followed.body is not None and self.first_change is None:
            self.first_change = len(self.sent)
        status, answer = self.post(sent)
        if followed.body is not None and status in REFUSED:
            self.problems.append(f"refused: {answer[:300]!r}")
            self._follower.refused(followed)
            status, answer = self.post(followed.untouched or body)
        elif followed.body is not None:
            self.changed += 1
        self._end(followed, sent, status, answer)
        return status, answer

    def close(self) -> None:
        """Close the sessions and the connections."""
        self._follower.close()
        super().close()

    def _end(self, followed: FollowedCall, sent: bytes, status: int, answer: bytes) -> None:
        reading = BodyReading("messages", "/v1/messages", sent, {"content-type": "application/json"})
        reading.take(answer)
        read_answer, problem = reading.ended(status)
        self._follower.ended(followed, CallEnd(status, read_answer, problem))
        self._follower.settle(SETTLE_SECONDS)


class ListKeepingProgram:
    """A program like Claude Code: it keeps a list of messages, and compacts it at the threshold of its window."""

    def __init__(self, provider: ReplayedModel, door: Passing, profile: Profile, window: int) -> None:
        self._provider = provider
        self._door = door
        self._model = profile.model
        self._threshold = Window.of(profile, override=window).threshold
        self._tools: list[dict[str, Any]] = []
        self._messages: list[dict[str, Any]] = []
        self._read: dict[str, None] = {}
        """The files that were read, the newest last."""
        self._size = 0
        """Tokens of the conversation, as the newest answer reports them."""
        self.bodies: list[bytes] = []
        """A hash of each body that it wrote."""
        self.compactions = 0
        self.spent: list[float] = []
        """What had been spent after each step."""
        self.refused = ""
        """What the provider said when it refused a request; the program ends there."""

    def play(self, recording: Recording) -> None:
        """Play a whole session."""
        self._tools = [
            {"name": name, "description": DESCRIPTION, "input_schema": {"type": "object"}}
            for name in dict.fromkeys((*recording.tools, *_referenced(recording)))
        ]
        for step in recording.steps:
            self._take(step)
            if self._size + self._unsent() >= self._threshold:
                self._compact()
            self._provider.answer = step.answer
            answer = self._ask(self._messages)
            self._provider.at(step.answered_at)
            if answer is None:
                return
            self._messages.append({"role": "assistant", "content": answer["content"]})
            self._note_reads(answer["content"])
            self.spent.append(self._provider.usd)
            usage = Usage.of(answer["usage"])
            self._size = usage.prompt + usage.output_tokens

    def _take(self, step: RecordedStep) -> None:
        """Wait as long as was waited then, and take in the results and what the user said."""
        self._provider.at(step.asked_at)
        called = {
            block["id"]
            for message in self._messages[-1:]
            if message["role"] == "assistant"
            for block in message["content"]
            if block["type"] == "tool_use"
        }
        results = [msgspec.json.decode(block.raw) for block in step.results if block.id in called]
        texts = [msgspec.json.decode(block.raw) for block in (*step.user_content, *step.notes)]
        if results or texts:
            self._messages.append({"role": "user", "content": [*results, *texts]})

    def _unsent(self) -> int:
        """Roughly how many tokens wait for the next request."""
        last = self._messages[-1]
        return len(json.dumps(last)) // CHARACTERS if last["role"] == "user" else 0

    def _compact(self) -> None:
        """Ask for a summary behind the whole conversation, and go on with it and the files read last."""
        self.compactions += 1
        instruction = {"role": "user", "content": [{"type": "text", "text": SUMMARISE}]}
        if self._messages[-1]["role"] == "user":
            joined = [*self._messages[-1]["content"], *instruction["content"]]
            asked = [*self._messages[:-1], {"role": "user", "content": joined}]
        else:
            asked = [*self._messages, instruction]
        answer = self._ask(asked)
        if answer is None:
            return
        summary = "".join(block.get("text", "") for block in answer["content"])
        restored = [
            f"<system-reminder>{path} was read before:\n{Path(path).read_text()}</system-reminder>"
            for path in list(self._read)[-FILES:]
        ]
        parts = [f"{CONTINUED}{summary}", *restored]
        self._messages = [{"role": "user", "content": [{"type": "text", "text": part} for part in parts]}]
        self._size = 0

    def _note_reads(self, content: Sequence[Mapping[str, Any]]) -> None:
        for block in content:
            path = path_of(block)
            if path and KINDS.get(block["name"]) == "read":
                self._read.pop(path, None)
                self._read[path] = None

    def _ask(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """The answer of the model; None if it was refused."""
        *before, last = messages
        marked = {**last["content"][-1], "cache_control": {"type": "ephemeral"}}
        body = {
            "model": self._model,
            "max_tokens": MAX_TOKENS,
            "thinking": {"type": "adaptive"},
            "system": [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
            "tools": self._tools,
            "messages": [*before, {**last, "content": [*last["content"][:-1], marked]}],
        }
        raw = json.dumps(body).encode()
        self.bodies.append(blake2b(raw, digest_size=16).digest())
        status, answered = self._door.send(raw)
        if status != OK:
            self.refused = answered.decode()[:300]
            return None
        decoded: dict[str, Any] = json.loads(answered)
        return decoded


class Played(Struct, frozen=True):
    """A session that was played."""

    bill: Bill
    bodies: list[bytes]
    """A hash of each body as the program wrote it."""
    sent: list[bytes]
    """A hash of each body as it was sent."""
    first_change: int | None
    problems: tuple[str, ...]


def played(recording: Recording, profile: Profile, window: int, tokens: int, *, keeps: bool) -> Played:
    """Play a session, alone or below a follower that keeps."""
    provider = ReplayedModel(profile, tokens)
    door = Keeping(provider, window) if keeps else Passing(provider)
    program = ListKeepingProgram(provider, door, profile, window)
    try:
        program.play(recording)
    finally:
        door.close()
    bill = Bill(
        usd=provider.usd,
        own_usd=door.own_usd,
        requests=len(provider.prompts),
        compactions=program.compactions,
        changed=door.changed,
        refused=provider.refused,
        peak=max(provider.prompts, default=0),
        after=tuple(program.spent),
    )
    problems = (*door.problems, *filter(None, [program.refused]))
    return Played(bill, program.bodies, door.sent, door.first_change, problems)


def compared(recording: Recording, model: str, window: int, tokens: int = SUMMARY_TOKENS) -> Compared:
    """Play a session alone and below a follower that keeps."""
    profile = find(model)
    with with_files(recording, profile) as readable:
        alone = played(readable, profile, window, tokens, keeps=False)
        kept = played(readable, profile, window, tokens, keeps=True)
    until = kept.first_change
    same_bytes = kept.sent[:until] == kept.bodies[:until]
    return Compared(recording.name, model, window, alone.bill, kept.bill, same_bytes, kept.problems)


def _referenced(recording: Recording) -> Iterator[str]:
    """The tools that results refer to: a program that searches its tools sends them all, and the provider checks it."""
    for step in recording.steps:
        for result in step.results:
            for part in blocks.result_parts(result):
                if part.kind == "tool_reference":
                    yield msgspec.json.decode(part.raw)["tool_name"]


def path_of(block: Mapping[str, Any]) -> str:
    """The file that a tool call is about; empty if it is about none."""
    arguments = block["input"] if block["type"] == "tool_use" else {}
    return next((str(arguments[name]) for name in PATHS if name in arguments), "")


@contextmanager
def with_files(recording: Recording, profile: Profile) -> Iterator[Recording]:
    """The recording with the paths of files that exist: those that it reads are written, as long as is restored."""
    folder = Path(tempfile.mkdtemp(prefix="sevenfold-bill-"))
    content = of_length("", FILE_TOKENS, profile)

    def readable(block: Mapping[str, Any]) -> Mapping[str, Any]:
        path = path_of(block)
        if not path:
            return block
        digest = blake2b(path.encode(), digest_size=4).hexdigest()
        copied = folder / f"{digest}-{Path(path).name[:80]}"
        copied.write_text(content)
        paths = {name: str(copied) for name in PATHS if name in block["input"]}
        return {**block, "input": {**block["input"], **paths}}

    try:
        steps = (replace(step, answer=tuple(map(readable, step.answer))) for step in recording.steps)
        yield replace(recording, steps=tuple(steps))
    finally:
        shutil.rmtree(folder)


def summary_tokens(path: Path, profile: Profile) -> int:
    """The length of the longest summary in the recording, or the usual one."""
    lengths: list[int] = []
    for line in lines.scan(path):
        entry = entries.read(line.raw)
        if isinstance(entry, Said) and entry.summary:
            lengths.append(Counter().text(text_of(entry.blocks), profile.tokenizer))
    return max(lengths, default=SUMMARY_TOKENS)


def from_file(path: Path, model: str, window: int) -> Compared:
    """Play the session in a file."""
    return compared(read(path), model, window, summary_tokens(path, find(model)))


def from_seed(seed: int, model: str, window: int) -> Compared:
    """Play a random session."""
    return compared(policies.drawn(seed), model, window)


def measure(
    folder: Path | None,
    models: Sequence[str],
    windows: Sequence[int],
    seed: int | None = None,
    jobs: int = 1,
) -> Iterator[Compared]:
    """Play all sessions of a folder, or random ones, with every model in every window; gives each when it is done."""
    play: Callable[..., Compared] = from_file if seed is None else from_seed
    sessions: Sequence[Any] = policies.sessions(folder) if seed is None and folder is not None else ()
    if seed is not None:
        sessions = range(seed, seed + policies.DRAWN)
    cases = [(session, model, window) for session in sessions for model in models for window in windows]
    with ProcessPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(play, *case) for case in cases]):
            yield done.result()


def bars(rows: Sequence[Compared]) -> list[tuple[str, float, bool]]:
    """The acceptance bars: (name, figure, met)."""
    fired = [row for row in rows if row.alone.compactions]
    total = sum(row.kept.usd for row in fired) / sum(row.alone.usd for row in fired) if fired else 0.0
    worst = max((row.share for row in rows), default=0.0)
    altered = sum(not row.same_bytes for row in rows)
    failed = sum(row.kept.refused + len(row.problems) for row in rows)
    return [
        (
            f"bill below the gateway / alone, {len(fired)} sessions that compact",
            total,
            0 < total <= MOST_TOTAL,
        ),
        (f"the same, worst of {len(rows)}", worst, 0 < worst <= MOST_EACH),
        ("sessions with other bytes where nothing was done", altered, not altered),
        ("requests refused, or not prepared", failed, not failed),
    ]


HEADINGS = (
    f"{'session':14}{'model':20}{'window':>9}{'alone':>9}{'compacted':>10}{'kept':>9}{'own':>8}{'share':>7}"
    f"{'changed':>9}{'requests':>10}{'compacted':>10}{'peak':>9}{'worst end':>11}{'above':>7}"
)


def show(row: Compared) -> None:
    """Print a session's bills."""
    alone = row.alone
    kept = row.kept
    above = sum(share > MOST_EACH for share in row.shares) / max(len(row.shares), 1)
    print(
        f"{row.name[:12]:14}{row.model:20}{row.window:>9,}{alone.usd:>9.3f}{alone.compactions:>10}{kept.usd:>9.3f}"
        f"{kept.own_usd:>8.3f}{row.share:>7.3f}{kept.changed:>9}{kept.requests:>10}{kept.compactions:>10}"
        f"{kept.peak:>9,}{max(row.shares, default=0.0):>11.3f}{above:>7.3f}",
        flush=True,
    )
    for problem in row.problems[:3]:
        print(f"    {problem}")


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return exit status 0 if all bars are met, 1 if not, 2 if there is no such folder."""
    parser = argparse.ArgumentParser(description="What a gateway that keeps costs.")
    parser.add_argument("folder", nargs="?", type=Path, default=policies.CORPUS)
    parser.add_argument("--drawn", type=int, metavar="SEED", help="random sessions instead")
    parser.add_argument("--model", action="append", help=f"default: {', '.join(policies.MODELS)}")
    parser.add_argument("--window", action="append", type=int, help="default: 200000 and 100000")
    parser.add_argument("--jobs", type=int, default=1, help="processes, default 1")
    options = parser.parse_args(arguments)
    if options.drawn is None and not options.folder.is_dir():
        print(f"There is no folder {options.folder}: name one that holds transcripts.", file=sys.stderr)
        return 2
    print(HEADINGS)
    rows: list[Compared] = []
    for row in measure(
        options.folder,
        options.model or policies.MODELS,
        options.window or WINDOWS,
        options.drawn,
        options.jobs,
    ):
        show(row)
        rows.append(row)
    judged = bars(rows)
    for name, figure, is_met in judged:
        print(f"{'pass' if is_met else 'FAIL'}  {name}: {figure:.4f}")
    return 0 if all(is_met for *_, is_met in judged) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
