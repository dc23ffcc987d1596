"""The embedded runtime: all tasks in this process, driven by a seeded scheduler.

It is what runs by default, and it is the simulator of the tests: with `delays`, messages of different channels overtake each
other as the seed says, and faults happen as they are declared (`topology.faults`): a task that is killed takes all memory of
this process with it, and the run goes back to its newest checkpoint. Whatever happens, the results are the same.
"""

import math
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from streams.errors import RunError
from streams.event_log import EventLog
from topology.checkpoints.collection import Checkpoints
from topology.conductor import Conductor
from topology.failure import SetbackError, speaks_for_itself, task_failure
from topology.fault_schedule import FaultSchedule, slow_faults, slow_ms
from topology.lens import Shutter
from topology.messages import Message, Report
from topology.task import Task
from topology.watching import Watcher
from topology.wiring import Wiring

__all__ = ["LocalRuntime"]

log = EventLog()

#: How long an idle topology sleeps before it looks for input again, at first and at most.
IDLE_SECONDS_FIRST, IDLE_SECONDS_MOST = 0.001, 0.2


class LocalRuntime:
    """Runs a wiring to its end.

    Attributes:
        on_report: receives every report as it comes.
        on_ack: receives each complete epoch, and how many are still under way.
        turns: how often a message was delivered or a task worked on an epoch; pauses are counted in turns too.
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
        snapshots: Mapping[int, Mapping[str, Any]] | None = None,
        checkpoints: Checkpoints | None = None,
        go_back: Callable[[], Mapping[int, Mapping[str, Any]] | None] | None = None,
        watcher: Watcher | None = None,
        clock: Callable[[], float] = time.perf_counter,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self.wiring, self._clock = wiring, clock
        self.on_report, self.on_ack, self.should_stop = on_report, on_ack, should_stop
        self._random = random.Random(seed)
        self._delays = delays
        self._in_flight: list[Message] = []
        self._tasks: dict[int, Task] = {}
        self._snapshots: Mapping[int, Mapping[str, Any]] = snapshots or {}
        self._checkpoints, self._go_back = checkpoints, go_back
        self._faults = FaultSchedule(wiring)
        self._watcher = watcher
        self._slow = slow_faults(wiring)
        self._held: dict[int, int] = {}
        self._restarts = 0
        self._newest: int | None = None
        self._wait = wait or time.sleep
        self.turns = 0

    def run(self) -> None:
        """Run until the final epoch is complete; raise what an operator raised, with its task's name."""
        try:
            while True:
                try:
                    self._run_generation()
                except SetbackError as lost:
                    self._recover(lost)
                else:
                    break
        finally:
            self._close()
        self._faults.end()

    def _run_generation(self) -> None:
        """Run to the end with fresh tasks, from their snapshots where there are any."""
        shown = Shutter(self._clock)
        for spec in self.wiring.tasks:
            try:
                self._tasks[spec.id] = Task(self.wiring, spec, shown=shown)
            except Exception as error:
                if speaks_for_itself(error):
                    raise
                raise task_failure(spec.name, -1, error) from error
        start = self._restore()
        if not self._restarts:
            self._faults.begin(start)
        if self._checkpoints is not None:
            self._checkpoints.begin(self._tasks)
        self._loop(Conductor(self.wiring, start=start))

    def _recover(self, lost: SetbackError) -> None:
        """Forget all tasks and messages and go back to the newest checkpoint, or end the run."""
        settings = self.wiring.topology.settings.checkpoint
        if self._go_back is None or settings is None:
            raise lost
        if self._restarts == settings.max_restarts:
            raise SetbackError(
                f"{lost}; given up after {self._restarts} restarts (topology.checkpoint.max_restarts)"
            ) from lost
        self._restarts += 1
        log.warning("run_goes_back", reason=str(lost), restarts=self._restarts)
        self._close()  # so that nothing of it is written behind what the next ones write
        self._tasks, self._in_flight, self._held = {}, [], {}
        self._faults.restart()
        states = self._go_back()
        if states is None:
            raise SetbackError(f"{lost}; no checkpoint of this run could be written, so it cannot go back") from lost
        self._snapshots = states

    def _close(self) -> None:
        for task in self._tasks.values():
            with suppress(Exception):  # the run has ended; one that cannot close must not keep others from it
                task.operator.close()

    def _restore(self) -> int:
        """Give every task its snapshot, where there are any, and send again what was under way."""
        under_way = [m for id_, state in self._snapshots.items() for m in self._tasks[id_].restore(dict(state))]
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
                if self._faults.lost is not None:
                    raise SetbackError(self._faults.told_lost())
                raise RunError(f"all tasks wait and nothing is under way in epoch {conductor.acked}")
            completed = self._turn(conductor, ready)
            for epoch in completed:
                for spout in spouts:
                    spout.operator.ack(epoch)
                self.on_ack(epoch, conductor.pending)
                if self._checkpoints is not None:
                    self._checkpoints.ack(epoch)
            if completed and (self.wiring.topology.faults or self._watcher is not None):
                self._strike(conductor)
            if completed and conductor.idle and conductor.pending == 0 and conductor.final is None:
                self._wait(idle_seconds)
                idle_seconds = min(idle_seconds * 2, IDLE_SECONDS_MOST)
            elif completed and not conductor.idle:
                idle_seconds = IDLE_SECONDS_FIRST
            if completed:
                self._grant(conductor, spouts, ready)

    def _grant(self, conductor: Conductor, spouts: list[Task], ready: dict[int, Task]) -> None:
        if self._checkpoints is not None:
            self._checkpoints.choose(conductor.limit)
            if (newest := self._checkpoints.newest) != self._newest and newest is not None:
                self._newest = newest
                for spout in spouts:
                    spout.operator.saved(newest)
        if conductor.grant():
            for spout in spouts:
                spout.grant(conductor.limit, conductor.final, conductor.dry)
                if spout.ready():
                    ready[spout.spec.id] = spout

    def _turn(self, conductor: Conductor, ready: dict[int, Task]) -> list[int]:
        """Deliver a message or let a task work on an epoch, whichever the seed picks."""
        self.turns += 1
        free = self._free(ready) if self._held else ready
        deliver = self._in_flight and (not free or self._random.random() < 0.5)
        if deliver:
            chosen = self._random.randrange(len(self._in_flight))
            self._in_flight[chosen], message = self._in_flight[-1], self._in_flight[chosen]
            self._in_flight.pop()
            self._deliver(message, ready)
            return []
        names = list(free)
        task = ready.pop(names[self._random.randrange(len(names))])
        started = self._clock()
        try:
            messages, report = task.step()
            self._save(task, report.epoch)
        except Exception as error:
            self._fail(conductor)
            if speaks_for_itself(error):
                raise
            raise task_failure(task.spec.name, task.next, error) from error
        report.counts["busy_ms"] = (self._clock() - started) * 1e3  # type: ignore[index]
        if task.ready():
            ready[task.spec.id] = task
        if task.spec.id in self._slow:
            self._hold(task.spec.id, slow_ms(self._slow[task.spec.id], report.epoch))
        messages = self._faults.sent(messages)
        if self._delays:
            self._in_flight.extend(messages)
        else:
            for message in messages:
                self._deliver(message, ready)
        self.on_report(report)
        return conductor.report(report)

    # --- faults ----------------------------------------------------------------------------------------------------

    def _strike(self, conductor: Conductor) -> None:
        """Let happen what is to happen by now; raise where memory is lost by it."""
        damage = self._checkpoints.damage if self._checkpoints is not None else lambda _seed: False
        killed = []
        if self._watcher is not None:
            self._faults.add(self._watcher.faults())
        for fault in self._faults.due(conductor.acked, damage):
            if self._watcher is not None:
                self._watcher.struck(fault)
            if fault.kind == "pause":
                for task in self._faults.tasks_of(fault):
                    self._hold(task, fault.pause_ms)
            else:
                killed.append(fault.task)
        if killed:
            raise SetbackError(f"{', '.join(map(str, killed))} was killed when {conductor.acked} epochs were complete")

    def _hold(self, task: int, turns: float) -> None:
        """Do not let a task work for so many turns, although it may be ready."""
        self._held[task] = max(self._held.get(task, 0), self.turns + math.ceil(turns))

    def _free(self, ready: dict[int, Task]) -> dict[int, Task]:
        """Return the tasks that are ready and not held; where nothing else can happen, time goes by."""
        if ready and not self._in_flight and all(id_ in self._held for id_ in ready):
            self.turns = max(self.turns, min(self._held[id_] for id_ in ready))
        self._held = {id_: until for id_, until in self._held.items() if until > self.turns}
        return {id_: task for id_, task in ready.items() if id_ not in self._held}

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
