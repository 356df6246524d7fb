"""When the jobs of a schedule are due."""

from __future__ import annotations

import math

from msgspec.structs import replace

from sevenfold.errors import InputError
from sevenfold.jobs import JobSchedule, JobSpec
from sevenfold.work.running import checked_spec

SHORTEST = 0.1
"""The fewest seconds between two times of a schedule."""


def checked_schedule(schedule: JobSchedule) -> JobSchedule:
    """The schedule with a checked job; raises `InputError` if it cannot be kept."""
    if not schedule.name:
        raise InputError("a schedule needs a name: the same name replaces it")
    if not (math.isfinite(schedule.every) and schedule.every >= SHORTEST):
        raise InputError(
            f"a schedule repeats every {SHORTEST} seconds or less often, not every {schedule.every}"
        )
    if not math.isfinite(schedule.offset):
        raise InputError(f"the offset of a schedule is a number of seconds, not {schedule.offset}")
    if schedule.spec.key:
        raise InputError("a schedule makes the keys of its jobs; leave the key of its job empty")
    return replace(schedule, spec=checked_spec(schedule.spec))


def next_time(schedule: JobSchedule, now: float) -> float:
    """The first time of the schedule after ``now``."""
    passed = math.floor((now - schedule.offset) / schedule.every)
    return (passed + 1) * schedule.every + schedule.offset


def spec_at(schedule: JobSchedule, due: float) -> JobSpec:
    """The job of the schedule for one of its times."""
    return replace(schedule.spec, key=f"{schedule.name}@{due:.3f}")
