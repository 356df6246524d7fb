"""Sessions in PostgreSQL under fire: workers are killed and frozen, and then the tables are compared with a bill.

    python bench/fire.py [--sessions N] [--questions N] [--workers N] [--kills N] [--freezes N] [--unfenced] [--seed N]
                         [--broker] [--broker-kills N] [--relaxed]

A judge hands out questions, one after the other for each session. Workers open the session, put the question, call a
tool, record the answer and acknowledge it. The judge plays the provider over HTTP, too, and keeps the bill: every
answer that it sells has a number of its own, so an answer that is recorded twice or not at all shows. Bill and
acknowledgements are kept here, outside of everything that is tested, and the lines are read with SQL.

A worker is killed with SIGKILL at a random moment, and another process takes its place. A freeze is a SIGSTOP: some hit
a worker that waits for an answer, which is then there when it wakes, others come at a random moment. Its sessions are
given to other workers, which wait until its lease has expired. It wakes when they have acknowledged its questions.

With `--broker`, the workers' calls go through `sevenfold gateway --broker`, in a process of its own that is not killed:
then no call may be paid for twice. With `--broker-kills`, that process is killed, too, and another one takes its port.

With `--relaxed`, appends do not wait for the disk, and the records of requests not for answers (``forced=no``).

`--unfenced` takes the fencing number out of the statements: a writer then trusts its lease. That run has to fail.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import psycopg
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.servers.postgres import APP, OWNER, PostgresServer  # noqa: E402  # needs the path above
from sevenfold.wire.messages_events import message_events  # noqa: E402

THREADS = 4
"""How many sessions a worker has open at a time."""
LEASE = 2.0
GONE = 410
PATIENCE = 90.0
"""The most seconds that a worker is frozen, or that nothing happens."""
MODEL = "claude-sonnet-5-5"
QUESTION = re.compile(r"question (\d+) of (\S+)")
ANSWER = re.compile(r"answer (\d+) to question (\d+)")
NOTES = '<section name="Current State">\nQuestions are being answered.\n</section>'
TOOL_OUTPUT = "nothing of interest here\n" * 150


class Task(Struct, frozen=True):
    """A question of a session."""

    session: str = ""
    question: int = 0


class Verdict(Struct):
    """What came of a run."""

    questions: int = 0
    acknowledged: int = 0
    kills: int = 0
    freezes: int = 0
    overtaken: int = 0
    """How often a writer was refused."""
    calls: int = 0
    """Paid calls of the conversations themselves."""
    own_calls: int = 0
    """Paid calls of the engine: notes."""
    in_hand: int = 0
    """The questions that killed and frozen workers had in hand: each may cost one repeated call."""
    broker_kills: int = 0
    in_broker: int = 0
    """The calls that brokers had under way, or kept, when they were killed: each may cost one repeated call."""
    tools: int = 0
    faults: list[str] = msgspec.field(default_factory=list)
    seconds: float = 0.0

    @property
    def repeated(self) -> int:
        """How many calls were paid for more than once."""
        return self.calls - 2 * self.questions

    def __str__(self) -> str:
        return (
            f"{self.acknowledged:,} of {self.questions:,} questions answered, {self.kills} kills, "
            f"{self.freezes} freezes, {self.overtaken} refused writers, {self.repeated} repeated of {self.calls:,} "
            f"paid calls ({self.in_hand} in hand), "
            f"{self.broker_kills} brokers killed ({self.in_broker} in hand), "
            f"{self.own_calls:,} calls for notes, {self.tools:,} tool calls, "
            f"{len(self.faults)} faults, {self.seconds:.0f} s"
        )


# -- the judge -------------------------------------------------------------------------------------


class Judge:
    """Hands out questions, sells answers, keeps the books, kills and freezes."""

    def __init__(
        self,
        sessions: int,
        questions: int,
        kills: int,
        freezes: int,
        seed: int,
        *,
        surprises: float,
        broker_kills: int = 0,
    ) -> None:
        """``surprises`` is the share of freezes that come at a random moment."""
        self._surprises = surprises
        self.chance = random.Random(seed)
        self.verdict = Verdict(questions=sessions * questions)
        self.answers: dict[Task, str] = {}
        """What was acknowledged."""
        self.changed = threading.Condition()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.frozen: set[str] = set()
        self._questions = questions
        self._waiting = deque(Task(f"s{number}", 0) for number in range(sessions))
        self._held: dict[str, set[Task]] = {}
        """The questions that each worker has in hand."""
        self._sold = count()
        total = sessions * questions
        strikes = ["kill"] * kills + ["freeze"] * freezes + ["broker"] * broker_kills
        self.chance.shuffle(strikes)
        # Each after so many acknowledgements, evenly over the run but for its end, where others must still be at work.
        self.strikes = deque(
            (1 + number * max(1, total * 4 // 5) // max(1, len(strikes)), strike)
            for number, strike in enumerate(strikes)
        )
        self.broker: BrokerProcess | None = None
        self._ambushes = 0
        """How many freezes are to hit a worker that waits for an answer."""

    @property
    def done(self) -> bool:
        """Whether all questions are answered."""
        return len(self.answers) == self.verdict.questions

    # What workers ask for

    def next_task(self, worker: str) -> Task | None:
        """A question for a worker; None if there is none at the moment."""
        with self.changed:
            # What a frozen worker asked for just before would be its until it wakes.
            if not self._waiting or worker in self.frozen:
                return None
            task = self._waiting.popleft()
            self._held.setdefault(worker, set()).add(task)
            return task

    def acknowledge(self, worker: str, task: Task, answer: str) -> None:
        """Note that a worker has recorded an answer."""
        with self.changed:
            self._held.get(worker, set()).discard(task)
            before = self.answers.setdefault(task, answer)
            if before != answer:
                self.verdict.faults.append(f"{task}: acknowledged twice, as {before!r} and as {answer!r}")
            elif task.question + 1 < self._questions and self._is_new(task):
                self._waiting.append(Task(task.session, task.question + 1))
            self.changed.notify_all()

    def _is_new(self, task: Task) -> bool:
        following = Task(task.session, task.question + 1)
        held = set().union(*self._held.values()) if self._held else set()
        return following not in self.answers and following not in held and following not in self._waiting

    def refused(self, worker: str, task: Task) -> None:
        """Note that a writer was refused; its question has been given to another one."""
        with self.changed:
            self._held.get(worker, set()).discard(task)
            self.verdict.overtaken += 1

    def sell(self, worker: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The content of an answer, which is put on the bill."""
        with self.changed:
            blocks = _blocks(body["messages"][-1])
            asked = next(
                (found for block in blocks if (found := QUESTION.fullmatch(block.get("text", "")))), None
            )
            answered = any(block["type"] == "tool_result" for block in blocks)
            if asked is None and not answered:
                self.verdict.own_calls += 1
                return [{"type": "text", "text": NOTES}]
            self.verdict.calls += 1
            number = next(self._sold)
            if asked is not None:
                content = [{"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {}}]
            else:
                question = _last_question(body["messages"])
                content = [{"type": "text", "text": f"answer {number} to question {question}"}]
            awake = worker in self.processes and worker not in self.frozen
            if self._ambushes and awake and len(self.frozen) + 1 < len(self.processes):
                self._ambushes -= 1
                self._freeze(worker)
            return content

    # Kills and freezes

    def strike(self) -> None:
        """Carry out what is due by now."""
        with self.changed:
            while self.strikes and self.strikes[0][0] <= len(self.answers):
                _, how = self.strikes.popleft()
                if how == "broker":
                    assert self.broker is not None
                    self.verdict.in_broker += sum(map(len, self._held.values()))
                    self.verdict.broker_kills += 1
                    self.broker.kill()
                    continue
                awake = [name for name in self.processes if name not in self.frozen]
                victim = self.chance.choice(sorted(awake))
                if how == "kill":
                    self.processes[victim].kill()
                    self.verdict.kills += 1
                elif self.chance.random() < self._surprises and len(awake) > 1:
                    self._freeze(victim)
                else:
                    self._ambushes += 1

    def take_back(self, worker: str) -> set[Task]:
        """Give the questions of a worker that was killed or frozen to others."""
        with self.changed:
            tasks = {task for task in self._held.pop(worker, set()) if task not in self.answers}
            self.verdict.in_hand += len(tasks)
            self._waiting.extendleft(tasks)
            return tasks

    def _freeze(self, worker: str) -> None:
        process = self.processes[worker]
        process.send_signal(signal.SIGSTOP)
        self.frozen.add(worker)
        self.verdict.freezes += 1
        tasks = self.take_back(worker)

        def wake() -> None:
            with self.changed:
                self.changed.wait_for(lambda: all(task in self.answers for task in tasks), PATIENCE)
            if not tasks:
                time.sleep(LEASE)
            with self.changed:
                self.frozen.discard(worker)
                process.send_signal(signal.SIGCONT)

        threading.Thread(target=wake, daemon=True).start()


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _last_question(messages: Sequence[dict[str, Any]]) -> int:
    for message in reversed(messages):
        for block in _blocks(message):
            if asked := QUESTION.fullmatch(block.get("text", "")):
                return int(asked[1])
    raise ValueError("nobody asked anything")


def _message(content: list[dict[str, Any]], body: dict[str, Any]) -> dict[str, Any]:
    calls = any(block["type"] == "tool_use" for block in content)
    return {
        "id": f"msg_{os.urandom(8).hex()}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 20},
    }


def handler(judge: Judge) -> type[BaseHTTPRequestHandler]:
    """The judge's HTTP server: the provider, and what workers tell it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            if not raw:  # it was killed in the middle of the request
                self.close_connection = True
                return
            body = json.loads(raw)
            worker = self.headers["x-worker"]
            if not self.path.startswith("/v1/messages"):
                self._send(msgspec.json.encode(self._answer(worker, body)), "application/json")
                return
            message = _message(judge.sell(worker, body), body)
            if body.get("stream"):
                self._send(b"".join(message_events(message, 1000)), "text/event-stream")
            else:
                self._send(msgspec.json.encode(message), "application/json")

        def _answer(self, worker: str, body: dict[str, Any]) -> object:
            task = Task(body.get("session", ""), body.get("question", 0))
            match self.path:
                case "/task":
                    return {"task": judge.next_task(worker), "done": judge.done}
                case "/tool":
                    with judge.changed:
                        judge.verdict.tools += 1
                    return {"output": TOOL_OUTPUT}
                case "/acknowledge":
                    judge.acknowledge(worker, task, body["answer"])
                case "/refused":
                    judge.refused(worker, task)
                case "/failed":
                    with judge.changed:
                        judge.verdict.faults.append(f"{task}: {body['error']}")
            return {}

        def _send(self, content: bytes, kind: str) -> None:
            try:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:  # it was killed
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return Handler


class Server(ThreadingHTTPServer):
    """A server whose clients are killed now and then."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what is not the end of a client."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def listening(judge: Judge) -> Iterator[str]:
    """Serve a judge; gives the address."""
    server = Server(("127.0.0.1", 0), handler(judge))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class BrokerProcess:
    """The gateway that holds the workers' calls; whoever kills it starts another one on its port."""

    def __init__(self, upstream: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._home = tempfile.mkdtemp(prefix="sf-broker-")
        self._upstream = upstream
        self._process = self._started()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._port}"

    def kill(self) -> None:
        """Kill it, and start another one."""
        self._process.kill()
        self._process.wait()
        self._process = self._started()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "sevenfold", "gateway", "--broker", "--port", str(self._port)]
        process = subprocess.Popen(
            [*command, "--upstream", self._upstream],
            stdout=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._home},
            cwd=self._home,
        )
        until = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError as error:
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("the gateway does not answer") from error
                time.sleep(0.05)
            else:
                return process


