"""Checkpoints of a running topology: after which epochs, and when one is complete.

The flow is not stopped. An epoch that nobody has begun is marked; each task hands over its state when it has worked on it,
whenever that is, and goes on; or it writes its state itself, and hands over the name of the file. The states of all tasks
after one epoch are consistent, because every channel carries one message an epoch. When all are here and the epoch is
complete, what is not written yet is written in the background, the manifest last. One checkpoint is under way at a time:
while it is, no other epoch is marked.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from partitioners.plans.plan import pack as pack_plan
from streams.errors import CodecError, RunError
from streams.state import PackedState, Part, pack_apart
from topology.checkpoints.background import BackgroundWriter
from topology.checkpoints.damage import damage_newest
from topology.checkpoints.identity import identity_of, parallelism_of
from topology.checkpoints.manifest import SavedFile, folder_name
from topology.checkpoints.part_files import PartFiles
from topology.checkpoints.run_record import RunRecord
from topology.checkpoints.saved_state import Checkpoint, StateFile
from topology.checkpoints.store import Store
from topology.declaration import CheckpointSettings
from topology.task import Task
from topology.wiring import Wiring

__all__ = ["Attempt", "Checkpoints", "packed_state"]

#: What a sink's state says of how far its file is written: a manifest shows it.
_POSITIONS = ("position", "groups")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a checkpoint, for processes that write their states themselves.

    Whatever an earlier one still writes has another name: its number was given away, and after a crash of the driver, which
    could give the number again, the tag is another one.

    Attributes:
        folder: where in the store.
        tag: is part of the files' names.
    """

    folder: str
    tag: str

    def file_of(self, task: int) -> str:
        """Return the name of the file with a task's state."""
        return f"task-{task:05}-{self.tag}.state"


