"""Queries as the papers draw them: pure functions over arrays, seeded, a block of queries at a time.

No real query log exists for any of the papers' data sets; all of them make queries from objects. A query takes the place
of an object and some of its keywords, so that queries are where the data is and ask for what it holds.

Block b of a workload depends on (seed, b) and on the objects it draws only, so that any number of processes make the
same file.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.keyword_draws import drawn_from_objects, drawn_from_ranks, drawn_uniformly
from pipeline.workload_spec import WorkloadSpec
from streams.batches import NO_WINDOW, QUERY_TYPES, TYPE_KNN, TYPE_RANGE, TYPE_TERMS
from streams.columns import Ints, Offsets, csr_take
from streams.errors import DeclarationError
from streams.geometry import Rect

__all__ = ["BLOCK", "DrawnQueries", "Setting", "SourceObjects", "blocks_of", "draw_queries", "draw_rows"]

#: Queries that are drawn together; part of what a seed means.
BLOCK = 16_384

#: The six queries that SSTD makes of one object: type and whether it is continuous (SRQ, SKQ, STQ, CRQ, CKQ, CTQ).
_SSTD_MIX = tuple((kind, continuous) for continuous in (False, True) for kind in (TYPE_RANGE, TYPE_KNN, TYPE_TERMS))

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SourceObjects:
    """The objects that queries are made of, a row for each query."""

    x: Floats
    y: Floats
    kw_off: Offsets
    kw: Ints

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: NDArray[np.integer]) -> "SourceObjects":
        """Return these rows, in this order."""
        return SourceObjects(self.x[rows], self.y[rows], *csr_take(self.kw_off, self.kw, rows))


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What a workload is drawn in: the space, the time span, and the document frequencies of the words by rank."""

    space: Rect
    first_ts: int
    last_ts: int
    df: Ints


@dataclass(frozen=True, slots=True, eq=False)
class DrawnQueries:
    """Queries as columns: `at` has a place for knn and topk, `rect` a region for range and terms; -1 is no duration."""

    number: Ints
    ts: Ints
    type: NDArray[np.uint8]
    continuous: Flags
    match_any: Flags
    at: Floats
    rect: Floats
    k: Ints
    alpha: Floats
    window: Ints
    slide: Ints
    ttl: Ints
    kw_off: Offsets
    kw: Ints

    def __len__(self) -> int:
        return len(self.number)


