"""The partitioners by name: what a topology file, a command line or the offline plane asks for."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

import numpy as np

from partitioners.builders.dkm_sks import dkm_sks_plan, kop_plan, sop_plan
from partitioners.builders.dskype import (
    keyword_first_plan,
    keyword_plan,
    location_plan,
    prefix_plan,
    spatial_first_plan,
)
from partitioners.builders.kd_decomposition import kd_plan, uniform_plan
from partitioners.builders.kdt_tree import kdt_tree_plan
from partitioners.builders.ps2stream import ps2stream_plan
from partitioners.builders.qt_construction import qt_tree_plan
from partitioners.costs.cell_costs import cell_costs
from partitioners.costs.statistics import QuerySample, Statistics, thinned
from partitioners.grids.fine_grid import FineGrid
from partitioners.plans.broadcast import HashPlan, ReplicatePlan
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import MAX_WORKERS, Plan
from partitioners.plans.qt_tree import QtTreePlan
from streams.errors import DeclarationError, did_you_mean

__all__ = ["PARTITIONERS", "Partitioner", "build_plan"]

#: Queries that Equation 1 is counted with; more are thinned out, which scales all costs alike. Counting them everywhere
#: looks at every query of every keyword of every object.
_COUNTED_HERE, _COUNTED_EVERYWHERE = 200_000, 20_000


@dataclass(frozen=True, slots=True)
class Partitioner:
    """A way to build plans: `build(statistics, workers, **options)`.

    `options` are the keyword-only parameters of the function, with their defaults (None: worked out).
    """

    name: str
    title: str
    build: Callable[..., Plan]

    def options(self) -> dict[str, Any]:
        """Return the options with their defaults; one without a default is `inspect.Parameter.empty`."""
        parameters = inspect.signature(self.build).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def _uniform(statistics: Statistics, workers: int, *, spare: int = 0) -> GridPlan:
    return _with_spare(lambda busy: uniform_plan(statistics.grid, busy), workers, spare)


def _with_spare(build: Callable[[int], GridPlan], workers: int, spare: int) -> GridPlan:
    """Leave some workers without a partition: Tornado's auxiliary evaluators, which a rebalancing splits off to."""
    if not 0 <= spare < workers:
        raise DeclarationError(f"spare = {spare} of {workers} workers, expected 0 to {workers - 1}")
    return replace(build(workers - spare), workers=workers)


def _kd(
    statistics: Statistics,
    workers: int,
    *,
    literal: bool = False,
    object_share: float = 0.5,
    spare: int = 0,
    pieces: int = 1,
) -> GridPlan:
    """Build Tornado's plan; `literal` counts queries everywhere in Equation 1 (see `costs.cell_costs`).

    An object also costs what has nothing to do with queries: it is received, its words are looked up, its answer is
    sent. `object_share` is how much of all cost that is; 0 is Equation 1 alone. With more than one of `pieces`, each worker
    has so many all over the space (see `spreading`).
    """
    if not 0.0 <= object_share <= 1.0:
        raise DeclarationError(f"object_share = {object_share}, expected a share from 0 to 1")
    costs = statistics.cell_cost
    if costs is None:
        most = _COUNTED_EVERYWHERE if literal else _COUNTED_HERE
        queries: QuerySample = statistics.queries.take(thinned(len(statistics.queries), most))
        costs = cell_costs(statistics.grid, statistics.objects, queries, here=not literal)
    objects = statistics.objects_by_cell()
    if not costs.any():
        costs = objects  # no query is known: balance objects
    elif objects.any():
        costs = (1 - object_share) * costs + object_share * costs.sum() / objects.sum() * objects
    return _with_spare(lambda busy: kd_plan(statistics.grid, costs, busy, pieces), workers, spare)


def _hash(statistics: Statistics, workers: int) -> HashPlan:
    return HashPlan(statistics.space, workers)


def _replicate(statistics: Statistics, workers: int) -> ReplicatePlan:
    return ReplicatePlan(statistics.space, workers)


def _text(statistics: Statistics, workers: int) -> GridPlan:
    box = np.array([[0, 0, 0, 0]], np.int32)
    hashed = (np.empty(0, np.int64), np.empty(0, np.int32), np.arange(workers, dtype=np.int32))
    return GridPlan.of_parts(FineGrid(statistics.space, 1, 1), box, [hashed], workers)


def _quadtree(statistics: Statistics, workers: int, *, leaves: int | None = None) -> QtTreePlan:
    return qt_tree_plan(statistics, workers, leaves=leaves, method="spatial")


