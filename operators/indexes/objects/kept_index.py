"""Kept objects as an evaluator sees them: a log, a structure over it, both metrics, and the state.

What indexes differ in is a structure (`ObjectStructure`), which finds ranks in the plane. The rest is here. On the globe a
structure finds what is in the box around a circle, and the distances of `streams.geometry` decide out here, because a
kernel's sine may differ in the last bit. So it is with the box around a polygon, and keywords that objects must not have.
"""

import math
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from operators.indexes.core.growth import grown
from operators.indexes.core.standing_queries import plain
from operators.indexes.objects.kept_parts import restored, saved
from operators.indexes.objects.object_index import Counts, Found, Kept, Nearest, Requests, kept_of
from operators.indexes.objects.object_log import ObjectLog
from operators.indexes.objects.probe_kernels import EXAMINED, NEEDED
from operators.indexes.objects.term_kernels import count_ranks
from operators.indexes.objects.word_scratch import WordScratch
from streams.batches import ObjectBatch
from streams.columns import Ints, csr_concat, csr_take
from streams.geometry import (
    EARTH_RADIUS_M,
    REGION_CIRCLE,
    REGION_NONE,
    REGION_POLYGON,
    REGION_RECT,
    Metric,
    Rect,
    distance,
    max_distance,
    region_bounds,
)
from streams.polygons import Region
from streams.residual_columns import rings_of

__all__ = ["KeptIndex", "ObjectStructure"]

Floats = NDArray[np.float64]

#: Postings of waiting work that are done for each posting that comes: merges need seven to eight.
WORK = 12
#: Postings of that work which take as long as to file a posting.
FILED = 1.2
#: Half of the way around the earth, and a little.
FARTHEST_M = 3.15 * EARTH_RADIUS_M
_WIDER = 1 + 1e-9


class ObjectStructure(Protocol):
    """Finds the objects of a log, in the plane, by rank.

    Questions are tuples of columns: kind and shape of the region, whether any word is enough, offsets and numbers of words,
    and the ranks between which objects count. A kernel goes on with question `begin`, and
    returns the first that it has no room to answer; `info` then says how much room it needs, and always what was examined.
    """

    log: ObjectLog
    scratch: WordScratch

    def append(self, objects: Kept) -> None:
        """Take in objects, by way of the log."""

    def drop(self, oldest: int) -> None:
        """Forget what holds only ranks below `oldest`; the log has forgotten them already."""

    def step(self) -> int:
        """Do some of the work that waits; return how many postings of it, 0 where there is none."""

    def srq(self, begin: int, asks: Any, off: Ints, out: Ints, info: Ints) -> int:
        """Write the ranks inside of regions."""

    def skq(self, asks: Any, k: Any, reach: Floats, off: Ints, out: Ints, distances: Floats, info: Ints) -> None:
        """Write the ranks of the k nearest, for which there is room, and their distances."""

    def stq(self, begin: int, asks: Any, k: Any, off: Ints, terms: Ints, counts: Ints, rest: Ints, info: Ints) -> int:
        """Write words and counts for questions without words."""

    @property
    def nbytes(self) -> int:
        """Bytes in use, without the log."""


