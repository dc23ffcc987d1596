"""Indexes of the nearest on the questions that people ask (`bench knn-index --workloads`), as ratios.

The workloads are those of range indexes (`benchmarks.range_questions`) as far as they make sense without a region: the centre
of a region is where the nearest are wanted. Lists have seen most of the objects before anything is measured.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.knn_index import Measured, Sizes, Subscribed, measure_all
from benchmarks.range_index import rows_of
from benchmarks.range_questions import WORKLOADS, Source, Workload, centred
from benchmarks.report import Goal, Options, Report
from benchmarks.synthetic_stream import synthetic_objects
from streams.batches import TYPE_KNN, ObjectBatch
from streams.columns import Ids
from streams.geometry import Rect

__all__ = ["workloads"]

#: The default, and those of the papers that come near it anywhere.
NAMES = ("pyramid", "grid-inverted", "sea-cnn", "inverted")
FULL = Sizes(subscriptions=200_000, seen=150_000, objects=30_000, turns=3, seconds=1.0)
QUICK = Sizes(subscriptions=10_000, seen=8_000, objects=2_000, turns=2, seconds=0.1)
MOST_K, LARGE_K = 10, 100


def _any(source: Source, name: str) -> Workload:
    """Return a workload in which any keyword will do, as DkM-SKS has it."""
    workload = WORKLOADS[name](source)
    return replace(workload, queries=replace(workload.queries, match_any=np.ones(len(workload.queries), np.bool_)))


QUESTIONS: dict[str, tuple[Callable[[Source], Workload], int]] = {
    "usual": (lambda source: _any(source, "usual"), MOST_K),
    "all": (lambda source: WORKLOADS["usual"](source), MOST_K),
    "k to 100": (lambda source: _any(source, "usual"), LARGE_K),
    "city": (lambda source: _any(source, "city"), MOST_K),
    "city in a world": (lambda source: _any(source, "city in a world"), MOST_K),
    "few words": (lambda source: WORKLOADS["few words"](source), MOST_K),
    "few words, zipf": (lambda source: WORKLOADS["few words, zipf"](source), MOST_K),
    "haversine": (lambda source: _any(source, "haversine circles"), MOST_K),
    "no keywords": (lambda source: WORKLOADS["no keywords"](source), MOST_K),
    "one keyword": (lambda source: WORKLOADS["one keyword"](source), MOST_K),
    "long texts": (lambda source: _any(source, "long texts"), MOST_K),
    "identical": (lambda source: WORKLOADS["identical"](source), MOST_K),
    "40 words, any": (lambda source: WORKLOADS["40 words, any"](source), MOST_K),
}


def workloads(options: Options) -> Report:
    """Measure the indexes on all workloads."""
    sizes = QUICK if options.quick else FULL
    sizes = replace(sizes, subscriptions=options.queries or sizes.subscriptions)
    wanted = sizes.seen + sizes.objects
    if options.data is None:
        rows, space = synthetic_objects(wanted, options.seed), Rect(0.0, 0.0, 1.0, 1.0)
    else:
        rows, space = rows_of(options.data)
    source = Source(rows, space, sizes.subscriptions, min(wanted, len(rows)), options.seed)
    figures: dict[str, float] = {}
    table = []
    for name, (make, most_k) in QUESTIONS.items():
        measured = measure_all(_subscribed(make(source), most_k, sizes, options.seed), sizes, NAMES)
        key = name.replace(",", "").replace(" ", "_")
        best = min(one.take_s for index, one in measured.items() if index != NAMES[0])
        figures |= {f"{key}_{index.replace('-', '_')}_objects_per_s": 1 / one.take_s for index, one in measured.items()}
        figures[f"{key}_over_best"] = best / measured[NAMES[0]].take_s
        table.append(_row(name, measured, figures[f"{key}_over_best"]))
    figures["least_over_best"] = min(value for key, value in figures.items() if key.endswith("_over_best"))
    figures["world_over_city_time"] = (
        figures["city_pyramid_objects_per_s"] / figures["city_in_a_world_pyramid_objects_per_s"]
    )
    return Report(
        name="knn-index",
        data=f"{options.data.name if options.data else 'synthetic stream'}, {sizes.subscriptions:,} subscriptions, a tenth of "
        f"them where they have 40 words, {min(wanted, len(rows)):,} objects",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick else [Goal("least_over_best", at_least=1.0), Goal("world_over_city_time", at_most=1.3)],
        columns=("workload", *(f"{index} objects/s" for index in NAMES), "pyramid / best other", "changes", "insert us",
                 "delete us", "bytes/subscription"),
        rows=table,
        notes=("one thread, CPU time; insert, delete and bytes are those of the pyramid; all changed the same lists",),
    )  # fmt: skip


def _subscribed(workload: Workload, most_k: int, sizes: Sizes, seed: int) -> Subscribed:
    """Return the queries of a workload as subscriptions to the nearest of its objects, which come in any order."""
    count = len(workload.queries)
    random = np.random.default_rng([seed, 9])
    subscriptions = replace(
        centred(workload.queries), type=np.full(count, TYPE_KNN, np.uint8),
        k=random.integers(1, most_k + 1, count).astype(np.int32),
    )  # fmt: skip
    objects = _renumbered(workload.objects.take(random.permutation(len(workload.objects))))
    seen = len(objects) * sizes.seen // (sizes.seen + sizes.objects)
    return Subscribed.of(subscriptions, objects, seen, workload.space, workload.metric)


def _renumbered(objects: ObjectBatch) -> ObjectBatch:
    seq = np.arange(len(objects))
    return replace(objects, seq=seq, ts=seq, ids=Ids("int", seq))


def _row(name: str, measured: dict[str, Measured], over_best: float) -> tuple[str, ...]:
    pyramid = measured[NAMES[0]]
    return (
        name,
        *(f"{1 / one.take_s:,.0f}" for one in measured.values()),
        f"{over_best:.2f}",
        f"{pyramid.changes:,.1f}",
        f"{pyramid.insert_us:.2f}",
        f"{pyramid.delete_us:.2f}",
        f"{pyramid.bytes_per_subscription:,.0f}",
    )
