"""PS2Stream as DkM-SKS compares itself with it (Section 5.1): a kd^t-tree for subscriptions that have one worker each.

PS2Stream divides objects and queries among workers. Here objects go to all workers, so its tree only says who holds a
subscription: the part in which the subscription is, by its place and, where a box is divided by text, by its rarest keyword.
"""

import numpy as np

from partitioners.builders.kdt_tree import kdt_tree_plan
from partitioners.columns import Regions
from partitioners.costs.allocation import loads
from partitioners.costs.statistics import Statistics
from partitioners.plans.assignment_plan import AssignmentPlan

__all__ = ["ps2stream_plan"]


def ps2stream_plan(
    statistics: Statistics, workers: int, *, similarity: float = 0.5, balance: float = 1.2
) -> AssignmentPlan:
    """Build the plan of PS2Stream for subscriptions.

    A worker's load is c1 |O| |Q| + c2 |O| + c3 |Q| (PS2Stream's definition, without deletions). All workers see all
    objects, so it grows alike with every subscription, whatever it asks for: the cost model is `count`. `similarity` and
    `balance` are those of the tree (`kdt_tree_plan`).
    """
    tree = kdt_tree_plan(statistics, workers, similarity=similarity, balance=balance)
    q = statistics.queries
    place = (q.at_x, q.at_y, q.at_x, q.at_y)
    # As one that wants all of its keywords, a subscription is filed under the rarest alone.
    off, held_by = tree.route_regions(Regions.of(place, q.kw_off, q.kw, np.zeros(len(q), np.bool_), number=q.number))
    worker = held_by[off[:-1]]  # one without keywords, in a box that is divided by text, would be everywhere
    costs = np.ones(len(q))
    return AssignmentPlan.of(statistics, workers, "count", worker, loads(costs, worker, workers), cost=costs)
