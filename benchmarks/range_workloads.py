"""Every range index on every sort of question that people ask, as ratios: is the default the fastest on all of them?

One thread, CPU time; an index takes as many objects as fit into its time, so slow ones see fewer. The pairs of the first
objects are the same for all indexes, or the run fails.
"""

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.range_index import rows_of
from benchmarks.range_questions import WORKLOADS, Source, Workload
from benchmarks.report import Goal, Options, Report
from benchmarks.synthetic_stream import synthetic_objects
from operators.indexes import RangeIndex, make_range_index
from streams.batches import ObjectBatch
from streams.errors import RunError
from streams.geometry import Rect

__all__ = ["run"]

NAMES = ("kag", "gi2", "fast")
BATCH, INSERTED, COMPARED = 100, 1000, 100
#: Workloads on which few pairs are compared and matched, because each object matches a large part of all queries.
DENSE = 10


@dataclass(frozen=True, slots=True)
class Measured:
    """One index on one workload: what it takes, and the pairs it found for the first objects."""

    objects_per_s: float
    matches: float
    insert_us: float
    delete_us: float
    bytes_per_query: float
    pairs: frozenset[tuple[int, int]]


def run(options: Options) -> Report:
    """Measure all indexes on all workloads."""
    count = options.queries or (30_000 if options.quick else 1_000_000)
    objects, seconds = (2_000, 0.5) if options.quick else (20_000, 4.0)
    if options.data is None:
        rows, space = synthetic_objects(min(max(count, objects), 500_000), options.seed), Rect(0.0, 0.0, 1.0, 1.0)
        data = "synthetic stream"
    else:
        rows, space = rows_of(options.data)
        data = options.data.name
    source = Source(rows, space, count, objects, options.seed)
    figures: dict[str, float] = {}
    table = []
    for name, make in WORKLOADS.items():
        workload = make(source)
        measured = {index: _measured(index, workload, seconds) for index in NAMES}
        if len({one.pairs for one in measured.values()}) > 1:
            raise RunError(f"the indexes disagree about the matches of '{name}'")
        figures |= _figures(name.replace(",", "").replace(" ", "_"), measured)
        table.append(_row(name, measured))
    return Report(
        name="range-workloads",
        data=f"{data}, {count:,} queries, {objects:,} objects, a tenth of the queries where they have 40 words",
        seed=options.seed,
        figures=figures | _compared(figures),
        goals=[] if options.quick else _goals(options),
        columns=("workload", *(f"{index} objects/s" for index in NAMES), "kag / best other", "matches", "insert us",
                 "delete us", "bytes/query"),
        rows=table,
        notes=("one thread, CPU time; insert, delete and bytes are those of KAG",),
    )  # fmt: skip


def _measured(name: str, workload: Workload, seconds: float) -> Measured:
    queries, objects = workload.queries, workload.objects
    index = make_range_index(name, workload.space, workload.metric)
    _warm(index, workload)
    index = make_range_index(name, workload.space, workload.metric)
    start = time.thread_time()
    for first in range(0, len(queries), INSERTED):
        index.insert(queries.slice(first, first + INSERTED))
    insert = time.thread_time() - start
    found = index.match(objects.slice(0, COMPARED))
    if len(found.number) > DENSE * len(queries):
        found = index.match(objects.slice(0, 1))
    pairs = frozenset(zip(np.repeat(np.arange(len(found.off) - 1), np.diff(found.off)).tolist(),
                          found.number.tolist(), strict=True))  # fmt: skip
    step = BATCH if len(found.off) > 2 else 1
    _passed(
        index, objects, step, seconds / 2
    )  # before what is measured, so that caches and buffers are as they will be
    index.reset_cost()
    size, (match, done) = index.nbytes, _passed(index, objects, step, seconds)
    matches = index.cost().matches / done
    gone = np.random.default_rng(1).permutation(queries.number)[: max(len(queries) // 20, 1)]
    start = time.thread_time()
    for first in range(0, len(gone), INSERTED):
        index.remove(gone[first : first + INSERTED])
    delete = time.thread_time() - start
    return Measured(
        done / match, matches, insert / len(queries) * 1e6, delete / len(gone) * 1e6, size / len(queries), pairs
    )


def _passed(index: RangeIndex, objects: ObjectBatch, step: int, seconds: float) -> tuple[float, int]:
    """Match all objects, or as many as there is time for; return how long it took, and how many they were."""
    start, done = time.thread_time(), 0
    while done < len(objects) and (done == 0 or time.thread_time() - start < seconds):
        index.match(objects.slice(done, done + step))
        done = min(done + step, len(objects))
        step = BATCH
    return time.thread_time() - start, done


def _warm(index: RangeIndex, workload: Workload) -> None:
    """Compile on a few rows."""
    few = workload.queries.slice(0, 100)
    index.insert(few)
    index.match(workload.objects.slice(0, 10))
    index.remove(few.number)


def _figures(key: str, measured: dict[str, Measured]) -> dict[str, float]:
    kag = measured["kag"]
    best = max(one.objects_per_s for index, one in measured.items() if index != "kag")
    return {
        **{f"{key}_{index}_objects_per_s": one.objects_per_s for index, one in measured.items()},
        f"{key}_over_best": kag.objects_per_s / best,
        f"{key}_delete_us": kag.delete_us,
        f"{key}_insert_us": kag.insert_us,
        f"{key}_bytes": kag.bytes_per_query,
    }


def _compared(figures: dict[str, float]) -> dict[str, float]:
    def of(key: str) -> float:
        return figures[f"{key}_objects_per_s"]

    return {
        "world_over_city_time": of("city_kag") / of("city_in_a_world_kag"),
        "mixed_sides_over_gi2": of("mixed_sides_kag") / of("mixed_sides_gi2"),
        "few_words_over_fast": min(of(f"{key}_kag") / of(f"{key}_fast") for key in ("few_words", "few_words_zipf")),
        "haversine_over_circles": of("haversine_circles_kag") / of("circles_kag"),
        "least_over_best": min(value for key, value in figures.items() if key.endswith("_over_best")),
    }


def _goals(options: Options) -> list[Goal]:
    goals = [
        Goal("world_over_city_time", at_most=1.3),
        Goal("least_over_best", at_least=1.0),
        Goal("few_words_over_fast", at_least=1.2),
        Goal("mixed_sides_over_gi2", at_least=2.5),
        Goal("identical_delete_us", at_most=2.5),
        Goal("haversine_over_circles", at_least=0.7),
    ]
    if options.data is not None:
        goals += [Goal("any_kag_objects_per_s", at_least=60_000), Goal("circles_kag_objects_per_s", at_least=120_000)]
    return goals


def _row(name: str, measured: dict[str, Measured]) -> tuple[str, ...]:
    kag = measured["kag"]
    best = max(one.objects_per_s for index, one in measured.items() if index != "kag")
    return (
        name,
        *(f"{one.objects_per_s:,.0f}" for one in measured.values()),
        f"{kag.objects_per_s / best:.2f}",
        f"{kag.matches:,.1f}",
        f"{kag.insert_us:.2f}",
        f"{kag.delete_us:.2f}",
        f"{kag.bytes_per_query:,.0f}",
    )
