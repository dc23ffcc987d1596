"""Past plans by example: who was in force when, and what is forgotten."""

import pytest

from partitioners import ReplicatePlan
from partitioners.plans import plan_history
from partitioners.plans.plan_history import PlanHistory
from streams.errors import InputError
from streams.geometry import Rect

SPACE = Rect(0, 0, 1, 1)


def _history(*times):
    history = PlanHistory.of(ReplicatePlan(SPACE, 2), times[0])
    for number, ts in enumerate(times[1:], start=2):
        history = history.with_next(ReplicatePlan(SPACE, 2, version=number), ts)
    return history


@pytest.mark.parametrize(
    ("ts", "at", "since"),
    [
        (-5, 1, [1, 2, 3, 4]),
        (0, 1, [1, 2, 3, 4]),
        (99, 1, [1, 2, 3, 4]),
        (100, 3, [1, 2, 3, 4]),
        (101, 3, [3, 4]),
        (200, 4, [3, 4]),
        (201, 4, [4]),
    ],
)
def test_history_knows_the_plans_of_a_time(ts, at, since):
    """The newest of a time is in force; since a time are all that may have routed an object of it or later."""
    history = _history(0, 100, 100, 200)
    assert history.at(ts).version == at
    assert [plan.version for plan in history.since(ts)] == since
    assert [plan.version for plan in history.pruned(ts).plans] == since
    assert history.pruned(ts).at(ts).version == at
    assert history.newest.version == 4


def test_history_keeps_the_plan_in_force_when_all_is_pruned():
    """However late it is, the newest plan stays, and the history can go on."""
    history = _history(0, 100).pruned(10**15)
    assert (len(history), history.at(0).version) == (1, 2)
    assert len(history.with_next(ReplicatePlan(SPACE, 2, version=3), 10**15)) == 2


def test_history_refuses_plans_and_times_that_go_back():
    """Versions ascend, times do not descend, and each plan has a time."""
    history = _history(0, 100)
    for version, ts in ((2, 300), (1, 300), (3, 99)):
        with pytest.raises(InputError, match="cannot follow"):
            history.with_next(ReplicatePlan(SPACE, 2, version=version), ts)
    with pytest.raises(InputError, match="one time for each"):
        PlanHistory((), ())
    assert len(history.with_next(ReplicatePlan(SPACE, 2, version=3), 100)) == 3


def test_history_is_bounded(monkeypatch):
    """More versions than the limit are refused with what to do; as many are not."""
    monkeypatch.setattr(plan_history, "MAX_PAST_PLANS", 3)
    history = _history(0, 1, 2)
    with pytest.raises(InputError, match="prune it"):
        history.with_next(ReplicatePlan(SPACE, 2, version=4), 3)
    assert len(history.pruned(2).with_next(ReplicatePlan(SPACE, 2, version=4), 3)) == 3
