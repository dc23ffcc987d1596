"""How fine the grid of objects should be: the expected costs of the operations on partial cell lists (Section VII).

Queries and objects are taken to be uniform in the unit square, n cells to a side; costs are counts of similarities, for one
update and one query. Two things are not as printed: `P(S2S.a)` is 0 where the circle covers the space (Equation 23 squares what
is negative then, and calls coarse grids cheap), and n is found by trying every side, as the expected cost is a function of one
integer.

The model leaves out what it costs to tell for every query that an update is a case of S2S (Algorithm 5, line 22); that does not
depend on n.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FINEST", "Costs", "Workload", "best_side", "expected_costs"]

Floats = NDArray[np.float64]

#: Grids are at most so fine.
FINEST = 256


@dataclass(frozen=True, slots=True)
class Workload:
    """What the model knows of objects and queries.

    Attributes:
        objects: how many there are, |O|.
        k: how many results a query wants.
        step: how far an update moves an object, as a part of the side of the space; delta_s.
        query_words, object_words: the average number of keywords, w_q and w_o.
    """

    objects: float
    k: float
    step: float = 0.05
    query_words: float = 3.0
    object_words: float = 4.5


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """Expected costs by side, Equations 15 to 18."""

    check: Floats
    trim: Floats
    search: Floats
    recreate: Floats

    @property
    def total(self) -> Floats:
        """E[total], Equation 14."""
        return self.check + self.trim + self.search + self.recreate


def expected_costs(side: Floats, load: Workload) -> Costs:
    """Return the costs of grids with so many cells to a side."""
    length = 1.0 / side
    objects = max(load.objects, 1.0)
    radius = np.sqrt(load.k / (np.pi * objects))  # Equation 22
    step = load.step + np.sqrt(2.0) / (load.query_words * load.object_words) ** 2  # delta_s + delta_t, Equation 20
    leaving = np.pi * radius**2 - np.pi * radius**4 / (radius + step) ** 2  # P(L2S), Equation 21
    untouched = np.maximum(1.0 - np.pi * (radius + length) ** 2, 0.0) ** 2  # P(S2S.a), Equation 23
    cells = 2.0 * np.pi * (radius + length) / length
    held = np.maximum(cells * objects / side**2, 1.0)
    border = 4.0 * length * load.step + np.pi * load.step**2
    emptied = border / (border + length**2) / held  # P(PCL.empty), Equation 24
    return Costs(
        check=(1.0 - untouched) * np.log(cells),
        trim=leaving * cells,
        search=leaving * np.log(held),
        recreate=emptied * side**2 * np.log(side**2),
    )


def best_side(load: Workload) -> int:
    """Return n: the number of cells to a side that minimises E[total]."""
    sides = np.arange(1.0, FINEST + 1)
    return int(sides[np.argmin(expected_costs(sides, load).total)])
