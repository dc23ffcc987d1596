"""Objects from files: what is accepted, what is rejected and why, and which files cannot be used at all."""

import csv
import gzip
import json
import math
import subprocess
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streams.batches import OP_DELETE, OP_UPSERT, ObjectBatch
from streams.errors import DeclarationError, InputError
from streams.files.file_blocks import ReadLimits
from streams.files.file_bytes import PLAIN_BYTES, ByteForm
from streams.files.object_files import read_objects
from streams.files.object_form import ObjectForm
from streams.files.object_order import ObjectOrder
from streams.geometry import Rect
from streams.vocabulary import Encoder, Vocabulary, unseen_id

SPACE = Rect(0, 0, 10, 10)
GOOD = {"id": "o1", "ts": 1000, "x": 1.5, "y": 2, "text": "Sushi and RAMEN"}


def read(*paths, **options):
    """Return all chunks of files."""
    options = {"space": SPACE, "encoder": Encoder()} | options
    return list(read_objects(list(paths), **options))


def lines(path, *records):
    """Write records as JSON lines (text as it is) and return the path."""
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), encoding="utf-8")
    return path


def parquet(path, row_group_size=None, **columns):
    """Write columns as Parquet and return the path."""
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return path


def rejects(chunks):
    """Return (line, reason) of all rejects."""
    return [
        pair
        for chunk in chunks
        for pair in zip(chunk.rejects.line.tolist(), chunk.rejects.reason.to_list(), strict=True)
    ]


def whole_batch(chunks):
    """Return the objects of all chunks."""
    return ObjectBatch.concat([chunk.batch for chunk in chunks])


def keywords(batch):
    """Return the keyword ids of each row."""
    return [batch.kw[a:b].tolist() for a, b in zip(batch.kw_off[:-1].tolist(), batch.kw_off[1:].tolist(), strict=True)]


def ids(*words):
    """Return the ids of words, ascending."""
    return sorted(map(unseen_id, words))


def test_json_objects_become_columns(tmp_path):
    """A line becomes a row, with its fields, its place in the input, and its keywords as ids."""
    path = lines(
        tmp_path / "o.jsonl", GOOD, GOOD | {"id": 7, "ts": 1001, "op": "delete", "keywords": ["Ramen", "", "X y"]}
    )
    [chunk] = read(path)
    batch = chunk.batch
    assert batch.seq.tolist() == [0, 1]
    assert batch.ids.to_list() == ["o1", 7]
    assert batch.ts.tolist() == [1000, 1001]
    assert (batch.x.tolist(), batch.y.tolist()) == ([1.5, 1.5], [2.0, 2.0])
    assert batch.op.tolist() == [OP_UPSERT, OP_DELETE]
    assert keywords(batch) == [ids("sushi", "ramen"), ids("ramen", "x y")]
    assert (chunk.records, len(chunk.rejects), chunk.mine.tolist()) == (2, 0, [True, True])


