"""Checkpoints written beside the run: one thread, one checkpoint at a time."""

import queue
import threading
from typing import Literal

import structlog

from streams.errors import RunError, WaterspoutError
from topology.checkpoints.saved_state import Checkpoint, next_serial, save
from topology.checkpoints.store import Store

__all__ = ["BackgroundWriter"]

log = structlog.get_logger()

#: How long the end of a run waits for a checkpoint that is being written.
CLOSE_SECONDS = 600.0


class BackgroundWriter:
    """Writes checkpoints into a store.

    Attributes:
        serial: the number of the next checkpoint.
        saved: how many were written.
    """

    def __init__(self, store: Store, keep: int, on_failure: Literal["stop", "skip"] = "stop") -> None:
        self.serial = next_serial(store)
        self.saved = 0
        self._store = store
        self._keep = keep
        self._on_failure = on_failure
        self._waiting: queue.Queue[Checkpoint | None] = queue.Queue(maxsize=1)
        self._free = threading.Event()
        self._free.set()
        self._failure: RunError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="checkpoints")
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Tell whether a checkpoint is being written."""
        return not self._free.is_set()

    def submit(self, checkpoint: Checkpoint) -> None:
        """Begin to write a checkpoint; the one before must be done."""
        assert not self.busy, "one checkpoint at a time"
        self._free.clear()
        self._waiting.put(checkpoint)

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
        while (checkpoint := self._waiting.get()) is not None:
            try:
                self._write(checkpoint)
            finally:
                self._free.set()

    def _write(self, checkpoint: Checkpoint) -> None:
        serial, self.serial = self.serial, self.serial + 1
        try:
            manifest = save(self._store, serial, checkpoint, self._keep)
        except Exception as error:  # whatever a store raises, the run must hear of it
            reason = str(error) if isinstance(error, WaterspoutError) else f"{type(error).__name__}: {error}"
            if self._on_failure == "stop":
                log.warning("checkpoint_failed", epoch=checkpoint.epoch, store=self._store.url, reason=reason)
                self._failure = RunError(
                    f"the checkpoint of epoch {checkpoint.epoch} could not be written to {self._store.url}: {reason} "
                    "(topology.checkpoint.on_failure = 'skip' would go on without it)"
                )
            else:
                log.warning("checkpoint_skipped", epoch=checkpoint.epoch, store=self._store.url, reason=reason)
        else:
            self.saved += 1
            size = sum(file.size for file in manifest.tasks.values()) + manifest.driver.size
            log.debug("checkpoint_written", epoch=checkpoint.epoch, store=self._store.url, serial=serial, bytes=size)
