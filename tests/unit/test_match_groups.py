"""Row groups that we encode ourselves: readers of Parquet find in them what was written."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checked_kernels import passes_with_checked_bounds
from hypothesis import given
from hypothesis import strategies as st

from streams.batches import DETECTS, EventBatch, MatchBatch
from streams.columns import Ids
from streams.files import match_groups
from streams.files.match_groups import match_group
from streams.files.parquet_groups import GroupFile, groups_of
from streams.files.result_files import ParquetWriter
from streams.files.result_lines import RESULT_SCHEMA, WRITTEN_SCHEMA, result_tables, written_table

texts = st.text(max_size=5) | st.sampled_from(["", "a" * 200, "\x00", "ö"])
times = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)


def events(rows):
    """Return a batch of (query, ts, object, place in DETECTS)."""
    query, ts, found, detect = zip(*rows, strict=True)
    return EventBatch(Ids.of(query), np.array(ts, np.int64), Ids.of(found), np.array(detect, np.uint8))


def read_back(folder, *tables):
    """Write each table as a row group of one file, all by us, and return the file."""
    path = folder / "r.parquet"
    file = GroupFile(path, RESULT_SCHEMA)
    for table in tables:
        group = match_group(table)
        assert group is not None
        file.append(group)
    file.close()
    return pq.ParquetFile(path)


@given(
    st.lists(st.tuples(texts, times, texts, st.integers(0, len(DETECTS) - 1)), min_size=1, max_size=30),
    st.sampled_from([1, 7, 1 << 17]),
    st.booleans(),
)
def test_columns_of_any_values_read_back(tmp_path_factory, rows, page, fences):
    """Whatever texts and times there are, on one page or on many, with and without a column of events."""
    batch = events(rows)
    batch = batch if fences else MatchBatch(batch.query, batch.ts, batch.object)
    (table,) = result_tables(batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(match_groups, "PAGE_ROWS", page)
        with read_back(tmp_path_factory.mktemp("groups"), table, table) as file:
            read = file.read()
            said = file.metadata.row_group(1)
    assert read.equals(pa.concat_tables([table, table]).cast(RESULT_SCHEMA))
    columns = [said.column(place) for place in range(said.num_columns)]
    assert {column.num_values for column in columns} == {said.num_rows} == {len(rows)}
    ts, found = columns[1].statistics, columns[3].statistics
    assert (ts.min, ts.max, ts.null_count) == (min(batch.ts), max(batch.ts), 0)
    names = [row[2] for row in rows]
    assert (found.min, found.max) == (min(names, key=str.encode), max(names, key=str.encode))


def numbered(codes):
    """Return a table of so many objects as there are codes, each by its code in a dictionary that has more."""
    codes = np.asarray(codes, np.int32)
    known = pa.array([f"o{code}" for code in range(int(codes.max()) + 3)])
    columns = {
        "query": pa.array([f"q{row % 1009}" for row in range(len(codes))]),
        "ts": pa.array(codes.astype(np.int64) * 2**40),
        "type": pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(codes), np.int32)), pa.array(["range"])),
        "object": pa.DictionaryArray.from_arrays(pa.array(codes), known),
    }
    return pa.table({field.name: columns.get(field.name, pa.nulls(len(codes), field.type)) for field in WRITTEN_SCHEMA})


random = np.random.default_rng(1)
SHAPES = {
    "one value": [0],
    "one run": [0] * 3_000,
    "runs of seven to nine": np.repeat(np.arange(400) % 7, random.integers(7, 10, 400)),
    "runs of any length": np.repeat(random.integers(0, 300, 500), random.integers(1, 40, 500)),
    "nothing twice": np.arange(70_000),
    "two values in turns": np.arange(2_000) % 2,
    "a run behind a long stretch": [*(np.arange(5_003) % 251), *[3] * 1_000],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_runs_and_stretches_of_any_length_read_back(tmp_path, shape):
    """Numbers of a dictionary come as runs or bit by bit, differences of times in any width."""
    table = numbered(SHAPES[shape])
    with read_back(tmp_path, table) as file:
        assert file.read().equals(table.cast(RESULT_SCHEMA))
        bounds = file.metadata.row_group(0).column(3).statistics
    names = table["object"].cast(pa.string()).to_pylist()
    assert (bounds.min, bounds.max) == (min(names), max(names))


@pytest.mark.parametrize("bits", range(64))
def test_times_any_distance_apart_read_back(tmp_path, bits):
    """Differences of every width are packed, also where they are larger than an integer."""
    ts = np.array([0, 2**bits - 1, -(2**bits), 2**62, -(2**62), *range(300)], np.int64)
    table = result_table(ts)
    with read_back(tmp_path, table) as file:
        assert file.read()["ts"].to_pylist() == ts.tolist()


def result_table(ts):
    names = Ids.of(["a"] * len(ts))
    return next(result_tables(MatchBatch(names, ts, names)))


def test_schema_is_that_which_arrow_writes(tmp_path):
    """A file of ours says of its columns what Arrow says of them."""
    pq.write_table(RESULT_SCHEMA.empty_table(), tmp_path / "arrow.parquet", store_schema=False)
    with read_back(tmp_path, result_table(np.arange(3))) as file:
        assert file.schema.equals(pq.ParquetFile(tmp_path / "arrow.parquet").schema)
        assert file.schema_arrow.equals(RESULT_SCHEMA)


def test_many_groups_and_long_bounds(tmp_path, monkeypatch):
    """A footer lists any number of groups; an object whose name is too long for a bound has none."""
    monkeypatch.setattr("streams.files.result_parquet.GROUP_ROWS", 1)
    writer = ParquetWriter(tmp_path / "r.parquet")
    names = ["a", "b" * 4_097]
    for row in range(40):
        writer.write(MatchBatch(Ids.of(["q"]), np.array([row]), Ids.of([names[row % 2]])))
    writer.close()
    with pq.ParquetFile(tmp_path / "r.parquet") as file:
        assert file.metadata.num_row_groups == 40
        assert file.read()["ts"].to_pylist() == list(range(40))
        bounded = [file.metadata.row_group(row).column(3).is_stats_set for row in range(4)]
    assert bounded == [True, False, True, False]


def test_lists_and_gaps_are_left_to_arrow():
    """What has lists, or nulls beside other values, is not encoded by us."""
    rows = {"query": ["a", "b"], "ts": [1, 2], "type": ["knn", "knn"], "object": [None, None], "detect": [None, None],
            "objects": [None, None], "terms": [None, None]}  # fmt: skip

    def made(**columns):
        return match_group(written_table(pa.table(rows | columns, schema=RESULT_SCHEMA)))

    assert made() is not None
    assert made(objects=[[{"id": "o", "value": 1.0}], None]) is None
    assert made(query=["a", None]) is None
    assert made(object=[None, "o"]) is None


def test_groups_of_other_writers_go_into_a_file_as_they_are(tmp_path):
    """A row group keeps its bytes, its bounds and its place among others."""
    table = numbered(SHAPES["runs of any length"])
    other = tmp_path / "other.parquet"
    pq.write_table(table.cast(RESULT_SCHEMA), other, row_group_size=4_000, compression="snappy", store_schema=False)
    with pa.OSFile(str(other)) as source:
        groups = list(groups_of(source))
    file = GroupFile(tmp_path / "r.parquet", RESULT_SCHEMA)
    own = match_group(table)
    for group in (*groups, own, groups[0]):
        file.append(group)
    file.close()
    with pq.ParquetFile(tmp_path / "r.parquet") as read:
        first = read.read_row_group(0)
        whole = table.cast(RESULT_SCHEMA)
        assert read.read().equals(pa.concat_tables([whole, whole, first]))
        assert read.metadata.row_group(0).column(1).statistics.max == max(first["ts"].to_pylist())


@pytest.mark.skipif("NUMBA_BOUNDSCHECK" in os.environ, reason="is itself run in another way")
@pytest.mark.timeout(900)  # everything is compiled anew
def test_kernels_stay_inside_of_their_arrays(checked_kernels):
    """Kernels have no bounds checks; once, they run with them."""
    passes_with_checked_bounds(checked_kernels, __file__, "-k", "read_back")
