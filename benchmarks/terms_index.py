"""Frequent terms: candidates with a bound next to SSTD's groups and brute force, on the same queries and objects, one thread.

Queries are squares of 0.01% of the space around places of objects, k = 10, over a window that holds all objects of a
million milliseconds (one object a millisecond); every query slides by a tenth of the window, each at times of its own.
Objects come in batches of 1,000; after each batch all instants that it has passed are answered. What is measured begins
when the window is full and every query has been answered once: objects are taken, instants answered, and old objects
forgotten, in CPU time of the thread.

The tables of groups take tens of kilobytes a query, so the comparison is made with fewer queries. All indexes
take turns there, answer the same instants, and must give the same counts.
"""

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Goal, Options, Report
from benchmarks.synthetic_stream import registrations, synthetic_objects
from operators.evaluation.instants import Instants
from operators.indexes.terms.registry import make_terms_index
from operators.indexes.terms.standing_terms import StandingTerms
from streams.batches import TYPE_TERMS, ObjectBatch, QueryBatch, RankedBatch
from streams.errors import RunError
from streams.geometry import Rect

__all__ = ["run"]

Ints = NDArray[np.int64]

BATCH = 1000
SPACE = Rect(0.0, 0.0, 1.0, 1.0)
#: The side of a region, how many terms are wanted, slides of a window.
SIDE, K, SLIDES = 0.01, 10, 10
#: Answers of a batch that brute force gives: a few tell its speed.
BRUTE_ANSWERS = 2
#: The stream of objects that queries are drawn from.
DRAWN = 1


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Queries, objects of the window, objects measured with, and queries of the comparison."""

    queries: int
    window: int
    measured: int
    compared: int


FULL = _Sizes(queries=100_000, window=1_000_000, measured=100_000, compared=5_000)
QUICK = _Sizes(queries=20_000, window=100_000, measured=13_000, compared=2_000)


@dataclass(slots=True)
class _Measured:
    """What one index has done: seconds of taking and of answering, objects, answers, objects looked at, items listed."""

    take_s: float = 0.0
    answer_s: float = 0.0
    objects: int = 0
    answers: int = 0
    examined: int = 0
    items: int = 0

    @property
    def objects_per_s(self) -> float:
        """Objects a second, with everything that they cause."""
        return self.objects / (self.take_s + self.answer_s)

    @property
    def us_an_answer(self) -> float:
        """Microseconds of an answer."""
        return self.answer_s / max(self.answers, 1) * 1e6


class _Stream:
    """One index, its queries and how far it is."""

    def __init__(self, name: str, queries: QueryBatch, window: int, most: int | None = None) -> None:
        self.name = name
        self.index: StandingTerms = make_terms_index(name, SPACE)
        self._instants, self._window, self._most = Instants(), window, most
        self.index.insert(queries)
        self._instants.add(queries, None)
        self.empty_bytes = self.index.nbytes
        self.done = _Measured()

    def take(self, objects: ObjectBatch) -> RankedBatch:
        """Take a batch, answer what it has passed, and forget what no window reaches."""
        now = int(objects.ts[-1]) + 1
        before = self.index.cost().candidates
        started = time.thread_time()
        self.index.take(objects)
        taken = time.thread_time()
        numbers, instants = self._instants.due(now, np.empty(0, np.int64))
        answers = self.index.answer(numbers[: self._most], instants[: self._most])
        answered = time.thread_time()
        self.index.forget(now - self._window)
        done = self.done
        done.take_s += taken - started + time.thread_time() - answered
        done.answer_s += answered - taken
        done.objects, done.answers = done.objects + len(objects), done.answers + len(answers)
        done.examined += self.index.cost().candidates - before
        done.items += len(answers.seq)
        return answers

    def fill(self, objects: list[ObjectBatch]) -> None:
        """Fill the window, and answer every query once; none of it is measured."""
        for batch in objects:
            self.take(batch)
        self.done = _Measured()


def run(options: Options) -> Report:
    """Measure candidates with all queries, and all indexes with some of them."""
    sizes = QUICK if options.quick else FULL
    queries = options.queries or sizes.queries
    sizes = replace(sizes, queries=queries, compared=min(sizes.compared, queries))
    objects = synthetic_objects(sizes.window + sizes.measured, options.seed)
    batches = [objects.slice(at, min(at + BATCH, len(objects))) for at in range(0, len(objects), BATCH)]
    filling = sizes.window // BATCH
    _compiled(batches[:20], options.seed)
    ours = _Stream("candidates", _queries(sizes.queries, sizes.window, options.seed), sizes.window)
    ours.fill(batches[:filling])
    for batch in batches[filling:]:
        ours.take(batch)
    alike = _queries(sizes.compared, sizes.window, options.seed)
    compared = _compared(alike, sizes.window, batches, filling)
    a_query, kept = ours.empty_bytes / sizes.queries, len(ours.index.window)
    figures = {
        "objects_per_s": ours.done.objects_per_s,
        "us_an_evaluation": ours.done.us_an_answer,
        "take_us_an_object": ours.done.take_s / ours.done.objects * 1e6,
        "bytes_a_query": a_query,
        "bytes_an_object": (ours.index.nbytes - ours.empty_bytes) / kept,
        "objects_looked_at_an_evaluation": ours.done.examined / ours.done.answers,
        "terms_listed_an_evaluation": ours.done.items / ours.done.answers,
        "groups_over_candidates_time": _ratio(compared["groups"].done, compared["candidates"].done),
        "brute_over_candidates_an_evaluation": (
            compared["brute"].done.us_an_answer / compared["candidates"].done.us_an_answer
        ),
        "groups_bytes_a_query": _query_bytes(compared["groups"]) / sizes.compared,
    }
    rows = [_row(f"candidates, {sizes.queries:,}", ours.done, a_query)]
    for name, one in compared.items():
        rows.append(_row(f"{name}, {sizes.compared:,}", one.done, _query_bytes(one) / sizes.compared))
    return Report(
        name="terms-index",
        data=f"synthetic stream, {sizes.queries:,} queries over a window of {sizes.window:,} objects",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick else _goals(),
        columns=("index, queries", "objects/s", "us an evaluation", "objects looked at", "terms listed", "bytes/query"),
        rows=rows,
        notes=(
            "one thread, CPU time, batches of 1,000 objects with all instants that they pass; the indexes of the comparison "
            "took turns and gave the same counts; brute force answered a few instants of each batch, so its objects/s are "
            "no measure",
        ),
    )


def _queries(count: int, window: int, seed: int) -> QueryBatch:
    """Return queries around places of objects, whose instants are spread over a slide."""
    random = np.random.default_rng([seed, count])
    places = synthetic_objects(count, seed, DRAWN)
    shape = np.column_stack([places.x, places.y, places.x, places.y]) + np.array([-SIDE, -SIDE, SIDE, SIDE]) / 2
    made = registrations(np.arange(count), shape, np.zeros(count + 1, np.int32), np.empty(0, np.int64))
    slide = window // SLIDES
    # The first instant of each is in the last slide before the window is full.
    first = random.integers(window - slide, window, count)
    return replace(
        made, type=np.full(count, TYPE_TERMS, np.uint8), k=np.full(count, K, np.int32), ts=first - slide,
        window=np.full(count, window, np.int64), slide=np.full(count, slide, np.int64),
    )  # fmt: skip


def _compiled(batches: list[ObjectBatch], seed: int) -> None:
    """Let all indexes compile their kernels, on a few objects."""
    objects = sum(map(len, batches))
    for name in ("candidates", "groups", "brute"):
        trial = _Stream(name, _queries(50, objects - 2 * BATCH, seed), objects - 2 * BATCH)
        trial.fill(batches)


def _compared(queries: QueryBatch, window: int, batches: list[ObjectBatch], filling: int) -> dict[str, _Stream]:
    """Let all indexes take the same objects in turns, and see that they agree."""
    streams = {
        "candidates": _Stream("candidates", queries, window),
        "groups": _Stream("groups", queries, window),
        "brute": _Stream("brute", queries, window, BRUTE_ANSWERS),
    }
    for one in streams.values():
        one.fill(batches[:filling])
    for number, batch in enumerate(batches[filling:]):
        found = {name: one.take(batch) for name, one in streams.items()}
        for name, answers in found.items():
            _agree(number, name, answers, found["candidates"])
    return streams


def _agree(number: int, name: str, found: RankedBatch, others: RankedBatch) -> None:
    """Raise `RunError` where two indexes have given different counts to what both have answered."""
    others = others.slice(0, len(found))
    same = np.array_equal(found.number, others.number) and np.array_equal(found.off, others.off)
    if same:
        one, other = (np.lexsort((lists.seq, lists.row)) for lists in (found, others))
        same = np.array_equal(found.seq[one], others.seq[other]) and np.array_equal(
            found.value[one], others.value[other]
        )
    if not same:
        raise RunError(f"batch {number}: '{name}' has other counts than 'candidates'")


def _query_bytes(stream: _Stream) -> int:
    """Return what queries take: in groups, the tables that objects have filled as well."""
    grown = stream.index.nbytes - stream.index.window.nbytes if stream.name == "groups" else 0
    return max(stream.empty_bytes, grown)


def _ratio(slow: _Measured, fast: _Measured) -> float:
    return fast.objects_per_s / slow.objects_per_s


def _goals() -> list[Goal]:
    """Return the goals of 100,000 queries over a million objects; they are set for a machine of two noisy cores."""
    return [
        Goal("objects_per_s", at_least=40_000),
        Goal("us_an_evaluation", at_most=25.0),
        Goal("bytes_a_query", at_most=600.0),
        Goal("groups_over_candidates_time", at_least=2.0),
    ]


def _row(label: str, done: _Measured, a_query: float) -> tuple[str, ...]:
    return (
        label,
        f"{done.objects_per_s:,.0f}",
        f"{done.us_an_answer:,.1f}",
        f"{done.examined / max(done.answers, 1):,.0f}",
        f"{done.items / max(done.answers, 1):,.1f}",
        f"{a_query:,.0f}",
    )
