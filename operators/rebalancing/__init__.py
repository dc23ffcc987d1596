"""Rebalancing as pure functions: statistics and a plan in, operations out (Tornado, Section 4).

Evaluators count work by row and column of the fine grid (`Load` of an index). `summarize` turns that into a few numbers,
a policy of `POLICIES` decides by them, `apply` makes the next plan and `moves` names the cells that change hands.
How cells move while objects flow is not decided here.
"""

from operators.rebalancing.aggregates import BandSums, LoadAggregates
from operators.rebalancing.cells import CellStatistics
from operators.rebalancing.operations import BorderShift, CornerShiftOperation, Operation, SplitMerge, SplitOff
from operators.rebalancing.partitions import Partitions
from operators.rebalancing.plan_changes import Move, apply, moves
from operators.rebalancing.policy import Decide, Policy, PolicySettings
from operators.rebalancing.registry import POLICIES, policy_of
from operators.rebalancing.shift_positions import shift_position
from operators.rebalancing.summaries import CornerShift, EvaluatorSummary, Knot, Split, summarize
from operators.rebalancing.tornado import decide
from operators.rebalancing.tornado_paper import candidates
from operators.rebalancing.wire import cells_from_batch, cells_to_batch, summaries_from_batch, summaries_to_batch

__all__ = [
    "POLICIES",
    "BandSums",
    "BorderShift",
    "CellStatistics",
    "CornerShift",
    "CornerShiftOperation",
    "Decide",
    "EvaluatorSummary",
    "Knot",
    "LoadAggregates",
    "Move",
    "Operation",
    "Partitions",
    "Policy",
    "PolicySettings",
    "Split",
    "SplitMerge",
    "SplitOff",
    "apply",
    "candidates",
    "cells_from_batch",
    "cells_to_batch",
    "decide",
    "moves",
    "policy_of",
    "shift_position",
    "summaries_from_batch",
    "summaries_to_batch",
    "summarize",
]
