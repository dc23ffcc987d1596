"""What a change of plan means to one evaluator, against sets of workers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.evaluation.moves import moves_of

WORKERS = 4

rows = st.frozensets(st.integers(0, WORKERS - 1))
changes = st.lists(st.tuples(rows, rows), max_size=8)


def routes_of(sets):
    """Return sets of workers as routes."""
    off = np.cumsum([0, *map(len, sets)]).astype(np.int32)
    return off, np.array([worker for row in sets for worker in sorted(row)], np.int32)


@settings(max_examples=300)
@given(changes, st.integers(0, WORKERS - 1))
def test_moves_are_those_of_sets(drawn, me):
    """Each part of a move is what its definition says of the workers before and after."""
    moves = moves_of(routes_of([old for old, _ in drawn]), routes_of([new for _, new in drawn]), me)
    given_ = [(row, to) for row, (old, new) in enumerate(drawn) if old and min(old) == me for to in sorted(new - old)]
    assert list(zip(moves.give_row.tolist(), moves.give_to.tolist(), strict=True)) == given_
    assert moves.early.tolist() == [me in new - old for old, new in drawn]
    assert moves.leaves.tolist() == [me in old - new for old, new in drawn]
    assert moves.adopter.tolist() == [min(new) if me in old - new and new else -1 for old, new in drawn]
    assert moves.unsettled.tolist() == [me in new and bool(old - new) for old, new in drawn]


@given(changes)
def test_moves_give_each_taker_one_copy_and_results_one_home(drawn):
    """Over all workers: a query comes to each new worker once, and whoever leaves it sends results to one that waits."""
    old, new = routes_of([old for old, _ in drawn]), routes_of([new for _, new in drawn])
    all_ = [moves_of(old, new, me) for me in range(WORKERS)]
    copies = sorted((r, t) for m in all_ for r, t in zip(m.give_row.tolist(), m.give_to.tolist(), strict=True))
    assert copies == sorted((row, to) for row, (o, n) in enumerate(drawn) if o for to in n - o)
    for moves in all_:
        for row in np.flatnonzero(moves.adopter >= 0).tolist():
            assert all_[moves.adopter[row]].unsettled[row]
