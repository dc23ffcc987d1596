"""Headers that lie: each kind of lie is refused with an error of ours, before anything is read through it."""

import dataclasses
import struct

import msgpack
import numpy as np
import pytest

from streams.batches import MatchBatch, ObjectBatch, QueryBatch, TupleBatch
from streams.codec import decode, encode
from streams.columns import Ids
from streams.errors import CodecError

PREFIX = struct.Struct("<BI")


def objects(ids=None):
    """Two objects with three keywords."""
    two = np.arange(2)
    off, keywords = np.array([0, 1, 3], np.int32), np.array([5, 6, 7])
    return ObjectBatch(two, two, two / 2, two / 2, np.zeros(2, np.uint8), off, keywords, ids or Ids.of([1, 2]))


def relabelled(batch, change):
    """Return the message of a batch whose header entry was changed."""
    buffers = encode([("s", batch)])
    version, size = PREFIX.unpack_from(buffers[0])
    meta, head = msgpack.unpackb(buffers[0][PREFIX.size : PREFIX.size + size])
    change(head[0])
    header = msgpack.packb([meta, head])
    pad = bytes(-(PREFIX.size + len(header)) % 8)
    return PREFIX.pack(version, len(header)) + header + pad + b"".join(map(bytes, buffers[1:]))


def setting(*path, to):
    """Return a change of one place in a header entry."""

    def change(entry):
        for step in path[:-1]:
            entry = entry[step]
        entry[path[-1]] = to

    return change


STREAM, KIND, KINDS, SIZES = range(4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (setting(STREAM, to=None), "a name or a number"),
        (setting(KIND, to="FileBatch"), "unknown type of batch 'FileBatch'"),
        (setting(KIND, to="MatchBatch"), "not a message of ours"),
        (setting(SIZES, 0, to=-8), "cut off"),
        (setting(SIZES, 0, to=1 << 40), "cut off"),
        (setting(SIZES, 0, to=8), "different lengths"),
        (setting(SIZES, 0, to=9), "no rows of int64"),
        (setting(SIZES, 0, to="8"), "not a message of ours"),
        (setting(SIZES, 5, to=8), "offsets"),
        (setting(SIZES, 6, to=16), "offsets that do not fit"),
        (setting(SIZES, 7, to=15), "multiple of 8"),
        (setting(SIZES, to=[16] * 3), "not a message of ours"),
        (setting(SIZES, to=[]), "not a message of ours"),
        (lambda entry: entry[SIZES].append(0), "more columns than it has"),
        (lambda entry: entry[KINDS].append("int"), "more columns than it has"),
        (setting(KINDS, 0, to="pickle"), "not a message of ours|identifiers of kind"),
        (setting(KINDS, to=[]), "not a message of ours"),
    ],
)
def test_header_that_lies_is_refused(change, message):
    """Sizes, kinds and numbers of columns that do not fit the batch are errors, not other batches."""
    with pytest.raises(CodecError, match=message):
        decode(relabelled(objects(), change))


def test_header_without_lies_is_taken():
    """The way in which the other tests change headers changes nothing else."""
    _, [(stream, batch)] = decode(relabelled(objects(Ids.of(["a", "b"])), lambda _entry: None))
    assert (stream, batch.ids.to_list(), batch.kw.tolist()) == ("s", ["a", "b"], [5, 6, 7])


@pytest.mark.parametrize("batch", [objects(), MatchBatch.empty(), QueryBatch.empty()])
def test_tuples_are_not_told_as_other_batches(batch):
    """A batch of one type under the name of plain tuples is refused, or has columns of one length."""
    try:
        _, [(_, found)] = decode(relabelled(batch, setting(KIND, to="TupleBatch")))
    except CodecError:
        return
    assert isinstance(found, TupleBatch)
    assert len({len(column) for column in found.columns}) <= 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ids": [1, 2]}, "column 'ids' has no identifiers but list"),
        ({"ids": Ids("int", np.arange(2, dtype=np.int32))}, "identifiers of type int32, expected int64"),
        ({"x": [0.5, 0.5]}, "column 'x' of a ObjectBatch has type list, expected float64"),
        ({"y": np.zeros((2, 2))}, "column 'y' of a ObjectBatch has rows of shape \\(2,\\), expected 1"),
    ],
)
def test_batch_of_other_columns_is_not_encoded(wrong, message):
    """A sender hears of a column that its type of batch does not have, and nothing leaves."""
    with pytest.raises(CodecError, match=message):
        encode([("s", dataclasses.replace(objects(), **wrong))])


@pytest.mark.parametrize("first", [-1, 1])
def test_offsets_that_do_not_begin_at_the_start_are_refused(first):
    """Offsets are followed without checks later on: rows that begin before or behind the first value are no rows."""
    off = np.array([first, 1, 3], np.int32)
    with pytest.raises(CodecError, match="'kw_off' has offsets that do not fit its 3 values"):
        decode(b"".join(map(bytes, encode([("s", dataclasses.replace(objects(), kw_off=off))]))))
    head, _, *rest = encode([("s", TupleBatch(("name",), (Ids.of(["x", "yz"]),)))])
    with pytest.raises(CodecError, match="'name' has offsets that do not fit its 3 values"):
        decode(b"".join(map(bytes, [head, off.tobytes(), *rest])))
