"""Workers without Ray: plain objects in this process, real sockets between them, the test in the driver's place."""

import secrets
import time
from collections import Counter

import pytest
from operators_for_tests import FailsAt, Numbers, Tagged

from streams.batches import TupleBatch
from streams.errors import RunError, TaskFailedError
from topology import TopologyBuilder
from topology.conductor import Conductor
from topology.messages import Report
from topology.ray_runtime.actor import Prepared, WorkerActor
from topology.ray_runtime.frames import (
    DATA,
    DRIVER,
    FAILED,
    GRANT,
    LOST,
    REPORT,
    failure_error,
    pack_plain,
    pack_reports,
    unpack_plain,
    unpack_reports,
)
from topology.ray_runtime.placement import place
from topology.ray_runtime.transport import TOKEN_BYTES, Endpoint, Frame, Lost
from topology.wiring import wire

TOKEN = secrets.token_bytes(TOKEN_BYTES)
HOST = "127.0.0.1"


class Workers:
    """So many workers of a topology in this process, and the driver's end of their sockets."""

    def __init__(self, topology, count):
        self.wiring = wire(topology)
        self.placement = place(self.wiring, count)
        self.actors = [WorkerActor(topology, None, self.placement, i) for i in range(len(self.placement.workers))]
        self.driver = None

    def start(self, generation=1):
        """Make all listen, then all connect, as the driver does."""
        if self.driver is not None:
            self.driver.close()
        self.driver = Endpoint(HOST, TOKEN, generation, 1 << 20, DRIVER)
        assert all(actor.prepare({}) == Prepared() for actor in self.actors)
        addresses = {i: actor.listen(HOST, TOKEN, generation) for i, actor in enumerate(self.actors)}
        for worker, actor in enumerate(self.actors):
            reached = {peer: addresses[peer] for peer in self.placement.peers(self.wiring, worker)}
            actor.start({**reached, DRIVER: self.driver.address}, None, None)
        self.driver.connect(addresses)
        return addresses

    def grant(self, limit, final=None, acked=0):
        """Let the spouts go on."""
        for worker in range(len(self.actors)):
            self.driver.send(worker, DRIVER, worker, GRANT, 0, 0, pack_plain([limit, final, acked]))

    def frames(self):
        """Yield what workers tell the driver, for at most 20 seconds."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            yield from self.driver.poll(0.05)
        raise AssertionError("the workers fell silent")

    def first(self, kind):
        """Return the first frame of a kind."""
        return next(item for item in self.frames() if isinstance(item, Frame) and item.kind == kind)

    def conduct(self):
        """Run to the end; return all reports."""
        conductor, reports, items = Conductor(self.wiring), [], self.frames()
        conductor.grant()
        self.grant(conductor.limit, conductor.final)
        while not (conductor.done and conductor.accounted):
            item = next(items)
            assert item.kind == REPORT
            for report in unpack_reports(item):
                reports.append(report)
                if conductor.report(report):
                    conductor.grant()
                    self.grant(conductor.limit, conductor.final, conductor.acked)
        return reports

    def close(self):
        """End all."""
        for actor in self.actors:
            actor.close()
        self.driver.close()


@pytest.fixture
def workers():
    """A way to make workers that are closed after the test."""
    made = []

    def make(topology, count):
        made.append(Workers(topology, count))
        return made[-1]

    yield make
    for one in made:
        one.close()


def line(count=60, size=5, **settings):
    """A spout, two bolts that tag, a sink that collects."""
    builder = TopologyBuilder("line", max_pending=4, **settings)
    builder.spout("numbers", Numbers, count=count, size=size)
    builder.bolt("tagged", Tagged, parallelism=2).shuffle("numbers")
    builder.bolt("sink", "collect").global_("tagged")
    return builder.build()


def collected(reports):
    return Counter(row[0] for report in reports for batch in report.outputs for row in batch.rows())


@pytest.mark.parametrize("count", [1, 2, 4])
def test_workers_deliver_everything_once(workers, count):
    """However the tasks are packed, each number arrives once, and only what crosses a process is encoded."""
    made = workers(line(), count)
    made.start()
    reports = made.conduct()
    assert collected(reports) == Counter(range(60))
    assert (sum(report.counts.get("sent_bytes", 0) for report in reports) == 0) == (count == 1)


def test_worker_that_listens_again_starts_anew(workers):
    """Tasks of a new generation begin at epoch 0, and nothing that an old one had under way reaches them."""
    made = workers(line(), 2)
    made.start(generation=1)
    made.grant(4)
    made.first(REPORT)
    made.start(generation=2)
    assert collected(made.conduct()) == Counter(range(60))


def test_caller_of_an_old_generation_reaches_no_task(workers):
    """A frame with the right token but from before is never delivered."""
    made = workers(line(), 2)
    old = Endpoint(HOST, TOKEN, 1, 1 << 20, 7)
    try:
        addresses = made.start(generation=2)
        old.connect(addresses)
        for worker in addresses:
            old.send(worker, 0, 1, DATA, 0, 0, [b"no message at all"])
        assert any(isinstance(item, Lost) for _ in range(100) for item in old.poll(0.05))
        assert collected(made.conduct()) == Counter(range(60))
    finally:
        old.close()


def test_worker_names_the_worker_that_it_lost(workers):
    """When one worker's sockets end, another tells the driver which."""
    made = workers(line(count=10**9), 2)
    made.start()
    made.grant(2)
    made.first(REPORT)
    made.actors[1].close()
    peer, reason = unpack_plain(made.first(LOST))
    assert (peer, reason) == (1, "the connection was closed")


