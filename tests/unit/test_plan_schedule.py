"""The plan in force, the next one, and those that a window reaches back to."""

from dataclasses import replace

import numpy as np
import pytest

from operators.balancing.orders import Order, PlanSchedule, loaded_plan, saved_plan
from partitioners import HashPlan
from partitioners.plans.plan_change import change_between, pack_change
from streams.errors import InputError
from streams.geometry import Rect
from streams.state import pack_state, unpack_state
from streams.window import Window

PLAN = HashPlan(Rect(0, 0, 1, 1), 3)


def replaced(schedule, watermark):
    """Put a successor of the plan in force."""
    new = schedule.plan.with_units(np.array([0]), np.array([(schedule.plan.unit_worker[0] + 1) % 3]))
    schedule.follow(Order("prepare", payload=pack_change(change_between(schedule.plan, new))))
    schedule.end_epoch(watermark)
    schedule.follow(Order("switch"))
    return new


@pytest.mark.parametrize("window", [None, Window(objects=5)])
def test_schedule_without_a_window_of_time_keeps_the_plan_in_force_alone(window):
    """Nobody can ask for objects of an older one."""
    schedule = PlanSchedule(PLAN, window)
    for watermark in (10, 20):
        new = replaced(schedule, watermark)
    assert [plan.version for plan in schedule.history.plans] == [new.version] == [3]


def test_schedule_keeps_plans_for_as_long_as_the_window_reaches_back():
    """A plan goes when its successor was in force before the window began."""
    schedule = PlanSchedule(PLAN, Window(ms=100))
    for watermark in (50, 120, 160, 240):
        replaced(schedule, watermark)
    assert schedule.plan.version == 5
    assert [plan.version for plan in schedule.history.since(140)] == [3, 4, 5]
    assert schedule.history.at(130).version == 3
    assert [plan.version for plan in schedule.history.plans] == [3, 4, 5]


def test_schedule_goes_on_from_a_state_in_mid_round():
    """Plans are parts of the state, and the next one is still to come."""
    schedule = PlanSchedule(PLAN, Window(ms=100))
    replaced(schedule, 5)
    coming = schedule.plan.with_units(np.array([1]), np.array([0]))
    schedule.follow(Order("prepare", payload=pack_change(change_between(schedule.plan, coming))))
    schedule.end_epoch(9)
    other = PlanSchedule(PLAN, Window(ms=100))
    other.restore(unpack_state(pack_state(schedule.snapshot())))
    for one in (schedule, other):
        one.follow(Order("switch"))
    assert [plan.version for plan in other.history.plans] == [1, 2, 3]
    assert other.history.times == schedule.history.times == (0, 5, 9)
    assert other.plan.unit_worker.tolist() == coming.unit_worker.tolist()


def test_schedule_of_a_window_takes_times_before_zero():
    """The first plan is noted from 0 on, and event time may begin before: later plans are never noted before earlier ones."""
    schedule = PlanSchedule(PLAN, Window(ms=100))
    for watermark in (-8, -5, 3):
        replaced(schedule, watermark)
    assert schedule.history.times == (0, 0, 0, 3)
    assert [plan.version for plan in schedule.history.since(-9)] == [1, 2, 3, 4]


def test_schedules_that_share_a_plan_follow_their_own_changes():
    """A plan is worked out once for all tasks of a process, but another change, or another plan, is another matter."""
    changes = [PLAN.with_units(np.array([0]), np.array([worker])) for worker in (1, 2)]
    orders = [Order("prepare", payload=pack_change(change_between(PLAN, new))) for new in changes]
    for new, order in zip(changes, orders, strict=True):
        schedule = PlanSchedule(PLAN)
        schedule.follow(order)
        assert schedule.next.unit_worker.tolist() == new.unit_worker.tolist()
    with pytest.raises(InputError, match="does not fit this version 1"):
        PlanSchedule(HashPlan(Rect(0, 0, 1, 1), 2)).follow(orders[1])


def test_saved_plans_of_one_version_are_told_apart():
    """Two runs of a process, or one that went back, may have changed the same plan in two ways."""
    changes = [PLAN.with_units(np.array([0]), np.array([worker])) for worker in (1, 2)]
    for saved, new in zip([saved_plan(new) for new in changes], changes, strict=True):
        assert loaded_plan(unpack_state(pack_state({"plan": saved}))["plan"]).unit_worker[0] == new.unit_worker[0]


def test_saved_plan_is_one_part_however_often_it_is_saved():
    """All tasks that follow a plan refer to the same part, and get the same plan back."""
    assert saved_plan(PLAN) is saved_plan(PLAN)
    assert saved_plan(replace(PLAN)).key == saved_plan(PLAN).key
    assert saved_plan(PLAN.with_units(np.array([0]), np.array([1]))).key != saved_plan(PLAN).key
    assert loaded_plan(saved_plan(PLAN)) is loaded_plan(saved_plan(PLAN))