# -- the worker ------------------------------------------------------------------------------------


class Worker:
    """Answers questions until there are no more."""

    def __init__(self, name: str, judge: str, url: str, broker: str = "") -> None:
        import anthropic

        import sevenfold
        from sevenfold.stores.postgres.store import PostgresStore

        self.name = name
        self.judge = judge
        self.store = PostgresStore.at(url)
        self.client = anthropic.Anthropic(
            api_key="simulated-key",
            base_url=broker or judge,
            # While a broker is being replaced, the same call is made again.
            max_retries=20 if broker else 0,
            default_headers={"x-worker": name},
        )
        self.brokered = bool(broker)
        self.tool = sevenfold.tool(
            {"name": "Read", "description": "Read.", "input_schema": {"type": "object"}}, kind="read"
        )
        self.folder = tempfile.mkdtemp(prefix="sf-fire-")

    def tell(self, what: str, **fields: Any) -> dict[str, Any]:
        """Tell or ask the judge something."""
        headers = {"x-worker": self.name, "content-type": "application/json"}
        with urlopen(Request(f"{self.judge}/{what}", json.dumps(fields).encode(), headers)) as answer:
            told: dict[str, Any] = json.load(answer)
            return told

    def run(self) -> None:
        """Work in several threads until the judge says that all is done."""
        with ThreadPoolExecutor(THREADS) as threads:
            for future in [threads.submit(self._loop) for _ in range(THREADS)]:
                future.result()
        self.store.close()

    def _loop(self) -> None:
        from sevenfold.errors import TranscriptOvertaken

        while True:
            told = self.tell("task")
            if told["done"]:
                return
            if told["task"] is None:
                time.sleep(0.05)
                continue
            task = told["task"]
            try:
                self._work(**task)
            except TranscriptOvertaken:
                self.tell("refused", **task)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is a fault that the judge has to know)
                self.tell("failed", **task, error=repr(error))

    def _work(self, session: str, question: int) -> None:
        import sevenfold

        opened = sevenfold.Session.open(
            session,
            model=MODEL,
            store=self.store,
            folder=self.folder,
            client=self.client,
            tools=[self.tool],
            max_tokens=1_000,
            settings={"context_window": 30_000, "broker": self.brokered},
            lock_wait=PATIENCE,
        )
        with opened:
            asked = opened.user(f"question {question} of {session}", key=f"question {question}")
            while True:
                items = opened.conversation.transcript.view.items
                last = items[-1].record
                if last.role == "assistant" and not last.calls:
                    # Who was frozen before it opened the session finds later questions answered as well.
                    since = [item.record.uuid for item in items].index(asked)
                    answers = (item.record for item in items[since:] if item.record.role == "assistant")
                    last = next(said for said in answers if not said.calls)
                    break
                if last.calls:
                    opened.tool_results(
                        {call: self.tell("tool", session=session)["output"] for call in last.calls}
                    )
                    continue
                request = opened.prepare()
                opened.observe(self._asked(request))
            answer = "".join(json.loads(block.raw)["text"] for block in last.blocks if block.kind == "text")
            self.tell("acknowledge", session=session, question=question, answer=answer)

    def _asked(self, request: Mapping[str, Any]) -> Any:
        """The answer of the provider; raises `TranscriptOvertaken` if the broker knows that another worker has it."""
        import anthropic

        from sevenfold.errors import TranscriptOvertaken

        try:
            return self.client.messages.create(**request)
        except anthropic.APIStatusError as error:
            if error.status_code == GONE:
                raise TranscriptOvertaken(str(error)) from error
            raise


