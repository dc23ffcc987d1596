"""Whatever the schedule, the epoch size, the parallelism or a restart: the results are the same."""

from collections import Counter

import pytest
from operators_for_tests import (
    ByParity,
    Counts,
    Director,
    Doubler,
    Echo,
    FailsAt,
    Halver,
    Numbers,
    OutOfRange,
    Tagged,
    Unguarded,
)
from range_inputs import StopsAfter

from streams.errors import RunError, TaskFailedError
from streams.state import pack_state, unpack_state
from topology import TopologyBuilder, run
from topology.local_runtime import LocalRuntime
from topology.wiring import wire


def collected(topology, **kwargs):
    """Run a topology and return the multiset of tuples that its sink collected."""
    rows = [row for batch in run(topology, **kwargs).collected for row in batch.rows()]
    return Counter(rows)


def pipeline(size=10, max_pending=4, spouts=2, bolts=3):
    builder = TopologyBuilder("pipeline", max_pending=max_pending)
    builder.spout("numbers", Numbers, parallelism=spouts, count=100, size=size)
    builder.bolt("double", Doubler, parallelism=bolts).shuffle("numbers")
    builder.bolt("counts", Counts, parallelism=2).fields("double", ["word"])
    builder.bolt("sink", "collect").global_("counts").global_("double")
    return builder.build()


EXPECTED = Counter({(2 * n, f"w{n % 7}"): 1 for n in range(100)}) + Counter(
    {(f"w{w}", len(range(w, 100, 7)), "end"): 1 for w in range(7)}
)


@pytest.mark.parametrize("seed", range(40))
def test_results_do_not_depend_on_the_schedule(seed):
    """A hundred seeds of schedule and delays give the same tuples."""
    assert collected(pipeline(), scheduler_seed=seed, delays=True) == EXPECTED


@pytest.mark.parametrize("size", [1, 3, 10, 99, 100, 1000])
@pytest.mark.parametrize("max_pending", [1, 8])
def test_results_do_not_depend_on_the_epoch_size(size, max_pending):
    """Epochs of one tuple and of all tuples give the same results."""
    assert collected(pipeline(size, max_pending), delays=True) == EXPECTED


def unguarded(**settings):
    builder = TopologyBuilder("unguarded", **settings)
    builder.spout("numbers", Unguarded)
    builder.bolt("sink", "collect").global_("numbers")
    return builder


@pytest.mark.parametrize("max_pending", [1, 2, 8])
def test_spout_is_not_asked_again_behind_its_end(max_pending):
    """However many epochs are under way, what a spout would emit after it has said that there is no more is not there."""
    found = collected(unguarded(max_pending=max_pending).build(), delays=True)
    assert found == Counter((number,) for number in range(30))


def test_end_of_a_spout_is_remembered_where_a_run_goes_back(tmp_path):
    """After a kill behind its end, from a checkpoint behind its end, a spout has still ended; so it has in a resumed run."""
    builder = unguarded(checkpoint={"directory": str(tmp_path), "epochs": 1, "keep": 9})
    builder.spout("longer", Numbers, count=80, size=5)  # there are more epochs than the other has
    builder.bolt("other", "count").global_("longer")
    builder.inject(kind="kill", task="sink", epoch=9)
    expected = Counter((number,) for number in range(30))
    assert collected(builder.build()) == expected
    assert not collected(builder.build(), resume=tmp_path) - expected


@pytest.mark.parametrize("spouts", [1, 3])
@pytest.mark.parametrize("bolts", [1, 4])
def test_results_do_not_depend_on_parallelism(spouts, bolts):
    """More tasks do not change what comes out."""
    assert collected(pipeline(spouts=spouts, bolts=bolts)) == EXPECTED


def tagged(grouping, **kwargs):
    builder = TopologyBuilder("tagged")
    builder.spout("numbers", Numbers, count=60)
    declarer = builder.bolt("tagged", Tagged, parallelism=3)
    getattr(declarer, grouping)("numbers", *kwargs.values())
    builder.bolt("sink", "collect").global_("tagged")
    return collected(builder.build(), delays=True)


def test_custom_grouping_decides_the_task():
    """The user's own class sends even numbers to the first task and odd ones to the last."""
    rows = tagged("custom", using=ByParity)
    assert {(n % 2, task) for n, _, task in rows} == {(0, 0), (1, 2)}
    assert sum(rows.values()) == 60


def test_custom_grouping_that_names_no_task_fails_with_its_name():
    """A choice out of range ends the run, and says whose it was."""
    with pytest.raises(TaskFailedError, match=r"OutOfRange\.choose must return one task of 0\.\.2"):
        tagged("custom", using=OutOfRange)


def test_direct_grouping_follows_the_emitter():
    """A tuple goes to the task that its emitter names."""
    builder = TopologyBuilder("direct")
    builder.spout("numbers", Numbers, count=60)
    builder.bolt("director", Director).shuffle("numbers")
    builder.bolt("tagged", Tagged, parallelism=4).direct("director")
    builder.bolt("sink", "collect").global_("tagged")
    rows = collected(builder.build())
    assert {n % 4 == task for n, _, task in rows} == {True}
    assert sum(rows.values()) == 60


def test_all_grouping_reaches_every_task():
    """Every task sees every tuple."""
    assert tagged("all") == Counter({(n, f"w{n % 7}", t): 1 for n in range(60) for t in range(3)})


