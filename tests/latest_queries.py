"""A core with memory for tests: the k latest matching objects of each query, and what must come of it.

Queries are of three kinds: standing ones (`range`), snapshots, and slides (`terms`, which list their objects at every slide).
"""

import random
from collections import defaultdict
from itertools import groupby
from typing import ClassVar

import numpy as np
from adaptive_inputs import PARTITIONERS, random_injections
from range_inputs import WORDS, random_objects, write_lines

from operators.evaluation.core import Found
from operators.evaluation.evaluator import Evaluator
from operators.indexes import Cost
from streams.batches import OP_UPSERT, TYPE_TERMS, TYPE_TOPK, QueryBatch, RankedBatch, batch_fields
from streams.columns import Ids
from streams.geometry import inside_region
from topology import TopologyBuilder
from topology.verification import oracle_of


def length_of(number):
    """Return how many objects a query lists."""
    return 1 + number % 4


class LatestCore:
    """Keeps the latest matching objects of each query in plain lists; all of them for slides, which may be answered late."""

    remembers: ClassVar = True
    ordered: ClassVar = True

    def __init__(self, metric="euclidean"):
        self.metric = metric
        self.rows = {}  # number -> one-row batch
        self.ends = {}
        self.asleep = set()
        self.lists = {}  # number -> [(seq, id, ts)], latest first
        self.named = set()
        self.examined = 0
        self.work, self.before = {}, {}  # number -> work since the costs were reset, and from the reset before on

    def numbers(self):
        return np.array(sorted(self.rows), np.int64)

    def holds(self, numbers):
        return np.array([n in self.rows for n in numbers.tolist()], np.bool_)

    def touching(self, boxes):
        return self.numbers()  # it knows no places

    def queries(self, numbers):
        held = [n for n in numbers.tolist() if n in self.rows]
        batch = QueryBatch.concat([QueryBatch.empty(), *(self.rows[n] for n in held)])
        columns = {f: getattr(batch, f) for f in QueryBatch.__dataclass_fields__}
        columns |= {"end": np.array([self.ends[n] for n in held], np.int64), "ids": Ids("int", batch.number)}
        return QueryBatch(**columns)

    def insert(self, queries):
        for i, n in enumerate(queries.number.tolist()):
            assert n not in self.rows, f"query {n} is held already"
            self.rows[n] = queries.slice(i, i + 1)
            self.ends[n] = int(queries.end[i])
            self.lists[n] = []

    def set_end(self, numbers, ends):
        for n, end in zip(numbers.tolist(), ends.tolist(), strict=True):
            if n in self.rows:
                self.ends[n] = min(self.ends[n], end)

    def remove(self, numbers):
        for n in numbers.tolist():
            if self.rows.pop(n, None) is not None:
                del self.ends[n], self.lists[n]
                self.asleep.discard(n)
                self.named.discard(n)
                self.work.pop(n, None)
                self.before.pop(n, None)

    def ended(self, now):
        found = [n for n, end in sorted(self.ends.items()) if end <= now and n not in self.named]
        self.named.update(found)
        return np.array(found, np.int64)

    def hush(self, numbers):
        assert self.holds(numbers).all()
        self.asleep.update(numbers.tolist())

    def wake(self, numbers):
        assert set(numbers.tolist()) <= self.asleep
        self.asleep.difference_update(numbers.tolist())

    def take(self, objects):
        assert (np.diff(objects.seq) > 0).all(), "objects out of order"
        assert self.named <= self.asleep, f"{self.named - self.asleep} have ended, and take part"
        changed = set()
        for n, q in self.rows.items():
            if n in self.asleep:
                continue
            matching = list(self._matching(q, n, objects))
            self.work[n] = self.work.get(n, 0) + 1 + 5 * len(matching)
            self.examined += 1 + 5 * len(matching)
            for i in matching:
                item = (int(objects.seq[i]), objects.ids.slice(i, i + 1).to_list()[0], int(objects.ts[i]))
                self._add(n, [item])
                if q.continuous[0] and q.type[0] != TYPE_TERMS:
                    changed.add(n)
        return Found(changed=np.array(sorted(changed), np.int64))

    def _add(self, n, items):
        slides = self.rows[n].type[0] == TYPE_TERMS
        self.lists[n] = sorted({*self.lists[n], *items}, reverse=True)[: None if slides else length_of(n)]

    def _matching(self, q, n, objects):
        shape = tuple(q.shape[0].tolist())
        near = inside_region(objects.x, objects.y, int(q.region[0]), shape, self.metric)
        alive = (objects.ts >= q.ts[0]) & (objects.ts < self.ends[n]) & (objects.op == OP_UPSERT)
        wanted = set(q.kw.tolist())
        for i in np.flatnonzero(near & alive).tolist():
            has = set(objects.kw[objects.kw_off[i] : objects.kw_off[i + 1]].tolist())
            if not wanted or (wanted & has if q.match_any[0] else wanted <= has):
                yield i

    def results(self, numbers):
        return _ranked({n: self.lists[n] for n in numbers.tolist()})

    def answer(self, numbers, instants):
        lists = []
        for n, at in zip(numbers.tolist(), instants.tolist(), strict=True):
            then = [item for item in self.lists[n] if item[2] <= at][: length_of(n)]
            lists.append(_ranked({n: then}, at, instant=True))
        return RankedBatch.concat(lists)

    def adopt(self, results):
        for i, n in enumerate(results.number.tolist()):
            one = results.slice(i, i + 1)
            self._add(n, zip(one.seq.tolist(), one.ids.to_list(), map(int, one.value), strict=True))

    def bounds(self, numbers):
        return np.full(len(numbers), np.nan)

    def bind(self, numbers, bounds):
        assert self.holds(numbers).all()

    def cost(self):
        return Cost(0, self.examined, 0)

    def weights(self):
        numbers = np.array(sorted({*self.work, *self.before} - self.asleep), np.int64)
        return numbers, np.array([self.work.get(n, 0) + self.before.get(n, 0) for n in numbers.tolist()], np.float64)

    def reset_cost(self):
        self.examined, self.before, self.work = 0, self.work, {}

    def snapshot(self):
        return {
            "queries": self.queries(self.numbers()),
            "asleep": sorted(self.asleep),
            "named": sorted(self.named),
            "lists": self.results(self.numbers()),
            "examined": self.examined,
            "work": [list(self.work.items()), list(self.before.items())],
        }

    def restore(self, state):
        self.__init__(self.metric)
        self.insert(state["queries"])
        self.adopt(state["lists"])
        self.asleep, self.named, self.examined = set(state["asleep"]), set(state["named"]), state["examined"]
        self.work, self.before = (dict(items) for items in state["work"])

    @staticmethod
    def saved_queries(state):
        return state["queries"]

    @staticmethod
    def saved_results(state):
        return state["lists"]

    @staticmethod
    def divided(like, queries, results):
        core = LatestCore()
        core.insert(queries)
        core.adopt(results)
        return core.snapshot()


