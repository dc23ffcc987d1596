"""How fine the grid of objects should be: the expected costs of the operations on partial cell lists (Section VII).

Queries and objects are taken to be uniform in the unit square, n cells to a side; costs are counts, for one update and one
query. As printed, every count is a similarity. Here each has a price, a unit cost in microseconds that was measured, and two of
the counts are others. The objects of listed cells have to be scored one by one, where Equation 17 has their logarithm: `scan`.
A cell list runs out of objects when it is searched, which 1 / PCL_o tells well, and hardly ever by an update that passes by:
Equation 18 has that of every update, and with the price of a similarity it outweighs all else in a fine grid. So what is made
anew is a share of the searches: `renew`. `AS_PRINTED` are the paper's own prices.

Two more things are not as printed: `P(S2S.a)` is 0 where the circle covers the space (Equation 23 squares what is negative
then, and calls coarse grids cheap), and n is found by trying every side, as the expected cost is a function of one integer.

The model leaves out what it costs to tell for every query that an update is a case of S2S (Algorithm 5, line 22); that does not
depend on n.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["AS_PRINTED", "FINEST", "MEASURED", "Costs", "UnitCosts", "Workload", "best_side", "expected_costs"]

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


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Prices of what `Costs` counts."""

    check: float = 0.0
    trim: float = 0.0
    search: float = 0.0
    recreate: float = 0.0
    scan: float = 0.0
    renew: float = 0.0


#: As in the paper: each similarity costs the same.
AS_PRINTED = UnitCosts(check=1.0, trim=1.0, search=1.0, recreate=1.0)
#: Microseconds, from `gpcl` with 2,000 and 10,000 objects, k of 20 and 100, at nine sides from 4 to 192. A scored object takes
#: 0.45, and eight times as many as the model says are in the listed cells, as keywords list far more of them; a cell of a new
#: list takes 0.3. What checks and trims cost does not depend on n enough to be told from noise.
MEASURED = UnitCosts(scan=3.6, renew=0.03)


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """Expected counts by side: Equations 15 to 18, objects that searches score, and cells of lists that these make anew."""

    check: Floats
    trim: Floats
    search: Floats
    recreate: Floats
    scan: Floats
    renew: Floats

    def total(self, units: UnitCosts) -> Floats:
        """E[total], Equation 14, at some prices."""
        printed = units.check * self.check + units.trim * self.trim + units.search * self.search
        return printed + units.recreate * self.recreate + units.scan * self.scan + units.renew * self.renew


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
    all_cells = side**2 * np.log(side**2)
    return Costs(
        check=(1.0 - untouched) * np.log(cells),
        trim=leaving * cells,
        search=leaving * np.log(held),
        recreate=emptied * all_cells,
        scan=leaving * np.minimum(held, objects),
        renew=leaving / held * all_cells,
    )


def best_side(load: Workload, units: UnitCosts = MEASURED) -> int:
    """Return n: the number of cells to a side that minimises E[total] at some prices."""
    sides = np.arange(1.0, FINEST + 1)
    return int(sides[np.argmin(expected_costs(sides, load).total(units))])
