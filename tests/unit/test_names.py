"""The identifiers of queries where results are written, against a dict."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.operator import Epoch
from operators.sinks import names as module
from operators.sinks.names import KEPT_EPOCHS, Names
from streams.batches import FOREVER, TYPE_TOPK, HitBatch, RankedBatch, TupleBatch, tuple_rows
from streams.columns import Ids
from streams.errors import RunError
from streams.state import pack_state, unpack_state


def told(*rows):
    """Return names as spouts send them: (number, id, end)."""
    numbers, ids, ends = zip(*rows, strict=True)
    return TupleBatch(("number", "id", "end"), (np.array(numbers), Ids.of(ids), np.array(ends)))


def hits(*numbers):
    """Return one object that these queries match."""
    return HitBatch(
        np.array([0]), np.array([3]), Ids.of(["o"]), np.array([0, len(numbers)], np.int32), np.array(numbers, np.int64)
    )


def names_of(held, *numbers):
    return held.named(hits(*numbers)).query.to_list()


ends = st.integers(1, 20) | st.just(FOREVER)
rounds = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 15), ends), max_size=5), st.integers(0, 4), st.booleans()), max_size=12
)


@settings(max_examples=200)
@given(rounds, st.integers(1, 4), st.integers(1, 3))
def test_names_are_those_of_a_dict(drawn, kept, most_runs):
    """A name is known from when it is sent until some epochs after the watermark has passed its lowest end.

    Only those count in which the watermark moves on.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "KEPT_EPOCHS", kept)
        patch.setattr(module, "_MOST_RUNS", most_runs)
        held, known, gone_at, watermark, used, steps = Names(), {}, {}, -1, set(), 0
        for epoch, (rows, step, save) in enumerate(drawn):
            rows = [(n, f"q{n}", end) for n, end in rows if n in known or n not in used]
            if rows:
                held.apply([told(*rows)])
            for n, _, end in rows:
                known[n] = min(known.get(n, FOREVER), end)
                used.add(n)
            assert names_of(held, *sorted(known)) == [f"q{n}" for n in sorted(known)]
            step += watermark < 0
            watermark, steps = watermark + step, steps + (step > 0)
            held.drop_ended(Epoch(epoch, watermark))
            for n, end in known.items():
                if end <= watermark:
                    gone_at.setdefault(n, steps)
            for n in [n for n, at in gone_at.items() if at + kept < steps and n in known]:
                del known[n]
            assert len(held) == len(known)
            if save:
                state = unpack_state(pack_state(held.snapshot()))
                held = Names()
                held.restore(state)


def test_names_are_kept_for_answers_that_were_held_back():
    """So many epochs after its end a query can still be named, then its result is an error that says what is missing."""
    held = Names()
    held.apply([told((1, "a", 5), (2, "b", FOREVER))])
    for epoch in range(KEPT_EPOCHS + 1):
        for _ in range(9):  # time stands still, and what is held back waits until it goes on
            held.drop_ended(Epoch(epoch, 5 + epoch))
        assert names_of(held, 2, 1) == ["b", "a"]
    held.drop_ended(Epoch(KEPT_EPOCHS + 1, 6 + KEPT_EPOCHS))
    assert len(held) == 1
    with pytest.raises(RunError, match=r"query number 1, whose identifier no spout has sent; .* a stream 'names'"):
        names_of(held, 2, 1)


def test_names_stay_while_the_watermark_is_not_known_or_below_the_end():
    """An end is exclusive: at the watermark that equals it the query has ended, before it has not."""
    held = Names()
    held.apply([told((1, "a", 5))])
    held.drop_ended(Epoch(0, None))
    held.drop_ended(Epoch(1, 4))
    assert held.snapshot()["leaving"] == []
    held.drop_ended(Epoch(2, 5))
    assert [numbers.tolist() for _, numbers in held.snapshot()["leaving"]] == [[1]]


def lists_at(*lines):
    """Return empty lists: (number, time)."""
    numbers, times = (np.array(column) for column in zip(*lines, strict=True))
    return RankedBatch.without_items(numbers, 1, times, TYPE_TOPK)


def test_lists_of_queries_that_have_ended_are_of_a_time_when_they_lived():
    """Also where that comes to light long after, and the run was cut meanwhile; others keep their times."""
    held = Names()
    held.apply([told((1, "a", 5), (2, "b", FOREVER), (3, "c", 9), (4, "d", 50)), told((4, "d", 7))])
    lists = lists_at((4, 8), (1, 3), (2, 8), (3, 8), (1, 8))
    assert held.dated(lists).ts.tolist() == [8, 3, 8, 8, 8]
    held.drop_ended(Epoch(0, 8))
    again = Names()
    again.restore(unpack_state(pack_state(held.snapshot())))
    for names in (held, again):
        assert names.dated(lists).ts.tolist() == [6, 3, 8, 8, 4]
        names.drop_ended(Epoch(1, 90))
        assert names.dated(lists_at((3, 90), (4, 90), (2, 90))).ts.tolist() == [8, 6, 90]


def test_named_results_are_what_users_see():
    """A match a row, a list a row, with the users' identifiers; what is no result of a query stays as it is."""
    held = Names()
    held.apply([told((1, "a", FOREVER), (2, 17, FOREVER))])
    two = HitBatch(
        np.array([0, 1]), np.array([3, 4]), Ids.of(["x", "y"]), np.array([0, 2, 3], np.int32), np.array([2, 1, 1])
    )
    assert tuple_rows(held.named(two))[1] == [(17, 3, "x"), ("a", 3, "x"), ("a", 4, "y")]
    lists = RankedBatch(
        np.array([2, 1]), np.array([3, 4]), np.full(2, TYPE_TOPK, np.uint8), np.array([2, 2], np.int32), np.zeros(2, np.bool_),
        np.array([0, 1, 3], np.int32), np.array([0, 1, 2]), Ids.of(["x", "y", "z"]), np.array([0.5, 0.25, 0.125]),
    )  # fmt: skip
    assert tuple_rows(held.named(lists))[1] == [
        (17, 3, TYPE_TOPK, ["x"], [0.5]), ("a", 4, TYPE_TOPK, ["y", "z"], [0.25, 0.125]),
    ]  # fmt: skip
    plain = TupleBatch.of(("v",), [(1,)])
    assert held.named(plain) is plain
