"""Lists that cannot be united, in a run that goes on with other evaluators while queries move: whose list counts."""

from dataclasses import replace

import numpy as np
import pytest
from range_model import PlainObject, PlainQuery, object_batch, query_batch
from test_evaluator_epochs import AT_0, AT_1, SPACE, SWITCH, prepare

from operators.balancing.orders import order_batch
from operators.evaluation.division import divided_states, live_queries
from operators.evaluation.dynamic_evaluator import DynamicEvaluator
from operators.evaluation.topk_evaluator import TopkEvaluator
from operators.operator import Arrival, Emitter, Epoch, Inputs, TaskContext
from operators.redistribution import Division
from partitioners.plans.broadcast import one_each
from streams.batches import FOREVER, OP_UNREGISTER, TYPE_TOPK
from streams.geometry import REGION_NONE
from streams.window import Window

#: Feedback takes so long that results are still under way when the run goes on with another number of evaluators.
FEEDBACK = 3

WORDS = frozenset({1})
FAR, NEAR = PlainObject(0.9, 0.9, WORDS, ts=1), PlainObject(0.5, 0.5, WORDS, ts=8)


def query(end=FOREVER):
    shape = (0.5, 0.5, 0.0, 0.0)
    return query_batch([PlainQuery(5, REGION_NONE, shape, WORDS, end=end, type=TYPE_TOPK, k=2, alpha=0.5)])


def unregistered(ts):
    one = query(end=ts)
    return replace(one, number=one.number + 1, op=np.full(1, OP_UNREGISTER, np.uint8))


class Pair:
    """Two evaluators that see all objects; query 5 moves from the first to the second."""

    def __init__(self, kind):
        self.kind = kind
        self.tasks = [self.task(worker, AT_0, 3) for worker in (0, 1)]
        self.epoch = 0

    def task(self, worker, plan, parallelism, targets=("replies",)):
        evaluator = self.kind()
        evaluator.open(
            TaskContext(
                "evaluator", worker, parallelism, SPACE, plan=plan, epoch_feedback=FEEDBACK,
                dynamic=self.kind is DynamicEvaluator, window=Window(ms=100) if self.kind is TopkEvaluator else None,
                targets={name: [("balancer", 1)] for name in targets},
            )
        )  # fmt: skip
        return evaluator

    def work(self, evaluator, watermark, batches):
        """Let one work on an epoch; return the lines for the merger and the queries that it gives."""
        emit = Emitter(self.kind.outputs)
        arrivals = tuple(Arrival("", stream, 0, batch) for stream, batch in batches.items())
        evaluator.execute_epoch(Epoch(self.epoch, watermark), Inputs(arrivals), emit)
        lists = [batch.slice(row, row + 1) for batch in emit.batches("rankings") for row in range(len(batch))]
        given = [batch for _, batch in emit.direct_batches.get("transfer", [])]
        return [(int(one.number[0]), int(one.k[0]), one.seq.tolist()) for one in lists], given

    def step(self, watermark, *orders, objects=None, queries=None, transfer=None):
        """Let both work on an epoch; return the lines of each, and the queries that were given."""
        both = {"orders": order_batch(orders)}
        both |= {} if objects is None else {"objects": objects}
        come = {} if transfer is None else {"transfer": transfer}
        first, given = self.work(self.tasks[0], watermark, both | ({} if queries is None else {"queries": queries}))
        second, _ = self.work(self.tasks[1], watermark, both | come)
        self.epoch += 1
        return first, second, given

    def goes_on_alone(self, watermark, *, backwards):
        """Return the lines of one evaluator that goes on with what both hold."""
        states = [task.snapshot() for task in self.tasks]
        states = states[::-1] if backwards else states
        queries = live_queries(self.kind.core_class, states)
        division = Division("evaluator", 1, 1, queries, one_each(np.zeros(len(queries), np.int32)))
        [state] = divided_states(self.kind.core_class, states, division)
        alone = self.task(0, None, 1, targets=())
        alone.restore(state)
        lines, _ = self.work(alone, watermark, {})
        return lines


@pytest.fixture(params=[TopkEvaluator, DynamicEvaluator], ids=["topk", "dynamic"])
def pair(request):
    return Pair(request.param)


@pytest.mark.parametrize("backwards", [False, True])
def test_last_list_on_its_way_counts_where_its_query_came_too_late_to_wake(pair, backwards):
    """The query ended before the switch and its last list follows it: the sleeping copy, which knows nothing, is no answer."""
    assert pair.step(5, objects=object_batch([FAR]), queries=query())[0] == [(5, 2, [0])]
    _, _, [given] = pair.step(5, prepare(AT_0, AT_1), queries=unregistered(5))
    assert pair.step(7, SWITCH, transfer=given) == ([], [], [])
    assert pair.goes_on_alone(9, backwards=backwards) == [(5, 2, [0]), (5, 0, [])]


@pytest.mark.parametrize("backwards", [False, True])
def test_list_of_who_speaks_counts_before_an_older_one_on_its_way(pair, backwards):
    """The query ended after the switch: what its taker has found since is in the last list, whoever is asked first."""
    pair.step(2, objects=object_batch([FAR]), queries=query(end=10))
    _, _, [given] = pair.step(2, prepare(AT_0, AT_1))
    pair.step(2, transfer=given)
    pair.step(2, SWITCH)
    later = object_batch([FAR, NEAR]).slice(1, 2)
    assert pair.step(11, objects=later) == ([], [], [])
    assert pair.goes_on_alone(12, backwards=backwards) == [(5, 2, [1, 0]), (5, 0, [])]


@pytest.mark.parametrize("backwards", [False, True])
def test_query_whose_last_list_was_sent_ends_in_silence(pair, backwards):
    """Its copy was still asleep when it ended where it came from: nothing is left to be said but that it is over."""
    pair.step(2, objects=object_batch([FAR]), queries=query(end=10))
    _, _, [given] = pair.step(2, prepare(AT_0, AT_1))
    lines, *others = pair.step(11, transfer=given)
    assert (lines[-1], others) == ((5, 0, []), [[], []])
    assert pair.goes_on_alone(12, backwards=backwards) == [(5, 0, [])]
