"""Counts by cell and keyword over any number of objects, merged by ranges of cells.

Most pairs of cell and keyword occur a few times only, so there are almost as many counts as keywords, and Spark is slow at
aggregating rows that small. A task counts with sorts over arrays and hands on one row for each range of cells (a stripe)
that holds its counts as lists; the stripes of all tasks meet in one place and are merged in the same way.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from partitioners.grids.fine_grid import FineGrid
from pipeline.prepared_rows import source_objects
from streams.columns import Ints

__all__ = ["STRIPE_DDL", "WHOLE_CELL", "cell_keyword_counts", "counts_of", "merged"]

#: Stands in place of a keyword for a count of all objects of a cell.
WHOLE_CELL = -1

#: Counts travel as the bytes of int64 arrays: Spark copies those as they are, and lists value by value.
STRIPE_DDL = "stripe int, cell binary, keyword binary, n binary"

_STRIPES = 64

#: Counts that a task holds before it hands them on.
_HELD = 4_000_000

Counts = tuple[Ints, Ints, Ints]


def merged(cell: Ints, keyword: Ints, n: Ints) -> Counts:
    """Return counts in order of cell, then keyword, those of the same pair added up."""
    order = np.lexsort((keyword, cell))
    cell, keyword, n = cell[order], keyword[order], n[order]
    new = np.ones(len(cell), np.bool_)
    new[1:] = (cell[1:] != cell[:-1]) | (keyword[1:] != keyword[:-1])
    first = np.flatnonzero(new)
    return cell[first], keyword[first], np.add.reduceat(n, first) if len(first) else n


def cell_keyword_counts(objects: Any, fine: FineGrid, coarse: FineGrid) -> Any:
    """Count a Spark table of objects (x, y, keyword_ids) by fine cell, and by coarse cell and keyword.

    The result has a row a stripe (`STRIPE_DDL`), its counts merged and in order; those of fine cells come with
    `WHOLE_CELL`.
    """

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[Counts] = []
        for batch in batches:
            source = source_objects(batch)
            whole = fine.cells_of(source.x, source.y)
            owner = np.repeat(coarse.cells_of(source.x, source.y), np.diff(source.kw_off))
            cell = np.concatenate([whole, owner])
            keyword = np.concatenate([np.full(len(whole), WHOLE_CELL), source.kw])
            held.append((cell, keyword, np.ones(len(cell), np.int64)))
            if sum(len(part[0]) for part in held) > _HELD:
                held = [_together(held)]
                if len(held[0][0]) > _HELD // 2:
                    yield _striped(held[0], fine, coarse)
                    held = []
        if held:
            yield _striped(_together(held), fine, coarse)

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stripes: dict[int, list[Counts]] = {}
        for batch in batches:
            for stripe, *lists in zip(batch["stripe"].to_pylist(), *(batch[c] for c in _LISTS), strict=True):
                cell, keyword, n = (np.frombuffer(part.as_buffer(), "<i8") for part in lists)
                stripes.setdefault(stripe, []).append((cell, keyword, n))
        for stripe, parts in stripes.items():
            yield _rows([stripe], [_together(parts)])

    return objects.mapInArrow(count, STRIPE_DDL).repartition(_STRIPES // 8, "stripe").mapInArrow(merge, STRIPE_DDL)


_LISTS = ("cell", "keyword", "n")


def _together(parts: list[Counts]) -> Counts:
    return merged(*(np.concatenate([part[i] for part in parts]) for i in range(3)))


def _striped(counts: Counts, fine: FineGrid, coarse: FineGrid) -> pa.RecordBatch:
    """Return counts as a row for each range of cells."""
    cell, keyword, n = counts
    cells = np.where(keyword == WHOLE_CELL, fine.cells, coarse.cells)
    stripe = cell * _STRIPES // cells
    order = np.argsort(stripe, kind="stable")
    ends = np.searchsorted(stripe[order], np.arange(_STRIPES + 1))
    parts = [order[a:b] for a, b in pairwise(ends.tolist())]
    return _rows(list(range(_STRIPES)), [(cell[rows], keyword[rows], n[rows]) for rows in parts])


def _rows(stripes: list[int], counts: list[Counts]) -> pa.RecordBatch:
    arrays = [pa.array([part[i].astype("<i8").tobytes() for part in counts], pa.binary()) for i in range(3)]
    return pa.RecordBatch.from_arrays([pa.array(stripes, pa.int32()), *arrays], ["stripe", *_LISTS])


def counts_of(table: pa.Table) -> Counts:
    """Return the counts of rows of `STRIPE_DDL`, one stripe after the other."""
    cell, keyword, n = (
        np.concatenate([np.empty(0, np.int64), *(np.frombuffer(part.as_buffer(), "<i8") for part in table[name])])
        for name in _LISTS
    )
    return cell, keyword, n