REJECTED = {
    '{"ts":1,"x":1,"y":1}': "no id",
    '{"id":"","ts":1,"x":1,"y":1}': "no id",
    '{"id":null,"ts":1,"x":1,"y":1}': "no id",
    '{"id":1.5,"ts":1,"x":1,"y":1}': "id is 1.5, expected a string or an integer",
    '{"id":true,"ts":1,"x":1,"y":1}': "id is true, expected a string or an integer",
    '{"id":1,"x":1,"y":1}': "no ts",
    '{"id":1,"ts":1.5,"x":1,"y":1}': "ts is 1.5, expected integer milliseconds or ISO 8601",
    '{"id":1,"ts":"soon","x":1,"y":1}': 'ts is "soon", expected integer milliseconds or ISO 8601',
    '{"id":1,"ts":99999999999999999999,"x":1,"y":1}': "ts is 99999999999999999999, expected integer milliseconds",
    '{"id":1,"ts":1}': "no location, expected x and y or lon and lat",
    '{"id":1,"ts":1,"x":1}': "no y",
    '{"id":1,"ts":1,"lat":1}': "no lon",
    '{"id":1,"ts":1,"x":"1","y":1}': 'x is "1", expected a number',
    '{"id":1,"ts":1,"x":1,"y":NaN}': "y is NaN, expected a finite number",
    '{"id":1,"ts":1,"x":-Infinity,"y":1}': "x is infinite, expected a finite number",
    '{"id":1,"ts":1,"x":1e999,"y":1}': "x is infinite, expected a finite number",
    '{"id":1,"ts":1,"x":11,"y":1}': "(11.0, 1.0) is outside the space [0, 0, 10, 10]",
    '{"id":1,"ts":1,"x":1,"y":1,"op":"delte"}': "op is \"delte\", expected upsert or delete (did you mean 'delete'?)",
    '{"id":1,"ts":1,"x":1,"y":1,"op":1}': "op is 1, expected a string",
    '{"id":1,"ts":1,"x":1,"y":1,"text":["a"]}': 'text is ["a"], expected a string',
    '{"id":1,"ts":1,"x":1,"y":1,"keywords":"a b"}': 'keywords is "a b", expected an array of strings',
    '{"id":1,"ts":1,"x":1,"y":1,"keywords":["a",7]}': "keywords[1] is 7, expected an array of strings",
    '{"id":1,"ts":1,"x":1,"y":1,"keywords":["a",null]}': "keywords has a null among its words",
    '{"id":1,"ts":1,"x":1,"y":1,"keyword_ids":[1,-2]}': "keyword_ids has a null or a negative id",
    '{"id":1,"ts":1,"x":1,"y":1,"keyword_ids":[1,2.5]}': "keyword_ids[1] is 2.5, expected an array of integers",
    '{"id":1,"ts":1,"x":1,"y":1,"text":"\\ud800"}': 'text is "\\ud800", expected a string',
    '{"id":1,"id":2,"ts":1,"x":1,"y":1}': "field 'id' is given more than once",
    '{"id":1,"ts":1,': "not JSON: Expecting property name enclosed in double quotes at place 16 of the line",
    "[1]": "[1] is not a JSON object",
    '{"id":1,"a":' + "[" * 300 + "]" * 300 + "}": "not read: brackets are nested 301 deep, at most 200 are",
    '{"id":1,"text":"' + "a" * 2_000 + '"}': "a line of 2018 bytes, longer than the limit of 2000",
    '{"id":1,"ts":1,"x":1,"y":1,"text":"ab cd ef gh"}': "4 keywords, more than the limit of 3",
    '{"id":1,"ts":1,"x":1,"y":1,"keywords":["a","b","c","d"]}': "4 keywords, more than the limit of 3",
}


@pytest.mark.parametrize(("line", "reason"), REJECTED.items(), ids=range(len(REJECTED)))
def test_json_rejects_say_why(tmp_path, line, reason):
    """A line that cannot be used is rejected with what was found, and the lines around it are not."""
    path = lines(tmp_path / "o.jsonl", GOOD | {"ts": 1}, line, GOOD | {"ts": 1})
    chunks = read(path, limits=ReadLimits(line_bytes=2_000, keywords=3))
    [(at, found)] = rejects(chunks)
    assert at == 2
    assert found.startswith(reason)
    assert whole_batch(chunks).seq.tolist() == [0, 1]
    assert [record for chunk in chunks for record in chunk.record.tolist()] == [0, 2]


def test_json_line_that_is_not_utf8_is_rejected(tmp_path):
    """Bytes that are no text are rejected with the first of them."""
    path = tmp_path / "o.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b'\n{"id":"\xff"}\n')
    assert rejects(read(path)) == [(2, f"byte 8 of the line is {PLAIN_BYTES.unreadable}")]


def test_keyword_limit_counts_distinct_keywords(tmp_path):
    """Repeated and empty keywords do not count towards the limit."""
    record = GOOD | {"keywords": ["a", "A", "a", "", "b", "c"]}
    assert rejects(read(lines(tmp_path / "o.jsonl", record), limits=ReadLimits(keywords=3))) == []


def test_late_objects_are_rejected_against_accepted_ones(tmp_path):
    """An object older than an accepted one is late; a rejected one does not count, and equal times are fine."""
    times = [5, 9, 7, 9, 8, 10]
    records = [GOOD | {"ts": ts, "x": 99 if n == 1 else 1} for n, ts in enumerate(times)]
    chunks = read(lines(tmp_path / "o.jsonl", *records), chunk_rows=2)
    assert [int(ts) for chunk in chunks for ts in chunk.batch.ts] == [5, 7, 9, 10]
    assert rejects(chunks)[1] == (
        5,
        "ts 8 is older than 9, which came before; expected non-decreasing ts, or a lateness_ms of the spout that allows for it",
    )


