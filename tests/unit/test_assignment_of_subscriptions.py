"""The main server, epoch by epoch: who gets a registration, who gets its end, and what C(w) is."""

import dataclasses

import numpy as np
import pytest
from latest_queries import latest_topology, write_latest_inputs

from operators.balancing.orders import Order, PlanSchedule, order_batch
from operators.operator import Arrival, Emitter, Epoch, Inputs, TaskContext
from operators.redistribution import Division
from operators.routing.main_server import MainServer
from partitioners import AssignmentPlan
from partitioners.plans.plan_change import change_between, pack_change
from streams.batches import FOREVER, OP_REGISTER, OP_UNREGISTER, TYPE_KNN, QueryBatch
from streams.columns import Ids
from streams.errors import DeclarationError
from streams.geometry import REGION_NONE, Rect
from streams.state import pack_state, unpack_state
from topology import run, validate
from topology.declaration import Input

SPACE = Rect(0.0, 0.0, 1.0, 1.0)

#: O_init: word 0 in six objects of ten, word 1 in three, word 2 in one.
WORDS = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 2])


def plan_of(known=((10, 2, 0.5), (11, 0, np.nan)), workers=3):
    """Return a plan by KOP's model that knows some subscriptions: number, worker, cost."""
    at = np.linspace(0, 1, 10)
    number, assigned, cost = (np.array(column) for column in zip(*known, strict=True))
    return AssignmentPlan(
        SPACE, workers, "keyword", number, assigned, np.zeros(workers), np.empty((0, 4)), at, at,
        np.arange(11, dtype=np.int32), WORDS, cost.astype(np.float32),
    )  # fmt: skip


def operations(*rows):
    """Return operations: (number, word) registers, (number, word, end) for a while, (number,) unregisters."""
    count = len(rows)
    target = np.array([row[0] for row in rows], np.int64)
    register = np.array([len(row) > 1 for row in rows])
    end = np.array([row[2] if len(row) > 2 else (FOREVER if len(row) > 1 else 5) for row in rows], np.int64)
    words = [[row[1]] if len(row) > 1 else [] for row in rows]
    return QueryBatch(
        number=np.where(register, target, target + 10_000), target=target,
        op=np.where(register, OP_REGISTER, OP_UNREGISTER).astype(np.uint8), ts=np.zeros(count, np.int64), end=end,
        type=np.full(count, TYPE_KNN, np.uint8), continuous=np.ones(count, np.bool_), match_any=np.ones(count, np.bool_),
        region=np.full(count, REGION_NONE, np.uint8), shape=np.full((count, 4), 0.5), k=np.ones(count, np.int32),
        alpha=np.zeros(count), window=np.full(count, -1), slide=np.zeros(count, np.int64),
        detect=np.zeros(count, np.uint8),
        kw_off=np.cumsum([0, *map(len, words)]).astype(np.int32), kw=np.array([w for one in words for w in one], np.int64),
        ids=Ids("int", target),
    )  # fmt: skip


class Server:
    """A main server with three workers, and what it sends and counts."""

    def __init__(self, plan=None, state=None):
        self.counts, self.operator, self.epoch = {}, MainServer(slack=0.0), 0  # the paper's rule
        self.plan = plan or plan_of()
        targets = {stream: [("evaluator", self.plan.workers)] for stream in ("objects", "queries")}
        context = TaskContext("main", 0, 1, SPACE, plan=self.plan, targets=targets, count=self._count)
        self.operator.open(context)
        if state is not None:
            self.operator.restore(unpack_state(pack_state(state)))

    def _count(self, name, by):
        self.counts[name] = self.counts.get(name, 0) + by

    def __call__(self, *batches, orders=(), watermark=0):
        """Work on an epoch; return what each worker was sent: its numbers, those of unregistrations below 0."""
        arrivals = [Arrival("queries", "queries", i, batch) for i, batch in enumerate(batches)]
        if orders:
            arrivals.append(Arrival("balancer", "orders", 0, order_batch(orders)))
        emit = Emitter(MainServer.outputs)
        self.operator.execute_epoch(Epoch(self.epoch, watermark), Inputs(tuple(arrivals)), emit)
        self.epoch += 1
        sent = {worker: [] for worker in range(self.plan.workers)}
        for worker, batch in emit.direct_batches.get("queries", []):
            sent[worker] += np.where(batch.op == OP_REGISTER, batch.target, -batch.target).tolist()
        return [sent[worker] for worker in range(self.plan.workers)]

    @property
    def load(self):
        return [round(self.counts.get(f"estimated_cost:{worker}", 0.0), 6) for worker in range(3)]


def test_known_subscriptions_go_to_their_worker_and_new_ones_to_the_least_loaded():
    """Known ones come first; new ones in the order of their numbers, whichever spout sent them; what has no cost is priced."""
    server = Server()
    assert server(operations((22, 2), (10, 0)), operations((20, 0), (11, 0), (21, 1))) == [[11], [22, 20], [10, 21]]
    # 10 costs what the plan says, 11 what word 0 does; 20 goes to the idle worker, 21 to 2 (0.5 < 0.6), 22 to 1.
    assert server.load == [0.6, 0.7, 0.8]
    assert server.counts["priced"] == 4


def test_a_word_that_no_object_has_costs_as_if_one_had_it():
    """Otherwise all such subscriptions would go to the same worker."""
    server = Server()
    assert server(operations(*((n, 99) for n in range(20, 26)))) == [[20, 23], [21, 24], [22, 25]]


