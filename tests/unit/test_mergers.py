"""Mergers by hand: lists of several evaluators come, change, are withdrawn and end."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_merged_lists import plain, ranked

from operators.merging.mergers import RankedMerger, TermsMerger
from operators.operator import Arrival, Emitter, Epoch, Inputs, TaskContext
from operators.redistribution import Division
from streams.batches import TYPE_KNN, TYPE_TERMS, PrintBatch, QueryBatch, TupleBatch
from streams.errors import RunError
from streams.geometry import Rect
from streams.state import pack_state, unpack_state

SPACE = Rect(0.0, 0.0, 1.0, 1.0)


def opened(merger, *, one_home=False):
    plan = SimpleNamespace(single_home=one_home)
    merger.open(TaskContext("merger", 0, 1, SPACE, plan=plan))
    return merger


def sent(merger, *arrivals, words=()):
    """Let a merger work on one epoch of (evaluator, batch) pairs; return what it passes on, as plain values."""
    emit = Emitter(type(merger).outputs)
    came = [Arrival("evaluator", "results", task, batch) for task, batch in arrivals]
    came += [Arrival("objects", "words", 0, batch) for batch in words]
    merger.execute_epoch(Epoch(0), Inputs(tuple(came)), emit)
    return [one for batch in emit.batches("results") for one in plain(batch)]


def short(lines):
    """Return number and items' `seq` of each line."""
    return [(number, [seq for seq, *_ in items]) for number, _, _, items in lines]


def note(number, k, ts=0):
    """Say something of a query: 0: it has ended; -1 - e: the list of evaluator e is part of the sender's."""
    return ranked([(number, ts, k, [])])


def held(merger):
    """Return the partial lists that a merger keeps, as (number, evaluator), and of which queries it knows the last line."""
    state = merger.snapshot()
    return [(key >> 16, key & 0xFFFF) for key in state["partial"]["keys"].tolist()], state["said"]["numbers"].tolist()


def test_merger_unites_the_newest_list_of_each_evaluator():
    """A list replaces the one that its evaluator sent before, and nobody else's."""
    merger = opened(RankedMerger())
    assert short(sent(merger, (0, ranked([(7, 1, 2, [(1, 1), (0, 0)])])), (1, ranked([(7, 1, 2, [(2, 2)])])))) == [
        (7, [2, 1])
    ]
    assert short(sent(merger, (1, ranked([(7, 2, 2, [(3, 0.5)])])))) == [(7, [1, 3])]
    assert short(sent(merger, (0, ranked([(7, 3, 2, [])])))) == [(7, [3])]
    assert held(merger)[0] == [(7, 1)]


def test_merger_sends_a_list_only_when_it_is_another():
    """The same list again, from whomever, is not sent; what is beyond the k best changes nothing; an empty one is sent once."""
    merger = opened(RankedMerger())
    first = ranked([(7, 1, 1, [(5, 5)]), (8, 1, 1, [(1, 1)])])
    assert short(sent(merger, (0, first))) == [(7, [5]), (8, [1])]
    assert sent(merger, (0, first)) == []
    assert sent(merger, (1, ranked([(7, 2, 1, [(4, 4)])]))) == []
    assert short(sent(merger, (0, ranked([(7, 3, 1, [])])), (1, ranked([(7, 3, 1, [])])))) == [(7, [])]
    assert sent(merger, (0, ranked([(7, 4, 1, [])]))) == []
    assert sent(merger, (0, ranked([(9, 4, 1, [])]))) == []  # it never had another
    assert short(sent(merger, (0, first))) == [(7, [5])]


def test_merger_stamps_an_empty_list_with_the_latest_time():
    """A list that has become empty is as of the time when that was said, and no older than the one before."""
    merger = opened(RankedMerger())
    sent(merger, (0, ranked([(7, 6, 1, [(5, 5)])])))
    assert [ts for _, ts, *_ in sent(merger, (0, ranked([(7, 8, 1, [])])))] == [8]
    sent(merger, (0, ranked([(7, 9, 1, [(6, 6)])])))
    assert [ts for _, ts, *_ in sent(merger, (0, ranked([(7, 7, 1, [])])))] == [9]


