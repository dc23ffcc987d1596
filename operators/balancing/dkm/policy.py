"""When subscriptions move, how much of the load, and to whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from operators.balancing.load_watch import IMPATIENT, at_least_one, overloaded, rested, sustained
from operators.balancing.policy import Ask, Change, Decision, Policy, Step, View
from partitioners.columns import Floats, Ints, Workers
from partitioners.plans.plan import Plan

__all__ = ["DKM", "DkmSettings"]


@dataclass(frozen=True, slots=True)
class DkmSettings:
    """The settings of the policy `dkm`.

    Attributes:
        threshold: nothing moves while the largest cost is at most so many times the mean.
        reports: costs are the mean of so many reports; nothing moves before there are so many under one plan.
        patience: the threshold must be exceeded in so many reports, one after the other.
        most: so many subscriptions move in a round at most.
    """

    threshold: float = 1.1
    reports: int = 3
    patience: int = 2
    most: int = 2_000

    def __post_init__(self) -> None:
        at_least_one(self, "threshold", "reports", "patience", "most")


def _objection(plan: Plan) -> str | None:
    if hasattr(plan, "with_moved"):
        return None
    return (
        f"it moves single subscriptions, but a plan of the kind '{plan.kind}' divides something else; use the partitioner "
        "hash, dkm-sks, kop, sop or ps2stream, or another policy"
    )


def _decide(view: View) -> tuple[Decision, Any]:
    load, memory = sustained(view)
    if load is None:
        return None, memory
    if not view.answers:
        return Ask(_questions(load, view.settings)), view.state
    change = _change(view.plan, load, view.answers)
    return change, rested(memory, changed=change is not None)


def _questions(load: Floats, settings: DkmSettings) -> dict[int, list[float]]:
    """Ask those that are clearly above the mean for what is above it: [to shed, all that it did, how many at most]."""
    mean = float(load.mean())
    asked = overloaded(load, settings.threshold)
    each = max(settings.most // len(asked), 1)
    return {worker: [float(load[worker]) - mean, float(load[worker]), each] for worker in asked}


def _change(plan: Any, load: Floats, answers: Mapping[int, Any]) -> Change | None:
    """Give what was named, the dearest first, to who has least to do by then, as long as that makes the two more equal."""
    giver = np.concatenate([np.full(len(numbers), worker) for worker, (numbers, _) in sorted(answers.items())])
    number, cost = (
        np.concatenate([np.array(answer[place], kind) for _, answer in sorted(answers.items())])
        for place, kind in enumerate((np.int64, np.float64))
    )
    now, taker = load.copy(), np.full(len(number), -1, np.int32)
    for row in np.argsort(-cost, kind="stable").tolist():
        least = int(now.argmin())
        if now[least] + cost[row] < now[giver[row]]:
            taker[row] = least
            now[least] += cost[row]
            now[giver[row]] -= cost[row]
    moved = taker >= 0
    if not moved.any():
        return None
    steps = _steps(load, giver[moved], taker[moved], cost[moved])
    return Change(plan.with_moved(number[moved], taker[moved]), steps)


def _steps(load: Floats, giver: Ints, taker: Workers, cost: Floats) -> tuple[Step, ...]:
    """Say for each pair of workers what moves between them, and why."""
    found = []
    mean = load.mean()
    for one, other in sorted(set(zip(giver.tolist(), taker.tolist(), strict=True))):
        pairs = (giver == one) & (taker == other)
        why = (
            f"{int(pairs.sum()):,} subscriptions of cost {cost[pairs].sum():,.0f}: {one} had {load[one]:,.0f} and {other} had "
            f"{load[other]:,.0f}, with a mean of {mean:,.0f}"
        )
        found.append(Step("subscriptions", frozenset({one, other}), why))
    return tuple(found)


DKM = Policy(
    "dkm",
    "moves the fewest subscriptions that make costs equal again, for plans that know single ones",
    "weighed",
    DkmSettings,
    _decide,
    _objection,
    impatient=IMPATIENT,
)
