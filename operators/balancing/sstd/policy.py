"""When leaves move, and which of PM, FM and FG says so (SSTD, Section 5)."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from operators.balancing.load_watch import at_least_one
from operators.balancing.policy import Ask, Change, Decision, Policy, Step, View
from operators.balancing.sstd.adjustment import Draft, adjusted
from operators.balancing.sstd.leaf_counts import LeafCounts, LeafReport
from operators.balancing.sstd.leaf_units import objection
from operators.balancing.sstd.query_cells import Cells
from operators.balancing.sstd.reallocation import all_workers, lopsided, two_workers
from partitioners.columns import Floats, Workers
from partitioners.costs.allocation import loads
from partitioners.plans.plan import Plan, successor
from partitioners.plans.qt_tree import QtTreePlan
from streams.errors import DeclarationError, did_you_mean

__all__ = ["METHODS", "SSTD", "SstdSettings"]

#: In the order in which they are tried.
METHODS = ("pm", "fm", "fg")


@dataclass(frozen=True, slots=True)
class SstdSettings:
    """The settings of the policy `sstd`.

    Attributes:
        threshold: lambda; nothing moves while L_max / L_min is at most this.
        epsilon: a leaf is split by space where h-hat is at most this, else by text.
        methods: which of PM, FM and FG are tried, as in "pm,fm,fg"; always in this order.
        reports: nothing moves before there are so many reports under one plan.
        remembered: counts are the mean of so many reports at most, as far as they are under one plan.
        doubt: load is uneven only if it still is when the largest load is so many standard deviations smaller, and the smallest
            larger: chance alone decides how many objects a worker gets in a short time. 0 is the paper's rule.
        gain: where balance cannot be reached, the largest load must shrink by so much of it, or nothing moves.
        settling: so many reports after a change are passed over: what has moved away is dropped bit by bit.
        leaves: FG makes at most so many leaves for each worker.
        operations: FG splits at most so many leaves in a round.
        cells: with so many cells of J each evaluator answers at most.
        rest: after FG could do nothing, it is tried again after so many reports.
        measured: an object counts with the queries that it has to be held against, as evaluators find in samples, and
            loads of a worker's leaves are scaled so that their sum is the work that it did; else loads are what Equation
            2 says: every object of a leaf with every query that overlaps the leaf.
    """

    threshold: float = 1.25
    epsilon: float = 0.5
    methods: str = "pm,fm,fg"
    reports: int = 2
    remembered: int = 8
    doubt: float = 3.0
    gain: float = 0.1
    settling: int = 1
    leaves: int = 64
    operations: int = 64
    cells: int = 1_024
    rest: int = 8
    measured: bool = False

    def __post_init__(self) -> None:
        at_least_one(self, "threshold", "reports", "remembered", "leaves", "operations", "cells", "rest")
        for name, most in (("doubt", np.inf), ("gain", 1.0)):
            if not 0.0 <= getattr(self, name) <= most:
                bounds = "0 or more" if most == np.inf else f"0 to {most:g}"
                raise DeclarationError(f"{name} = {getattr(self, name)}, expected {bounds}", (name,))
        if not 0.0 <= self.epsilon <= 1.0:
            raise DeclarationError(f"epsilon = {self.epsilon}, expected 0 to 1", ("epsilon",))
        for name in self.chosen:
            if name not in METHODS:
                raise DeclarationError(
                    f"methods = '{self.methods}' has '{name}'{did_you_mean(name, METHODS)}, expected some of "
                    f"{', '.join(METHODS)}",
                    ("methods",),
                )

    @property
    def chosen(self) -> tuple[str, ...]:
        """The methods by name, in the order of the text."""
        return tuple(part.strip() for part in self.methods.split(","))


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """What a method would make of the plan.

    Attributes:
        load: of each worker, as it would be.
        moved: continuous queries that would move, leaf by leaf.
    """

    method: str
    plan: Plan
    load: Floats
    moved: float
    factor: Floats
    steps: tuple[Step, ...] = ()


def _decide(view: View) -> tuple[Decision, Any]:
    settings: SstdSettings = view.settings
    before = view.state or {"version": view.plan.version, "counts": [], "rest": 0, "factor": np.empty(0), "settling": 0}
    if before["version"] != view.plan.version:
        before = before | {"version": view.plan.version, "counts": [], "settling": settings.settling}
    if before["settling"] > 0:
        return None, before | {"settling": before["settling"] - 1}
    now = _all_counts(view.plan, view.reports, np.asarray(before["factor"]), measured=settings.measured)
    kept = [*before["counts"], _saved(now)][-max(settings.reports, settings.remembered) :]
    memory = before | {"counts": kept, "rest": max(before["rest"] - 1, 0), "factor": now.factor}
    counts = replace(LeafCounts.mean([LeafCounts(*map(np.asarray, one)) for one in kept]), factor=now.factor)
    load = loads(counts.load, view.plan.unit_worker, view.plan.workers)
    spread = np.sqrt(loads(counts.variance / len(kept), view.plan.unit_worker, view.plan.workers))
    if len(kept) < settings.reports or lopsided(load, settings.doubt * spread) <= settings.threshold:
        return None, memory
    offers = _reallocations(view.plan, counts, settings)
    if not any(lopsided(offer.load) <= settings.threshold for offer in offers) and _adjusts(view, memory):
        if not view.answers:
            return Ask(dict.fromkeys(range(view.plan.workers), "quadtree")), view.state
        offers += _adjustments(view, counts)
        memory["rest"] = settings.rest
    best = _chosen(offers, load, settings)
    if best is None:
        return None, memory
    return _change(best, view.plan, load, settings), memory | {"factor": best.factor}


def _adjusts(view: View, memory: dict[str, Any]) -> bool:
    """Tell whether FG is to be tried: not again at once where it could do nothing."""
    return "fg" in view.settings.chosen and isinstance(view.plan, QtTreePlan) and memory["rest"] == 0


# --- what is known -------------------------------------------------------------------------------------------------------


def _all_counts(plan: Plan, reports: Sequence[LeafReport], factor: Floats, *, measured: bool) -> LeafCounts:
    """Return the counts of all leaves, each as its worker reports it.

    What an object and a query cost together differs from leaf to leaf, and only sums are known. Where loads are measured, the
    factors of before are corrected for each worker by what it really did; leaves that change hands take theirs along.
    """
    units = len(plan.unit_worker)
    whole = LeafCounts.none(units + 1)
    known = factor if len(factor) == units else np.ones(units)
    for report in reports:
        counts = report.counts if measured else report.counts.by_equation()
        if measured:
            counts = replace(counts, factor=known[report.leaf])
            work = float(counts.load.sum())
            if work > 0 and report.cost > 0:
                counts = replace(counts, factor=counts.factor * report.cost / work)
        place = np.full(units + 1, units)
        place[report.leaf] = np.arange(len(report.leaf)) + units + 1
        rows = np.where(place > units, place, np.arange(units + 1))
        whole = LeafCounts.concat([whole, counts]).take(rows)
    return whole.take(np.arange(units))


def _saved(counts: LeafCounts) -> list[Any]:
    return [getattr(counts, f.name) for f in fields(counts)]


def _held(plan: Plan, standing: Floats) -> Floats:
    held = np.zeros((len(standing), plan.workers))
    held[np.arange(len(standing)), plan.unit_worker] = standing
    return held


# --- what could be done --------------------------------------------------------------------------------------------------


def _reallocations(plan: Plan, counts: LeafCounts, settings: SstdSettings) -> list[_Offer]:
    """Return what PM and FM would do, as far as they are chosen."""
    found, load, held = [], counts.load, _held(plan, counts.standing)
    for method, shuffle in (("pm", two_workers), ("fm", all_workers)):
        if method in settings.chosen and plan.workers > 1:
            worker = shuffle(load, held, plan.unit_worker, plan.workers)
            found.append(_offer(method, plan, counts, held, worker))
    return found


def _adjustments(view: View, counts: LeafCounts) -> list[_Offer]:
    """Return what FG would do."""
    plan, settings = view.plan, view.settings
    assert isinstance(plan, QtTreePlan)
    answers = [Cells.of(answer) for _, answer in sorted(view.answers.items())]
    draft = Draft.of(plan, counts, _held(plan, counts.standing), answers, by_equation=not settings.measured)
    # What pieces cost is an estimate, so they should do better than they must.
    aim = (1 + settings.threshold) / 2
    draft = adjusted(draft, aim, settings.epsilon, settings.leaves * plan.workers, settings.operations)
    worker = all_workers(draft.counts.load, draft.held, draft.plan.unit_worker, plan.workers)
    made = _offer("fg", draft.plan, draft.counts, draft.held, worker)
    steps = tuple(Step(kind, frozenset({one}), why) for kind, one, why in draft.changes)
    costed = successor(draft.plan, version=plan.version + 1, leaf_worker=worker, leaf_cost=draft.counts.load)
    return [replace(made, plan=costed, steps=steps)]


def _offer(method: str, plan: Plan, counts: LeafCounts, held: Floats, worker: Workers) -> _Offer:
    moving = np.flatnonzero(worker != plan.unit_worker)
    moved = float((held.sum(1) - held[np.arange(len(worker)), worker]).sum())
    after = loads(counts.load, worker, plan.workers)
    return _Offer(method, plan.with_units(moving, worker[moving]), after, moved, counts.factor)


# --- what is done --------------------------------------------------------------------------------------------------------


def _chosen(offers: Sequence[_Offer], before: Floats, settings: SstdSettings) -> _Offer | None:
    """Take the first offer that makes load even; where none does, the one that makes it most even, if that is worth it."""
    even = [offer for offer in offers if lopsided(offer.load) <= settings.threshold]
    better = [offer for offer in offers if _gains(offer.load, before, settings.gain)]
    return even[0] if even else min(better, key=lambda offer: float(offer.load.max()), default=None)


def _change(best: _Offer, plan: Plan, before: Floats, settings: SstdSettings) -> Change:
    """Say what is done, and why."""
    why = (
        f"{best.method.upper()}: L_max / L_min was {lopsided(before):.2f}, above lambda {settings.threshold:g}; about "
        f"{best.moved:,.0f} queries move to make it {lopsided(best.load):.2f}"
    )
    touched = np.flatnonzero(before != best.load).tolist() or range(plan.workers)
    whom = frozenset(touched) if best.method == "pm" else frozenset(range(plan.workers))
    return Change(best.plan, (Step(best.method, whom, why), *best.steps))


def _gains(after: Floats, before: Floats, gain: float) -> bool:
    """Tell whether loads are clearly more even, of those workers that have others by then."""
    other = after != before
    return bool(other.any() and after[other].max() < (1 - gain) * before[other].max() and after.max() <= before.max())


SSTD = Policy(
    "sstd",
    "moves leaves (PM, FM), and splits and merges them (FG), for QT-trees and partitions of space",
    "leaves",
    SstdSettings,
    _decide,
    objection,
    lambda settings: {"cells": settings.cells, "pairs": settings.measured},
    impatient={"threshold": 1.0, "reports": 1, "doubt": 0.0, "settling": 0, "rest": 1},
)
