"""The scratch project the agent works on: a small harbour's software, with modules, tests, settings, logs and faults.

It is made from templates, the same every time. Some modules have a fault that one of their tests finds; what was
broken is known here, so that a scripted assistant can mend it and the result can be checked.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from random import Random
from string import Template

from msgspec import Struct

SEED = 7
INCIDENT = "GT-20931"
"""The one line in the logs that explains the others."""
LOGS = ("east", "west", "fish")
LOG_LINES = 1_100


class Part(Struct, frozen=True):
    """One part of the harbour: a module, its tests, and its fault if it has one."""

    plural: str
    single: str
    unit: str
    purpose: str
    fault: int | None = None

    @property
    def module(self) -> str:
        """Its path in the project."""
        return f"tidewater/{self.plural}.py"

    @property
    def tests(self) -> str:
        """The path of its tests."""
        return f"tests/test_{self.plural}.py"

    def change(self) -> Change | None:
        """What mends it."""
        return None if self.fault is None else FAULTS[self.fault % len(FAULTS)].of(self)

    def words(self) -> dict[str, str]:
        """What the templates need to know."""
        chance = Random(f"{SEED} {self.plural}")
        return {
            "plural": self.plural,
            "Plural": self.plural.capitalize(),
            "single": self.single,
            "Single": self.single.capitalize(),
            "unit": self.unit,
            "UNIT": self.unit.upper(),
            "purpose": self.purpose,
            "reason": chance.choice(REASONS),
            "most": str(chance.randrange(80, 400, 10)),
            "surcharge": str(chance.choice((10, 15, 20, 25))),
            "free": str(chance.randrange(2, 7)),
        }


class Change(Struct, frozen=True):
    """A text and what is to stand in its place."""

    old: str
    new: str


class Fault(Struct, frozen=True):
    """A way in which a module can be broken: what is right, what stands there instead, and which function it is in."""

    right: str
    wrong: str
    where: str

    def of(self, part: Part) -> Change:
        """The change that mends it in one module."""
        words = part.words()
        return Change(Template(self.wrong).substitute(words), Template(self.right).substitute(words))


REASONS = (
    "the quay was built for that",
    "the insurers insist on it",
    "the crane lifts no more",
    "the fire brigade wants it so",
)
FAULTS = (
    Fault("return self.$unit > MOST_$UNIT", "return self.$unit >= MOST_$UNIT", "over"),
    Fault(
        "return max(0, self.days - FREE_DAYS)",
        "return max(0, self.days - FREE_DAYS + 1)",
        "chargeable_days",
    ),
    Fault(
        '[field.strip() for field in line.split(";")]',
        '[field for field in line.split("; ")]',
        "parse",
    ),
    Fault("if one.berth == berth]", "if one.berth >= berth]", "find"),
    Fault("return one.fee + one.fee * SURCHARGE // 100", "return one.fee * SURCHARGE // 100", "fee_of"),
    Fault("(-sums[berth], berth)", "(sums[berth], berth)", "busiest_berth"),
    Fault("sorted(one.name for one in ledger if", "list(one.fee for one in ledger if", "overdue"),
    Fault("total = sum(fee_of(one) for one in ledger)", "total = sum(one.fee for one in ledger)", "report"),
)
_NAMES = (
    ("berths", "berth", "metres", "who lies where, and how much of the quay that takes"),
    ("cranes", "crane", "lifts", "what was lifted, by which crane, for whom"),
    ("pilots", "pilot", "miles", "who brought which ship in, and how far"),
    ("tugs", "tug", "hours", "which tug pulled what, and for how long"),
    ("parcels", "parcel", "kilos", "small goods in the customs shed"),
    ("pallets", "pallet", "boxes", "goods on wood, stacked no higher than allowed"),
    ("tankers", "tanker", "barrels", "what is pumped ashore at the outer pier"),
    ("ferries", "ferry", "cars", "the four crossings a day and what they carry"),
    ("lorries", "lorry", "tonnes", "what leaves by road through the east gate"),
    ("wagons", "wagon", "axles", "what leaves by rail"),
    ("permits", "permit", "pages", "papers that must be there before anything moves"),
    ("invoices", "invoice", "items", "what is owed, by whom, since when"),
    ("crews", "crew", "hands", "who works on which shift"),
    ("moorings", "mooring", "ropes", "small boats in the old basin"),
    ("buoys", "buoy", "lamps", "lights at the entrance and who looks after them"),
    ("sheds", "shed", "bays", "roofed storage along the north quay"),
    ("yachts", "yacht", "feet", "guests in summer"),
    ("barges", "barge", "loads", "sand and gravel from up the river"),
    ("meters", "meter", "units", "electricity taken ashore"),
    ("pumps", "pump", "litres", "water and waste, in and out"),
    ("scales", "scale", "readings", "the weighbridge and what it said"),
    ("seals", "seal", "stamps", "customs seals, set and broken"),
    ("nets", "net", "baskets", "the morning's catch"),
    ("dredgers", "dredger", "buckets", "keeping the channel deep enough"),
)


class Project(Struct, frozen=True):
    """The whole of it, as data."""

    parts: tuple[Part, ...]

    @property
    def broken(self) -> tuple[Part, ...]:
        """Those with a fault."""
        return tuple(part for part in self.parts if part.fault is not None)

    def part(self, plural: str) -> Part:
        """The part of that name."""
        return next(part for part in self.parts if part.plural == plural)

    def write(self, folder: Path) -> None:
        """Put all its files into a folder."""
        for name, text in self.files().items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")

    def files(self) -> Mapping[str, str]:
        """Every file by its path, faults included."""
        found = {
            "README.md": _template("readme.md"),
            "check.py": _template("check.py"),
            "config/staging.toml": _template("staging.toml"),
            "config/production.toml": _template("production.toml"),
            "tidewater/__init__.py": '"""The software of a small harbour."""\n',
            "tests/__init__.py": "",
            **{f"logs/{gate}-gate.log": _log(gate) for gate in LOGS},
        }
        module, tests = Template(_template("module.py")), Template(_template("test.py"))
        for part in self.parts:
            words, change = part.words(), part.change()
            right = module.substitute(words)
            found[part.module] = right if change is None else right.replace(change.new, change.old)
            found[part.tests] = tests.substitute(words)
        return found


def project(parts: int, broken: int) -> Project:
    """A project of so many parts, of which so many have a fault."""
    chosen = sorted(Random(SEED).sample(range(parts), broken))
    return Project(
        tuple(
            Part(*names, fault=chosen.index(place) if place in chosen else None)
            for place, names in enumerate(_NAMES[:parts])
        )
    )


def python() -> str:
    """The Python commands are run with, as a command line names it."""
    return Path(sys.executable).name


def _template(name: str) -> str:
    return resources.files(__package__).joinpath("scratch", f"{name}.txt").read_text("utf-8")


def _log(gate: str) -> str:
    """A week of one gate, with the line that explains the others somewhere in it."""
    chance = Random(f"{SEED} {gate}")
    lines = [_said(chance, gate, number) for number in range(LOG_LINES)]
    if gate == LOGS[0]:
        lines[LOG_LINES * 2 // 3] = (
            f"2026-03-05T02:14:09Z ERROR {gate}-gate[3] incident {INCIDENT}: "
            "the barrier's clock went back an hour and tickets were refused until 03:14"
        )
    return "\n".join(lines) + "\n"


def _said(chance: Random, gate: str, number: int) -> str:
    day, second = 2 + number * 7 // LOG_LINES, chance.randrange(60)
    minute = number * 7 * 1_440 // LOG_LINES % 1_440
    time = f"2026-03-{day:02d}T{minute // 60:02d}:{minute % 60:02d}:{second:02d}Z"
    level = chance.choices(("INFO", "WARN", "ERROR"), (90, 8, 2))[0]
    said = chance.choice(_SAID[level])
    return f"{time} {level} {gate}-gate[{chance.randrange(1, 5)}] {said.format(chance.randrange(10_000, 99_999))}"


_SAID: Mapping[str, Sequence[str]] = {
    "INFO": (
        "ticket {} let in",
        "ticket {} let out",
        "lorry weighed, ticket {}",
        "barrier up for ticket {}",
    ),
    "WARN": ("ticket {} read twice", "slow answer from the ledger, ticket {}"),
    "ERROR": ("ticket {} refused: not valid yet", "no answer from the ledger, ticket {}"),
}
