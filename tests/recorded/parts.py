"""What single parts of the engine decide about many made-up cases: the same cases in every run, drawn by a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from sevenfold import profiles
from sevenfold.archive.requests import changed_parts, sent_of
from sevenfold.conversation import intake as entering
from sevenfold.conversation.room import Limits
from sevenfold.errors import InputError, Refused
from sevenfold.layers import idle
from sevenfold.layers.clear import policy as clear
from sevenfold.layers.clear.ledger import CostLedger
from sevenfold.layers.clear.policy import OldResult, ProviderCut
from sevenfold.layers.compact import scope, shorten
from sevenfold.layers.compact.extract import facts
from sevenfold.layers.compact.extract.identifiers import IdentifierSource
from sevenfold.layers.compact.extract.identifiers import identifiers as names_in
from sevenfold.layers.compact.summary import extractive
from sevenfold.layers.idle import Pause
from sevenfold.layers.notes import policy as notes
from sevenfold.layers.notes.policy import NotesText, Since
from sevenfold.profiles import find
from sevenfold.record import authorship, blocks, entries
from sevenfold.record.entries import Said
from sevenfold.record.gauge import Gauge
from sevenfold.record.layout import Item
from sevenfold.record.usage import BilledCall, Usage, ideal_cost
from sevenfold.record.view import View
from sevenfold.record.weight import Estimator, Weight, measure
from sevenfold.record.window import Window
from sevenfold.request.frame import Lifetimes
from sevenfold.request.watch import Watched
from sevenfold.settings import Settings
from tests.compaction.histories import continued, count, picture, worked
from tests.layers.test_planning import moment
from tests.recorded.cases import NAMES, REQUESTS, conversation, eventful, items, prose
from tests.support import Story, call, result, usage

PARTS: dict[str, Callable[[], Iterator[str]]] = {}
"""By name; each yields a line or more for each case."""
OLD, BOUND, GPT = "claude-opus-4-6", "claude-sonnet-5-5", "gpt-5.6"


def part(made: Callable[[], Iterator[str]]) -> Callable[[], Iterator[str]]:
    """Record what a part decides."""
    PARTS[made.__name__] = made
    return made


def short(value: Any) -> str:
    """A value in one line, with figures rounded so that every machine shows the same."""
    match value:
        case float():
            return f"{value:.6g}"
        case Weight():
            return " ".join(f"{name}={given}" for name, given in value._asdict().items() if given)
        case dict():
            return " ".join(f"{name}={short(given)}" for name, given in value.items())
        case list() | tuple():
            return "[" + ", ".join(map(short, value)) + "]"
        case msgspec.Struct():
            return short(msgspec.structs.asdict(value))
        case _:
            return repr(value)


@part
def clearings() -> Iterator[str]:
    """What is cleared when, and what it is expected to cost."""
    for seed in range(160):
        chance = Random(seed)
        held = [
            OldResult(
                f"t{place}",
                chance.randrange(0, 12_000),
                error=chance.random() < 0.15,
                kept=chance.random() < 0.1,
                images=chance.choice((0, 0, 0, 1, 3)),
                wire=chance.randrange(0, 60_000),
            )
            for place in range(chance.randrange(0, 22))
        ]
        total = sum(one.tokens for one in held)
        profile = find(chance.choice((OLD, BOUND, GPT)))
        near = chance.random() < 0.3
        now = moment(
            results=held,
            size=total + chance.randrange(5_000, 110_000),
            window=Window.of(profile, override=chance.choice((40_000, 200_000, 200_000))),
            settings=Settings(
                gap_clearing=chance.random() < 0.9,
                size_clearing=chance.random() < 0.8,
                gap_keep=chance.choice((1, 5)),
            ),
            price=chance.choice((*profile.prices, *profile.prices, None)),
            lifetime=chance.choice((300, 3_600)),
            idle=chance.choice((None, 5.0, 290.0, 400.0, 4_000.0)),
            expected=chance.randrange(1, 60),
            spent=chance.choice((0.0, 0.2, 4.0, 90.0)),
            ledger=CostLedger(owed=chance.choice((0.0, 0.0, 0.05, 0.6))),
            size_after_compaction=chance.choice((None, 12_000)),
            bound=chance.random() < 0.3,
            thinking=chance.choice((0, 0, 3_000)),
            reasoning=chance.choice((0, 6_000)),
            mid_turn=chance.random() < 0.4,
            provider=chance.random() < 0.2,
            edited=chance.choice((0, 0, 4_000)),
            near=near,
            cut=ProviderCut(chance.randrange(4_000, 40_000), chance.randrange(0, 9_000), 0.3)
            if near
            else None,
            growth=chance.choice((0, 900, 5_000)),
            running=chance.random() < 0.2,
            compacts=chance.random() < 0.6,
            wire=sum(one.wire for one in held),
            images=sum(one.images for one in held),
            limits=Limits(chance.choice((None, None, 200_000)), chance.choice((None, None, 4))),
        )
        yield f"{seed}: {short(clear.plan(now))}"
    for seed in range(60):
        chance = Random(seed)
        now = moment(
            *(chance.randrange(4_000, 8_000) for _ in range(chance.randint(12, 24))),
            idle=chance.choice((10.0, 400.0)),
            spent=chance.choice((0.5, 5.0, 2_000.0)),
            ledger=CostLedger(owed=chance.choice((0.0, 0.05, 0.3))),
            expected=chance.randrange(2, 80),
            growth=chance.choice((0, 600, 4_000)),
            compacts=chance.random() < 0.5,
            running=chance.random() < 0.5,
        )
        yield f"large {seed}: {short(clear.plan(now))}"


@part
def weights() -> Iterator[str]:
    """What blocks weigh, and how many tokens that is by each estimator, before and after it has learnt."""
    chance = Random(1)
    made: list[Any] = [
        blocks.text(text)
        for text in ("", "x", " " * 40, "A" * 90, "12345 678", "\t\n" * 20, "文字" * 30, prose(chance, 500))
    ]
    made += [blocks.text(prose(chance, 40) * size) for size in (1, 30, 400)]
    for fields in (
        call("t", "Read", path="a.py", line=3),
        call("t", "Write", content=prose(chance, 90)),
        result("t", prose(chance, 30)),
        result("t", [{"type": "text", "text": "one"}, picture()]),
        picture(),
        {"type": "thinking", "thinking": prose(chance, 40), "signature": "c2ln" * 90},
        {"type": "thinking", "thinking": "", "signature": "c2ln" * 900},
        {"type": "redacted_thinking", "data": "c2ln" * 300},
        {"type": "compaction", "content": prose(chance, 60)},
        {"type": "document", "source": {"type": "text", "data": prose(chance, 50)}},
        {"type": "document", "source": {"type": "base64", "data": "aGk=" * 900}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "fold"}},
    ):
        made.append(blocks.read(msgspec.json.encode(fields)))
    for block in made:
        yield f"{block.kind}: {short(measure(block))}"
    for tokenizer in ("claude-a", "claude-b", "openai", "unknown"):
        estimator = Estimator.of(tokenizer)
        for step in range(3):
            yield f"{tokenizer} {step}: {short([estimator.estimate(measure(block)) for block in made])}"
            for block in made[8:14]:
                weight = measure(block)
                estimator = estimator.learn(weight, 1 + 0.4 * weight.text)
                estimator = estimator.observe(weight, 2 + 0.5 * weight.text)


@part
def sizes() -> Iterator[str]:
    """How large conversations are taken to be, request by request, and what is made of it."""
    for seed, model in product(range(4), (OLD, BOUND, GPT)):
        profile = find(model)
        window, gauge = (
            Window.of(profile, override=40_000),
            Gauge.of(profile, b"system" * 300, b"tools" * 500),
        )
        view = View()
        for line in conversation(seed, 5, (model, BOUND, OLD)).lines:
            if measured := view.add(entries.read(line)):
                gauge = gauge.observe(measured)
            size = gauge.size(view)
            check = Limits.of(profile, Settings()).check(size, window)
            found = {
                "used": size.tokens,
                "band": size.band,
                "threshold": window.threshold,
                "effective": window.effective,
                **{name: getattr(size, name) for name in ("freed", "wire", "images")},
                "verdict": check.verdict,
                "budget": check.budget,
            }
            yield f"{seed} {model}: {short(size)} {short(found)} fixed={gauge.fixed}"
        yield f"{seed} {model}: {gauge.switched(find(BOUND)).fixed} {gauge.opened(b'other' * 900).fixed}"


@part
def windows() -> Iterator[str]:
    """The limits of every model's window, and of some that are set."""
    for name, context in product(profiles.names(), (None, 8_000, 32_768, 200_000)):
        window = Window.of(find(name), override=context)
        budgets = [window.budget(tokens) for tokens in (500, 5_000, 40_000)]
        yield f"{name} {context}: {short(window)} {window.threshold} {window.effective} {budgets}"