def _ranked(lists, ts=0, *, instant=False):
    items = [item for one in lists.values() for item in one]
    count = len(lists)
    off = np.cumsum([0, *(len(one) for one in lists.values())])
    numbers = np.array(list(lists), np.int64)
    return RankedBatch(
        number=numbers, ts=np.full(count, ts, np.int64), type=np.full(count, TYPE_TOPK, np.uint8),
        k=np.array([length_of(n) for n in lists], np.int32), instant=np.full(count, instant),
        off=off.astype(np.int32), seq=np.array([seq for seq, _, _ in items], np.int64),
        ids=Ids.of([name for _, name, _ in items]), value=np.array([float(ts) for _, _, ts in items]),
    )  # fmt: skip


class LatestEvaluator(Evaluator):
    """Answers range queries with their latest objects, standing, as of an instant, or at every slide."""

    outputs: ClassVar = {"rankings": batch_fields(RankedBatch), **Evaluator.exchanged}
    answers_on: ClassVar = "rankings"
    answers: ClassVar = frozenset({"continuous range", "snapshot range", "continuous terms"})
    core_class: ClassVar = LatestCore

    def make_core(self, context):
        return LatestCore(context.metric)


# --- topologies -------------------------------------------------------------------------------------------------------


def latest_queries(rng, count, last_ts):
    """Registrations of standing queries, snapshots and slides, and unregistrations; every id is used once."""
    lines, live = [], []
    for n, ts in enumerate(sorted(rng.randrange(-2, last_ts + 2) for _ in range(count))):
        if live and rng.random() < 0.25:
            lines.append({"op": "unregister", "id": live.pop(rng.randrange(len(live))), "ts": ts})
            continue
        a, b = (sorted(rng.randrange(0, 9) / 8 for _ in range(2)) for _ in range(2))
        rect, circle = {"rect": [a[0], b[0], a[1], b[1]]}, {"circle": [a[0], b[0], rng.choice([0, 0.25, 1])]}
        line = {"op": "register", "id": f"q{n}", "ts": ts, "type": "range", "region": rng.choice([rect, rect, circle])}
        line |= {"keywords": rng.sample(WORDS, rng.choice([0, 0, 1, 2])), "match": rng.choice(["all", "any"])}
        kind = rng.choice(["snapshot", "slides", "standing", "standing", "standing"])
        if kind == "slides":
            line |= {"type": "terms", "k": 1, "window": 1, "slide": rng.randrange(1, 5)}
        if kind == "snapshot":
            line |= {"continuous": False, "window": 1}
        elif rng.random() < 0.25:
            line["ttl"] = rng.randrange(1, 10)
        else:
            live.append(line["id"])
        lines.append(line)
    return lines


