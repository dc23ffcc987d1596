"""The local indexes: standing queries by place and keyword, matched with objects at native speed.

`RangeIndex` is what an evaluator talks to. `StandingIndex` is its one implementation: a table of queries and a
structure that finds them. The structures are FAST (Tornado's, section 3.2), GI2 (a uniform grid of inverted lists, the
baseline of Tornado and PS2Stream), KAG (a grid of its own for every keyword, the default) and brute force (the oracle).
All give the same answers.
"""

from operators.indexes.range.range_index import CellRange, Cost, Load, Matches, RangeIndex
from operators.indexes.range.registry import INDEXES, make_range_index

__all__ = ["INDEXES", "CellRange", "Cost", "Load", "Matches", "RangeIndex", "make_range_index"]
