"""The k nearest: the radius pyramid next to the papers' indexes on the same subscriptions and objects, one thread.

Subscriptions are drawn from objects (1 to 3 keywords, any of them, k from 1 to 10) and have seen many objects before anything
is measured: the pyramid takes these, and its lists are handed to the others. Then all take the same objects, in batches of
1,000 and in turns, each for as long as the clock allows. Times are CPU times of the thread, the median of the turns, because
the machine is shared. Without `data` the stream is synthetic; with a file (columns id, ts, lon, lat, text) everything is
drawn from its rows.

Growth is that of the pyramid's time an object from one to eight times as many subscriptions. What an object costs depends on
the lists that it changes, and these on how many objects each subscription has seen: eight times the subscriptions with the
same objects behind them have eight times the changes, which no index can make fewer. So `growth_of_time` compares like with
like: eight times the subscriptions that have seen eight times the objects, whose changes an object are as before. What the
same subscriptions take after only as many objects as the smaller number has seen is `growth_of_time_before`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.range_index import rows_of
from benchmarks.report import Goal, Options, Report
from benchmarks.synthetic_stream import drawn_subscriptions, synthetic_objects
from operators.indexes.knn.registry import make_knn_index
from operators.indexes.knn.standing_knn import StandingKnn
from streams.batches import ObjectBatch, QueryBatch
from streams.columns import Ids
from streams.errors import InputError, RunError
from streams.geometry import Metric, Rect

__all__ = ["Measured", "Sizes", "Subscribed", "measure_all", "run"]

BATCH = 1000
NAMES = ("pyramid", "grid-inverted", "inverted", "sea-cnn", "subsets")
#: Subscriptions over which growth is measured, as multiples of the first size.
GROWTH = 8
#: Subscriptions that are made at a time, lists that are handed over at a time.
BLOCK, HANDED = 500_000, 1_000_000
#: Streams of their own for objects that subscriptions are drawn from, and for those that only growth takes.
DRAWN, GROWN = 1_000, 2_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Subscriptions, objects seen before, objects to measure with, turns, and seconds of a turn."""

    subscriptions: int
    seen: int
    objects: int
    turns: int
    seconds: float


FULL = Sizes(subscriptions=1_000_000, seen=1_000_000, objects=300_000, turns=5, seconds=1.0)
QUICK = Sizes(subscriptions=100_000, seen=100_000, objects=60_000, turns=3, seconds=0.5)


@dataclass(frozen=True, slots=True, eq=False)
class Subscribed:
    """Subscriptions, the objects that they have seen, and those to measure with."""

    subscriptions: QueryBatch
    seen: list[ObjectBatch]
    later: list[ObjectBatch]
    space: Rect
    metric: Metric = "euclidean"

    @classmethod
    def of(
        cls, subscriptions: QueryBatch, objects: ObjectBatch, seen: int, space: Rect, metric: Metric = "euclidean"
    ) -> "Subscribed":
        """Divide objects into those that are seen before and those to measure with."""

        def batches(start: int, stop: int) -> list[ObjectBatch]:
            return [objects.slice(at, min(at + BATCH, stop)) for at in range(start, stop, BATCH)]

        return cls(subscriptions, batches(0, seen), batches(seen, len(objects)), space, metric)


@dataclass(frozen=True, slots=True)
class Measured:
    """One index: microseconds a subscription to insert and delete, seconds an object, candidates and changes an object."""

    insert_us: float
    delete_us: float
    take_s: float
    bytes_per_subscription: float
    candidates: float
    changes: float


def run(options: Options) -> Report:
    """Measure all indexes, and how the pyramid grows; or what they do with other workloads."""
    if options.workloads:
        from benchmarks.knn_workloads import workloads  # which needs what is here

        return workloads(options)
    sizes = QUICK if options.quick else FULL
    sizes = replace(sizes, subscriptions=options.queries or sizes.subscriptions)
    work = _synthetic(sizes, options.seed) if options.data is None else _from_file(options.data, sizes, options.seed)
    measured = measure_all(work, sizes)
    figures = _figures(measured)
    count = len(work.subscriptions)
    rows = [_row(f"{name}, {count:,}", one) for name, one in measured.items()]
    if options.data is None and options.queries is None and not options.quick:
        before_s, grown = _grown(sizes, options.seed)
        figures["growth_of_time"] = grown.take_s / measured["pyramid"].take_s
        figures["growth_of_time_before"] = before_s / measured["pyramid"].take_s
        rows.append(_row(f"pyramid, {GROWTH * count:,}", grown))
    seen = sum(map(len, work.seen))
    return Report(
        name="knn-index",
        data=f"{options.data.name if options.data else 'synthetic stream'}, {count:,} subscriptions, {seen:,} objects seen",
        seed=options.seed,
        figures=figures,
        goals=_goals(options, figures),
        columns=(
            "index, subscriptions",
            "objects/s",
            "candidates",
            "changes",
            "insert us",
            "delete us",
            "bytes/subscription",
        ),
        rows=rows,
        notes=("one thread, CPU time, batches of 1,000; every index changed the same number of lists with each batch",),
    )


