"""What happens in the demonstration: what the user says, when, and how the assistant sets about it.

The user's words hold facts that matter later, most of all corrections; each is listed with the words it was said in,
so that the end of the demonstration can tell what became of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from sevenfold.evals.demo.moves import Do, Plan, do, edit, grep, read, run, todo, write
from sevenfold.evals.demo.project import INCIDENT, LOGS, Part, Project, python

KEY = "HV-4417"
PORT = "8443"
HOUR = 3_600.0


class Task(Struct, frozen=True):
    """Something the user says, and the plan that follows from it."""

    says: str
    plan: Callable[[], Plan]
    facts: tuple[str, ...] = ()
    """What must not be forgotten, in the user's words."""
    after: float = 40.0
    """Seconds since the assistant's last words."""


class Story(Struct, frozen=True):
    """The demonstration, task by task."""

    project: Project

    def tasks(self) -> list[Task]:
        """All of them, in order."""
        return [
            Task(MEND, self._mend, (NOT_PRODUCTION, LEDGER_KEY, ROUNDING)),
            Task(GATES, self._gates, (ONCE_A_DAY,), after=7 * 60),
            Task(SETTINGS, self._settings, (STAGING_PORT,)),
            Task(CORRECTION, self._correction, (THREE_RETRIES,)),
            Task(RENAME, self._rename, (NO_ALIAS,), after=HOUR * 3),
            Task(PAGES, self._pages, (PAGES_FOR,), after=8 * 60),
            Task(EXTEND, self._extend, (EMPTY_LEDGER,)),
            Task(REVIEW, self._review, after=HOUR * 14),
            Task(QUESTION, self._answer),
        ]

    # -- plans ----------------------------------------------------------------------------------

    def _mend(self) -> Plan:
        said = yield from do("I will see first what fails.", run(_check()), read("README.md"))
        failing = re.findall(r"^FAIL (\w+)", said, re.MULTILINE)
        state = dict.fromkeys((f"mend {name}" for name in failing), "pending")
        yield from do(f"{len(failing)} parts have a test that fails.", todo(state))
        for name in failing:
            part = self.project.part(name)
            yield from self._mend_one(part)
            state[f"mend {name}"] = "completed"
            if part is not self.project.part(failing[-1]):
                yield from do(f"{name} is done.", todo(state))
        said = yield from do("Now all of them once more.", run(_check()), todo(state))
        return f"All tests pass again: {_last(said)}. The fault was another one in each of {len(failing)} parts."

    def _mend_one(self, part: Part) -> Plan:
        said = yield from do(
            f"{part.plural}: the module beside its tests.",
            read(part.module),
            read(part.tests),
            thought=f"The failing test of {part.plural} names the function; its docstring says what is meant.",
        )
        change = part.change()
        assert change is not None
        yield from do("Is the same expression used elsewhere?", grep(re.escape(change.old), "tidewater"))
        thought = f"`{change.old}` does not do what the docstring says; `{change.new}` does."
        yield from do(f"The cause is one expression in {part.module}.", run(_check(part)), thought=thought)
        yield from edit(f"I will mend {part.module}.", part.module, change.old, change.new)
        said = yield from do("Does it hold now?", run(_check(part)))
        return said

    def _gates(self) -> Plan:
        for gate in LOGS:
            yield from do(f"The whole week of the {gate} gate.", run(f"cat logs/{gate}-gate.log"))
            yield from do(
                "Only what went wrong.", grep(" ERROR ", f"logs/{gate}-gate.log", show="lines", limit=60)
            )
        said = yield from do("Is there an incident behind it?", grep("incident", "logs", show="lines"))
        found = re.search(r"incident (\S+):", said)
        cause = found[1] if found else INCIDENT
        return f"The refused tickets at the east gate have one cause, incident {cause}: a clock that went back an hour."

    def _settings(self) -> Plan:
        yield from do("The settings as they are.", read("config/staging.toml"))
        yield from edit("The port first.", "config/staging.toml", "port = 8080", f"port = {PORT}")
        yield from edit("Then the key.", "config/staging.toml", 'key = "unset"', f'key = "{KEY}"')
        yield from edit("And the retries.", "config/staging.toml", "retries = 5", "retries = 8")
        return f"Staging listens on {PORT}, has the ledger key, and the gates try eight times."

    def _correction(self) -> Plan:
        yield from edit(
            "You are right, I misread that.", "config/staging.toml", "retries = 8", "retries = 3"
        )
        yield from do("As it stands now:", run("cat config/staging.toml"))
        return "The gates try three times in staging; production is as it was."

    def _rename(self) -> Plan:
        yield from do("Where are they?", grep("find_[a-z]+", ".", show="lines"))
        for part in self.project.parts:
            old, new = f"find_{part.plural}", f"select_{part.plural}"
            yield from do(f"{part.plural} next.", read(part.module), read(part.tests))
            yield from edit("The definition.", part.module, old, new)
            yield from edit("And its tests.", part.tests, old, new, everywhere=True)
            yield from do("Still sound?", run(_check(part)))
        yield from do("Nothing left of the old names?", grep("find_[a-z]+", ".", show="counts"))
        said = yield from do("All tests.", run(_check()))
        return f"Every find_… is now select_…, with no alias left behind: {_last(said)}."

    def _pages(self) -> Plan:
        for part in self.project.parts:
            yield from do(f"What is there to say about {part.plural}?", read(part.module))
            yield from do(f"A page about {part.plural}.", write(f"docs/{part.plural}.md", _page(part)))
        listed = "\n".join(f"- [{part.plural}]({part.plural}.md)" for part in self.project.parts)
        yield from do("And an index.", write("docs/index.md", f"# The harbour\n\n{listed}\n"))
        return f"There is a page for each of the {len(self.project.parts)} parts, and an index."

    def _extend(self) -> Plan:
        for part in self.project.parts:
            words = part.words()
            single, unit = words["Single"], part.unit
            yield from do(f"{part.plural}: where does it fit?", grep("^def ", part.module, show="lines"))
            new = (
                f"def mean_{unit}(ledger: list[{single}]) -> int:\n"
                f'    """{unit.capitalize()} of one {part.single} on average, rounded half up; 0 for an empty '
                'ledger."""\n'
                f"    return (2 * total_{unit}(ledger) + len(ledger)) // (2 * len(ledger)) if ledger else 0\n"
            )
            place = f"def fee_of(one: {single}) -> int:"
            yield from edit("Beside the sum.", part.module, place, f"{new}\n\n{place}")
            yield from do("Does everything still hold?", run(_check(part)))
        return f"Each part has its mean now, rounded half up, 0 for an empty ledger: {len(self.project.parts)} parts."

    def _review(self) -> Plan:
        for part in self.project.parts[::3]:
            yield from do(f"Page and module of {part.plural}.", read(f"docs/{part.plural}.md"), read(part.module))
        yield from do("Is production untouched?", run("cat config/production.toml"))
        said = yield from do("And all tests a last time.", run(_check()))
        return f"I compared every third page with its module; they agree. {_last(said)}."

    def _answer(self) -> Plan:
        said = yield from do(
            "That was a while ago; I will look it up.",
            Do("Recall", {"query": "ledger key for staging", "kind": "user"}),
            Do("Recall", {"query": "incident east gate clock"}),
        )
        key = next(iter(re.findall(r"\bHV-\d{4}\b", said)), "I cannot find it")
        incident = next(iter(re.findall(r"\bGT-\d{5}\b", said)), "I cannot find it")
        return f"The ledger key is {key}, and the incident was {incident}."


