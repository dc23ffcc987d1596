"""Batches: rows taken, sliced and joined, and plain tuples in columns."""

import numpy as np
import pytest

from streams.batches import (
    AnswerBatch,
    HitBatch,
    MatchBatch,
    ObjectBatch,
    QueryBatch,
    RankedBatch,
    RejectBatch,
    TupleBatch,
    batch_fields,
    tuple_rows,
)
from streams.columns import Ids


def objects():
    """Return three objects with one, no and two keywords."""
    return ObjectBatch(
        seq=np.array([0, 1, 2]), ts=np.array([5, 6, 7]), x=np.array([0.1, 0.2, 0.3]), y=np.array([0.4, 0.5, 0.6]),
        op=np.array([0, 1, 0], np.uint8), kw_off=np.array([0, 1, 1, 3], np.int32), kw=np.array([9, 2, 4]),
        ids=Ids.of(["a", 7, "c"]),
    )  # fmt: skip


def answers():
    """Return two answers with two and one items."""
    return AnswerBatch(
        Ids.of(["q1", "q2"]), np.array([1, 2]), np.array([1, 1], np.uint8), np.array([0, 2, 3], np.int32),
        Ids.of(["a", "b", "c"]), np.array([0.1, 0.2, 0.3]),
    )  # fmt: skip


def hits():
    """Return three objects that two, no and one queries match."""
    return HitBatch(
        np.array([4, 5, 6]), np.array([1, 1, 2]), Ids.of(["a", 7, "c"]), np.array([0, 2, 2, 3], np.int32), np.array([9, 8, 9])
    )  # fmt: skip


def rankings():
    """Return three lists of one, no and two items, the last of an instant."""
    return RankedBatch(
        number=np.array([7, 8, 9]), ts=np.array([1, 2, 3]), type=np.array([1, 2, 3], np.uint8),
        k=np.array([1, -2, 5], np.int32), instant=np.array([False, False, True]), off=np.array([0, 1, 1, 3], np.int32),
        seq=np.array([4, 6, 5]), ids=Ids.of(["a", 7, "c"]), value=np.array([0.5, 1.5, 2.5]),
    )  # fmt: skip


@pytest.mark.parametrize("make", [objects, answers, hits, rankings])
def test_batches_take_slice_and_concat_are_those_of_rows(make):
    """What is done to a batch is done to its rows, ragged columns included."""
    batch = make()
    names, rows = tuple_rows(batch)
    last = len(batch) - 1
    assert tuple_rows(batch.take(np.array([last, 0, last]))) == (names, [rows[last], rows[0], rows[last]])
    assert tuple_rows(batch.slice(1, 99))[1] == rows[1:]
    assert tuple_rows(batch.slice(2, 1))[1] == []
    assert tuple_rows(type(batch).concat([batch, batch.slice(0, 0), batch.slice(1, 2)]))[1] == [*rows, rows[1]]


def test_rows_that_are_kept_are_the_batch_itself_where_all_are():
    """Some rows are taken, none are an empty batch."""
    batch = ObjectBatch.empty()
    assert batch.where(np.empty(0, np.bool_)) is batch
    rows = RankedBatch(
        np.arange(3), np.arange(3), np.zeros(3, np.uint8), np.ones(3, np.int32), np.zeros(3, np.bool_),
        np.array([0, 1, 1, 2], np.int32), np.array([7, 8]), Ids.of([7, 8]), np.zeros(2),
    )  # fmt: skip
    assert rows.where(np.ones(3, np.bool_)) is rows
    assert rows.where(np.array([True, False, True])).seq.tolist() == [7, 8]
    assert len(rows.where(np.zeros(3, np.bool_))) == 0


def test_batches_concat_of_one_is_that_one():
    """Joining a batch with empty ones copies nothing."""
    batch = objects()
    assert ObjectBatch.concat([ObjectBatch.empty(), batch, ObjectBatch.empty()]) is batch
    assert len(ObjectBatch.concat([ObjectBatch.empty()])) == 0


@pytest.mark.parametrize("cls", [ObjectBatch, QueryBatch, MatchBatch, HitBatch, RankedBatch])
def test_empty_batches_join_with_others(cls):
    """An empty batch has all columns, of the types that others have."""
    empty = cls.empty()
    assert len(empty) == 0
    assert tuple_rows(empty) == (batch_fields(cls), [])
    assert len(cls.concat([empty, empty]).take(np.empty(0, np.int64))) == 0


def test_batches_of_results_count_what_users_count():
    """A match is a pair of query and object, an answer is a list; rows of items name their list."""
    assert (hits().results, len(hits())) == (3, 3)
    assert hits().take(np.array([0])).results == 2
    assert (rankings().results, len(rankings().seq)) == (3, 3)
    assert rankings().row.tolist() == [0, 2, 2]


def test_slices_share_memory():
    """Slicing a batch copies no column."""
    batch = objects()
    assert np.shares_memory(batch.slice(1, 3).x, batch.x)
    assert np.shares_memory(batch.slice(1, 3).kw, batch.kw)


def test_reject_batches_name_their_file():
    """A batch of rejects repeats its source in every row."""
    batch = RejectBatch.of("o.csv", [3, 4], ["no id", "no ts"])
    assert tuple_rows(batch)[1] == [("o.csv", 3, "no id"), ("o.csv", 4, "no ts")]


def test_tuple_batches_pick_the_column_that_gives_the_values_back():
    """Columns of one type are arrays, anything else stays a list, and rows come back as they went in."""
    rows = [(1, 1.5, True, "a", None), (2, 2.5, False, "b", [1])]
    batch = TupleBatch.of(("i", "f", "b", "s", "o"), rows)
    assert batch.rows() == rows
    assert (batch.column("i").dtype, batch.column("f").dtype, batch.column("b").dtype) == (
        np.int64,
        np.float64,
        np.bool_,
    )
    assert isinstance(batch.column("s"), Ids)
    assert batch.column("o") == [None, [1]]
    assert TupleBatch.of(("big",), [(2**70,)]).rows() == [(2**70,)]


def test_tuple_batches_take_slice_and_concat():
    """Tuples are taken, sliced and joined as rows; columns of different types join into one that keeps the values."""
    first, second = TupleBatch.of(("v", "w"), [(1, "a"), (2, "b")]), TupleBatch.of(("v", "w"), [("x", "c")])
    joined = TupleBatch.concat([first, TupleBatch.of(("v", "w"), []), second])
    assert joined.rows() == [(1, "a"), (2, "b"), ("x", "c")]
    assert joined.take(np.array([2, 0])).rows() == [("x", "c"), (1, "a")]
    assert joined.slice(1, 2).rows() == [(2, "b")]
    assert len(TupleBatch.of((), [])) == 0
