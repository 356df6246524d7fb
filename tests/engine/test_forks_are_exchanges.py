"""Whatever runs aside asks as the conversation does, makes room on its own, and leaves no trace when it is killed."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sevenfold
from sevenfold.conversation.flow import Flow, drive
from sevenfold.conversation.fork import fork as take_fork
from sevenfold.conversation.request import Outcome, ToolCall
from sevenfold.conversation.tool_loop import work
from sevenfold.errors import PromptTooLong
from sevenfold.events import Compacted
from sevenfold.layers.compact.offline import summarise
from sevenfold.providers.offline import OfflineClient, Script
from sevenfold.record import blocks
from sevenfold.record.blocks import PLACEHOLDER_CLEARED, Block
from tests.agent.working import agent, use, words
from tests.team.killed import RememberingStore

ROOT = Path(__file__).resolve().parents[2] / "src" / "sevenfold"
MODEL = "claude-sonnet-5-5"
QUIET = {"notes": False, "background_compaction": False, "model_listing": False}
ASIDE = (b'"kind":"request"', b'"kind":"billed"')


@cache
def modules() -> dict[str, ast.Module]:
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(ROOT.rglob("*.py"))
    }


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    named = node.func
    return (
        named.id if isinstance(named, ast.Name) else named.attr if isinstance(named, ast.Attribute) else ""
    )


@pytest.mark.spec("S24.1")
def test_one_flow_in_the_engine_asks_a_model() -> None:
    asking = {
        (module, function.name)
        for module, tree in modules().items()
        for function in functions(tree)
        if any(called(node) == "Ask" for node in ast.walk(function))
    }
    assert asking == {("conversation/turn.py", "turn")}


def conversations_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The parameters of a function that are conversations."""
    given = (*function.args.args, *function.args.kwonlyargs)
    return {one.arg for one in given if one.annotation and ast.unparse(one.annotation) == "Conversation"}


def is_conversation(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names or node.id == "conversation"
    return isinstance(node, ast.Attribute) and node.attr in (
        "_c",
        "conversation",
        "_conversation",
        "_parent",
    )


CHANGING = frozenset(
    {
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "clear",
        "update",
        "add",
        "discard",
        "setdefault",
        "sort",
    }
)
"""The methods by which lists, dictionaries and sets are changed."""


def changed(node: ast.AST) -> ast.expr | None:
    """What a statement changes: the target of an assignment, or the list, dictionary or set that a method changes."""
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return node.value if isinstance(node, ast.Subscript) else node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
        return node.func.value
    return None


def written_from_outside(tree: ast.Module) -> list[str]:
    names = {name for function in functions(tree) for name in conversations_in(function)}
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(target := changed(node), ast.Attribute)
        and is_conversation(target.value, names)
        and target.attr != "transcript"  # which has methods of its own
    ]


@pytest.mark.spec("S24.2")
def test_other_modules_change_a_conversation_through_its_methods() -> None:
    written = {module: found for module, tree in modules().items() if (found := written_from_outside(tree))}
    assert written == {}


@pytest.mark.parametrize(
    "statement",
    ["c.passes = 1", "c.reads['a'] = 1", "c.slots.append(1)", "c.slots += [1]", "del c.reads['a']"],
)
def test_every_way_to_change_a_conversation_from_outside_is_found(statement: str) -> None:
    tree = ast.parse(f"def spoil(c: Conversation) -> None:\n    {statement}\n")
    assert written_from_outside(tree)


# -- killed and resumed -----------------------------------------------------------------------------

LINE = "A line of the tide table, with its hour and its height, as it was printed in the harbour.\n"


def step(number: int) -> list[Any]:
    return [words(f"Step {number}."), use("Read", f"toolu_{number}", path=f"tides{number}.txt")]


