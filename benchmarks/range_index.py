"""Range-keyword matching: KAG next to GI2 and FAST on the same queries and objects, one thread, batches of 1,000.

Times are CPU times of the thread, the median of several rounds in which the indexes take turns, because the machine is
shared. Without `data` the stream is synthetic; with a file (columns id, ts, lon, lat, text) queries are drawn from its rows.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.report import Goal, Options, Report
from benchmarks.synthetic_stream import drawn_queries, synthetic_objects, synthetic_queries
from operators.indexes import RangeIndex, make_range_index
from streams.batches import OP_UPSERT, ObjectBatch, QueryBatch
from streams.columns import Ids
from streams.errors import InputError, RunError
from streams.geometry import Rect
from streams.vocabulary import Encoder

__all__ = ["from_file", "rows_of", "run"]

BATCH = 1000
NAMES = ("kag", "gi2", "fast")
#: The side of a query drawn from a file, as a share of the box of its rows.
SIDE = 0.005
#: Queries over which growth is measured, as multiples of the first size.
GROWTH = 4

_FIRST_USE = """
import time
start = time.perf_counter()
from benchmarks.synthetic_stream import synthetic_objects, synthetic_queries
from operators.indexes import make_range_index
from streams.geometry import Rect
queries, objects = synthetic_queries(1000, 1), synthetic_objects(1000, 1)
index = make_range_index("kag", Rect(0.0, 0.0, 1.0, 1.0))
index.insert(queries)
index.match(objects)
index.remove(queries.number[:10])
print(time.perf_counter() - start)
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """One index: microseconds a query to insert and delete, seconds an object to match, candidates and matches an object."""

    insert_us: float
    delete_us: float
    match_s: float
    bytes_per_query: float
    candidates: float
    matches: float


def run(options: Options) -> Report:
    """Measure all three indexes; on the synthetic stream also how KAG grows, and its first use."""
    count = options.queries or (100_000 if options.quick else 1_000_000)
    objects_count = 20_000 if options.quick or options.data else 100_000
    if options.data is None:
        queries, objects = synthetic_queries(count, options.seed), synthetic_objects(objects_count, options.seed)
        space, data = Rect(0.0, 0.0, 1.0, 1.0), f"synthetic stream, {count:,} queries, {objects_count:,} objects"
    else:
        queries, objects, space = from_file(options.data, count, objects_count, options.seed)
        data = f"{options.data.name}, {count:,} queries drawn from it, {len(objects):,} objects"
    measured = _measure(queries, objects, space, rounds=3 if options.quick else 5)
    figures = _figures(measured)
    rows = [_row(f"{name}, {count:,}", one) for name, one in measured.items()]
    if options.data is None:
        if options.queries is None:
            grown = _grown(count, options, objects, space)
            figures["growth_of_time"] = grown.match_s / measured["kag"].match_s
            rows.append(_row(f"kag, {GROWTH * count:,}", grown))
        figures["first_use_s"] = _first_use()
    return Report(
        name="range-index",
        data=data,
        seed=options.seed,
        figures=figures,
        goals=_goals(options, figures),
        columns=(
            "index, queries",
            "objects/s",
            "ns/match",
            "candidates",
            "matches",
            "insert us",
            "delete us",
            "bytes/query",
        ),
        rows=rows,
        notes=("one thread, CPU time, batches of 1,000; every index gave the same number of matches",),
    )


def _timed(action: Callable[[], object]) -> float:
    start = time.thread_time()
    action()
    return time.thread_time() - start


def _filled(name: str, queries: QueryBatch, space: Rect) -> tuple[RangeIndex, float]:
    """Return an index with the queries, and the seconds it took; a first call compiles on an index of its own."""
    warm = make_range_index(name, space)
    few = queries.slice(0, BATCH)
    warm.insert(few)
    warm.match(synthetic_objects(10, 1))
    warm.remove(few.number)
    index = make_range_index(name, space)
    batches = [queries.slice(start, start + BATCH) for start in range(0, len(queries), BATCH)]

    def fill() -> None:
        for batch in batches:
            index.insert(batch)

    return index, _timed(fill)


def _measure(queries: QueryBatch, objects: ObjectBatch, space: Rect, rounds: int) -> dict[str, Measured]:
    made = {name: _filled(name, queries, space) for name in NAMES}
    batches = [objects.slice(start, start + BATCH) for start in range(0, len(objects), BATCH)]
    seconds: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(rounds):
        for name, (index, _) in made.items():
            index.reset_cost()
            seconds[name].append(_timed(lambda index=index: [index.match(batch) for batch in batches]))  # type: ignore[misc]
    found = {name: index.cost().matches for name, (index, _) in made.items()}
    if len(set(found.values())) > 1:
        raise RunError(f"the indexes disagree about the number of matches: {found}")
    return {
        name: _measured(index, queries, objects, fill, float(np.median(seconds[name])))
        for name, (index, fill) in made.items()
    }


