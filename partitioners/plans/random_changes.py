"""Any plan, changed by lot: whatever a plan becomes in mid-run, the answers must stay the same."""

from dataclasses import replace

import numpy as np

from partitioners.plans.assignment_plan import AssignmentPlan
from partitioners.plans.broadcast import HashPlan
from partitioners.plans.divisible import KEYWORD, Cut, Room
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.keyword_first import KeywordFirstPlan
from partitioners.plans.plan import Plan, successor
from partitioners.plans.qt_adjustment import AskedWords, mergeable, merged, quartered, split_by_space, split_by_text
from partitioners.plans.qt_tree import QtTreePlan
from streams.vocabulary import UNSEEN_BASE

__all__ = ["random_change"]

#: The most units and subscriptions that move at once.
_MOVES = 64

#: The most cuts and merges at once, and units that are cut no further.
_CUTS, _UNITS = 3, 48

#: Subscriptions that a plan does not know yet are drawn from this many numbers.
_NUMBERS = 200


def random_change(plan: Plan, rng: np.random.Generator) -> Plan | None:
    """Return a valid next version in which some units, or subscriptions, have other workers; None where nothing can move.

    Plans that know subscriptions by number also move some that they did not know; units that can be cut and merged are.
    """
    if plan.workers < 2:
        return None
    if isinstance(plan, AssignmentPlan | HashPlan) and (rng.random() < 0.5 or not len(plan.unit_worker)):
        highest = max(_NUMBERS, int(plan.number[-1]) + 1 if len(plan.number) else 0)
        numbers = np.unique(rng.integers(0, highest, int(rng.integers(1, _MOVES + 1))))
        return plan.with_moved(numbers, rng.integers(0, plan.workers, len(numbers)))
    if not len(plan.unit_worker):
        return None
    if isinstance(plan, GridPlan | KeywordFirstPlan | QtTreePlan) and rng.random() < 0.5:
        made = plan
        for _ in range(int(rng.integers(1, _CUTS + 1))):
            made = _adjusted(made, rng) if isinstance(made, QtTreePlan) else _cut_or_merged(made, rng)
        if made is not plan:
            return successor(made, version=plan.version + 1)
    return _moved(plan, rng)


def _moved(plan: Plan, rng: np.random.Generator) -> Plan:
    units = len(plan.unit_worker)
    count = int(rng.integers(1, min(_MOVES, max(1, units // 2)) + 1))
    moving = rng.choice(units, count, replace=False)
    step = rng.integers(1, plan.workers, count)
    return plan.with_units(moving, (plan.unit_worker[moving] + step) % plan.workers)


def _cut_or_merged(plan: GridPlan | KeywordFirstPlan, rng: np.random.Generator) -> GridPlan | KeywordFirstPlan:
    """Merge two units, or cut one and mostly give a piece away; the plan itself where neither is possible."""
    pairs = plan.mergeable() if rng.random() < 0.5 else []
    if pairs:
        return plan.merged(*pairs[int(rng.integers(len(pairs)))])
    unit = int(rng.integers(len(plan.unit_worker)))
    rooms = plan.room(unit)
    if not rooms or len(plan.unit_worker) >= _UNITS:
        return plan
    room = rooms[int(rng.integers(len(rooms)))]
    divided = plan.divided(Cut(unit, room[0], _place(room, plan, rng)))
    if rng.random() < 0.2:
        return divided.plan
    given = divided.unit if rng.random() < 0.5 else int(np.flatnonzero(divided.origin == unit)[0])
    return divided.plan.with_units([given], [int(rng.integers(plan.workers))])


def _adjusted(plan: QtTreePlan, rng: np.random.Generator) -> QtTreePlan:
    """Merge four leaves, or split one by space or by text and give some of the pieces away."""
    nodes = mergeable(plan)
    if len(nodes) and rng.random() < 0.5:
        return merged(plan, int(rng.choice(nodes)), int(rng.integers(plan.workers)))[0]
    leaf = int(rng.integers(plan.leaves))
    if plan.leaves >= _UNITS:
        return plan
    if rng.random() < 0.5 and quartered(tuple(plan.leaf_box[leaf].tolist()), plan.space.as_tuple()) is not None:
        made = split_by_space(plan, leaf)
    else:
        words = np.unique(rng.integers(0, _NUMBERS, 20))
        shares = rng.random((len(words), 2)) / len(words)
        made = split_by_text(plan, leaf, replace(AskedWords.none(), words=words, shares=shares, weight=rng.random(2)))
    return made.with_units([leaf, plan.leaves], rng.integers(0, plan.workers, 2))


def _place(room: Room, plan: GridPlan | KeywordFirstPlan, rng: np.random.Generator) -> int:
    """Draw where to cut; keywords are drawn from those that there are likely to be: ranks, named ones, hashes."""
    axis, low, high, _ = room
    if axis == KEYWORD:
        named = plan.range_start[(plan.range_start >= low) & (plan.range_start <= high)]
        lot = int(rng.integers(3))
        if lot == 0 and len(named):
            return int(rng.choice(named))
        if lot == 1 and low <= UNSEEN_BASE <= high:
            low = UNSEEN_BASE
        elif low <= _NUMBERS:
            high = min(high, _NUMBERS)
    return int(rng.integers(low, high, endpoint=True))
