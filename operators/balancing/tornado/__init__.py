"""Rebalancing as pure functions: statistics and a plan in, operations out (Tornado, Section 4).

Evaluators count work by row and column of the fine grid (`Load` of an index). `load_of_partition` makes a few numbers of that,
a policy of `POLICIES` decides by them, `apply` makes the next plan and `moves` names the cells that change hands.
How cells move while objects flow is not decided here.
"""

from operators.balancing.tornado.aggregates import BandSums, LoadAggregates
from operators.balancing.tornado.cells import CellStatistics
from operators.balancing.tornado.decision import decide
from operators.balancing.tornado.operations import BorderShift, CornerShiftOperation, Operation, SplitMerge, SplitOff
from operators.balancing.tornado.partition_loads import CornerShift, Knot, PartitionLoad, Split, load_of_partition
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.plan_changes import Move, apply, moves
from operators.balancing.tornado.shift_positions import shift_position
from operators.balancing.tornado.tornado_paper import candidates
from operators.balancing.tornado.wire import cells_from_batch, cells_to_batch, loads_from_batch, loads_to_batch

__all__ = [
    "BandSums",
    "BorderShift",
    "CellStatistics",
    "CornerShift",
    "CornerShiftOperation",
    "Knot",
    "LoadAggregates",
    "Move",
    "Operation",
    "PartitionLoad",
    "Partitions",
    "Split",
    "SplitMerge",
    "SplitOff",
    "apply",
    "candidates",
    "cells_from_batch",
    "cells_to_batch",
    "decide",
    "load_of_partition",
    "loads_from_batch",
    "loads_to_batch",
    "moves",
    "shift_position",
]
