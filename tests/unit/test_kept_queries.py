"""Queries that are answered from kept objects: where they are sent, who holds them, and how long."""

from itertools import pairwise

import numpy as np
import pytest
from range_model import PlainQuery, query_batch

from operators.balancing.orders import MOST_PLANS, Order, PlanSchedule
from operators.evaluation.arrival_log import CHUNK, ArrivalLog
from operators.evaluation.kept_core import KeptCore
from operators.evaluation.knn_core import KnnCore
from operators.evaluation.lingering import Lingering
from operators.evaluation.mixed_core import MixedCore
from operators.evaluation.range_core import RangeCore
from operators.evaluation.terms_core import TermsCore
from operators.indexes import make_range_index
from operators.indexes.knn.registry import make_knn_index
from operators.indexes.objects.registry import make_object_index
from operators.indexes.terms.registry import make_terms_index
from operators.indexes.terms.term_window import TermWindow
from partitioners.builders.kd_decomposition import uniform_plan
from partitioners.grids.fine_grid import FineGrid
from partitioners.plans.plan_change import change_between, pack_change
from streams.batches import FOREVER, NO_WINDOW, OP_UPSERT, TYPE_RANGE, TYPE_TERMS, ObjectBatch
from streams.columns import Ids
from streams.geometry import REGION_RECT, Rect
from streams.state import pack_state, unpack_state

SPACE = Rect(0, 0, 1, 1)
LOW, HIGH = (0.1, 0.1, 0.2, 0.2), (0.1, 0.8, 0.2, 0.9)


def asked(box, ts, window, number=0, type_=TYPE_RANGE, *, slide=0):
    """Return a snapshot of a box, or what is asked at every slide."""
    return query_batch(
        [
            PlainQuery(
                number,
                REGION_RECT,
                box,
                ts=ts,
                type=type_,
                slide=slide,
                window=window,
                continuous=slide > 0,
                k=3 if slide else 0,
            )
        ]
    )


def workers(routes):
    off, worker = routes
    return [worker[start:stop].tolist() for start, stop in pairwise(off)]


def exchanged(schedule, watermark):
    """Exchange the two workers of a plan at a time."""
    plan = schedule.plan.with_units([0, 1], schedule.plan.unit_worker[::-1])
    schedule.follow(Order("prepare", payload=pack_change(change_between(schedule.plan, plan))))
    schedule.end_epoch(watermark)
    schedule.follow(Order("switch"))


def schedule_of(kept_ms):
    return PlanSchedule(uniform_plan(FineGrid(SPACE, 16, 16), 2), kept_ms=kept_ms)


def test_snapshots_go_to_the_workers_of_every_plan_that_their_window_reaches():
    """The lower half was one worker's until 100 and the other's since; a standing query goes by the last plan alone."""
    schedule = schedule_of(1000)
    first, second = workers(schedule.route_queries(asked(LOW, 50, 10), "euclidean"))[0], [1]
    assert first == [0]
    exchanged(schedule, 100)
    for window, expected in ((49, second), (50, [0, 1]), (NO_WINDOW, [0, 1])):
        assert workers(schedule.route_queries(asked(LOW, 150, window), "euclidean")) == [expected]
    standing = query_batch([PlainQuery(0, REGION_RECT, LOW, ts=150)])
    assert workers(schedule.route_queries(standing, "euclidean")) == [second]


def test_where_plans_are_too_many_everybody_is_asked():
    """Of very old times nobody remembers the plans: those who ask for them ask all; later ones go by the plans."""
    schedule = schedule_of(10**9)
    for number in range(1, MOST_PLANS + 2):
        exchanged(schedule, 10 * number)
    assert len(schedule.history) <= MOST_PLANS
    now = 10 * MOST_PLANS + 20
    assert workers(schedule.route_queries(asked(LOW, now, now), "euclidean")) == [[0, 1]]
    assert len(workers(schedule.route_queries(asked(LOW, now, 5), "euclidean"))[0]) == 1
    again = schedule_of(10**9)
    again.restore(unpack_state(pack_state(schedule.snapshot())))
    assert workers(again.route_queries(asked(LOW, now, now), "euclidean")) == [[0, 1]]


def test_after_another_number_of_workers_all_are_asked_for_what_came_before():
    """Objects stay together as they were, wherever that is."""
    schedule = schedule_of(1000)
    schedule.scatter(100)
    assert workers(schedule.route_queries(asked(HIGH, 150, 50), "euclidean")) == [[0, 1]]
    assert workers(schedule.route_queries(asked(HIGH, 150, 49), "euclidean")) == [[1]]


def test_lingering_is_over_when_the_window_has_passed():
    """A query that slides stays for its window after its objects went elsewhere; a snapshot is over by itself."""
    lingering = Lingering()
    lingering.add(asked(LOW, 0, 30, 1, TYPE_TERMS, slide=5), 100)
    lingering.add(asked(LOW, 0, 30, 2), 100)
    assert lingering.numbers.tolist() == [1]
    assert lingering.over(None).tolist() == lingering.over(129).tolist() == []
    again = Lingering()
    again.restore(lingering.snapshot())
    assert again.over(130).tolist() == [1]
    assert again.over(200).tolist() == []
    lingering.remove(np.array([1]))
    assert lingering.over(200).tolist() == []