@part
def bills() -> Iterator[str]:
    """What calls cost at every provider, and what they would have cost with the best of caches."""
    for name in profiles.names():
        profile, chance = find(name), Random(name)
        calls = []
        for _ in range(6):
            prompt, read, written = (chance.randrange(0, 400_000) for _ in range(3))
            used = Usage.of(
                {
                    **usage(
                        prompt + read + written, chance.randrange(1, 9_000), read=read, written=written
                    ),
                    "cache_creation": {"ephemeral_1h_input_tokens": written // 3},
                }
            )
            calls.append(BilledCall(used.prompt, used.output_tokens, chance.choice((300, 3_600))))
            costs = used.cost(profile), used.uncached_cost(profile), ideal_cost(calls, profile)
            yield f"{name}: {short(used)} {used.total} {short(costs)}"
    plain = usage(9_000, 80, read=5_000, written=1_000)
    rounds: list[dict[str, Any]] = [
        {"type": kind, **plain} for kind in ("message", "compaction", "message")
    ]
    for reported in (
        plain,
        {**plain, "iterations": rounds[:1]},
        {**plain, "iterations": rounds[1:2]},
        {**plain, "iterations": [{**rounds[0], "model": BOUND}]},
        {**plain, "iterations": rounds},
        {**plain, "cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 700}},
        {**plain, "cache_creation": {"ephemeral_1h_input_tokens": 2_000}},
        {"input_tokens": 10**15, "output_tokens": -4, "cache_read_input_tokens": "many"},
    ):
        used = Usage.read(msgspec.json.encode(reported))
        both = short(used + used), short(used.first_round), short(used.last_round), short(used.billed)
        yield f"{short(used)} {used.prompt} {used.total} {both} {short(used.cost(find(OLD)))}"


@part
def pauses() -> Iterator[str]:
    """What is done about a conversation whose cache is about to expire."""
    for seed in range(60):
        chance = Random(seed)
        lifetime, elapsed = chance.choice((300, 3_600)), chance.uniform(0, 9_000)
        earlier = [chance.uniform(10, 9_000) for _ in range(chance.randrange(0, 8))]
        resumes, soon = idle.likelihoods(earlier, elapsed, lifetime, chance.choice((0.2, 0.5, 0.9)))
        choices = idle.weigh(
            Pause(
                size=chance.randrange(5_000, 180_000),
                size_after=chance.randrange(2_000, 30_000),
                summary_usd=chance.choice((0.0, 0.02, 0.3)),
                price=find(chance.choice((OLD, BOUND))).prices[0],
                lifetime=lifetime,
                resumes=resumes,
                soon=soon,
                requests=chance.randrange(1, 30),
            )
        )
        yield f"{seed}: {short((resumes, soon))} {short(choices)} {idle.choose(choices).name}"


@part
def summaries() -> Iterator[str]:
    """Summaries by code alone, with room and without."""
    for seed in range(8):
        for budget in (20_000, 900, 300):
            yield f"--- {seed}, {budget} tokens"
            yield extractive(facts(items(seed)), budget, count).text


@part
def shortened() -> Iterator[str]:
    """What a model that summarises is sent when the conversation is too long for it."""

    def tokens(weight: Weight) -> float:
        return (weight.text + weight.json) / 4

    for seed in range(6):
        whole = shorten.lean(items(seed, 5))
        yield f"--- {seed}: {len(whole)} records"
        for message in shorten.messages(whole[:6], "Summarise this.", dropped=seed):
            yield message.decode()
        for gap, rounds in product((None, 50, 900, 90_000), (1, 2, 5)):
            left = shorten.drop_oldest(items(seed, rounds), tokens, gap=gap)
            yield f"{gap} of {rounds}: {left and (left.dropped, len(left.items))}"
        for budget in (1, 40, 200, 800, 4_000):
            parts = shorten.chunks(whole, budget, tokens)
            yield f"{budget}: {[[len(block.raw) for item in one for block in item.shown] for one in parts]}"


@part
def session_notes() -> Iterator[str]:
    """When notes are taken, what an update makes of them, and what is kept behind them."""
    chance = Random(3)
    for size in (8_000, 200_000):
        window = Window.of(find(OLD), override=size)
        for grown, first, calls, resting in product(
            (900, 4_999, 5_000, 10_000, 40_000), (0, 1), (2, 3), (0, 1)
        ):
            since = Since(grown, bool(first), calls, bool(resting))
            yield f"{size} {short(since)}: {notes.due(since, window)} {notes.due(since, window, 3)}"
        text = NotesText({name: prose(chance, 1 + 20 * place) for place, name in enumerate(notes.SECTIONS)})
        long = NotesText({**text.sections, "Worklog": "\n".join(prose(chance, 30) for _ in range(600))})
        for one in (text, long, NotesText()):
            again = notes.read(one.render())
            yield f"{size}: {one.empty} {again.sections == one.sections}"
            yield notes.instruction(one, window, count)[:1_500]
            yield notes.as_summary(one, "notes.md", window, count)[-700:]
            yield repr(notes.names(one))
        for answer in (
            '<section name="Workflow">\n# one\ntwo\n</section>',
            '<section name="Nonsense">x</section>',
            "<no-changes/>",
            "nothing",
        ):
            yield f"{answer!r}: {short(notes.apply(NotesText({'Workflow': 'old'}), answer))}"
        held = items(2, 9)
        for covered in (held[3].record.uuid, held[-2].record.uuid, "gone"):
            start = notes.keep_from(held, covered, window, lambda item: len(item.shown[0].raw))
            yield f"{size} {covered}: {start}"


@part
def views() -> Iterator[str]:
    """What the model sees of logs in which anything may have happened, and what became of the rest."""
    for seed in range(70):
        story = eventful(Random(seed))
        view = View(keeps_history=seed % 3 > 0)
        for place, line in enumerate(story.lines):
            view.add(entries.read(line), 100 * place)
        yield f"--- {seed}: {len(story.lines)} lines, {view.damaged} damaged, boundary {view.boundary}, tip {view.tip}"
        yield from (message.decode() for message in view.encoded())
        yield f"weight {short(view.weight)}; pending {view.pending_calls}; undone {sorted(view.undone)}"
        yield f"repairs {short([(one.kind, one.subject) for one in view.repairs])}; answered {view.answered_at}"
        yield f"fates {[short(view.fate(uuid)) for uuid in story.uuids[:12]]}"
        yield f"rounds {[item.record.uuid for item in view.items if view.begins_round(item.record.uuid)]}"


@part
def scopes() -> Iterator[str]:
    """Which part of a conversation a compaction replaces, for every way to ask for one."""

    def tokens(item: Item) -> int:
        return item.weight.text // 3

    def outcome(divide: Callable[..., Any], view: View, *given: Any) -> str:
        try:
            found = divide(view, *given)
        except Refused as error:
            return f"refused: {error}"
        if not isinstance(found, scope.Scope):
            return short(found)
        names = [[item.record.uuid for item in part] for part in (found.hidden, found.front, found.behind)]
        return f"{found.span} {found.side} {names} {len(scope.messages_of(view, found.hidden))}"

    for seed in range(12):
        view = (conversation(seed, 4) if seed % 2 else eventful(Random(seed))).view()
        uuids = [item.record.uuid for item in view.items]
        for most in (0, 60, 900):
            yield f"{seed} whole {most}: {outcome(scope.whole, view, most, tokens)}"
            yield f"{seed} older {most}: {outcome(scope.older, view, 2, most, tokens)}"
            yield f"{seed} finished {most}: {outcome(scope.finished, view, 40, most, tokens)}"
        for first, last in zip(uuids[::3], uuids[4::3], strict=False):
            for span in ("from", "up_to"):
                yield f"{seed} {span} {first}: {outcome(scope.around, view, first, span)}"
            yield f"{seed} {first} to {last}: {outcome(scope.between, view, first, last)}"
        yield f"{seed} nowhere: {outcome(scope.around, view, 'nowhere', 'from')}"


@part
def cache_breaks() -> Iterator[str]:
    """What a request finds in the cache after the one before it, and how a loss is explained."""
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "write")]
    said = [{"role": "user", "content": [{"type": "text", "text": f"part {n} " * 40}]} for n in range(4)]
    first: dict[str, Any] = {
        "model": OLD,
        "max_tokens": 900,
        "system": [{"type": "text", "text": "Be brief. " * 90}],
        "tools": tools,
        "messages": said[:3],
    }
    changes: dict[str, dict[str, Any]] = {
        "nothing": {},
        "longer": {"messages": said},
        "shorter": {"messages": said[:2]},
        "another message": {"messages": [said[0], said[3], said[2]]},
        "model": {"model": BOUND},
        "system": {"system": [{"type": "text", "text": "Be kind. " * 90}]},
        "one tool less": {"tools": tools[:1]},
        "tools in another order": {"tools": tools[::-1]},
        "another tool": {"tools": [tools[0], {**tools[1], "description": "writes"}]},
        "a setting": {"thinking": {"type": "adaptive"}},
        "max_tokens": {"max_tokens": 901},
    }
    for (what, change), seconds, announced in product(changes.items(), (20.0, 400.0), ("", "clear")):
        before = replace(sent_of(msgspec.json.encode(first), ["beta-a"], Lifetimes("5m", "5m")), at=100.0)
        body = msgspec.json.encode({**first, **change})
        now = replace(sent_of(body, ["beta-a"], Lifetimes("5m", "5m")), at=100.0 + seconds)
        watched = Watched(before, 20_000, announced=announced).look(now, find(OLD))
        yield f"{what}, {seconds:g} s, {announced!r}: {short(replace(watched.forecast, change=None))}"
        if watched.forecast.change:
            yield f"  {watched.forecast.change.kept:.4f} {watched.forecast.change.diff()[:300]!r}"
        for read, keeps in product((20_000, 19_100, 17_900, 3_000, 0), (True, False)):
            used = Usage(cache_read_input_tokens=read, cache_creation_5m=500, input_tokens=9)
            after, found = watched.judge(used, find(OLD), keeps=keeps)
            lost = found and (
                found.cause,
                found.part,
                found.tokens,
                found.usd,
                found.elapsed,
                found.expected,
            )
            kept = after.up_to(2)
            yield f"  read {read}, {keeps}: {short(lost)} left {after.cached} of two {kept.cached}"
        yield f"  parts: {changed_parts(before, now)} {sorted(before.marked())} {before.bytes} {now.bytes}"