def test_failure_is_that_of_the_task(workers):
    """Of several tasks in a worker, the error names the one that failed, its epoch, and its own line."""
    builder = TopologyBuilder("fails")
    builder.spout("numbers", Numbers, count=100)
    builder.bolt("tagged", Tagged).shuffle("numbers")
    builder.bolt("picky", FailsAt, parallelism=3).fields("tagged", ["word"])
    made = workers(builder.build(), 2)
    made.start()
    made.grant(8)
    frame = made.first(FAILED)
    error = failure_error(made.wiring.tasks[frame.source].name, frame.epoch, tuple(unpack_plain(frame)))
    assert isinstance(error, TaskFailedError)
    assert error.task.startswith("picky[")
    assert error.epoch == 5
    assert 'raise ZeroDivisionError(f"cannot digest {self.number}")' in error.details


def test_operator_that_cannot_open_is_named(workers):
    """What a worker answers names the task whose operator raised, and what it said."""
    builder = TopologyBuilder("fails")
    builder.spout("numbers", Numbers)
    builder.bolt("broken", CannotOpen).shuffle("numbers")
    made = workers(builder.build(), 1)
    made.driver = Endpoint(HOST, TOKEN, 1, 1 << 20, DRIVER)
    task, failure = made.actors[0].prepare({}).failed
    assert made.wiring.tasks[task].name == "broken[0]"
    assert "no such index" in failure_error("broken[0]", -1, failure).details


class CannotOpen(Tagged):
    """An operator whose start fails."""

    def open(self, context):
        raise LookupError("no such index")


def test_message_above_the_limit_names_both_ends(workers):
    """The error says who sent what to whom, and what to do."""
    made = workers(line(count=2_000, size=1_000, limits={"frame_bytes": 1024}), 4)
    made.start()
    made.grant(1)
    frame = made.first(FAILED)
    error = failure_error("numbers[0]", 0, tuple(unpack_plain(frame)))
    assert isinstance(error, RunError)
    assert "numbers[0] to tagged[" in str(error)
    assert "topology.limits.frame_bytes" in str(error)


def test_reports_that_are_too_large_together_travel_apart():
    """The limit of a frame holds for reports too, and none is lost or out of order by it."""
    reports = [Report(1, epoch, {"executed": 1.0}, False, 0, [bytes(300)]) for epoch in range(9)]
    bodies = pack_reports(reports, 1024)
    assert len(bodies) > 1
    assert all(sum(map(len, body)) <= 1024 for body in bodies)
    back = [r for body in bodies for r in unpack_reports(Frame(0, DRIVER, REPORT, 0, 0, memoryview(b"".join(body))))]
    assert [(r.epoch, r.outputs) for r in back] == [(r.epoch, r.outputs) for r in reports]


def test_reports_of_several_tasks_come_back_as_they_went():
    """Task, counts, events and outputs of each report survive, bytes and batches in their order."""
    batch = TupleBatch.of(("number", "word"), [(1, "a"), (2, "b")])
    sent = [
        Report(3, 7, {"executed": 2.0}, False, 0, [b"a", batch, b"b"]),
        Report(1, 8, {}, True, 5, [], [{"kind": "shift", "epoch": 8}]),
        Report(3, 8, {"cost": 1.0}, False, 0, [batch]),
    ]
    [body] = pack_reports(sent, 1 << 20)
    back = unpack_reports(Frame(0, DRIVER, REPORT, 0, 0, memoryview(b"".join(body))))
    assert [(r.task, r.epoch, r.counts, r.exhausted, r.feedback, r.events) for r in back] == [
        (r.task, r.epoch, r.counts, r.exhausted, r.feedback, list(r.events)) for r in sent
    ]
    assert [[o if isinstance(o, bytes) else o.rows() for o in r.outputs] for r in back] == [
        [b"a", batch.rows(), b"b"],
        [],
        [batch.rows()],
    ]
