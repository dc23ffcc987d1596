"""Rounds of one evaluator by hand: what it gives, takes, wakes, silences, waits for and drops."""

import random

import numpy as np
import pytest
from knn_model import Drawn, knn_batch
from latest_queries import LatestCore
from range_model import PlainQuery, query_batch

from operators.evaluation import handover as module
from operators.evaluation.handover import Handover
from operators.evaluation.knn_core import KnnCore
from operators.evaluation.moves import ended_on_their_way
from operators.evaluation.range_core import RangeCore
from operators.indexes import make_range_index
from operators.indexes.knn.registry import make_knn_index
from streams.batches import FOREVER, TYPE_RANGE, TYPE_TERMS
from streams.geometry import REGION_RECT, Rect
from streams.state import pack_state, unpack_state

SHAPE = (0.0, 0.0, 1.0, 1.0)


def ints(*values):
    return np.array(values, np.int64)


def batch(*numbers, end=FOREVER, slide=0):
    """Return standing queries, or ones that are answered at every slide."""
    type_ = TYPE_TERMS if slide else TYPE_RANGE
    return query_batch([PlainQuery(n, 0, SHAPE, end=end, type=type_, slide=slide) for n in numbers])


def routes(*rows):
    off = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return off, np.array([worker for row in rows for worker in row], np.int32)


def core_of(*numbers):
    core = LatestCore()
    core.insert(batch(*numbers))
    for n in numbers:
        core.lists[n] = [(n, f"o{n}", 0)]
    return core


def began(worker, core, piece=3_000):
    handover = Handover(worker, piece)
    handover.begin(core)
    return handover


def looked(handover, core, old, new):
    """Look through everything that is held; `old` and `new` name the workers of each number."""
    while (queries := handover.unseen(core)) is not None:
        numbers = queries.number.tolist()
        handover.look(queries, routes(*(old[n] for n in numbers)), routes(*(new[n] for n in numbers)))


def given_of(handover, core):
    return [(taker, piece.number.tolist()) for taker, piece in handover.next_piece(core)]


def test_handover_gives_in_pieces_and_reports_the_last_once():
    """At most a piece an epoch, to each taker what it is to have; the balancer is sent the counts once, at the end."""
    core = core_of(1, 2, 3, 4, 5)
    handover = began(0, core, piece=2)
    assert handover.moving
    old, new = dict.fromkeys(range(1, 6), (0,)), {1: [1], 2: [2], 3: [0, 1], 4: [0], 5: [1]}
    assert handover.all_sent() is None  # nothing was looked through yet
    looked(handover, core, old, new)
    found = []
    while (sent := handover.all_sent()) is None:
        pieces = given_of(handover, core)
        assert 0 < sum(len(numbers) for _, numbers in pieces) <= 2
        found += [(taker, n) for taker, numbers in pieces for n in numbers]
    assert sorted(found) == [(1, 1), (1, 3), (1, 5), (2, 2)]
    assert sent == [(1, 3), (2, 1)]
    assert handover.all_sent() is None


def test_handover_looks_through_a_bounded_number_of_queries_an_epoch(monkeypatch):
    """What is held is looked through in parts, so many for each query of a piece; every query once, without what has left."""
    monkeypatch.setattr(module, "LOOKED_THROUGH", 2)
    core = core_of(1, 2, 3, 4, 5, 6)
    handover = Handover(0, 1)
    handover.left = ints(4)
    handover.begin(core)
    parts = []
    while (queries := handover.unseen(core)) is not None:
        parts.append(queries.number.tolist())
    assert parts == [[1, 2], [3, 5], [6]]


class PlacedCore(LatestCore):
    """Knows that query n touches the box whose low x is n, and no other."""

    def touching(self, boxes):
        return self.numbers()[self.numbers() == int(boxes[0][0])]


