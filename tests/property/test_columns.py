"""Columns of identifiers and ragged columns against plain lists."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streams.columns import Ids, csr_concat, csr_slice, csr_take, sorted_rows
from streams.files.json_text import json_ids
from streams.word_table import distinct_rows

names = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=8), st.integers(2**63, 2**70))
id_lists = st.lists(names, max_size=8)
ragged = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6)


def csr(rows):
    """Return offsets and values of lists."""
    off = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row) for row in rows], out=off[1:])
    return off, np.array([value for row in rows for value in row], np.int64)


def lists(off, values):
    """Return the lists of offsets and values."""
    return [values[a:b].tolist() for a, b in zip(off[:-1].tolist(), off[1:].tolist(), strict=True)]


def exactly(values):
    """Return values with their types, so that 7 is not "7"."""
    return [(type(value), value) for value in values]


@given(id_lists)
def test_ids_give_back_what_they_were_made_of(values):
    """A column returns the very identifiers, numbers as numbers and strings as strings."""
    ids = Ids.of(values)
    assert exactly(ids.to_list()) == exactly(values)
    assert len(ids) == len(values)


@given(id_lists, st.data())
def test_ids_take_and_slice_as_lists_do(values, data):
    """Rows of a column are the rows of the list."""
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=6)) if values else []
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(values)), st.integers(0, len(values)))))
    ids = Ids.of(values)
    assert exactly(ids.take(np.array(rows, np.int64)).to_list()) == exactly([values[row] for row in rows])
    assert exactly(ids.slice(start, stop).to_list()) == exactly(values[start:stop])
    assert exactly(ids.slice(start, stop).slice(0, 1).to_list()) == exactly(values[start:stop][:1])


@given(st.lists(id_lists, max_size=4))
def test_ids_concat_keeps_kinds_apart(parts):
    """Columns of different kinds join into one that keeps every identifier as given."""
    joined = Ids.concat([Ids.of(part) for part in parts])
    assert exactly(joined.to_list()) == exactly([value for part in parts for value in part])


@given(id_lists)
def test_ids_json_texts_are_json(values):
    """Both ways to write a column as JSON texts agree with the json module."""
    expected = [json.dumps(value, ensure_ascii=False) for value in values]
    assert Ids.of(values).json_texts() == expected
    assert json_ids(Ids.of(values)).to_pylist() == expected


@given(id_lists, id_lists)
def test_ids_are_equal_when_their_identifiers_are(first, second):
    """Columns compare by identifiers, not by how they are kept."""
    assert (Ids.of(first) == Ids.of(second)) == (exactly(first) == exactly(second))
    assert Ids.concat([Ids.of(first), Ids.of(second)]) == Ids.of(first + second)


@given(ragged, st.data())
def test_csr_take_is_indexing(rows, data):
    """Taking ragged rows is indexing a list of lists."""
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
    assert lists(*csr_take(*csr(rows), np.array(chosen, np.int64))) == [rows[row] for row in chosen]


@given(ragged, st.data())
def test_csr_slice_is_slicing(rows, data):
    """Slicing ragged rows is slicing a list of lists."""
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(rows)), st.integers(0, len(rows)))))
    assert lists(*csr_slice(*csr(rows), start, stop)) == rows[start:stop]


@given(st.lists(ragged, min_size=1, max_size=4))
def test_csr_concat_is_addition(parts):
    """Joining ragged columns is adding lists of lists."""
    assert lists(*csr_concat([csr(part) for part in parts])) == [row for part in parts for row in part]


@given(ragged)
def test_rows_become_ascending_and_distinct(rows):
    """Both ways to sort ragged rows give each row as a sorted set."""
    off, values = csr(rows)
    row = np.repeat(np.arange(len(rows)), np.diff(off))
    expected = [sorted(set(values)) for values in rows]
    assert lists(*sorted_rows(row, values, len(rows))) == expected
    assert lists(*distinct_rows(off, values)) == expected


@given(st.lists(st.lists(st.integers(-3, 3), max_size=60), max_size=4), st.integers(0, 200))
def test_distinct_rows_drop_what_is_negative(rows, extra):
    """Negative values are left out, in short rows and in long ones."""
    rows = [*rows, list(range(extra, -1, -1))]
    assert lists(*distinct_rows(*csr(rows))) == [sorted({v for v in row if v >= 0}) for row in rows]
