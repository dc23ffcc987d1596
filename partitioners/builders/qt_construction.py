"""SSTD's Algorithm 1: building a QT-tree from objects and query distribution statistics."""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, Workers, column
from partitioners.costs.allocation import karmarkar_karp
from partitioners.costs.query_distribution import MAX_LENGTH, SKQ, SRQ, QueryDistribution, RegionStatistics, workload
from partitioners.costs.statistics import ObjectSample, Statistics
from partitioners.plans.qt_adjustment import Box, quartered, quarters
from partitioners.plans.qt_routing import split_by_text
from partitioners.plans.qt_tree import LEAF, SPATIAL, TEXTUAL, QtTreePlan
from streams.columns import csr_take
from streams.errors import DeclarationError, did_you_mean

__all__ = ["METHODS", "qt_tree_plan"]

#: How a node may be divided: as the paper's QT-tree, its Quadtree baseline, its Text baseline.
METHODS = ("both", "spatial", "textual")


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """A node under construction: its region, the rows of its objects and of the queries that overlap it."""

    box: Box
    objects: Ints
    queries: Ints
    region: RegionStatistics
    work: float


@dataclass(frozen=True, slots=True, eq=False)
class _TextTable:
    """The keyword lists of the four children of a textual node."""

    words: Ints
    shares: Floats
    bits: NDArray[np.uint8]
    held: Floats
    objects: Floats
    weight: Floats
    lengths: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Division:
    """Four children, and what a tree needs to find the right one."""

    split: int
    children: list[_Node]
    middle: tuple[float, float] = (0.0, 0.0)
    table: _TextTable | None = None

    @property
    def work(self) -> float:
        return sum(node.work for node in self.children)


def qt_tree_plan(
    statistics: Statistics, workers: int, *, leaves: int | None = None, method: str = "both"
) -> QtTreePlan:
    """Build a QT-tree (Algorithm 1) and allocate its leaves by the Karmarkar-Karp algorithm.

    `leaves` is theta (16 a worker where it is not given). The leaf of largest workload is divided next, by space or by text,
    whichever has the smaller sum of Equation 2. Where the paper is silent: a node of at most one object or of no workload,
    or one too small to be quartered whose objects would all get into one child by text, is left alone, and the next is
    taken.
    """
    if method not in METHODS:
        raise DeclarationError(f"unknown method '{method}'{did_you_mean(method, METHODS)}; expected one of {METHODS}")
    theta = 16 * workers if leaves is None else leaves
    if theta < 1 or workers < 1:
        raise DeclarationError(f"a QT-tree of {theta} leaves for {workers} workers; expected at least 1 of each")
    space = statistics.space.as_tuple()
    builder = _Builder(space, statistics.objects, QueryDistribution.of(statistics.queries))
    root = builder.node(space, np.arange(len(statistics.objects)), np.arange(len(statistics.queries)))
    nodes, divisions = [root], {}
    heap = [(-root.work, 0)]
    count = 1
    while heap and count < theta:
        _, number = heapq.heappop(heap)
        division = builder.divided(nodes[number], method)
        if division is None:
            continue
        divisions[number] = (len(nodes), division)
        for child in division.children:
            heapq.heappush(heap, (-child.work, len(nodes)))
            nodes.append(child)
        count += 3
    return _plan(statistics, workers, nodes, divisions)


