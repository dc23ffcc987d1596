"""Readers of objects against Python's own csv and json modules, and against themselves cut differently."""

import csv
import gzip
import io
import json
import math
from itertools import pairwise
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from streams.batches import tuple_rows
from streams.files import json_blocks, object_json
from streams.files.file_blocks import ReadLimits, cut_records_of, read_records
from streams.files.object_files import SHARE_RUN, ObjectChunk, read_objects
from streams.files.object_form import ObjectForm
from streams.files.object_lines import ObjectLines
from streams.files.object_order import ObjectOrder
from streams.files.record_kernels import copy_fields, cut_fields
from streams.geometry import Rect
from streams.timestamps import TimeForm
from streams.tokens import tokenise
from streams.vocabulary import Encoder, unseen_id

SPACE = Rect(0, 0, 1, 1)
LIMITS = ReadLimits(line_bytes=2_000, keywords=6)

coordinates = st.one_of(st.floats(0, 1), st.floats(-1, 2), st.integers(-1, 2))
words = st.text(st.sampled_from("abAB é,\"'\\\n\0"), max_size=6)
plain = st.fixed_dictionaries(
    {"id": st.one_of(st.integers(-9, 99), st.text(min_size=1, max_size=4)), "ts": st.integers(0, 9)}
    | {"x": coordinates, "y": coordinates, "text": words}
)
odd_values = st.one_of(
    st.none(), st.booleans(), st.integers(2**62 - 2, 2**64), st.integers(-3, 3), st.floats(), st.text(max_size=3),
    st.lists(st.one_of(words, st.none(), st.integers(-1, 2)), max_size=8), st.just("2018-01-31T01:49:59.6509Z"),
    st.just({"a": [1]}), st.sampled_from(["upsert", "delete", "\ud800"]),
)  # fmt: skip
fields = st.sampled_from(["id", "ts", "x", "y", "lon", "lat", "text", "keywords", "keyword_ids", "op", "other"])
odd = st.tuples(plain, st.dictionaries(fields, odd_values, max_size=4), st.sets(fields, max_size=2)).map(
    lambda drawn: {name: value for name, value in (drawn[0] | drawn[1]).items() if name not in drawn[2]}
)
lines = st.one_of(
    st.one_of(plain, plain, plain, odd).map(lambda record: json.dumps(record).encode()),
    plain.map(lambda record: json.dumps(record, ensure_ascii=False).encode()),
    st.sampled_from(
        [
            b"", b"  ", b"{}", b"[1]", b"7", b"{", b'{"id":1}{"id":2}', b"\xff", b'{"id":1,"id":2,"ts":0,"x":0,"y":0}',
            b'{"id":1,"ts":0,"x":0,"y":0,"z":Inf}', b'{"id":1,"ts":0,"x":0,"y":0,"z":NaN}',
            b'{"id":1,"ts":0,"x":-Infinity,"y":0}',
            b'{"id":1,"ts":0,"x":1e400,"y":0}', b'{"id":1,"ts":0,"x":0,"y":0,"z":[1,1],"z":2}', b"\xef\xbb\xbf{}",
            b'{"id":1,"ts":0,"x":0,"y":0,"a":' + b"[" * 150 + b"]" * 150 + b"}",
            b'{"id":1,"ts":0,"x":0,"y":0,"a":' + b"[" * 250 + b"]" * 250 + b"}",
            b'{"id":1,"ts":0,"x":0,"y":0,"text":"' + b"[" * 250 + b'"}', b'{"id":1,"text":"' + b"a" * 2_000 + b'"}',
            b'{"id":1,"ts":0,"x":0,"y":0,"text":"a:b","text":"c"}', b'{"id":1,"ts":0,"x":0,"y":0,"z":{"a":1,"a":2}}',
            b'{"id":"\\ud800\\ud800","ts":0,"x":0,"y":0}', b'{"id":"\\udc00","ts":0,"x":-0,"y":1e-400}',
            b'{"id":1,"ts":0,"x":0,"y":0,"a\\":":1,"a\\":":2,"b":[{"c":1}]}', b'{"id":1,"ts":0,"x":0,"y":%b}' % (b"9" * 400),
            b'{"\\u0069d":1,"ts":0,"x":0,"y":0}', b' {"id":1,"ts":0,"x":0,"y":0} ', b'{"id":1.0,"ts":0,"x":0,"y":0}',
        ]
    ),
)  # fmt: skip
files = st.lists(lines, max_size=60).map(b"\n".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder whose files each example writes anew."""
    return tmp_path_factory.mktemp("objects")


def read(path, **options):
    """Return all chunks of a file."""
    return list(read_objects(path, space=SPACE, encoder=Encoder(), limits=LIMITS, **options))


def rows(chunks):
    """Return the accepted rows and the rejects of chunks as plain values."""
    accepted = [row for chunk in chunks for row in tuple_rows(chunk.batch)[1]]
    rejected = [row for chunk in chunks for row in tuple_rows(chunk.rejects)[1]]
    return [repr(row) for row in accepted], rejected


def ids(found):
    """Return keyword ids of words, ascending."""
    return sorted(map(unseen_id, found))


def fields_of(block):
    """Return the fields of each record of a block."""
    width = int(block.size.max()) + 1
    shape = (width, len(block))
    begins, ends, written = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.uint8)
    counts = np.zeros(len(block), np.int64)
    cut_fields(block.data, block.start, block.stop, np.arange(width), begins, ends, written, counts)
    columns = []
    for column in zip(begins, ends, written, strict=True):
        off, out = np.zeros(len(block) + 1, np.int32), np.empty(len(block.data), np.uint8)
        copy_fields(block.data, *column, off, out)
        columns.append([out[start:stop].tobytes().decode() for start, stop in pairwise(off.tolist())])
    return [list(record[:count]) for record, count in zip(zip(*columns, strict=True), counts.tolist(), strict=True)]


@given(st.text(st.sampled_from('ab,"\n'), max_size=60))
@example('a"b,"c""d"e,"x\ny"\n')
def test_csv_records_are_those_of_the_csv_module(folder, text):
    """Records and fields of any text are those that Python's csv module finds; an open quote at the end is noted."""
    path = folder / "records.csv"
    path.write_bytes(text.encode())
    blocks = list(read_records(str(path), None, quoted=True, rows=3))
    found = [record for block in blocks for record in fields_of(block)]
    unclosed = bool(blocks) and blocks[-1].unclosed
    expected = [record for record in csv.reader(io.StringIO(text, newline="")) if record]
    assert found[: len(found) - unclosed] == expected[: len(expected) - unclosed]
    assert unclosed == (list(csv.reader(io.StringIO(text + "\nEND", newline="")))[-1] != ["END"])


@given(st.lists(st.lists(st.text(st.sampled_from('a,"\n \r'), max_size=5), min_size=1, max_size=2), max_size=8))
def test_csv_lines_are_the_physical_ones(folder, records):
    """The line of a record is the number of line feeds before it plus one, with line feeds inside of quotes counted."""
    path = folder / "lines.csv"
    out, starts = "id,ts,x,y,text\n", []
    for record in records:
        starts.append(out.count("\n") + 1)
        quoted = ",".join('"' + field.replace('"', '""') + '"' for field in record)
        out += quoted + "\n"
    path.write_bytes(out.encode())
    chunks = read(path, chunk_rows=2)
    assert [int(line) for chunk in chunks for line in chunk.rejects.line] == starts
    assert all("fields, expected 5" in reason for chunk in chunks for reason in chunk.rejects.reason.to_list())


def naive_object(record):
    """Return what a valid record of known types says, or None: the rules, in plain Python."""

    def number(value):
        return type(value) in (int, float) and math.isfinite(value)

    name, ts, x, y = (record.get(field) for field in ("id", "ts", "x", "y"))
    if x is None and y is None:
        x, y = record.get("lon"), record.get("lat")
    if not (type(name) is int or (isinstance(name, str) and name)) or type(ts) is not int or abs(ts) >= 2**62:
        return None
    nowhere = record.get("op") == "delete" and x is None and y is None
    if not nowhere and (not number(x) or not number(y) or not (0 <= x <= 1 and 0 <= y <= 1)):
        return None
    if record.get("op") not in (None, "upsert", "delete"):
        return None
    listed, text = record.get("keywords"), record.get("text")
    found = tokenise(text or "") if listed is None else {word.casefold() for word in listed if word}
    return None if len(found) > LIMITS.keywords else (name, ts, x, y, record.get("op") == "delete", ids(found))


typed = st.fixed_dictionaries(
    {"id": st.one_of(st.integers(), st.text(max_size=3), st.none()), "ts": st.one_of(st.integers(0, 20), st.none())},
    optional={
        "x": st.one_of(coordinates, st.none(), st.floats()), "y": coordinates, "lon": coordinates, "lat": coordinates,
        "keywords": st.one_of(st.none(), st.lists(words, max_size=9)), "text": st.text(st.sampled_from("aAé "), max_size=20),
        "op": st.one_of(st.none(), st.sampled_from(["upsert", "delete", "remove"])),
    },
)  # fmt: skip


@given(st.lists(typed, max_size=12))
def test_json_objects_are_accepted_by_the_rules(folder, records):
    """Accepted are the records that a plain reading of the rules accepts, with the values that it gives them."""
    path = folder / "typed.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    expected, latest = [], None
    for record in records:
        good = naive_object(record)
        if good is not None and (latest is None or good[1] >= latest):
            latest = good[1]
            expected.append((len(expected), *good))
    found = [
        (seq, name, ts, None if math.isnan(x) else x, None if math.isnan(y) else y, op == 1, kw)
        for chunk in read(path, chunk_rows=5)
        for seq, ts, x, y, op, kw, name in tuple_rows(chunk.batch)[1]
    ]
    assert found == expected


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(files, st.lists(typed, max_size=12).map(lambda found: "\n".join(map(json.dumps, found)).encode())))
def test_json_lines_read_fast_are_read_exactly(folder, content):
    """A kernel, a few lines at once, and whole blocks through Arrow, give what line after line gives, word for word."""
    path = folder / "lines.jsonl"
    path.write_bytes(content)
    fast = rows(read(path))
    assert read_in_each_way(path) == [fast, fast, fast]


