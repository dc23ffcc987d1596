"""The chronicle of a run: everything is there to go back to, coarser with age, in bounded memory."""

import numpy as np
import pytest
from view_inputs import START, plan, tick

from service.view import chronicle as chronicle_module
from service.view.chronicle import COARSER, FINEST, Chronicle
from service.view.frames import decode_frame
from service.view.observer import state_frame


def test_long_run_is_remembered_whole_in_few_moments():
    """Nothing that was counted is lost by joining; the newest are as they came, older ones longer and longer."""
    chronicle = Chronicle()
    count = 20_000
    for number in range(count):
        chronicle.take(tick(number))
    moments = list(chronicle.moments())
    assert len(moments) <= FINEST + COARSER * 9
    assert sum(moment.objects for moment in moments) == 10 * count
    assert sum(moment.span for moment in moments) == pytest.approx(0.1 * count)
    assert np.sum([moment.costs for moment in moments], axis=0).tolist() == [count, 3 * count]
    assert {moment.efficiency for moment in moments} == {0.5}
    times = [moment.t for moment in moments]
    assert times == sorted(times)
    spans = [round(moment.span, 3) for moment in moments]
    assert spans == sorted(spans, reverse=True)
    assert spans[-FINEST:] == [0.1] * FINEST
    assert all(len(moment.object_places) <= 2 * chronicle_module.KEPT_OBJECTS for moment in moments)


def test_moment_of_the_past_is_that_of_its_time():
    """With its numbers and places, from the first to beyond the last."""
    chronicle = Chronicle()
    assert chronicle.at(3.0) is None
    for number in range(100):
        chronicle.take(tick(number, serial=1 + number // 50))
    for t, number in ((0.0, 0), (0.1, 0), (5.05, 50), (10.0, 99), (99.0, 99)):
        header, columns = decode_frame(chronicle.at(t))
        assert header["epoch"] == number
        assert columns["objects"].tolist() == [number, 5]
        assert header["serial"] == 1 + number // 50


def test_plans_are_kept_in_a_bounded_number():
    """Of too many every second old one goes; who asks for it is given the one before."""
    chronicle = Chronicle()
    assert chronicle.plan(1) is None
    for serial in range(1, 1_001):
        chronicle.take(plan(serial))
    kept = {decode_frame(chronicle.plan(serial))[0]["serial"] for serial in range(1, 1_001)}
    assert len(kept) <= chronicle_module.MOST_PLANS
    assert {1, *range(950, 1_001)} <= kept
    for serial in (1, 2, 333, 1_000):
        assert decode_frame(chronicle.plan(serial))[0]["serial"] <= serial


def test_events_are_kept_in_a_bounded_number_and_counted():
    """The newest stay."""
    chronicle = Chronicle()
    for number in range(3_000):
        chronicle.take(tick(number, events=[{"what": "move", "t": number}]))
    header, _ = decode_frame(chronicle.hello()[0])
    assert header["happened"] == 3_000
    assert [event["t"] for event in header["events"]] == list(range(3_000 - chronicle_module.MOST_EVENTS, 3_000))


def test_who_comes_later_is_told_everything():
    """What runs, its curves, its events, its state and the plan in force."""
    chronicle = Chronicle()
    assert decode_frame(chronicle.hello()[0])[0]["state"] == "starting"
    for frame in (START, plan(1), plan(2), *(tick(number, serial=2) for number in range(5))):
        chronicle.take(frame)
    hello, shown = chronicle.hello()
    header, columns = decode_frame(hello)
    assert (header["start"]["name"], header["state"], header["tick"]["epoch"]) == ("x", "running", 4)
    assert columns["curve_objects"].tolist() == pytest.approx([100.0] * 5)
    assert columns["curve_costs"].reshape(5, 2).tolist() == [pytest.approx([10.0, 30.0])] * 5
    assert decode_frame(shown)[0]["serial"] == 2
    chronicle.take(state_frame("failed", "a bolt could not"))
    header, _ = decode_frame(chronicle.hello()[0])
    assert (header["state"], header["error"]) == ("failed", "a bolt could not")


def test_process_that_was_started_again_goes_on_in_time():
    """Its time, its plans and its events come behind those before; what is shown to others says the same."""
    chronicle = Chronicle()
    for frame in (START, plan(1), plan(2), *(tick(number, serial=2) for number in range(20))):
        assert chronicle.take(frame) == frame
    chronicle.take(START)
    shown = [
        decode_frame(chronicle.take(frame))[0]
        for frame in (plan(1), tick(0, events=[{"what": "move", "t": 0.1, "serial": 1}]))
    ]
    assert shown[0]["serial"] == shown[1]["serial"] == shown[1]["events"][0]["serial"] == 3
    assert shown[1]["t"] == pytest.approx(3.1)
    assert shown[1]["events"][0]["t"] == pytest.approx(3.1)
    times = [moment.t for moment in chronicle.moments()]
    assert times == sorted(times)
    assert len(times) == 21