def test_merger_stamps_what_is_left_of_a_list_with_the_latest_time():
    """A part that is empty now has changed the whole, which is as of that time."""
    merger = opened(RankedMerger())
    sent(merger, (0, ranked([(7, 6, 2, [(5, 5)])])), (1, ranked([(7, 6, 2, [(4, 4)])])))
    assert sent(merger, (1, ranked([(7, 8, 2, [])])))[0][1] == 8


@pytest.mark.parametrize("final", [False, True])
def test_radii_are_sent_back_while_somebody_can_read_them(final):
    """Lists that a move held back may change in the final epoch: they are results, but no radius follows."""
    merger = RankedMerger()
    merger.open(
        TaskContext(
            "merger", 0, 1, SPACE, plan=SimpleNamespace(single_home=False), targets={"radii": [("evaluator", 2)]}
        )
    )
    emit = Emitter(RankedMerger.outputs)
    came = Arrival("evaluator", "rankings", 0, ranked([(7, 1, 1, [(5, 0.25)])], type_=TYPE_KNN))
    merger.execute_epoch(Epoch(3, final=final), Inputs((came,)), emit)
    assert [len(batch) for batch in emit.batches("results")] == [1]
    assert [batch.column("bound").tolist() for batch in emit.batches("radii")] == ([] if final else [[0.25]])


@pytest.mark.parametrize("one_home", [False, True])
def test_lists_are_not_said_again_where_queries_have_other_homes_after_a_run_went_on(one_home):
    """One evaluator becomes several, or several become one: what was passed on is known, and what is new is passed on once."""

    def nearest(number, *items):
        return ranked([(number, 1, 2, list(items))], type_=TYPE_KNN)

    before = opened(RankedMerger(), one_home=one_home)
    assert short(sent(before, (0, nearest(7, (1, 1.0), (2, 2.0))), (0, nearest(8, (3, 3.0))))) == [
        (7, [1, 2]),
        (8, [3]),
    ]
    states = RankedMerger.redistribute([before.snapshot()], Division("merger", 1, queries=QueryBatch.empty()))
    merger = opened(RankedMerger(), one_home=not one_home)
    merger.restore(unpack_state(pack_state(states[0])))
    assert sent(merger, (0, nearest(7, (1, 1.0), (2, 2.0)))) == []
    assert short(sent(merger, (0, nearest(8, (4, 1.0), (3, 3.0))))) == [(8, [4, 3])]
    assert short(sent(merger, (0, nearest(7, (5, 0.5), (1, 1.0))))) == [(7, [5, 1])]
    assert sent(merger, (0, nearest(8, (4, 1.0), (3, 3.0)))) == []


def test_merger_takes_a_withdrawn_list_off_and_keeps_a_new_one():
    """An evaluator's list that is part of another's goes, also where the same evaluator sends one again in that epoch."""
    merger = opened(RankedMerger())
    sent(merger, (0, ranked([(7, 1, 3, [(1, 9)])])), (1, ranked([(7, 1, 3, [(2, 2)])])))
    assert short(sent(merger, (1, ranked([(7, 2, 3, [(2, 2), (3, 3)])])), (1, note(7, -1)))) == [(7, [3, 2])]
    assert held(merger)[0] == [(7, 1)]
    sent(merger, (0, ranked([(7, 3, 3, [(4, 4)])])))
    assert short(sent(merger, (0, ranked([(7, 4, 3, [(6, 6)])])), (1, note(7, -1)))) == [(7, [6, 3, 2])]
    assert held(merger)[0] == [(7, 0), (7, 1)]


def test_merger_sends_what_is_left_when_a_list_is_withdrawn():
    """Also where nothing comes in its place."""
    merger = opened(RankedMerger())
    sent(merger, (0, ranked([(7, 1, 3, [(1, 9)])])), (1, ranked([(7, 1, 3, [(2, 2)])])))
    assert short(sent(merger, (1, note(7, -1)))) == [(7, [2])]


def test_merger_keeps_no_list_where_a_query_has_one_home():
    """Under such a plan the newest list says it all, whoever sends it; one that was said is not said again."""
    merger = opened(RankedMerger(), one_home=True)
    assert short(sent(merger, (0, ranked([(7, 1, 3, [(1, 1)])])))) == [(7, [1])]
    assert short(sent(merger, (3, ranked([(7, 2, 3, [(2, 2)])])))) == [(7, [2])]
    assert sent(merger, (0, ranked([(7, 3, 3, [(2, 2)])]))) == []
    assert held(merger) == ([], [7])
    assert short(sent(merger, (0, ranked([(7, 3, 3, [])])))) == [(7, [])]
    assert short(sent(merger, (0, ranked([(7, 4, 3, [(3, 3)]), (8, 4, 3, [(3, 3)])])), (0, note(7, 0)))) == [
        (7, [3]), (8, [3]),
    ]  # fmt: skip
    assert held(merger) == ([], [8])