def read_in_each_way(path, **options):
    """Return the rows of a file without the kernel: a few lines at once, through Arrow, and line after line."""
    with mock.patch.object(object_json.JsonKeys, "single", False):
        few = rows(read(path, **options))
        with mock.patch.object(json_blocks, "FEW_LINES", 0):
            arrow = rows(read(path, **options))
        with mock.patch.object(json_blocks, "trusted_lines", lambda block: np.zeros(len(block), np.bool_)):
            return [few, arrow, rows(read(path, **options))]


blanks = st.sampled_from(["", "", "", "", " ", "\t", " \r "])
digits = st.text(st.sampled_from("0123456789"), min_size=1, max_size=22)
numbers = st.one_of(
    st.floats(0, 1).map(repr), st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-9, 99).map(str),
    st.builds("{}{}{}{}".format, st.sampled_from(["", "-", "+"]), digits, st.one_of(st.just(""), digits.map(".{}".format)),
              st.one_of(st.just(""), st.builds("{}{}".format, st.sampled_from(["e", "E+", "e-"]), st.integers(0, 400)))),
    st.sampled_from(["-0", "-0.0", "0.", ".5", "1e", "1e+", "00", "0e5", "0x1", "NaN", "Infinity", "1_0", "0.1e-0005", "-"]),
    st.sampled_from(["9" * 18, "9" * 19, "-" + "9" * 18, str(2**63 - 1), str(2**63), "9" * 400, "0." + "0" * 30 + "7"]),
)  # fmt: skip
strings = st.one_of(
    st.text(st.sampled_from("aB é\u4e00\U0001f30d"), max_size=5).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.text(max_size=4).map(json.dumps),
    st.lists(
        st.sampled_from(["a", "storm ", "é", '\\"', "\\\\", "\\/", "\\n", "\\u00e9", "\\u0000", "\\u4E00", "\\ud83c\\udf0d",
                         "\\ud800", "\\x", "\\u12", "\\u00G0", "\x01", "\x7f", "\\"]),
        max_size=4,
    ).map(lambda parts: '"{}"'.format("".join(parts))),
    st.sampled_from(['"upsert"', '"delete"', '"Delete"', '"del\\u0065te"', '"1970-01-01T00:00:00.004Z"', '"5"', '""', '"']),
)  # fmt: skip
lists = st.tuples(st.lists(st.one_of(strings, strings, strings, numbers, st.just("null")), max_size=4), blanks).map(
    lambda drawn: "[" + f"{drawn[1]},{drawn[1]}".join(drawn[0]) + "]"
)
values = st.one_of(
    numbers, strings, lists, st.sampled_from('null true false nul [] [,] {} {"a":1} [[1]] []] n'.split())
)
keys = st.sampled_from([*"id ts x y lon lat text keywords keyword_ids op other ids i".split(), "i\\u0064", 'a\\"', "é"])
usual = {
    "id": st.one_of(numbers, strings), "ts": st.one_of(st.integers(0, 9).map(str), strings), "x": numbers, "y": numbers,
    "lon": numbers, "lat": numbers, "text": strings, "keywords": lists, "op": strings, "keyword_ids": st.just("[1]"),
}  # fmt: skip
members = keys.flatmap(
    lambda key: st.tuples(st.just(key), st.one_of(usual.get(key, values), usual.get(key, values), values))
)
written = st.builds(
    lambda kept, more, order, blank, ends: _written([*kept, *more], order, blank, ends),
    st.tuples(*(st.tuples(st.just(key), usual[key]) for key in ("id", "ts", "x", "y"))),
    st.lists(members, max_size=4), st.randoms(use_true_random=False), blanks,
    st.sampled_from([("{", "}")] * 9 + [("{", ",}"), ("{,", "}"), ("{", "}}"), ("{", "} 1"), ("{", ""), (" {", "} ")]),
)  # fmt: skip