def test_watermark_of_before_counts(tmp_path):
    """A restored reader rejects what is older than the watermark that it was given."""
    chunks = read(lines(tmp_path / "o.jsonl", GOOD | {"ts": 5}, GOOD | {"ts": 6}), order=ObjectOrder(watermark=6))
    assert whole_batch(chunks).ts.tolist() == [6]
    assert rejects(chunks)[0][0] == 1


def test_blank_lines_and_a_byte_order_mark_are_no_records(tmp_path):
    """Empty lines and white space are passed over, but counted as lines."""
    path = tmp_path / "o.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n\r\n  \t\n\n{}\n")
    [chunk] = read(path)
    assert chunk.records == 2
    assert rejects([chunk]) == [(5, "no id")]


def test_files_are_read_one_after_the_other(tmp_path):
    """Many files are one stream: places and the order of time go on, lines start again, sources keep their names."""
    first = lines(tmp_path / "a.jsonl", GOOD | {"ts": 5}, "{}")
    second = lines(tmp_path / "b.jsonl", "{}", GOOD | {"ts": 4}, GOOD | {"ts": 5})
    chunks = read(first, second)
    assert [seq for chunk in chunks for seq in chunk.batch.seq.tolist()] == [0, 1]
    assert [record for chunk in chunks for record in chunk.record.tolist()] == [0, 4]
    assert [line for line, _ in rejects(chunks)] == [2, 1, 2]
    sources = [source for chunk in chunks for source in chunk.rejects.source.to_list()]
    assert sources == [str(first), str(second), str(second)]


def test_duplicate_ids_are_fine(tmp_path):
    """Two records with one id are two objects."""
    assert whole_batch(read(lines(tmp_path / "o.jsonl", GOOD, GOOD))).ids.to_list() == ["o1", "o1"]


CSV = "id,ts,lon,lat,text\n"


def test_csv_ids_are_integers_where_they_print_back(tmp_path):
    """A value that is written as an integer is one, decided value by value; all others stay as they are written."""
    written = ["17", "007", "-5", "-0", "+3", "1e3", " 4", "9223372036854775807", "99999999999999999999", "uw61"]
    path = tmp_path / "o.csv"
    path.write_text(CSV + "".join(f"{name},0,1,1,\n" for name in written))
    expected = [17, "007", -5, "-0", "+3", "1e3", " 4", 9223372036854775807, 99999999999999999999, "uw61"]
    assert whole_batch(read(path)).ids.to_list() == expected
    path.write_text(CSV + "17,0,1,1,\n18,0,1,1,\n")
    assert whole_batch(read(path)).ids.kind == "int"
    path.write_text(CSV + "17,0,1,1,\n99999999999999999999,0,1,1,\n")
    assert whole_batch(read(path)).ids.to_list() == [17, 99999999999999999999]
    path.write_text(CSV + "a,0,1,1,\nb,0,1,1,\n")
    assert whole_batch(read(path)).ids.kind == "text"


def test_csv_lines_count_quoted_line_feeds(tmp_path):
    """The line of a reject is the physical one, though records before it span several lines."""
    path = tmp_path / "o.csv"
    path.write_bytes(
        b'id,ts,lon,lat,text\r\n1,0,1,1,"two\nlines, ""quoted"""\r\n\r\n2,0,1,1\r\n3,0,1,99,x\r\n4,0,1,1,"open\n'
    )
    chunks = read(path)
    assert rejects(chunks) == [
        (5, "4 fields, expected 5 (id, ts, lon, lat, text)"),
        (6, "(1.0, 99.0) is outside the space [0, 0, 10, 10]"),
        (7, "a quote is opened and not closed before the file ends"),
    ]
    assert keywords(whole_batch(chunks)) == [ids("two", "lines", "quoted")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (",0,1,1,x", "no id"),
        ("1,,1,1,x", "no ts"),
        ("1,noon,1,1,x", 'ts is "noon", expected integer milliseconds or ISO 8601'),
        ("1,0,,1,x", "no lon"),
        ("1,0,,,x", "no location"),
        ("1,0,1_0,1,x", 'lon is "1_0", expected a number'),
        ("1,0,0x1,1,x", 'lon is "0x1", expected a number'),
        ("1,0,1,nan,x", "lat is NaN, expected a finite number"),
        ("1,0,inf,1,x", "lon is infinite, expected a finite number"),
        ("1,0,1,1,x,y", "6 fields, expected 5"),
        ('1,0,1,1,"' + "x" * 200 + '"', "a record of 210 bytes, longer than the limit of 100"),
    ],
)
def test_csv_rejects_say_why(tmp_path, row, reason):
    """A CSV record that cannot be used is rejected with what was found."""
    path = tmp_path / "o.csv"
    path.write_text(f"{CSV}1,0, 1 ,+1.e0,x\n{row}\n2,0,1,1,x\n")
    chunks = read(path, limits=ReadLimits(line_bytes=100))
    [(line, found)] = rejects(chunks)
    assert line == 3
    assert found.startswith(reason)
    assert whole_batch(chunks).ids.to_list() == [1, 2]
    assert whole_batch(chunks).x.tolist() == [1.0, 1.0]


