"""Random objects and range queries as files, and topologies over them."""

import json
import random
from pathlib import Path

from polygon_model import drawn_polygons

from streams.comparison import compare
from streams.oracle import Oracle
from streams.state import pack_state, unpack_state
from topology import Outcome, extended_topology, run
from topology.local_runtime import LocalRuntime
from topology.planning import plan_of
from topology.task import Task
from topology.verification import oracle_of
from topology.wiring import wire

CONF = Path(__file__).parents[1] / "conf"
WORDS = ["ape", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]


def random_objects(rng, count, last_ts):
    times = sorted(rng.randrange(last_ts) for _ in range(count))
    return [
        {
            "id": rng.choice([i, f"o{i}"]),
            "ts": ts,
            "x": rng.randrange(0, 9) / 8,
            "y": rng.randrange(0, 9) / 8,
            "keywords": rng.sample(WORDS, rng.randrange(0, 5)),
        }
        for i, ts in enumerate(times)
    ]


def random_polygon(rng):
    """One polygon or two, with a hole or without, whose edges go through places of objects."""
    while True:
        polygons = drawn_polygons(rng, rng.randrange(0, 9) / 8, rng.randrange(0, 9) / 8, 0.5, 0.5)
        axes = list(zip(*(position for exterior, *_ in polygons for position in exterior), strict=True))
        if all(min(axis) <= 1 and max(axis) >= 0 for axis in axes):  # a region must meet the space
            break
    if len(polygons) > 1:
        return {"type": "MultiPolygon", "coordinates": polygons}
    return rng.choice([{"type": "Polygon", "coordinates": polygons[0]}, {"polygon": polygons[0]}])


def random_queries(rng, count, last_ts):
    """Registrations, unregistrations and ids used again, at times that fall on those of objects."""
    lines, live = [], {}
    for ts in sorted(rng.randrange(-2, last_ts + 2) for _ in range(count)):
        live = {name: end for name, end in live.items() if end > ts}
        if live and rng.random() < 0.3:
            name = rng.choice(sorted(live))
            del live[name]
            lines.append({"op": "unregister", "id": name, "ts": ts})
            continue
        name = f"q{rng.randrange(count)}"
        if name in live:
            continue
        a, b = (sorted(rng.randrange(0, 9) / 8 for _ in range(2)) for _ in range(2))
        region = rng.choice(
            [
                {"rect": [a[0], b[0], a[1], b[1]]},
                {"rect": [a[0], b[0], a[1], b[1]]},
                {"circle": [a[0], b[0], rng.choice([0, 0.25, 1])]},
                random_polygon(rng),
            ]
        )
        line = {"op": "register", "id": name, "ts": ts, "type": "range", "region": region}
        line["keywords"] = rng.sample(WORDS, rng.randrange(0, 3))
        line["match"] = rng.choice(["all", "any"])
        if rng.random() < 0.25:
            line["none"] = rng.sample([word for word in WORDS if word not in line["keywords"]], rng.randrange(0, 2))
        live[name] = 10**9
        if rng.random() < 0.3:
            line["ttl"] = rng.randrange(1, 10)
            live[name] = ts + line["ttl"]
        lines.append(line)
    return lines


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def write_inputs(folder, seed, objects=60, queries=40, last_ts=25):
    rng = random.Random(seed)
    return (
        write_lines(folder / "objects.jsonl", random_objects(rng, objects, last_ts)),
        write_lines(folder / "queries.jsonl", random_queries(rng, queries, last_ts)),
    )


def range_topology(
    objects,
    queries,
    *,
    index="kag",
    spouts=1,
    routers=2,
    evaluators=3,
    broadcast="objects",
    epoch=None,
    inject=(),
    **settings,
):
    """Vary the shipped quick start."""
    tables = {
        "topology": {"name": "range", "metric": "euclidean", "epoch": epoch or {"objects": 10}, **settings},
        "spout": {
            "objects": {"path": objects, "parallelism": spouts},
            "queries": {"path": queries, "parallelism": spouts},
        },
        "bolt": {
            "router": {"parallelism": routers, "broadcast": broadcast},
            "evaluator": {"parallelism": evaluators, "index": index},
            "sink": {"operator": "collect"},
        },
        "inject": list(inject),
    }
    return extended_topology(CONF / "quickstart.toml", tables, without=["topology.space", "topology.epoch"])


def lines_of(outcome):
    return [
        {"query": query, "ts": ts, "object": thing}
        for batch in outcome.collected
        for query, ts, thing in zip(batch.query.to_list(), batch.ts.tolist(), batch.object.to_list(), strict=True)
    ]


def assert_exact(topology, **kwargs) -> Oracle:
    """Run a topology and compare its results with the oracle's."""
    oracle = oracle_of(topology)
    comparison = compare(oracle, lines_of(run(topology, **kwargs)))
    assert comparison.ok, comparison
    return oracle


class StopsAfter(LocalRuntime):
    """Runs the epochs below `cut` one at a time and keeps the state of all tasks there."""

    def __init__(self, wiring, cut, outputs):
        super().__init__(wiring, seed=3, on_report=lambda r: outputs.extend(r.outputs))
        self.cut = cut
        self.states = None

    def _loop(self, conductor):
        for epoch in range(self.cut):
            for spec in self.wiring.spouts:
                self._tasks[spec.id].grant(epoch + 1, None)
            while any(task.next <= epoch for task in self._tasks.values()):
                self._turn(conductor, {i: t for i, t in self._tasks.items() if t.next <= epoch and t.ready()})
            self._after(epoch)
        self.states = self.snapshot()

    def _after(self, epoch):
        """Do something between two epochs."""


class GoesBackBehindEachEpoch(StopsAfter):
    """Packs the state of all tasks behind every epoch below `cut`, and goes on in fresh tasks.

    Attributes:
        lagged: after each epoch, the batches that were under way on feedback edges then.
    """

    def __init__(self, wiring, cut, outputs):
        super().__init__(wiring, cut, outputs)
        self.lagged = []

    def _after(self, epoch):
        states = unpack_state(pack_state(self.snapshot()))
        messages = [message for state in states.values() for message in state["lagged"]]
        self.lagged.append([batch for message in messages for _, batch in message[-1]])
        self._close()
        self._tasks = {spec.id: Task(self.wiring, spec) for spec in self.wiring.tasks}
        self._snapshots = states
        self._restore()


def assert_exact_after_restart(topology, cut, seed=1):
    """Stop after some epochs, pack every task's state, go on in fresh tasks: the oracle's results, none lost or twice."""
    wiring = wire(topology, plan_of(topology))
    first, second = [], []
    before = StopsAfter(wiring, cut, first)
    before.run()
    state = unpack_state(pack_state(before.states))
    after = LocalRuntime(wiring, seed=seed, delays=True, snapshots=state, on_report=lambda r: second.extend(r.outputs))
    after.run()
    comparison = compare(oracle_of(topology), lines_of(Outcome({}, first + second)))
    assert comparison.ok, comparison
