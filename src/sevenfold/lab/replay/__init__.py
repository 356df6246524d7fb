"""Recorded sessions replayed: what would they have cost, and kept, under another policy, model or window?

    recording   the content of a recorded session of any tool, step by step, with its times
    provider    the simulated provider in this process, which gives the recorded answers and bills every request
    prose       what a model writes as a summary, the same for every policy
    plain       a conversation as a list of messages, as most programs keep it
    policies    what other programs do to that list
    engine      our own engine, with its defaults or other settings
    retention   which facts and rules of the session the model sees at its end
    bill        what the requests cost, and what they should have found in the cache
    run         one session under one policy
    files       many sessions, in several processes
    figures     what a replay found, totals, and limits

Usage::

    from sevenfold.lab import replay

    recording = replay.read(Path("session.jsonl"))
    replayed = replay.replay(recording, replay.policy("ours"), model="claude-opus-4-6", window=200_000)
    print(replayed.figures.cost_usd, replayed.series.cost_usd[-1])
"""

from sevenfold.lab.replay.figures import PolicyTotal, Replayed, ReplayFigures, ReplayLimits, Series, totals
from sevenfold.lab.replay.files import ReplayReport, replay_files
from sevenfold.lab.replay.policies import STANDARD
from sevenfold.lab.replay.recording import Recording, read
from sevenfold.lab.replay.run import ReplayPolicy, policy, replay

__all__ = [
    "STANDARD",
    "PolicyTotal",
    "Recording",
    "ReplayFigures",
    "ReplayLimits",
    "ReplayPolicy",
    "ReplayReport",
    "Replayed",
    "Series",
    "policy",
    "read",
    "replay",
    "replay_files",
    "totals",
]
