"""How many unsupported claims in summaries are marked as such, and how many honest sentences are marked wrongly.

    python bench/inventing.py [FOLDER] [-v]                         default: ../shared/corpus next to the project
    python bench/inventing.py --planted FILE --honest FILE [--record FILE] [-v]

`bench/claims` holds planted claims and honest sentences that look like them; each set was measured once before the
check was improved with it. Every sentence is put into a summary in several layouts. Nothing may be deleted: without its
marks and citations, a summary must read as before. The bars apply to all sets together. The engine's model was trained
on them; `bench/claims_model.py` measures each set with a model that was not. Then the summaries that models wrote in
the Claude sessions of the folder are checked. The exit status is 1 if a bar is missed. With ``--planted`` and
``--honest`` only these sentences are measured, one per line; ``--record`` holds the user's messages, one per line.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from sevenfold.archive import fidelity
from sevenfold.archive.audit import compactions, unsupported
from sevenfold.layers.compact.extract.notation import Facts, QuotedMessage
from sevenfold.layers.compact.summary.draft import Draft, read_draft
from sevenfold.layers.compact.summary.evidence import Evidence
from sevenfold.layers.compact.summary.marks import MARK, mark
from sevenfold.stores.jsonl.log import JsonlLog

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.compaction import CORPUS, Bar, claude_files, show  # noqa: E402 - started as a script, the project's folder is not on the path

CLAIMS = ROOT / "bench" / "claims"
BEFORE = "The pool in the checkout service was too small, and the test of it is in tests/test_pool.py."
AFTER = "The load test is still to be run against the staging server."
WRITERS = (
    *("sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth", "thirteenth"),
    *("fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"),
    *("twentieth", "twenty-first", "twenty-second", "twenty-third", "twenty-fourth"),
)


def of_writer(name: str) -> tuple[Path, Path, Path]:
    """Return the files of a writer: planted claims, honest sentences, and the user's messages they refer to."""
    own = CLAIMS / name / "record.txt"
    return (
        CLAIMS / name / "planted.txt",
        CLAIMS / name / "honest.txt",
        own if own.exists() else CLAIMS / "record.txt",
    )


SETS = {
    "written before the check": (CLAIMS / "planted.txt", CLAIMS / "honest.txt", CLAIMS / "record.txt"),
    "rounds 2 to 6": (CLAIMS / "planted_later.txt", CLAIMS / "honest_later.txt", CLAIMS / "record.txt"),
    "rounds 8 to 12": of_writer("open"),
    **{f"{name} writer": of_writer(name) for name in WRITERS},
}
FRESH = {f"{name} writer, not learnt from": of_writer(name) for name in ("twenty-fifth", "twenty-sixth")}
"""Sets that the engine's model was not trained on; never train on them."""
LAYOUTS = {
    "a line of its own": "{before}\n{claim}\n{after}",
    "an entry of a list": "{before}\n\n- {after}\n  - {claim}\n- {after}",
    "in a paragraph": "{before} {claim} {after}",
}
LEAST_PLANTED, MOST_HONEST = 0.9, 0.01
_ADDED = re.compile(rf" {re.escape(MARK)}| \[u\d+\]")
_WORDS = re.compile(r"[^\W\d_]")
_SENTENCE = re.compile(r"(?<=[.!?。])\s+")


class Found(Struct):
    """The result of checking a set of sentences."""

    told: int = 0
    marked: int = 0
    deleted: int = 0
    wrong: list[str] = []
    """Planted claims that were not marked, and honest sentences that were."""

    def add(self, other: Found) -> None:
        """Add the counts of another set."""
        self.told += other.told
        self.marked += other.marked
        self.deleted += other.deleted


