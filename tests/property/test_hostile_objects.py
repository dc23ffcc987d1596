"""Hostile files of objects: whatever the bytes, objects or rejects or one error of ours, and the good records always."""

import csv
import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import ODD_BYTES, ODD_JSON, csv_object, damaged, in_time_order, json_object
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.batches import tuple_rows
from streams.errors import InputError
from streams.files.object_files import read_objects
from streams.files.read_limits import ReadLimits
from streams.geometry import Rect
from streams.vocabulary import Encoder

SPACE = Rect(0, 0, 1, 1)
LIMITS = ReadLimits(line_bytes=2_000, keywords=6, id_bytes=64, columns=12, row_group_values=1_000)

GOOD = [
    {"id": 1, "ts": 0, "x": 0.5, "y": 0.25, "text": "Storm in the Port"},
    {"id": "o2", "ts": 3, "x": 1, "y": 0, "keywords": ["Sushi", "ramen"]},
    {"id": "é\n\"", "ts": "1970-01-01T00:00:00.004Z", "lon": 0.1, "lat": 0.9, "text": "", "op": "delete"},
    {"id": -7, "ts": 9, "x": 1e-9, "y": 0.5, "keyword_ids": [4, 2, 4], "other": [[{}]]},
]  # fmt: skip
JSON_LINES = [json.dumps(record).encode() for record in GOOD]
TABLE = 'id,ts,x,y,text,op\n1,0,0.5,0.25,"Storm, in ""the"" Port",\no2,3,1,0,,upsert\n"x\ny",4,0.1,0.9,é,delete\n'