@part
def intake() -> Iterator[str]:
    """What the user's side may give a session, what is made of it, and what is refused in which words."""
    plain = {"type": "text", "text": "hello"}
    answered = {"type": "tool_result", "tool_use_id": "t1", "content": "ok", "is_error": 0, "extra": 1}
    given: list[Any] = [
        *("hello", "  ", "", b"bytes", 7, None, [], [plain, "more", ""], [7], plain, [answered], answered),
        *({"type": "text"}, {"text": "no type"}, {"type": "tool_use", "id": "t", "name": "n", "input": {}}),
        *(picture(), [picture(), " "], {"type": "thinking", "thinking": "hm", "signature": "s"}),
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {
            "t1": "ok",
            "t2": ["a", "b"],
            "t3": None,
            "t4": {"a": 1},
            "t5": [plain, picture()],
            "t6": 1.5,
            "t7": {1: [2]},
        },
        *({"": "no call"}, [{**answered, "tool_use_id": ""}], [{**answered, "content": [plain, " "]}]),
        *([{**answered, "toolset_name": 3}], {"role": "tool", "tool_call_id": "t9", "content": "ok"}),
        *({"type": "function_call_output", "call_id": "t8", "output": "ok"}, "half \ud83d a character"),
    ]
    for one in given:
        for what in (entering.message, entering.user_blocks, entering.answer_blocks, entering.results):
            try:
                made = [(block.kind, block.id, block.raw.decode()) for block in what(one)]
            except InputError as error:
                yield f"{what.__name__} {one!r}: refused: {error}"
            else:
                yield f"{what.__name__} {one!r}: {made}"


