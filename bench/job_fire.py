"""Jobs under fire: workers are killed, ended and frozen, and then sessions and jobs are compared with a bill.

    python bench/job_fire.py [--sessions N] [--questions N] [--workers N] [--kills N] [--ends N] [--freezes N]
                             [--without key|fence] [--seed N]

Each question of a session is a job that runs an agent; several submitters submit each job with the same key. Workers
are real processes of `sevenfold work`. The judge plays the provider over HTTP and keeps the bill: every answer that it
sells has a number of its own. Sessions and jobs are read with SQL, without the code under test.

A kill is a SIGKILL, an end a SIGTERM; both hit a worker that waits for an answer. A freeze is a SIGSTOP that lasts
until another worker can have taken over; the frozen one finds its answer when it wakes.

`--without key` runs agents without the key of their job, `--without fence` takes the fencing numbers out of all
statements of sessions and jobs. Both runs have to fail.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.fire import Server, remove_fence  # noqa: E402  # needs the path above
from bench.servers.postgres import APP, OWNER, PostgresServer  # noqa: E402
from sevenfold.wire.messages_events import message_events  # noqa: E402

AT_ONCE = 4
"""How many jobs a worker carries out at once."""
LEASE = 1.0
PRESUMED_DEAD = 2.0
PATIENCE = 60.0
"""The most seconds that nothing happens, or that a worker is frozen."""
MODEL = "claude-sonnet-5-5"
QUESTION = re.compile(r"question (\d+) of (\S+)")
ANSWER = re.compile(r"answer (\d+) to question (\d+) of (\S+)")


class Verdict(Struct):
    """What came of a run."""

    jobs: int = 0
    done: int = 0
    """How many jobs succeeded with the answer that their session has."""
    kills: int = 0
    ends: int = 0
    freezes: int = 0
    calls: int = 0
    """Paid calls."""
    ended_badly: int = 0
    """How many workers that were told to end did not hand over everything."""
    faults: list[str] = msgspec.field(default_factory=list)
    seconds: float = 0.0

    @property
    def repeated(self) -> int:
        """How many calls were paid for more than once."""
        return self.calls - 2 * self.jobs

    @property
    def in_hand(self) -> int:
        """How many calls killed and frozen workers may have had under way."""
        return AT_ONCE * (self.kills + self.freezes)

    def __str__(self) -> str:
        return (
            f"{self.done:,} of {self.jobs:,} jobs done, {self.kills} kills, {self.ends} ends, {self.freezes} freezes, "
            f"{self.repeated} repeated of {self.calls:,} paid calls, {self.ended_badly} workers ended badly, "
            f"{len(self.faults)} faults, {self.seconds:.0f} s"
        )


# -- the judge -------------------------------------------------------------------------------------


class Judge:
    """Sells answers, keeps the bill, and strikes workers that wait for one."""

    def __init__(self, jobs: int, strikes: list[str], seed: int) -> None:
        self.verdict = Verdict(jobs=jobs)
        self.changed = threading.Condition()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.answers: dict[tuple[str, int], set[str]] = {}
        """The answers that were sold to each question."""
        self.ending: set[str] = set()
        """The workers that were told to end."""
        self.frozen: set[str] = set()
        self._chance = random.Random(seed)
        self._sold = count()
        self._chance.shuffle(strikes)
        # Evenly over the run but for its end, where others must still be at work.
        step = max(1, jobs * 3 // 4) // max(1, len(strikes))
        self._strikes = deque((1 + number * step, strike) for number, strike in enumerate(strikes))

    def sell(self, worker: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The content of an answer, which is put on the bill; now and then its buyer is struck first."""
        blocks = _blocks(body["messages"][-1])
        answered = any(block["type"] == "tool_result" for block in blocks)
        session, question = _last_question(body["messages"])
        # A model takes its time, so that several jobs are under way.
        time.sleep(self._chance.random() * 0.1)
        with self.changed:
            self.verdict.calls += 1
            number = next(self._sold)
            # Only now is there something in the session that could be doubled.
            if answered and self._strikes and self._strikes[0][0] <= len(self.answers):
                self._strike(worker)
            if not answered:
                return [{"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}]
            text = f"answer {number} to question {question} of {session}"
            self.answers.setdefault((session, question), set()).add(text)
            self.changed.notify_all()
            return [{"type": "text", "text": text}]

    def _strike(self, worker: str) -> None:
        if worker not in self._awake:
            return
        _, strike = self._strikes.popleft()
        if strike == "freeze":
            # Somebody else has to be there to take over, such as the one that takes the place of another victim.
            self.changed.wait_for(lambda: len(self._awake) > 1, PATIENCE)
            if worker not in self._awake:
                self._strikes.appendleft((0, strike))
                return
        process = self.processes[worker]
        if strike == "kill":
            process.kill()
            self.verdict.kills += 1
        elif strike == "end":
            self.ending.add(worker)
            process.terminate()
            self.verdict.ends += 1
        else:
            self.frozen.add(worker)
            process.send_signal(signal.SIGSTOP)
            self.verdict.freezes += 1

    @property
    def _awake(self) -> set[str]:
        """The workers that work."""
        return set(self.processes) - self.ending - self.frozen

    @property
    def struck_all(self) -> bool:
        """Whether there are no strikes left."""
        return not self._strikes


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _last_question(messages: list[dict[str, Any]]) -> tuple[str, int]:
    for message in reversed(messages):
        for block in reversed(_blocks(message)):
            if asked := QUESTION.fullmatch(block.get("text", "")):
                return asked[2], int(asked[1])
    raise ValueError("nobody asked anything")


def handler(judge: Judge) -> type[BaseHTTPRequestHandler]:
    """The judge's HTTP server: the provider."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            if not raw:  # it was killed in the middle of the request
                self.close_connection = True
                return
            body = json.loads(raw)
            content = judge.sell(self.headers["x-worker"], body)
            message = {
                "id": f"msg_{os.urandom(8).hex()}",
                "type": "message",
                "role": "assistant",
                "model": body["model"],
                "content": content,
                "stop_reason": "tool_use" if content[0]["type"] == "tool_use" else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": len(raw) // 4, "output_tokens": 20},
            }
            if body.get("stream"):
                self._send(b"".join(message_events(message, 1000)), "text/event-stream")
            else:
                self._send(msgspec.json.encode(message), "application/json")

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


@contextmanager
def listening(judge: Judge) -> Iterator[str]:
    """Serve a judge; gives the address."""
    server = Server(("127.0.0.1", 0), handler(judge))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# -- what workers run ------------------------------------------------------------------------------


def answerer(**options: Any) -> Any:
    """The agent of all sessions: its model is the judge."""
    import anthropic

    import sevenfold

    def look() -> str:
        """Look."""
        return "nothing of interest here"

    client = anthropic.Anthropic(
        api_key="simulated-key",
        base_url=os.environ["JOB_FIRE_JUDGE"],
        max_retries=0,
        default_headers={"x-worker": os.environ["JOB_FIRE_WORKER"]},
    )
    return sevenfold.Agent(
        MODEL,
        tools=[look],
        mode="autonomous",
        system="Answer.",
        memory=False,
        client=client,
        settings={"notes": False},
        **options,
    )


def without_key(**options: Any) -> Any:
    """The same agent, which does not know the key of its run."""
    agent = answerer(**options)
    stream = agent.stream
    agent.stream = lambda prompt, key="": stream(prompt)
    return agent


def without_fence(**options: Any) -> Any:
    """The same agent, in a process whose statements know no fencing numbers."""
    return answerer(**options)


def remove_all_fences() -> None:
    """Let a worker record what it likes about sessions and jobs, whoever has them."""
    from sevenfold.work.postgres import queue, steps, tables

    remove_fence()
    fenced = tables.statement

    def unfenced(name: str) -> bytes:
        return fenced(name).replace(b" AND fence = %(fence)s AND status = 'running'", b"")

    steps.statement = unfenced  # type: ignore[assignment,attr-defined]
    queue._FINISH = queue._FINISH.replace(" AND worker_id = %(worker_id)s AND attempts = %(attempts)s", "")


# -- the run ---------------------------------------------------------------------------------------


def run(
    *,
    sessions: int = 50,
    questions: int = 4,
    workers: int = 4,
    kills: int = 10,
    ends: int = 10,
    freezes: int = 5,
    without: str = "",
    seed: int = 1,
) -> Verdict:
    """Let workers carry out all jobs under fire, and judge what is in the tables then."""
    from sevenfold.work.postgres.tables import migrate

    judge = Judge(sessions * questions, ["kill"] * kills + ["end"] * ends + ["freeze"] * freezes, seed)
    began = time.monotonic()
    with PostgresServer() as server, listening(judge) as address:
        migrate(server.url(OWNER))
        server.grant()
        url = server.url(APP, lease=str(LEASE))
        workforce = Workforce(judge, address, url, without)
        try:
            for _ in range(workers):
                workforce.start()
            submitters = [
                threading.Thread(target=submit, args=(url, sessions, questions)) for _ in range(2)
            ]
            for submitter in submitters:
                submitter.start()
            for submitter in submitters:
                submitter.join()
            workforce.oversee(server.url(OWNER))
            # Once more, when all is done: nothing happens.
            calls = judge.verdict.calls
            submit(url, sessions, questions)
            inspect(judge, server.url(OWNER), sessions, questions)
            if judge.verdict.calls != calls:
                judge.verdict.faults.append("keys that had ended were carried out again")
        finally:
            workforce.end()
    judge.verdict.seconds = time.monotonic() - began
    return judge.verdict


def submit(url: str, sessions: int, questions: int) -> None:
    """Submit all jobs."""
    import sevenfold

    with sevenfold.open_jobs(url) as jobs:
        for question in range(questions):
            for session in range(sessions):
                sevenfold.Agent.submit(
                    f"question {question} of s{session}",
                    agent="answerer",
                    session=f"s{session}",
                    key=f"s{session}/{question}",
                    attempts=1_000,
                    jobs=jobs,
                )


class Workforce:
    """The workers, and others in their place when they are gone."""

    def __init__(self, judge: Judge, address: str, url: str, without: str) -> None:
        self._judge = judge
        self._address = address
        self._url = url
        self._without = without
        self._names = (f"w{number}" for number in count())

    def start(self) -> None:
        """Start a worker."""
        name = next(self._names)
        function = f"without_{self._without}" if self._without else "answerer"
        script = "from sevenfold.__main__ import main; main()"
        if self._without == "fence":
            script = f"from bench.job_fire import remove_all_fences; remove_all_fences(); {script}"
        command = [
            *(sys.executable, "-c", script, "work", "--store", self._url),
            *("--agent", f"answerer=bench.job_fire:{function}", "--at-once", str(AT_ONCE)),
            *("--presumed-dead", str(PRESUMED_DEAD), "--grace", "20"),
        ]
        environment = {
            **os.environ,
            "JOB_FIRE_JUDGE": self._address,
            "JOB_FIRE_WORKER": name,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }
        with self._judge.changed:
            self._judge.processes[name] = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def oversee(self, database: str) -> None:
        """Replace workers that are gone and wake frozen ones, until all jobs have ended."""
        judge = self._judge
        moved = time.monotonic()
        ended = -1
        thawing: dict[str, float] = {}
        while True:
            time.sleep(0.05)
            over, total = _progress(database)
            with judge.changed:
                for name, process in list(judge.processes.items()):
                    if process.poll() is not None:
                        if name in judge.ending and process.returncode != 0:
                            judge.verdict.ended_badly += 1
                        del judge.processes[name]
                        self.start()
                        judge.changed.notify_all()
                for name in judge.frozen - thawing.keys():
                    thawing[name] = time.monotonic() + PRESUMED_DEAD * 2.5
                for name, at in list(thawing.items()):
                    if time.monotonic() > at or over == total:
                        judge.frozen.discard(name)
                        del thawing[name]
                        if name in judge.processes:
                            judge.processes[name].send_signal(signal.SIGCONT)
                quiet = judge.struck_all and not judge.frozen and not judge.ending & judge.processes.keys()
            if over == total and (quiet or not judge.frozen):
                return
            if over > ended:
                ended = over
                moved = time.monotonic()
            elif time.monotonic() - moved > PATIENCE:
                judge.verdict.faults.append("nothing has happened for too long")
                return

    def end(self) -> None:
        """End all workers and wait for them."""
        for process in self._judge.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._judge.processes.values():
            with process:
                try:
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    self._judge.verdict.faults.append("a worker did not end")


def _progress(database: str) -> tuple[int, int]:
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "SELECT count(*) FILTER (WHERE status NOT IN ('waiting', 'running')), count(*) FROM sevenfold.job"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def inspect(judge: Judge, database: str, sessions: int, questions: int) -> None:
    """Compare the sessions and the jobs with the bill."""
    faults = judge.verdict.faults
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "SELECT session, raw FROM sevenfold.line JOIN sevenfold.log ON log.id = line.log ORDER BY session, position"
        ).fetchall()
        jobs = connection.execute("SELECT key, status, result, error FROM sevenfold.job").fetchall()
        left = connection.execute("SELECT count(*) FROM sevenfold.procrastinate_jobs").fetchone()
    lines: dict[str, list[dict[str, Any]]] = {}
    for session, raw in rows:
        lines.setdefault(str(session), []).append(json.loads(raw))
    recorded: dict[tuple[str, int], str] = {}
    for number in range(sessions):
        session = f"s{number}"
        steps = list(_steps(lines.get(session, []), recorded))
        wanted = [
            (step, at) for at in range(questions) for step in ("question", "call", "result", "answer")
        ]
        if steps != wanted:
            twice = [step for step, times in Counter(steps).items() if times > 1]
            missing = [step for step in wanted if step not in steps]
            faults.append(f"{session}: twice {twice}, missing {missing}, as it is {steps}"[:300])
    if len(jobs) != sessions * questions:
        faults.append(f"there are {len(jobs)} jobs, and {sessions * questions} keys")
    for key, status, result, error in jobs:
        session, _, question = key.partition("/")
        text = json.loads(result)["text"] if result else error
        sold = judge.answers.get((session, int(question)), set())
        if status == "succeeded" and text in sold and text == recorded.get((session, int(question))):
            judge.verdict.done += 1
        else:
            faults.append(
                f"{key}: {status}, {text!r}; the session has {recorded.get((session, int(question)))!r}"
            )
    if left and left[0]:
        faults.append(f"{left[0]} places are left in the queue")


def _steps(lines: list[dict[str, Any]], recorded: dict[tuple[str, int], str]) -> Iterator[tuple[str, int]]:
    """What happened in a session, step by step; its answers are added to ``recorded``."""
    question = -1
    for line in lines:
        if line["type"] not in ("user", "assistant"):
            continue
        for block in _blocks(line["message"]):
            text = block.get("text", "")
            if block["type"] == "tool_use":
                yield "call", question
            elif block["type"] == "tool_result":
                yield "result", question
            elif asked := QUESTION.fullmatch(text):
                question = int(asked[1])
                yield "question", question
            elif answer := ANSWER.fullmatch(text):
                recorded[answer[3], int(answer[2])] = text
                yield "answer", question


def main() -> int:
    """Run one."""
    parser = argparse.ArgumentParser()
    numbers = {
        "sessions": 50,
        "questions": 4,
        "workers": 4,
        "kills": 10,
        "ends": 10,
        "freezes": 5,
        "seed": 1,
    }
    for name, usual in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--without", choices=("key", "fence"), default="")
    verdict = run(**vars(parser.parse_args()))
    print(verdict)
    for fault in verdict.faults[:20]:
        print(" ", fault)
    return 1 if verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main())
