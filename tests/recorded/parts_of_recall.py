"""What recall finds in made-up sessions, and how queries and texts are read for it: the same cases in every run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

from sevenfold.recall import ranking
from sevenfold.recall.passages import KINDS, passages, pieces, tidy
from sevenfold.recall.ranking import Query, RecordPlace
from sevenfold.recall.search import beginning, excerpt
from sevenfold.record import entries
from tests.compaction.histories import picture
from tests.recall.making import harbour, indexed
from tests.recorded.cases import NAMES, WORDS, conversation, prose
from tests.recorded.parts import part, short
from tests.support import Story, call, result

QUERIES = (
    "harbour display yesterday",
    "tides shown after midnight on the displays",
    "missing local day argument",
    "src/tidemark/clock_face.py:41",
    "calDay() miss",
    "表示",
    "どの時刻を示しますか？",
    "What did the test say about the local day?",
    "Who touched generated files?",
    "station zone panel",
    "quantum chromodynamics",
    "the",
    "a b c d e f g h i j",
    "move the parser",
    "please keep old name HTTPServer",
    "what fails with ValueError user_id?",
    "ENT-109",
    "config/prod.yaml again don't touch",
    "error[E0308]: mismatched types",
    "mismatched E0308 types main",
    "no-such-tool",
    "When was the parser moved?",
    "push branch delete",
    "Grep fold repo",
    "文字 Straße",
    "TaskCreate in_progress subject",
    "March 14 harbour",
    "2025-03-14",
    "14th of March",
    "Ada said in March: lighthouse",
    "lighthouse keeper",
    "what did Ada see on 3 April 2025",
)
TALK = (
    ("2025-03-14T09:00:00Z", "Ada: The lighthouse keeper paints the harbour in spring."),
    ("2025-03-14T09:05:00Z", "Ben: Which colour does she take?"),
    ("2025-03-15T09:00:00Z", "Ada: A dark green, and for the door a bright one."),
    ("2025-04-03T11:00:00Z", "Ada: I saw a seal today."),
    ("2025-04-03T11:01:00Z", "Ben: Near the lighthouse?"),
    ("", "Nobody knows when this was said about the lighthouse."),
)


def talked() -> Story:
    """A talk of two people over some weeks, with long and empty messages between."""
    story = Story()
    chance = Random(7)
    for number, (timestamp, text) in enumerate(TALK * 3):
        filler = " ".join(chance.choices(WORDS, k=chance.choice((0, 3, 400))))
        story.user(f"{text} {filler}", uuid=f"talk{number}", timestamp=timestamp)
        story.assistant(f"I see. {filler[: 10 * number]}", uuid=f"nod{number}")
    return story


@part
def searches() -> Iterator[str]:
    """What is found by queries of every kind, in which order, with which excerpt and neighbours."""
    sessions = {
        "harbour": harbour(),
        "talk": talked(),
        **{f"made{seed}": conversation(seed, 14) for seed in range(3)},
    }
    for name, story in sessions.items():
        index = indexed(story)
        status = index.status()
        yield f"--- {name}: {short(status)}"
        for query in QUERIES:
            for hit in index.search(query, k=4, around=1):
                near = [(close.uuid, close.kind, close.text[:30]) for close in (*hit.before, *hit.after)]
                yield f"{query}: {hit.uuid} {hit.kind} {hit.tool} {hit.score:.5f} {hit.exact} {hit.matched} {hit.marks}"
                yield f"  {hit.excerpt[:200]!r} {near} {hit.position} {hit.timestamp} {hit.weak}"
            weak = [(hit.uuid, hit.weak) for hit in index.search(query, k=2, weak=True)]
            calls = [hit.uuid for hit in index.search(query, k=3, kind="tool_use")]
            results = [hit.uuid for hit in index.search(query, k=3, kind=["tool_result", "user"])]
            hidden = [
                hit.uuid for hit in index.search(query, k=2, visible={"ask", "talk0"}, only_hidden=True)
            ]
            yield f"{query}: hidden {hidden} weak {weak} calls {calls} results {results}"
        index.close()


@part
def queries() -> Iterator[str]:
    """How queries are parsed, and how much of each the best record has to match."""
    chance = Random(5)
    made = [" ".join(chance.choices([*NAMES, *WORDS], k=size)) for size in (1, 2, 4, 9, 30, 90, 400)]
    dated = (
        "May 3rd, 2025 and 4 June",
        "the 5th of September 1999",
        "in Jan. 2020",
        "2024-02",
        "2024-02-29 or Mar 1",
        "march on",
        "I may go",
        "Dec 24?",
        "who's there",
        "getLocalDay XMLHttpRequest iPhone15Pro",
        "Ada's book, 日本語のテキスト and 字",
        "why",
        "？",
        "x" * 300,
    )
    for text in (*QUERIES, *made, *dated):
        query = Query.of(text)
        enough = [round(query.enough(pieces), 4) for pieces in (0, 1, 230, 460, 5_000, 10**6)]
        yield f"{text[:60]!r}: {short(query)} {enough}"
        yield f"  {ranking.humps(text)[:120]!r} {[ranking.phrase_of(needle)[:80] for needle in query.needles]}"
        yield f"  {ranking.folded(text)[:60]!r} {ranking.spaced(text)[:60]!r} {ranking.labels(text, '2025-03-14T09')!r}"


@part
def rankings() -> Iterator[str]:
    """How strongly records match by what is in them and around them, and where words are close together."""
    for holding, total in product((0, 1, 5, 100), (1, 100, 10_000)):
        yield f"{holding} of {total}: {ranking.rarity(holding, total):.6g}"
    for size, usual in product((0, 10, 400, 9_000), (0.0, 80.0, 400.0)):
        yield f"{size} where {usual} is usual: {ranking.for_length(size, usual):.6g}"
    for seed in range(12):
        chance = Random(seed)
        weights = [chance.uniform(0.1, 6) for _ in range(5)]
        postings = [sorted(chance.sample(range(30), chance.randrange(0, 12))) for _ in weights]
        held = ranking.holding(postings)
        strongest = ranking.strongest(held, weights, chance.choice((3, 10, 100)))
        yield f"{seed}: {strongest} {[round(ranking.worth(held[piece], weights), 4) for piece in strongest]}"
        places = {
            RecordPlace(chance.randrange(2), piece): ranking.strengths(
                bits, weights, chance.choice((0.0, 0.5, 1.0))
            )
            for piece, bits in held.items()
        }
        for place, strengths in sorted(ranking.spread(places).items()):
            matched = ranking.share(strengths, weights)
            by_feature = [(number, round(strength, 4)) for number, strength in sorted(strengths.items())]
            yield f"  {tuple(place)}: {matched:.5f} {by_feature}"
        opinions = [
            (1.0, {"a": chance.random(), "b": chance.random()}),
            (0.5, {"b": 2.0, "c": chance.random()}),
            (3.0, {"c": 0.0}),
        ]
        yield f"  {short(ranking.fused(opinions))}"
        text = prose(chance, 300) + " word" * chance.choice((0, 90)) + " " + prose(chance, 200)
        features = chance.sample(WORDS, 6)
        close = [ranking.features_close_together(text, features, held) for held in (0b111111, 0b10101, 0)]
        needles = (text[5:40], text[60:90])
        yield f"  {features} close {close} {ranking.closeness(needles, text):.5f} {[*map(ranking.stem, features)]}"


@part
def excerpts() -> Iterator[str]:
    """Which part of a text is shown for a query, and what in it is marked."""
    chance = Random(3)
    for size, query in product(
        (0, 30, 400), ("HTTPServer parser", "don't touch config/prod.yaml", "文字", "absent thing")
    ):
        text = (
            prose(chance, size + 1)
            + " we move the parsers of HTTPServer 文字 here. "
            + prose(chance, size + 1)
        )
        for start in (None, 0, 40, len(text) - 5):
            shown, marks = excerpt(text, Query.of(query), start)
            yield f"{size} {query!r} {start}: {shown[:70]!r} … {shown[-30:]!r} {len(shown)} {marks}"
        yield f"{beginning(text, 30)!r} {beginning(text, 4_000)[-20:]!r}"


@part
def passages_read() -> Iterator[str]:
    """Which passages the records of a session are split into."""
    story = talked()
    story.assistant(
        {"type": "thinking", "thinking": "hm, the tide", "signature": "c2ln"},
        call("t1", "Bash", command="ls", timeout=3, nested={"a": ["b", None, True, 1.5]}),
        call("t2", "Edit", file_path="a.py", old_string="x" * 50, new_string="y" * 50),
        call("t3", "Write", file_path="b.py", content="\n".join(f"line {number}" for number in range(90))),
    )
    story.user([result("t1", "a.py\x00\n\n\n  b.py\r\n"), result("t2", "no such text", is_error=True)])
    story.user(
        [result("t3", [{"type": "text", "text": "one"}, picture()]), {"type": "text", "text": "a\tb"}]
    )
    story.user([{"type": "document", "source": {"type": "text", "data": "words " * 400}, "title": "paper"}])
    story.user("  ")
    for line in (*story.lines, *conversation(3, 3).lines):
        for passage in passages(entries.read(line), lambda call_id: f"tool of {call_id}"):
            yield f"{short(passage)[:400]} {len(passage.text)}"
    for text in ("word " * 900, "x" * 5_000, "line\n" * 900, "文" * 3_000, "", " a \u2028 b\x0b c "):
        yield f"{[(len(piece), piece[:12], piece[-12:]) for piece in pieces(text)]} {tidy(text)[:40]!r}"
    yield f"{KINDS}"