def remove_fence() -> None:
    """Let writers trust their leases: they append at the end of the log, whoever has it."""
    from sevenfold.stores.postgres import database
    from sevenfold.stores.postgres.log import PostgresLog

    fenced = database.statement
    append = PostgresLog.append

    def unfenced(name: str) -> bytes:
        text = fenced(name)
        condition = b" AND fence = %(fence)s AND size = %(at)s"
        if name in ("append", "append line") and condition not in text:
            raise RuntimeError("the statement for appending has changed; nothing was taken out of it")
        return text.replace(condition, b"").replace(
            b"WHERE %(writer)s::bigint IS NULL OR", b"WHERE true OR"
        )

    def append_at_end(self: Any, lines: Sequence[bytes], *, durable: bool = False) -> Sequence[int]:
        self._size = self._state()[1]
        return append(self, lines, durable=durable)

    database.statement = unfenced  # type: ignore[assignment]
    PostgresLog.append = append_at_end  # type: ignore[method-assign]
    PostgresLog.renew = lambda self: None  # type: ignore[method-assign]


# -- the run ---------------------------------------------------------------------------------------


def run(
    *,
    sessions: int = 1_000,
    questions: int = 3,
    workers: int = 4,
    kills: int = 30,
    freezes: int = 30,
    unfenced: bool = False,
    relaxed: bool = False,
    seed: int = 1,
    surprises: float = 0.5,
    broker: bool = False,
    broker_kills: int = 0,
) -> Verdict:
    """Let workers answer all questions under fire, and judge what is in the tables then."""
    judge = Judge(sessions, questions, kills, freezes, seed, surprises=surprises, broker_kills=broker_kills)
    began = time.monotonic()
    with PostgresServer() as server, listening(judge) as address:
        from sevenfold.stores.postgres.database import migrate

        migrate(server.url(OWNER))
        server.grant()
        forced = "no" if relaxed else "yes"
        url = server.url(APP, tenant="fire", lease=str(LEASE), forced=forced)
        names = (f"w{number}" for number in count())
        command = [
            sys.executable,
            __file__,
            "--judge",
            address,
            "--url",
            url,
            *(["--unfenced"] if unfenced else []),
        ]
        if broker or broker_kills:
            judge.broker = BrokerProcess(address)
            command += ["--broker-url", judge.broker.url]

        def start() -> None:
            name = next(names)
            judge.processes[name] = subprocess.Popen([*command, "--worker", name])

        for _ in range(workers):
            start()
        try:
            _keep_working(judge, start)
        finally:
            for process in judge.processes.values():
                process.send_signal(signal.SIGCONT)
                if not judge.done:
                    process.kill()
                process.wait(PATIENCE)
            if judge.broker is not None:
                judge.broker.close()
        _inspect(judge, server.url(OWNER))
    judge.verdict.acknowledged = len(judge.answers)
    judge.verdict.seconds = time.monotonic() - began
    return judge.verdict