def _written(pairs, order, blank, ends):
    order.shuffle(pairs)
    inner = f"{blank},{blank}".join(f'"{key}"{blank}:{blank}{value}' for key, value in pairs)
    return f"{ends[0]}{blank}{inner}{blank}{ends[1]}"


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.lists(written, max_size=12),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.sampled_from(
        [TimeForm(), TimeForm("s"), TimeForm("us"), TimeForm("ns"), TimeForm(pattern="%Y"), TimeForm(zone="Asia/Tokyo")]
    ),
    st.booleans(),
)
@example(
    ['{"id":"","ts":0,"x":0,"y":0}', '{"id":7,"ts":0,"x":0,"y":0}', '{"id":"7","ts":0,"x":0,"y":0}'],
    "\n",
    TimeForm(),
    False,
)
def test_json_lines_of_any_spelling_are_read_exactly(folder, found, end, times, numbered):
    """What the kernel takes for plain is what Python's json module says; all else is as if there were no kernel."""
    path = folder / "spelled.jsonl"
    path.write_bytes(end.join(found).encode())
    form = ObjectForm(times=times, row_ids=numbered)
    fast = rows(read(path, form=form))
    assert read_in_each_way(path, form=form) == [fast, fast, fast]


@settings(max_examples=30)
@given(
    st.lists(
        st.one_of(numbers, st.builds("{}e{}".format, st.integers(1, 10**19), st.integers(-40, 60))),
        min_size=1,
        max_size=400,
    )
)
def test_json_numbers_are_the_nearest_doubles(found):
    """A number is the double that Python makes of it, to the last bit, or the line is left to a parser."""
    given_numbers = [number for number in found if _is_json(number)]
    content = "\n".join(f'{{"x":{number}}}' for number in given_numbers).encode()
    for block in cut_records_of(content):
        lines = ObjectLines(block, {"x": ("x",)}, ObjectForm())
        expected = [float(number) for number, plain in zip(given_numbers, lines.plain, strict=True) if plain]
        assert [value.hex() for value in lines.places().x.values.tolist()] == [value.hex() for value in expected]