def test_ticks_come_every_so_many_epochs():
    """Of ten epochs with a tick every three, three ticks and the end emit all counts."""
    builder = TopologyBuilder("ticks", max_pending=1)
    builder.spout("numbers", Numbers, count=100, size=10)
    builder.bolt("counts", Counts, tick={"epochs": 3}).shuffle("numbers")
    builder.bolt("sink", "collect").global_("counts")
    rows = [row for batch in run(builder.build()).collected for row in batch.rows()]
    assert sum(count for _, count, when in rows if when == "tick") == 90
    assert sum(count for _, count, when in rows if when == "end") == 10


def loop(bolt):
    builder = TopologyBuilder("loop", limits={"drain_epochs": 50})
    builder.spout("numbers", Numbers, count=64, size=8)
    builder.bolt("loop", bolt, parallelism=2).shuffle("numbers").fields("loop", ["number"], "again", feedback=True)
    builder.bolt("sink", "collect").global_("loop", "default" if bolt is Halver else "again")
    return builder.build()


@pytest.mark.parametrize("seed", range(20))
def test_feedback_is_delivered_until_it_rests(seed):
    """Every even number comes round, halved, until it is odd; the run ends when nothing is under way."""

    def odd(n):
        while n and n % 2 == 0:
            n //= 2
        return n

    assert collected(loop(Halver), scheduler_seed=seed, delays=True) == Counter(
        (odd(n), f"w{n % 7}") for n in range(64)
    )


def test_feedback_that_never_rests_ends_with_an_error():
    """A loop without an end is an error that says which limit it hit."""
    with pytest.raises(RunError, match=r"topology\.limits\.drain_epochs"):
        run(loop(Echo))


def test_failing_operator_ends_the_run_with_its_traceback():
    """The error has the task's name, the epoch and the operator's own line, and none of the runtime's."""
    builder = TopologyBuilder("fails")
    builder.spout("numbers", Numbers, count=100)
    builder.bolt("picky", FailsAt, parallelism=2).shuffle("numbers")
    with pytest.raises(TaskFailedError) as caught:
        run(builder.build())
    assert caught.value.task.startswith("picky[")
    assert caught.value.epoch == 5
    assert "cannot digest 55" in caught.value.details
    assert 'raise ZeroDivisionError(f"cannot digest {self.number}")' in caught.value.details
    assert "local_runtime" not in caught.value.details


def test_spouts_hear_acks_in_order_and_failures_of_what_is_under_way():
    """Each epoch is acked once, in order; when the run fails, the rest of those under way are failed."""
    builder = TopologyBuilder("heard", max_pending=3)
    builder.spout("numbers", Numbers, count=100)
    builder.bolt("picky", FailsAt, number=55).shuffle("numbers")
    runtime = LocalRuntime(wire(builder.build()), seed=1)
    with pytest.raises(TaskFailedError):
        runtime.run()
    heard = runtime._tasks[0].operator.heard
    acked = [epoch for kind, epoch in heard if kind == "ack"]
    failed = [epoch for kind, epoch in heard if kind == "fail"]
    assert acked == list(range(5))
    assert failed
    assert failed[0] == 5


def test_stop_drains_what_is_under_way():
    """A run that is stopped ends cleanly: whole epochs, each tuple once."""
    epochs = []
    topology = pipeline(size=1, max_pending=3)
    outcome = run(topology, should_stop=lambda: len(epochs) >= 10, on_progress=lambda p: epochs.append(p))
    numbers = sorted(row[0] for b in outcome.collected for row in b.rows() if len(row) == 2)
    assert numbers == [2 * n for n in range(len(numbers))]
    assert 10 <= len(numbers) < 100


@pytest.mark.parametrize("cut", [0, 1, 4, 9, 11])
@pytest.mark.parametrize("make", [pipeline, lambda: loop(Halver)], ids=["pipeline", "loop"])
def test_snapshot_and_restore_in_mid_run_change_nothing(cut, make):
    """Stop after some epochs, pack all tasks' state into bytes, go on in fresh tasks: the same tuples, none twice."""
    topology = make()
    whole = collected(topology)
    first, second = [], []
    wiring = wire(topology)
    before = StopsAfter(wiring, cut, first)
    before.run()
    state = unpack_state(pack_state(before.states))
    LocalRuntime(wiring, seed=5, delays=True, snapshots=state, on_report=lambda r: second.extend(r.outputs)).run()
    rows = Counter(row for batch in first + second for row in batch.rows())
    assert rows == whole


@pytest.mark.parametrize("feedback", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_stopped_run_lets_everything_under_way_settle(seed, feedback):
    """Numbers that go round for several epochs are all there at the end: as if the input had ended where it was stopped."""
    builder = TopologyBuilder("loop", max_pending=4, epoch={"feedback": feedback})
    builder.spout("numbers", Numbers, count=10**9, size=32)
    loop = builder.bolt("loop", Halver, parallelism=3).shuffle("numbers")
    loop.fields("loop", ["number"], "again", feedback=True)
    builder.bolt("sink", "collect").global_("loop")
    seen = []
    outcome = run(
        builder.build(), scheduler_seed=seed, delays=True, on_progress=seen.append,
        should_stop=lambda: len(seen) > 6,
    )  # fmt: skip
    found = Counter(row for batch in outcome.collected for row in batch.rows())
    emitted = sum(found.values())
    assert emitted % 32 == 0
    assert 7 * 32 <= emitted <= 20 * 32
    assert found == Counter((n // (n & -n) if n else 0, f"w{n % 7}") for n in range(emitted))