def blocks_of(spec: WorkloadSpec) -> int:
    """Return the number of blocks."""
    return -(-spec.count // BLOCK)


def _numbers(spec: WorkloadSpec, block: int) -> Ints:
    return np.arange(block * BLOCK, min((block + 1) * BLOCK, spec.count), dtype=np.int64)


def draw_rows(spec: WorkloadSpec, block: int, rows: int) -> Ints:
    """Return which of `rows` objects each query of a block is made of, drawn with replacement.

    The six queries of SSTD's mix are made of one object, also where they fall into two blocks.
    """
    numbers = _numbers(spec, block)
    if spec.type != "sstd":
        return np.random.default_rng([spec.seed, 0, block]).integers(0, rows, len(numbers))
    group = numbers // len(_SSTD_MIX)
    parts = [np.random.default_rng([spec.seed, 0, b]).integers(0, rows, BLOCK) for b in np.unique(group // BLOCK)]
    return np.asarray(np.concatenate(parts)[group - group[0] // BLOCK * BLOCK], np.int64)


def draw_queries(spec: WorkloadSpec, setting: Setting, block: int, source: SourceObjects) -> DrawnQueries:
    """Make the queries of a block of the objects that `draw_rows` named for it."""
    number = _numbers(spec, block)
    if len(source) != len(number):
        raise DeclarationError(f"block {block} has {len(number)} queries but {len(source)} objects to make them of")
    rng = np.random.default_rng([spec.seed, 1, block])
    kind, continuous = _types(spec, number)
    x, y = _places(spec, setting.space, source)
    kw_off, kw = _keywords(spec, setting, source, kind, rng)
    duration = _between(rng, spec.duration_ms or (NO_WINDOW, NO_WINDOW), len(number))
    terms = kind == TYPE_TERMS
    looks_back = ~continuous | terms
    return DrawnQueries(
        number=number,
        ts=_arrivals(spec, setting, number),
        type=kind,
        continuous=continuous,
        match_any=np.full(len(number), spec.match == "any"),
        at=np.stack([x, y], axis=1),
        rect=_regions(spec, setting.space, x, y),
        k=_between(rng, spec.k, len(number)),
        alpha=rng.uniform(*spec.alpha, len(number)),
        window=np.where(looks_back, np.where((duration < 0) & terms & continuous, spec.slide_ms, duration), NO_WINDOW),
        slide=np.where(terms & continuous, spec.slide_ms, 0),
        ttl=np.where(continuous, duration, NO_WINDOW),
        kw_off=kw_off,
        kw=kw,
    )


def _types(spec: WorkloadSpec, number: Ints) -> tuple[NDArray[np.uint8], Flags]:
    if spec.type == "sstd":
        mix = number % len(_SSTD_MIX)
        return np.array([t for t, _ in _SSTD_MIX], np.uint8)[mix], np.array([c for _, c in _SSTD_MIX])[mix]
    code = QUERY_TYPES.index(spec.type)
    return np.full(len(number), code, np.uint8), np.full(len(number), spec.continuous)


def _arrivals(spec: WorkloadSpec, setting: Setting, number: Ints) -> Ints:
    """Return timestamps that never go back: all at the start, or evenly spread over the span."""
    if not spec.spread:
        return np.full(len(number), setting.first_ts, np.int64)
    # Whole numbers throughout; the span is divided first, so that no product leaves 64 bits.
    each, rest = divmod(setting.last_ts - setting.first_ts, spec.count)
    return np.asarray(setting.first_ts + each * (number + 1) + rest * (number + 1) // spec.count, np.int64)


def _places(spec: WorkloadSpec, space: Rect, source: SourceObjects) -> tuple[Floats, Floats]:
    x = np.clip(source.x, space.min_x, space.max_x)
    y = np.clip(source.y, space.min_y, space.max_y)
    if spec.condensed is None:
        return x, y
    centre_x, centre_y = (space.min_x + space.max_x) / 2, (space.min_y + space.max_y) / 2
    return centre_x + (x - centre_x) * spec.condensed, centre_y + (y - centre_y) * spec.condensed


def _regions(spec: WorkloadSpec, space: Rect, x: Floats, y: Floats) -> Floats:
    """Return rectangles of the wanted size around places, cut at the border of the space."""
    half_x = (space.max_x - space.min_x) * spec.region_share() / 2
    half_y = (space.max_y - space.min_y) * spec.region_share() / 2
    low_x, low_y = np.maximum(x - half_x, space.min_x), np.maximum(y - half_y, space.min_y)
    high_x, high_y = np.minimum(x + half_x, space.max_x), np.minimum(y + half_y, space.max_y)
    return np.stack([low_x, low_y, high_x, high_y], axis=1)


def _keywords(
    spec: WorkloadSpec, setting: Setting, source: SourceObjects, kind: NDArray[np.uint8], rng: np.random.Generator
) -> tuple[Offsets, Ints]:
    """Return the keywords of each query; terms queries have none."""
    wanted = _between(rng, spec.keywords, len(source))
    wanted[kind == TYPE_TERMS] = 0
    if wanted.any() and len(setting.df) == 0:
        raise DeclarationError("the data has no keywords, so only terms queries can be made of it")
    if spec.zipf is not None:
        weights = np.arange(1, len(setting.df) + 1, dtype=np.float64) ** -spec.zipf
        return drawn_from_ranks(rng, weights, wanted)
    if spec.selective is not None:
        first = min(math.ceil((1.0 - spec.selective) * len(setting.df)), max(len(setting.df) - 1, 0))
        return drawn_uniformly(rng, first, len(setting.df), wanted)
    return drawn_from_objects(rng, source.kw_off, source.kw, wanted, setting.df)


def _between(rng: np.random.Generator, pair: tuple[int, int], count: int) -> Ints:
    return rng.integers(pair[0], pair[1], count, endpoint=True)