odd_lines = st.one_of(
    st.sampled_from(JSON_LINES).flatmap(damaged),
    st.binary(max_size=60),
    st.sampled_from(ODD_BYTES),
    st.builds(
        lambda record, name, value: json.dumps(record | {name: value}).encode(),
        st.sampled_from(GOOD), st.sampled_from("id ts x y lon lat text keywords keyword_ids op other".split()), ODD_JSON,
    ),
)  # fmt: skip
lines = st.one_of(st.sampled_from(JSON_LINES), odd_lines).map(lambda line: line.replace(b"\n", b" "))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder whose files each example writes anew."""
    return tmp_path_factory.mktemp("hostile_objects")


def read(path, content, **options):
    """Write a file and return the chunks that a reader makes of it."""
    path.write_bytes(content)
    return list(read_objects(path, space=SPACE, encoder=Encoder(), limits=LIMITS, **options))


def outcome(path, content):
    """Read a file; every record must be accepted or rejected with a reason, or the file refused with its name."""
    chunks, refused = [], f"{path.name}: not refused"
    try:
        chunks = read(path, content, chunk_rows=7)
    except InputError as error:
        refused = str(error)
    assert path.name in refused
    assert len(refused) < 3_000
    for chunk in chunks:
        assert len(chunk.batch) + len(chunk.rejects) == chunk.records
        assert all(0 < len(reason) < 2_000 for reason in chunk.rejects.reason.to_list())
        tuple_rows(chunk.batch)


def accepted(chunks):
    """Return the accepted objects as plain values, each with the number of its record; `seq` counts accepted ones alone."""
    assert [seq for chunk in chunks for seq in chunk.batch.seq.tolist()] == list(
        range(sum(len(c.batch) for c in chunks))
    )
    return [
        (record, name, ts, x, y, op == 1, kw)
        for chunk in chunks
        for record, (_, ts, x, y, op, kw, name) in zip(chunk.record.tolist(), tuple_rows(chunk.batch)[1], strict=True)
    ]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(st.lists(lines, max_size=50), st.sampled_from([b"\n", b"\r\n"]), st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_hostile_lines_leave_the_others_alone(folder, found, end, mark):
    """Accepted are exactly the lines that the json module and the rules accept; each other one is a reject of its line."""
    content = mark + end.join([*found, b""])
    chunks = read(folder / "lines.jsonl", content, chunk_rows=20)
    physical = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    records = [(n, line.removesuffix(b"\r")) for n, line in enumerate(physical, 1) if line.strip(b" \t\r")]
    expected = in_time_order([json_object(line, SPACE, LIMITS) for _, line in records])
    assert accepted(chunks) == expected
    good = {place for place, *_ in expected}
    rejected = [line for place, (line, _) in enumerate(records) if place not in good]
    assert [line for chunk in chunks for line in chunk.rejects.line.tolist()] == rejected


csv_texts = st.text(st.sampled_from('abé1 ,"\n\0.-'), max_size=12)
csv_rows = st.one_of(
    st.tuples(
        st.one_of(st.integers(-9, 9).map(str), csv_texts, st.just("9" * 30), st.just("9" * 99)),
        st.one_of(st.integers(0, 9).map(str), st.sampled_from(["", "x", "1e3", "1970-01-01", "+5", "0x5"])),
        st.one_of(st.floats(0, 1).map(repr), st.sampled_from(["", "nan", "inf", "1_0", "0x1", " 0.5 ", "é", "1e-400", ".5"])),
        st.one_of(st.floats(0, 1).map(repr), csv_texts),
        csv_texts,
        st.sampled_from(["", "upsert", "delete", "DELETE", " "]),
    ),
    st.lists(csv_texts, min_size=2, max_size=8),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(st.lists(csv_rows, max_size=30), st.booleans())
def test_hostile_records_leave_the_others_alone(folder, rows, quoted):
    """Accepted are exactly the CSV records that the csv module and the rules accept."""
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL, lineterminator="\n").writerows(
        [["id", "ts", "x", "y", "text", "op"], *rows]
    )
    chunks = read(folder / "records.csv", out.getvalue().encode(), chunk_rows=9)
    header, *records = csv.reader(io.StringIO(out.getvalue(), newline=""))
    found = [
        csv_object(dict(zip(header, record, strict=True)) | {"\0csv": True}, SPACE, LIMITS)
        if len(record) == 6
        else None
        for record in records
    ]
    assert accepted(chunks) == in_time_order(found)
    assert sum(chunk.records for chunk in chunks) == len(records)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=200), damaged(TABLE.encode() * 2), damaged(b"\n".join(JSON_LINES * 2))))
def test_hostile_text_files_have_an_outcome(folder, content):
    """Any bytes as CSV or JSON lines are objects, rejects, or a file that is refused."""
    outcome(folder / "any.csv", content)
    outcome(folder / "any.jsonl", content)


PACKED = {
    "packed.jsonl.gz": gzip.compress(b"\n".join(JSON_LINES * 3)),
    "packed.csv.zst": pa.compress(TABLE.encode() * 9, "zstd", asbytes=True),
}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_hostile_compressed_files_have_an_outcome(folder, data):
    """Compressed bytes that are damaged or cut off are refused, or what comes out of them is read."""
    name = data.draw(st.sampled_from(sorted(PACKED)))
    outcome(folder / name, data.draw(st.one_of(damaged(PACKED[name]), st.binary(max_size=40))))


@pytest.mark.parametrize("name", sorted(PACKED))
def test_hostile_compressed_files_cut_anywhere_are_refused(folder, name):
    """A compressed file without its end is never taken for a shorter one."""
    for size in range(1, len(PACKED[name])):
        with pytest.raises(InputError, match=name):
            read(folder / name, PACKED[name][:size])


def parquet_files():
    """Return small Parquet files with each kind of keywords."""
    rows = {"id": ["o1", "o2", "o3"], "ts": [1, 2, 3], "x": [0.1, 0.2, 0.3], "y": [0.5, 0.5, 0.5]}
    for extra in (
        {"text": ["storm", "port", None]},
        {"keywords": [["a"], [], ["b", "c"]]},
        {"keyword_ids": [[1], [], [2, 3]]},
    ):
        out = io.BytesIO()
        pq.write_table(pa.table(rows | extra), out, compression="none", row_group_size=2)
        yield out.getvalue()


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=200)
@given(st.sampled_from(list(parquet_files())).flatmap(lambda file: damaged(file, pieces=(b"\0", b"\xff", b"PAR1"))))
def test_hostile_parquet_files_have_an_outcome(folder, content):
    """Damaged Parquet files are refused, or what is left of them is read."""
    outcome(folder / "any.parquet", content)