def objects(first, count, kind):
    """Return every other object of a stretch of the input, two of each time."""
    seq = np.arange(first, first + 2 * count, 2)
    ids = Ids.of(seq.tolist() if kind == "int" else [f"o{n}" for n in seq.tolist()])
    empty = np.zeros(count)
    off = np.zeros(count + 1, np.int32)
    return ObjectBatch(seq, seq // 4, empty, empty, np.zeros(count, np.uint8), off, np.empty(0, np.int64), ids)


@pytest.mark.parametrize("kind", ["int", "text"])
def test_a_log_finds_times_and_identifiers_whatever_was_dropped(kind):
    """Ranges of the input by time, and names by place, over full chunks and what is in none, before and after a save."""
    log = ArrivalLog()
    for first in range(0, 5 * CHUNK, 1000):
        log.append(objects(first, 500, kind))
    for dropped in (0, 10, CHUNK + 7, 3 * CHUNK, 5 * CHUNK - 4):
        log.drop(dropped)
        saved = ArrivalLog()
        saved.restore(unpack_state(pack_state(log.snapshot())))
        for one in (log, saved):
            seq = one.seq[:: max(len(one) // 50, 1)]
            named = one.ids(seq).to_list()
            assert named == (seq.tolist() if kind == "int" else [f"o{n}" for n in seq.tolist()])
            begin, end = int(one.ts[0]), int(one.ts[-1])
            assert [int(edge[0]) for edge in one.ranges(np.array([begin - 1]), np.array([end]))] == [
                one.seq[0], one.seq[-1] + 1,
            ]  # fmt: skip
            first, stop = one.ranges(np.array([begin, end]), np.array([begin, end]))
            assert (first == stop).all()
            assert (
                one.first_after(begin) == one.seq[np.searchsorted(one.ts, begin, side="right")] if end > begin else True
            )


def test_logs_of_several_are_one_in_the_order_of_the_input():
    """Where fewer evaluators go on, objects of two are kept by one."""
    one, other = ArrivalLog(), ArrivalLog()
    one.append(objects(0, 5, "int"))
    other.append(objects(1, 5, "int"))
    both = ArrivalLog()
    both.restore(ArrivalLog.united([one.snapshot(), other.snapshot()]))
    assert both.seq.tolist() == list(range(10))
    assert both.ids(both.seq).to_list() == list(range(10))


def mixed_core(keep_ms, *queries):
    """Return SSTD's parts with the indexes that are looked through, and queries in them."""
    terms = TermsCore(make_terms_index("brute", SPACE), 0)
    matching, nearest = RangeCore(make_range_index("brute", SPACE)), KnnCore(make_knn_index("brute", SPACE))
    core = MixedCore(
        matching,
        nearest,
        KeptCore(SPACE, "euclidean", make_object_index("brute", SPACE), keep_ms),
        terms,
        keep_ms or FOREVER,
    )
    for query in queries:
        core.insert(query)
    return core, terms


def pass_time(core, first, stop):
    """Let an object with the keyword 7 come in every millisecond."""
    for ts in range(first, stop):
        one = np.array([ts])
        off, place = np.array([0, 1], np.int32), np.array([0.15])
        core.keep(
            ObjectBatch(one, one, place, place, np.full(1, OP_UPSERT, np.uint8), off, np.array([7]), Ids("int", one))
        )
        core.settle(ts, ts)


def counted(core, number, instant):
    """Return the counts of a terms query at an instant."""
    return core.answer(np.array([number]), np.array([instant])).value.tolist()


def held(terms):
    """Return how many objects there are to count."""
    return len(TermWindow.saved_objects(terms.snapshot()["index"]["window_objects"]))


def test_objects_are_held_for_terms_as_far_back_as_queries_look():
    """Without a terms query none are; one that looks back further than all others is answered from objects that are kept."""
    core, terms = mixed_core(100)
    pass_time(core, 0, 60)
    assert held(terms) == 0
    core.insert(asked(LOW, 60, 10, 1, TYPE_TERMS, slide=5))
    assert counted(core, 1, 59) == [10.0]
    pass_time(core, 60, 90)
    assert counted(core, 1, 89) == [10.0]
    pass_time(core, 90, 91)
    assert held(terms) < 20
    core.insert(asked(LOW, 91, 50, 2, TYPE_TERMS, slide=5))
    assert [counted(core, 1, 90), counted(core, 2, 90)] == [[10.0], [50.0]]
    core.remove(np.array([1, 2]))
    pass_time(core, 91, 93)
    assert held(terms) == 0


def test_windows_of_any_length_are_counted():
    """Windows as long as a query may have, one longer than the other, reach back to the first object, and time goes by."""
    longest = 2**62 - 1
    core, _ = mixed_core(None)
    pass_time(core, 0, 5)
    for number, window in enumerate((longest - 1, longest)):
        core.insert(asked(LOW, 5, window, number, TYPE_TERMS, slide=longest - 2))
        pass_time(core, 5 + 2 * number, 7 + 2 * number)
    assert [counted(core, number, 8) for number in range(2)] == [[9.0], [9.0]]


def test_states_hold_objects_once_and_restored_ones_count_on():
    """A state has no objects for terms; who restores it counts from those that are kept, and time goes by for both alike."""
    core, _ = mixed_core(100, asked(LOW, 0, 50, 1, TYPE_TERMS, slide=5))
    pass_time(core, 0, 120)
    state = unpack_state(pack_state(core.snapshot()))
    assert not len(state["terms"]["index"]["window_objects"]["tail"])
    again, _ = mixed_core(100)
    again.restore(state)
    for one in (core, again):
        pass_time(one, 120, 130)
        assert counted(one, 1, 129) == [50.0]