@dataclass(frozen=True, slots=True, eq=False)
class _Builder:
    space: Box
    sample: ObjectSample
    distribution: QueryDistribution

    def node(self, box: Box, objects: Ints, among: Ints) -> _Node:
        """Make a node of these objects, its statistics from the queries, among these, that overlap the box."""
        queries = self.distribution.overlapping(box, among)
        region = self.distribution.statistics(queries)
        return _Node(box, objects, queries, region, self._work(objects, region))

    def _work(self, objects: Ints, region: RegionStatistics) -> float:
        has = np.isin(region.words, csr_take(self.sample.kw_off, self.sample.kw, objects)[1])
        covered = region.shares[:, has].sum(axis=1)
        rate = len(objects) / self.sample.span_ms
        return workload(self.distribution.prior, region, len(objects), rate, (float(covered[0]), float(covered[1])))

    def divided(self, node: _Node, method: str) -> _Division | None:
        """Divide a node by space or by text, or not at all."""
        if len(node.objects) < 2 or node.work <= 0.0:
            return None
        spatial = None if method == "textual" else self._by_space(node)
        weight = (self.distribution.prior * node.region.overlap)[[SRQ, SKQ]]
        # Without SRQ and SKQ, children by text cost as much as their parent, and children by space never more.
        useless = method == "spatial" or (spatial is not None and not weight.any())
        textual = None if useless else self._by_text(node, weight)
        if spatial is not None and (textual is None or spatial.work <= textual.work):
            return spatial
        return textual

    def _by_space(self, node: _Node) -> _Division | None:
        middle = quartered(node.box, self.space)
        if middle is None:
            return None
        quarter = (self.sample.x[node.objects] >= middle[0]) + 2 * (self.sample.y[node.objects] >= middle[1])
        children = [
            self.node(box, node.objects[quarter == c], node.queries) for c, box in enumerate(quarters(node.box, middle))
        ]
        return _Division(SPATIAL, children, middle=middle)

    def _by_text(self, node: _Node, weight: Floats) -> _Division | None:
        region = node.region
        kw_off, kw = csr_take(self.sample.kw_off, self.sample.kw, node.objects)
        place = np.searchsorted(region.words, kw)
        place = np.where(np.append(region.words, -1)[place] == kw, place, -1)
        child, bits, held, objects = split_by_text(
            column(kw_off, np.int64), column(place, np.int64), column(region.shares, np.float64, 2),
            column(weight, np.float64), column(region.lengths, np.float64, 3),
        )  # fmt: skip
        if objects.max() == len(node.objects):
            return None
        children = []
        for c in range(4):
            rows = node.objects[child == c]
            children.append(_Node(node.box, rows, node.queries, region, self._work(rows, region)))
        table = _TextTable(region.words, region.shares.T, bits, held, objects, weight, region.lengths)
        return _Division(TEXTUAL, children, table=table)


def _plan(
    statistics: Statistics, workers: int, nodes: list[_Node], divisions: dict[int, tuple[int, _Division]]
) -> QtTreePlan:
    """Lay the tree out in arrays."""
    split = np.zeros(len(nodes), np.uint8)
    child = np.zeros(len(nodes), np.int32)
    text = np.full(len(nodes), -1, np.int32)
    middle = np.zeros((len(nodes), 2))
    tables: list[_TextTable] = []
    for number, (first, division) in divisions.items():
        split[number], child[number], middle[number] = division.split, first, division.middle
        if division.table is not None:
            text[number] = len(tables)
            tables.append(division.table)
    ends = np.flatnonzero(split == LEAF)
    leaf: Workers = np.full(len(nodes), -1, np.int32)
    leaf[ends] = np.arange(len(ends))
    cost = np.array([nodes[number].work for number in ends])

    def stacked(name: str, *shape: int) -> Floats:
        return np.array([getattr(table, name) for table in tables], np.float64).reshape(len(tables), *shape)

    return QtTreePlan(
        space=statistics.space,
        workers=workers,
        split=split,
        child=child,
        middle=middle,
        leaf=leaf,
        text=text,
        word_off=np.cumsum([0] + [len(table.words) for table in tables]),
        word=np.concatenate([np.empty(0, np.int64)] + [table.words for table in tables]),
        shares=np.concatenate([np.empty((0, 2))] + [table.shares for table in tables]),
        bits=np.concatenate([np.empty(0, np.uint8)] + [table.bits for table in tables]),
        held=stacked("held", 4, 2),
        objects=stacked("objects", 4),
        weight=stacked("weight", 2),
        lengths=stacked("lengths", 2, 2, MAX_LENGTH + 1),
        leaf_worker=karmarkar_karp(cost, workers),
        leaf_cost=cost,
        leaf_box=np.array([nodes[number].box for number in ends]),
    )