# --- what is measured -------------------------------------------------------------------------------------------------


def _synthetic(sizes: Sizes, seed: int) -> Subscribed:
    parts = []
    for start in range(0, sizes.subscriptions, BLOCK):
        count = min(BLOCK, sizes.subscriptions - start)
        parts.append(drawn_subscriptions(synthetic_objects(count, seed, DRAWN + start // BLOCK), count, seed, start))
    objects = synthetic_objects(sizes.seen + sizes.objects, seed)
    return Subscribed.of(QueryBatch.concat(parts), objects, sizes.seen, Rect(0.0, 0.0, 1.0, 1.0))


def _from_file(path: Path, sizes: Sizes, seed: int) -> Subscribed:
    """Return subscriptions drawn from the rows of a file; the rows come in any order, a tenth of them is measured with."""
    rows, space = rows_of(path)
    if len(rows) < 10:
        raise InputError(
            f"{path} has {len(rows)} rows; expected at least 10, nine tenths to be seen and the rest to measure"
        )
    subscriptions = drawn_subscriptions(rows, sizes.subscriptions, seed)
    shuffled = rows.take(np.random.default_rng(seed).permutation(len(rows)))
    seq = np.arange(len(rows))
    objects = replace(shuffled, seq=seq, ts=seq, ids=Ids("int", seq))
    return Subscribed.of(subscriptions, objects, len(rows) - min(sizes.objects, len(rows) // 10), space)


# --- measuring --------------------------------------------------------------------------------------------------------


def _timed(action: Callable[[], object]) -> float:
    start = time.thread_time()
    action()
    return time.thread_time() - start


def _filled(name: str, work: Subscribed) -> tuple[StandingKnn, float]:
    """Return an index with all subscriptions and the seconds that took; a first call compiles on an index of its own."""
    few, some = work.subscriptions.slice(0, BATCH), work.later[0].slice(0, 20)
    trial = make_knn_index(name, work.space, work.metric)
    trial.insert(few)
    trial.take(some)
    trial.adopt(trial.results(few.number))
    trial.remove(few.number)
    index = make_knn_index(name, work.space, work.metric)
    queries = work.subscriptions
    batches = [queries.slice(start, start + BATCH) for start in range(0, len(queries), BATCH)]

    def fill() -> None:
        for batch in batches:
            index.insert(batch)

    return index, _timed(fill)


def _hand_over(giver: StandingKnn, taker: StandingKnn) -> None:
    numbers = giver.numbers()
    for start in range(0, len(numbers), HANDED):
        taker.adopt(giver.results(numbers[start : start + HANDED]))


class _Turns:
    """One index and what it has done so far."""

    def __init__(self, index: StandingKnn, batches: Sequence[ObjectBatch]) -> None:
        self.index, self._batches = index, batches
        self.changes: list[int] = []
        self.seconds: list[float] = []
        index.reset_cost()

    def take(self, seconds: float, share: float) -> None:
        """Take the next objects for so long, at most a share of all; at least one batch while there is one."""
        first = len(self.changes)
        last = min(len(self._batches), first + max(1, round(share * len(self._batches))))
        if first == last:
            return
        start = time.thread_time()
        while len(self.changes) < last:
            self.changes.append(len(self.index.take(self._batches[len(self.changes)])))
            if time.thread_time() - start >= seconds:
                break
        objects = sum(map(len, self._batches[first : len(self.changes)]))
        self.seconds.append((time.thread_time() - start) / objects)

    def measured(self, insert_s: float) -> Measured:
        """Return all figures; a twentieth of the subscriptions is deleted for them."""
        index, cost, size, count = self.index, self.index.cost(), self.index.nbytes, len(self.index)
        gone = np.random.default_rng(count).permutation(index.numbers())[: max(count // 20, 1)]
        parts = [gone[start : start + BATCH] for start in range(0, len(gone), BATCH)]
        delete_s = _timed(lambda: [index.remove(part) for part in parts])
        return Measured(
            insert_us=insert_s / count * 1e6,
            delete_us=delete_s / len(gone) * 1e6,
            take_s=float(np.median(self.seconds)),
            bytes_per_subscription=size / count,
            candidates=cost.candidates / cost.objects,
            changes=sum(self.changes) / cost.objects,
        )


def measure_all(work: Subscribed, sizes: Sizes, names: Sequence[str] = NAMES) -> dict[str, Measured]:
    """Measure indexes, of which the first is the pyramid, on the same subscriptions and objects."""
    filled = {name: _filled(name, work) for name in names}
    pyramid = filled["pyramid"][0]
    for batch in work.seen:
        pyramid.take(batch)
    for name in names[1:]:
        _hand_over(pyramid, filled[name][0])
    runs = {name: _Turns(index, work.later) for name, (index, _) in filled.items()}
    for _ in range(sizes.turns):
        for one in runs.values():
            one.take(sizes.seconds, 1 / sizes.turns)
    _agree({name: one.changes for name, one in runs.items()})
    return {name: one.measured(filled[name][1]) for name, one in runs.items()}


def _agree(changes: dict[str, list[int]]) -> None:
    """Raise `RunError` where two indexes have changed different numbers of lists with a batch that both have taken."""
    longest = max(changes.values(), key=len)
    for name, counts in changes.items():
        for batch, (found, expected) in enumerate(zip(counts, longest, strict=False)):
            if found != expected:
                raise RunError(f"batch {batch} changed {found} lists of '{name}', but {expected} of another index")


def _grown(sizes: Sizes, seed: int) -> tuple[float, Measured]:
    """Measure more subscriptions: seconds an object when they have seen as many objects as fewer have, and all with more."""
    work = _synthetic(replace(sizes, subscriptions=GROWTH * sizes.subscriptions), seed)
    index, insert_s = _filled("pyramid", work)
    for batch in work.seen:
        index.take(batch)
    before = _turned(index, work.later, sizes)
    seen = sizes.seen + sizes.objects
    for stream in range(GROWN + 1, GROWN + GROWTH):
        for batch in _later(synthetic_objects(sizes.seen, seed, stream), seen):
            index.take(batch)
        seen += sizes.seen
    after = _turned(index, _later(synthetic_objects(sizes.objects, seed, GROWN), seen), sizes)
    return float(np.median(before.seconds)), after.measured(insert_s)


def _later(objects: ObjectBatch, seen: int) -> list[ObjectBatch]:
    """Return objects as batches that come after so many others."""
    seq = objects.seq + seen
    objects = replace(objects, seq=seq, ts=seq, ids=Ids("int", seq))
    return [objects.slice(at, min(at + BATCH, len(objects))) for at in range(0, len(objects), BATCH)]


def _turned(index: StandingKnn, batches: Sequence[ObjectBatch], sizes: Sizes) -> _Turns:
    turns = _Turns(index, batches)
    for _ in range(sizes.turns):
        turns.take(sizes.seconds, 1 / sizes.turns)
    return turns


# --- reporting --------------------------------------------------------------------------------------------------------


def _figures(measured: dict[str, Measured]) -> dict[str, float]:
    figures = {}
    for name, one in measured.items():
        plain = name.replace("-", "_")
        figures[f"{plain}_objects_per_s"] = 1 / one.take_s
        figures[f"{plain}_candidates_per_object"] = one.candidates
    pyramid = measured["pyramid"]
    for name in NAMES[1:]:
        figures[f"pyramid_over_{name.replace('-', '_')}"] = measured[name].take_s / pyramid.take_s
    figures["pyramid_insert_us"], figures["pyramid_delete_us"] = pyramid.insert_us, pyramid.delete_us
    figures["pyramid_bytes_per_subscription"] = pyramid.bytes_per_subscription
    figures["changes_per_object"] = pyramid.changes
    return figures


def _goals(options: Options, figures: dict[str, float]) -> Sequence[Goal]:
    """Return the goals of a million synthetic subscriptions; they are set for a machine of two noisy cores."""
    if options.quick or options.data is not None:
        return []
    goals = [
        Goal("pyramid_objects_per_s", at_least=300_000),
        Goal("pyramid_over_grid_inverted", at_least=8.0),
        Goal("pyramid_over_inverted", at_least=100.0),
        Goal("pyramid_insert_us", at_most=3.0),
        Goal("pyramid_bytes_per_subscription", at_most=250.0),
    ]
    return [*goals, Goal("growth_of_time", at_most=3.0)] if "growth_of_time" in figures else goals


def _row(label: str, one: Measured) -> tuple[str, ...]:
    return (
        label,
        f"{1 / one.take_s:,.0f}",
        f"{one.candidates:,.0f}",
        f"{one.changes:,.1f}",
        f"{one.insert_us:.2f}",
        f"{one.delete_us:.2f}",
        f"{one.bytes_per_subscription:.0f}",
    )