def sentences(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the sentences of a set, each with its heading; a code block counts as one sentence."""
    heading, block = "", list[str]()
    for line in file.read_text("utf-8").splitlines():
        if block or line.startswith("```"):
            block.append(line)
            if len(block) > 1 and line.startswith("```"):
                yield heading, "\n".join(block)
                block = []
        elif line.startswith("# "):
            heading = line[2:]
        elif line.strip():
            yield heading, line


def evidence(record: Path) -> Evidence:
    """Return the user's messages from the session that the sentences are about, as evidence."""
    said = record.read_text("utf-8").splitlines()
    return Evidence(
        Facts(messages=tuple(QuotedMessage(f"u{n}", words) for n, words in enumerate(said, 1))), []
    )


def checked(
    file: Path, record: Path, *, planted: bool, layouts: Mapping[str, str] = LAYOUTS
) -> dict[str, Found]:
    """Check the sentences of a set in each layout."""
    known = evidence(record)
    found = {layout: Found() for layout in layouts}
    for layout, form in layouts.items():
        for heading, sentence in sentences(file):
            claim = re.sub(r"\A- (?:\[x\] )?", "", sentence)
            if "```" in claim and layout != "a line of its own":
                continue
            text = form.format(before=BEFORE, claim=claim, after=AFTER)
            marked = mark({5: text}, known)
            one = found[layout]
            one.told += 1
            one.marked += bool(marked.sentences)
            one.deleted += _ADDED.sub("", marked.sections[5]) != text
            if bool(marked.sentences) != planted:
                one.wrong.append(f"{heading}: {sentence}")
    return found


def real(corpus: Path) -> Found:
    """Check the summaries that models wrote in real sessions."""
    found = Found()
    for path in claude_files(corpus):
        log = JsonlLog(path)
        for compaction in compactions(log):
            for draft in map(read_draft, fidelity.texts(compaction.summary)):
                if isinstance(draft, Draft):
                    prose = [text for number, text in draft.sections.items() if number != 6]
                    found.wrong += unsupported(prose, compaction.before, log)
                    found.told += sum(map(_sentences, prose))
    found.marked = len(found.wrong)
    return found


def _sentences(text: str) -> int:
    parts = (part for line in text.splitlines() for part in _SENTENCE.split(line))
    return sum(bool(_WORDS.search(part)) for part in parts)


def figures(found: Mapping[str, Found]) -> str:
    """Return the lowest and highest number of sentences marked in any layout, as text."""
    marked = sorted({one.marked for one in found.values()})
    told = max(one.told for one in found.values())
    return f"{' to '.join(map(str, dict.fromkeys((marked[0], marked[-1]))))} of {told}"


def bars(planted: Mapping[str, Found], honest: Mapping[str, Found]) -> Iterator[Bar]:
    """Yield the acceptance bars for both sets."""
    for layout, one in planted.items():
        met = one.marked >= LEAST_PLANTED * one.told
        yield (
            f"planted claims marked, {layout}",
            f"{one.marked} of {one.told}",
            f"at least {LEAST_PLANTED:.0%}",
            met,
        )
    for layout, one in honest.items():
        met = one.marked <= MOST_HONEST * one.told
        yield (
            f"honest sentences marked, {layout}",
            f"{one.marked} of {one.told}",
            f"at most {MOST_HONEST:.0%}",
            met,
        )
    gone = sum(one.deleted for found in (planted, honest) for one in found.values())
    yield "texts in which something was deleted or moved", str(gone), "0", gone == 0


def together(
    sets: Mapping[str, tuple[Path, Path, Path]], tell: Callable[[str, list[str]], None]
) -> list[Bar]:
    """Return the bars over all sets; ``tell`` receives the figures of each and the sentences judged wrongly."""
    sums = {layout: (Found(), Found()) for layout in LAYOUTS}
    for title, (planted_file, honest_file, record) in sets.items():
        planted = checked(planted_file, record, planted=True)
        honest = checked(honest_file, record, planted=False)
        for layout, both in sums.items():
            for total, one in zip(both, (planted[layout], honest[layout]), strict=True):
                total.add(one)
        wrong = [one for found in (planted, honest) for each in found.values() for one in each.wrong]
        tell(
            f"{title}: {figures(planted)} planted, {figures(honest)} honest marked",
            list(dict.fromkeys(wrong)),
        )
    return list(bars(*({layout: both[kind] for layout, both in sums.items()} for kind in (0, 1))))


def main(arguments: Sequence[str]) -> int:
    """Measure everything and print it; return exit status 0 if all bars are met, else 1."""
    parser = argparse.ArgumentParser(description="What is marked in summaries.")
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print the sentences that were judged wrongly"
    )
    parser.add_argument("--planted", type=Path, help="claims that no record supports, one a line")
    parser.add_argument("--honest", type=Path, help="sentences that must not be marked, one a line")
    parser.add_argument(
        "--record", type=Path, default=CLAIMS / "record.txt", help="the user's messages, one a line"
    )
    options = parser.parse_args(arguments)
    own = options.planted is not None or options.honest is not None
    if own and (options.planted is None or options.honest is None):
        parser.error("--planted and --honest go together")
    sets = {"these sentences": (options.planted, options.honest, options.record)} if own else SETS

    def tell(figures: str, wrong: list[str]) -> None:
        print(figures)
        if options.verbose:
            print(*(f"      {one}" for one in wrong), sep="\n")

    met = show(together(sets, tell))
    if own:
        return 0 if met else 1
    met &= show(together(FRESH, tell))
    if options.folder.is_dir():
        found = real(options.folder)
        print(f"summaries models wrote in real sessions: {found.marked} of {found.told} sentences marked")
        print(*(f"      {one[:150]}" for one in found.wrong), sep="\n")
    else:
        print(f"no transcripts in {options.folder}")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