def test_handover_looks_through_the_queries_of_a_place_where_the_core_knows_them():
    """The rest stays where it is; a core that knows no places, or a change that has none, shows everything."""
    for core_class, where, expected in (
        (PlacedCore, [(2.0, 0.0, 3.0, 1.0)], [2]),
        (PlacedCore, None, [1, 2, 3]),
        (LatestCore, [(2.0, 0.0, 3.0, 1.0)], [1, 2, 3]),
    ):
        core = core_class()
        core.insert(batch(1, 2, 3))
        handover = Handover(0, 10)
        handover.begin(core, where)
        assert handover.unseen(core).number.tolist() == expected


def test_shipped_cores_name_at_least_the_queries_of_a_place():
    """Range queries by their bounds; of k nearest all, because a list that is not full yet takes any object."""
    boxes = np.array([[0.5, 0.5, 0.6, 0.6], [0.9, 1.5, 0.95, 1.6]])
    ranges = RangeCore(make_range_index("kag", Rect(*SHAPE), "euclidean", (4, 4)))
    rects = ((0.0, 0.0, 0.4, 1.0), (0.0, 0.0, 0.5, 0.5))
    ranges.insert(query_batch([PlainQuery(n, REGION_RECT, rect) for n, rect in enumerate(rects, 1)]))
    assert ranges.touching(boxes).tolist() == [2]
    nearest = KnnCore(make_knn_index("pyramid", Rect(*SHAPE), "euclidean"))
    nearest.insert(
        knn_batch([Drawn(random.Random(seed), Rect(*SHAPE)).query() | {"number": seed} for seed in (1, 2, 3)])
    )
    assert nearest.touching(boxes).tolist() == [1, 2, 3]


def test_handover_looks_through_the_queries_that_a_plan_names():
    """Those of them that are held; nobody else is looked at, however many there are."""
    core = core_of(1, 2, 3)
    handover = Handover(0, 10)
    handover.begin(core, among=ints(2, 7))
    assert handover.unseen(core).number.tolist() == [2]
    handover.begin(core, among=ints())
    assert handover.unseen(core) is None


def test_handover_counts_what_it_gave_and_skips_what_has_ended():
    """A query that ended before its turn is not given, and the round still comes to its end."""
    core = core_of(1, 2, 3)
    handover = began(0, core, piece=1)
    looked(handover, core, dict.fromkeys((1, 2, 3), (0,)), dict.fromkeys((1, 2, 3), (1,)))
    core.remove(ints(1, 2))
    found = []
    for _ in range(3):
        found += given_of(handover, core)
    assert found == [(1, [3])]
    assert handover.all_sent() == [(1, 1)]


def test_registrations_of_a_round_sleep_where_only_the_next_plan_wants_them():
    """They take part where the plan in force wants them, and wake at the switch elsewhere; none is given."""
    core = core_of()
    handover = began(1, core)
    core.insert(batch(7, 8, 9))
    awake = handover.register(batch(7, 8, 9), routes([0], [1], [0, 1]), routes([1], [1], [1]), core)
    assert awake.tolist() == [False, True, True]
    assert core.asleep == {7}
    assert handover.withheld.tolist() == [7]
    assert handover.all_sent() == []
    woken, results = handover.switch(core, core, 5, 2)
    assert (woken.tolist(), results, core.asleep) == ([7], [], set())
    # Results of worker 0 are on their way for 7 and 9: both wait until epoch 7.
    assert sorted(handover.withheld.tolist()) == [7, 9]
    assert handover.settle(6).tolist() == []
    assert handover.settle(7).tolist() == [7, 9]
    assert handover.withheld.tolist() == []


