"""The wire format: what goes in comes out, and nothing else is taken for a message."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.batches import (
    AnswerBatch,
    HitBatch,
    MatchBatch,
    ObjectBatch,
    QueryBatch,
    RankedBatch,
    RejectBatch,
    TupleBatch,
    tuple_rows,
)
from streams.codec import VERSION, decode, encode, size_of
from streams.columns import Ids
from streams.errors import CodecError

int64 = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False)
names = st.one_of(int64, st.text(max_size=6))
meta = st.recursive(
    st.one_of(st.none(), st.booleans(), int64, st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


def draw_array(data, rows, values, kind):
    """Return an array of drawn values."""
    return np.array(data.draw(st.lists(values, min_size=rows, max_size=rows)), kind)


def draw_ids(data, rows):
    """Return a column of drawn identifiers."""
    return Ids.of(data.draw(st.lists(names, min_size=rows, max_size=rows)))


def draw_off(data, rows):
    """Return drawn offsets."""
    off = np.zeros(rows + 1, np.int32)
    np.cumsum(draw_array(data, rows, st.integers(0, 3), np.int32), out=off[1:])
    return off


def draw_objects(data, rows):
    """Return a batch of objects with drawn columns."""
    off = draw_off(data, rows)
    return ObjectBatch(
        draw_array(data, rows, int64, np.int64), draw_array(data, rows, int64, np.int64),
        draw_array(data, rows, floats, np.float64), draw_array(data, rows, floats, np.float64),
        draw_array(data, rows, st.integers(0, 1), np.uint8), off,
        draw_array(data, int(off[-1]), int64, np.int64), draw_ids(data, rows),
    )  # fmt: skip


def draw_queries(data, rows):
    """Return a batch of query operations with drawn columns."""
    off, none_off, ring_off = (draw_off(data, rows) for _ in range(3))
    ints = [draw_array(data, rows, int64, np.int64) for _ in range(6)]
    bytes_ = [draw_array(data, rows, st.integers(0, 3), np.uint8) for _ in range(4)]
    flags = [draw_array(data, rows, st.booleans(), np.bool_) for _ in range(2)]
    return QueryBatch(
        number=ints[0], target=ints[1], op=bytes_[0], ts=ints[2], end=ints[3], type=bytes_[1], continuous=flags[0],
        match_any=flags[1], region=bytes_[2], shape=draw_array(data, 4 * rows, floats, np.float64).reshape(rows, 4),
        k=draw_array(data, rows, st.integers(0, 99), np.int32), alpha=draw_array(data, rows, floats, np.float64),
        window=ints[4], slide=ints[5], detect=bytes_[3], kw_off=off, kw=draw_array(data, int(off[-1]), int64, np.int64),
        ids=draw_ids(data, rows), none_off=none_off, none=draw_array(data, int(none_off[-1]), int64, np.int64),
        ring_off=ring_off, ring_x=draw_array(data, int(ring_off[-1]), floats, np.float64),
        ring_y=draw_array(data, int(ring_off[-1]), floats, np.float64),
        ring_mark=draw_array(data, int(ring_off[-1]), st.integers(0, 255), np.uint8),
    )  # fmt: skip


def draw_answers(data, rows):
    """Return a batch of answers with drawn columns."""
    off = draw_off(data, rows)
    return AnswerBatch(
        draw_ids(data, rows), draw_array(data, rows, int64, np.int64), draw_array(data, rows, st.integers(0, 3), np.uint8),
        off, draw_ids(data, int(off[-1])), draw_array(data, int(off[-1]), floats, np.float64),
    )  # fmt: skip


def draw_matches(data, rows):
    """Return a batch of matches with drawn columns."""
    return MatchBatch(draw_ids(data, rows), draw_array(data, rows, int64, np.int64), draw_ids(data, rows))


def draw_hits(data, rows):
    """Return a batch of hits with drawn columns."""
    off = draw_off(data, rows)
    return HitBatch(
        draw_array(data, rows, int64, np.int64), draw_array(data, rows, int64, np.int64), draw_ids(data, rows), off,
        draw_array(data, int(off[-1]), int64, np.int64),
    )  # fmt: skip


def draw_rankings(data, rows):
    """Return a batch of lists with drawn columns."""
    off = draw_off(data, rows)
    items = int(off[-1])
    return RankedBatch(
        draw_array(data, rows, int64, np.int64), draw_array(data, rows, int64, np.int64),
        draw_array(data, rows, st.integers(0, 3), np.uint8), draw_array(data, rows, st.integers(-9, 99), np.int32),
        draw_array(data, rows, st.booleans(), np.bool_), off, draw_array(data, items, int64, np.int64),
        draw_ids(data, items), draw_array(data, items, floats, np.float64),
    )  # fmt: skip


def draw_rejects(data, rows):
    """Return a batch of rejects with drawn columns."""
    reasons = data.draw(st.lists(st.text(max_size=9), min_size=rows, max_size=rows))
    return RejectBatch.of("objects.csv", draw_array(data, rows, int64, np.int64).tolist(), reasons)


def draw_tuples(data, rows):
    """Return a batch of plain tuples with drawn columns of several kinds."""
    row = st.tuples(int64, floats, st.booleans(), st.text(max_size=4), st.one_of(int64, st.text(max_size=3), st.none()))
    return TupleBatch.of(("a", "b", "c", "d", "e"), data.draw(st.lists(row, min_size=rows, max_size=rows)))


BATCHES = (draw_objects, draw_queries, draw_answers, draw_matches, draw_hits, draw_rankings, draw_rejects, draw_tuples)


def parts_of(data):
    """Return drawn batches by stream."""
    kinds = data.draw(st.lists(st.sampled_from(BATCHES), max_size=3))
    return [(data.draw(st.text(max_size=4)), draw(data, data.draw(st.integers(0, 4)))) for draw in kinds]


def told(parts):
    """Return batches as their names and plain rows."""
    return [(stream, type(batch), tuple_rows(batch)) for stream, batch in parts]


@given(st.data(), meta)
def test_messages_come_back_as_they_went(data, extra):
    """Decoding an encoded message gives the same metadata and the same batches."""
    parts = parts_of(data)
    buffers = encode(parts, extra)
    raw = b"".join(buffers)
    assert size_of(buffers) == len(raw)
    found_meta, found = decode(raw)
    assert found_meta == extra
    assert told(found) == told(parts)


@given(st.data())
def test_messages_take_slices_without_what_is_around_them(data):
    """A slice of a batch travels as that slice, though its columns share memory with the rest."""
    batch = data.draw(st.sampled_from(BATCHES))(data, 5)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5))))
    part = batch.slice(start, stop)
    _, [(_, found)] = decode(b"".join(encode([("s", part)])))
    assert tuple_rows(found) == tuple_rows(part)
    assert tuple_rows(found)[1] == tuple_rows(batch)[1][start:stop]


@given(st.data())
def test_messages_cut_short_are_refused(data):
    """A message without its end is an error, not a shorter batch."""
    raw = b"".join(encode([("s", data.draw(st.sampled_from(BATCHES))(data, 3))]))
    keep = data.draw(st.integers(0, len(raw) - 9))
    with pytest.raises(CodecError):
        decode(raw[:keep])


@given(st.data())
def test_messages_with_changed_bytes_are_refused_or_well_formed(data):
    """Whatever bytes arrive, the result is an error of ours or batches whose offsets stay inside of their values."""
    raw = bytearray(b"".join(encode([("s", data.draw(st.sampled_from(BATCHES))(data, 3))])))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        _, parts = decode(bytes(raw))
    except CodecError:
        return
    for _, batch in parts:
        for off_name, value_names in getattr(batch, "RAGGED", ()):
            off = getattr(batch, off_name)
            assert len(off) == len(batch) + 1
            assert off[0] == 0
            assert (np.diff(off) >= 0).all()
            assert all(off[-1] == len(getattr(batch, name)) for name in value_names)


@given(st.binary(max_size=60))
def test_messages_are_not_made_of_noise(raw):
    """Bytes of another version, or of no version, are refused with an error of ours."""
    with pytest.raises(CodecError):
        decode(bytes([VERSION + 1]) + raw)


def test_column_of_another_type_is_refused():
    """A batch whose column has the wrong type never reaches a kernel."""
    batch = ObjectBatch.empty()
    wrong = dataclasses.replace(batch, ts=np.empty(0, np.float64))
    with pytest.raises(CodecError, match="column 'ts' of a ObjectBatch has type float64, expected int64"):
        decode(b"".join(encode([("s", wrong)])))
