"""Workers without Ray: plain objects in this process, real sockets between them, the test in the driver's place."""

import gc
import secrets
import threading
import time
import weakref
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from crashes import KilledError, written_at_once
from operators_for_tests import FailsAt, Halver, Numbers, Tagged

from streams.batches import TupleBatch
from streams.errors import CodecError, RunError, TaskFailedError
from streams.state import Part, pack_apart, unpack_state
from topology import TopologyBuilder, run
from topology.checkpoints import FolderStore, resumption_of
from topology.checkpoints.collection import Attempt
from topology.checkpoints.state_files import read_file
from topology.conductor import Conductor
from topology.messages import Report
from topology.ray_runtime.actor import Prepared, WorkerActor
from topology.ray_runtime.frames import (
    DATA,
    DRIVER,
    FAILED,
    GRANT,
    LOST,
    MARK,
    MARKED,
    REPORT,
    SAVED,
    WRITTEN,
    failure_error,
    pack_plain,
    pack_reports,
    pack_saved,
    unpack_plain,
    unpack_reports,
    unpack_saved,
    unpack_written,
)
from topology.ray_runtime.placement import place
from topology.ray_runtime.standstill import Standing, stands_still
from topology.ray_runtime.state_writer import OwnStore, Written
from topology.ray_runtime.transport import TOKEN_BYTES, Endpoint, Frame, Lost
from topology.ray_runtime.worker_loop import WorkerLoop
from topology.task import Task
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

    def start(self, generation=1, states=None, attempt=None, own=None):
        """Make all listen, then all connect, as the driver does."""
        if self.driver is not None:
            self.driver.close()
        self.driver = Endpoint(HOST, TOKEN, generation, 1 << 20, DRIVER)
        assert all(actor.prepare(states or {}) == Prepared() for actor in self.actors)
        addresses = {i: actor.listen(HOST, TOKEN, generation) for i, actor in enumerate(self.actors)}
        for worker, actor in enumerate(self.actors):
            reached = {peer: addresses[peer] for peer in self.placement.peers(self.wiring, worker)}
            actor.start({**reached, DRIVER: self.driver.address}, attempt, own)
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

    def conduct(self, start=0):
        """Run to the end; return all reports."""
        conductor, reports, items = Conductor(self.wiring, start=start), [], self.frames()
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
    gc.unfreeze()


class Told(Numbers):
    """Also remembers which checkpoints it was told of."""

    def saved(self, epoch):
        self.heard.append(("saved", epoch))


def line(count=60, size=5, spout=Numbers, **settings):
    """A spout, two bolts that tag, a sink that collects."""
    builder = TopologyBuilder("line", max_pending=4, **settings)
    builder.spout("numbers", spout, count=count, size=size)
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


def test_spout_learns_of_each_checkpoint_once(workers):
    """Of each that grants name, whatever they say again."""
    made = workers(line(spout=Told), 1)
    made.start()
    for saved in (None, -1, -1, None, -1, 2):
        made.driver.send(0, DRIVER, 0, GRANT, 0, 0, pack_plain([0, None, 0, None, saved]))
    made.conduct()
    heard = next(task.operator.heard for actor in made.actors for task in actor._tasks if task.spec.id == 0)
    assert [epoch for what, epoch in heard if what == "saved"] == [-1, 2]


@pytest.mark.parametrize("count", [1, 2])
def test_spout_receives_each_ack_once(workers, count):
    """In the order of epochs, none twice, whatever grants say again."""
    made = workers(line(count=200), count)
    made.start()
    reports = made.conduct()
    heard = next(task.operator.heard for actor in made.actors for task in actor._tasks if task.spec.id == 0)
    last = max(report.epoch for report in reports)
    assert heard == [("ack", epoch) for epoch in range(len(heard))]
    assert last - 8 <= len(heard) <= last + 1