def _is_json(number):
    try:
        return math.isfinite(json.loads(number))
    except (ValueError, OverflowError):
        return False


def test_json_numbers_between_two_doubles_are_rounded_to_the_even_one():
    """Halves, long fractions and the numbers that people have are read by the kernel, and exactly."""
    rng = np.random.default_rng(1)
    halves = [str(2**53 + 2 * n + 1) for n in range(40)] + [f"{2**54 + 4 * n + 2}e0" for n in range(40)]
    halves += [f"{2**53 + 2 * n + 1}e{power}" for n in range(20) for power in (-4, 0, 3)] + ["4503599627370496.5"]
    usual = [repr(value) for value in [*rng.random(2_000).tolist(), *(rng.random(2_000) * 360 - 180).tolist()]]
    given_numbers = halves + usual
    content = "\n".join(f'{{"x":{number}}}' for number in given_numbers).encode()
    [block] = cut_records_of(content)
    lines = ObjectLines(block, {"x": ("x",)}, ObjectForm())
    assert lines.plain.all()
    assert lines.places().x.values.tolist() == [float(number) for number in given_numbers]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(files, st.integers(1, 9), st.integers(0, 70), st.booleans())
def test_objects_do_not_depend_on_how_they_are_cut(folder, content, chunk_rows, skip, compressed):
    """Chunk size, compression and a restart in the middle change nothing."""
    path = folder / ("cut.jsonl.gz" if compressed else "cut.jsonl")
    path.write_bytes(gzip.compress(content) if compressed else content)
    whole, small = read(path), read(path, chunk_rows=chunk_rows)
    assert rows(small) == rows(whole)
    assert all(chunk.records <= chunk_rows for chunk in small)
    before, after, watermark, records, first = [], small, None, 0, 0
    while after and records + after[0].records <= skip:
        before.append(after.pop(0))
        records += before[-1].records
        first += len(before[-1].batch)
        if len(before[-1].batch):
            watermark = int(before[-1].batch.ts[-1])
    again = read(path, chunk_rows=chunk_rows, skip=records, first=first, order=ObjectOrder(watermark=watermark))
    assert rows(before + again) == rows(whole)


