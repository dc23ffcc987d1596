"""Results from objects to a sink: how many a second arrive, by sink, where an object matches many queries.

A router, two evaluators with KAG and a sink on the local runtime, all in one thread; queries are registered before anything
is measured. Rates are by processor time, because the machine may be shared. Every run is checked: its results are as many as
one index over all queries finds. Without `data` the stream is synthetic: few words, so that many queries match an object;
with a file (columns id, ts, lon, lat, text) queries are drawn from its rows.
"""

import tempfile
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from benchmarks.range_index import from_file
from benchmarks.report import Goal, Options, Report
from benchmarks.synthetic_stream import drawn_queries, synthetic_objects
from benchmarks.tornado_stream import MemorySpout, batches_of
from benchmarks.tornado_topology import Setup, tornado_topology
from operators import Emitter, TaskContext
from operators.indexes import make_range_index
from operators.spouts.file_spout import NAME_FIELDS
from partitioners.builders.registry import build_plan
from partitioners.costs.statistics import Statistics
from streams.batches import ObjectBatch, QueryBatch, TupleBatch
from streams.errors import RunError
from streams.geometry import Rect
from topology import run as run_topology
from topology.amendments import with_results

__all__ = ["run"]

SETUP = Setup(routers=1, evaluators=2)
#: Name of a sink -> the file it writes.
SINKS = {"count": None, "jsonl": "results.jsonl", "parquet": "results.parquet"}
#: Words of the synthetic stream and the side of its queries: with a million queries about as many match an object as in forty
#: years of storms, of which drawn queries match 130.
WORDS, SIDE = 200, 0.01
#: Objects of an epoch.
BATCH = 5_000
#: Objects and queries that the plan is made from.
SAMPLE = 50_000


@dataclass(frozen=True, slots=True)
class Delivered:
    """What is registered and what flows: of a file, or made."""

    queries: int
    objects: int
    seed: int
    data: Path | None = None


@lru_cache(maxsize=1)
def _stream(workload: Delivered) -> tuple[QueryBatch, ObjectBatch, Rect]:
    """Return queries, objects in no order of place, and their space."""
    if workload.data is not None:
        queries, objects, space = from_file(workload.data, workload.queries, workload.objects, workload.seed)
    else:
        space = Rect(0.0, 0.0, 1.0, 1.0)
        objects = _few_words(synthetic_objects(workload.objects, workload.seed))
        others = _few_words(synthetic_objects(workload.objects, workload.seed, 1))
        queries = drawn_queries(others, workload.queries, workload.seed, SIDE, SIDE)
    mixed = objects.take(np.random.default_rng(workload.seed).permutation(len(objects)))
    return queries, replace(mixed, seq=objects.seq, ts=objects.ts), space


def _few_words(objects: ObjectBatch) -> ObjectBatch:
    """Return objects with the first of their words, drawn from few."""
    word = objects.kw[objects.kw_off[:-1]] % WORDS
    return replace(objects, kw_off=np.arange(len(objects) + 1, dtype=np.int32), kw=word)


@dataclass
class NamedSpout(MemorySpout):
    """As its base, over a workload of this benchmark; a sink that writes results is sent the names of queries.

    Options:
        workload: what to make or read.
    """

    outputs: ClassVar = {**MemorySpout.outputs, "names": NAME_FIELDS}

    workload: Delivered  # type: ignore[assignment]

    def made(self) -> tuple[QueryBatch, ObjectBatch]:
        """Return queries and objects."""
        return _stream(self.workload)[:2]

    def open(self, context: TaskContext) -> None:
        """Make everything."""
        super().open(context)
        self._named = bool(context.targets.get("names"))

    def registering(self, block: QueryBatch, emit: Emitter) -> None:
        """Send queries, and their names where a sink needs them."""
        super().registering(block, emit)
        if self._named:
            emit.batch(TupleBatch(NAME_FIELDS, (block.number, block.ids, block.end)), "names")


@dataclass(frozen=True, slots=True)
class Measured:
    """One sink: objects and results a second of processor time, and results an object."""

    objects_per_s: float
    results_per_s: float
    results_per_object: float


def measure(workload: Delivered, sink: str, seconds: float, folder: Path) -> Measured:
    """Run the topology with a sink, and check that all results came."""
    queries, objects, space = _stream(workload)
    batch = min(BATCH, len(objects))
    statistics = Statistics.of_batches(objects.slice(0, SAMPLE), queries.slice(0, SAMPLE), space)
    plan = build_plan("kd", statistics, SETUP.evaluators)
    options = {"workload": asdict(workload), "batch": batch, "seconds": seconds, "warm_up": 2}
    topology = tornado_topology(SETUP, NamedSpout, options, plan, folder, space)
    file = SINKS[sink]
    summary = run_topology(
        topology if file is None else with_results(topology, str(folder / file)), runtime="local"
    ).summary
    by_batch = _matches_by_batch(workload, batch)
    rounds, rest = divmod(summary["objects"] // batch, len(by_batch))
    expected = rounds * sum(by_batch) + sum(by_batch[:rest])
    if summary["results"] != expected:
        raise RunError(f"{sink}: {summary['results']:,} results, but one index over all queries finds {expected:,}")
    spout = next(task for task in summary["tasks"] if task["task"] == "source[0]")
    rate, each = spout["measured_objects"] / spout["measured_cpu_s"], summary["results"] / summary["objects"]
    return Measured(objects_per_s=rate, results_per_s=rate * each, results_per_object=each)


@lru_cache(maxsize=1)
def _matches_by_batch(workload: Delivered, batch: int) -> tuple[int, ...]:
    queries, objects, space = _stream(workload)
    index = make_range_index("kag", space)
    index.insert(queries)
    return tuple(len(index.match(part)) for part in batches_of(objects, batch))


def run(options: Options) -> Report:
    """Measure all sinks on one stream."""
    count = options.queries or (100_000 if options.quick else 1_000_000)
    workload = Delivered(count, 20_000 if options.quick else 200_000, options.seed, options.data)
    figures: dict[str, float] = {}
    rows = []
    for sink in SINKS:
        with tempfile.TemporaryDirectory() as folder:
            one = measure(workload, sink, 0.5 if options.quick else 4.0, Path(folder))
        figures[f"{sink}_objects_per_s"], figures[f"{sink}_results_per_s"] = one.objects_per_s, one.results_per_s
        figures["results_per_object"] = one.results_per_object
        rows.append((sink, f"{one.objects_per_s:,.0f}", f"{one.results_per_s:,.0f}", f"{one.results_per_object:,.1f}"))
    data = "synthetic stream of few words" if options.data is None else options.data.name
    return Report(
        name="delivery",
        data=f"{data}, {count:,} queries, {SETUP.evaluators} evaluators, {BATCH:,} objects an epoch",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick else [Goal("count_results_per_s", at_least=10e6)],
        columns=("sink", "objects/s", "results/s", "results an object"),
        rows=rows,
        notes=("local runtime, one thread, CPU time, after registration; every run had all results",),
    )