def _keep_working(judge: Judge, start: Any) -> None:
    """Strike when it is time, and replace workers that were killed."""
    moved = time.monotonic()
    answered = 0
    while not judge.done or judge.frozen:
        with judge.changed:
            judge.changed.wait(judge.chance.random() * 0.2)
        judge.strike()
        with judge.changed:
            gone = [name for name, process in judge.processes.items() if process.poll() is not None]
            for name in gone if not judge.done else ():
                del judge.processes[name]
                judge.take_back(name)
                start()
        if len(judge.answers) > answered:
            answered = len(judge.answers)
            moved = time.monotonic()
        elif time.monotonic() - moved > PATIENCE * 2:
            judge.verdict.faults.append("nothing has happened for too long")
            return


def _inspect(judge: Judge, url: str) -> None:
    """Compare the lines in the tables with what was acknowledged."""
    expected: dict[str, list[tuple[str, int]]] = {}
    for task in sorted(judge.answers, key=lambda task: (task.session, task.question)):
        steps = [(step, task.question) for step in ("question", "call", "result", "answer")]
        expected.setdefault(task.session, []).extend(steps)
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT session, raw FROM sevenfold.line JOIN sevenfold.log ON log.id = line.log"
            " WHERE branch = '' ORDER BY session, position"
        )
        lines: dict[str, list[dict[str, Any]]] = {}
        for session, raw in rows:
            lines.setdefault(str(session), []).append(json.loads(raw))
    for session, steps in expected.items():
        problem = _problem(session, lines.get(session, []), steps, judge.answers)
        if problem:
            judge.verdict.faults.append(f"{session}: {problem}")