def test_merger_forgets_queries_that_have_ended():
    """Nothing is kept of them, a last list of that epoch is passed on, and others are not touched."""
    merger = opened(RankedMerger())
    sent(
        merger,
        (0, ranked([(6, 1, 1, [(1, 1)]), (7, 1, 1, [(1, 1)]), (8, 1, 1, [(1, 1)])])),
        (5, ranked([(7, 1, 1, [(1, 1)])])),
    )
    assert short(sent(merger, (0, ranked([(7, 2, 1, [(2, 2)])])), (5, note(7, 0)))) == [(7, [2])]
    assert held(merger) == ([(6, 0), (8, 0)], [6, 8])


def test_merger_unites_the_answers_to_an_instant_at_once():
    """Answers of all evaluators to one instant are one; other instants and standing lists stay apart, and nothing is kept."""
    merger = opened(RankedMerger())
    at = {"instant": True}
    found = sent(
        merger,
        (0, ranked([(7, 1, 2, [(1, 1)]), (7, 2, 2, [(1, 1)]), (8, 1, 2, [])], **at)),
        (1, ranked([(7, 1, 2, [(2, 2)]), (8, 1, 2, [])], **at)),
        (2, ranked([(9, 1, 2, [(4, 4)])])),
    )
    assert [(n, ts, [seq for seq, *_ in items]) for n, ts, _, items in found] == [
        (7, 1, [2, 1]), (8, 1, []), (7, 2, [1]), (9, 1, [4]),
    ]  # fmt: skip
    assert held(merger) == ([(9, 2)], [9])


def nearest(*lists):
    return ranked(lists, type_=TYPE_KNN)


def test_merger_keeps_the_nearest_that_were_ever_sent():
    """Lists come whole or as what is new; none that is withdrawn, empty or sent again takes anything away or is news."""
    merger = opened(RankedMerger())
    assert short(sent(merger, (0, nearest((7, 1, 2, [(1, 5)]))), (1, nearest((7, 1, 2, [(2, 9)]), (8, 1, 1, []))))) == [
        (7, [1, 2])
    ]
    assert [
        (n, ts, [seq for seq, *_ in items]) for n, ts, _, items in sent(merger, (0, nearest((7, 3, 2, [(3, 5)]))))
    ] == [(7, 3, [1, 3])]
    assert sent(merger, (1, nearest((7, 4, 2, [(4, 5), (1, 5)]))), (1, note(7, -1)), (0, nearest((7, 4, 2, [])))) == []
    found = sent(merger, (0, nearest((7, 2, 2, [(6, 1)]), (8, 2, 1, [(6, 2)]))), (1, nearest((8, 2, 1, [(5, 2)]))))
    assert [(n, ts, items) for n, ts, _, items in found] == [
        (7, 4, [(6, "o6", 1.0), (1, "o1", 5.0)]), (8, 2, [(5, "o5", 2.0)]),
    ]  # fmt: skip
    assert held(merger) == ([], [])