class Checkpoints:
    """What a runtime reports, and asks, to have checkpoints taken.

    Args:
        resumed_from: the parts of the checkpoint that the run goes on from, where it is one of this store.

    Attributes:
        mark: after this epoch every task hands over its state; None where no checkpoint is under way.
        attempt: what tasks that write their states themselves have to know of it.
        store: where checkpoints are kept.
    """

    def __init__(
        self,
        wiring: Wiring,
        settings: CheckpointSettings,
        store: Store,
        record: RunRecord,
        *,
        resumed_from: Mapping[str, SavedFile] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.mark: int | None = None
        self.attempt: Attempt | None = None
        self.store = store
        self._wiring = wiring
        self._record = record
        self._clock = clock
        self._resumed_here = resumed_from is not None
        self._epochs = settings.epochs
        neither = settings.epochs is None and settings.seconds is None
        self._seconds = settings.EVERY_SECONDS if neither else settings.seconds
        self._last_at = clock()
        self._identity = identity_of(wiring.topology)
        self._states: dict[int, PackedState | StateFile] = {}
        self._sinks: dict[str, Any] = {}
        self._complete = False
        self._plan = _plan_part(wiring)
        self._damaged: set[int] = set()
        most = wiring.topology.settings.limits.state_bytes
        parts = PartFiles(store, most)
        parts.know(resumed_from or {})
        self._writer = BackgroundWriter(store, settings.keep, settings.on_failure, parts, most)

    def begin(self, tasks: Mapping[int, Task]) -> None:
        """Save the start of a run, unless it is a checkpoint of this very store.

        So a run can be resumed before its first checkpoint, and then it is this run, not one that was here before.
        """
        if self._resumed_here:
            return
        self._begin(min(task.next for task in tasks.values()) - 1)
        self._complete = True
        for task in tasks.values():
            self.take(task)
        self._writer.wait()

    def begin_elsewhere(self, start: int) -> None:
        """As `begin`, for tasks of other processes, which hand over their states; see `written`."""
        if not self._resumed_here:
            self._begin(start - 1)
            self._complete = True

    def _begin(self, mark: int) -> None:
        self.mark = mark
        self._serial, self._began = self._writer.reserve(), time.monotonic()
        self.attempt = Attempt(folder_name(self._serial), secrets.token_hex(4))
        self._record.begin_cut(mark)

    @property
    def written(self) -> bool:
        """Tell whether nothing is being collected or written."""
        self._writer.check()
        return self.mark is None and not self._writer.busy

    @property
    def newest(self) -> int | None:
        """Return the epoch of the newest checkpoint that this run has written; None before the first."""
        return self._writer.newest

    @property
    def any_saved(self) -> bool:
        """Tell whether there is a checkpoint of this run in the store."""
        return self._resumed_here or self._writer.saved > 0

    def abandon(self) -> bool:
        """Forget what was collected, because the run goes back to a checkpoint; what is being written is written first.

        Return whether there is one of this run: older ones in the store are another's.
        """
        self._record.drop_cut()
        self._forget()
        self._writer.wait()
        self._resumed_here = self.any_saved
        return self._resumed_here

    def damage(self, seed: int) -> bool:
        """Damage the newest checkpoint, as a fault asks for; return whether it could be done now."""
        return not self._writer.busy and damage_newest(self.store, seed, self._damaged)

    def choose(self, first: int) -> None:
        """Mark an epoch, if it is time; `first` is the first that nobody has begun."""
        self._writer.check()
        self._writer.make_way()
        if self.mark is not None or self._writer.busy:
            return
        marks = []
        if self._epochs is not None:
            marks.append(first + -(first + 1) % self._epochs)
        if self._seconds is not None and self._clock() - self._last_at >= self._seconds:
            marks.append(first)
        if marks:
            self._begin(min(marks))

    def take(self, task: Task) -> None:
        """Take the state of a task of this process that has worked on the marked epoch."""
        self.hand_over(task.spec.id, *packed_state(task))

    def hand_over(self, task: int, state: PackedState | StateFile, positions: Mapping[str, int]) -> None:
        """Take a packed state, or the file that has it, and how far a sink's file is written."""
        self._states[task] = state
        if positions:
            self._sinks[self._wiring.tasks[task].name] = dict(positions)
        self._finish()

    def ack(self, epoch: int) -> None:
        """Note that an epoch is complete."""
        if epoch == self.mark:
            self._complete = True
            self._finish()

    def fail(self, reason: str) -> None:
        """Give up the checkpoint under way, because a task could not write its state; raise if the run is to end for it."""
        assert self.mark is not None
        self._writer.fail(self.mark, reason)
        self.drop()
        self._writer.check()

    def _finish(self) -> None:
        if not self._complete or len(self._states) < len(self._wiring.tasks):
            return
        assert self.mark is not None
        self._writer.submit(
            Checkpoint(
                epoch=self.mark,
                identity=self._identity,
                parallelism=parallelism_of(self._wiring.topology),
                states={task.name: self._states[task.id] for task in self._wiring.tasks},
                driver=pack_apart({**self._record.snapshot(), "plan": self._plan}),
                sinks=self._sinks,
            ),
            self._serial,
            self._began,
        )
        self._forget()

    def _forget(self) -> None:
        self.mark, self.attempt, self._states, self._sinks, self._complete = None, None, {}, {}, False
        self._last_at = self._clock()

    def drop(self) -> None:
        """Give up the checkpoint under way: its epoch is the final one, behind which nothing can go on."""
        self._record.drop_cut()
        self._forget()

    def close(self) -> None:
        """End, when what is being written is written."""
        self._writer.close()


def _plan_part(wiring: Wiring) -> Part | None:
    """Return the plan of a run: the same for all its checkpoints."""
    if wiring.plan is None:
        return None
    packed = pack_plan(wiring.plan)
    return Part.of(f"plan-{hashlib.sha256(packed).hexdigest()}", packed)


def packed_state(task: Task) -> tuple[PackedState, dict[str, int]]:
    """Return the state of a task, packed, and how far a sink's file is written."""
    state = task.snapshot()
    positions = {key: state["operator"][key] for key in _POSITIONS if key in state["operator"]}
    try:
        return pack_apart(state), positions
    except CodecError as error:
        raise RunError(f"the state of {task.spec.name} cannot be saved: {error}") from error
