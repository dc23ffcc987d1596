"""Noting queries in all cells of a quadtree, against a count cell by cell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.quadtree_counts import ancestors, cell_number, cells_of_levels, noted, tree_grid
from streams.errors import DeclarationError
from streams.geometry import Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
EDGES = st.sampled_from([n / 16 for n in range(17)]) | st.floats(0, 1)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(EDGES, EDGES, EDGES, EDGES), min_size=1, max_size=12), st.integers(0, 4))
def test_notes_count_every_overlapped_cell_once(corners, depth):
    """A query counts in a cell, through the cell's own notes and those below its ancestors, if and only if it overlaps it."""
    boxes = np.array([(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in corners])
    notes = noted(SPACE, depth, *boxes.T)
    by_cell = {}
    for query, cell, below in zip(notes.query.tolist(), notes.cell.tolist(), notes.below.tolist(), strict=True):
        by_cell.setdefault((cell, below), []).append(query)
    for level in range(depth + 1):
        grid = tree_grid(SPACE, level)
        low, high = grid.cells_of(boxes[:, 0], boxes[:, 1]), grid.cells_of(boxes[:, 2], boxes[:, 3])
        for row in range(grid.rows):
            for column in range(grid.columns):
                cell = int(cell_number(level, np.array(column), np.array(row)))
                found = sorted(
                    query
                    for up in ancestors(cell)
                    for below in (True, False)
                    if below or up == cell
                    for query in by_cell.get((up, below), [])
                )
                wanted = [
                    q
                    for q in range(len(boxes))
                    if low[q] % grid.columns <= column <= high[q] % grid.columns
                    and low[q] // grid.columns <= row <= high[q] // grid.columns
                ]
                assert found == wanted


def test_notes_of_the_whole_space_are_one():
    """A query over everything is noted once, at the root, for all cells below."""
    notes = noted(SPACE, 6, *np.array([[0.0], [0.0], [1.0], [1.0]]))
    assert (notes.query.tolist(), notes.cell.tolist(), notes.below.tolist()) == ([0], [0], [True])


def test_cells_are_numbered_by_level():
    """The root is 0, its children 1 to 4, and a cell's ancestors lead from the root to it."""
    assert ancestors(0) == [0]
    assert ancestors(4) == [0, 4]
    assert ancestors(int(cell_number(2, np.array(3), np.array(2)))) == [0, 4, 5 + 2 * 4 + 3]
    assert cells_of_levels(2) == 21
    with pytest.raises(DeclarationError, match="depth 40"):
        tree_grid(SPACE, 40)
