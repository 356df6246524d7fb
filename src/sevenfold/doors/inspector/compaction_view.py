"""What each compaction of a session did to what is worth knowing: kept in the context, reachable by search, or gone."""

from __future__ import annotations

from typing import Any

from sevenfold.archive.audit import CompactionMoment, by_recall, compactions
from sevenfold.archive.fidelity import judge, sample, texts
from sevenfold.archive.fidelity.facts import CORRECTION, DECISION, PREFERENCE, USER_MESSAGE
from sevenfold.doors.inspector.shelf import OpenSession
from sevenfold.doors.inspector.wording import shown

USERS = frozenset({USER_MESSAGE, CORRECTION, PREFERENCE, DECISION})
"""The kinds of facts that are the user's own: messages, corrections, wishes and decisions."""
LISTED = 80
"""How many facts of a column are listed at most."""
LONGEST = 300
QUERY = 1_000
"""How much of a fact a search for it needs."""
COLUMNS = (
    ("kept", "in_context"),
    ("reachable", "reachable"),
    ("lost", "lost"),
)


def compactions_view(session: OpenSession) -> dict[str, Any]:
    """Every compaction with its three columns, the newest first; searches the whole session, so it takes its time."""
    archived = session.archived()
    reachable = by_recall(archived.recall_index())
    views = []
    for moment in compactions(archived.log):
        facts = sample(moment.hidden, later_rounds_visible=moment.later_rounds_visible)
        score = judge(facts.probes, texts(moment.after), reachable)
        columns = {
            name: [probe for probe, state in score.states if state == wanted] for name, wanted in COLUMNS
        }
        view: dict[str, Any] = {
            "id": shown(moment.boundary.uuid, 80),
            "at": shown(moment.boundary.timestamp, 40),
            "own": moment.boundary.own,
            "trigger": shown(moment.boundary.about.trigger or "auto", 40),
            "summary": _summary(moment),
            "hidden": len(moment.hidden),
            "leftOut": sum(facts.left_out.values()),
        }
        for name, probes in columns.items():
            # What the user said comes first: it is what nobody can look up in the code.
            ordered = sorted(probes, key=lambda probe: probe.kind not in USERS)
            view[name] = {
                "total": len(probes),
                "users": sum(probe.kind in USERS for probe in probes),
                "facts": [
                    {
                        "kind": probe.kind.replace("_", " "),
                        "users": probe.kind in USERS,
                        "text": shown(probe.text, LONGEST),
                        "record": probe.record,
                        "query": shown(probe.text, QUERY) if name == "reachable" else "",
                        "sought": list(probe.sought),
                    }
                    for probe in ordered[:LISTED]
                ],
            }
        views.append(view)
    return {"compactions": views[::-1]}


def _summary(moment: CompactionMoment) -> str:
    """The record of its summary; empty if there is none."""
    return next((item.record.uuid for item in moment.summary), "")