def write_latest_inputs(folder, seed, objects=60, queries=40, last_ts=25):
    rng = random.Random(seed)
    return (
        write_lines(folder / "objects.jsonl", random_objects(rng, objects, last_ts)),
        write_lines(folder / "queries.jsonl", latest_queries(rng, queries, last_ts)),
    )


#: The partitioners whose plans the policy `dskype` changes.
DIVISIBLE = ("location", "keyword", "prefix", "spatial-first", "keyword-first", "text")

#: The partitioners whose plans a main server follows.
ASSIGNING = ("kop", "sop", "dkm-sks", "ps2stream")


def latest_topology(objects, queries, *, evaluators=3, routers=2, mergers=1, spouts=1, partitioner="kd", side=8,
                    options=None, policy="random", balancer=None, feedback=1, tick=1, piece=3_000, epoch=None, inject=(),
                    main_server=None, sample=None, evaluator=None, **settings):  # fmt: skip
    """Declare routers that follow a plan, evaluators with memory, a balancer, mergers.

    `main_server` says what one routes: None (there is none), "all", or "queries" (routers have the objects).
    """
    builder = TopologyBuilder(
        "latest", epoch={**(epoch or {"objects": 7, "queries": 6}), "feedback": feedback},
        partitioner={
            "kind": partitioner, "side": side, "options": options or {}, **({"sample": sample} if sample else {})
        }, **settings,
    )  # fmt: skip
    builder.spout("objects", "object-file", path=objects, parallelism=spouts)
    builder.spout("queries", "query-file", path=queries, parallelism=spouts)
    names = {"objects": "main" if main_server == "all" else "router", "queries": "main" if main_server else "router"}
    for name in sorted(set(names.values())):
        operator, tasks = ("main-server", 1) if name == "main" else ("plan-router", routers)
        router = builder.bolt(name, operator, parallelism=tasks).all("balancer", "orders", feedback=True)
        for stream in (one for one, by in names.items() if by == name):
            router.shuffle(stream, stream)
    evaluator = builder.bolt(
        "evaluator", evaluator or LatestEvaluator, parallelism=evaluators, tick={"epochs": tick}, transfer_queries=piece
    )
    for stream, name in names.items():
        evaluator.direct(name, stream)
    for stream in ("transfer", "bounds", "adoption"):
        evaluator.direct("evaluator", stream, feedback=True)
    evaluator.all("balancer", "orders", feedback=True)
    watcher = builder.bolt("balancer", "balancer", policy=policy, settings=balancer or {})
    watcher.global_("evaluator", "statistics").global_("evaluator", "replies")
    builder.bolt("merger", "ranked-merger", parallelism=mergers).fields("evaluator", ["number"], "rankings")
    builder.bolt("sink", "collect").global_("merger", "results")
    for one in inject:
        builder.inject(**one)
    return builder.build()