ANSWER = (KEY, INCIDENT)
"""What the last answer must hold."""

NOT_PRODUCTION = "Never touch config/production.toml, it is the harbour master's."
LEDGER_KEY = f"The ledger key for staging is {KEY}; you will need it later."
ROUNDING = "Money is rounded half up, never to even."
ONCE_A_DAY = "The gates are restarted once a day at 04:30, so ignore what happens then."
STAGING_PORT = f"Staging has to listen on port {PORT}, because 8080 is taken by the weighbridge."
THREE_RETRIES = "No, that is wrong: the gates must try 3 times in staging, not 8."
NO_ALIAS = "Do not leave the old names behind as aliases."
PAGES_FOR = "Write for the people at the counter: they have never seen a program."
EMPTY_LEDGER = "An empty ledger must give 0, not an error."

MEND = f"""\
This is the software of our harbour. Since last week's merge some tests fail; python check.py runs them. Find out \
which, and mend the modules one by one, not the tests. {NOT_PRODUCTION} {LEDGER_KEY} {ROUNDING}"""
GATES = f"""\
Thank you. Drivers complain that tickets were refused at the gates last week. Look through logs/ and tell me whether \
there is one cause. {ONCE_A_DAY}"""
SETTINGS = f"""\
Good. Now get config/staging.toml ready. {STAGING_PORT} Put in the ledger key I gave you, and let the gates try more \
often."""
CORRECTION = f"{THREE_RETRIES} More than that and the barrier's own timer runs out."
RENAME = f"""\
Next: every function find_… is to be called select_…, in the modules and in the tests. {NO_ALIAS} Run the tests of each \
part as you go."""
PAGES = f"Please write a short page about each part into docs/. {PAGES_FOR}"
EXTEND = f"Each part needs a function mean_… beside total_…: the mean of its unit over a ledger. {EMPTY_LEDGER}"
REVIEW = "Good morning. Compare some of the pages with the modules, and run all tests once more."
QUESTION = (
    "One last thing: which ledger key did I give you at the very start, and which incident was behind the "
    "refused tickets?"
)


def _check(part: Part | None = None) -> str:
    return f"{python()} check.py{f' {part.plural}' if part else ''}"


def _last(said: str) -> str:
    found = re.findall(r"^\d+ tests passed, \d+ failed.*$", said, re.MULTILINE)
    return found[-1] if found else "all tests pass"


def _page(part: Part) -> str:
    words = part.words()
    return (
        f"# {words['Plural']}\n\nThis part knows about {part.plural}: {part.purpose}.\n\n"
        f"Each {part.single} has a name, a berth, a number of {part.unit} and a fee. More than {words['most']} "
        f"{part.unit} are not allowed, because {words['reason']}; where it was agreed all the same, the fee is "
        f"{words['surcharge']} per cent higher. The first {words['free']} days cost nothing.\n\n"
        f"In the morning there is a list of all {part.plural} with what each owes, and the sum at its end.\n"
    )
