"""Objects that are kept, for questions about what has happened: SSTD's snapshot queries (Section 6.2).

`ObjectIndex` is what an evaluator talks to. Its implementations are segments of keyword grids (ours, the default), the paper's
R-tree with inverted lists and term tables, and brute force (the truth). All give the same answers.
"""

from operators.indexes.objects.object_index import Counts, Found, Kept, Nearest, ObjectIndex, Requests
from operators.indexes.objects.registry import OBJECT_INDEXES, make_object_index

__all__ = ["OBJECT_INDEXES", "Counts", "Found", "Kept", "Nearest", "ObjectIndex", "Requests", "make_object_index"]
