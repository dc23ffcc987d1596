"""The grids of DkM-SKS and SEA-CNN: which cells hold a ball, when it leaves them, and that copies are bounded."""

from random import Random

import numpy as np
import pytest
from knn_model import knn_batch, objects_batch

from operators.indexes.knn.registry import make_knn_index
from streams.batches import FOREVER
from streams.errors import DeclarationError
from streams.geometry import Rect, distance

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
GLOBE = Rect(-180.0, -90.0, 180.0, 90.0)
SIDE = 10

both = pytest.mark.parametrize("name", ["grid-inverted", "sea-cnn"])


def subscription(number, x, y, keywords=(1,), k=1):
    return {"number": number, "x": x, "y": y, "keywords": frozenset(keywords), "ts": 0, "end": FOREVER, "k": k,
            "match_any": True}  # fmt: skip


def thing(seq, x, y, keywords=(1,)):
    return {"seq": seq, "ts": 0, "x": x, "y": y, "keywords": frozenset(keywords), "op": 0, "id": seq}


def made(name, queries, most_cells=30, space=SPACE, metric="euclidean"):
    index = make_knn_index(name, space, metric, side=SIDE, most_cells=most_cells)
    index.insert(knn_batch(queries))
    return index


def cells_of(index, slot):
    """Return the cells in one of whose lists a slot stands."""
    balls = index._structure._balls
    words = range(index._table.words.top)
    return {cell for cell in range(balls.beside + 1) if any(slot in balls.lists.members(cell, word) for word in words)}


@both
def test_ball_without_end_is_beside_the_grid(name):
    """It is there once for each word, not in every cell, and objects anywhere find it."""
    index = made(name, [subscription(1, 0.5, 0.5)])
    assert cells_of(index, 0) == {index._structure._balls.beside}
    assert index._structure._balls.lists.entries == 1
    assert index.take(objects_batch([thing(1, 1.0, 0.0)])).tolist() == [1]


@both
def test_ball_enters_the_grid_when_it_fits_and_leaves_cells_as_it_shrinks(name):
    """The cells that hold it are those that it overlaps, at any size."""
    index = made(name, [subscription(1, 0.55, 0.55)])
    index.take(objects_batch([thing(1, 0.85, 0.55)]))
    assert cells_of(index, 0) == {SIDE * SIDE}
    index.take(objects_batch([thing(2, 0.75, 0.55)]))
    assert cells_of(index, 0) == {10 * row + column for row in range(3, 8) for column in range(3, 8)}
    index.take(objects_batch([thing(3, 0.67, 0.55)]))
    assert cells_of(index, 0) == {10 * row + column for row in range(4, 7) for column in range(4, 7)}
    index.take(objects_batch([thing(4, 0.56, 0.55)]))
    assert cells_of(index, 0) == {55}
    index.remove(np.array([1]))
    assert index._structure._balls.lists.entries == 0


@both
def test_long_lists_are_left_too(name):
    """Two hundred balls leave the place beside the grid, and then all cells but one, together."""
    index = made(name, [subscription(n, 0.55, 0.55) for n in range(200)])
    lists = index._structure._balls.lists
    assert lists.entries == 200
    index.take(objects_batch([thing(1, 0.67, 0.55)]))
    assert lists.entries == 200 * 9
    index.take(objects_batch([thing(2, 0.56, 0.55)]))
    assert lists.entries == 200
    assert cells_of(index, 0) == {55}


def test_inverted_files_of_cells_have_every_keyword():
    """A subscription to any of three words is in three lists of each cell; SEA-CNN has one list a cell."""
    for name, lists in (("grid-inverted", 3), ("sea-cnn", 1)):
        index = made(name, [subscription(1, 0.55, 0.55, (1, 2, 3))])
        index.take(objects_batch([thing(1, 0.56, 0.55)]))
        assert index._structure._balls.lists.entries == lists


@both
def test_copies_are_bounded(name):
    """However balls lie, none is in more cells than allowed."""
    rng = Random(7)
    index = made(name, [subscription(n, rng.random(), rng.random(), (n % 3,), 2) for n in range(300)], most_cells=6)
    for seq in range(1, 400, 20):
        batch = [thing(s, rng.random(), rng.random(), (s % 4,)) for s in range(seq, seq + 20)]
        index.take(objects_batch(batch))
        boxes = index._structure._balls.lists.span[:300].astype(int)
        cells = (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1)
        assert cells.max() <= 6
        assert index._structure._balls.lists.entries <= cells.sum() * 5 // 4
    assert (boxes[:, 1] < SIDE).mean() > 0.5


@both
@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
def test_every_ball_is_in_the_cells_that_it_overlaps(name, metric):
    """Points in a ball are in cells that hold it, across the date line and over the poles too."""
    rng = Random(3)
    space = SPACE if metric == "euclidean" else GLOBE

    def place():
        u, v = (rng.choice([0.0, 1.0, 0.5, rng.random(), 0.999, 0.001]) for _ in range(2))
        return space.min_x + u * (space.max_x - space.min_x), space.min_y + v * (space.max_y - space.min_y)

    index = made(name, [subscription(n, *place()) for n in range(60)], 40, space, metric)
    balls = index._structure._balls
    index.take(objects_batch([thing(s, *place()) for s in range(1, 40)]))
    x, y = (np.array(axis) for axis in zip(*(place() for _ in range(2000)), strict=True))
    cells = balls._grid.cells_of(x, y)
    for slot in range(60):
        at = index._table.shape[slot]
        inside = distance(x, y, at[0], at[1], metric) < index._lists.radius[slot]
        held = cells_of(index, slot)
        assert balls.beside in held or set(cells[inside].tolist()) <= held


@both
@pytest.mark.parametrize("options", [{"side": 0}, {"side": 5000}, {"most_cells": 0}, {"most_cells": 1 << 21}])
def test_options_are_checked(name, options):
    """A grid has a size, and a bound on copies."""
    with pytest.raises(DeclarationError, match=r"expected a whole number from 1 to"):
        make_knn_index(name, SPACE, **options)


def test_sea_cnn_verifies_by_keyword():
    """Who is near but wants other words is a candidate and no more."""
    wanted = [(1,), (2,), (), (1, 2), tuple(range(2, 12)), tuple(range(1, 12))]
    index = make_knn_index("sea-cnn", SPACE)
    queries = [subscription(n, 0.5, 0.5, words) | {"match_any": n != 3} for n, words in enumerate(wanted)]
    index.insert(knn_batch(queries))
    assert index.take(objects_batch([thing(1, 0.5, 0.5, (1, 20))])).tolist() == [0, 2, 5]
    assert index.cost().candidates == 6
    assert len(index.weights()[0]) == 6
