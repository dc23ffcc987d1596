"""Past plans: which version was in force when, for as long as a window reaches back.

An object that is kept was routed by the plan of its time. Whoever asks for kept objects asks the workers of every plan
that was in force since the window began.
"""

from bisect import bisect_right
from dataclasses import dataclass

from partitioners.plans.plan import Plan
from streams.errors import InputError

__all__ = ["MAX_PAST_PLANS", "PlanHistory"]

#: The most versions that a history may hold.
MAX_PAST_PLANS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class PlanHistory:
    """Versions of a plan and the times from which they are in force, both ascending.

    Times are milliseconds of event time, or epochs: whichever the caller counts in. The first version is in force from the
    beginning, whatever time it has. A version gives way at the very time of its successor, and an epoch may end in the middle
    of a millisecond: at that time, both count as in force.
    """

    plans: tuple[Plan, ...]
    times: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.plans or len(self.plans) != len(self.times):
            raise InputError(
                f"a history of {len(self.plans)} plans and {len(self.times)} times; expected one time for each"
            )
        if len(self.plans) > MAX_PAST_PLANS:
            raise InputError(
                f"a history of {len(self.plans):,} plans, at most {MAX_PAST_PLANS:,}; prune it, or rebalance less often in "
                "the time that a window reaches back"
            )
        for number in range(1, len(self.plans)):
            old, new = self.plans[number - 1], self.plans[number]
            if new.version <= old.version or self.times[number] < self.times[number - 1]:
                raise InputError(
                    f"version {new.version} of a plan from {self.times[number]} on cannot follow version {old.version} "
                    f"from {self.times[number - 1]} on"
                )

    @classmethod
    def of(cls, plan: Plan, from_ts: int = 0) -> "PlanHistory":
        """Begin a history."""
        return cls((plan,), (from_ts,))

    @property
    def newest(self) -> Plan:
        """The plan that was added last."""
        return self.plans[-1]

    def __len__(self) -> int:
        return len(self.plans)

    def at(self, ts: int) -> Plan:
        """Return the version in force at a time; where one gives way to another, the new one."""
        return self.plans[max(bisect_right(self.times, ts) - 1, 0)]

    def since(self, ts: int) -> tuple[Plan, ...]:
        """Return all versions that were in force at a time or later, oldest first."""
        return self.plans[self._first(ts) :]

    def with_next(self, plan: Plan, from_ts: int) -> "PlanHistory":
        """Return the history with one more version, in force from a time on."""
        return PlanHistory((*self.plans, plan), (*self.times, from_ts))

    def pruned(self, before_ts: int) -> "PlanHistory":
        """Return the history without the versions that ended before a time: no window reaches them any more."""
        first = self._first(before_ts)
        return self if first == 0 else PlanHistory(self.plans[first:], self.times[first:])

    def _first(self, ts: int) -> int:
        """Return the first version whose successor does not begin before a time."""
        return next((n for n in range(len(self.plans) - 1) if self.times[n + 1] >= ts), len(self.plans) - 1)