def test_switch_silences_what_leaves_and_sends_its_results_once():
    """Who leaves a query gives what it found to the first of the new workers, then drops the query in pieces."""
    core = core_of(1, 2, 3, 4)
    handover = began(0, core, piece=2)
    old, new = dict.fromkeys((1, 2, 3, 4), (0,)), {1: [1, 2], 2: [2], 3: [0, 1], 4: [1]}
    looked(handover, core, old, new)
    given_of(handover, core)
    assert sorted(handover.leaving.tolist()) == [1, 2, 4]
    core.remove(ints(4))  # it has ended meanwhile
    woken, results = handover.switch(core, core, 3, 1)
    assert woken.tolist() == []
    assert [(taker, lists.number.tolist(), lists.seq.tolist()) for taker, lists in results] == [
        (1, [1], [1]),
        (2, [2], [2]),
    ]
    assert core.asleep == {1, 2}
    assert not handover.moving
    assert handover.left.tolist() == [1, 2]
    assert len(handover.given) == 0  # what is sent with the results is the caller's to say
    handover.sends(results)
    assert sorted(handover.given.number.tolist()) == [1, 2]
    handover.arrived(3)
    assert len(handover.given) == 2
    handover.arrived(4)
    assert len(handover.given) == 0
    assert handover.next_drop().tolist() == [1, 2]
    assert handover.left.tolist() == handover.next_drop().tolist() == []


def test_switch_without_memory_sends_and_awaits_nothing():
    """Where matches are reported at once there are no results to wait for."""
    core = core_of(1, 2)
    handover = began(0, core)
    looked(handover, core, {1: [0], 2: [0, 1]}, {1: [1], 2: [0]})
    _, results = handover.switch(core, None, 3, 1)
    assert results == []
    assert handover.withheld.tolist() == []
    assert len(handover.given) == 0


def test_copies_that_arrive_sleep_and_keep_ends_that_came_first():
    """An unregistration that reached the taker before its query lowers the end of the copy; other queries keep theirs."""
    core = core_of()
    handover = began(1, core)
    handover.note_ends(ints(5, 99), ints(4, 2))
    stale, _ = handover.arrive(batch(5, 6, end=9), routes([0], [0]), routes([1], [0, 1]), core)
    assert len(stale) == 0
    assert (core.ends, core.asleep) == ({5: 4, 6: 9}, {5, 6})
    assert sorted(handover.withheld.tolist()) == [5, 6]
    woken, _ = handover.switch(core, core, 3, 1)
    assert (sorted(woken.tolist()), core.asleep) == ([5, 6], set())
    assert handover.withheld.tolist() == [5]  # the giver of 6 stays, so nothing of 6 is under way


def test_copies_replace_what_is_left_of_an_earlier_stay():
    """A query that comes back before it was dropped is the new copy, and is not dropped later."""
    core = core_of(5, 6)
    core.hush(ints(5, 6))
    handover = Handover(1, 10)
    handover.left = ints(5, 6)
    handover.begin(core)
    assert handover.unseen(core) is None  # what has left is not looked through
    stale, _ = handover.arrive(batch(5, end=9), routes([0]), routes([1]), core)
    assert stale.number.tolist() == [5]
    assert core.ends == {5: 9, 6: FOREVER}
    assert core.asleep == {5, 6}
    assert handover.left.tolist() == [6]
    handover.switch(core, core, 2, 1)
    assert core.asleep == {6}


def test_waiting_queries_that_leave_again_wait_no_more():
    """Two switches without time between them: each group waits for its own epoch, less what has moved on."""
    core = core_of()
    handover = began(1, core)
    handover.arrive(batch(5, 6), routes([0], [0]), routes([1], [1]), core)
    handover.switch(core, core, 3, 2)
    handover.begin(core)
    looked(handover, core, {5: [1], 6: [1]}, {5: [2], 6: [1]})
    handover.arrive(batch(7), routes([0]), routes([1]), core)
    handover.switch(core, core, 4, 2)
    assert sorted(handover.withheld.tolist()) == [6, 7]
    assert handover.settle(5).tolist() == [6]
    assert handover.settle(5).tolist() == []
    assert handover.settle(None).tolist() == [7]  # the input has ended: nothing comes any more


def test_query_that_waits_twice_speaks_after_the_later_results():
    """It is not spoken for while any results are on their way."""
    core = core_of(5)
    handover = began(1, core)
    looked(handover, core, {5: [0, 1]}, {5: [1]})
    handover.switch(core, core, 3, 1)
    handover.begin(core)
    looked(handover, core, {5: [1, 2]}, {5: [1]})
    handover.switch(core, core, 4, 1)
    assert handover.settle(4).tolist() == []
    assert handover.settle(5).tolist() == [5]