class KeptIndex:
    """An object index over a structure."""

    def __init__(self, structure: ObjectStructure, space: Rect, metric: Metric = "euclidean") -> None:
        self._structure, self._log = structure, structure.log
        self._space, self._metric = space, metric
        self._allowed = 0

    def __len__(self) -> int:
        return len(self._log)

    @property
    def nbytes(self) -> int:
        """Bytes in use; what waiting work has written is counted when it is done."""
        return self._log.nbytes + self._structure.scratch.nbytes + self._structure.nbytes

    # --- objects come and go -----------------------------------------------------------------------------------------

    def add(self, objects: ObjectBatch) -> None:
        """Take in objects, and do as much of the work that waits as they are worth."""
        kept = kept_of(objects, self._log.last)
        filed = self._log.base
        self._structure.append(kept)
        filed = self._log.base - filed  # objects of chunks that are full: to file them is a part of the work
        share = 1 + len(kept.kw) // max(len(kept), 1)
        self.tend(WORK * (len(kept.kw) + len(kept)) - int(FILED * filed * share))

    def drop(self, first: int) -> None:
        """Forget objects; what holds none but such is given back at once, the rest of it later."""
        self._log.drop(first)
        self._structure.drop(self._log.rank(self._log.first))

    def kept(self, first: int, stop: int) -> Kept:
        """Return objects as they came."""
        return self._log.kept(first, stop)

    def tend(self, most: int) -> bool:
        """Do about so many postings of the work that waits, and count down words that have left; tell whether more is left.

        What a step does beyond that is taken off the next time: where few objects come at a time, steps are now and then.
        """
        self._allowed += most
        while self._allowed > 0:
            done = self._structure.step() or self._log.release()
            if not done:
                self._allowed = 0
                return False
            self._allowed -= done
        return True

    # --- questions ---------------------------------------------------------------------------------------------------

    def _asks(self, requests: Requests) -> Any:
        """Return what structures are asked: on the globe a circle is the box around it."""
        region, shape = plain(requests.region, np.uint8), plain(requests.shape, np.float64)
        if self._metric == "haversine" and (circle := region == REGION_CIRCLE).any():
            with np.errstate(invalid="ignore"):  # rows that are no circles are computed as such and not used
                box = np.column_stack(region_bounds(region, shape, self._space, self._metric))
            region, shape = np.where(circle, np.uint8(REGION_RECT), region), np.where(circle[:, None], box, shape)
        words = self._log.words.find(plain(requests.kw, np.int64))
        first, stop = (self._log.ranks(plain(bound, np.int64)) for bound in (requests.first, requests.stop))
        any_, kw_off = plain(requests.match_any, np.bool_), plain(requests.kw_off, np.int32)
        return region, shape, any_, kw_off, words, first, stop

    def _range(self, requests: Requests) -> tuple[Ints, Ints, int]:
        """Return ragged rows of ranks, and how many were examined."""
        asks, count = self._asks(requests), len(requests)
        off, out, info = np.zeros(count + 1, np.int64), np.empty(max(1024, 64 * count), np.int64), np.zeros(2, np.int64)
        begin = 0
        while True:
            begin = self._structure.srq(begin, asks, off, out, info)
            if begin == count:
                break
            out = grown(out, 2 * int(info[NEEDED]))
        off, ranks = self._verified(requests, off, out[: off[-1]])
        return off, ranks, int(info[EXAMINED])

    def _settled_below(self, requests: Requests) -> bool:
        """Tell without a look at rows that structures settle all of these questions, as they do nearly always."""
        return self._metric == "euclidean" and not len(requests.none) and not len(requests.ring_x)

    def _verified(self, requests: Requests, off: Ints, ranks: Ints) -> tuple[Ints, Ints]:
        """Keep what is in circles on the globe and in polygons, and has no keyword that a request excludes."""
        if self._settled_below(requests):
            return off, ranks
        circle = (requests.region == REGION_CIRCLE) & (self._metric == "haversine")
        polygon = requests.region == REGION_POLYGON
        if not (circle.any() or polygon.any() or requests.excludes.any()):
            return off, ranks
        row = np.repeat(np.arange(len(requests)), np.diff(off))
        keep = np.ones(len(row), np.bool_)
        _, x, y = self._log.places(ranks)
        if circle.any():
            at = np.flatnonzero(circle[row])
            place = requests.shape[row[at]]
            keep[at] = distance(x[at], y[at], place[:, 0], place[:, 1], self._metric) <= place[:, 2]
        for one in np.flatnonzero(polygon).tolist():
            part = slice(int(off[one]), int(off[one + 1]))
            keep[part] = Region.of(rings_of(requests, one)).contains(x[part], y[part])
        if requests.excludes.any():
            keep &= ~self._log.have_any(ranks, row, requests.none_off, requests.none)
        return _off(row[keep], len(requests)), ranks[keep]

    def srq(self, requests: Requests) -> Found:
        """Return what is in regions."""
        off, ranks, examined = self._range(requests)
        return Found(off, self._log.seqs(ranks), examined)

    def skq(self, requests: Requests) -> Nearest:
        """Return what is nearest to places."""
        if self._settled_below(requests):
            return self._nearest(requests)
        # Structures rank what they find as they go: on the globe, or where keywords are excluded, objects are found first.
        apart = requests.excludes | (self._metric == "haversine")
        if not apart.any():
            return self._nearest(requests)
        if apart.all():
            return self._nearest_in_circles(requests)
        groups = np.flatnonzero(~apart), np.flatnonzero(apart)
        parts = self._nearest(requests.take(groups[0])), self._nearest_in_circles(requests.take(groups[1]))
        rows = np.argsort(np.concatenate(groups))
        off, seq = csr_concat([(part.off.astype(np.int32), part.seq) for part in parts])
        taken, ordered = csr_take(off, seq, rows)
        distances = csr_take(off, np.concatenate([part.distance for part in parts]), rows)[1]
        return Nearest(taken.astype(np.int64), ordered, distances, sum(part.examined for part in parts))

    def _nearest(self, requests: Requests) -> Nearest:
        held = self._log.newest - self._log.oldest
        k = np.maximum(np.minimum(requests.k, held), 0).astype(np.int32)
        off, info = np.zeros(len(requests) + 1, np.int64), np.zeros(2, np.int64)
        room = int(k.sum(dtype=np.int64))
        ranks, distances = np.empty(room, np.int64), np.empty(room)
        self._structure.skq(self._asks(requests), k, plain(requests.reach, np.float64), off, ranks, distances, info)
        return Nearest(off, self._log.seqs(ranks[: off[-1]]), distances[: off[-1]], int(info[EXAMINED]))

    def _nearest_in_circles(self, requests: Requests) -> Nearest:
        """Look at circles that grow until each has k objects, or has everything."""
        lists: list[tuple[Ints, Floats]] = [(np.empty(0, np.int64), np.empty(0))] * len(requests)
        waiting, examined = np.flatnonzero(requests.k > 0), 0
        farthest = FARTHEST_M if self._metric == "haversine" else 1.01 * max_distance(self._space)
        radius = np.minimum(requests.reach, self._first_radius(requests))
        while len(waiting):
            asked = requests.take(waiting)
            all_ = radius[waiting] >= farthest
            # A little wider: in the plane circles compare squares, and distances may be equal where these are not.
            circles = np.column_stack([asked.shape[:, :2], radius[waiting] * _WIDER, np.zeros(len(waiting))])
            circles[all_, 2] = 0.0
            kind = np.where(all_, REGION_NONE, REGION_CIRCLE).astype(np.uint8)
            off, ranks, seen = self._range(replace(asked, region=kind, shape=circles))
            examined += seen
            row = np.repeat(np.arange(len(waiting)), np.diff(off))
            seq, x, y = self._log.places(ranks)
            far = distance(x, y, circles[row, 0], circles[row, 1], self._metric)
            near = far <= np.where(all_, asked.reach, radius[waiting])[row]
            off, seq, far = _off(row[near], len(waiting)), seq[near], far[near]
            enough = (np.diff(off) >= asked.k) | all_ | (radius[waiting] >= asked.reach)
            for i in np.flatnonzero(enough).tolist():
                part = slice(int(off[i]), int(off[i + 1]))
                order = np.lexsort((seq[part], far[part]))[: int(asked.k[i])]
                lists[int(waiting[i])] = seq[part][order], far[part][order]
            waiting = waiting[~enough]
            radius[waiting] = np.minimum(radius[waiting] * 4.0, requests.reach[waiting])
        off = np.zeros(len(requests) + 1, np.int64)
        np.cumsum([len(seq) for seq, _ in lists], out=off[1:])
        return Nearest(
            off,
            np.concatenate([np.empty(0, np.int64), *(seq for seq, _ in lists)]),
            np.concatenate([np.empty(0), *(far for _, far in lists)]),
            examined,
        )

    def _first_radius(self, requests: Requests) -> Floats:
        """Return radii within which k matches would be, were they spread evenly over the space."""
        wide, high = self._space.max_x - self._space.min_x, self._space.max_y - self._space.min_y
        if self._metric == "haversine":
            wide, high = math.radians(wide) * EARTH_RADIUS_M, math.radians(high) * EARTH_RADIUS_M
        words = self._log.words.find(plain(requests.kw, np.int64))
        uses = np.append(self._log.words.uses, 0)[words]
        matches = np.full(len(requests), max(len(self), 1), np.float64)
        for row in np.flatnonzero(np.diff(requests.kw_off)).tolist():
            part = uses[requests.kw_off[row] : requests.kw_off[row + 1]]
            matches[row] = max(int(part.max() if requests.match_any[row] else part.min()), 1)
        least = 1.0 if self._metric == "haversine" else 1e-9 * (wide + high)
        return np.asarray(np.maximum(np.sqrt(wide * high * requests.k / matches), least))

    def stq(self, requests: Requests) -> Counts:
        """Return how often terms occur in regions."""
        # Heads know nothing of conditions: what has keywords, or is a circle on the globe or a polygon, is found first and
        # counted then.
        apart = (np.diff(requests.kw_off) > 0) | requests.excludes | (requests.region == REGION_POLYGON)
        if self._metric == "haversine":
            apart |= requests.region == REGION_CIRCLE
        if not apart.any() or apart.all():
            return self._counted(requests, bool(apart.any()))
        groups = np.flatnonzero(~apart), np.flatnonzero(apart)
        parts = [self._counted(requests.take(rows), bool(apart[rows[0]])) for rows in groups]
        rows = np.argsort(np.concatenate(groups))
        off, terms = csr_concat([(part.off.astype(np.int32), part.term) for part in parts])
        _, counts = csr_concat([(part.off.astype(np.int32), part.count) for part in parts])
        rest = np.concatenate([part.rest for part in parts])
        taken, ordered = csr_take(off, terms, rows)
        examined = sum(part.examined for part in parts)
        return Counts(taken.astype(np.int64), ordered, csr_take(off, counts, rows)[1], rest[rows], examined)

    def _counted(self, requests: Requests, apart: bool) -> Counts:
        """Count terms in blocks, or apart from them, where objects are found first."""
        count, k = len(requests), plain(requests.k, np.int32)
        log, scratch = self._log, self._structure.scratch.ready(self._log.words.top)
        off, rest, info = np.zeros(count + 1, np.int64), np.zeros(count, np.int64), np.zeros(2, np.int64)
        room = 1024 if (k > 0).all() else 1024 + 2 * log.words.top  # all counts are asked for: of all words, at most
        terms, counts = np.empty(room, np.int64), np.empty(room, np.int64)
        found = self._range(requests) if apart else (off, terms, 0)
        asks, begin = self._asks(requests), 0
        while True:
            out = off, terms, counts, rest, info
            if apart:
                begin = count_ranks(begin, found[0], found[1], k, log.table, log.shift, log.oldest, scratch, *out)
            else:
                begin = self._structure.stq(begin, asks, k, *out)
            if begin == count:
                break
            room = 2 * int(info[NEEDED])
            terms, counts = grown(terms, room), grown(counts, room)
        examined = found[2] + int(info[EXAMINED])
        return Counts(*self._listed(off, terms, counts), rest, examined)

    def _listed(self, off: Ints, terms: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
        """Return lists in their order, words as keyword ids."""
        row = np.repeat(np.arange(len(off) - 1), np.diff(off))
        ids, count = self._log.words.raw[terms[: off[-1]]], counts[: off[-1]]
        order = np.lexsort((ids, -count, row))
        return off, ids[order], count[order]

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the objects, full chunks as parts; segments are built from them again."""
        return saved(*self._log.saved(), self._log.first, self._log.last)

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        for chunk in restored(state):
            self._structure.append(chunk)
            self.tend(WORK * len(chunk.kw))
        self._log.last = state["last"]
        self.drop(state["first"])


def _off(row: Ints, rows: int) -> Ints:
    off = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=off[1:])
    return off
