"""Conducts a run on Ray: grants epochs, collects checkpoints, and goes back to the last one when a worker is lost."""

import time
from collections.abc import Callable
from functools import cached_property

from streams.errors import RunError
from streams.event_log import EventLog
from streams.state import pack_state
from topology.checkpoints.collection import Checkpoints
from topology.checkpoints.resumption import Resumption, StateInStore
from topology.checkpoints.saved_state import Reading
from topology.checkpoints.store import same_place
from topology.conductor import Conductor
from topology.fault_schedule import FaultSchedule
from topology.local_runtime import IDLE_SECONDS_FIRST, IDLE_SECONDS_MOST
from topology.messages import Report
from topology.ray_runtime.cluster import connect, cpu_count, lost_ray
from topology.ray_runtime.fleet import Fleet, Saving, StatesUnreadError, WorkerLostError
from topology.ray_runtime.frames import (
    DRIVER,
    FAILED,
    GRANT,
    LOST,
    MARK,
    MARKED,
    PRINTED,
    REPORT,
    SAVED,
    WRITTEN,
    Grant,
    failure_error,
    pack_grant,
    pack_plain,
    unpack_plain,
    unpack_reports,
    unpack_saved,
    unpack_written,
)
from topology.ray_runtime.placement import place
from topology.ray_runtime.printed import show
from topology.ray_runtime.standstill import Standing, stands_still
from topology.ray_runtime.state_writer import Written
from topology.ray_runtime.strikes import kill_worker, pause_worker
from topology.ray_runtime.transport import Endpoint, Frame, Lost
from topology.watching import Watcher
from topology.wiring import Wiring

import ray  # isort: skip  # after `cluster`, which sets what Ray reads when it is imported

__all__ = ["RayRuntime", "connect"]

log = EventLog()

POLL_SECONDS = 0.2
#: How often to look whether Ray itself is there still.
LOOK_SECONDS = 5.0


class RayLostError(RunError):
    """Ray itself is gone, not only workers: nothing can be replaced."""


