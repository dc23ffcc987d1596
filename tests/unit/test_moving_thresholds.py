"""DSkype's subscription bolt, epoch by epoch: the thresholds of subscriptions that move, and the keywords filed for them."""

import numpy as np
import pytest
from test_evaluator_epochs import AT_0, AT_1, SWITCH, prepare
from topk_model import topk_batch

from operators.balancing.orders import order_batch
from operators.evaluation.handover import BOUND_FIELDS
from operators.evaluation.scored_evaluator import THRESHOLD_FIELDS, ScoredEvaluator
from operators.operator import Arrival, Emitter, Epoch, Inputs, TaskContext
from streams.batches import FOREVER, TupleBatch
from streams.geometry import Rect
from streams.state import pack_state, unpack_state

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
QUERY = {"number": 5, "x": 0.5, "y": 0.5, "keywords": frozenset([1]), "ts": 0, "end": FOREVER, "k": 1, "alpha": 0.5}


class ByHand:
    """Worker 1, where query 5 comes from worker 0; what is fed back comes two epochs later."""

    def __init__(self, *, wired=True):
        streams = ("replies", "bounds") if wired else ("replies",)
        targets = {stream: [("other", 3)] for stream in streams}
        self.context = TaskContext("evaluator", 1, 3, SPACE, plan=AT_0, targets=targets, epoch_feedback=2)
        self.evaluator, self.epoch = ScoredEvaluator(), 0
        self.evaluator.open(self.context)

    def step(self, *orders, **came):
        """Work on an epoch; return the numbers whose thresholds are asked for."""
        named = {"bounds": BOUND_FIELDS, "thresholds": THRESHOLD_FIELDS}
        columns = {
            stream: TupleBatch(names, (np.array([5]), np.array([came[stream]])))
            for stream, names in named.items()
            if stream in came
        }
        batches = {"orders": order_batch(orders), **came, **columns}
        arrivals = tuple(Arrival("", stream, 0, batch) for stream, batch in batches.items())
        emit = Emitter(ScoredEvaluator.outputs)
        self.evaluator.execute_epoch(Epoch(self.epoch, self.epoch), Inputs(arrivals), emit)
        self.epoch += 1
        return [number for batch in emit.batches("unset") for number in batch.column("number").tolist()]

    def restart(self):
        state = unpack_state(pack_state(self.evaluator.snapshot()))
        self.evaluator = ScoredEvaluator()
        self.evaluator.open(self.context)
        self.evaluator.restore(state)

    @property
    def theta(self):
        return float(self.evaluator._core.bounds(np.array([5]))[0])


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(None, None, 0.7), (0.8, None, 0.8), (-np.inf, None, -np.inf), (-np.inf, 0.6, 0.6), (None, -np.inf, -np.inf)],
)
def test_threshold_that_moves_is_brought_up_to_date(first, second, expected, restarted):
    """What came while it was on its way, one epoch and none before it arrives, is applied in this order; nothing is asked."""
    worker = ByHand()
    worker.step(prepare(AT_0, AT_1))
    worker.step(thresholds=0.1)  # the giver has it too, before it sends
    worker.step(**({} if first is None else {"thresholds": first}))
    if restarted:
        worker.restart()
    asked = worker.step(transfer=topk_batch([QUERY]), bounds=0.7, **({} if second is None else {"thresholds": second}))
    assert (asked, worker.theta) == ([], expected)
    worker.step(SWITCH, thresholds=0.9)
    assert worker.theta == 0.9
    assert worker.evaluator._latest == []


def test_threshold_is_asked_for_where_none_moves():
    """Without the stream `bounds` everything passes until the aggregator has answered."""
    worker = ByHand(wired=False)
    worker.step(prepare(AT_0, AT_1))
    assert worker.step(transfer=topk_batch([QUERY])) == [5]
    assert worker.theta == -np.inf
    worker.step(SWITCH, thresholds=0.4)
    assert worker.theta == 0.4
