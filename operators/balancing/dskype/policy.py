"""When units are moved, cut and merged, which ones, and who gets what."""

from dataclasses import dataclass
from typing import Any, cast

from operators.balancing.dskype.draft import Draft, Option
from operators.balancing.dskype.unit_costs import UnitCosts
from operators.balancing.load_watch import IMPATIENT, at_least_one, overloaded, rested, sustained
from operators.balancing.policy import Ask, Change, Decision, Policy, Step, View
from partitioners.columns import Floats
from partitioners.plans.divisible import Divisible
from partitioners.plans.grid_plan import GridPlan
from partitioners.plans.plan import Plan, successor

__all__ = ["DSKYPE", "DskypeSettings"]

#: What fits: so much of what should move, at least and at most; of whole units less is enough, because nothing is cut.
LEAST, MOST, WHOLE = 0.75, 1.1, 0.4

#: What must be gained, as a share of the mean load, where nothing fits.
GAIN = 0.02


@dataclass(frozen=True, slots=True)
class DskypeSettings:
    """The settings of the policy `dskype`.

    Attributes:
        threshold: nothing is changed while the largest cost is at most so many times the mean.
        reports: costs are the mean of so many reports; nothing is changed before there are so many under one plan.
        patience: the threshold must be exceeded in so many reports, one after the other.
        operations: so many units are moved or cut in a round at most.
        units: there are at most so many units for each worker; from half of that on, neighbours are merged.
    """

    threshold: float = 1.1
    reports: int = 2
    patience: int = 1
    operations: int = 32
    units: int = 16

    def __post_init__(self) -> None:
        at_least_one(self, "threshold", "reports", "patience", "operations", "units")


def _objection(plan: Plan) -> str | None:
    use = "use the partitioner location, keyword, prefix, spatial-first, keyword-first or text, or another policy"
    if not hasattr(plan, "divided"):
        hint = "; 'dkm' moves single subscriptions" if hasattr(plan, "with_moved") else ""
        return f"it cuts and merges places and ranges of keywords, and a plan of the kind '{plan.kind}' has none{hint}; {use}"
    if isinstance(plan, GridPlan) and not plan.anchored and plan.grid.cells > 1:
        return (
            "the plan divides objects by place, so that what a query costs does not say which place is dear; 'tornado' "
            f"moves the borders of such plans; {use}"
        )
    return None


def _decide(view: View) -> tuple[Decision, Any]:
    load, memory = sustained(view)
    if load is None:
        return None, memory
    if not view.answers:
        return Ask({w: float(load[w]) for w in overloaded(load, view.settings.threshold)}), view.state
    change = _change(cast(Divisible, view.plan), load, view)
    return change, rested(memory, changed=change is not None)


def _change(plan: Divisible, load: Floats, view: View) -> Change | None:
    """Let who has most give to who has least, one operation after the other; then merge what need not be apart."""
    settings: DskypeSettings = view.settings
    draft = Draft.of(plan, load, [UnitCosts.of(answer) for _, answer in sorted(view.answers.items())])
    givers = set(view.answers)
    steps: list[Step] = []
    while len(steps) < settings.operations:
        giver = max(givers & set(overloaded(draft.load, settings.threshold)), key=lambda w: draft.load[w], default=None)
        if giver is None:
            break
        taker = int(draft.load.argmin())
        option = _chosen(draft, giver, taker, settings.units * plan.workers)
        if option is None:
            givers.remove(giver)
            continue
        steps.append(_step(draft, option, giver, taker))
        draft = draft.taken(option, taker)
    if not steps:
        return None
    merged, merges = _merged(draft.plan, load, settings.units * plan.workers)
    return Change(successor(merged, version=plan.version + 1), (*steps, *merges))


def _chosen(draft: Draft, giver: int, taker: int, most: int) -> Option | None:
    """Return what one worker should give to another: a unit, or else a piece of one.

    A piece is best cut off without cutting others, and by keyword: objects of a range that is cut by place go to both
    workers. Of those that fit, the one with the fewest queries for its cost is taken; where nothing fits, what makes the
    larger of the two loads smallest.
    """
    mean, load = float(draft.load.mean()), draft.load
    want = min(float(load[giver]) - mean, mean - float(load[taker]))
    whole = draft.units_of(giver)
    cuts = [o for o in draft.cuts_of(giver) if len(draft.plan.unit_worker) + o.adds <= most]
    single = [o for o in cuts if o.adds == 1]
    for options, least in (
        (whole, WHOLE),
        ([o for o in single if o.by_keyword], LEAST),
        (single, LEAST),
        (cuts, LEAST),
    ):
        if fitting := [o for o in options if least * want <= o.cost <= MOST * want]:
            return min(fitting, key=lambda o: (o.queries / o.cost, abs(o.cost - want)))

    def larger(option: Option) -> float:
        return max(float(load[giver]) - option.cost, float(load[taker]) + option.cost)

    better = [o for o in (*whole, *cuts) if o.cost > 0 and larger(o) < load[giver] - GAIN * mean]
    return min(better, key=lambda o: (larger(o), o.adds, o.queries), default=None)


def _step(draft: Draft, option: Option, giver: int, taker: int) -> Step:
    """Say what moves, and why."""
    what = f"unit {option.unit}"
    if option.cut is not None:
        side = "at or above" if option.above else "below"
        what = f"of {what} what is {side} {('column', 'row', 'keyword')[option.cut.axis]} {option.cut.at}"
    why = (
        f"{what}, about {option.queries:,.0f} queries of cost {option.cost:,.0f}: {giver} had {draft.load[giver]:,.0f} and "
        f"{taker} had {draft.load[taker]:,.0f}, with a mean of {draft.load.mean():,.0f}"
    )
    return Step("move" if option.cut is None else "split", frozenset({giver, taker}), why)


def _merged(plan: Divisible, load: Floats, most: int) -> tuple[Divisible, list[Step]]:
    """Merge neighbours of one worker: those of idle workers, and all where there are many units; no query moves by it."""
    idle = load < load.mean() / 2
    steps: list[Step] = []
    while True:
        many = len(plan.unit_worker) > most // 2
        pairs = [pair for pair in plan.mergeable() if many or idle[plan.unit_worker[pair[0]]]]
        if not pairs:
            return plan, steps
        one, other = pairs[0]
        worker = int(plan.unit_worker[one])
        why = f"{len(plan.unit_worker)} units of at most {most}" if many else f"{worker} had {load[worker]:,.0f} to do"
        steps.append(Step("merge", frozenset({worker}), f"units {one} and {other}: {why}"))
        plan = plan.merged(one, other)


DSKYPE = Policy(
    "dskype",
    "splits overloaded partitions and merges idle ones, for plans of places and ranges of keywords",
    "units",
    DskypeSettings,
    _decide,
    _objection,
    impatient=IMPATIENT,
)
