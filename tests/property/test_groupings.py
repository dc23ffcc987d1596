"""Groupings deliver each tuple to the right tasks exactly once."""

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from operators_for_tests import ByParity

from partitioners.plans.broadcast import HashPlan
from streams.batches import TupleBatch
from streams.geometry import Rect
from streams.hashing import hash_columns
from topology.groupings import GROUPINGS, GroupingContext, make_grouping

values = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=3), st.none(), st.booleans()
)
rows = st.lists(st.tuples(st.integers(0, 50), values), max_size=40)
batches = st.lists(rows, max_size=4)


def context(targets, source=0, local=None, seed=0):
    return GroupingContext(source, targets, tuple(range(targets)) if local is None else local, ("number",), seed)


def delivered(name, groups, targets, **kwargs):
    """Divide batches and return the rows of each task, in order."""
    chooser = ByParity() if name == "custom" else None
    grouping = make_grouping(name, context(targets, **kwargs), chooser)
    received = [[] for _ in range(targets)]
    for group in groups:
        for task, part in enumerate(grouping.divide(TupleBatch.of(("number", "value"), group))):
            received[task] += part.rows() if part is not None else []
    return received


@given(
    st.sampled_from([n for n in GROUPINGS if n not in ("all", "direct")]), batches, st.integers(1, 6), st.integers(0, 9)
)
def test_each_tuple_arrives_exactly_once(name, groups, targets, seed):
    """Every grouping but 'all' gives each tuple to one task, unchanged."""
    received = delivered(name, groups, targets, seed=seed)
    sent = [row for group in groups for row in group]
    assert Counter(map(repr, (row for task in received for row in task))) == Counter(map(repr, sent))


@given(batches, st.integers(1, 6))
def test_all_grouping_repeats_everything(groups, targets):
    """Each task of an 'all' grouping gets every tuple in order."""
    sent = [row for group in groups for row in group]
    assert all(list(map(repr, task)) == list(map(repr, sent)) for task in delivered("all", groups, targets))


@given(batches, st.integers(1, 6), st.integers(0, 5), st.integers(0, 5))
def test_fields_grouping_agrees_between_senders(groups, targets, one, other):
    """Equal values meet at one task, whoever sends them and however batches are cut."""
    joined = [[row for group in groups for row in group]]
    first = delivered("fields", groups, targets, source=one)
    second = delivered("fields", joined, targets, source=other)
    assert [list(map(repr, t)) for t in first] == [list(map(repr, t)) for t in second]
    owner = {}
    for task, received in enumerate(first):
        for number, _ in received:
            assert owner.setdefault(number, task) == task


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=40), st.integers(1, 6))
def test_fields_grouping_by_remainder_follows_a_hash_plan(numbers, targets):
    """Where mergers are as many as evaluators, the lists of one evaluator all reach the merger of the same index."""
    plan = HashPlan(Rect(0.0, 0.0, 1.0, 1.0), targets)
    column = np.array(numbers, np.int64)
    grouping = make_grouping("fields", replace(context(targets), by_remainder=True))
    home = plan.slot_worker[column % len(plan.slot_worker)]
    for task, part in enumerate(grouping.divide(TupleBatch(("number",), (column,)))):
        assert (column[home == task]).tolist() == ([] if part is None else part.column("number").tolist())


@given(batches, st.integers(1, 6))
def test_shuffle_differs_by_one_at_most(groups, targets):
    """Over the whole stream, no task gets more than one tuple more than another."""
    sizes = [len(task) for task in delivered("shuffle", groups, targets)]
    assert max(sizes) - min(sizes) <= 1


@given(batches, st.integers(1, 6))
def test_global_grouping_sends_all_to_the_first(groups, targets):
    """Task 0 gets everything."""
    received = delivered("global", groups, targets)
    assert not any(received[1:])


@given(batches, st.integers(2, 6))
def test_partial_key_uses_two_tasks_a_value(groups, targets):
    """A value is never seen by more than two tasks."""
    seen = {}
    for task, received in enumerate(delivered("partial-key", groups, targets)):
        for number, _ in received:
            seen.setdefault(number, set()).add(task)
    assert all(len(tasks) <= 2 for tasks in seen.values())


def test_partial_key_balances_a_skewed_stream():
    """One hot value is spread over two tasks where a fields grouping would load one."""
    groups = [[(1, i) for i in range(1000)] + [(i, i) for i in range(100)]]
    fields = max(len(task) for task in delivered("fields", groups, 8))
    partial = max(len(task) for task in delivered("partial-key", groups, 8))
    assert partial < fields * 0.6


@given(batches, st.integers(2, 6), st.data())
def test_local_or_shuffle_stays_on_the_node(groups, targets, data):
    """Where some tasks are local, only they get tuples; where none is, all do."""
    local = tuple(sorted(data.draw(st.sets(st.integers(0, targets - 1)))))
    received = delivered("local-or-shuffle", groups, targets, local=local)
    if local:
        assert not any(received[task] for task in range(targets) if task not in local)
    sizes = [len(received[task]) for task in (local or range(targets))]
    assert max(sizes) - min(sizes) <= 1


@given(st.sampled_from(["shuffle", "partial-key"]), batches, batches, st.integers(1, 6))
def test_grouping_goes_on_after_restore(name, before, after, targets):
    """A grouping restored from a snapshot divides like one that never stopped."""
    straight = make_grouping(name, context(targets))
    for group in before:
        straight.divide(TupleBatch.of(("number", "value"), group))
    restored = make_grouping(name, context(targets))
    restored.restore(straight.snapshot())
    for group in after:
        batch = TupleBatch.of(("number", "value"), group)
        ours = [part.rows() if part is not None else None for part in straight.divide(batch)]
        theirs = [part.rows() if part is not None else None for part in restored.divide(batch)]
        assert repr(ours) == repr(theirs)


@given(st.lists(values, min_size=1, max_size=20))
@settings(max_examples=300)
def test_hash_does_not_depend_on_the_column(items):
    """A value hashes alike on its own, in a typed column and in a mixed one."""
    together = hash_columns([TupleBatch.of(("v",), [(v,) for v in items]).column("v")])
    alone = [hash_columns([TupleBatch.of(("v",), [(v,)]).column("v")])[0] for v in items]
    assert together.tolist() == [int(h) for h in alone]


def test_hash_spreads_consecutive_numbers():
    """Consecutive integers land evenly on a few tasks."""
    places = hash_columns([np.arange(80_000)]) % np.uint64(8)
    counts = np.bincount(places.astype(int), minlength=8)
    assert counts.min() > 9_500
    assert counts.max() < 10_500