def test_csv_keywords_that_are_a_json_array_are_rejected(tmp_path):
    """In CSV keywords are words with spaces between; an array in brackets would be words that nobody asks for."""
    path = tmp_path / "o.csv"
    path.write_text('id,ts,x,y,keywords\n1,0,1,1,"[""fire"", ""smoke""]"\n2,0,1,1,fire [x] smoke\n')
    [(line, reason)] = rejects(read(path))
    assert line == 2
    assert reason.endswith("expected words separated by spaces, not a JSON array")


def test_csv_record_that_is_not_utf8_is_rejected(tmp_path):
    """A record with bytes that are no text is rejected, and only that one."""
    path = tmp_path / "o.csv"
    path.write_bytes(CSV.encode() + "1,0,1,1,é\n".encode() + b"2,0,1,1,\xe9\n")
    chunks = read(path)
    assert rejects(chunks) == [(3, PLAIN_BYTES.unreadable)]
    assert whole_batch(chunks).ids.to_list() == [1]


def test_csv_keywords_are_split_at_white_space(tmp_path):
    """A CSV column of keywords is a list with white space between; where it is empty the text counts."""
    path = tmp_path / "o.csv"
    path.write_text("id,ts,x,y,keywords,text,op\n1,0,1,1,Sushi  ramen-bar,other,delete\n2,0,1,1,,Sushi bar,\n")
    batch = whole_batch(read(path))
    assert keywords(batch) == [ids("sushi", "ramen-bar"), ids("sushi", "bar")]
    assert batch.op.tolist() == [OP_DELETE, OP_UPSERT]


def test_csv_open_quote_takes_the_rest_and_says_so(tmp_path):
    """A quote that is never closed makes one reject of the rest, however long, without keeping it."""
    path = tmp_path / "o.csv"
    path.write_text(CSV + '1,0,1,1,x\n2,0,1,1,"open\n' + "3,0,1,1,x\n" * 100)
    chunks = read(path, limits=ReadLimits(line_bytes=200))
    assert rejects(chunks) == [(3, "a record of 1014 bytes, longer than the limit of 200")]


def test_times_are_milliseconds_or_iso(tmp_path):
    """Every way to write a time gives its milliseconds; without a zone it is UTC, below a millisecond it is cut off."""
    written = [
        "-1", "1970-01-01", "1970-01-01T00:00:01", "1970-01-01 00:00:01.0019", "1970-01-01T01:00:02+01:00",
        "1970-01-01T00:00:03Z", "1970-01-01T00:00:03.999999999Z", "19700101T000004Z",
    ]  # fmt: skip
    path = tmp_path / "o.csv"
    path.write_text(CSV + "".join(f"1,{ts},1,1,\n" for ts in written))
    assert whole_batch(read(path)).ts.tolist() == [-1, 0, 1000, 1001, 2000, 3000, 3999, 4000]


def test_parquet_objects_become_columns(tmp_path):
    """Parquet gives the same columns, and a prepared one its keyword ids as they are, sorted and once each."""
    path = parquet(
        tmp_path / "o.parquet", id=[1, 2], ts=[5, 6], x=[1.0, 2.0], y=[3, 4], keyword_ids=[[9, 3, 9], []], other=["a", "b"]
    )  # fmt: skip
    batch = whole_batch(read(path))
    assert batch.ids.to_list() == [1, 2]
    assert keywords(batch) == [[3, 9], []]
    assert batch.y.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("words", [0, 4])
