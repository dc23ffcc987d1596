"""Readers of queries: whole columns against one record at a time, and the stream against itself cut differently."""

import json
from unittest import mock

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.batches import DETECTS, tuple_rows
from streams.files import query_columns
from streams.files.file_blocks import ReadLimits
from streams.files.open_queries import OpenQueries
from streams.files.query_files import KINDS, read_queries
from streams.geometry import Rect
from streams.vocabulary import Encoder

SPACE = Rect(-10, -10, 10, 10)
LIMITS = ReadLimits(line_bytes=2_000, keywords=4)

names = st.one_of(st.integers(0, 4), st.sampled_from(["q0", "q1", "q2", "é\n"]))
times = st.integers(0, 12)
small = st.one_of(st.integers(-12, 12), st.floats(-12, 12))
words = st.lists(st.sampled_from(["sushi", "Ramen", "RAMEN", "ß", "a b"]), max_size=3)
durations = st.integers(1, 6)
rects = st.tuples(small, small, st.floats(0, 5), st.floats(0, 5)).map(lambda r: [r[0], r[1], r[0] + r[2], r[1] + r[3]])
circles = st.tuples(small, small, st.floats(0, 5)).map(list)
rects = rects.filter(lambda r: max(r[:2]) <= 10 and min(r[2:]) >= -10)
circles = circles.filter(lambda c: max(map(abs, c[:2])) <= 10 + c[2])
regions = st.one_of(rects.map(lambda r: {"rect": r}), circles.map(lambda c: {"circle": c}))
places = st.lists(st.floats(-10, 10), min_size=2, max_size=2)
matches = st.sampled_from(["all", "any"])
ks = st.integers(1, 1000)
detects = st.lists(st.sampled_from(DETECTS), min_size=1, max_size=4)


def registrations(type_, needed, **optional):
    """Return registrations of one type that are valid on their own."""
    always = {"op": st.just("register"), "id": names, "ts": times, "type": st.just(type_)}
    return st.fixed_dictionaries(always | needed, optional=optional)


