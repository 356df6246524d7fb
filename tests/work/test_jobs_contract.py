"""What all jobs must do, whoever carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sevenfold.jobs import Handler, JobLimits, Jobs
from sevenfold.testing.jobs import JobsContract
from sevenfold.work.threads import ThreadJobs


@pytest.mark.spec("S35.1", "S35.2", "S35.3", "S35.4")
class TestThreads(JobsContract):
    def open_jobs(self, folder: Path, handlers: Mapping[str, Handler], limits: JobLimits) -> Jobs:
        return ThreadJobs(handlers, limits=limits)