def test_keywords_by_number_are_those_of_the_vocabulary(tmp_path, words):
    """A number that no word has, in whatever file, would match nothing or the wrong thing; a hash says which word it is."""
    ids = [[3], [], [unseen_id("dd")], [0, 4], None]
    path = parquet(
        tmp_path / "o.parquet", id=list(range(5)), ts=[0] * 5, x=[1.0] * 5, y=[1.0] * 5,
        keyword_ids=pa.array(ids, pa.list_(pa.int64())),
    )  # fmt: skip
    records = ({"id": n, "ts": 0, "x": 1, "y": 1, "keyword_ids": one} for n, one in enumerate(ids))
    bad = {3: 4} if words else {0: 3, 3: 0}
    for file in (path, lines(tmp_path / "o.jsonl", *records)):
        chunks = read(file, words=words)
        assert whole_batch(chunks).ids.to_list() == [n for n in range(5) if n not in bad]
        assert [reason for _, reason in rejects(chunks)] == [
            f"keyword_ids has {found}, but the vocabulary has {words} words; set topology.vocabulary to the prepared data "
            "set that the ids come from, or give words as keywords"
            for found in bad.values()
        ]
        assert whole_batch(read(file)).ids.to_list() == list(range(5))


def test_parquet_keywords_count_by_the_most_prepared_column(tmp_path):
    """Keyword ids go before keywords, keywords before text, row by row."""
    path = parquet(
        tmp_path / "o.parquet", id=[1, 2, 3, 4], ts=[0] * 4, x=[1.0] * 4, y=[1.0] * 4,
        keyword_ids=pa.array([[3], None, None, None], pa.list_(pa.int32())), keywords=[["a"], ["b", "B"], None, None],
        text=["aa", "bb", "cc dd", None],
    )  # fmt: skip
    vocabulary = Vocabulary(("b", "cc"), np.array([2, 1]), 5)
    batch = whole_batch(read(path, encoder=Encoder(vocabulary)))
    assert keywords(batch) == [[3], [0], sorted([1, unseen_id("dd")]), []]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 1001], pa.timestamp("s")), [1000, 1_001_000]),
        (pa.array([-1, 1999], pa.timestamp("us", "Europe/Berlin")), [-1, 1]),
        (pa.array([1, 2], pa.date32()), [86_400_000, 172_800_000]),
        (pa.array(["1970-01-01T00:00:01Z", "1970-01-01T00:00:02+00:00"]), [1000, 2000]),
        (pa.array([7, 8], pa.uint64()), [7, 8]),
        (pa.array(["7", "8"]).dictionary_encode(), [7, 8]),
    ],
)
def test_parquet_times_of_any_type(tmp_path, column, expected):
    """Timestamps of any unit, dates, strings and integers of any width are times."""
    path = parquet(tmp_path / "o.parquet", id=["a", "b"], ts=column, x=[1.0, 1.0], y=[1.0, 1.0], text=["", ""])
    assert whole_batch(read(path)).ts.tolist() == expected


def test_parquet_rejects_say_the_record(tmp_path):
    """A reject of Parquet has the number of its record as its line."""
    path = parquet(
        tmp_path / "o.parquet", row_group_size=2, id=["a", None, "c", "d", "e"], ts=pa.array([1, 1, None, 2**62, 1]),
        x=[1.0, 1.0, 1.0, 1.0, math.nan], y=[1.0] * 5, keywords=[["a"], ["a"], ["a"], ["a"], ["a"]],
    )  # fmt: skip
    chunks = read(path, chunk_rows=2)
    assert [line for line, _ in rejects(chunks)] == [2, 3, 4, 5]
    assert [reason.split(",")[0] for _, reason in rejects(chunks)] == [
        "no id", "no ts", "ts is 4611686018427387904", "x is NaN",
    ]  # fmt: skip


def test_parquet_texts_that_are_not_utf8_are_rejected(tmp_path):
    """Strings in Parquet are checked, because nothing else does."""
    broken = pa.array([b"ok", b"\xff"], pa.binary())
    text = pa.StringArray.from_buffers(2, *broken.buffers()[1:])
    words = pa.ListArray.from_arrays([0, 1, 2], text)
    for name, column in (("text", text), ("keywords", words)):
        path = parquet(tmp_path / "o.parquet", id=[1, 2], ts=[0, 0], x=[1.0, 1.0], y=[1.0, 1.0], **{name: column})
        chunks = read(path)
        assert rejects(chunks) == [(2, f"{name} is not UTF-8")]
        assert keywords(whole_batch(chunks)) == [ids("ok")]


