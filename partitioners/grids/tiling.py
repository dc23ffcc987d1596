"""Tilings: rectangular partitions that cover the fine grid exactly once, checked and painted into its cells."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partitioners.columns import check_range, column
from partitioners.grids.fine_grid import FineGrid
from partitioners.grids.range_routing_kernels import UNOWNED, any_unowned, paint
from streams.errors import InputError

__all__ = ["MAX_PARTITIONS", "Boxes", "Owner", "painted", "repainted", "tiling_boxes"]

Boxes = NDArray[np.int32]
Owner = NDArray[np.uint16]

#: A cell names its partition in two bytes, which halves the memory that routing touches; one value means nobody.
MAX_PARTITIONS = UNOWNED


def tiling_boxes(grid: FineGrid, boxes: ArrayLike) -> Boxes:
    """Return boxes as a column of a router's own, checked one by one: rows of first column and row, last column and row."""
    given = np.asarray(boxes)
    if given.ndim != 2 or given.shape[1:] != (4,) or not 1 <= len(given) <= MAX_PARTITIONS:
        raise InputError(
            f"partitions are boxes of shape {given.shape}; expected 1 to {MAX_PARTITIONS:,} rows of first column, "
            "first row, last column, last row"
        )
    if not np.issubdtype(given.dtype, np.integer):
        raise InputError(f"boxes of partitions hold {given.dtype}, expected whole numbers of cells")
    for low, high, size in ((0, 2, grid.columns), (1, 3, grid.rows)):
        check_range("boxes", given[:, [low, high]], 0, size)
        wrong = np.flatnonzero(given[:, low] > given[:, high])
        if len(wrong):
            raise InputError(f"partition {wrong[0]} is the box {given[wrong[0]].tolist()}, which ends before it begins")
    owned: Boxes = column(np.array(given, np.int32), np.int32, 2)
    return owned


def painted(grid: FineGrid, boxes: Boxes) -> Owner:
    """Return the partition of each cell, row after row; raise unless each cell has exactly one."""
    owner = np.full((grid.rows, grid.columns), UNOWNED, np.uint16)
    paint(owner, boxes, _numbers(np.arange(len(boxes))))
    if _cells(boxes) != grid.cells or (owner == UNOWNED).any():
        raise InputError(_fault(grid, boxes))
    return _flat(owner)


def repainted(grid: FineGrid, owner: Owner, old: Boxes, new: Boxes) -> Owner:
    """Return the partition of each cell after some boxes have changed; raise unless each cell has exactly one.

    Only the cells of partitions that differ are looked at; where none does, the array itself is returned. The cells that
    change hands must be covered by as many cells of new boxes: then each is covered once, and nothing else is.
    """
    both = min(len(old), len(new))
    differs = np.flatnonzero((old[:both] != new[:both]).any(axis=1))
    gone = column(old[np.append(differs, np.arange(both, len(old)))], np.int32, 2)
    number = np.append(differs, np.arange(both, len(new)))
    come = column(new[number], np.int32, 2)
    if not len(gone) and not len(come):
        return owner
    cells = owner.reshape(grid.rows, grid.columns).copy()
    paint(cells, gone, _numbers(np.full(len(gone), UNOWNED)))
    paint(cells, come, _numbers(number))
    if _cells(gone) != _cells(come) or any_unowned(cells, gone):
        raise InputError(_fault(grid, new))
    return _flat(cells)


def _numbers(values: NDArray[np.integer]) -> NDArray[np.int32]:
    numbers: NDArray[np.int32] = column(values, np.int32)
    return numbers


def _flat(cells: Owner) -> Owner:
    flat: Owner = column(cells.ravel(), np.uint16)
    return flat


def _cells(boxes: Boxes) -> int:
    return int((boxes[:, 2:].astype(np.int64) - boxes[:, :2] + 1).prod(axis=1).sum())


def _fault(grid: FineGrid, boxes: Boxes) -> str:
    """Say which cell is not covered exactly once."""
    covers = np.zeros((grid.rows + 1, grid.columns + 1), np.int64)
    x0, y0, x1, y1 = boxes[:, 0], boxes[:, 1], boxes[:, 2] + 1, boxes[:, 3] + 1
    for rows, columns, sign in ((y0, x0, 1), (y1, x1, 1), (y0, x1, -1), (y1, x0, -1)):
        np.add.at(covers, (rows, columns), sign)
    count = covers.cumsum(0).cumsum(1)[:-1, :-1]
    row, place = (int(i) for i in np.argwhere(count != 1)[0])
    return (
        f"the cell at column {place}, row {row} belongs to {count[row, place]} partitions; the boxes of partitions "
        "must cover every cell of the fine grid exactly once"
    )
