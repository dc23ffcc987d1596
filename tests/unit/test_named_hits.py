"""Matches as they are written: lines and columns made of parts are those that are spelled out match by match."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.sinks.names import Names
from streams.batches import FOREVER, HitBatch, TupleBatch
from streams.byte_copies import SLACK, copied, padded
from streams.columns import Ids
from streams.errors import RunError
from streams.files import named_hits
from streams.files.named_hits import IdTable, NamedHits
from streams.files.result_files import open_results, read_results
from streams.files.result_lines import RESULT_SCHEMA, result_lines, result_tables

ids = st.one_of(st.integers(-(2**63), 2**70), st.text(max_size=40))
some_ids = st.lists(ids, min_size=1, max_size=8) | st.lists(st.integers(0, 9), min_size=1, max_size=8)


@st.composite
def hits(draw):
    """Draw hits, and the tables that their places are in, the second of which may be empty."""
    first, second = draw(some_ids), draw(some_ids | st.just([]))
    rows = draw(st.lists(st.lists(st.integers(0, len(first) + len(second) - 1), max_size=70), min_size=1, max_size=5))
    off = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    place = np.array([p for row in rows for p in row], np.int64)
    objects = draw(st.lists(ids, min_size=len(rows), max_size=len(rows)))
    ts = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=len(rows), max_size=len(rows)))
    batch = HitBatch(np.arange(len(rows)), np.array(ts, np.int64), Ids.of(objects), off, place)
    expected = [
        {"query": (first + second)[p], "ts": ts[row], "object": objects[row]}
        for row in range(len(rows))
        for p in rows[row]
    ]
    return NamedHits(batch, place, (IdTable(Ids.of(first)), IdTable(Ids.of(second)))), expected


@given(hits(), st.sampled_from([1, 5_000, 1 << 20]))
def test_lines_of_hits_are_those_of_their_matches(drawn, block):
    """Whatever identifiers there are, in one table or two, and however many lines are made at a time."""
    batch, expected = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(named_hits, "BLOCK_BYTES", block)
        lines = result_lines(batch).decode().split("\n")
    assert [json.loads(line) for line in lines[:-1]] == expected
    assert lines[-1] == ""


@given(hits(), st.integers(1, 50))
def test_rows_of_hits_are_those_of_their_matches(drawn, rows):
    """In Parquet identifiers are strings; a table has so many rows at most."""
    batch, expected = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streams.files.result_lines._ROWS_AT_A_TIME", rows)
        tables = list(result_tables(batch))
    assert all(0 < table.num_rows <= rows for table in tables)
    written = [row for table in tables for row in table.cast(RESULT_SCHEMA).to_pylist()]
    assert [(row["query"], row["ts"], row["object"]) for row in written] == [
        (str(row["query"]), row["ts"], str(row["object"])) for row in expected
    ]
    assert all(row["type"] == "range" and row["objects"] is row["terms"] is row["detect"] is None for row in written)


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_hits_with_many_names_read_back_from_every_format(tmp_path, ending):
    """Names of a large part, of a recent one and of both, one of them used twice, are found again in a file."""
    names, random = Names(), np.random.default_rng(1)
    path = tmp_path / f"results.{ending}"
    writer, expected, used = open_results(path), [], {}
    for first, count in ((0, 70_000), (70_000, 300), (70_300, 40)):
        numbers = np.arange(first, first + count) * 3
        told = [f"q{n % 50_000}" for n in range(first, first + count)]
        names.apply([TupleBatch(("number", "id", "end"), (numbers, Ids.of(told), np.full(count, FOREVER)))])
        used |= dict(zip(numbers.tolist(), told, strict=True))
        asked = np.concatenate([random.choice(list(used), 500), numbers[:50]])
        batch = HitBatch(
            np.arange(2), np.array([5, 6]), Ids.of(["a", "b"]), np.array([0, 500, len(asked)], np.int32), asked
        )
        writer.write(names.located(batch))
        expected += [
            {"query": used[n], "ts": 5 + (k >= 500), "object": "ab"[k >= 500]} for k, n in enumerate(asked.tolist())
        ]
    writer.close()
    assert read_results(path) == expected
    with pytest.raises(RunError, match=r"query number 1, whose identifier no spout has sent"):
        names.located(HitBatch(np.arange(1), np.arange(1), Ids.of([1]), np.array([0, 1], np.int32), np.array([1])))


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 33])
def test_bytes_are_copied_up_to_their_end(length):
    """What lies before the copy stays, and what comes behind it may be overwritten by the next."""
    source, out = padded(np.arange(1, 41, dtype=np.uint8)), np.zeros(64 + SLACK, np.uint8)
    end = copied(source, 3, length, out, 5)
    assert end == 5 + length
    assert out[:end].tolist() == [0] * 5 + list(range(4, 4 + length))


@pytest.mark.parametrize("longest", [0, 1, 15, 16, 31, 32, 47, 48, 100])
@pytest.mark.parametrize("other", [0, 15, 47, 48])
def test_names_of_any_length_come_whole(longest, other):
    """Whatever row a name needs, or where it is too long for any: in one table and in the other."""
    first, second = ["", "a" * longest, "b" * min(longest, 3)], ["c" * other, "d"]
    hit = HitBatch(
        np.arange(1), np.arange(1), Ids.of(["o"]), np.array([0, 7], np.int32), np.array([1, 3, 0, 4, 2, 3, 1])
    )
    batch = NamedHits(hit, hit.number, (IdTable(Ids.of(first)), IdTable(Ids.of(second))))
    names = [name for table in result_tables(batch) for name in table["query"].to_pylist()]
    assert names == [(first + second)[place] for place in hit.number]


def test_parquet_columns_of_hits_are_strings_to_readers(tmp_path):
    """A reader is told of strings, whatever was a dictionary when it was written."""
    path = tmp_path / "r.parquet"
    table = IdTable(Ids.of(["q"])), IdTable(Ids.of([]))
    writer = open_results(path)
    hit = HitBatch(np.arange(1), np.arange(1), Ids.of(["o"]), np.array([0, 1], np.int32), np.array([0]))
    writer.write(NamedHits(hit, hit.number, table))
    writer.close()
    schema = pq.read_schema(path)
    assert schema.equals(RESULT_SCHEMA)
    assert schema.metadata is None