def test_replaced_lists_are_withdrawn_once_and_never_ones_own():
    """Whose lists are part of what is here is returned once, and forgotten with the query."""
    handover = Handover(1, 10)
    handover.replace(ints(5, 5, 6, 7), np.array([0, 1, 2, 3], np.int32))
    assert [part.tolist() for part in handover.replaced(ints(5))] == [[5], [0]]
    assert [part.tolist() for part in handover.replaced(ints(5))] == [[], []]
    handover.forget(ints(7))
    assert [part.tolist() for part in handover.replaced(ints(6, 7))] == [[6], [2]]
    handover.left = ints(6, 8)
    handover.forget(ints(6))
    assert handover.left.tolist() == [8]


@pytest.mark.parametrize("step", range(4))
def test_handover_goes_on_from_its_state_in_the_middle(step, monkeypatch):
    """Saved after any step of a round, it ends the round as it would have."""
    monkeypatch.setattr(module, "LOOKED_THROUGH", 4)  # all in one epoch, though pieces are of one

    def steps(handover, core, save_at):
        did = []
        for at in range(4):
            if at == 0:
                handover.begin(core)
                handover.left = ints(9)
                handover.replace(ints(2), np.array([3], np.int32))
            elif at == 1:
                handover.look(handover.unseen(core), *(routes([0], [0], [0, 1], [0]), routes([1], [2], [0], [0])))
                did.append(given_of(handover, core))
                handover.note_ends(ints(8), ints(3))
            elif at == 2:
                handover.arrive(batch(8), routes([1]), routes([0]), core)
                did.append((given_of(handover, core), handover.all_sent(), core.ends[8]))
            else:
                woken, results = handover.switch(core, core, 6, 2)
                handover.sends(results)
                did.append((woken.tolist(), [(taker, lists.number.tolist()) for taker, lists in results]))
                did.append((handover.withheld.tolist(), handover.left.tolist(), handover.given.number.tolist()))
            if at == save_at:
                state = unpack_state(pack_state(handover.snapshot()))
                handover = Handover(0, 1)
                handover.restore(state)
        did.append([handover.settle(7).tolist(), handover.settle(8).tolist()])
        did.append([part.tolist() for part in handover.replaced(ints(2))])
        did.append((handover.given.number.tolist(), handover.next_drop().tolist(), handover.left.tolist()))
        return did

    undisturbed = steps(Handover(0, 1), core_of(1, 2, 3, 4), None)
    assert steps(Handover(0, 1), core_of(1, 2, 3, 4), step) == undisturbed
    assert undisturbed[0] == [(1, [1])]
    assert undisturbed[1] == ([(2, [2])], [(1, 1), (2, 1)], 3)


def test_handover_knows_which_queries_are_about_to_change_hands():
    """Those that come and those that leave, while the round lasts."""
    core = core_of(1, 2)
    handover = Handover(0, 10)
    assert not handover.concerns(ints(1))
    handover.begin(core)
    looked(handover, core, {1: [0], 2: [0]}, {1: [1], 2: [0]})
    handover.arrive(batch(3), routes([1]), routes([0]), core)
    assert [handover.concerns(ints(n)) for n in (1, 2, 3)] == [True, False, True]


def test_queries_that_ended_on_their_way_are_known_by_the_watermark():
    """Whoever gave them has passed their end too, and may have dropped them: they must not be woken."""
    core = core_of()
    core.insert(batch(5, end=9))
    core.insert(batch(6, end=10))
    assert ended_on_their_way(core, ints(5, 6), None).tolist() == []
    assert ended_on_their_way(core, ints(5, 6), 9).tolist() == [5]
    assert ended_on_their_way(core, ints(5, 6, 7), 10).tolist() == [5, 6]