def _problem(
    session: str, lines: list[dict[str, Any]], expected: list[tuple[str, int]], answers: dict[Task, str]
) -> str:
    """What is wrong with a session's lines; empty if all is as it should be."""
    steps: list[tuple[str, int]] = []
    question, last = -1, None
    for line in lines:
        if line["type"] not in ("user", "assistant"):
            continue
        if line["parentUuid"] != last:
            return f"record {line['uuid']} does not follow the record before it"
        last = line["uuid"]
        for block in _blocks(line["message"]):
            text = block.get("text", "")
            if block["type"] == "tool_use":
                steps.append(("call", question))
            elif block["type"] == "tool_result":
                steps.append(("result", question))
            elif asked := QUESTION.fullmatch(text):
                question = int(asked[1])
                steps.append(("question", question))
            elif ANSWER.fullmatch(text):
                steps.append(("answer", question))
                if answers[Task(session, question)] != text:
                    return f"{text!r} is there, and {answers[Task(session, question)]!r} was acknowledged"
    if steps != expected:
        twice = [step for step, times in Counter(steps).items() if times > 1]
        missing = [step for step in expected if step not in steps]
        return (
            f"twice: {twice}, missing: {missing}, in order: {[step for step in steps if step in expected]}"[
                :300
            ]
        )
    return ""


def main() -> int:
    """Run one, or be one of its workers."""
    parser = argparse.ArgumentParser()
    for name, number in {
        "sessions": 1_000,
        "questions": 3,
        "workers": 4,
        "kills": 30,
        "freezes": 30,
        "seed": 1,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--broker-kills", type=int, default=0)
    for name in ("unfenced", "broker", "relaxed"):
        parser.add_argument(f"--{name}", action="store_true")
    for name in ("worker", "judge", "url", "broker-url"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    given = vars(parser.parse_args())
    worker, judge, url, address = (given.pop(name) for name in ("worker", "judge", "url", "broker_url"))
    if worker:
        if given["unfenced"]:
            remove_fence()
        Worker(worker, judge, url, address or "").run()
        return 0
    verdict = run(**given)
    print(verdict)
    for fault in verdict.faults[:20]:
        print(" ", fault)
    return bool(verdict.faults)


if __name__ == "__main__":
    sys.exit(main())
