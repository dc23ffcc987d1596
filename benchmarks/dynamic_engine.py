"""A finder and a refiller over a stream of updates, and what an update takes: what `bench dynamic` measures.

Queries get their first lists from all objects. The paper's refillers look at most objects for each, which takes longer than all
that is measured; so they begin with lists that are known, as the paper does (Section III-B). Then updates come in epochs.
Times are CPU times of the thread, of what runs in an evaluator; finding (Section V) and refilling (Section VI) are told apart
by who is called.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.dynamic_stream import SPACE, MovingObjects, moving_objects, standing_queries, word_statistics
from operators.indexes.dynamic.dynamic_lists import DynamicLists, dynamic_topk
from operators.indexes.dynamic.grid_refiller import GridRefiller
from streams.batches import ObjectBatch, QueryBatch
from streams.errors import RunError
from streams.geometry import Metric, Rect
from streams.vocabulary import Vocabulary

__all__ = [
    "OURS", "Known", "Measured", "Parts", "Scene", "Setting", "agree", "known_lists", "measure", "measure_scene", "scene_of",
]  # fmt: skip

#: Offsets, objects and scores of the lists of all queries, best first.
Known = tuple[Any, Any, Any]

#: Queries that are registered at a time, and those whose lists are held against each other.
REGISTERED, COMPARED = 10_000, 500


@dataclass(frozen=True, slots=True)
class Parts:
    """A finder and a refiller."""

    index: str
    refill: str
    index_options: Mapping[str, Any] = field(default_factory=dict)
    refill_options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.index}-{self.refill}"


OURS = Parts("pyramid", "buffers")


@dataclass(frozen=True, slots=True)
class Setting:
    """A workload, and how long it is looked at.

    Attributes:
        alpha: of all queries, in place of one drawn for each.
        epoch: updates that are entered together.
        seconds: no epoch is begun after so much time.
        updates: so many at most.
    """

    objects: int
    queries: int
    k: int = 100
    most_words: int = 5
    alpha: float | None = None
    epoch: int = 1000
    seconds: float = 10.0
    updates: int = 1 << 62
    seed: int = 1

    @property
    def workload(self) -> "Setting":
        """The setting without how long it is looked at: what has the same lists after the same updates."""
        return replace(self, seconds=0.0, updates=0)


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What is asked, of what objects, and where."""

    queries: QueryBatch
    objects: ObjectBatch
    words: Vocabulary
    space: Rect = SPACE
    metric: Metric = "euclidean"


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What updates took.

    Attributes:
        find_us, refill_us: finding and refilling, with their upkeep, in CPU microseconds an update.
        update_us: all of it.
        short_us: the part of refilling that fills lists that have run short, in microseconds an update.
        first_lists_s: CPU seconds for the first lists of all queries, as far as they were searched for.
        searches: lists that were searched for, an update; `changed` are those that became others.
        finder_bytes, refiller_bytes: a query.
        n: cells to a side, where the refiller has a grid; 0 otherwise.
        lists: of some queries, by the updates that they have seen: those of the first epoch, and all.
    """

    updates: int
    update_us: float
    find_us: float
    refill_us: float
    short_us: float
    first_lists_s: float
    searches: float
    changed: float
    finder_bytes: float
    refiller_bytes: float
    n: int
    lists: Mapping[int, tuple[Any, ...]]

    @property
    def updates_per_s(self) -> float:
        """Updates a CPU second."""
        return 1e6 / self.update_us

    @property
    def bytes_per_query(self) -> float:
        """Bytes of finder and refiller, a query."""
        return self.finder_bytes + self.refiller_bytes


class _Clock:
    """Adds up the time of calls to methods of an object."""

    def __init__(self, target: Any, names: tuple[str, ...]) -> None:
        self.seconds = 0.0
        for name in names:
            setattr(target, name, self._timed(getattr(target, name)))

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            began = time.thread_time()
            found = call(*args)
            self.seconds += time.thread_time() - began
            return found

        return timed


def scene_of(setting: Setting) -> Scene:
    """Return the synthetic stream of a setting."""
    queries = standing_queries(
        setting.queries, setting.seed, k=setting.k, most_words=setting.most_words, alpha=setting.alpha
    )
    return Scene(queries, moving_objects(setting.objects, setting.seed).first, word_statistics(setting.seed))


def measure(parts: Parts, setting: Setting, known: Known | None = None) -> Measured:
    """Measure on the synthetic stream."""
    return measure_scene(parts, setting, scene_of(setting), known)


def measure_scene(parts: Parts, setting: Setting, scene: Scene, known: Known | None = None) -> Measured:
    """Fill lists, then enter updates until the time is over, or there were enough of them."""
    index, objects = _begun(parts, setting, scene)
    began = time.thread_time()
    _register(index, scene.queries, known)
    first_lists = time.thread_time() - began
    find = _Clock(index.queries, ("hits", "retune"))
    refill = _Clock(index.refiller, ("leave", "arrive", "enter", "refill", "retuned", "changed"))
    short = _Clock(index.refiller, ("refill",))
    searches, changed, total, done = index.refiller.searches, 0, 0.0, 0
    lists: dict[int, tuple[Any, ...]] = {}
    while done < setting.updates and (total < setting.seconds or not done):
        updates = objects.updates(min(setting.epoch, setting.updates - done))
        began = time.thread_time()
        changed += len(index.update(updates))
        total += time.thread_time() - began
        done += len(updates)
        if not lists:
            lists[done] = _lists(index)
    lists[done] = _lists(index)
    return Measured(
        updates=done,
        update_us=1e6 * total / done,
        find_us=1e6 * find.seconds / done,
        refill_us=1e6 * refill.seconds / done,
        short_us=1e6 * short.seconds / done,
        first_lists_s=first_lists,
        searches=(index.refiller.searches - searches) / done,
        changed=changed / done,
        finder_bytes=index.queries.nbytes / len(scene.queries),
        refiller_bytes=getattr(index.refiller, "query_bytes", index.refiller.nbytes) / len(scene.queries),
        n=int(getattr(index.refiller, "n", 0)),
        lists=lists,
    )


def _begun(parts: Parts, setting: Setting, scene: Scene) -> tuple[DynamicLists, MovingObjects]:
    """Return an index with all objects, and no query."""
    index = dynamic_topk(
        parts.index, parts.refill, scene.space, scene.metric, scene.words, parts.index_options, parts.refill_options
    )
    objects = MovingObjects(scene.objects, scene.space, setting.seed)
    index.update(objects.first)
    return index, objects


def _register(index: DynamicLists, queries: QueryBatch, known: Known | None) -> None:
    for start in range(0, len(queries), REGISTERED):
        part = queries.slice(start, min(start + REGISTERED, len(queries)))
        index.queries.insert(part, np.inf)
        index.open(part.number)
        if known is not None and isinstance(index.refiller, GridRefiller):
            slots = index.queries.slots(part.number)
            index.refiller.adopt(slots, *_cut(known, part.number, index.refiller.rooms(slots)))
        index.fill()


def known_lists(setting: Setting, scene: Scene, k: int) -> Known:
    """Return lists of the k best objects in the beginning, by number of query, for refillers that want as many."""
    index, _ = _begun(OURS, setting, scene)
    _register(index, replace(scene.queries, k=np.full(len(scene.queries), k, np.int32)), None)
    return index.lists(np.arange(len(scene.queries), dtype=np.int64))


def _cut(known: Known, numbers: Any, most: Any) -> Known:
    """Return the lists of some queries, no longer than these want them."""
    off, objects, score = known
    counts = np.minimum(off[numbers + 1] - off[numbers], most)
    ends = np.concatenate([[0], np.cumsum(counts)])
    place = np.repeat(off[numbers] - ends[:-1], counts) + np.arange(ends[-1])
    return ends, objects[place], score[place]


def _lists(index: DynamicLists) -> tuple[Any, ...]:
    numbers = np.arange(min(len(index.queries), COMPARED), dtype=np.int64)
    off, objects, score = index.lists(numbers)
    return tuple(off.tolist()), tuple(index.objects.first_seen[objects].tolist()), tuple(score.tolist())


def agree(measured: Mapping[str, Measured]) -> None:
    """Raise `RunError` where methods have other lists after the same updates: all are exact, or one is wrong."""
    (name, one), *others = measured.items()
    for other, alike in others:
        for updates in one.lists.keys() & alike.lists.keys():
            if one.lists[updates] != alike.lists[updates]:
                raise RunError(f"{other} and {name} have different lists after {updates} updates; one of them is wrong")