def test_merger_of_the_nearest_goes_on_from_its_state_and_forgets():
    """Also where states are divided among others; a query that has ended has no list any more."""
    merger, other = opened(RankedMerger()), opened(RankedMerger())
    sent(merger, (0, nearest((7, 6, 2, [(1, 1)]), (9, 6, 1, [(1, 1)]))))
    sent(other, (0, nearest((8, 9, 2, [(1, 1)]))))
    states = RankedMerger.redistribute(
        [merger.snapshot(), other.snapshot()], Division("merger", 3, queries=QueryBatch.empty())
    )
    for state in [*states, merger.snapshot()]:
        again = opened(RankedMerger())
        again.restore(unpack_state(pack_state(state)))
        assert sent(again, (0, nearest((7, 7, 2, [(1, 1)])))) == []
        assert short(sent(again, (1, nearest((7, 7, 2, [(2, 2)]))), (0, note(9, 0)))) == [(7, [1, 2])]
        assert short(sent(again, (1, nearest((9, 8, 1, [(3, 3)]))))) == [(9, [3])]


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 40), max_size=6)), max_size=6), max_size=12)
)
def test_merger_of_the_nearest_is_a_sorted_set(epochs):
    """Against all that was ever sent, sorted; a list is passed on exactly when it is another."""
    merger, known, last = opened(RankedMerger()), {}, {}
    for epoch in epochs:
        came = [(task, nearest((number, 0, 1 + 2 * number, [(seq, seq // 4) for seq in seqs])))
                for task, (number, seqs) in enumerate(epoch)]  # fmt: skip
        for number, seqs in epoch:
            known.setdefault(number, set()).update(seqs)
        found = dict(short(sent(merger, *came)))
        whole = {n: sorted(seqs, key=lambda seq: (seq // 4, seq))[: 1 + 2 * n] for n, seqs in known.items()}
        assert found == {n: seqs for n, seqs in whole.items() if seqs != last.get(n, [])}
        last = whole


@pytest.mark.parametrize(("first_seen", "expected"), [(False, [2, 1]), (True, [1, 2])])
def test_merger_breaks_ties_as_objects_have_states_or_not(first_seen, expected):
    """Of equal scores the newest object comes first, or the one that was seen first."""
    merger = opened(RankedMerger(first_seen=first_seen))
    assert short(sent(merger, (0, ranked([(7, 1, 2, [(1, 1)])])), (1, ranked([(7, 1, 2, [(2, 1)])])))) == [
        (7, expected)
    ]


def test_merger_goes_on_from_its_state():
    """It knows all lists and what it sent last."""
    merger = opened(RankedMerger())
    sent(merger, (0, ranked([(7, 6, 2, [(1, 1)])])), (1, ranked([(8, 6, 2, [(1, 1)])])))
    again = opened(RankedMerger())
    again.restore(unpack_state(pack_state(merger.snapshot())))
    assert sent(again, (0, ranked([(7, 7, 2, [(1, 1)])]))) == []
    assert short(sent(again, (1, ranked([(7, 7, 2, [(2, 2)])])))) == [(7, [2, 1])]
    assert [ts for _, ts, *_ in sent(again, (1, ranked([(8, 9, 2, [])])))] == [9]


@pytest.mark.parametrize("replanned", [False, True])
def test_merger_state_is_divided_among_others(replanned):
    """All know what was sent of all queries; lists are kept unless evaluators are others, which send them anew."""
    mergers = [opened(RankedMerger()) for _ in range(2)]
    for n, merger in enumerate(mergers):
        sent(merger, (0, ranked([(7 + n, 6 + n, 2, [(1, 1)])])))
    queries = QueryBatch.empty() if replanned else None
    states = RankedMerger.redistribute([m.snapshot() for m in mergers], Division("merger", 3, queries=queries))
    assert len(states) == 3
    for state in states:
        merger = opened(RankedMerger())
        merger.restore(state)
        assert held(merger) == ([] if replanned else [(7, 0), (8, 0)], [7, 8])
        assert merger.snapshot()["last_ts"] == 7  # the latest time of all
        assert sent(merger, (0, ranked([(8, 9, 2, [(1, 1)])]))) == []


def terms(lists, **more):
    return ranked(lists, type_=TYPE_TERMS, **more)


def test_terms_merger_adds_up_and_names_the_terms():
    """Counts of all evaluators add up, under words that spouts have sent in that epoch or before."""
    merger = opened(TermsMerger())
    words = [TupleBatch.of(("keyword", "word"), [(3, "fig"), (4, "apple")])]
    several = [(0, terms([(7, 5, 2, [(3, 1), (4, 2)])], instant=True)), (1, terms([(7, 5, 2, [(3, 1)])], instant=True))]
    found = sent(merger, *several, words=words)
    assert [items for *_, items in found] == [[(4, "apple", 2.0), (3, "fig", 2.0)]]
    again = opened(TermsMerger())
    again.restore(unpack_state(pack_state(merger.snapshot())))
    assert [i for *_, i in sent(again, (0, terms([(7, 6, 1, [(3, 1)])], instant=True)))] == [[(3, "fig", 1.0)]]
    divided = TermsMerger.redistribute(
        [opened(TermsMerger()).snapshot(), merger.snapshot()], Division("merger", 3, queries=QueryBatch.empty())
    )
    assert [state["words"] for state in divided] == [[[3, "fig"], [4, "apple"]]] * 3


def test_terms_merger_refuses_what_it_cannot_name_or_add():
    """A term without a word, and lists of objects."""
    merger = opened(TermsMerger())
    with pytest.raises(RunError, match="the term 9 has no word; let the merger read the stream 'words'"):
        sent(merger, (0, terms([(7, 5, 2, [(9, 1)])], instant=True)))
    with pytest.raises(RunError, match="put a 'ranked-merger' behind their evaluators"):
        sent(merger, (0, ranked([(7, 5, 2, [(3, 1)])], instant=True)))


def test_merger_refuses_fields_that_divide_the_lists_of_a_query():
    """They are grouped by number, and by nothing else."""
    for fields, problems in ((("seq",), 1), (("number",), 0)):
        item = SimpleNamespace(stream="rankings", component="evaluator", grouping="fields", fields=fields)
        found = list(RankedMerger().check(None, SimpleNamespace(parallelism=2, inputs=[item])))
        assert len(found) == problems
        assert all(key == "inputs" and "fields = ['number']" in text for key, text in found)


def test_merged_lists_are_of_the_type_of_their_query():
    """What is passed on has type, k and kind of the lists that came."""
    merger = opened(RankedMerger())
    emit = Emitter(RankedMerger.outputs)
    batch = dataclasses.replace(ranked([(7, 1, 4, [(1, 1)])]), type=np.array([1], np.uint8))
    merger.execute_epoch(Epoch(0), Inputs((Arrival("evaluator", "results", 0, batch),)), emit)
    (out,) = emit.batches("results")
    assert (out.type.tolist(), out.k.tolist(), out.instant.tolist()) == ([1], [4], [False])


def test_lists_of_queries_with_one_home_are_passed_on_as_they_came():
    """Several batches and ends in one epoch; a query that two evaluators speak for, as after a move, has the newest list."""
    merger = opened(RankedMerger(), one_home=True)
    first = ranked([(9, 1, 2, [(1, 1)]), (4, 1, 2, [(2, 2)])])
    assert short(sent(merger, (0, first), (1, ranked([(5, 1, 1, [(3, 3)])])))) == [(9, [1]), (4, [2]), (5, [3])]
    again = ranked([(9, 2, 2, [(1, 1)]), (4, 2, 2, [(2, 2), (6, 3)])])
    assert short(sent(merger, (0, note(5, 0)), (1, again), (1, note(4, 0)))) == [(4, [2, 6])]
    assert held(merger) == ([], [9])
    old, new = ranked([(9, 3, 2, [(7, 0)])]), ranked([(9, 3, 2, [(7, 0), (8, 0.5)])])
    assert short(sent(merger, (0, old), (1, new))) == [(9, [7, 8])]


def printed(**prints):
    """Return fingerprints by number, such as ``q7=3``."""
    numbers = np.array([int(name[1:]) for name in prints], np.int64)
    return PrintBatch(numbers, np.array(list(prints.values()), np.int64))


def test_merger_passes_on_fingerprints_that_are_others():
    """The last one of a query counts where two evaluators send one; one that has ended is not remembered."""

    def passed_on(*arrivals):
        emit = Emitter(RankedMerger.outputs)
        came = tuple(Arrival("evaluator", "rankings", task, batch) for task, batch in arrivals)
        merger.execute_epoch(Epoch(0), Inputs(came), emit)
        return [row for batch in emit.batches("results") for row in zip(batch.number, batch.print, strict=True)]

    merger = opened(RankedMerger(), one_home=True)
    assert passed_on((0, printed(q7=3, q8=0, q9=-5))) == [(7, 3), (9, -5)]
    assert passed_on((0, printed(q7=3, q8=4)), (1, printed(q9=6))) == [(8, 4), (9, 6)]
    assert passed_on((0, printed(q7=2, q8=5)), (1, printed(q7=3))) == [(8, 5)]
    assert passed_on((0, printed(q7=4)), (1, note(7, 0)), (1, note(8, 0))) == [(7, 4)]
    assert held(merger)[1] == [9]
    assert passed_on((1, printed(q7=4, q9=6))) == [(7, 4)]
