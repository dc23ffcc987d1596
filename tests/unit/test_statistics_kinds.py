"""Kinds of statistics: what an evaluator reports is what the balancer reads."""

from types import SimpleNamespace

import numpy as np
import pytest
from rebalancing_model import SPACE, Field

from operators.balancing.statistics import STATISTICS, CostReport, StatisticsRequest, make_reporter
from operators.indexes import Cost
from partitioners import FineGrid, GridPlan
from streams.batches import QueryBatch, TupleBatch
from streams.errors import InputError
from streams.state import pack_state, unpack_state

BOXES = np.array([[0, 0, 1, 3], [2, 0, 3, 3]])
FIELD = Field(np.arange(16).reshape(4, 4), np.array([[0, 0, 1, 1], [1, 1, 2, 2]]))
PLAN = GridPlan.of_boxes(FineGrid(SPACE, 4, 4), BOXES, np.arange(2), 3)


def core_of(worker):
    box = tuple(BOXES[worker].tolist())
    load = FIELD.load(box)
    return SimpleNamespace(
        cost=lambda: Cost(0, FIELD.cost_of(box), 0),
        load=lambda: load,
        numbers=lambda: np.arange(len(FIELD.queries_of(box))),
        queries=lambda _numbers: QueryBatch.empty(),
    )


def reporter_of(kind, worker, core=None):
    return make_reporter(StatisticsRequest(kind, {"knots": 3}), worker, core or core_of(worker))


@pytest.mark.parametrize("kind", STATISTICS)
def test_statistics_come_back_as_they_were_reported(kind):
    """Whatever the kind, a report names its worker, the version of the plan and what was spent."""
    assert STATISTICS[kind].name == kind
    for worker in (0, 1):
        (read,) = STATISTICS[kind].read(reporter_of(kind, worker).report(PLAN))
        assert (read.worker, read.version, int(np.sum(read.cost))) == (
            worker,
            PLAN.version,
            core_of(worker).cost().candidates,
        )


def test_costs_are_reported_with_the_queries_held():
    """A report of costs has the number of queries too, and is what evaluators report without a balancer's request."""
    batch = make_reporter(None, 0, core_of(0)).report(PLAN)
    assert STATISTICS["costs"].read(batch) == [CostReport(0, PLAN.version, core_of(0).cost().candidates)]
    with pytest.raises(InputError, match=r"reports of costs have the fields \['a'\], expected \['worker', 'version',"):
        STATISTICS["costs"].read(TupleBatch.of(("a",), [(1,)]))


@pytest.mark.parametrize("kind", ["partitions", "cells"])
def test_statistics_of_partitions_come_from_workers_that_have_one(kind):
    """A worker without a partition has nothing to report, and the balancer does not wait for it."""
    assert STATISTICS[kind].by_place
    assert reporter_of(kind, 2, core_of(0)).report(PLAN) is None
    assert not STATISTICS["costs"].by_place


def test_answers_are_about_the_load_that_was_reported():
    """A question is answered by what the balancer has decided upon, also after a restart, not by what came since."""
    core = core_of(0)
    reporter = reporter_of("partitions", 0, core)
    reporter.report(PLAN)
    question = ["right", 0]
    expected = reporter.answer(PLAN, question)
    assert expected is not None
    empty = Field(np.zeros((4, 4), np.int64), np.empty((0, 4), np.int64)).load((0, 0, 1, 3))
    core.load = lambda: empty
    assert reporter.answer(PLAN, question) == expected
    again = reporter_of("partitions", 0, core)
    again.restore(unpack_state(pack_state(reporter.snapshot())))
    assert again.answer(PLAN, question) == expected
    reporter.report(PLAN)
    assert reporter.answer(PLAN, question) != expected
