"""A run over time: bounded, complete, and the same in whatever order reports come."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from topology.timeline import Timeline

COSTS = st.lists(st.integers(0, 50), min_size=3, max_size=3)
EPOCHS = st.lists(st.tuples(st.integers(0, 9), COSTS, st.integers(0, 30)), max_size=60)


class ShortTimeline(Timeline):
    """Joins entries early."""

    MOST = 8


def told(events, order=None):
    timeline = ShortTimeline()
    calls = []
    for epoch, (objects, costs, busy) in enumerate(events):
        calls += [
            lambda e=epoch, o=objects, b=busy: timeline.report(e, o, b),
            lambda e=epoch, c=costs: timeline.weigh(e, c),
            lambda e=epoch, b=busy: timeline.ack(e, e / 10, b),
        ]
    for place in order if order is not None else range(len(calls)):
        calls[place]()
    return timeline.as_list()


@given(EPOCHS)
def test_timeline_is_bounded_and_loses_nothing(events):
    """There are never more entries than allowed, and they add up to what went in."""
    entries = told(events)
    assert len(entries) <= 1 + ShortTimeline.MOST
    assert entries[0]["objects"] == 0
    assert sum(entry["epochs"] for entry in entries) == len(events)
    assert entries[-1]["objects"] == sum(objects for objects, _, _ in events)
    assert sum(sum(entry["costs"]) for entry in entries) == sum(sum(costs) for _, costs, _ in events)
    assert sum(entry["peak"] for entry in entries) == sum(max(costs) for _, costs, _ in events)
    assert max(entry["busiest_ms"] for entry in entries) == max((busy for _, _, busy in events), default=0)
    starts = [entry["epoch"] for entry in entries[1:]]
    assert starts == sorted(set(starts))
    for entry, after in pairwise(entries[1:]):
        assert entry["epoch"] + entry["epochs"] == after["epoch"]


@given(EPOCHS, st.randoms(use_true_random=False))
def test_timeline_does_not_depend_on_the_order_of_reports(events, random):
    """Reports of other tasks may come late, several together."""
    order = list(range(3 * len(events)))
    random.shuffle(order)
    assert told(events, order) == told(events)


def test_timeline_may_begin_late():
    """A run that is taken up again at a late epoch lists what it saw, and no empty entries before it."""
    timeline = ShortTimeline()
    timeline.report(100, 5, 1.0)
    timeline.weigh(100, [2, 3])
    timeline.ack(100, 1.0, 2.0)
    assert [(e["epoch"], e["epochs"], e["costs"], e["peak"]) for e in timeline.as_list()[1:]] == [(96, 1, [2, 3], 3)]