def test_of_equal_loads_the_worker_with_fewer_subscriptions_is_taken():
    """Also where these were registered in an epoch before."""
    server = Server(plan_of(known=((1, 0, 0.125), (2, 0, 0.125), (3, 1, 0.25), (4, 2, 0.5))))
    server(operations((1, 0), (2, 0), (3, 0), (4, 0)))
    assert server.load == [0.25, 0.25, 0.5]
    assert server(operations((20, 2))) == [[], [20], []]


def test_the_end_of_a_query_is_sent_to_who_has_it():
    """And to nobody else; its cost is given back, and so is that of one that ends by itself."""
    server = Server()
    server(operations((20, 0), (21, 0), (22, 0, 100), (23, 1)))
    assert server.load == [0.9, 0.6, 0.6]
    assert server(operations((21,), (999,))) == [[], [-21], []]
    assert server.load == [0.9, 0.0, 0.6]
    server(watermark=99)
    assert server.load == [0.9, 0.0, 0.6]
    server(watermark=100)
    assert server.load == [0.9, 0.0, 0.0]
    assert server(operations((22,)), watermark=101) == [[], [], []]


def orders_to(plan, numbers, workers):
    """Return a plan in which subscriptions have moved, and the orders that lead there."""
    later = plan.with_moved(numbers, workers)
    return Order("prepare", payload=pack_change(change_between(plan, later))), Order("switch")


def test_costs_move_with_subscriptions_at_the_switch():
    """Until then the end of a query that moves goes to both workers, and registrations know both plans."""
    server = Server()
    server(operations((20, 0), (21, 1)))
    prepare, switch = orders_to(server.plan, [10, 20, 21, 30], [1, 2, 0, 0])
    # 10 moves from 2 to 1: both get it. Only the next plan knows 30, so it begins there, though 1 has less to do.
    assert server(operations((10, 0), (30, 2)), orders=[prepare]) == [[30], [10], [10]]
    assert server.load == [0.7, 0.3, 0.5]
    assert server(operations((21,))) == [[-21], [-21], []]
    server(orders=[switch])
    assert server.load == [0.1, 0.5, 0.6]
    assert server.counts["subscriptions_moved"] == 2
    assert server(operations((20,), (10,), (30,))) == [[-30], [-10], [-20]]
    assert server.load == [0.0, 0.0, 0.0]


def test_plan_routers_begin_a_query_where_the_next_plan_knows_it():
    """Without a main server too: who receives what only the next plan knows is its home, so nobody else may have it."""
    plan = plan_of()
    schedule = PlanSchedule(plan)
    home = schedule.route_queries(operations((30, 0)), "euclidean")[1].tolist()
    to = (home[0] + 1) % 3
    schedule.follow(orders_to(plan, [10, 30], [0, to])[0])
    off, workers = schedule.route_queries(operations((10, 0), (30, 0)), "euclidean")
    assert (off.tolist(), workers.tolist()) == ([0, 2, 3], [0, 2, to])


def test_main_server_goes_on_from_what_it_saved():
    """In the middle of a round too: who has what, C(w) and both plans."""
    server = Server()
    server(operations((20, 0), (21, 1, 50), (10, 0)))
    prepare, switch = orders_to(server.plan, [20], [2])
    server(operations((24, 2)), orders=[prepare])
    again = Server(state=server.operator.snapshot())
    again.counts = dict(server.counts)
    for one in (server, again):
        assert one(operations((20,), (25, 1))) == [[-20], [25], [-20]]
        one(orders=[switch], watermark=50)
        assert one(operations((24,), (10,), (26, 1))) == [[26], [-24], [-10]]
    assert again.load == server.load


def test_with_other_evaluators_all_live_queries_are_assigned_anew():
    """In the order of their numbers, by the rule for new ones; what the main server then knows is what evaluators hold."""
    before = Server()
    before(operations((20, 0), (21, 1), (22, 2), (23, 0)))
    plan = plan_of(known=((21, 1, 0.25), (40, 0, 0.5)), workers=2)
    fresh = Server(plan)
    live = operations((20, 0), (21, 1), (22, 2), (23, 0))
    routes = fresh.operator.routes(live)
    assert routes[1].tolist() == [0, 1, 1, 1]
    division = Division("main", 1, 2, live, routes)
    (state,) = MainServer.redistribute([before.operator.snapshot()], division)
    after = Server(plan, state)
    after.counts = dict(before.counts)
    assert after(operations((24, 1))) == [[24], []]
    assert after.load == [0.9, 0.95, 0.0]
    assert after(operations((21,), (20,))) == [[-20], [-21]]


def test_main_server_refuses_plans_that_assign_nothing(tmp_path):
    """With a message that names what to use instead."""
    topology = latest_topology(*write_latest_inputs(tmp_path, 1), main_server="all", partitioner="location")
    with pytest.raises(DeclarationError, match="use a plan-router"):
        run(topology)


def test_main_server_is_one_and_routes_all_queries(tmp_path):
    """Two tasks, or another router of queries beside it, would not know of each other's queries."""
    topology = latest_topology(*write_latest_inputs(tmp_path, 1), main_server="queries", partitioner="kop")
    validate(topology)
    with pytest.raises(DeclarationError, match="knows who has which query; parallelism must be 1"):
        validate(_changed(topology, "main", parallelism=2))
    inputs = topology.component("evaluator").inputs
    both = _changed(topology, "evaluator", inputs=(*inputs, Input("router", "queries", "direct")))
    with pytest.raises(DeclarationError, match="let 'main' route all of them"):
        validate(both)


def _changed(topology, name, **fields):
    components = [dataclasses.replace(c, **fields) if c.name == name else c for c in topology.components]
    return dataclasses.replace(topology, components=tuple(components))
