"""Checkpoints written beside the run: one thread, one checkpoint at a time."""

import queue
import threading
import time
from typing import Literal

from streams.errors import RunError, WaterspoutError
from streams.event_log import EventLog
from streams.state import PackedState
from topology.checkpoints.making_way import MakingWay
from topology.checkpoints.manifest import MAX_FILE_BYTES
from topology.checkpoints.part_files import PartFiles
from topology.checkpoints.saved_state import Checkpoint, StateFile, next_serial, save
from topology.checkpoints.store import Store

__all__ = ["BackgroundWriter", "reason_of"]

log = EventLog()

#: How long the end of a run waits for a checkpoint that is being written.
CLOSE_SECONDS = 600.0


class BackgroundWriter:
    """Writes checkpoints into a store.

    Attributes:
        serial: the number of the next checkpoint.
        saved: how many were written.
        newest: the epoch of the last one that was written; None before the first.
    """

    def __init__(
        self,
        store: Store,
        keep: int,
        on_failure: Literal["stop", "skip"] = "stop",
        parts: PartFiles | None = None,
        most: int = MAX_FILE_BYTES,
    ) -> None:
        self.serial = next_serial(store)
        self.saved = 0
        self.newest: int | None = None
        self._store = store
        self._keep = keep
        self._on_failure = on_failure
        self._parts = parts if parts is not None else PartFiles(store, most)
        self._most = most
        self._waiting: queue.Queue[tuple[Checkpoint, int | None, float | None] | None] = queue.Queue(maxsize=1)
        self._free = threading.Event()
        self._free.set()
        self._make_way = MakingWay()
        self._failure: RunError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="checkpoints")
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Tell whether a checkpoint is being written."""
        return not self._free.is_set()

    def reserve(self) -> int:
        """Return the number of a checkpoint that is being collected; no other one ever has it."""
        serial, self.serial = self.serial, self.serial + 1
        return serial

    def submit(self, checkpoint: Checkpoint, serial: int | None = None, began: float | None = None) -> None:
        """Begin to write a checkpoint; the one before must be done.

        Args:
            checkpoint: what to write.
            serial: a number that was reserved for it; without, the next one.
            began: when it was marked, by `time.monotonic`, for the log.
        """
        assert not self.busy, "one checkpoint at a time"
        self._free.clear()
        self._waiting.put((checkpoint, serial, began))

    def make_way(self) -> None:
        """Let the thread that writes go on, if it does write; to be called by one that works without a pause."""
        if self.busy:
            self._make_way()

    def wait(self) -> None:
        """Wait until nothing is being written, and raise what went wrong."""
        if not self._free.wait(CLOSE_SECONDS):
            raise RunError(
                f"a checkpoint was not written to {self._store.url} within {CLOSE_SECONDS:g} s; is it reachable?"
            )
        self.check()

    def check(self) -> None:
        """Raise what went wrong, if the run is to end for it."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End; a checkpoint that is being written is finished first, so that nobody else finds the store in use."""
        if self._free.wait(CLOSE_SECONDS):
            self._waiting.put(None)
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while (given := self._waiting.get()) is not None:
            try:
                self._write(*given)
            finally:
                del given  # its states need not be kept until the next one
                self._free.set()

    def fail(self, epoch: int, reason: str) -> None:
        """Take note that a checkpoint could not be written: `check` raises it, if the run is to end for it."""
        if self._on_failure == "stop":
            log.warning("checkpoint_failed", epoch=epoch, store=self._store.url, reason=reason)
            self._failure = RunError(
                f"the checkpoint of epoch {epoch} could not be written to {self._store.url}: {reason} "
                "(topology.checkpoint.on_failure = 'skip' would go on without it)"
            )
        else:
            log.warning("checkpoint_skipped", epoch=epoch, store=self._store.url, reason=reason)

    def _write(self, checkpoint: Checkpoint, serial: int | None = None, began: float | None = None) -> None:
        began = time.monotonic() if began is None else began
        serial = self.reserve() if serial is None else serial
        before = self._parts.written
        by_tasks = sum(state.written for state in checkpoint.states.values() if isinstance(state, StateFile))
        handed = sum(state.size for state in checkpoint.states.values() if isinstance(state, PackedState))
        try:
            manifest = save(self._store, serial, checkpoint, self._keep, self._parts, self._most)
        except Exception as error:  # whatever a store raises, the run must know of it
            self.fail(checkpoint.epoch, reason_of(error))
        else:
            self.saved += 1
            self.newest = checkpoint.epoch
            files = (manifest.driver, *manifest.tasks.values(), *manifest.parts.values())
            log.debug(
                "checkpoint_written",
                epoch=checkpoint.epoch,
                store=self._store.url,
                serial=serial,
                bytes=sum(file.size for file in files),
                written=by_tasks + handed + manifest.driver.size + self._parts.written - before,
                handed=handed,
                seconds=round(time.monotonic() - began, 3),
            )


def reason_of(error: Exception) -> str:
    """Return why something could not be written, for a message."""
    return str(error) if isinstance(error, WaterspoutError) else f"{type(error).__name__}: {error}"
