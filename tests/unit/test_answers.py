"""Lists that move by hand, where several evaluators have one of a query: whose take whose place."""

import numpy as np
import pytest
from test_handover import batch, core_of, ints, looked
from test_merged_lists import ranked

from operators.evaluation.answers import Answers
from operators.evaluation.core import Found
from operators.evaluation.handover import Handover
from operators.operator import Emitter, Epoch
from streams.batches import RankedBatch, batch_fields
from topology.groupings import GroupingContext, make_grouping


def answering(worker, *numbers):
    """Return the lists and the moves of one evaluator that holds these queries."""
    return Answers(core_of(*numbers), "rankings", one_home=False), Handover(worker, 10)


def moved_on(answers, handover, old, new):
    """Let a query leave; return what goes to its next worker."""
    handover.begin(answers._core)
    looked(handover, answers._core, old, new)
    [(_, given)] = answers.hand_over(handover, 4, 1, 5, ints())
    return given


def sent(answers, handover, number):
    """Return (k, items) of all that is sent to the merger in an epoch."""
    emit = Emitter({"rankings": batch_fields(RankedBatch)})
    answers.send(Epoch(number, 9), handover, emit)
    lists = RankedBatch.concat([RankedBatch.empty(), *emit.batches("rankings")])
    return [(k, lists.seq[lists.off[row] : lists.off[row + 1]].tolist()) for row, k in enumerate(lists.k.tolist())]


def test_lists_that_were_adopted_on_the_way_are_withdrawn_by_who_speaks_at_last():
    """Worker 0 gave to 1, which gave to 2 before it had spoken: the list of 2 takes the place of both, and is sent with it."""
    answers, handover = answering(1, 5)
    answers.adopt(handover, ranked([(5, 7, 2, [(3, 7)])]), 0, one_home=False)
    given = moved_on(answers, handover, {5: [1]}, {5: [2]})
    assert given.k.tolist() == [2, -1]
    assert np.concatenate(handover.replaced(ints(5))).tolist() == []
    last, handover = answering(2, 5)
    last.adopt(handover, given, 1, one_home=False)
    last.changed = ints(5)
    assert sent(last, handover, 5) == [(2, [5, 3]), (-2, []), (-1, [])]
    assert sent(last, handover, 6) == []


def test_lists_of_queries_that_are_answered_at_instants_replace_none():
    """The merger keeps no list of theirs, so nothing is remembered of who had one."""
    answers, handover = answering(1)
    answers._core.insert(batch(5, slide=2))
    answers.adopt(handover, ranked([(5, 7, 2, [(3, 7)])]), 0, one_home=False)
    assert np.concatenate(handover.replaced(ints(5))).tolist() == []


def test_results_of_queries_that_were_never_given_are_of_no_use():
    """A copy may outlive its end elsewhere, and leave for a worker that the query itself did not come to any more."""
    answers, handover = answering(1, 5)
    given = RankedBatch.concat(
        [ranked([(6, 8, 2, [(4, 8)]), (5, 7, 2, [(3, 7)])]), ranked([(6, 2, 1, []), (5, 3, 1, [])], instant=True)]
    )
    answers.adopt(handover, given, 0, one_home=False)
    assert answers._core.lists == {5: [(5, "o5", 0), (3, "o3", 7)]}
    assert [part.tolist() for part in handover.replaced(ints(5, 6))] == [[5], [0]]
    assert [part.tolist() for part in answers.instants.due(9, ints())] == [[5], [3]]


def test_where_a_query_has_one_home_its_list_replaces_by_itself():
    """The merger knows it by its number alone."""
    answers, handover = answering(1, 5)
    answers.adopt(handover, ranked([(5, 7, 2, [(3, 7)])]), 0, one_home=True)
    assert np.concatenate(handover.replaced(ints(5))).tolist() == []


class GrowingCore:
    """Lists of query 5 and 6 that only gain: objects by `seq`."""

    def __init__(self, *seqs):
        self.seqs = list(seqs)

    def holds(self, numbers):
        return np.isin(numbers, (5, 6))

    def queries(self, numbers):
        return batch(*numbers.tolist())

    def adopt(self, lists):
        self.seqs += lists.seq.tolist()

    def results(self, numbers):
        return self.gained(numbers, 0)

    def gained(self, numbers, since):
        return ranked([(n, 0, 9, [(seq, seq) for seq in sorted(self.seqs) if seq >= since]) for n in numbers.tolist()])


@pytest.mark.parametrize("one_home", [False, True])
def test_lists_that_grow_are_sent_as_what_is_new_where_several_have_parts(one_home):
    """From the first object on that came since the last ones were sent; where one evaluator has all, lists are whole."""
    answers, handover = Answers(GrowingCore(1, 4), "rankings", one_home=one_home), Handover(1, 10)
    answers.change(Found(changed=ints(5)), 8, 4)
    assert sent(answers, handover, 3) == [(9, [1, 4] if one_home else [4])]
    answers._core.seqs += [6, 7]
    answers.change(Found(changed=ints(5)), 8, 7)
    answers.change(Found(changed=ints(5)), 8, 6)
    again = Answers(answers._core, "rankings", one_home=one_home)
    again.restore(answers.snapshot())
    assert sent(again, handover, 4) == [(9, [1, 4, 6, 7] if one_home else [6, 7])]
    assert sent(again, handover, 5) == []


def test_lists_that_were_held_back_or_adopted_are_sent_whole():
    """What came while nobody spoke for a query is older than what came last."""
    answers, handover = Answers(GrowingCore(1, 4), "rankings", one_home=False), Handover(1, 10)
    handover._waiting = [(4, ints(5))]
    answers.change(Found(changed=ints(5, 6)), 8, 4)
    assert sent(answers, handover, 3) == [(9, [4])]  # of 6
    answers.adopt(handover, ranked([(6, 7, 9, [(3, 7)])]), 0, one_home=False)
    answers._core.seqs.append(6)
    answers.change(Found(changed=ints(5, 6)), 8, 6)
    assert sent(answers, handover, 4) == [(9, [1, 3, 4, 6]), (9, [1, 3, 4, 6]), (-1, [])]
    answers._core.seqs.append(8)
    answers.change(Found(changed=ints(5, 6)), 8, 8)
    assert sent(answers, handover, 5) == [(9, [8]), (9, [8])]


class BusyCore(GrowingCore):
    """Holds every query."""

    def holds(self, numbers):
        return np.ones(len(numbers), np.bool_)


@pytest.mark.parametrize("one_home", [False, True])
def test_lists_of_one_batch_are_those_of_one_merger(one_home):
    """The grouping by number passes such a batch on as it is; every list is sent once, and those of a merger ascend."""
    numbers, mergers = np.arange(40, dtype=np.int64), 3
    answers = Answers(BusyCore(1, 4), "rankings", one_home=one_home, mergers=mergers)
    answers.change(Found(changed=numbers), 8, 4)
    emit = Emitter({"rankings": batch_fields(RankedBatch)})
    answers.send(Epoch(3, 9), None, emit)
    grouping = make_grouping("fields", GroupingContext(0, mergers, (), ("number",), 0))
    divided = [grouping.divide(lists) for lists in emit.batches("rankings")]
    assert all(sum(part is not None for part in parts) == 1 for parts in divided)
    by_merger = [[part.number for parts in divided if (part := parts[one]) is not None] for one in range(mergers)]
    assert all(len(found) == 1 and (np.diff(found[0]) > 0).all() for found in by_merger)
    assert sorted(np.concatenate([found[0] for found in by_merger])) == numbers.tolist()
