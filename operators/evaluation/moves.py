"""What a change of plan means to one evaluator, from the routes of its queries under the old and the new plan alone.

Cells, leaves, subscriptions and ranges of keywords all come down to this: the workers of a query have changed. Let `old` and
`new` be its workers. The first of `old` gives the query to each of `new - old`, in the background, before the new plan is in
force. Each of `old - new` stops answering in the epoch of the switch and gives what it has found so far to the first of `new`.
A query with such a worker is *unsettled* until these results have come: nobody of `new` speaks for it until then.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.core import Core
from partitioners.columns import Csr, Workers, column
from streams.columns import Ints
from streams.kernel import kernel

__all__ = ["Moves", "ended_on_their_way", "moves_of"]

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """What one evaluator has to do about some queries, row by row.

    Attributes:
        give_row, give_to: pairs of a row and the worker that gets a copy of its query.
        early: the new plan wants the query here, the old one did not: it sleeps until the switch.
        leaves: the old plan wants the query here, the new one does not: it falls silent at the switch, and goes.
        adopter: where the query leaves, the worker that gets its results; -1 elsewhere, and where the new plan has none.
        unsettled: the query is wanted here, and results of another worker are on their way from the switch on.
    """

    give_row: Ints
    give_to: Workers
    early: Flags
    leaves: Flags
    adopter: Workers
    unsettled: Flags


def moves_of(old: Csr, new: Csr, me: int) -> Moves:
    """Compare the routes of queries under two plans, as worker `me` sees it."""
    old_off, old_workers, new_off, new_workers = (column(part, np.int32) for part in (*old, *new))
    return Moves(*_moves(old_off, old_workers, new_off, new_workers, me))


def ended_on_their_way(core: Core, numbers: Ints, watermark: int | None) -> Ints:
    """Return those of some queries that have come which ended before: who gave them may have spoken their last word."""
    if watermark is None:
        return np.empty(0, np.int64)
    queries = core.queries(numbers)
    return np.asarray(queries.number[queries.end <= watermark], np.int64)


@kernel
def _moves(old_off: Workers, old: Workers, new_off: Workers, new: Workers, me: int) -> Any:
    rows = len(old_off) - 1
    give_row, give_to = np.empty(len(new), np.int64), np.empty(len(new), np.int32)
    early, leaves, unsettled = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    adopter = np.full(rows, -1, np.int32)
    given = 0
    for row in range(rows):
        i, j = old_off[row], new_off[row]
        first = i < old_off[row + 1] and old[i] == me
        in_old = in_new = lost = False
        # Both rows ascend: one walk finds who is in both, only in the old one, only in the new one.
        while i < old_off[row + 1] or j < new_off[row + 1]:
            if j == new_off[row + 1] or (i < old_off[row + 1] and old[i] < new[j]):
                lost = True
                in_old |= old[i] == me
                i += 1
            elif i == old_off[row + 1] or new[j] < old[i]:
                in_new |= new[j] == me
                if first:
                    give_row[given], give_to[given] = row, new[j]
                    given += 1
                j += 1
            else:
                in_old |= old[i] == me
                in_new |= old[i] == me
                i += 1
                j += 1
        early[row] = in_new and not in_old
        leaves[row] = in_old and not in_new
        unsettled[row] = in_new and lost
        if leaves[row] and new_off[row + 1] > new_off[row]:
            adopter[row] = new[new_off[row]]
    return give_row[:given], give_to[:given], early, leaves, adopter, unsettled
