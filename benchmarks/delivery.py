"""Results from objects to a sink: how many a second arrive, by sink, where an object matches many queries.

A router, two evaluators with KAG and a sink on the local runtime, all in one thread; queries are registered before anything
is measured. Rates are by processor time, because the machine may be shared; the counting sink is run on Ray besides, and
compared by the clock. Every run is checked: its results are as many as one index over all queries finds. Registration of
the same queries from a file is measured on its own. Without `data` the stream is synthetic: few words, so that many queries
match an object; with a file (columns id, ts, lon, lat, text) queries are drawn from its rows.
"""

import importlib.util
import tempfile
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from benchmarks.range_index import from_file
from benchmarks.registration import registered
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
#: For a million queries, about 130 results an object, and two cores.
GOALS = (
    Goal("count_objects_per_s", at_least=90_000),
    Goal("jsonl_results_per_s", at_least=3e6),
    Goal("parquet_results_per_s", at_least=6e6),
    Goal("ray_over_local", at_least=1.3),
    Goal("registration_s", at_most=4.0),
)


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
    """One sink: objects and results a second of processor time, objects a second by the clock, and results an object."""

    objects_per_s: float
    by_clock: float
    results_per_s: float
    results_per_object: float


def measure(workload: Delivered, sink: str, seconds: float, folder: Path, runtime: str = "local") -> Measured:
    """Run the topology with a sink, and check that all results came; on Ray processor time is that of the source's process."""
    queries, objects, space = _stream(workload)
    batch = min(BATCH, len(objects))
    statistics = Statistics.of_batches(objects.slice(0, SAMPLE), queries.slice(0, SAMPLE), space)
    plan = build_plan("kd", statistics, SETUP.evaluators)
    options = {"workload": asdict(workload), "batch": batch, "seconds": seconds, "warm_up": 2}
    topology = tornado_topology(SETUP, NamedSpout, options, plan, folder, space)
    file = SINKS[sink]
    if runtime == "ray":
        topology = replace(topology, settings=replace(topology.settings, ray=replace(topology.settings.ray, workers=2)))
    if file is not None:
        topology = with_results(topology, str(folder / file))
    summary = run_topology(topology, runtime=runtime).summary
    by_batch = _matches_by_batch(workload, batch)
    rounds, rest = divmod(summary["objects"] // batch, len(by_batch))
    expected = rounds * sum(by_batch) + sum(by_batch[:rest])
    if summary["results"] != expected:
        raise RunError(f"{sink}: {summary['results']:,} results, but one index over all queries finds {expected:,}")
    spout = next(task for task in summary["tasks"] if task["task"] == "source[0]")
    rate, each = spout["measured_objects"] / spout["measured_cpu_s"], summary["results"] / summary["objects"]
    by_clock = spout["measured_objects"] / spout["measured_s"]
    return Measured(objects_per_s=rate, by_clock=by_clock, results_per_s=rate * each, results_per_object=each)


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
        figures[f"{sink}_objects_per_s_by_clock"] = one.by_clock
        rows.append(_row(sink, one))
    if not options.quick and importlib.util.find_spec("ray"):
        with tempfile.TemporaryDirectory() as folder:
            one = measure(workload, "count", 8.0, Path(folder), "ray")
        figures["ray_objects_per_s"] = one.by_clock
        figures["ray_over_local"] = one.by_clock / figures["count_objects_per_s_by_clock"]
        rows.append(_row("count, on Ray", replace(one, objects_per_s=np.nan, results_per_s=np.nan)))
    queries, _, space = _stream(workload)
    figures["registration_s"], figures["registration_s_by_clock"] = registered(queries, space, SETUP)
    data = "synthetic stream of few words" if options.data is None else options.data.name
    return Report(
        name="delivery",
        data=f"{data}, {count:,} queries, {SETUP.evaluators} evaluators, {BATCH:,} objects an epoch",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick else [goal for goal in GOALS if goal.figure in figures],
        columns=("sink", "objects/s", "results/s", "results an object", "objects/s by the clock"),
        rows=rows,
        notes=(
            "local runtime, one thread, CPU time, after registration; every run had all results",
            f"{count:,} queries registered from JSONL in {figures['registration_s']:.1f} s of CPU time",
        ),
    )


def _row(label: str, one: Measured) -> tuple[str, ...]:
    rates = ("" if np.isnan(rate) else f"{rate:,.0f}" for rate in (one.objects_per_s, one.results_per_s))
    return (label, *rates, f"{one.results_per_object:,.1f}", f"{one.by_clock:,.0f}")