@pytest.mark.parametrize("skip", [0, 1, 2, 3, 4, 5, 6])
def test_parquet_skip_passes_whole_row_groups(tmp_path, skip):
    """Skipping goes on at the right record, with its place in the input, also in the middle of a row group."""
    path = parquet(
        tmp_path / "o.parquet", row_group_size=2, id=list(range(5)), ts=[0] * 5, x=[1.0] * 5, y=[1.0] * 5, text=["a"] * 5
    )  # fmt: skip
    chunks = read(path, path, skip=skip, first=100)
    assert [record for chunk in chunks for record in chunk.record.tolist()] == list(range(skip, 10))
    assert [seq for chunk in chunks for seq in chunk.batch.seq.tolist()] == list(range(100, 110 - skip))


@pytest.mark.parametrize("ending", ["jsonl.gz", "jsonl.zst", "csv.gz", "csv.zst", "JSONL", "ndjson"])
def test_endings_say_format_and_compression(tmp_path, ending):
    """The ending of a file says what it is, in any case, compressed or not."""
    content = (CSV + "1,0,1,1,x\n" if "csv" in ending else json.dumps(GOOD) + "\n").encode()
    path = tmp_path / f"o.{ending}"
    compression = {"gz": "gzip", "zst": "zstd"}.get(ending.split(".")[-1])
    with pa.output_stream(str(path), compression=compression) as out:
        out.write(content)
    assert len(whole_batch(read(path))) == 1


def test_places_without_words_are_read_with_a_column_without_any(tmp_path):
    """What is proposed works, also where lines end as Windows has it."""
    path = tmp_path / "places.csv"
    path.write_bytes(b"id,ts,lon,lat\r\n1,1,0.5,0.5\r\n2,2,0.5,0.5\r\n")
    with pytest.raises(InputError, match="where no query asks for words, add a column without any: sed") as caught:
        read(path)
    subprocess.run(str(caught.value).rpartition("without any: ")[2], shell=True, check=True, cwd=tmp_path)
    [chunk] = read_objects([tmp_path / "with-text.csv"], space=SPACE, encoder=Encoder())
    assert (len(chunk.batch), chunk.refused) == (2, 0)