@given(st.integers(1, 3), st.integers(1, 700), st.data())
@settings(max_examples=20)
def test_readers_that_share_agree_and_divide(folder, readers, chunk_rows, data):
    """Readers of a share accept the same rows, and each row's keywords and each reject are with exactly one of them."""
    path = folder / "shared.jsonl"
    records = 2 * SHARE_RUN + data.draw(st.integers(0, 40))
    bad = data.draw(st.sets(st.integers(0, records - 1), max_size=5))
    path.write_text(
        "".join(
            json.dumps({"id": n, "ts": n, "x": 5 if n in bad else 0.5, "y": 0.5, "text": f"word{n} storm"}) + "\n"
            for n in range(records)
        )
    )
    [whole] = [join(read(path))]
    parts = [join(read(path, reader=(n, readers), chunk_rows=chunk_rows)) for n in range(readers)]
    assert np.array_equal(sum(part.mine.astype(int) for part in parts), np.ones(len(whole.batch)))
    for part in parts:
        assert part.records == whole.records
        for name in ("seq", "ts", "x", "y", "op", "ids"):
            left, right = getattr(part.batch, name), getattr(whole.batch, name)
            assert left == right if name == "ids" else np.array_equal(left, right)
        mine = np.flatnonzero(part.mine)
        assert tuple_rows(part.batch.take(mine)) == tuple_rows(whole.batch.take(mine))
        sizes = np.diff(part.batch.kw_off)
        assert (sizes[~part.mine] == 0).all()
    rejected = [row for part in parts for row in tuple_rows(part.rejects)[1]]
    assert sorted(rejected) == sorted(tuple_rows(whole.rejects)[1])


def join(chunks):
    """Put chunks together."""
    return ObjectChunk(
        type(chunks[0].batch).concat([chunk.batch for chunk in chunks]),
        type(chunks[0].rejects).concat([chunk.rejects for chunk in chunks]),
        sum(chunk.records for chunk in chunks),
        sum(chunk.refused for chunk in chunks),
        np.concatenate([chunk.mine for chunk in chunks]),
        np.concatenate([chunk.record for chunk in chunks]),
    )


tables = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1), st.integers(0, 9), st.floats(-1, 2), st.floats(-1, 2),
        st.text(st.sampled_from('aAéß ,"\n'), max_size=12), st.sampled_from(["", "upsert", "delete"]),
    ),
    max_size=12,
)  # fmt: skip


@given(tables)
def test_formats_say_the_same(folder, table):
    """The same objects in CSV, JSONL and Parquet are the same objects."""
    names = ("id", "ts", "x", "y", "text", "op")
    with open(folder / "same.csv", "w", newline="") as out:
        csv.writer(out).writerows([names, *table])
    records = [dict(zip(names, row, strict=True)) | {"op": row[5] or None} for row in table]
    (folder / "same.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    kinds = (pa.int64(), pa.int64(), pa.float64(), pa.float64(), pa.string(), pa.string())
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    pq.write_table(pa.Table.from_pylist(records, schema), folder / "same.parquet", row_group_size=5)
    results = [
        (rows(chunks)[0], [reason for chunk in chunks for reason in chunk.rejects.reason.to_list()])
        for chunks in (read(folder / f"same.{ending}") for ending in ("csv", "jsonl", "parquet"))
    ]
    assert results[0] == results[1] == results[2]
