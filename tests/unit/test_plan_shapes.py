"""Plans as frames of the live view: rectangles with their workers, a bounded number of them."""

from itertools import pairwise

import numpy as np

from partitioners.grids.fine_grid import FineGrid
from partitioners.plans.broadcast import HashPlan
from partitioners.plans.grid_plan import GridPlan
from service.view import plan_shapes
from service.view.frames import decode_frame
from streams.geometry import Rect

SPACE = Rect(0, 0, 8, 2)
#: Columns of a plan's boxes: 1, 4 and 3 wide.
BOXES = np.array([[0, 0, 0, 0], [1, 0, 4, 0], [5, 0, 7, 0]])


def shapes(plan):
    header, columns = decode_frame(plan_shapes.plan_frame(plan, 7, 1.23456))
    off, worker = columns["off"].tolist(), columns["worker"].tolist()
    assert off[-1] == len(worker)
    workers = [worker[first:last] for first, last in pairwise(off)]
    return header, columns["box"].reshape(-1, 4).tolist(), workers, columns["textual"].tolist()


def test_boxes_are_sent_with_their_workers():
    """In the order of the plan, with what is said of it as a whole."""
    plan = GridPlan.of_boxes(FineGrid(SPACE, 8, 1), BOXES, np.array([2, 0, 1]), 3)
    header, boxes, workers, textual = shapes(plan)
    assert (header["serial"], header["t"], header["areas"], header["workers"]) == (7, 1.235, 3, 3)
    assert boxes == [[0, 0, 1, 2], [1, 0, 5, 2], [5, 0, 8, 2]]
    assert (workers, textual) == ([[2], [0], [1]], [0, 0, 0])


def test_of_too_many_rectangles_the_largest_are_sent(monkeypatch):
    """How many there are is said all the same."""
    monkeypatch.setattr(plan_shapes, "MOST_SHAPES", 2)
    plan = GridPlan.of_boxes(FineGrid(SPACE, 8, 1), BOXES, np.array([2, 0, 1]), 3)
    header, boxes, workers, _ = shapes(plan)
    assert header["areas"] == 3
    assert (boxes, workers) == ([[1, 0, 5, 2], [5, 0, 8, 2]], [[0], [1]])


def test_of_too_many_workers_the_first_are_named(monkeypatch):
    """A rectangle that thousands share is told by some of them."""
    monkeypatch.setattr(plan_shapes, "MOST_SHARING", 3)
    _, boxes, workers, _ = shapes(HashPlan(SPACE, 5))
    assert (boxes, workers) == ([[0, 0, 8, 2]], [[0, 1, 2]])
