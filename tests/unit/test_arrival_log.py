"""The log of kept objects: identifiers and windows over parts of all sizes."""

import numpy as np

from operators.evaluation import arrival_log
from operators.evaluation.arrival_log import ArrivalLog
from streams.batches import ObjectBatch
from streams.columns import Ids


def objects_of(first, count, names):
    """Objects from a place in the input on; their time is the tenth of it."""
    seq = np.arange(first, first + count)
    zeros = np.zeros(count)
    return ObjectBatch(
        seq, seq // 10, zeros, zeros, zeros.astype(np.uint8), np.zeros(count + 1, np.int32), seq[:0], Ids.of(names(seq))
    )


def test_identifiers_come_from_whatever_parts_they_are_in(monkeypatch):
    """Full chunks, the rest behind them, chunks that were dropped in part, numbers and texts."""
    monkeypatch.setattr(arrival_log, "CHUNK", 8)
    log, first = ArrivalLog(), 0
    for place, count in enumerate([3, 1, 9, 2, 30, 1, 1, 4]):
        log.append(objects_of(first, count, lambda seq, text=place % 3 == 0: [str(n) if text else int(n) for n in seq]))
        first += count
    log.drop(5)
    wanted = np.random.default_rng(1).permutation(np.arange(5, first))
    assert [int(name) for name in log.ids(wanted).to_list()] == wanted.tolist()
    assert log.ids(np.array([14, 12])).to_list() == ["14", 12]
    again = ArrivalLog()
    again.restore(log.snapshot())
    assert again.ids(wanted) == log.ids(wanted)


def test_windows_are_ranges_of_the_input():
    """Times before all objects, behind all of them, and of an empty log."""
    log = ArrivalLog()
    assert [part.tolist() for part in log.ranges(np.array([0]), np.array([9]))] == [[0], [0]]
    log.append(objects_of(20, 30, lambda seq: seq.tolist()))
    first, stop = log.ranges(np.array([-5, 2, 4, 9]), np.array([9, 3, 2, 99]))
    assert list(zip(first.tolist(), stop.tolist(), strict=True)) == [(20, 50), (30, 40), (50, 50), (50, 50)]
    assert log.first_after(2) == 30
