"""The loop around the tasks of one worker: sockets in, state machines, sockets out.

A plain class of its own: Ray wraps every method of an actor's class, which the hot path does not need.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from streams.errors import RunError
from topology.checkpoints.collection import Attempt, packed_state
from topology.fault_schedule import slow_faults, slow_ms
from topology.messages import Message, Report
from topology.ray_runtime.frames import (
    DATA,
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
    describe_failure,
    pack_message,
    pack_plain,
    pack_reports,
    pack_saved,
    pack_written,
    unpack_grant,
    unpack_message,
    unpack_plain,
)
from topology.ray_runtime.placement import downstream_first
from topology.ray_runtime.printed import Printed
from topology.ray_runtime.standstill import Standing
from topology.ray_runtime.state_writer import StateWriter
from topology.ray_runtime.transport import Endpoint, Frame, Lost
from topology.task import Task
from topology.wiring import Wiring

__all__ = ["WorkerLoop"]

#: How many reports of each task are sent together at most.
REPORTS_TOGETHER = 8
#: The conductor is sent its window of pending epochs in so many parts; sooner from a worker that runs out of work, and
#: where epochs take so long that it would wait.
REPORTED_PARTS = 2
REPORT_SECONDS = 0.003
FLUSH_SECONDS = 30.0
#: How long a worker that has nothing else to do waits for a state that is being written.
WRITE_SECONDS = 600.0


class WorkerLoop:
    """Drives the tasks of a worker until all have done their final epoch, one fails, or it is asked to stop.

    In each round every task that is ready works on one epoch, those further down the topology first; then what was sent
    to other workers leaves together, and what has come from them is taken in. Messages between tasks of this worker are
    handed over as they are. States go into the store by a `writer`, or to the driver where there is none.
    """

    def __init__(
        self,
        wiring: Wiring,
        tasks: Sequence[Task],
        worker_of: Mapping[int, int],
        endpoint: Endpoint,
        writer: StateWriter | None = None,
        printed: Printed | None = None,
    ) -> None:
        self._wiring = wiring
        self._writer, self._printed = writer, printed
        self._worker_of = worker_of
        self._endpoint = endpoint
        here = {task.spec.id: task for task in tasks}
        self._served = [here[id_] for id_ in downstream_first(wiring) if id_ in here]
        self._place = {task.spec.id: place for place, task in enumerate(self._served)}
        self._spouts = [here[spec.id] for spec in wiring.spouts if spec.id in here]
        self._sources = {self._place[spout.spec.id] for spout in self._spouts}
        self._conducted = wiring.conducted
        self._slow = slow_faults(wiring)
        self._ready: set[int] = set()
        self._reports: list[Report] = []
        self._awaited, self._awaited_since = 0, 0.0
        awaited_tasks = sum(id_ in self._conducted for id_ in here)
        self._patience = max(1, awaited_tasks * wiring.topology.settings.max_pending // REPORTED_PARTS)
        self._acked = min((task.next for task in tasks), default=0)
        self._saved: int | None = None
        self._mark: int | None = None
        self._attempt: Attempt | None = None
        self._under_way: Sequence[Message] = ()
        self._working = len(self._served)
        self._current = self._served[0]
        self._newest = -1
        self._stopped = self._abandoned = self._waits = False

    def prepare(self, under_way: Sequence[Message], attempt: Attempt | None = None) -> None:
        """Take messages that were under way when the tasks' states were saved, and the checkpoint that these states are for."""
        self._under_way, self._attempt = under_way, attempt

    def stop(self) -> None:
        """Ask the loop to end, whatever is still to be sent; called from another thread."""
        self._stopped = self._abandoned = True
        self._endpoint.wake()

    def standing(self) -> Standing:
        """Return what the loop does; called from another thread."""
        idle = self._waits and self._endpoint.quiet and (self._writer is None or self._writer.idle)
        return Standing(idle, self._endpoint.sent, self._endpoint.received)

    def run(self) -> None:
        """Work; a failure is sent to the driver, with the name of the task that failed."""
        try:
            self._begin()
            while self._working and not self._stopped:
                arrived = self._endpoint.poll(0)
                self._send_written()  # before any wait: that poll may have taken the wake-up for what was written
                if not arrived and not self._ready and not self._stopped:
                    if self._awaited:  # the window may be full until the conductor knows of it
                        self._send_reports()
                    self._waits = True
                    arrived = self._endpoint.poll()
                    self._waits = False
                for item in arrived:
                    self._take(item)
                self._round()
                if self._writer is not None:
                    self._writer.make_way()
            if self._writer is not None and not self._stopped:
                self._writer.finish(WRITE_SECONDS)  # before the last reports, which the end of the run waits for
            if not self._abandoned:
                self._send_written()
                self._send_printed()
                self._send_reports()
                self._endpoint.flush(FLUSH_SECONDS)
        except Exception as error:
            task = self._current
            with suppress(OSError, ValueError):  # the driver is gone too, or the sockets are closed: nobody to tell
                failure = describe_failure(task.spec.name, task.next, error)
                self._send_printed()
                self._endpoint.send(DRIVER, task.spec.id, DRIVER, FAILED, 0, task.next, pack_plain(failure))
                self._endpoint.flush(FLUSH_SECONDS)
        finally:
            self._waits = True  # for a new generation

    def _begin(self) -> None:
        for task in self._served if self._attempt is not None else ():
            self._save(task, task.next - 1)
        for message in self._under_way:
            if message.target in self._place:
                self._deliver(message)
            else:
                self._send(message)

    # --- what comes in ---------------------------------------------------------------------------------------------

    def _take(self, item: Frame | Lost) -> None:
        if isinstance(item, Lost):
            self._stopped = True
            if item.peer != DRIVER:
                body = pack_plain([item.peer, item.reason])
                self._endpoint.send(DRIVER, self._endpoint.me, DRIVER, LOST, 0, 0, body)
        elif item.kind == DATA:
            if item.target not in self._place:
                raise RunError(f"a message for task {item.target} came to a worker that does not host it")
            self._current = self._served[self._place[item.target]]
            self._deliver(unpack_message(item))
        elif item.kind == GRANT:
            self._grant(unpack_grant(item))
        elif item.kind == MARK:
            self._mark, self._attempt = item.epoch, Attempt(*unpack_plain(item))
            self._endpoint.send(DRIVER, self._endpoint.me, DRIVER, MARKED, 0, item.epoch, pack_plain([]))

    def _deliver(self, message: Message) -> None:
        place = self._place[message.target]
        task = self._served[place]
        task.accept(message)
        if not message.lag and message.epoch > self._newest:
            self._newest = message.epoch
        if place not in self._ready and task.ready():
            self._ready.add(place)

    def _grant(self, grant: Grant) -> None:
        for spout in self._spouts:
            self._current = spout
            for epoch in range(self._acked, grant.acked):
                spout.operator.ack(epoch)
            if grant.saved is not None and grant.saved != self._saved:
                spout.operator.saved(grant.saved)
            spout.grant(grant.limit, grant.final, grant.dry)
            if spout.ready():
                self._ready.add(self._place[spout.spec.id])
        self._acked = max(self._acked, grant.acked)
        self._saved = self._saved if grant.saved is None else grant.saved

    # --- one round -------------------------------------------------------------------------------------------------

    def _round(self) -> None:
        """Let every task that is ready work on one epoch; what becomes ready by this waits for the next round."""
        for place in sorted(self._ready):
            task = self._current = self._served[place]
            self._step(task)
            if not task.ready():
                self._ready.discard(place)
        if self._keeping_up():
            self._endpoint.push()
        self._send_printed()
        late = self._awaited and time.perf_counter() - self._awaited_since > REPORT_SECONDS
        if late or self._awaited >= self._patience or len(self._reports) >= REPORTS_TOGETHER * len(self._served):
            self._send_reports()

    def _keeping_up(self) -> bool:
        """Tell whether no more than one epoch is at work here: then others may be waiting for what this worker has to send.

        Otherwise there is work for all, and what is to be sent waits for more to go with it.
        """
        behind = (place in self._sources or self._served[place].next < self._newest for place in self._ready)
        return not any(behind)

    def _step(self, task: Task) -> None:
        started = time.perf_counter()
        messages, report = task.step()
        if task.spec.id in self._slow:
            time.sleep(slow_ms(self._slow[task.spec.id], report.epoch) / 1e3)
        if report.epoch == self._mark and not task.done:
            before = time.perf_counter()
            self._save(task, report.epoch)
            report.counts["snapshots"] = 1  # type: ignore[index]
            report.counts["snapshot_ms"] = (time.perf_counter() - before) * 1e3  # type: ignore[index]
        sent = 0
        for message in messages:
            if message.target in self._place:
                self._deliver(message)
            else:
                sent += self._send(message)
        report.counts["busy_ms"] = (time.perf_counter() - started) * 1e3  # type: ignore[index]
        if sent:
            report.counts["sent_bytes"] = sent  # type: ignore[index]
        self._reports.append(report)
        self._working -= task.done
        if task.spec.id in self._conducted:
            self._awaited += 1
            self._awaited_since = self._awaited_since or started

    def _send(self, message: Message) -> int:
        peer, body = self._worker_of[message.target], pack_message(message)
        try:
            return self._endpoint.send(peer, message.source, message.target, DATA, message.lag, message.epoch, body)
        except RunError as error:
            source, target = (self._wiring.tasks[id_].name for id_ in (message.source, message.target))
            raise RunError(f"{source} to {target} in epoch {message.epoch}: {error}") from error

    def _save(self, task: Task, epoch: int) -> None:
        """Hand over the state of a task after an epoch: to the thread that writes, or to the driver."""
        packed, positions = packed_state(task)
        if self._writer is not None:
            assert self._attempt is not None, "a state for no checkpoint"
            self._writer.write(self._attempt, epoch, task.spec.id, packed, positions)
        else:
            body = pack_saved(task.spec.id, packed, positions)
            self._endpoint.send(DRIVER, self._endpoint.me, DRIVER, SAVED, 0, epoch, body)

    def _send_written(self) -> None:
        """Send the driver the names of files that were written."""
        for one in self._writer.finished() if self._writer is not None else ():
            self._endpoint.send(DRIVER, self._endpoint.me, DRIVER, WRITTEN, 0, one.epoch, pack_written(one))

    def _send_printed(self) -> None:
        """Send the driver what operators have printed, before the reports of what they did."""
        if self._printed is not None and (text := self._printed.take()):
            self._endpoint.send(DRIVER, self._endpoint.me, DRIVER, PRINTED, 0, 0, pack_plain([text]))

    def _send_reports(self) -> None:
        """Send the driver what was done."""
        if self._reports:
            for body in pack_reports(self._reports, self._endpoint.max_frame_bytes):
                self._endpoint.send(DRIVER, self._endpoint.me, DRIVER, REPORT, 0, self._reports[-1].epoch, body)
            self._reports = []
            self._awaited, self._awaited_since = 0, 0.0
