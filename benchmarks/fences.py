"""Fences: updates a second with 100,000 of them, next to brute force in the same run, one thread.

Objects walk in small steps and now and then change their keywords; fences are squares and circles around places of the same
kind, half of them for everybody, half for one word. Updates come in batches of 1,000 as an evaluator takes them; the figure is
that of the batches after each object has moved once on average. Times are CPU times of the thread, because the machine is
shared.
"""

import time
from dataclasses import replace

import numpy as np

from benchmarks.report import Goal, Options, Report
from benchmarks.synthetic_stream import drawn_queries, synthetic_objects
from operators.evaluation.fence_core import FenceCore
from operators.indexes.fences.fences import Fences
from streams.batches import DETECT_ENTER, DETECT_EXIT, CrossingBatch, ObjectBatch, QueryBatch
from streams.columns import Ids
from streams.geometry import REGION_CIRCLE, Rect

__all__ = ["WalkingObjects", "run", "standing_fences"]

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
BATCH, STEP, REPLACED = 1000, 0.002, 0.1
SIDE = 0.01
#: Updates that brute force takes, fences that are added in an epoch, and epochs of that.
BRUTE, ADDED, EPOCHS = 200, 10, 20
_OBJECTS, _OTHERS, _PLACES = 7000, 7001, 7002


class WalkingObjects:
    """Objects by number, and their next steps."""

    def __init__(self, count: int, seed: int) -> None:
        self.first = synthetic_objects(count, seed, _OBJECTS)
        self._words = len(self.first.kw) // count
        self._others = synthetic_objects(count, seed, _OTHERS).kw.reshape(count, self._words)
        self._kw = self.first.kw.reshape(count, self._words).copy()
        self._places = np.column_stack([self.first.x, self.first.y])
        self._random, self._seq = np.random.default_rng([seed, _OBJECTS]), count

    def updates(self, count: int) -> ObjectBatch:
        """Return the next updates, of different objects."""
        who = self._random.choice(len(self._places), count, replace=False)
        stepped = self._places[who] + self._random.normal(0.0, STEP, (count, 2))
        self._places[who] = np.clip(stepped, 0.0, 1.0)
        other = who[self._random.random(count) < REPLACED]
        self._kw[other] = self._others[self._random.permutation(other)]
        seq, self._seq = np.arange(self._seq, self._seq + count), self._seq + count
        return ObjectBatch(
            seq=seq, ts=seq, x=self._places[who, 0].copy(), y=self._places[who, 1].copy(), op=np.zeros(count, np.uint8),
            kw_off=np.arange(0, self._words * count + 1, self._words, dtype=np.int32), kw=self._kw[who].ravel(),
            ids=Ids("int", who),
        )  # fmt: skip


def standing_fences(count: int, seed: int, first: int = 0, ts: int = 0) -> QueryBatch:
    """Return fences that report who enters and who exits."""
    drawn = drawn_queries(synthetic_objects(count, seed, _PLACES), count, seed, SIDE, SIDE, first, most_words=1)
    round_ones = np.arange(count) % 4 < 2
    centre = np.column_stack([drawn.shape[:, :2] + SIDE / 2, np.full((count, 2), SIDE / 2)])
    everybody = np.arange(count) % 2 == 0
    keep = np.repeat(~everybody, np.diff(drawn.kw_off))
    kw_off = np.append(0, np.cumsum(np.where(everybody, 0, np.diff(drawn.kw_off)))).astype(np.int32)
    return replace(
        drawn, shape=np.where(round_ones[:, None], centre, drawn.shape), ts=np.full(count, ts), kw_off=kw_off,
        region=np.where(round_ones, REGION_CIRCLE, drawn.region).astype(np.uint8), kw=drawn.kw[keep],
        detect=np.full(count, DETECT_ENTER | DETECT_EXIT, np.uint8),
    )  # fmt: skip