class Harbour:
    """A session in a store that remembers each line, with a model that reads on and on."""

    def __init__(self, jobs: dict[str, Any]) -> None:
        self.store = RememberingStore()
        steps = [step(number) for number in range(40)]
        self.client = OfflineClient(Script(steps, jobs={"compact": summarise, **jobs}))
        self.session = self.open(self.store)
        self.session.user("Read the tide tables, and never touch the log book.")
        self.work(6)

    def open(self, store: RememberingStore) -> sevenfold.Session:
        return sevenfold.Session.open(
            "s",
            model=MODEL,
            store=store,
            client=self.client,
            system="Be brief.",
            tools=[sevenfold.tool({"name": "Read", "input_schema": {"type": "object"}}, kind="read")],
            settings=QUIET,
        )

    def work(self, turns: int) -> None:
        for _ in range(turns):
            done = self.session.complete()
            self.session.tool_results({call.id: LINE * 30 for call in done.calls})

    def next_body(self, count: int, *, without: Sequence[bytes] = ()) -> bytes:
        """The next request of the session as a kill after so many lines leaves it, and without some of them."""
        left = RememberingStore()
        left.writes = [write for write in self.store.writes[:count] if write[1] not in without]
        again = self.open(left.killed_after(count, "s"))
        again.user("And now?")
        body = again.prepare().body
        again.close()
        return body

    def aside(self) -> list[bytes]:
        """The records of what ran aside: requests under another source, and bills."""
        return [
            line
            for _, line in self.store.writes
            if any(kind in line for kind in ASIDE) and b'"source":"main"' not in line
        ]


class Looking:
    """Rights that allow everything, and answer each call at length."""

    def __init__(self, size: int) -> None:
        self._size = size

    def carry_out(self, calls: Sequence[ToolCall], *, last: bool) -> Flow[list[Block]]:
        yield from ()
        return [blocks.result(call.id, LINE * self._size) for call in calls]


def nothing(outcome: Outcome) -> Flow[None]:
    yield from ()


@pytest.mark.spec("S24.1", "S7.1")
def test_a_dream_that_outlives_a_compaction_and_is_killed_leaves_the_next_request_as_it_would_be() -> None:
    turns = iter(range(1, 9))

    def dreams(request: Mapping[str, Any]) -> Any:
        asked.append(request["messages"])
        if next(turns) == 3:
            made = harbour.session.compact(engine="fork")
            assert made is not None
            assert made.engine == "fork"
            harbour.work(2)
        return [use("Read", f"toolu_d{len(asked)}", path="log")] if len(asked) < 6 else "<nothing/>"

    asked: list[list[Any]] = []
    harbour = Harbour({"dream": dreams})
    start = len(harbour.store.writes)
    dream = take_fork(harbour.session.conversation, "dream")
    dream.user("Tidy up.")
    done = drive(work(dream, Looking(5), most_turns=9, after_answer=nothing), harbour.client)
    assert done.turns == 6
    shared = len(asked[0]) - 1
    assert all(messages[:shared] == asked[0][:shared] for messages in asked)
    assert harbour.session.conversation.transcript.view.boundary
    harbour.session.close()
    aside = harbour.aside()
    assert len([line for line in aside if b'"source":"dream"' in line]) == 6
    for count in range(start, len(harbour.store.writes) + 1):
        assert harbour.next_body(count) == harbour.next_body(count, without=aside), count


@pytest.mark.spec("S24.1", "S4.5")
def test_a_summary_made_in_a_fork_and_killed_happened_as_a_whole_or_never() -> None:
    harbour = Harbour({})
    start = len(harbour.store.writes)
    before = harbour.next_body(start)
    made = harbour.session.compact(engine="fork")
    assert made is not None
    assert made.engine == "fork"
    harbour.session.close()
    end = len(harbour.store.writes)
    after = harbour.next_body(end)
    assert after != before
    bodies = [harbour.next_body(count) for count in range(start, end + 1)]
    done = bodies.index(after)
    assert bodies == [before] * done + [after] * (len(bodies) - done)
    assert done > 3, "the fork's request and bill, and the records of the compaction, come first"


