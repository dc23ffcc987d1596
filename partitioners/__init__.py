"""Who gets what: plans, the algorithms that build them, and the cost models behind.

A builder looks at `Statistics` (bounded samples, counts by cell) and returns an immutable `Plan`, which routers load from
a file and ask for the workers of objects and queries. `PARTITIONERS` names the builders of all five papers.
"""

from partitioners.builders.keyword_partition import loose_prefixes
from partitioners.builders.registry import PARTITIONERS, Partitioner, build_plan
from partitioners.costs.allocation import greedy, greedy_in_order, imbalance, karmarkar_karp, loads, matching
from partitioners.costs.statistics import ObjectSample, QuerySample, Statistics
from partitioners.grids.fine_grid import FineGrid
from partitioners.plans.assignment_plan import AssignmentPlan
from partitioners.plans.broadcast import HashPlan, ReplicatePlan
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.keyword_first import KeywordFirstPlan
from partitioners.plans.meeting import first_meeting, route_objects, route_queries
from partitioners.plans.plan import Plan, load, save
from partitioners.plans.qt_tree import QtTreePlan

__all__ = [
    "PARTITIONERS",
    "AssignmentPlan",
    "FineGrid",
    "GridPlan",
    "HashPlan",
    "KeywordFirstPlan",
    "ObjectSample",
    "Partitioner",
    "Plan",
    "QtTreePlan",
    "QuerySample",
    "ReplicatePlan",
    "Statistics",
    "build_plan",
    "first_meeting",
    "greedy",
    "greedy_in_order",
    "imbalance",
    "karmarkar_karp",
    "load",
    "loads",
    "loose_prefixes",
    "matching",
    "route_objects",
    "route_queries",
    "save",
]
