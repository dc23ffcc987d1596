"""Pieces of space all over the place: neighbours belong to different workers."""

import numpy as np
import pytest

from partitioners import FineGrid
from partitioners.builders.kd_decomposition import kd_decomposition, kd_plan
from partitioners.builders.spreading import dealt, hilbert_order
from streams.errors import DeclarationError
from streams.geometry import Rect

GRID = FineGrid(Rect(0.0, 0.0, 1.0, 1.0), 32, 32)


def test_curve_goes_from_cell_to_cell():
    """Hilbert's curve meets every cell once, and each step of it leads to a cell beside the last one."""
    y, x = (axis.ravel() for axis in np.mgrid[0:16, 0:16])
    order = hilbert_order(x, y)
    assert sorted(order.tolist()) == list(range(256))
    assert (np.abs(np.diff(x[order])) + np.abs(np.diff(y[order])) == 1).all()


@pytest.mark.parametrize("workers", [3, 8])
def test_pieces_in_a_row_belong_to_different_workers(workers):
    """Along the curve every worker gets one of as many pieces as there are workers, and loads stay even."""
    costs = np.random.default_rng(workers).random((32, 32)) ** 4
    boxes = kd_decomposition(costs, 10 * workers)
    cost = np.array([costs[y0 : y1 + 1, x0 : x1 + 1].sum() for x0, y0, x1, y1 in boxes.tolist()])
    worker = dealt(boxes, cost, workers)
    middle = (boxes[:, :2] + boxes[:, 2:]) // 2
    rows = worker[hilbert_order(middle[:, 0], middle[:, 1])].reshape(-1, workers)
    assert (np.sort(rows, axis=1) == np.arange(workers)).all()
    load = np.bincount(worker, cost, minlength=workers)
    assert load.max() - load.min() <= cost.max()


def test_kd_plan_has_so_many_pieces_a_worker():
    """A plan of pieces covers the space as any other; a hotspot the size of some pieces is everybody's."""
    plan = kd_plan(GRID, np.random.default_rng(1).random((32, 32)), 4, pieces=16)
    assert np.bincount(plan.unit_worker).tolist() == [16] * 4
    painted = np.full((32, 32), -1)
    for (x0, y0, x1, y1), worker in zip(plan.boxes.tolist(), plan.unit_worker.tolist(), strict=True):
        painted[y0 : y1 + 1, x0 : x1 + 1] = worker
    for y in range(0, 32, 16):
        for x in range(0, 32, 16):
            assert set(painted[y : y + 16, x : x + 16].ravel().tolist()) == {0, 1, 2, 3}
    with pytest.raises(DeclarationError, match="pieces = 0, expected at least 1"):
        kd_plan(GRID, np.ones((32, 32)), 4, pieces=0)