@pytest.mark.spec("S24.1", "S7.1")
def test_an_agent_compacted_and_killed_in_a_fork_goes_on_there_and_its_parents_request_stays(
    tmp_path: Path,
) -> None:
    for number in range(12):
        (tmp_path / f"tides{number}.txt").write_text(f"Table {number}\n{LINE * 120}")
    small = {"context_window": 24_000, "size_clearing": False}
    store = RememberingStore()
    parent = agent([step(0), [words("Read it.")]], tmp_path, name="s", store=store, settings=small)
    parent.run("Look at the first table.")
    parent.session.user("And now?", key="now")
    before = parent.session.prepare().body
    parent.close()
    start = len(store.writes)
    steps = [*(step(number) for number in range(1, 9)), [words("All read.")]]
    options = {
        "name": "s",
        "branch": "survey",
        "source": "agent:survey",
        "settings": small,
        "memory": False,
    }
    compacted: list[Compacted] = []

    def hear(event: object) -> None:
        if isinstance(event, Compacted):
            compacted.append(event)

    survey = agent(steps, tmp_path, store=store, listen=[hear], **options)
    assert survey.run("Read the other tables.").text == "All read."
    survey.close()
    assert compacted
    for count in range(start, len(store.writes), 3):
        left = store.killed_after(count, "s")
        if any(branch for branch, _ in left.writes):
            again = agent([[words("Gone on.")]], tmp_path, store=left, **options)
            assert again.run("Go on.").text == "Gone on.", count
            again.close()
        parent = agent([], tmp_path, name="s", store=left, settings=small)
        parent.session.user("And now?", key="now")
        assert parent.session.prepare().body == before, count
        parent.close()


# -- making room ------------------------------------------------------------------------------------


@pytest.mark.spec("S24.3")
@pytest.mark.parametrize("model", [MODEL, "claude-opus-4-6"])
def test_a_fork_that_outgrows_the_window_clears_its_earlier_results_and_goes_on(model: str) -> None:
    asked: list[list[Any]] = []

    def dreams(request: Mapping[str, Any]) -> Any:
        asked.append(request["messages"])
        return [use("Read", f"toolu_d{len(asked)}", path="log")] if len(asked) < 6 else "<nothing/>"

    client = OfflineClient(Script(["Fine."], jobs={"dream": dreams}))
    settings = {**QUIET, "context_window": 24_000}
    with sevenfold.Session.in_memory(model=model, client=client, settings=settings) as session:
        session.user("Hello.")
        session.complete()
        dream = session.fork("dream")
        dream.user("Tidy up.")
        done = drive(work(dream, Looking(300), most_turns=9, after_answer=nothing), client)
        session.user("Hello again.")
        body = json.loads(session.prepare().body)
    assert done.outcome is not None
    assert done.turns == 6
    results = [block for message in asked[-1] for block in message["content"] if "tool_use_id" in block]
    assert [block["content"] == PLACEHOLDER_CLEARED for block in results].count(False) >= 1
    assert results[0]["content"] == PLACEHOLDER_CLEARED
    assert results[-1]["content"] == LINE * 300
    assert len(done.seen) >= 10
    assert "toolu_d1" not in json.dumps(body)


@pytest.mark.spec("S24.3")
def test_a_fork_whose_newest_results_alone_do_not_fit_fails() -> None:
    calls = [use("Read", "toolu_d1", path="log")]
    client = OfflineClient(Script(["Fine."], jobs={"dream": lambda request: calls}))
    settings = {**QUIET, "context_window": 24_000}
    with sevenfold.Session.in_memory(model=MODEL, client=client, settings=settings) as session:
        session.user("Hello.")
        session.complete()
        dream = session.fork("dream")
        dream.user("Tidy up.")
        with pytest.raises(PromptTooLong, match="the fork has"):
            drive(work(dream, Looking(2_000), most_turns=9, after_answer=nothing), client)
