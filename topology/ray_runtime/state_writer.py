"""States of a worker's tasks on their way into the store: written by a thread beside the loop, one after the other."""

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from streams.state import PackedState
from topology.checkpoints.background import reason_of
from topology.checkpoints.collection import Attempt
from topology.checkpoints.making_way import MakingWay
from topology.checkpoints.manifest import SavedFile
from topology.checkpoints.part_files import PartFiles
from topology.checkpoints.saved_state import StateFile
from topology.checkpoints.state_files import write_file
from topology.checkpoints.store import Store, open_store

__all__ = ["OwnStore", "StateWriter", "Written"]


@dataclass(frozen=True, slots=True)
class OwnStore:
    """What a worker has to know to write its states itself.

    Attributes:
        place: the store, as `open_store` takes it.
        most: the largest file.
        parts: those that are in the store already.
    """

    place: str
    most: int
    parts: Mapping[str, SavedFile]


@dataclass(frozen=True, slots=True)
class Written:
    """What came of writing a state: the file, or why there is none."""

    task: int
    epoch: int
    positions: Mapping[str, int]
    state: StateFile | None
    failure: str = ""


class StateWriter:
    """Writes states; what was handed in for a generation that is over is forgotten.

    Args:
        own: where to.
        done: is called, by the thread that writes, when there is something in `finished`.
    """

    def __init__(self, own: OwnStore, done: Callable[[], None]) -> None:
        store = open_store(own.place)
        self._store: Store = store
        self._most = own.most
        self._parts = PartFiles(store, own.most)
        self._parts.know(own.parts)
        self._done = done
        self._looked: Attempt | None = None
        self._jobs: queue.SimpleQueue[Callable[[], Written] | None] = queue.SimpleQueue()
        self._written: queue.SimpleQueue[Written] = queue.SimpleQueue()
        self._stopped = False
        self._handed_in = self._done_with = 0
        self._make_way = MakingWay()
        self._thread = threading.Thread(target=self._run, daemon=True, name="states")
        self._thread.start()

    def write(self, attempt: Attempt, epoch: int, task: int, packed: PackedState, positions: Mapping[str, int]) -> None:
        """Begin to write the state of a task."""
        self._handed_in += 1
        self._jobs.put(partial(self._write, attempt, epoch, task, packed, positions))

    def make_way(self) -> None:
        """Let the thread that writes go on, if it does write; to be called by one that works without a pause."""
        if self._done_with < self._handed_in:
            self._make_way()

    def finished(self) -> list[Written]:
        """Return what was written since the last call."""
        found = []
        while not self._written.empty():
            found.append(self._written.get())
        return found

    @property
    def idle(self) -> bool:
        """Tell whether all that was handed in is written, and its worker knows."""
        return self._done_with == self._handed_in and self._written.empty()

    def finish(self, seconds: float) -> None:
        """Wait until all is written, but not longer; nothing can be handed in afterwards."""
        self._jobs.put(None)
        self._thread.join(seconds)

    def stop(self) -> None:
        """Write nothing more than what is being written."""
        self._stopped = True
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None and not self._stopped:
            self._written.put(job())
            self._done_with += 1
            del job  # with it go the bytes of the state
            self._done()

    def _write(
        self, attempt: Attempt, epoch: int, task: int, packed: PackedState, positions: Mapping[str, int]
    ) -> Written:
        try:
            if attempt != self._looked:
                self._parts.look()
                self._looked = attempt
            before = self._parts.written
            parts = {key: self._parts.saved(part) for key, part in packed.parts.items()}
            name = attempt.file_of(task)
            file = write_file(self._store, attempt.folder, name, packed.pieces, self._most, reuse=False)
            written = file.size + self._parts.written - before
        except Exception as error:  # whatever a store raises, the driver decides what it means
            return Written(task, epoch, positions, None, reason_of(error))
        return Written(task, epoch, positions, StateFile(file, parts, written))