def unusable(tmp_path, name):
    """Write a file that cannot be used and return its path."""
    path = tmp_path / name
    content = {
        "empty.csv": b"", "cut.jsonl.gz": gzip.compress(json.dumps(GOOD).encode() * 1000)[:-9], "no.parquet": b"PAR0",
        "plain.jsonl.gz": b"{}\n", "plain.jsonl.zst": b"{}\n", "names.csv": b"Ids,ts,x,y,text\n", "none.csv": b"id,ts,text\n",
        "xy.csv": b"id,ts,x,lat,text\n",
        "words.csv": b"id,ts,x,y,txt\n", "twice.csv": b"id,ts,x,y,text,id\n", "bytes.csv": b"\xff\xfe,ts\n", "o.json": b"{}",
        "o": b"", "o.parquet.gz": b"", "lon.csv": b"id,ts,lun,lat,text\n",
        "o.jsn": b"", "o.geojson": b"", "o.txt": b"", "o.csv.bz2": b"", "o.tsv": b"",
        "semicolons.csv": b"\xef\xbb\xbfid;ts;x;y;text\r\n",
        "names_of_all.csv": b"lon,other\n", "record.csv": b"7,2026-03-01T08:00:00Z,-118.2,34.0,fire\n",
        "comment.csv": b"# of 2026\nid,ts,x,y,text\n",
    }  # fmt: skip
    if name in content:
        path.write_bytes(content[name])
    elif name == "folder.csv":
        path.mkdir()
    elif name == "types.parquet":
        parquet(path, id=[1], ts=[1.5], x=[1.0], y=[1.0], text=["a"])
    elif name == "lists.parquet":
        parquet(path, id=[1], ts=[1], x=[1.0], y=[1.0], keywords=["a b"])
    elif name == "columns.parquet":
        parquet(path, id=[1], x=[1.0], y=[1.0], text=["a"])
    return path


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-16", "shift_jis"])
def test_command_that_makes_commas_keeps_every_encoding(tmp_path, encoding):
    """What is proposed against semicolons writes the encoding that it reads; one that is not declared is said with it.

    Numbers get decimal points.
    """
    rows = [["id", "経度", "text"], ["1", "-11.5", "火事, 表"]]
    if encoding == "latin-1":
        rows = [["id", "Länge", "text"], ["1", "-11.5", "Großbrand, Straße"]]
    path = tmp_path / "mine.csv"
    path.write_text("".join(";".join(row) + "\n" for row in rows).replace("-11.5", "-11,5"), encoding)
    form = ObjectForm(text=ByteForm(encoding))
    with pytest.raises(InputError, match="has fields that are separated by ';'") as caught:
        list(read(path, form=form))
    subprocess.run(str(caught.value).split("of them: ")[1], shell=True, check=True, cwd=tmp_path)
    with (tmp_path / "commas.csv").open(newline="", encoding=encoding) as file:
        assert list(csv.reader(file)) == rows
    if encoding == "latin-1":
        with pytest.raises(
            InputError, match=r"not UTF-8; .* it also has fields that are separated by ';', .*=latin-1 python"
        ):
            list(read(path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.csv", "missing.csv does not exist"),
        ("folder.csv", "folder.csv is a folder; name the files in it"),
        ("o.jsn", "o.jsn ends in '.jsn' (did you mean '.jsonl'?); expected .jsonl, .ndjson, .csv, .parquet"),
        ("o.json", "o.json ends in '.json': expected .jsonl, a JSON object a line; of an array, or of a collection of"),
        ("o.geojson", "o.geojson ends in '.geojson': expected .jsonl, a JSON object a line; of an array, or of a"),
        ("o.txt", "o.txt ends in '.txt': rename it: .csv, where it has columns under a header, or .jsonl"),
        ("o.csv.bz2", "o.csv.bz2 ends in '.bz2': unpack it: bunzip2 -k "),
        ("o.tsv", "o.tsv ends in '.tsv': its fields are separated by tabs; make commas of them: PYTHONIOENCODING"),
        (
            "semicolons.csv",
            "semicolons.csv has fields that are separated by ';', expected commas; make commas of them: ",
        ),
        (
            "names_of_all.csv",
            "has no column id and no ts and no lat and no keywords or text; it has lon, other; expected",
        ),
        ("o", "o has no ending; expected .jsonl"),
        ("o.parquet.gz", "Parquet is compressed inside"),
        ("empty.csv", "empty.csv is empty; expected a header"),
        ("names.csv", "names.csv has no column id (nearest is 'Ids'); it has Ids, ts, x, y, text; expected id, ts"),
        ("xy.csv", "xy.csv has no column lon; it has id, ts, x, lat, text"),
        ("lon.csv", "lon.csv has no column lon (nearest is 'lun'); it has id, ts, lun, lat, text"),
        ("words.csv", "words.csv has no column keywords or text (nearest is 'txt')"),
        ("words.csv", "any other column will do, as in --columns text=txt"),
        ("record.csv", "record.csv begins with a record, not with a header; put the names of its 5 columns before it"),
        ("comment.csv", "comment.csv begins with a comment; take it off: grep -v '^#' "),
        ("none.csv", "none.csv has no column x and no y; it has id, ts, text"),
        ("twice.csv", "twice.csv has the column 'id' 2 times; rename all but one"),
        ("bytes.csv", "bytes.csv has no readable header"),
        ("cut.jsonl.gz", "cut.jsonl.gz cannot be read as gzip: Truncated compressed stream; it is damaged or cut off"),
        ("plain.jsonl.gz", "plain.jsonl.gz cannot be read as gzip"),
        ("plain.jsonl.zst", "plain.jsonl.zst cannot be read as zstd"),
        ("no.parquet", "no.parquet cannot be read as Parquet"),
        (
            "types.parquet",
            "types.parquet has column 'ts' of type double, expected int64 (milliseconds), a timestamp or",
        ),
        ("lists.parquet", "lists.parquet has column 'keywords' of type string, expected a list of strings"),
        ("columns.parquet", "columns.parquet has no column ts"),
    ],
)
def test_unusable_files_raise(tmp_path, name, message):
    """A file that cannot be used at all raises an error that says what was found and what was expected."""
    path = unusable(tmp_path, name)
    with pytest.raises(InputError) as error:
        read(path)
    assert message in str(error.value)


def test_missing_files_are_named_before_anything_is_read(tmp_path):
    """A wrong path among many is found at the call, with the nearest file that is there."""
    path = lines(tmp_path / "objects.jsonl", GOOD)
    with pytest.raises(InputError, match=r"object.jsonl does not exist \(did you mean 'objects.jsonl'\?\)"):
        read_objects([path, tmp_path / "object.jsonl"], space=SPACE, encoder=Encoder())