@part
def authors() -> Iterator[str]:
    """Whose words are in a record, whichever client wrote it."""
    texts = (
        *REQUESTS,
        "This session is being continued from a previous conversation that ran out of context. It was about tests.",
        "<command-name>/clear</command-name>",
        "<bash-input>ls</bash-input>",
        "<local-command-stdout>done</local-command-stdout>",
        "[Request interrupted by user]",
        "look at this\n<system-reminder>not mine</system-reminder>\nand that",
        "Caveat: The messages below were generated by the user while running local commands.",
    )
    story = Story()
    for words, flags in product(texts, ({}, {"isMeta": True}, {"isCompactSummary": True})):
        story.user(words, **flags)
    for words in ("fine", "API Error: 500"):
        story.assistant(words, model="<synthetic>" if "API" in words else OLD)
    refused = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file "
    refused += (
        "edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\n"
    )
    chosen = 'User has answered your questions: "Which?"="Both". You can now continue with it.'
    given = [("Bash", f"{refused}use tabs", True), ("Bash", "no such file", True)]
    given += [("AskUserQuestion", chosen, False), ("Read", chosen, False)]
    for number, (tool, content, failed) in enumerate(given):
        story.assistant(call(f"t{number}", tool))
        story.user([result(f"t{number}", content, is_error=failed)])
    records = [said for line in story.lines if isinstance(said := entries.read(line), Said)]
    for said in records:
        found = [(authorship.author(said, block), authorship.typed(said, block)) for block in said.blocks]
        users = authorship.from_user(said), authorship.is_users(said)
        yield f"{said.uuid}: {found} {authorship.users_words(said)!r} {users}"
    yield from (f"{record}: {words!r}" for record, words in authorship.spoken(records))


@part
def chained_summaries() -> Iterator[str]:
    """What a summary hands on of the one before it, with room and without."""
    for seed, budget in product(range(4), (20_000, 700)):
        summary = extractive(facts(items(seed)), budget, count).text
        for number in range(2):
            story = continued(summary)
            worked(story, number)
            story.user(prose(Random(seed + number), 30))
            summary = extractive(facts(story.view().items), budget, count).text
        yield f"--- {seed}, {budget} tokens"
        yield summary


@part
def identifiers() -> Iterator[str]:
    """Which names count in what was typed, pasted and called, and which are known from before."""
    for seed in range(20):
        chance = Random(seed)
        sources = [
            IdentifierSource(
                " ".join(chance.choices(NAMES, k=chance.choice((3, 12, 90)))),
                f"r{place}",
                by_user=chance.random() < 0.4,
                from_tool=chance.random() < 0.3,
            )
            for place in range(chance.randint(1, 9))
        ]
        known = names_in(sources[:2]) if seed % 2 else []
        found = names_in(sources[2:], known, frozenset(chance.sample(NAMES, 3)))
        yield f"{seed}: {[(one.text, one.kind, one.record, one.count, one.by_user) for one in found]}"
