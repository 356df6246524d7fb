"""What the user says in the demonstration, when, and what of it must not be forgotten.

The user's words hold facts that matter later, most of all corrections. Each is listed in the words it was said in, so
that the end of the demonstration can tell what became of it.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from sevenfold.lab.demo.moves import Plan
from sevenfold.lab.demo.plans import KEY, PORT, Plans
from sevenfold.lab.demo.project import INCIDENT, Project

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
Next: every function find_… is to be called select_…, in the modules and in the tests. {NO_ALIAS} Run the tests of \
each part as you go."""
PAGES = f"Please write a short page about each part into docs/. {PAGES_FOR}"
EXTEND = (
    f"Each part needs a function mean_… beside total_…: the mean of its unit over a ledger. {EMPTY_LEDGER}"
)
REVIEW = "Good morning. Compare some of the pages with the modules, and run all tests once more."
QUESTION = """\
One last thing: which ledger key did I give you at the very start, and which incident was behind the refused tickets?"""

MINUTE, HOUR = 60.0, 3_600.0


class Task(Struct, frozen=True):
    """Something the user says, and the plan that follows from it."""

    says: str
    plan: Callable[[], Plan]
    facts: tuple[str, ...] = ()
    """What must not be forgotten, in the user's words."""
    after: float = 40.0
    """Seconds since the assistant's last words; beyond five minutes the provider's cache has expired."""


def story(project: Project) -> list[Task]:
    """The demonstration, task by task."""
    plans = Plans(project)
    return [
        Task(MEND, plans.mend, (NOT_PRODUCTION, LEDGER_KEY, ROUNDING)),
        Task(GATES, plans.gates, (ONCE_A_DAY,), after=7 * MINUTE),
        Task(SETTINGS, plans.settings, (STAGING_PORT,)),
        Task(CORRECTION, plans.correction, (THREE_RETRIES,)),
        Task(RENAME, plans.rename, (NO_ALIAS,), after=3 * HOUR),
        Task(PAGES, plans.pages, (PAGES_FOR,)),
        Task(EXTEND, plans.extend, (EMPTY_LEDGER,)),
        Task(REVIEW, plans.review, after=14 * HOUR),
        Task(QUESTION, plans.answer),
    ]