def run(options: Options) -> Report:
    """Fill, walk, compare."""
    count = options.queries or 100_000
    objects = 20_000 if options.quick else 100_000
    _taken(_core("kag", WalkingObjects(2 * BATCH, 1), standing_fences(BATCH, 1)), WalkingObjects(2 * BATCH, 1), 2)
    walking, fences = WalkingObjects(objects, options.seed), standing_fences(count, options.seed)
    start = time.thread_time()
    core = _core("kag", walking, fences)
    begun_s = time.thread_time() - start
    _taken(core, walking, objects // BATCH)
    steady_s, events, _ = _taken(core, walking, objects // BATCH)
    alone_s, added_s = _adding(core, walking, options.seed, count)
    brute_s = _brute_force(walking, fences, objects, options.seed)
    rates = BATCH * (objects // BATCH) / steady_s, BRUTE / brute_s
    figures = {
        "updates_per_s": rates[0],
        "brute_updates_per_s": rates[1],
        "times_brute": rates[0] / rates[1],
        "events_per_update": events / (BATCH * (objects // BATCH)),
        "begin_us_per_fence": begun_s / count * 1e6,
        "added_us_per_fence": max(added_s - alone_s, 0.0) / (ADDED * EPOCHS) * 1e6,
    }
    return Report(
        name="fences",
        data=f"{count:,} fences, {objects:,} objects that walk, batches of {BATCH:,}",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick else [Goal("times_brute", at_least=100)],
        columns=("", "kag", "brute force"),
        rows=[
            ("updates/s", f"{figures['updates_per_s']:,.0f}", f"{figures['brute_updates_per_s']:,.0f}"),
            ("events an update", f"{figures['events_per_update']:.2f}", "the same"),
            ("all fences begin among all objects, us a fence", f"{figures['begin_us_per_fence']:.1f}", ""),
            (f"{ADDED} more begin in an epoch, us a fence", f"{figures['added_us_per_fence']:.1f}", ""),
        ],
        notes=(f"one thread, CPU time; brute force takes {BRUTE} updates, and both report the same events of these",),
    )


def _core(index: str, walking: WalkingObjects, fences: QueryBatch) -> FenceCore:
    """Return an evaluator's core with the first states and these fences, which begin among them."""
    core = FenceCore(Fences(index, SPACE, "euclidean"))
    core.take(replace(walking.first, ts=np.full(len(walking.first), -1)))
    core.insert(fences)
    core.settle(0, 1)
    return core


def _taken(core: FenceCore, walking: WalkingObjects, batches: int) -> tuple[float, int, list[CrossingBatch]]:
    """Return the seconds that updates take, how many events there are, and these."""
    drawn = [walking.updates(BATCH) for _ in range(batches)]
    start = time.thread_time()
    found = [core.take(batch).hits or CrossingBatch.empty() for batch in drawn]
    seconds = time.thread_time() - start
    crossed = [one for one in found if isinstance(one, CrossingBatch)]
    return seconds, sum(map(len, crossed)), crossed


def _adding(core: FenceCore, walking: WalkingObjects, seed: int, count: int) -> tuple[float, float]:
    """Return the seconds of some epochs, and of as many in which fences are added."""
    alone, _, _ = _taken(core, walking, EPOCHS)
    seconds = 0.0
    for epoch in range(EPOCHS):
        batch = walking.updates(BATCH)
        added = standing_fences(ADDED, seed + epoch, count + ADDED * epoch, int(batch.ts[BATCH // 2]))
        start = time.thread_time()
        core.insert(added)
        core.take(batch)
        seconds += time.thread_time() - start
    return alone, seconds


def _brute_force(walking: WalkingObjects, fences: QueryBatch, objects: int, seed: int) -> float:
    """Return the seconds that updates take by brute force; an index must report the same events of these."""
    batch = walking.updates(BRUTE)
    first = WalkingObjects(objects, seed).first.take(batch.ids.values)
    seconds, events = 0.0, []
    for index in ("kag", "brute"):
        core = FenceCore(Fences(index, SPACE, "euclidean"))
        core.take(replace(first, seq=np.arange(BRUTE), ts=np.full(BRUTE, -1)))
        core.insert(fences)
        core.settle(0, 1)
        start = time.thread_time()
        found = core.take(batch).hits
        seconds = time.thread_time() - start
        assert isinstance(found, CrossingBatch)
        events.append(sorted(zip(found.number.tolist(), found.ts.tolist(), found.detect.tolist(), strict=True)))
    assert events[0] == events[1], "brute force reports other events"
    return seconds
