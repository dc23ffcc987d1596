import numpy as np
import pytest

from operators.sinks.published import Published, ResultFrame, pack_results, unpack_results
from streams.batches import CrossingBatch, HitBatch, RankedBatch
from streams.columns import Ids
from streams.errors import CodecError
from streams.segment_log import Frame


def ints(*values):
    return np.array(values, np.int64)


def hits(*seqs):
    """Objects that match one query each."""
    seq = ints(*seqs)
    return HitBatch(seq, seq * 10, Ids("int", seq), np.arange(len(seq) + 1, dtype=np.int32), seq + 100)


def lists(*rows):
    """Lists of (query number, time, whether it is given once), with their time, or what is given besides, as the one item."""
    number, ts, instant = (list(column) for column in zip(*(row[:3] for row in rows), strict=True))
    item, n = ints(*(row[3] if len(row) > 3 else row[1] for row in rows)), len(rows)
    return RankedBatch(
        ints(*number), ints(*ts), np.ones(n, np.uint8), np.ones(n, np.int32), np.array(instant),
        np.arange(n + 1, dtype=np.int32), item, Ids("int", item), np.zeros(n),
    )  # fmt: skip


def crossings(*rows):
    """Events of (query number, time, identifier)."""
    number, ts, ids = (ints(*column) for column in zip(*rows, strict=True))
    return CrossingBatch(number, number, ts, Ids("int", ids), np.zeros(len(rows), np.uint8))


def published(*batches):
    """What is known after these have been published, saved and read again."""
    found, again = Published(), Published()
    for batch in batches:
        found.add(ResultFrame().noting(batch))
    again.restore(found.snapshot())
    return again


def test_matches_are_known_by_the_place_of_their_object():
    """Of a replayed epoch that reaches further than the one that was published, only what is new is left."""
    assert published(hits(3, 5)).without(hits(4, 5, 6, 9)).seq.tolist() == [6, 9]
    assert published(hits(3, 5)).without(hits(7)).seq.tolist() == [7]


def test_states_of_lists_are_known_by_query_and_time():
    """A list of a time up to the last published one says nothing new, wherever epochs are cut; a later one does."""
    known = published(lists((1, 10, False)), lists((1, 20, False), (2, 5, False)))
    left = known.without(lists((1, 15, False), (2, 6, False), (3, 1, False)))
    assert list(zip(left.number.tolist(), left.ts.tolist(), strict=True)) == [(2, 6), (3, 1)]
    assert known.without(lists((1, 20, False), (1, 21, False))).ts.tolist() == [21]


def test_list_that_says_what_was_published_last_is_not_new():
    """Where epochs are cut otherwise, a state may come under a later time; once another has come, it is new again."""
    known = published(lists((1, 10, False, 7), (1, 20, False, 8)))
    assert len(known.without(lists((1, 25, False, 8)))) == 0
    assert known.without(lists((1, 26, False, 7), (1, 27, False, 8))).ts.tolist() == [26, 27]


def test_answers_are_given_once_for_each_instant():
    """An instant that was answered is not answered again; another one of the same query is."""
    known = published(lists((1, 10, True)))
    assert known.without(lists((1, 10, True), (1, 20, True))).ts.tolist() == [20]


def test_events_are_counted_where_the_same_one_happens_twice():
    """Who entered twice at one time has two events; as many are left out as were published."""
    known = published(crossings((1, 10, 7), (1, 10, 7), (1, 10, 8)))
    assert known.without(crossings((1, 10, 7), (1, 10, 8), (1, 10, 9))).ids.to_list() == [9]
    assert len(known.without(crossings((1, 10, 7), (1, 10, 7)))) == 1


def test_frames_come_back_as_they_were_packed():
    """Lines, their queries, and what is needed to know them again."""
    frame = ResultFrame().noting(hits(4)).noting(lists((1, 10, False), (2, 11, True))).noting(crossings((1, 10, 7)))
    data = bytearray(b"".join(pack_results(frame, b'{"a":1}\n{"b":2}\n', ints(8, 9))))
    found = unpack_results(Frame(5, 99, data))
    assert (found.seq, found.lists, found.instants, found.crossings) == (4, frame.lists, ((2, 11),), ((1, 10, 7, 0),))
    assert [line[:2] for line in found.lists] == [(1, 10)]
    assert (found.number.tolist(), found.ends.tolist(), found.lines) == ([8, 9], [8, 16], b'{"a":1}\n{"b":2}\n')
    assert found.position == 5


@pytest.mark.parametrize("cut", [0, 3, 10, 30])
def test_frames_that_are_none_are_refused(cut):
    """What is cut off is an error of ours, never lines of another query."""
    data = bytearray(b"".join(pack_results(ResultFrame(), b'{"a":1}\n{"b":2}\n', ints(8, 9))))[: cut or -1]
    with pytest.raises(CodecError):
        unpack_results(Frame(0, len(data), data))