def _measured(index: RangeIndex, queries: QueryBatch, objects: ObjectBatch, fill: float, match: float) -> Measured:
    size, cost = index.nbytes, index.cost()
    gone = np.random.default_rng(len(queries)).permutation(queries.number)[: max(len(queries) // 20, 1)]
    parts = [gone[start : start + BATCH] for start in range(0, len(gone), BATCH)]
    delete = _timed(lambda: [index.remove(part) for part in parts])
    return Measured(
        insert_us=fill / len(queries) * 1e6,
        delete_us=delete / len(gone) * 1e6,
        match_s=match / len(objects),
        bytes_per_query=size / len(queries),
        candidates=cost.candidates / cost.objects,
        matches=cost.matches / cost.objects,
    )


def _grown(count: int, options: Options, objects: ObjectBatch, space: Rect) -> Measured:
    queries = synthetic_queries(GROWTH * count, options.seed)
    index, fill = _filled("kag", queries, space)
    batches = [objects.slice(start, start + BATCH) for start in range(0, len(objects), BATCH)]
    seconds = []
    for _ in range(3):
        index.reset_cost()
        seconds.append(_timed(lambda: [index.match(batch) for batch in batches]))
    return _measured(index, queries, objects, fill, float(np.median(seconds)))


def _first_use() -> float:
    """Return the seconds from nothing to a first answer in a new process; the kernels are in the cache by now."""
    ended = subprocess.run([sys.executable, "-c", _FIRST_USE], capture_output=True, text=True, check=False, timeout=300)
    if ended.returncode != 0:
        raise RunError(f"a first use failed:\n{ended.stderr}")
    return float(ended.stdout)


def rows_of(path: Path) -> tuple[ObjectBatch, Rect]:
    """Return the rows of a file as objects, and their box."""
    table = pyarrow.csv.read_csv(path)
    missing = {"lon", "lat", "text"} - set(table.column_names)
    if missing:
        raise InputError(f"{path} has no column {', '.join(sorted(missing))}; it has {', '.join(table.column_names)}")
    x, y = (table.column(name).to_numpy().astype(np.float64) for name in ("lon", "lat"))
    off, kw = Encoder().texts(pc.fill_null(table.column("text"), "").combine_chunks())
    seq = np.arange(len(x))
    rows = ObjectBatch(
        seq=seq, ts=seq, x=x, y=y, op=np.full(len(x), OP_UPSERT, np.uint8), kw_off=off, kw=kw, ids=Ids("int", seq)
    )
    return rows, Rect(float(x.min()), float(y.min()), float(x.max()), float(y.max()))


def from_file(path: Path, count: int, objects: int, seed: int) -> tuple[QueryBatch, ObjectBatch, Rect]:
    """Return queries and objects drawn from the rows of a file, and the box of its rows."""
    rows, space = rows_of(path)
    queries = drawn_queries(rows, count, seed, SIDE * (space.max_x - space.min_x), SIDE * (space.max_y - space.min_y))
    chosen = np.random.default_rng(seed).permutation(len(rows))[:objects]
    return queries, rows.take(np.sort(chosen)), space


def _figures(measured: dict[str, Measured]) -> dict[str, float]:
    figures = {}
    for name, one in measured.items():
        figures[f"{name}_objects_per_s"] = 1 / one.match_s
        figures[f"{name}_candidates_per_object"] = one.candidates
    kag = measured["kag"]
    figures["kag_over_gi2"] = measured["gi2"].match_s / kag.match_s
    figures["kag_over_fast"] = measured["fast"].match_s / kag.match_s
    figures["kag_insert_us"], figures["kag_delete_us"] = kag.insert_us, kag.delete_us
    figures["kag_bytes_per_query"] = kag.bytes_per_query
    figures["kag_ns_per_match"] = kag.match_s / max(kag.matches, 1e-9) * 1e9
    figures["matches_per_object"] = kag.matches
    return figures


def _goals(options: Options, figures: dict[str, float]) -> Sequence[Goal]:
    """Return the goals that hold at this size; they are set for a machine of two noisy cores."""
    if options.quick:
        return [Goal("first_use_s", at_most=3.0)] if "first_use_s" in figures else []
    if options.data is not None:
        return [
            Goal("kag_objects_per_s", at_least=180_000),
            Goal("kag_ns_per_match", at_most=45.0),
            Goal("kag_over_gi2", at_least=2.5),
        ]
    large = (options.queries or 0) >= 5_000_000
    goals = [
        Goal("kag_objects_per_s", at_least=400_000 if large else 800_000),
        Goal("kag_over_gi2", at_least=2.5),
        Goal("kag_over_fast", at_least=2.5),
        Goal("kag_insert_us", at_most=1.0),
        Goal("kag_delete_us", at_most=0.5),
        Goal("kag_bytes_per_query", at_most=90.0),
        Goal("first_use_s", at_most=3.0),
    ]
    if options.queries is None:
        goals += [
            Goal("gi2_objects_per_s", at_least=300_000),
            Goal("fast_objects_per_s", at_least=300_000),
            Goal("growth_of_time", at_most=3.0),
        ]
    return goals


def _row(label: str, one: Measured) -> tuple[str, ...]:
    return (
        label,
        f"{1 / one.match_s:,.0f}",
        f"{one.match_s / max(one.matches, 1e-9) * 1e9:,.0f}",
        f"{one.candidates:,.1f}",
        f"{one.matches:,.1f}",
        f"{one.insert_us:.2f}",
        f"{one.delete_us:.2f}",
        f"{one.bytes_per_query:.0f}",
    )
