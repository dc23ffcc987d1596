"""Preparing data on Spark, against a plain reference, and inputs that are broken in every way."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline_reference import csv_bytes, expected, raw_rows, write_csv, write_jsonl

from pipeline.preparing import prepare
from pipeline.session import spark_session
from streams.errors import DeclarationError, InputError
from streams.files.prepared import load_manifest, load_vocabulary, object_paths
from streams.geometry import Rect

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MASTER = "local[2]"
ROWS = raw_rows(3000)


def objects_in(folder, columns=("id", "ts", "x", "y", "keyword_ids")):
    rows = []
    for path in object_paths(folder):
        rows += [tuple(row[name] for name in columns) for row in pq.read_table(path).to_pylist()]
    return rows


def prepared(inputs, out, **options):
    return prepare(inputs, out, master=MASTER, statistics=False, **options)


@pytest.fixture(scope="module")
def reference():
    return expected(ROWS)


@pytest.fixture(scope="module")
def two_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    write_csv(folder / "a.csv", ROWS[:1700])
    write_csv(folder / "b.csv.gz", ROWS[1700:])
    return folder


def check(folder, manifest, reference):
    assert objects_in(folder) == reference.objects
    vocabulary = load_vocabulary(folder)
    assert list(vocabulary.words) == reference.words
    assert vocabulary.df.tolist() == reference.df
    assert vocabulary.documents == len(reference.objects) == manifest.rows
    assert dict(manifest.rejects) == dict(reference.rejects)
    lines = (folder / "rejects.jsonl").read_text().splitlines()
    assert len(lines) == sum(reference.rejects.values())
    assert manifest.keywords == sum(len(row[4]) for row in reference.objects)
    xs, ys = [row[2] for row in reference.objects], [row[3] for row in reference.objects]
    assert manifest.space == Rect(min(xs), min(ys), max(xs), max(ys))
    assert (manifest.first_ts, manifest.last_ts) == (reference.objects[0][1], reference.objects[-1][1])


def test_prepare_csv_equals_the_plain_reference(two_files, tmp_path, reference):
    """Two CSV files, one of them packed, give the objects, words, counts and rejects of a single process."""
    manifest = prepared([two_files], tmp_path / "out")
    check(tmp_path / "out", manifest, reference)
    assert manifest == load_manifest(tmp_path / "out")
    assert manifest.id_type == "int64"
    assert manifest.synthetic_rate is None


def test_prepare_does_not_depend_on_partitioning(two_files, tmp_path, reference):
    """Small splits and other shuffle partitions change nothing in what is written."""
    spark = spark_session(MASTER)
    settings = {"spark.sql.files.maxPartitionBytes": "20000", "spark.sql.shuffle.partitions": "3"}
    before = {key: spark.conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        manifest = prepared([two_files / "a.csv", two_files / "b.csv.gz"], tmp_path / "out")
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    check(tmp_path / "out", manifest, reference)


def test_prepare_jsonl_equals_the_plain_reference(tmp_path, reference):
    """The same records as JSON lines give the same data set."""
    write_jsonl(tmp_path / "a.jsonl", ROWS)
    manifest = prepared([tmp_path / "a.jsonl"], tmp_path / "out", keep_text=True)
    check(tmp_path / "out", manifest, reference)
    texts = {int(row["id"]): row["text"] for row in reversed(ROWS) if row["id"]}
    for number, text in objects_in(tmp_path / "out", ("id", "text")):
        assert number == 3 or text == texts[number]


def test_prepare_parquet_takes_typed_columns_of_other_names(tmp_path):
    """Parquet with timestamps, floats and keyword lists under names of its own, in a given space."""
    table = pa.table(
        {
            "key": ["a", "b", "c", "d"],
            "when": pa.array([3_000, 1_000, 2_000, 2_000], pa.timestamp("ms")),
            "east": pa.array([0.5, 0.25, 2.0, 0.75], pa.float32()),
            "north": pa.array([1, 0, 0, 1], pa.int32()),
            "tags": [["Sushi", "ramen"], ["RAMEN", "ramen", ""], ["x"], None],
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    manifest = prepared(
        [tmp_path / "in.parquet"], tmp_path / "out",
        id="key", ts="when", x="east", y="north", keywords="tags", space=Rect(0, 0, 1, 1),
    )  # fmt: skip
    assert load_vocabulary(tmp_path / "out").words == ("ramen", "sushi")
    assert objects_in(tmp_path / "out") == [
        ("b", 1000, 0.25, 0.0, [0]),
        ("d", 2000, 0.75, 1.0, []),
        ("a", 3000, 0.5, 1.0, [0, 1]),
    ]
    assert manifest.rejects == {"outside the space": 1}
    assert manifest.space == Rect(0, 0, 1, 1)
    assert manifest.id_type == "string"


def test_prepare_gives_untimed_data_a_steady_rate(tmp_path):
    """Data without any time keeps its order and gets a time every so many milliseconds."""
    rows = [dict(row, ts="") for row in ROWS[:500]]
    write_csv(tmp_path / "a.csv", rows)
    reference = expected(rows, untimed=True)
    manifest = prepared([tmp_path / "a.csv"], tmp_path / "out", rate=400)
    found = objects_in(tmp_path / "out")
    assert [row[0] for row in found] == [row[0] for row in reference.objects]
    assert [row[1] for row in found] == [int(2.5 * n) for n in range(len(found))]
    assert [row[4] for row in found] == [row[4] for row in reference.objects]
    assert dict(manifest.rejects) == dict(reference.rejects)
    assert (manifest.first_ts, manifest.last_ts, manifest.synthetic_rate) == (0, found[-1][1], 400)


def test_prepare_rejects_what_is_not_utf8_and_what_has_other_columns(tmp_path):
    """Latin-1 among UTF-8, a quoted line end, a row that is too short: rejected with a reason, or read."""
    data = (
        b"id,ts,lon,lat,text\n"
        b"1,1,1,1,caf\xc3\xa9\n"
        b"2,1,1,1,caf\xe9\n"
        b'3,1,1,1,"two\nlines"\n'
        b"4,1\n"
        b'5,1,1,1,"say ""hi"", now"\n'
        b"007,1,1,1,agent\n"
    )
    (tmp_path / "mixed.csv").write_bytes(data)
    manifest = prepared([tmp_path / "mixed.csv"], tmp_path / "out")
    assert manifest.rejects == {"bad utf-8": 1, "unreadable record": 1}
    assert manifest.id_type == "string"
    words = load_vocabulary(tmp_path / "out").words
    assert [(row[0], {words[w] for w in row[4]}) for row in objects_in(tmp_path / "out")] == [
        ("1", {"café"}), ("3", {"two", "lines"}), ("5", {"say", "hi", "now"}), ("007", {"agent"}),
    ]  # fmt: skip
    rejects = [json.loads(line) for line in (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()]
    assert [(line["record"], line["kind"]) for line in rejects] == [(2, "bad utf-8"), (4, "unreadable record")]
    assert rejects[0]["source"].endswith("mixed.csv")
    assert "UTF-8" in rejects[0]["reason"]


def test_prepare_keeps_json_ids_as_given_and_counts_lines(tmp_path):
    """A quoted number stays a string, an id that is neither string nor integer and a bad line are rejected."""
    lines = [
        b'{"id":"7","ts":1,"lon":1,"lat":1,"text":"one two"}',
        b"",
        b'{"id":1.5,"ts":1,"lon":1,"lat":1,"text":"one"}',
        b"not json",
        b'{"id":"8","ts":2,"lon":1,"lat":1,"text":"h\\u00e9 \xe9"}',
        b'{"id":"9","ts":0,"lon":1,"lat":1,"text":"h\\u00e9llo"}',
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    manifest = prepared([tmp_path / "a.jsonl"], tmp_path / "out")
    assert [row[0] for row in objects_in(tmp_path / "out")] == ["9", "7"]
    assert manifest.rejects == {"bad id": 1, "bad utf-8": 1, "unreadable record": 1}
    rejects = [json.loads(line) for line in (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()]
    assert [line["record"] for line in rejects] == [3, 4, 5]
    assert load_vocabulary(tmp_path / "out").words == ("héllo", "one", "two")


def test_prepare_keeps_states_of_dynamic_objects(tmp_path):
    """Without deduplication every record of an id is kept, and the vocabulary can be cut to the frequent words."""
    rows = [
        {"id": "1", "ts": str(n), "lon": "1", "lat": "1", "text": "always" + (" rare" if n == 2 else "")}
        for n in range(4)
    ]
    write_csv(tmp_path / "a.csv", rows)
    manifest = prepared([tmp_path / "a.csv"], tmp_path / "out", deduplicate=False, max_words=1)
    found = objects_in(tmp_path / "out")
    assert [row[1] for row in found] == [0, 1, 2, 3]
    assert (manifest.words, manifest.rejected) == (1, 0)
    assert [row[4][0] for row in found] == [0, 0, 0, 0]
    assert len(found[2][4]) == 2
    assert found[2][4][1] >= 1 << 62
    assert manifest.space == Rect(0.5, 0.5, 1.5, 1.5)


def test_prepare_refuses_files_that_cannot_be_used_at_all(tmp_path):
    """An empty file, a missing column, a missing file, a strange ending, a cut-off archive, no Parquet: one clear sentence."""
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "header.csv").write_bytes(b"id,ts,lon,lat,text\n")
    (tmp_path / "columns.csv").write_bytes(b"id,ts,longitude,lat,text\n1,1,1,1,x\n")
    (tmp_path / "wide.csv").write_bytes("id,ts\n".encode("utf-16"))
    (tmp_path / "fake.parquet").write_bytes(b"this is not a Parquet file at all")
    (tmp_path / "_hidden.csv").write_bytes(b"id,ts,lon,lat,text\n")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(csv_bytes(ROWS))[:-4000])
    cases = {
        "empty.csv": "is empty; expected a header row",
        "header.csv": "no records",
        "columns.csv": "has no column 'lon'; it has id, ts, longitude, lat, text",
        "absent.csv": "names no file",
        "wide.csv": "UTF-16",
        "fake.parquet": "cannot be read as Parquet",
        "_hidden.csv": "Spark skips such files",
        "cut.csv.gz": "cut.csv.gz cannot be read",
    }
    for name, sentence in cases.items():
        with pytest.raises(InputError) as error:
            prepared([tmp_path / name], tmp_path / f"out-{name}")
        assert sentence in str(error.value), name
        assert "\n" not in str(error.value), name
    (tmp_path / "objects.xml").write_bytes(b"<x/>")
    with pytest.raises(InputError, match="names no format"):
        prepared([tmp_path / "objects.xml"], tmp_path / "out-xml")


def test_prepare_keeps_the_rejects_of_a_file_of_only_rejects(tmp_path):
    """Where no record can be used the error counts the reasons and the rejects are there to look at."""
    write_csv(tmp_path / "bad.csv", [{"id": str(n), "ts": "1", "lon": "x", "lat": "1", "text": ""} for n in range(3)])
    with pytest.raises(InputError, match=r"none of 3 records can be used \(3 x bad coordinate\)"):
        prepared([tmp_path / "bad.csv"], tmp_path / "out")
    assert len((tmp_path / "out" / "rejects.jsonl").read_text().splitlines()) == 3
    with pytest.raises(InputError, match="did not finish"):
        load_manifest(tmp_path / "out")


def test_prepare_refuses_a_folder_in_use(tmp_path):
    """Nothing is overwritten that is not a prepared data set, and that only when it may be."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    with pytest.raises(DeclarationError, match="not empty"):
        prepared([tmp_path / "a.csv"], tmp_path / "out", overwrite=True)
    with pytest.raises(DeclarationError, match="rate is 0"):
        prepared([tmp_path / "a.csv"], tmp_path / "other", rate=0)
    with pytest.raises(DeclarationError, match="name one pair"):
        prepared([tmp_path / "a.csv"], tmp_path / "other", lon="a", x="b")
    write_csv(tmp_path / "a.csv", [{"id": "1", "ts": "1", "lon": "1", "lat": "1", "text": "first"}])
    prepared([tmp_path / "a.csv"], tmp_path / "new")
    write_csv(tmp_path / "a.csv", [{"id": "1", "ts": "1", "lon": "1", "lat": "1", "text": "second"}])
    prepared([tmp_path / "a.csv"], tmp_path / "new", overwrite=True)
    assert load_vocabulary(tmp_path / "new").words == ("second",)
