"""Train the classifier for claims of the user's permission, and measure it on sentences by other writers.

    python bench/claims_model.py            learn from all sets but one, mark the one; each set in turn
    python bench/claims_model.py --write    learn from all sets, and write the weights the engine uses

The sets are those of `bench/inventing.py`. The model is a linear support vector machine, trained by coordinate descent
on its dual: little code, and every run gives the same weights for the same sentences.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.inventing import CLAIMS, SETS, evidence, sentences  # noqa: E402 - started as a script, the project's folder is not on the path
from sevenfold.layers.compact.summary import marks  # noqa: E402
from sevenfold.layers.compact.summary.claims import Model, claim, features, statements  # noqa: E402

WEIGHTS = ROOT / "src/sevenfold/layers/compact/summary/claims.weights"
MADE = 16_000
"""The number of sentences generated from templates and acts."""
EXAMPLES = 10
"""How often each example from the tests is repeated in training, because they define what a claim is."""
RARE = 3
"""Features that occur fewer times are ignored."""
COST = 1.0
"""The penalty for a sentence on the wrong side of the border, relative to the width of the margin."""
HONEST = 2.0
"""The penalty for marking an honest sentence, as a multiple of the penalty for missing a claim."""
BORDER = 0.3
"""The confidence required to mark a sentence. On sentences by writers not trained on, it halves the number of honest
sentences marked and reduces the planted ones marked by a tenth."""
LIGHT = 0.1
"""Weights with a smaller absolute value are left out of the file."""
ROUNDS = 30
"""The number of passes over all sentences."""
ALWAYS = Model({}, 1.0)
"""A model that accepts every candidate sentence as a claim."""

DOUBLED = frozenset(
    (
        "drop",
        "ship",
        "ban",
        "stop",
        "shut",
        "submit",
        "wrap",
        "log",
        "run",
        "reset",
        "cut",
        "set",
        "put",
        "skip",
        "plan",
        "pin",
        "transfer",
        "cancel",
        "roll",
    )
)
IRREGULAR = {
    "send": "sent",
    "pay": "paid",
    "sell": "sold",
    "buy": "bought",
    "give": "given",
    "take": "taken",
    "tear": "torn",
    "make": "made",
    "shut": "shut",
    "reset": "reset",
    "run": "run",
    "write": "written",
    "rewrite": "rewritten",
    "overwrite": "overwritten",
    "build": "built",
    "keep": "kept",
    "hide": "hidden",
    "split": "split",
    "read": "read",
    "think": "thought",
    "spend": "spent",
    "go": "gone",
    "show": "shown",
    "rerun": "rerun",
    "catch": "caught",
    "speak": "spoken",
}
Example = tuple[str, bool]


def examples(name: str) -> Iterator[Example]:
    """Yield the statements of a set, and whether each claims something that no record supports."""
    planted, honest, record = SETS.get(name) or (
        *(CLAIMS / name / f"{one}.txt" for one in ("planted", "honest")),
        CLAIMS / "record.txt",
    )
    known = evidence(record)
    for file, invented in ((planted, True), (honest, False), (planted.with_name("plain.txt"), False)):
        for _, sentence in sentences(file) if file.exists() else ():
            said = marks.bare(sentence)
            found = claim(said, model=ALWAYS)
            if invented or not found or not known.supports(found):
                yield from ((text, invented) for text in statements(said))


def made(count: int) -> Iterator[Example]:
    """Yield generated sentences; those that claim the user wants an act that is hard to undo count as planted."""

    def lines(name: str) -> list[str]:
        return (CLAIMS / "made" / f"{name}.txt").read_text("utf-8").splitlines()

    claims, acts, things = lines("claim"), lines("grave"), lines("grave_things")
    kinds = (
        *4 * ((claims, acts, True),),
        (lines("nouns"), things, True),
        *3 * ((claims, lines("harmless"), False),),
        (lines("nouns"), lines("harmless_things"), False),
        *2 * ((lines("open"), acts, False),),
        (lines("others"), acts, False),
        (lines("asks"), acts, False),
    )
    who, chance = lines("who"), random.Random(11)
    for frames, about, invented in islice(cycle(kinds), count):
        thing = chance.choice(about)
        verb, _, rest = thing.partition(" ")
        forms = {"do": verb, "doing": inflected(verb, "ing"), "done": inflected(verb, "ed"), "it": rest}
        text = chance.choice(frames).format(who=chance.choice(who), thing=thing, **forms)
        yield from ((said, invented) for said in statements(text[0].upper() + text[1:]))


def prose() -> Iterator[Example]:
    """Yield statements from the project's documentation: technical prose about users that claims nothing."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = re.sub(
            r"^(?:```|~~~).*?^(?:```|~~~)", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        for paragraph in re.split(r"\n\s*\n|\n\s*[-*|]", text):
            for sentence in marks.sentences(" ".join(paragraph.split())):
                yield from ((said, False) for said in statements(marks.bare(sentence)))