def random_latest_topology(folder, seed, **fixed):
    """Draw a whole topology: plan, sizes, lags, hotspots, input."""
    rng = random.Random(seed)
    main_server = fixed.get("main_server")
    sizes = {"objects": rng.randrange(20, 80), "queries": rng.randrange(10, 50), "last_ts": rng.choice([12, 30])}
    inputs = write_latest_inputs(folder, seed, **sizes)
    drawn = {
        "evaluators": rng.randrange(2, 6),
        "routers": rng.randrange(1, 5),
        "mergers": rng.randrange(1, 4),
        "spouts": rng.choice([1, 1, 2]),
        "partitioner": rng.choice(ASSIGNING if main_server else PARTITIONERS),
        "side": rng.choice([4, 8]),
        "balancer": {"seed": seed, "units": rng.choice([0.0, 0.2, 1.0])},
        "feedback": rng.randrange(1, 4),
        "tick": rng.randrange(1, 3),
        "piece": rng.choice([1, 2, 5, 3_000]),
        "epoch": {"objects": rng.choice([2, 4, 10]), "queries": rng.choice([2, 5, 100])},
        "max_pending": rng.choice([1, 3, 8]),
        "inject": random_injections(rng),
    }
    if not main_server and drawn["partitioner"] in DIVISIBLE and rng.random() < 0.4:
        restless = {"threshold": 1.0, "reports": 1, "units": rng.choice([2, 16]), "operations": rng.choice([1, 32])}
        drawn |= {"policy": "dskype", "balancer": restless}
    return latest_topology(*inputs, **{**drawn, **fixed})


def random_assigning_topology(folder, seed):
    """Draw a topology with a main server: its plan knows few of the subscriptions, or all; injected ones nobody knows."""
    rng = random.Random(f"main server {seed}")
    inject = random_injections(rng)
    if rng.random() < 0.5:
        inject.append({"kind": "queries", "region": [0.2, 0.2, 0.8, 0.8], "strength": 5, "start": 3, "duration": 12})
    restless = {
        "policy": "dkm",
        "balancer": {"threshold": 1.0, "patience": rng.choice([1, 2]), "most": rng.choice([2, 50])},
    }
    return random_latest_topology(
        folder, seed, main_server=rng.choice(["all", "queries"]), sample=rng.choice([1, 10, 1000]), inject=inject,
        **rng.choice([{}, restless]),
    )  # fmt: skip


# --- what must come of it ---------------------------------------------------------------------------------------------


def wrong_lines(topology, found):
    """Return what is wrong with the lines of a run, as texts."""
    oracle = oracle_of(topology)
    lines = defaultdict(list)
    for line in found:
        lines[line["query"]].append((line["ts"], [name for name, *_ in line["objects"]]))
    wrong = []
    for q in oracle.registrations:
        rows = oracle.selected(q)
        ids, times = [oracle.object_ids[r] for r in rows], oracle.objects.ts[rows].tolist()
        states = [ids[max(0, n - length_of(q.number)) : n][::-1] for n in range(len(ids) + 1)]
        found = lines.pop(q.id, [])
        if not q.continuous:
            alive = q.lives and oracle.last_ts is not None and q.ts <= oracle.last_ts
            if found != ([(q.ts, states[-1])] if alive else []):
                wrong.append(f"snapshot {q.id} at {q.ts}: {found}, expected {states[-1] if alive else 'nothing'}")
            continue
        if q.type == TYPE_TERMS:
            expected = [(at, states[sum(t <= at for t in times)]) for at in oracle.instants(q)]
            if found != expected:
                wrong.append(f"slides of {q.id}: {found}, expected {expected}")
            continue
        said = []
        if found != sorted(found, key=lambda line: line[0]):
            wrong.append(f"{q.id}: lines out of order: {found}")
        for ts, group in groupby(found, key=lambda line: line[0]):
            *earlier, last = [names for _, names in group]
            upto = sum(t <= ts for t in times)
            before = sum(t < ts for t in times)
            if last != states[upto]:
                wrong.append(f"{q.id} at {ts}: {last}, expected {states[upto]}")
            wrong += [f"{q.id} at {ts}: {one} never was" for one in earlier if one not in states[before : upto + 1]]
            for one in (*earlier, last):
                if one == said:
                    wrong.append(f"{q.id} at {ts}: {one} twice")
                said = one
        if said != states[-1]:
            wrong.append(f"{q.id}: the last line is {said}, expected {states[-1]}")
    wrong += [f"unknown query {name}: {found}" for name, found in lines.items()]
    return wrong