def looping(folder):
    """Numbers that go round until they are odd."""
    checkpoint = {"directory": str(folder), "epochs": 1}
    builder = TopologyBuilder("loop", max_pending=1, epoch={"feedback": 2}, checkpoint=checkpoint)
    builder.spout("numbers", Numbers, count=64, size=32)
    loop = builder.bolt("loop", Halver, parallelism=3).shuffle("numbers")
    loop.fields("loop", ["number"], "again", feedback=True)
    builder.bolt("sink", "collect").global_("loop")
    return builder.build()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_workers_go_on_with_what_was_under_way(workers, tmp_path, count):
    """States that workers read themselves have messages under way: to tasks of the same worker and of others."""
    topology, seen = looping(tmp_path), []

    def after(_progress):
        seen.append(1)
        if len(seen) == 4:
            raise KilledError

    with written_at_once(), pytest.raises(KilledError):
        run(topology, on_progress=after)
    made = workers(topology, count)
    origin = resumption_of(topology, FolderStore(tmp_path), "sized")
    made.start(states=origin.sources(made.wiring))
    before = [row[0] for _, batch in origin.driver["collected"] for row in batch.rows()]
    found = collected(made.conduct(origin.start)) + Counter(before)
    assert found == Counter(n // (n & -n) if n else 0 for n in range(64))
    assert 0 < len(before) < 64


def test_worker_that_cannot_read_a_state_says_so(workers, tmp_path):
    """Which task, which file and why; nobody takes it for a fault of the operator."""
    topology = looping(tmp_path)
    run(topology)
    made = workers(topology, 1)
    sources = resumption_of(topology, FolderStore(tmp_path), "sized").sources(made.wiring)
    made.driver = Endpoint(HOST, TOKEN, 1, 1 << 20, DRIVER)
    for path in tmp_path.glob("0*/task-*.state"):
        path.write_bytes(bytes(path.stat().st_size))
    unread = made.actors[0].prepare(sources).unread
    assert unread.startswith("numbers[0]: task-00000.state is damaged: its checksum differs")


def own_store(folder):
    return OwnStore(str(folder), 1 << 20, {})


def test_workers_write_their_states_and_name_the_files(workers, tmp_path):
    """The driver gets names, sizes and checksums of what is in the store, and no state."""
    made = workers(line(), 2)
    made.start(attempt=Attempt("000000003", "tag"), own=own_store(tmp_path))
    written = []
    for item in made.frames():
        assert item.kind == WRITTEN
        written.append(unpack_written(item))
        if len(written) == len(made.wiring.tasks):
            break
    assert sorted(one.task for one in written) == [task.id for task in made.wiring.tasks]
    for one in written:
        assert (one.epoch, one.failure) == (-1, "")
        state = read_file(FolderStore(tmp_path), "000000003", one.state.file, 1 << 20)
        assert state["next"] == 0
        assert one.state.file.name == f"task-{one.task:05}-tag.state"
        assert one.state.written == one.state.file.size
    made.driver.send(0, DRIVER, 0, MARK, 0, 2, pack_plain(["000000004", "other"]))
    made.first(MARKED)
    made.grant(4)
    frame = unpack_written(made.first(WRITTEN))
    assert frame.epoch == 2
    assert [path.name for path in (tmp_path / "000000004").iterdir()] != []


def test_worker_that_cannot_write_a_state_says_why(workers, tmp_path):
    """The driver decides what it means; the worker goes on."""
    (tmp_path / "file").write_text("in the way")
    made = workers(line(), 1)
    made.start(attempt=Attempt("000000000", "tag"), own=own_store(tmp_path / "file"))
    written = unpack_written(made.first(WRITTEN))
    assert written.state is None
    assert "cannot" in written.failure


def test_states_that_are_being_written_at_the_end_are_named_before_the_worker_ends(workers, tmp_path, monkeypatch):
    """A store that is slow loses no checkpoint, though all tasks have done their final epoch meanwhile."""
    made = workers(line(count=5), 1)
    write = FolderStore.write
    ended = threading.Event()
    monkeypatch.setattr(FolderStore, "write", lambda *args: ended.wait(20) and write(*args))
    made.start(attempt=Attempt("000000000", "tag"), own=own_store(tmp_path))
    made.grant(2, final=1)
    deadline = time.monotonic() + 20
    while made.actors[0]._loop._working and time.monotonic() < deadline:
        time.sleep(0.01)
    ended.set()
    written = (unpack_written(item).task for item in made.frames() if item.kind == WRITTEN)
    assert sorted(islice(written, len(made.wiring.tasks))) == [task.id for task in made.wiring.tasks]


def test_state_and_its_parts_cross_a_frame():
    """Where workers do not reach the store, the driver gets the state and the values of its parts."""
    part = Part.of("p", np.arange(9))
    body = pack_saved(4, pack_apart({"next": 3, "parts": [part, part]}), {"position": 7})
    task, packed, positions = unpack_saved(Frame(0, DRIVER, SAVED, 0, 0, memoryview(b"".join(body))))
    assert (task, positions, list(packed.parts)) == (4, {"position": 7}, ["p"])
    assert packed.parts["p"].value.tolist() == list(range(9))
    back = unpack_state(b"".join(packed.pieces), packed.parts.get)
    assert back["next"] == 3
    with pytest.raises(CodecError, match="a frame with a state"):
        unpack_saved(Frame(0, DRIVER, SAVED, 0, 0, memoryview(b"".join(body)[:-1])))


def test_worker_that_listens_again_starts_anew(workers):
    """Tasks of a new generation begin at epoch 0, and nothing that an old one had under way reaches them."""
    made = workers(line(), 2)
    made.start(generation=1)
    made.grant(4)
    made.first(REPORT)
    made.start(generation=2)
    assert collected(made.conduct()) == Counter(range(60))


def test_modules_are_not_looked_through_for_garbage_and_tasks_are(workers):
    """A full collection passes over what was loaded before tasks were made; tasks of a generation that is over go."""
    made = workers(line(), 1)
    assert gc.get_freeze_count() > len(gc.get_objects())
    made.start(generation=1)
    [actor] = made.actors
    old = [weakref.ref(task) for task in actor._tasks]
    made.start(generation=2)
    gc.collect()
    assert [ref() for ref in old] == [None] * len(old)


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


class Wire:
    """An endpoint without sockets that notes what a worker sends and when it is made to leave."""

    me, max_frame_bytes = 0, 1 << 20

    def __init__(self, *arriving):
        self.arriving, self.noted = list(arriving), []

    def poll(self, seconds=None):
        """Hand over what is to arrive next; the end of the driver when there is no more to do."""
        if self.arriving:
            return [self.arriving.pop(0)]
        return [] if seconds == 0 else [Lost(DRIVER, "over")]

    def send(self, peer, source, target, kind, lag, epoch, body):
        """Note the task that sends."""
        if kind == DATA:
            self.noted.append((source, epoch))
        return 0

    def push(self):
        """Note that all of it leaves."""
        self.noted.append("push")

    def flush(self, seconds):
        """Nothing waits."""


@pytest.mark.parametrize(("epochs", "leaves"), [(1, True), (3, False)])
def test_what_is_for_others_leaves_before_more_work_where_they_may_wait_for_it(epochs, leaves):
    """A message to another worker leaves before the next task works if one epoch is under way, and waits if there are more."""
    wiring = wire(line())
    placement = place(wiring, 2)
    spout, tagged = placement.workers[0]
    granted = Frame(DRIVER, 0, GRANT, 0, 0, memoryview(b"".join(pack_plain([epochs, None, 0]))))
    between = Wire(granted)
    tasks = [Task(wiring, wiring.tasks[id_]) for id_ in placement.workers[0]]
    WorkerLoop(wiring, tasks, placement.worker_of, between).run()
    assert ("push" in between.noted[between.noted.index((spout, 0)) : between.noted.index((tagged, 0))]) == leaves


def standing_still(made):
    """Look at all workers, and at the driver, twice."""
    here = Standing(made.driver.quiet, made.driver.sent, made.driver.received)
    return stands_still(*([here, *(actor.standing() for actor in made.actors)] for _ in range(2)))


def test_run_whose_grant_was_lost_stands_still(workers):
    """When all that was granted is done and nobody grants more, everybody waits and everything sent was received."""
    made = workers(line(), 3)
    made.start()
    made.grant(2)
    deadline = time.monotonic() + 20
    while not standing_still(made) and time.monotonic() < deadline:
        made.driver.poll(0.01)
    assert standing_still(made)
    assert made.driver.received > 0
    made.driver.send(0, DRIVER, 0, GRANT, 0, 0, pack_plain([3, None, 0]))  # on its way: not even with the kernel yet
    assert not standing_still(made)


def test_looks_that_differ_or_lack_something_are_no_standstill():
    """One at work, a frame under way, one that came between two looks: each is reason to wait on."""
    still = [Standing(True, 5, 3), Standing(True, 2, 4)]
    assert stands_still(still, still)
    assert not stands_still(still, [Standing(False, 5, 3), Standing(True, 2, 4)])
    assert not stands_still([Standing(False, 5, 3), Standing(True, 2, 4)], still)
    assert not stands_still(still, [Standing(True, 6, 3), Standing(True, 2, 5)])
    assert not stands_still([Standing(True, 5, 3), Standing(True, 2, 3)], [Standing(True, 5, 3), Standing(True, 2, 3)])


class WrittenAtOnce:
    """A writer of states that has written one when nobody waits for it, and has woken its worker for it."""

    def __init__(self, written):
        self.written = [written]

    def finished(self):
        """Return what was written since the last call."""
        found, self.written = self.written, []
        return found

    def finish(self, seconds):
        """Nothing is being written."""


class Woken(Wire):
    """An endpoint whose wake-ups are taken by polls that do not wait; it notes what was sent before the first that does."""

    def __init__(self, wakes):
        super().__init__()
        self.wakes, self.sent, self.waits = wakes, [], 0

    def poll(self, seconds=None):
        """Take the wake-up; a poll that waits ends the run."""
        if seconds == 0:
            self.wakes()
            return []
        self.waits += 1
        return [Lost(DRIVER, "over")]

    def send(self, peer, source, target, kind, lag, epoch, body):
        """Note what kind was sent before any wait."""
        if not self.waits:
            self.sent.append(kind)
        return 0


def test_state_that_was_written_is_reported_though_a_poll_took_its_wake_up():
    """A worker with nothing else to do sends the name of the file before it waits: nobody would wake it again."""
    wiring = wire(line())
    placement = place(wiring, 2)
    written = Written(0, 3, {}, None, "full")
    tasks = [Task(wiring, wiring.tasks[id_]) for id_ in placement.workers[1]]
    writer, wire_ = WrittenAtOnce(written), Woken(lambda: None)
    WorkerLoop(wiring, tasks, placement.worker_of, wire_, writer).run()
    assert wire_.sent == [WRITTEN]


def test_worker_that_is_asked_to_stop_does_not_wait_though_a_poll_took_its_wake_up():
    """A loop that is stopped while it polls without waiting ends."""
    wiring = wire(line())
    placement = place(wiring, 2)
    tasks = [Task(wiring, wiring.tasks[id_]) for id_ in placement.workers[1]]
    woken = Woken(lambda: loop.stop())
    woken.wake = lambda: None
    loop = WorkerLoop(wiring, tasks, placement.worker_of, woken)
    loop.run()
    assert woken.waits == 0