def inflected(verb: str, ending: str) -> str:
    """Return a verb with the ending "ing" or "ed"."""
    if ending == "ed" and verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb.endswith("e") and verb != "be":
        return verb[:-1] + ending
    if verb.endswith("y") and ending == "ed" and verb[-2] not in "aeo":
        return verb[:-1] + "ied"
    return verb + verb[-1] + ending if verb in DOUBLED else verb + ending


def learnt(known: Sequence[Example]) -> Model:
    """Train the model that separates these sentences with the widest margin."""
    described = [
        [*sorted(features(text)), ("", 1.0)] for text, _ in known
    ]  # sorted, because the order of a set may differ between runs
    count = Counter(one for each in described for one, _ in each)
    places = {one: place for place, one in enumerate(sorted(one for one in count if count[one] >= RARE))}
    vectors = [
        (
            np.array([places[one] for one, _ in each if one in places]),
            np.array([value for one, value in each if one in places]),
        )
        for each in described
    ]
    slack = [0.5 / (COST if invented else COST * HONEST) for _, invented in known]
    lengths = [values @ values + extra for (_, values), extra in zip(vectors, slack, strict=True)]
    weights, shares, order = np.zeros(len(places)), [0.0] * len(known), list(range(len(known)))
    chance = random.Random(7)
    for _ in range(ROUNDS):
        chance.shuffle(order)
        for n in order:
            at, values = vectors[n]
            sign = 1.0 if known[n][1] else -1.0
            margin = sign * (weights[at] @ values)
            share = max(0.0, shares[n] - (margin - 1 + slack[n] * shares[n]) / lengths[n])
            weights[at] += (share - shares[n]) * sign * values
            shares[n] = share
    found = dict(zip(places, weights.tolist(), strict=True))
    return Model(found, found.pop("") - BORDER)


def marked(name: str, model: Model) -> Iterator[tuple[bool, bool, str]]:
    """Yield, for every sentence of a set, whether it was planted, whether it is marked, and the sentence."""
    planted, honest, record = SETS[name]
    known = evidence(record)
    for file, invented in ((planted, True), (honest, False)):
        for _, sentence in sentences(file):
            found = claim(marks.bare(sentence), model=model)
            yield invented, bool(found and not known.supports(found)), sentence


def main(arguments: Sequence[str]) -> int:
    """Train and measure, or train and write."""
    known = {name: list(examples(name)) for name in SETS} | {
        "examples": EXAMPLES * list(examples("examples")),
        "made": list(made(MADE)),
        "prose": list(prose()),
    }
    if "--write" in arguments:
        model = learnt([one for each in known.values() for one in each])
        lines = {one: round(1000 * weight) for one, weight in {**model.weights, "": model.bias}.items()}
        WEIGHTS.write_text(
            "".join(f"{lines[one]} {one}\n" for one in sorted(lines) if abs(lines[one]) >= 1000 * LIGHT),
            "utf-8",
        )
        print(f"{len(lines)} weights from {sum(map(len, known.values()))} sentences")
        return 0
    for left in SETS:
        model = learnt([one for name, each in known.items() if name != left for one in each])
        results = list(marked(left, model))
        for invented in (True, False):
            part = [hit for planted, hit, _ in results if planted is invented]
            print(
                f"{left}, left out: {sum(part)} of {len(part)} {'planted' if invented else 'honest'} marked"
            )
        if "-v" in arguments:
            print(
                *(
                    f"    {'missed' if planted else 'marked'}: {text}"
                    for planted, hit, text in results
                    if planted != hit
                ),
                sep="\n",
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
