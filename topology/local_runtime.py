"""The embedded runtime: all tasks in this process, driven by a seeded scheduler.

It is what runs by default, and it is the simulator of the tests: with `delays`, messages of different channels overtake each
other as the seed says. Whatever the schedule, the results are the same.
"""

import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from streams.errors import RunError
from topology.checkpoints.collection import Checkpoints
from topology.conductor import Conductor
from topology.failure import speaks_for_itself, task_failure
from topology.messages import Message, Report
from topology.task import Task
from topology.wiring import Wiring

__all__ = ["LocalRuntime"]

#: How long an idle topology sleeps before it looks for input again, at first and at most.
IDLE_SECONDS_FIRST, IDLE_SECONDS_MOST = 0.001, 0.2


class LocalRuntime:
    """Runs a wiring to its end.

    Attributes:
        on_report: hears every report as it comes.
        on_ack: hears of each complete epoch, and how many are still under way.
    """

    def __init__(
        self,
        wiring: Wiring,
        *,
        seed: int = 0,
        delays: bool = False,
        on_report: Callable[[Report], None] = lambda _report: None,
        on_ack: Callable[[int, int], None] = lambda _epoch, _pending: None,
        should_stop: Callable[[], bool] = lambda: False,
        snapshots: Mapping[int, dict[str, Any]] | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.wiring = wiring
        self.on_report, self.on_ack, self.should_stop = on_report, on_ack, should_stop
        self._random = random.Random(seed)
        self._delays = delays
        self._in_flight: list[Message] = []
        self._tasks: dict[int, Task] = {}
        self._snapshots = snapshots or {}
        self._checkpoints = checkpoints

    def run(self) -> None:
        """Run until the final epoch is complete; raise what an operator raised, with its task's name."""
        try:
            for spec in self.wiring.tasks:
                try:
                    self._tasks[spec.id] = Task(self.wiring, spec)
                except Exception as error:
                    if speaks_for_itself(error):
                        raise
                    raise task_failure(spec.name, -1, error) from error
            start = self._restore()
            if self._checkpoints is not None:
                self._checkpoints.begin(self._tasks)
            self._loop(Conductor(self.wiring, start=start))
        finally:
            self._close()

    def _close(self) -> None:
        for task in self._tasks.values():
            with suppress(Exception):  # the run has ended; one that cannot close must not keep others from it
                task.operator.close()

    def _restore(self) -> int:
        """Give every task its snapshot, where there are any, and send again what was under way."""
        under_way = [m for id_, state in self._snapshots.items() for m in self._tasks[id_].restore(state)]
        self._snapshots = {}
        for message in under_way:
            self._tasks[message.target].accept(message)
        return min((task.next for task in self._tasks.values()), default=0)

    def snapshot(self) -> dict[int, dict[str, Any]]:
        """Return the state of all tasks; they must all be between the same two epochs."""
        return {id_: task.snapshot() for id_, task in self._tasks.items()}

    def _loop(self, conductor: Conductor) -> None:
        spouts = [self._tasks[spec.id] for spec in self.wiring.spouts]
        idle_seconds = IDLE_SECONDS_FIRST
        ready: dict[int, Task] = {}
        self._grant(conductor, spouts, ready)
        while not conductor.done:
            if self.should_stop():
                conductor.stop()
            if not ready and not self._in_flight:
                raise RunError(f"all tasks wait and nothing is under way in epoch {conductor.acked}")
            completed = self._turn(conductor, ready)
            for epoch in completed:
                for spout in spouts:
                    spout.operator.ack(epoch)
                self.on_ack(epoch, conductor.pending)
                if self._checkpoints is not None:
                    self._checkpoints.ack(epoch)
            if completed and conductor.idle and conductor.pending == 0 and conductor.final is None:
                time.sleep(idle_seconds)
                idle_seconds = min(idle_seconds * 2, IDLE_SECONDS_MOST)
            elif completed and not conductor.idle:
                idle_seconds = IDLE_SECONDS_FIRST
            if completed:
                self._grant(conductor, spouts, ready)

    def _grant(self, conductor: Conductor, spouts: list[Task], ready: dict[int, Task]) -> None:
        if self._checkpoints is not None:
            self._checkpoints.choose(conductor.limit)
        if conductor.grant():
            for spout in spouts:
                spout.grant(conductor.limit, conductor.final)
                if spout.ready():
                    ready[spout.spec.id] = spout

    def _turn(self, conductor: Conductor, ready: dict[int, Task]) -> list[int]:
        """Deliver a message or let a task work on an epoch, whichever the seed picks."""
        deliver = self._in_flight and (not ready or self._random.random() < 0.5)
        if deliver:
            chosen = self._random.randrange(len(self._in_flight))
            self._in_flight[chosen], message = self._in_flight[-1], self._in_flight[chosen]
            self._in_flight.pop()
            self._deliver(message, ready)
            return []
        names = list(ready)
        task = ready.pop(names[self._random.randrange(len(names))])
        started = time.perf_counter()
        try:
            messages, report = task.step()
            self._save(task, report.epoch)
        except Exception as error:
            self._fail(conductor)
            if speaks_for_itself(error):
                raise
            raise task_failure(task.spec.name, task.next, error) from error
        report.counts["busy_ms"] = (time.perf_counter() - started) * 1e3  # type: ignore[index]
        if task.ready():
            ready[task.spec.id] = task
        if self._delays:
            self._in_flight.extend(messages)
        else:
            for message in messages:
                self._deliver(message, ready)
        self.on_report(report)
        return conductor.report(report)

    def _save(self, task: Task, epoch: int) -> None:
        """Take the state of a task that has worked on the epoch of a checkpoint; behind the final one nothing goes on."""
        checkpoints = self._checkpoints
        if checkpoints is not None and checkpoints.mark == epoch:
            if task.done:
                checkpoints.drop()
            else:
                checkpoints.take(task)

    def _deliver(self, message: Message, ready: dict[int, Task]) -> None:
        task = self._tasks[message.target]
        task.accept(message)
        if task.spec.id not in ready and task.ready():
            ready[task.spec.id] = task

    def _fail(self, conductor: Conductor) -> None:
        for spec in self.wiring.spouts:
            for epoch in range(conductor.acked, conductor.limit):
                self._tasks[spec.id].operator.fail(epoch)
