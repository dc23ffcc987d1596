"""DSkype's location-based method (Section 7.3.2, Algorithm 3): a k-d tree over places of subscriptions."""

import numpy as np

from partitioners.builders.kd_decomposition import Box, Boxes
from partitioners.columns import Floats
from partitioners.costs.cell_costs import node_cost
from partitioners.grids.fine_grid import box_sums, prefix_sums
from streams.errors import DeclarationError

__all__ = ["spatial_partition"]


def spatial_partition(subscriptions: Floats, messages: Floats, parts: int) -> tuple[Boxes, Floats]:
    """Cut a grid into boxes of like cost C(nd) = N(nd) * p(nd) (Equation 15); return boxes and costs.

    Tables are counts by cell (rows x columns). Levels are cut by x and by y in turn, each cut minimising
    |C(nd1) - C(nd2)| over the borders of fine-grid cells (the paper: over the coordinates of subscriptions, of which
    the grid is the aggregate). Numbers of parts that are no power of two are treated as in `keyword_partition`; where a box
    is one cell wide it is cut the other way, and a single cell stays.
    """
    if subscriptions.shape != messages.shape or subscriptions.ndim != 2 or subscriptions.size == 0:
        raise DeclarationError(
            f"counts by cell have shapes {subscriptions.shape} and {messages.shape}, expected the same"
        )
    if parts < 1:
        raise DeclarationError(f"cannot cut the space into {parts} parts; expected at least 1")
    sums_s, sums_m = prefix_sums(subscriptions), prefix_sums(messages)
    total = float(sums_m[-1, -1])
    rows, columns = subscriptions.shape
    boxes: list[Box] = []
    costs: list[float] = []
    waiting: list[tuple[Box, int, int]] = [((0, 0, columns - 1, rows - 1), 0, parts)]
    while waiting:
        box, depth, wanted = waiting.pop()
        x0, y0, x1, y1 = box
        axis = depth % 2
        lines_s, lines_m = box_sums(sums_s, *box), box_sums(sums_m, *box)
        if len(lines_s[axis]) == 1:
            axis = 1 - axis
        running_s, running_m = lines_s[axis], lines_m[axis]
        if wanted == 1 or len(running_s) == 1:
            boxes.append(box)
            costs.append(float(node_cost(running_s[-1], running_m[-1], total)))
            continue
        left_parts = wanted // 2
        left = node_cost(running_s[:-1], running_m[:-1], total)
        right = node_cost(running_s[-1] - running_s[:-1], running_m[-1] - running_m[:-1], total)
        uneven = np.abs(2 * np.arange(1, len(running_s)) - len(running_s))
        difference = np.abs(left / left_parts - right / (wanted - left_parts))
        place = int(np.lexsort((uneven, difference))[0])
        if axis == 0:
            halves = ((x0, y0, x0 + place, y1), (x0 + place + 1, y0, x1, y1))
        else:
            halves = ((x0, y0, x1, y0 + place), (x0, y0 + place + 1, x1, y1))
        waiting.append((halves[1], depth + 1, wanted - left_parts))
        waiting.append((halves[0], depth + 1, left_parts))
    return np.array(boxes, np.int32), np.array(costs)