def test_empty_jsonl_has_no_objects(tmp_path):
    """A file of no lines is a stream of no objects."""
    assert read(lines(tmp_path / "o.jsonl")) == []


@pytest.mark.parametrize("options", [{"chunk_rows": 0}, {"skip": -1}, {"reader": (1, 1)}, {"reader": (-1, 2)}])
def test_impossible_options_raise(tmp_path, options):
    """Options that mean nothing are refused."""
    with pytest.raises(DeclarationError, match="cannot read objects with"):
        read(lines(tmp_path / "o.jsonl", GOOD), **options)


@pytest.mark.parametrize("ending", ["jsonl.gz", "csv.gz"])
def test_a_huge_line_is_measured_but_not_held(tmp_path, ending):
    """A line of 96 MiB is rejected with its length, and memory stays a small multiple of what is read at a time."""
    path = tmp_path / f"o.{ending}"
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.write(CSV.encode() if "csv" in ending else b"")
        for _ in range(96):
            out.write(b"a" * (1 << 20))
        out.write(b"\n" + (b"1,0,1,1,x\n" if "csv" in ending else json.dumps(GOOD).encode()))
    tracemalloc.start()
    chunks = read(path, limits=ReadLimits(line_bytes=1 << 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rejects(chunks)[0][1].endswith(f" of {96 << 20} bytes, longer than the limit of {1 << 20}")
    assert sum(len(chunk.batch) for chunk in chunks) == 1
    assert peak < 48 << 20


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_deletions_need_no_place_and_no_keywords(tmp_path, kind):
    """A deletion with an id and a time only is accepted, at NaN; half a place is rejected, and an upsert needs a whole one."""
    path = tmp_path / f"o.{kind}"
    rows = [("a", 1.0, 2.0, None), ("a", None, None, "delete"), ("b", 1.0, None, "delete"), ("c", None, None, None)]
    if kind == "jsonl":
        records = [dict(zip(("id", "x", "y", "op"), row, strict=True)) | {"ts": 0} for row in rows]
        lines(path, *({key: value for key, value in record.items() if value is not None} for record in records))
    elif kind == "csv":
        texts = [",".join("" if value is None else str(value) for value in row) for row in rows]
        path.write_text("id,x,y,op,ts,text\n" + "".join(f"{text},0,\n" for text in texts))
    else:
        names, x, y, op = map(list, zip(*rows, strict=True))
        words = pa.array([None] * 4, pa.list_(pa.string()))
        parquet(
            path, id=names, ts=[0] * 4, x=pa.array(x, pa.float64()), y=pa.array(y, pa.float64()), op=op, keywords=words
        )
    batch = whole_batch(read(path))
    assert batch.ids.to_list() == ["a", "a"]
    assert batch.op.tolist() == [OP_UPSERT, OP_DELETE]
    assert math.isnan(batch.x[1])
    assert math.isnan(batch.y[1])
    assert keywords(batch)[1] == []
    assert [reason for _, reason in rejects(read(path))] == ["no y", "no location, expected x and y or lon and lat"]
    assert rejects(read(path, dynamic=False))[0][1].startswith(
        'op is "delete", but the objects of this topology have no state'
    )


def test_places_outside_are_told_as_python_writes_numbers(tmp_path):
    """However fast the reasons of many are made: whole numbers, exponents, the last digit."""
    rng = np.random.default_rng(3)
    drawn = rng.uniform(-1, 1, (500, 2)) * 10.0 ** rng.integers(-12, 30, (500, 2))
    odd = [(1.0, 0.5), (1e-5, 1e15), (123456.789, -7.0), (1e300, 0.001), (0.1 + 0.2, 999999999.5), (0.5, 1e9)]
    places = [*odd, *map(tuple, drawn.tolist()), *map(tuple, drawn.round(2).tolist())]
    lines = "".join(f"{n},1,{x!r},{y!r},\n" for n, (x, y) in enumerate(places))
    (tmp_path / "far.csv").write_text(f"id,ts,x,y,text\n{lines}", "utf-8")
    space = Rect(5e307, 5e307, 6e307, 6e307)
    [chunk] = read_objects([tmp_path / "far.csv"], space=space, encoder=Encoder())
    where = f"is outside the space {list(space.as_tuple())}"
    assert chunk.rejects.reason.to_list() == [f"({x!r}, {y!r}) {where}" for x, y in places]
