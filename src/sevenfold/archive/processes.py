"""Work on many files in several processes, which an interrupt ends at once."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

R = TypeVar("R")

REPORT_SECONDS = 0.1


class _PoolRun(threading.Thread):
    """Leads a pool of processes from a thread of its own.

    An interrupt is raised in the main thread, wherever that is. Inside the pool's own code it could keep a lock
    forever, and the program would never end.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        work: Sequence[tuple[Any, ...]],
        pool: Callable[[], ProcessPoolExecutor],
    ) -> None:
        super().__init__(name="sevenfold-pool", daemon=True)
        self._function = function
        self._work = work
        self._pool = pool
        self.done = 0
        self.results: list[Any] = []
        self.error: BaseException | None = None
        self.stopped = False

    def run(self) -> None:
        try:
            with self._pool() as pool:
                futures = [pool.submit(self._function, *job) for job in self._work if not self.stopped]
                for future in as_completed(futures):
                    future.result()
                    self.done += 1
            self.results = [future.result() for future in futures]
        except BaseException as error:  # noqa: BLE001 (whatever it is, the main thread raises it)
            self.error = error


def in_processes(
    function: Callable[..., R],
    work: Iterable[tuple[Any, ...]],
    processes: int,
    *,
    begin: Callable[..., None],
    begin_with: tuple[Any, ...] = (),
    report: Callable[[int], None],
) -> list[R]:
    """Call a function with each of these arguments in other processes; returns its results in the order of the work.

    Each process calls ``begin`` first. ``report`` is called now and then with how much is done.
    """
    children_before = set(multiprocessing.active_children())
    run = _PoolRun(
        function,
        list(work),
        lambda: ProcessPoolExecutor(processes, initializer=begin, initargs=begin_with),
    )
    run.start()
    try:
        while run.is_alive():
            run.join(REPORT_SECONDS)
            report(run.done)
    except BaseException:
        run.stopped = True
        # In a loop, because a process may be about to start.
        while run.is_alive():
            for child in set(multiprocessing.active_children()) - children_before:
                child.terminate()
            run.join(REPORT_SECONDS)
        raise
    if run.error is not None:
        raise run.error
    return run.results
