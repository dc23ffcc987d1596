"""Where tasks sit: every worker gets its part, and serves what is furthest down first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operators_for_tests import Doubler, Halver, Numbers, Tagged

from topology import TopologyBuilder
from topology.ray_runtime.placement import downstream_first, place
from topology.wiring import wire


def wiring_of(spouts=1, doublers=2, tagged=4):
    """A line of components with so many tasks each, and one that feeds itself."""
    builder = TopologyBuilder("placed")
    builder.spout("numbers", Numbers, parallelism=spouts)
    builder.bolt("sink", "count").global_("halver")  # declared before what it reads: order must come from the edges
    builder.bolt("halver", Halver).none("tagged").fields("halver", ["number"], "again", feedback=True)
    builder.bolt("tagged", Tagged, parallelism=tagged).shuffle("double")
    builder.bolt("double", Doubler, parallelism=doublers).shuffle("numbers")
    return wire(builder.build())


@given(workers=st.integers(1, 20), sizes=st.tuples(*[st.integers(1, 7)] * 3))
def test_placement_spreads_tasks_and_components_evenly(workers, sizes):
    """Each task has one worker; shares of all tasks, and of each component, differ by one at most."""
    wiring = wiring_of(*sizes)
    placement = place(wiring, workers)
    assert sorted(task for tasks in placement.workers for task in tasks) == list(range(len(wiring.tasks)))
    assert len(placement.workers) == min(workers, len(wiring.tasks))
    assert all(task in placement.workers[worker] for task, worker in placement.worker_of.items())
    for among in [wiring.tasks, *map(wiring.tasks_of, ("numbers", "tagged", "double"))]:
        shares = [sum(task.id in tasks for task in among) for tasks in placement.workers]
        assert max(shares) - min(shares) <= 1


@given(workers=st.integers(1, 9), sizes=st.tuples(*[st.integers(1, 4)] * 3))
def test_peers_are_the_workers_of_those_who_get_messages(workers, sizes):
    """A worker connects to exactly the other workers that host a receiver of one of its tasks."""
    wiring = wiring_of(*sizes)
    placement = place(wiring, workers)
    for worker, tasks in enumerate(placement.workers):
        expected = {
            placement.worker_of[target.id]
            for target in wiring.tasks
            for source, _ in wiring.incoming(target)
            if source in tasks
        }
        assert placement.peers(wiring, worker) == expected - {worker}


def test_tasks_further_down_are_served_first():
    """The order follows the edges, not the declaration, and an edge with a lag does not count."""
    wiring = wiring_of(spouts=2)
    components = [wiring.tasks[task].component for task in downstream_first(wiring)]
    assert components == ["sink", "halver", *["tagged"] * 4, *["double"] * 2, *["numbers"] * 2]


@pytest.mark.parametrize(("workers", "expected"), [(1, 1), (3, 3), (100, 9)])
def test_workers_are_never_more_than_tasks(workers, expected):
    """So many workers as asked for, up to one a task."""
    assert len(place(wiring_of(), workers).workers) == expected