class RayRuntime:
    """Runs a wiring on Ray actors, each a worker that hosts some of the tasks.

    Args:
        origin: the checkpoint that the tasks go on from; none at the start of a run.
        checkpoints: where states of tasks are collected; without, the loss of a worker ends the run.
        go_back: takes everything outside of the tasks back to the newest checkpoint, and returns it; None where the run has
            written none yet. It is told how well to look at the states, and how many restarts this is.
    """

    def __init__(
        self,
        wiring: Wiring,
        *,
        address: str | None = None,
        on_report: Callable[[Report], None] = lambda _report: None,
        on_ack: Callable[[int, int], None] = lambda _epoch, _pending: None,
        should_stop: Callable[[], bool] = lambda: False,
        origin: Resumption | None = None,
        checkpoints: Checkpoints | None = None,
        go_back: Callable[[Reading, int], Resumption | None] | None = None,
        wait: Callable[[float], object] | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self.wiring = wiring
        self.on_report, self.on_ack, self.should_stop = on_report, on_ack, should_stop
        self._address = address
        self._settings = wiring.topology.settings
        self._origin = origin
        self._checked = True  # all files of it were read, to see that they are whole
        self._begun = False
        self._checkpoints, self._go_back = checkpoints, go_back
        self._fleet = Fleet(wiring, place(wiring, 1))
        self._faults = FaultSchedule(wiring)
        self._watcher = watcher
        self._faults.begin(origin.start if origin is not None else 0)
        self._unmarked: set[int] = set()
        self._heard_at = 0.0
        self._looked_at = time.monotonic()
        self._restarts = 0
        self._wait = wait
        self._recovering: list[float] = []

    def run(self) -> None:
        """Run until the final epoch is complete; raise what an operator raised, with its task's name."""
        owned = connect(self._address)
        try:
            self._run()
        except WorkerLostError as lost:
            raise RunError(f"{lost}; {self._remedy()}") from lost
        except RayLostError as lost:
            owned = False  # whoever calls Ray now may be ended by it before a word is said
            self._fleet.forget()
            raise RunError(f"the run has lost Ray: {lost}; {self._remedy()}") from lost
        except ray.exceptions.RayError as error:
            text = str(error).partition("\n")[0] or type(error).__name__
            raise RunError(f"the run has lost Ray: {text}; {self._remedy()}") from error
        finally:
            self._fleet.kill()
            if owned:
                ray.shutdown()

    def _look(self) -> None:
        """Raise where Ray itself is gone."""
        self._looked_at = time.monotonic()
        if (reason := lost_ray()) is not None:
            raise RayLostError(reason)

    def _run(self) -> None:
        self._fleet = Fleet(self.wiring, place(self.wiring, self._settings.ray.workers or cpu_count()))
        while True:
            try:
                self._run_generation()
            except WorkerLostError as lost:
                self._recover(lost)
            else:
                self._faults.end()
                return

    def _remedy(self) -> str:
        """Say how the run can go on."""
        settings = self._settings.checkpoint
        if self._checkpoints is None or settings is None:
            return (
                "declare [topology.checkpoint] with a directory, and the next run goes on by itself or can be resumed"
            )
        if not self._checkpoints.any_saved:
            return "it had saved no checkpoint yet: start it again"
        return f"go on from its newest checkpoint with --resume {self._checkpoints.store.url}"

    def _run_generation(self) -> None:
        endpoint = self._open()
        conductor = Conductor(self.wiring, start=self._origin.start if self._origin is not None else 0)
        try:
            self._unmarked, self._heard_at = set(), time.monotonic()
            while self._checkpoints is not None and not self._checkpoints.written:
                self._listen(endpoint, POLL_SECONDS, conductor)  # so that there is one to go back to
            self._origin, self._begun = None, True
            if self._recovering:
                self._recovering.append(time.monotonic())
            self._conduct(endpoint, conductor)
            self._fleet.close()
        finally:
            endpoint.close()

    def _open(self) -> Endpoint:
        """Start a generation; where workers cannot read their states, look at them well, and read them here at last."""
        while True:
            origin = self._origin
            sources = origin.sources(self.wiring) if origin is not None else {}
            states = {task: s if isinstance(s, StateInStore) else pack_state(s) for task, s in sources.items()}
            try:
                return self._fleet.open(states, self._saving(origin))
            except StatesUnreadError as unread:
                assert origin is not None, "no states, none unread"
                log.warning("states_unread", checkpoint=origin.start - 1, reason=str(unread))
                if not self._checked and self._go_back is not None:
                    self._origin, self._checked = self._go_back("checked", 0), True
                else:
                    self._origin = origin.kept()

    def _saving(self, origin: Resumption | None) -> Saving | None:
        checkpoints = self._checkpoints
        if checkpoints is None:
            return None
        checkpoints.begin_elsewhere(origin.start if origin is not None else 0)
        here = origin is not None and same_place(origin.store.url, checkpoints.store.url)
        parts = origin.saved.manifest.parts if origin is not None and here else {}
        return Saving(checkpoints.store, checkpoints.attempt, parts)

    def _recover(self, lost: WorkerLostError) -> None:
        """Replace what is dead and go back to the newest checkpoint, or end the run."""
        self._look()
        if self._checkpoints is None or self._go_back is None:
            raise lost
        self._recovering = [time.monotonic()]
        self._restarts += 1
        settings = self._settings.checkpoint
        assert settings is not None
        if self._restarts > settings.max_restarts:
            text = f"{lost}; given up after {self._restarts - 1} restarts (topology.checkpoint.max_restarts)"
            raise WorkerLostError(text) from lost
        dead = list(lost.workers) or self._fleet.dead()
        log.warning("workers_replaced", tasks=self._fleet.names(dead), reason=str(lost), restarts=self._restarts)
        self._fleet.replace(dead)
        self._recovering.append(time.monotonic())
        origin = self._go_back("sized", 1)
        self._recovering.append(time.monotonic())
        if origin is not None:
            self._origin, self._checked = origin, False
        elif self._begun:
            raise WorkerLostError(f"{lost}; no checkpoint of this run could be written, so it cannot go back") from lost

    def _recovered(self, epoch: int) -> None:
        """Say how long it took until results came again: a replacement begun, states read, all workers at work, an epoch."""
        times = [*self._recovering, time.monotonic()]
        self._recovering = []
        stages = zip(("replace_s", "read_s", "start_s", "answer_s"), times, times[1:], strict=False)
        log.info("run_recovered", epoch=epoch, **{name: round(end - begin, 3) for name, begin, end in stages})

    @cached_property
    def _spout_workers(self) -> list[int]:
        """Return the workers that host spouts: those that need grants."""
        return sorted({self._fleet.placement.worker_of[task.id] for task in self.wiring.spouts})

    # --- run -------------------------------------------------------------------------------------------------------

    def _conduct(self, endpoint: Endpoint, conductor: Conductor) -> None:
        idle_seconds = IDLE_SECONDS_FIRST
        self._grant(endpoint, conductor)
        while not conductor.done:
            if self.should_stop():
                conductor.stop()
            waits = conductor.idle and conductor.pending == 0 and conductor.final is None
            if waits:  # for input: nothing is under way
                if self._wait is not None:
                    self._wait(idle_seconds)
                self._listen(endpoint, idle_seconds if self._wait is None else 0.0, conductor)
                idle_seconds = min(idle_seconds * 2, IDLE_SECONDS_MOST)
                self._grant(endpoint, conductor)
                continue
            acked, marking = conductor.acked, bool(self._unmarked)
            self._listen(endpoint, POLL_SECONDS, conductor)
            if conductor.acked > acked:
                idle_seconds = idle_seconds if conductor.idle else IDLE_SECONDS_FIRST
                if not conductor.idle or conductor.pending:
                    self._grant(endpoint, conductor)
            elif marking and not self._unmarked:
                self._grant(endpoint, conductor)
        while not conductor.accounted:
            self._listen(endpoint, POLL_SECONDS, conductor)

    def _listen(self, endpoint: Endpoint, seconds: float, conductor: Conductor) -> None:
        """Take in what workers say within so many seconds; where they should and do not for too long, look after them."""
        items = endpoint.poll(seconds)
        now = time.monotonic()
        if now - self._looked_at > LOOK_SECONDS:
            self._look()
        collecting = self._checkpoints is not None and self._checkpoints.mark is not None
        if items or not (conductor.pending or conductor.done or collecting):
            self._heard_at = now
        elif now - self._heard_at > self._settings.ray.silent_seconds:
            if dead := self._fleet.dead():
                reason = f"no answer for {now - self._heard_at:.0f} s"
                raise WorkerLostError(self._lost(dead, reason, conductor), dead)
            self._see_that_it_goes_on(endpoint, conductor)
            self._heard_at = now
        for item in items:
            for epoch in self._take(item, conductor):
                if self._recovering:
                    self._recovered(epoch)
                self.on_ack(epoch, conductor.pending)
                if self._checkpoints is not None:
                    self._checkpoints.ack(epoch)
                self._strike(conductor.acked)

    def _see_that_it_goes_on(self, endpoint: Endpoint, conductor: Conductor) -> None:
        """Raise where all workers wait, this process too, and nothing is under way."""
        here = Standing(endpoint.quiet, endpoint.sent, endpoint.received)
        first = self._fleet.standing()
        second = self._fleet.standing() if first else []
        if second and stands_still([here, *first], [here, *second]):
            text = f"all workers wait and nothing is under way in epoch {conductor.acked}: a message was lost"
            raise WorkerLostError(text, range(len(second)))

    def _strike(self, acked: int) -> None:
        """Let the faults happen that are due when so many epochs are complete."""
        damage = self._checkpoints.damage if self._checkpoints is not None else lambda _seed: False
        if self._watcher is not None:
            self._faults.add(self._watcher.faults())
        for fault in self._faults.due(acked, damage):
            if self._watcher is not None:
                self._watcher.struck(fault)
            tasks = self._faults.tasks_of(fault)
            if fault.kind == "pause":
                self._fleet.strike(tasks, pause_worker, fault.pause_ms / 1_000)
            else:
                self._fleet.strike(tasks, kill_worker)

    def _take(self, item: Frame | Lost, conductor: Conductor) -> list[int]:
        if isinstance(item, Lost) or item.kind == LOST:
            lost = item if isinstance(item, Lost) else Lost(*unpack_plain(item))
            dead = self._fleet.dead()
            raise WorkerLostError(self._lost(dead or [lost.peer], lost.reason, conductor), dead)
        if item.kind == FAILED:
            self._fleet.fail(list(range(conductor.acked, conductor.limit)), self._spout_workers)
            raise failure_error(self.wiring.tasks[item.source].name, item.epoch, unpack_plain(item))
        if item.kind == PRINTED:
            show(*unpack_plain(item))
            return []
        if item.kind == MARKED:
            self._unmarked.discard(item.source)
            return []
        if item.kind == SAVED:
            assert self._checkpoints is not None
            if self._checkpoints.mark == item.epoch:
                self._checkpoints.hand_over(*unpack_saved(item))
            return []
        if item.kind == WRITTEN:
            self._written(unpack_written(item))
            return []
        assert item.kind == REPORT
        completed: list[int] = []
        for report in unpack_reports(item):
            self.on_report(report)
            completed += conductor.report(report)
        return completed

    def _written(self, written: Written) -> None:
        checkpoints = self._checkpoints
        if checkpoints is not None and checkpoints.mark == written.epoch:
            if written.state is not None:
                checkpoints.hand_over(written.task, written.state, written.positions)
            else:
                checkpoints.fail(f"{self.wiring.tasks[written.task].name}: {written.failure}")

    def _grant(self, endpoint: Endpoint, conductor: Conductor) -> None:
        conductor.grant(self._mark(endpoint, conductor))
        saved = None if self._checkpoints is None else self._checkpoints.newest
        body = pack_grant(Grant(conductor.limit, conductor.final, conductor.acked, conductor.dry, saved))
        for worker in self._spout_workers:
            endpoint.send(worker, DRIVER, worker, GRANT, 0, conductor.acked, body)
        mark = None if self._checkpoints is None else self._checkpoints.mark
        if (
            self._checkpoints is not None
            and mark is not None
            and conductor.final is not None
            and mark >= conductor.final
        ):
            self._checkpoints.drop()  # behind the final epoch nothing can go on

    def _mark(self, endpoint: Endpoint, conductor: Conductor) -> int | None:
        """Mark an epoch for a checkpoint, if it is time; return how far spouts may go until all workers know of it.

        The epoch lies a whole window ahead, so that normally nobody has to wait.
        """
        checkpoints = self._checkpoints
        if checkpoints is None or conductor.final is not None:
            return None
        if checkpoints.mark is None:
            checkpoints.choose(conductor.limit + self._settings.max_pending)
            if checkpoints.mark is not None:
                attempt = checkpoints.attempt
                assert attempt is not None
                body = pack_plain([attempt.folder, attempt.tag])
                self._unmarked = set(range(len(self._fleet.placement.workers)))
                for worker in self._unmarked:
                    endpoint.send(worker, DRIVER, worker, MARK, 0, checkpoints.mark, body)
        return checkpoints.mark if self._unmarked else None

    def _lost(self, workers: list[int], reason: str, conductor: Conductor) -> str:
        """Say which tasks are gone."""
        when = f"while epochs {conductor.acked} to {conductor.limit - 1} were under way"
        if conductor.done:
            when = "before its last reports had come"
        return f"the worker of {self._fleet.names(workers)} died {when} ({reason})"
