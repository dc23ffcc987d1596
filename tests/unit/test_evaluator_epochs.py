"""One evaluator with memory, epoch by epoch: what it says of queries that end, or are due, while they are on their way."""

import numpy as np
import pytest
from latest_queries import LatestCore, LatestEvaluator
from range_model import PlainObject, PlainQuery, object_batch, query_batch
from test_merged_lists import ranked

from operators.balancing.orders import Order, order_batch
from operators.evaluation.division import divided_states
from operators.operator import Arrival, Emitter, Epoch, Inputs, TaskContext
from operators.redistribution import Division
from partitioners import HashPlan
from partitioners.plans.broadcast import one_each
from partitioners.plans.plan_change import change_between, pack_change
from streams.batches import FOREVER, TYPE_TERMS
from streams.geometry import REGION_RECT, Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)

#: Query 5 is at worker 0, then at worker 1, then at worker 2; feedback takes one epoch.
AT_0 = HashPlan(SPACE, 3).with_moved([5], [0])
AT_1 = AT_0.with_moved([5], [1])
AT_2 = AT_1.with_moved([5], [2])
SWITCH = Order("switch")


def prepare(old, new):
    return Order("prepare", payload=pack_change(change_between(old, new)))


def standing_query(end=FOREVER):
    return query_batch([PlainQuery(5, REGION_RECT, SPACE.as_tuple(), end=end)])


def sliding_query(slide):
    return query_batch([PlainQuery(5, REGION_RECT, SPACE.as_tuple(), type=TYPE_TERMS, slide=slide)])


def objects(*times):
    return object_batch([PlainObject(0.5, 0.5, ts=ts) for ts in times])


class ByHand:
    """An evaluator, and the number of its next epoch."""

    def __init__(self, worker, plan, epoch=0):
        self.evaluator = LatestEvaluator()
        targets = {"replies": [("balancer", 1)]}
        self.evaluator.open(TaskContext("evaluator", worker, 3, SPACE, plan=plan, targets=targets))
        self.epoch = epoch

    @property
    def core(self):
        return self.evaluator._core

    def step(self, watermark, *orders, **came):
        """Work on an epoch; return the lines for the merger, and the results for other evaluators.

        Lines are (number, time, k, names of objects); `adoption` comes from worker 0.
        """
        batches = {"orders": order_batch(orders), **came}
        arrivals = tuple(Arrival("", stream, 0, batch) for stream, batch in batches.items())
        emit = Emitter(LatestEvaluator.outputs)
        self.evaluator.execute_epoch(Epoch(self.epoch, watermark), Inputs(arrivals), emit)
        self.epoch += 1
        lines = []
        for batch in emit.batches("rankings"):
            for row in range(len(batch)):
                one = batch.slice(row, row + 1)
                lines.append((int(one.number[0]), int(one.ts[0]), int(one.k[0]), one.seq.tolist()))
        return lines, emit.direct_batches.get("adoption", [])


def taker(watermark, queries):
    """Return worker 1, to which query 5 came under `AT_1` in epoch 2; its results are to come in epoch 3."""
    worker = ByHand(1, AT_0)
    worker.step(0, prepare(AT_0, AT_1))
    worker.step(0, transfer=queries)
    assert worker.step(watermark, SWITCH) == ([], [])
    return worker


def test_query_that_ends_while_its_results_are_on_their_way_sleeps_until_they_come():
    """It learns nothing more, has its last list sent when they have come, and then its end; each once."""
    worker = taker(10, standing_query(end=10))
    assert worker.core.asleep == {5}
    assert worker.step(12, adoption=ranked([(5, 9, 2, [(3, 9), (1, 4)])])) == ([(5, 9, 2, [3, 1]), (5, 9, 0, [])], [])
    assert worker.step(14) == ([], [])
    assert worker.core.numbers().tolist() == []


def test_query_that_ends_on_its_way_and_moves_on_is_ended_by_who_has_it_last():
    """Time stands still, so that it is not settled when it leaves again: who gives it away says nothing of it any more."""
    worker = taker(10, standing_query(end=10))
    list_of_0 = ranked([(5, 9, 2, [(3, 9), (1, 4)])])
    assert worker.step(10, prepare(AT_1, AT_2), adoption=list_of_0) == ([], [])
    lines, [(to, given)] = worker.step(10, SWITCH)
    assert (lines, to, given.number.tolist(), given.seq.tolist()) == ([], 2, [5], [3, 1])
    assert worker.core.numbers().tolist() == []
    assert worker.step(12) == ([], [])


def test_lists_carry_the_time_of_results_that_were_adopted():
    """A list that states what objects brought elsewhere is as of their time, though nothing came here."""
    worker = taker(5, standing_query())
    assert worker.step(8, adoption=ranked([(5, 7, 2, [(3, 7)])])) == ([(5, 7, 2, [3])], [])


def test_list_that_was_adopted_does_not_turn_time_back():
    """Objects that came here since are newer than what the giver knew."""
    worker = taker(5, standing_query())
    assert worker.step(5, objects=objects(5, 6)) == ([], [])
    lines, _ = worker.step(8, adoption=ranked([(5, 4, 2, [(-1, 4)])]))
    assert lines == [(5, 6, 2, [1, 0])]


def test_instants_that_nobody_could_answer_go_along_with_the_results():
    """Each slide is answered once, in the order of time, by who has the results: not where the query was on its way."""
    worker = taker(
        5, sliding_query(2)
    )  # before the switch worker 0 has answered up to 0: here 2 and 4 are due, and wait
    worker.step(5, prepare(AT_1, AT_2), adoption=ranked([(5, 1, 2, [(3, 1)])]))
    lines, [(to, given)] = worker.step(5, SWITCH)
    assert (lines, to) == ([], 2)
    late = given.instant
    assert (given.number[late].tolist(), given.ts[late].tolist()) == ([5], [2])
    last = ByHand(2, AT_1, epoch=3)
    last.step(5, prepare(AT_1, AT_2))
    last.step(5, SWITCH, transfer=sliding_query(2))
    assert last.step(7, adoption=given) == ([(5, at, 2, [3]) for at in (2, 4, 6)], [])
    assert last.step(9) == ([(5, 8, 2, [3])], [])
    assert worker.step(9) == ([], [])


@pytest.mark.parametrize("moved", [False, True])
def test_division_takes_no_results_from_who_has_given_a_query_away(moved):
    """What is left there of a query is older than what its taker knows, and objects may have gone since."""
    worker = taker(5, standing_query())
    worker.step(8, prepare(AT_1, AT_2), adoption=ranked([(5, 7, 2, [(3, 7)])]))
    if moved:
        worker.evaluator._handover._piece = 0  # nothing is dropped yet
        worker.step(9, SWITCH)
        worker.step(9)  # what was given has come
        assert worker.evaluator._handover.left.tolist() == [5]
    state = worker.evaluator.snapshot()
    queries = LatestCore.saved_queries(state["core"])
    division = Division("evaluator", 1, 1, queries, one_each(np.zeros(1, np.int32)))
    [divided] = divided_states(LatestCore, [state], division)
    assert divided["core"]["lists"].seq.tolist() == ([] if moved else [3])