def _text_tree(statistics: Statistics, workers: int, *, leaves: int | None = None) -> QtTreePlan:
    return qt_tree_plan(statistics, workers, leaves=leaves, method="textual")


def _near_root(workers: int) -> int:
    return min((d for d in range(1, workers + 1) if workers % d == 0), key=lambda d: (abs(d * d - workers), d))


def _spatial_first(statistics: Statistics, workers: int, *, boxes: int | None = None) -> Plan:
    return spatial_first_plan(statistics, workers, boxes=_near_root(workers) if boxes is None else boxes)


def _keyword_first(statistics: Statistics, workers: int, *, ranges: int | None = None) -> Plan:
    return keyword_first_plan(statistics, workers, ranges=_near_root(workers) if ranges is None else ranges)


_ALL = (
    Partitioner("uniform", "equal ranges of the space (Tornado's Uni-Space-Rout)", _uniform),
    Partitioner("kd", "Tornado's k-d decomposition of the fine grid by cost", _kd),
    Partitioner("text", "keywords by hash (Tornado's Text-Rout)", _text),
    Partitioner("replicate", "queries everywhere, objects anywhere (native Storm)", _replicate),
    Partitioner("hash", "DSkype, hashing-based: queries by number, objects everywhere", _hash),
    Partitioner("location", "DSkype, location-based: a k-d tree over subscriptions, objects everywhere", location_plan),
    Partitioner("keyword", "DSkype, keyword-based: ranges of keywords by cost", keyword_plan),
    Partitioner("prefix", "DSkype, prefix-based: ranges of keywords by cost of loose prefixes", prefix_plan),
    Partitioner("spatial-first", "DSkype, hybrid: boxes, each with its own keyword ranges", _spatial_first),
    Partitioner("keyword-first", "DSkype, hybrid: keyword ranges, each with its own boxes", _keyword_first),
    Partitioner("qt-tree", "SSTD's QT-tree, leaves allocated by Karmarkar-Karp", qt_tree_plan),
    Partitioner("quadtree", "SSTD's baseline: a QT-tree divided by space only", _quadtree),
    Partitioner("text-tree", "SSTD's baseline: a QT-tree divided by text only", _text_tree),
    Partitioner("kdt-tree", "PS2Stream's kd^t-tree: boxes, some divided by keywords", kdt_tree_plan),
    Partitioner("ps2stream", "PS2Stream's kd^t-tree, extended to subscriptions (DkM-SKS, Section 5.1)", ps2stream_plan),
    Partitioner("kop", "keyword-oriented partition of subscriptions (DkM-SKS, Section 3.1)", kop_plan),
    Partitioner("sop", "space-oriented partition of subscriptions (DkM-SKS, Section 3.2)", sop_plan),
    Partitioner("dkm-sks", "DkM-SKS: subscriptions by places, words and cost", dkm_sks_plan),
)

#: Name -> partitioner.
PARTITIONERS: Mapping[str, Partitioner] = MappingProxyType({entry.name: entry for entry in _ALL})


def build_plan(name: str, statistics: Statistics, workers: int, **options: Any) -> Plan:
    """Build the plan that a partitioner of this name makes of statistics; options are checked by name and type."""
    if name not in PARTITIONERS:
        near = did_you_mean(name, PARTITIONERS)
        raise DeclarationError(f"unknown partitioner '{name}'{near}; expected one of {', '.join(PARTITIONERS)}")
    if not 1 <= workers <= MAX_WORKERS:
        raise DeclarationError(f"partitioner '{name}' is asked for {workers} workers; expected 1 to {MAX_WORKERS}")
    entry = PARTITIONERS[name]
    known = entry.options()
    hints = get_type_hints(entry.build)
    for key, value in options.items():
        if key not in known:
            listed = ", ".join(known) or "no option"
            raise DeclarationError(
                f"partitioner '{name}' has no option '{key}'{did_you_mean(key, known)}; it has {listed}"
            )
        wanted = get_args(hints[key]) or (hints[key],)
        if not any(_is_a(value, kind) for kind in wanted):
            raise DeclarationError(f"option '{key}' of partitioner '{name}' is {value!r}; expected {_named(wanted)}")
    return entry.build(statistics, workers, **options)


def _is_a(value: object, kind: type) -> bool:
    if isinstance(value, bool) and kind is not bool:
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _named(kinds: tuple[type, ...]) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "none"}
    return " or ".join(names[kind] for kind in kinds if kind is not type(None))
