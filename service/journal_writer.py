"""Writes the journal: one thread judges requests in the order of their arrival, and answers when what they brought is durable.

All requests that wait are written together and brought to the disk once. How many may wait is bounded: beyond that a request is
refused, with the advice to come back later.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operators.spouts.journal import JournalEntry, pack_entry
from service.intake import Accepted, Intake
from streams.segment_log import LogWriter

__all__ = ["BusyError", "JournalError", "JournalWriter", "WriterSettings"]

Job = Callable[[Intake, int], Any]


class BusyError(Exception):
    """Too much waits already; come back after `seconds`."""

    def __init__(self, what: str, seconds: int = 1) -> None:
        super().__init__(what)
        self.what, self.seconds = what, seconds


class JournalError(BusyError):
    """The journal cannot be written, now or until the service is started again."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Bounds and delays.

    Attributes:
        waiting_requests: so many requests may wait.
        waiting_bytes: with so many bytes of bodies.
        settle_ms: so long after the last object its time is closed, so that lists of that time come out.
        tick_ms: so often the journal says how late it is, while queries live and nothing else says so.
    """

    waiting_requests: int = 1_024
    waiting_bytes: int = 128 << 20
    settle_ms: int = 2
    tick_ms: int = 250


class JournalWriter:
    """The only one who writes the journal, and the only one who changes the intake.

    Args:
        on_commit: is called in the event loop when the journal has grown.
        now_ms: the clock.
    """

    def __init__(
        self,
        folder: Path,
        intake: Intake,
        on_commit: Callable[[], None],
        settings: WriterSettings | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._log = LogWriter(folder)
        self._intake, self._on_commit, self._now = intake, on_commit, now_ms
        self._settings = settings or WriterSettings()
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Job, int, asyncio.Future[Any]]] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._closed = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    @property
    def position(self) -> int:
        """The end of the journal."""
        return self._log.position

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @property
    def failure(self) -> BaseException | None:
        """What the journal could not be written for; nothing is accepted then."""
        return self._failure

    async def submit(self, job: Job, size: int = 0) -> Any:
        """Let a job judge its request, journal what comes of it, and return that when it is durable."""
        with self._changed:
            if self._failure is not None or self._closed:
                raise self._refusal()
            full = len(self._waiting) >= self._settings.waiting_requests
            if full or (self._waiting and self._bytes + size > self._settings.waiting_bytes):
                raise BusyError(f"{len(self._waiting)} requests of {self._bytes:,} bytes wait to be written")
            future: asyncio.Future[Any] = self._loop.create_future()
            self._waiting.append((job, size, future))
            self._bytes += size
            self._changed.notify()
        return await future

    def _refusal(self) -> JournalError:
        if self._failure is None:
            return JournalError("the service ends", 5)
        return JournalError(
            f"the journal cannot be written: {self._failure}; mend that, and start the service again", 5
        )

    def close(self) -> None:
        """Write what waits, and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()
        self._log.close()

    # --- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        settled = True
        while True:
            jobs = self._next_jobs(self._settings.settle_ms if not settled else self._settings.tick_ms)
            if jobs is None:
                return
            try:
                settled = self._idle(settled) if not jobs else self._write(jobs)
            except BaseException as error:  # the disk is full, or gone: say so to everybody, and accept nothing more
                self._fail(error, [future for _, _, future in jobs])
                return

    def _next_jobs(self, milliseconds: int) -> list[tuple[Job, int, asyncio.Future[Any]]] | None:
        """Return all that waits, nothing after some time, or None at the end."""
        with self._changed:
            if not self._waiting and not self._closed:
                self._changed.wait(milliseconds / 1e3)
            if self._closed and not self._waiting:
                return None
            jobs = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            return jobs

    def _idle(self, settled: bool) -> bool:
        """Close the newest time, or say how late it is, where somebody may wait for that."""
        if not settled:
            entry = self._intake.closing()
        else:
            entry = self._intake.passing(self._now()) if len(self._intake.registrations) else None
        if entry is not None:
            self._append(entry)
            self._commit([])
        return True

    def _write(self, jobs: list[tuple[Job, int, asyncio.Future[Any]]]) -> bool:
        done: list[tuple[asyncio.Future[Any], Any, Exception | None]] = []
        grown = False
        for job, _, future in jobs:
            try:
                found = job(self._intake, self._now())
            except Exception as error:  # whatever a request trips over is that request's own
                done.append((future, None, error))
                continue
            if isinstance(found, Accepted) and found.entry is not None:
                self._append(found.entry)
                grown = True
            done.append((future, found, None))
        if grown:
            self._commit(done)
        else:
            self._loop.call_soon_threadsafe(_resolve, done)
        return not grown

    def _append(self, entry: JournalEntry) -> None:
        self._log.append(pack_entry(entry))

    def _commit(self, done: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
        self._log.sync()
        self._loop.call_soon_threadsafe(self._committed, done)

    def _committed(self, done: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
        self._on_commit()
        _resolve(done)

    def _fail(self, error: BaseException, futures: list[asyncio.Future[Any]]) -> None:
        with self._changed:
            self._failure = error
            futures = [*futures, *(future for _, _, future in self._waiting)]
            self._waiting.clear()
        refused = self._refusal()
        done: list[tuple[asyncio.Future[Any], Any, Exception | None]] = [(future, None, refused) for future in futures]
        self._loop.call_soon_threadsafe(_resolve, done)


def _resolve(done: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
    for future, found, error in done:
        if future.done():
            continue  # whoever asked has gone
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(found)
