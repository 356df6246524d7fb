"""How the scripted assistant sets about each task, move by move, with what it thinks meanwhile.

It looks before it changes anything, runs the tests after each change, and goes by what the tools really said wherever
it has to decide something: which parts fail, what the incident was, what it was told at the start.
"""

from __future__ import annotations

import re

from sevenfold.lab.demo.moves import Do, Plan, do, edit, grep, read, run, todo, write
from sevenfold.lab.demo.project import INCIDENT, LOGS, Part, Project, python

KEY = "HV-4417"
PORT = "8443"
STAGING = "config/staging.toml"


class Plans:
    """The plans for one project."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def mend(self) -> Plan:
        """Find out which parts fail, and mend one after the other."""
        said = yield from do("I will see first what fails.", run(_check()), read("README.md"))
        failing = re.findall(r"^FAIL (\w+)", said, re.MULTILINE)
        state = dict.fromkeys((f"mend {name}" for name in failing), "pending")
        yield from do(f"{len(failing)} parts have a test that fails.", todo(state))
        for name in failing:
            yield from self._mend_one(self._project.part(name))
            state[f"mend {name}"] = "completed"
            if name != failing[-1]:
                yield from do(f"{name} is done.", todo(state))
        said = yield from do("Now all of them once more.", run(_check()), todo(state))
        return f"All tests pass again: {_last(said)}. The fault was another one in each of {len(failing)} parts."

    def _mend_one(self, part: Part) -> Plan:
        change = part.change()
        assert change is not None
        yield from do(
            f"{part.plural}: the module beside its tests.",
            read(part.module),
            read(part.tests),
            thought=f"One test of {part.plural} fails and the others pass, so it is one function and not the parsing "
            f"of the whole ledger. The docstrings of {part.module} say what each function is meant to do; I compare "
            "the failing assertion with them before I touch anything. The tests themselves are not to be changed.",
        )
        yield from do(
            "Is the same expression used elsewhere?",
            grep(re.escape(change.old), "tidewater", show="lines"),
            thought=f"`{change.old}` looks wrong. All modules are built alike, so the same slip may be in several of "
            "them; if it is only here, the merge touched this one alone, and a change here cannot hide another.",
        )
        yield from do(
            "The failing test by itself.",
            run(_check(part)),
            thought=f"Before the change I want the exact message for {part.plural}, to see that it is this test and "
            "no other, and to be able to tell afterwards that the change made the difference.",
        )
        thought = (
            f"`{change.old}` does not do what the docstring says; `{change.new}` does. It is the smallest change: no "
            "signature moves and no other part calls it in another way."
        )
        yield from edit(f"I mend {part.module}.", part.module, change.old, change.new, thought=thought)
        said = yield from do("Does it hold now?", run(_check(part)))
        return said

    def gates(self) -> Plan:
        """Look through the logs for one cause."""
        for gate in LOGS:
            yield from do(
                f"The whole week of the {gate} gate.",
                run(f"cat logs/{gate}-gate.log"),
                thought=f"Refused tickets should show as errors in the log of the {gate} gate. First the whole, for "
                "the rhythm of a normal day; then the errors alone. What happens at 04:30 is the restart.",
            )
            path = f"logs/{gate}-gate.log"
            yield from do("Only what went wrong.", grep(" ERROR ", path, show="lines", limit=25))
        said = yield from do("Is there an incident behind it?", grep("incident", "logs", show="lines"))
        found = re.search(r"incident (\S+):", said)
        cause = found[1] if found else INCIDENT
        return f"The refused tickets have one cause, incident {cause} at the east gate: a clock that went back an hour."

    def settings(self) -> Plan:
        """Get staging ready, with one thing misunderstood."""
        yield from do("The settings as they are.", read(STAGING))
        yield from edit("The port first.", STAGING, "port = 8080", f"port = {PORT}")
        yield from edit("Then the key.", STAGING, 'key = "unset"', f'key = "{KEY}"')
        yield from edit("And the retries.", STAGING, "retries = 5", "retries = 8")
        return f"Staging listens on {PORT}, has the ledger key, and the gates try eight times."

    def correction(self) -> Plan:
        """Put right what was misunderstood."""
        yield from edit("You are right, I misread that.", STAGING, "retries = 8", "retries = 3")
        yield from do("As it stands now:", run(f"cat {STAGING}"))
        return "The gates try three times in staging; production is as it was."

    def rename(self) -> Plan:
        """Give a function of every part another name."""
        yield from do("Where are they?", grep("find_[a-z]+", ".", show="lines", limit=30))
        for part in self._project.parts:
            old, new = f"find_{part.plural}", f"select_{part.plural}"
            yield from do(
                f"{part.plural} next.",
                read(part.module),
                read(part.tests),
                thought=f"In {part.plural} the name stands once in the module, where it is defined, and twice in the "
                "tests: in the import and in one call. Both files have to change together, or the import fails.",
            )
            thought = f"No alias: the old name {old} must be gone afterwards, as the user said."
            yield from edit("The definition.", part.module, old, new, thought=thought)
            yield from edit("And its tests.", part.tests, old, new, everywhere=True)
            yield from do("Still sound?", run(_check(part)))
        yield from do("Nothing left of the old names?", grep("find_[a-z]+", ".", show="counts"))
        said = yield from do("All tests.", run(_check()))
        return f"Every find_… is now select_…, with no alias left behind: {_last(said)}."

    def pages(self) -> Plan:
        """Write a page about every part."""
        for part in self._project.parts:
            yield from do(f"What is there to say about {part.plural}?", read(part.module))
            yield from do(
                f"A page about {part.plural}.",
                write(f"docs/{part.plural}.md", _page(part)),
                thought=f"The people at the counter want to know what counts as a {part.single}, how many {part.unit} "
                "are allowed and why, what it costs beyond that, and which days are free. No names of functions, no "
                "types; the figures must be those of the module.",
            )
        listed = "\n".join(f"- [{part.plural}]({part.plural}.md)" for part in self._project.parts)
        yield from do("And an index.", write("docs/index.md", f"# The harbour\n\n{listed}\n"))
        return f"There is a page for each of the {len(self._project.parts)} parts, and an index."

    def extend(self) -> Plan:
        """Add a function to every part."""
        for part in self._project.parts:
            yield from do(f"{part.plural}: where does it fit?", grep("^def ", part.module, show="lines"))
            place = f"def fee_of(one: {part.words()['Single']}) -> int:"
            thought = (
                f"mean_{part.unit} belongs right behind total_{part.unit}, which it uses. Half up without floats: "
                "twice the sum plus the count, divided by twice the count. An empty ledger has no count to divide "
                "by and gives 0, as the user wants it."
            )
            yield from edit(
                "Beside the sum.", part.module, place, f"{_mean(part)}\n\n{place}", thought=thought
            )
            yield from do("Does everything still hold?", run(_check(part)))
        return f"Each of the {len(self._project.parts)} parts has its mean, rounded half up, 0 for an empty ledger."

    def review(self) -> Plan:
        """Compare some pages with their modules."""
        for part in self._project.parts[::3]:
            yield from do(
                f"Page and module of {part.plural}.", read(f"docs/{part.plural}.md"), read(part.module)
            )
        yield from do("Is production untouched?", run("cat config/production.toml"))
        said = yield from do("And all tests a last time.", run(_check()))
        return f"I compared every third page with its module; they agree. {_last(said)}."

    def answer(self) -> Plan:
        """Look up what was said long ago."""
        said = yield from do(
            "That was a while ago; I will look it up.",
            Do("Recall", {"query": "ledger key for staging", "kind": "user"}),
            Do("Recall", {"query": "incident east gate clock went back"}),
        )
        key = next(iter(re.findall(r"\bHV-\d{4}\b", said)), "nowhere to be found")
        incident = next(iter(re.findall(r"\bGT-\d{5}\b", said)), "nowhere to be found")
        return f"The ledger key is {key}, and the incident was {incident}."


def _check(part: Part | None = None) -> str:
    return f"{python()} check.py{f' {part.plural}' if part else ''}"


def _last(said: str) -> str:
    found = re.findall(r"^\d+ tests passed, \d+ failed.*$", said, re.MULTILINE)
    return found[-1] if found else "all tests pass"


def _mean(part: Part) -> str:
    unit = part.unit
    return (
        f"def mean_{unit}(ledger: list[{part.words()['Single']}]) -> int:\n"
        f'    """{unit.capitalize()} of one {part.single} on average, rounded half up; 0 for an empty ledger."""\n'
        f"    return (2 * total_{unit}(ledger) + len(ledger)) // (2 * len(ledger)) if ledger else 0\n"
    )


def _page(part: Part) -> str:
    words = part.words()
    return (
        f"# {words['Plural']}\n\nThis part knows about {part.plural}: {part.purpose}.\n\n"
        f"Each {part.single} has a name, a berth, a number of {part.unit} and a fee. More than {words['most']} "
        f"{part.unit} are not allowed, because {words['reason']}; where it was agreed all the same, the fee is "
        f"{words['surcharge']} per cent higher. The first {words['free']} days cost nothing.\n\n"
        f"In the morning there is a list of all {part.plural} with what each owes, and the sum at its end.\n"
    )