snapshot = st.just(False)
valid = st.one_of(
    registrations("range", {"region": regions}, keywords=words, match=matches, ttl=durations, continuous=st.just(True)),
    registrations("range", {"region": regions, "detect": detects}, keywords=words, ttl=durations),
    registrations("range", {"region": regions, "continuous": snapshot}, keywords=words, window=durations),
    registrations("knn", {"at": places, "k": ks}, keywords=words, match=matches, ttl=durations),
    registrations("knn", {"at": places, "k": ks, "continuous": snapshot}, window=durations),
    registrations(
        "topk",
        {"at": places, "k": ks, "alpha": st.floats(0, 1), "keywords": words.filter(len)},
        ttl=durations,
        match=st.just("any"),
    ),
    registrations("terms", {"region": regions, "k": ks, "window": durations, "slide": durations}, ttl=durations),
    registrations("terms", {"region": regions, "k": ks, "continuous": snapshot}, window=durations, keywords=words),
    st.fixed_dictionaries({"op": st.just("unregister"), "id": names, "ts": times}),
)
odd_values = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 3), st.integers(2**31 - 2, 2**31 + 1), st.integers(2**62 - 1, 2**64),
    st.floats(), st.text(max_size=3), words, st.lists(st.one_of(small, st.none(), st.floats()), max_size=5), regions,
    st.fixed_dictionaries({"rect": rects, "circle": circles}), st.just({"rect": None}), st.just({"box": [0, 0, 1, 1]}),
    st.sampled_from(["register", "unregister", "range", "terms", "topk", "all", "any", "2018-01-31T01:49Z", "\ud800"]),
    st.just([""]), st.just([None]), st.just(["enter", "leave"]), detects,
    st.lists(st.sampled_from("abcdef"), min_size=4, max_size=6, unique=True),
)  # fmt: skip
fields = st.sampled_from(
    "op id ts type continuous ttl keywords match region at k alpha window slide detect radius".split()
)
odd = st.tuples(valid, st.dictionaries(fields, odd_values, max_size=2), st.sets(fields, max_size=1)).map(
    lambda drawn: {name: value for name, value in (drawn[0] | drawn[1]).items() if name not in drawn[2]}
)
lines = st.one_of(
    valid.map(json.dumps),
    odd.map(json.dumps),
    st.sampled_from(
        ["", "{}", "[]", "{", '{"op":"unregister","id":1,"ts":1,"ts":2}', '{"op":"unregister","id":1,"ts":1e0}']
    ),
)
plain_files = st.lists(valid.map(json.dumps), max_size=25).map("\n".join)
files = st.one_of(
    plain_files,
    st.lists(lines, max_size=25).map("\n".join),
    odd.map(json.dumps),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder whose files each example writes anew."""
    return tmp_path_factory.mktemp("queries")


def read(path, open_queries=None, **options):
    """Return all chunks of a file."""
    open_queries = open_queries or OpenQueries()
    return list(read_queries(path, space=SPACE, encoder=Encoder(), open_queries=open_queries, limits=LIMITS, **options))


def rows(chunks):
    """Return the accepted operations and the rejects of chunks as plain values."""
    accepted = [row for chunk in chunks for row in tuple_rows(chunk.batch)[1]]
    return [repr(row) for row in accepted], [row for chunk in chunks for row in tuple_rows(chunk.rejects)[1]]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=300)
@given(files, st.sampled_from(["euclidean", "haversine"]))
def test_queries_read_fast_are_read_exactly(folder, content, metric):
    """Whole columns give what record after record gives, accepted and rejected, word for word."""
    path = folder / "queries.jsonl"
    path.write_text(content)
    fast = rows(read(path, metric=metric))
    with mock.patch.object(query_columns._Columns, "vouched", lambda columns: np.zeros(len(columns), np.bool_)):
        assert rows(read(path, metric=metric)) == fast


@st.composite
def damaged(draw):
    """Return the line of a valid operation, spaced at will, with up to three characters changed, added or removed."""
    line = json.dumps(draw(valid), separators=draw(st.sampled_from([(",", ":"), (" ,\t", "\t: ")])))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(line)))
        new = draw(st.sampled_from(["", *'{}[]",:0123456789-+.eE\\ tnu\x01\x7f é', "null", "true", "false", "NaN"]))
        line = line[:at] + new + line[at + draw(st.integers(0, 1)) :]
    return line


@settings(max_examples=400)
@given(damaged())
def test_damaged_lines_are_read_exactly(folder, line):
    """A line that is nearly JSON, or JSON of another shape, fares in columns as it does with the json module."""
    path = folder / "damaged.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    fast = rows(read(path))
    with mock.patch.object(query_columns._Columns, "vouched", lambda columns: np.zeros(len(columns), np.bool_)):
        assert rows(read(path)) == fast


few_or_many = st.text("0123456789", min_size=1, max_size=30)
digits = few_or_many | st.text("0123456789", min_size=17, max_size=20)  # as many as 64 bits take, and one more
spelled = st.one_of(
    st.builds("0.{}".format, digits),
    st.builds("{}.{}e-{}".format, st.integers(0, 9), digits, st.integers(0, 330)),
    st.builds("{}E{}{}".format, st.integers(1, 10**19), st.sampled_from(["-", "-0"]), st.integers(20, 60)),
    st.sampled_from(["1", "-0.0", "-9", "10.0", "1e1", "1E+1", "0e999", "1e-400", "1e400", "1" + "0" * 400, "9" * 19]),
)
spaced = st.sampled_from(["", " ", "\t \t"])


@given(st.lists(st.tuples(spelled, spelled, spelled, spaced), min_size=3, max_size=9))
def test_places_of_any_spelling_are_the_nearest_doubles(folder, places):
    """However a number is written, it is the double that Python makes of it, to the last bit, or the line is refused alike."""
    path = folder / "spelled.jsonl"
    lines = []
    for number, (x, y, radius, space) in enumerate(places):
        at = f"[{space}{x}{space},{space}{y}{space}]"
        lines.append(f'{{"op":"register","id":{2 * number},"ts":0,"type":"knn","at":{at},"k":1}}')
        circle = f"[{x}{space},{y},{space}{radius}]"
        lines.append(f'{{"op":"register","id":{2 * number + 1},"ts":0,"type":"range","region":{{"circle":{circle}}}}}')
    path.write_text("\n".join(lines))
    fast = rows(read(path))
    with mock.patch.object(query_columns._Columns, "vouched", lambda columns: np.zeros(len(columns), np.bool_)):
        assert rows(read(path)) == fast


@given(st.lists(valid, max_size=25))
def test_valid_queries_are_refused_only_for_what_came_before(folder, operations):
    """A well-formed operation is accepted unless it is late, its id is taken, or there is nothing to end."""
    path = folder / "valid.jsonl"
    path.write_text("".join(json.dumps(operation) + "\n" for operation in operations))
    live, latest, expected = {}, None, []
    for number, operation in enumerate(operations):
        name, ts = (type(operation["id"]), operation["id"]), operation["ts"]
        taken = name in live and live[name][1] > ts
        if (latest is not None and ts < latest) or taken != (operation["op"] == "unregister"):
            continue
        latest = ts
        if operation["op"] == "unregister":
            expected.append((number, live.pop(name)[0]))
        else:
            lasts = operation.get("ttl", 2**70) if operation.get("continuous", True) else 1
            live[name] = (number, ts + lasts)
            expected.append((number, number))
    found = [
        (number, target)
        for chunk in read(path)
        for number, target in zip(chunk.batch.number.tolist(), chunk.batch.target.tolist(), strict=True)
    ]
    assert found == expected


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(files, st.integers(1, 7), st.integers(0, 30))
def test_queries_do_not_depend_on_how_they_are_cut(folder, content, chunk_rows, skip):
    """Chunk size and a restart from a snapshot of the open_queries change nothing."""
    path = folder / "cut.jsonl"
    path.write_text(content)
    whole = rows(read(path))
    open_queries, before, records, watermark = OpenQueries(), [], 0, None
    stream = read_queries(
        path, space=SPACE, encoder=Encoder(), open_queries=open_queries, limits=LIMITS, chunk_rows=chunk_rows
    )
    for chunk in stream:
        before.append(chunk)
        records += chunk.records
        assert chunk.records <= chunk_rows
        if len(chunk.batch):
            watermark = int(chunk.batch.ts[-1])
        if records > skip:
            break
    restored = OpenQueries()
    restored.restore(msgpack.unpackb(msgpack.packb(open_queries.snapshot())))
    after = read(path, restored, chunk_rows=chunk_rows, skip=records, watermark=watermark)
    assert rows(before + after) == whole


@given(plain_files, st.sets(st.sampled_from([kind for kinds in KINDS for kind in kinds])))
def test_queries_of_other_kinds_are_rejected(folder, content, answers):
    """Only registrations of the kinds that are answered pass; the others do not take an id."""
    path = folder / "kinds.jsonl"
    path.write_text(content)
    records = [json.loads(line) for line in content.splitlines()]
    for chunk in read(path, answers=answers):
        for row in range(len(chunk.batch)):
            record = records[int(chunk.batch.number[row])]
            if record["op"] == "register":
                assert KINDS[chunk.batch.type[row]][int(record.get("continuous", True))] in answers
        assert len(chunk.batch) + len(chunk.rejects) == chunk.records
