"""What a rebalancing policy is: a pure function from what evaluators report to a change of the plan, a question, or nothing.

A policy sees nothing but its arguments: the same view gives the same decision wherever and whenever it is looked at, so that
every decision of a run can be replayed. What it wants to remember from one round to the next it returns, and gets back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from partitioners.plans.plan import Plan
from streams.errors import DeclarationError, did_you_mean

__all__ = ["Ask", "Change", "Decision", "NoSettings", "Policy", "Step", "View", "settings_of"]


@dataclass(frozen=True, slots=True)
class View:
    """What a policy decides upon.

    Attributes:
        plan: the plan in force.
        reports: what each evaluator reports of its load under that plan, of the kind that the policy asks for.
        settings: the policy's own.
        answers: what evaluators have answered to its questions of this round, by worker; none before it has asked.
        state: what it returned in the round before; None in the first.
    """

    plan: Plan
    reports: Sequence[Any]
    settings: Any
    answers: Mapping[int, Any] = field(default_factory=dict)
    state: Any = None


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a change: what it is called, whom it concerns, and why it was chosen."""

    kind: str
    workers: frozenset[int]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """A plan that is to replace the one in force, and the operations that it is made of."""

    plan: Plan
    steps: tuple[Step, ...]

    def step(self, giver: int, taker: int) -> Step:
        """Return the operation that brought two workers together."""
        both = [step for step in self.steps if {giver, taker} <= step.workers]
        return next(iter(both), next((step for step in self.steps if giver in step.workers), self.steps[0]))


@dataclass(frozen=True, slots=True)
class Ask:
    """Questions to evaluators, by worker; the policy is asked again when all have answered."""

    questions: Mapping[int, Any]


Decision = Change | Ask | None


@dataclass(frozen=True, slots=True)
class NoSettings:
    """The settings of a policy that has none."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy by name.

    Attributes:
        name: its name in a declaration.
        about: one line for a reader.
        statistics: what evaluators report for it; one of `operators.balancing.statistics.STATISTICS`.
        settings: the dataclass of its settings.
        decide: the decision, and what it wants to remember.
        objection: says why a plan cannot be changed by it; None where it can.
        report_options: how finely evaluators report, from its settings.
        impatient: what its settings are in a round that somebody has ordered: what would only make it wait.
    """

    name: str
    about: str
    statistics: str
    settings: type[Any]
    decide: Callable[[View], tuple[Decision, Any]]
    objection: Callable[[Plan], str | None] = lambda _plan: None
    report_options: Callable[[Any], Mapping[str, Any]] = lambda _settings: {}
    impatient: Mapping[str, Any] = field(default_factory=dict)


def settings_of(policy: Policy, given: Mapping[str, Any]) -> Any:
    """Make a policy's settings from plain values; raise `DeclarationError` for what it does not have."""
    known = {f.name: type(f.default) for f in fields(policy.settings)}
    for key, value in given.items():
        if key not in known:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise DeclarationError(
                f"policy '{policy.name}' has no setting '{key}'{did_you_mean(key, known)}; {has}", ("settings", key)
            )
        wanted = (int, float) if known[key] is float else known[key]
        if not isinstance(value, wanted) or (isinstance(value, bool) and known[key] is not bool):
            expected = {int: "a whole number", float: "a number", bool: "true or false"}.get(known[key], "text")
            raise DeclarationError(
                f"setting '{key}' of policy '{policy.name}' is {value!r}, expected {expected}", ("settings", key)
            )
    try:
        return policy.settings(**given)
    except DeclarationError as error:
        raise DeclarationError(error.text, ("settings", *error.path)) from None
