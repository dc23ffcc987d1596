"""Checkpoints of a running topology: after which epochs, and when one is complete.

The flow is not stopped. An epoch that nobody has begun is marked; each task hands over its state when it has worked on it,
whenever that is, and goes on. The states of all tasks after one epoch are consistent, because every channel carries one
message an epoch. When all are here and the epoch is complete, they are written in the background. One checkpoint is under
way at a time: while it is, no other epoch is marked.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from partitioners.plans.plan import pack as pack_plan
from streams.errors import CodecError, RunError
from streams.state import pack_state
from topology.checkpoints.background import BackgroundWriter
from topology.checkpoints.damage import damage_newest
from topology.checkpoints.identity import identity_of, parallelism_of
from topology.checkpoints.run_record import RunRecord
from topology.checkpoints.saved_state import Checkpoint
from topology.checkpoints.store import Store
from topology.declaration import CheckpointSettings
from topology.task import Task
from topology.wiring import Wiring

__all__ = ["Checkpoints", "packed_state"]

#: What a sink's state says of how far its file is written: a manifest shows it.
_POSITIONS = ("position", "groups")


class Checkpoints:
    """What a runtime tells, and asks, to have checkpoints taken.

    Args:
        resumed_here: the run goes on from a checkpoint of this store.

    Attributes:
        mark: after this epoch every task hands over its state; None where no checkpoint is under way.
    """

    def __init__(
        self,
        wiring: Wiring,
        settings: CheckpointSettings,
        store: Store,
        record: RunRecord,
        *,
        resumed_here: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.mark: int | None = None
        self._wiring = wiring
        self._record = record
        self._clock = clock
        self._resumed_here = resumed_here
        self._epochs = settings.epochs
        neither = settings.epochs is None and settings.seconds is None
        self._seconds = settings.EVERY_SECONDS if neither else settings.seconds
        self._last_at = clock()
        self._identity = identity_of(wiring.topology)
        self._states: dict[int, bytes | memoryview] = {}
        self._sinks: dict[str, Any] = {}
        self._complete = False
        self._store = store
        self._damaged: set[int] = set()
        self._writer = BackgroundWriter(store, settings.keep, settings.on_failure)

    def begin(self, tasks: Mapping[int, Task]) -> None:
        """Save the start of a run, unless it is a checkpoint of this very store.

        So a run can be resumed before its first checkpoint, and then it is this run, not one that was here before.
        """
        if self._resumed_here:
            return
        self.mark, self._complete = min(task.next for task in tasks.values()) - 1, True
        self._record.begin_cut(self.mark)
        for task in tasks.values():
            self.take(task)
        self._writer.wait()

    def begin_elsewhere(self, start: int) -> None:
        """As `begin`, for tasks of other processes, which hand over their states; see `written`."""
        if not self._resumed_here:
            self.mark, self._complete = start - 1, True
            self._record.begin_cut(self.mark)

    @property
    def written(self) -> bool:
        """Tell whether nothing is being collected or written."""
        self._writer.check()
        return self.mark is None and not self._writer.busy

    def abandon(self) -> bool:
        """Forget what was collected, because the run goes back to a checkpoint; what is being written is written first.

        Return whether there is one of this run: older ones in the store are another's.
        """
        self._record.drop_cut()
        self._forget()
        self._writer.wait()
        self._resumed_here = self._resumed_here or self._writer.saved > 0
        return self._resumed_here

    def damage(self, seed: int) -> bool:
        """Damage the newest checkpoint, as a fault asks for; return whether it could be done now."""
        return not self._writer.busy and damage_newest(self._store, seed, self._damaged)

    def choose(self, first: int) -> None:
        """Mark an epoch, if it is time; `first` is the first that nobody has begun."""
        self._writer.check()
        if self.mark is not None or self._writer.busy:
            return
        marks = []
        if self._epochs is not None:
            marks.append(first + -(first + 1) % self._epochs)
        if self._seconds is not None and self._clock() - self._last_at >= self._seconds:
            marks.append(first)
        if marks:
            self.mark = min(marks)
            self._record.begin_cut(self.mark)

    def take(self, task: Task) -> None:
        """Take the state of a task of this process that has worked on the marked epoch."""
        self.hand_over(task.spec.id, *packed_state(task))

    def hand_over(self, task: int, packed: bytes | memoryview, positions: Mapping[str, int]) -> None:
        """Take a packed state, and how far a sink's file is written."""
        self._states[task] = packed
        if positions:
            self._sinks[self._wiring.tasks[task].name] = dict(positions)
        self._finish()

    def ack(self, epoch: int) -> None:
        """Hear that an epoch is complete."""
        if epoch == self.mark:
            self._complete = True
            self._finish()

    def _finish(self) -> None:
        if not self._complete or len(self._states) < len(self._wiring.tasks):
            return
        assert self.mark is not None
        plan = self._wiring.plan
        driver = {**self._record.snapshot(), "plan": pack_plan(plan) if plan is not None else None}
        self._writer.submit(
            Checkpoint(
                epoch=self.mark,
                identity=self._identity,
                parallelism=parallelism_of(self._wiring.topology),
                states={task.name: self._states[task.id] for task in self._wiring.tasks},
                driver=pack_state(driver),
                sinks=self._sinks,
            )
        )
        self._forget()

    def _forget(self) -> None:
        self.mark, self._states, self._sinks, self._complete = None, {}, {}, False
        self._last_at = self._clock()

    def drop(self) -> None:
        """Give up the checkpoint under way: its epoch is the final one, behind which nothing can go on."""
        self._record.drop_cut()
        self._forget()

    def close(self) -> None:
        """End, when what is being written is written."""
        self._writer.close()


def packed_state(task: Task) -> tuple[bytes, dict[str, int]]:
    """Return the state of a task, packed, and how far a sink's file is written."""
    state = task.snapshot()
    positions = {key: state["operator"][key] for key in _POSITIONS if key in state["operator"]}
    try:
        return pack_state(state), positions
    except CodecError as error:
        raise RunError(f"the state of {task.spec.name} cannot be saved: {error}") from error
