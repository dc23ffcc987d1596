"""Files that spell objects in their own way: other names, no identifiers, seconds."""

import csv
import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from operators.spouts.file_spouts import ObjectFileSpout
from streams.errors import DeclarationError, InputError
from streams.files.object_files import has_longitudes, keyword_kind, read_objects
from streams.files.object_form import ObjectForm
from streams.geometry import Rect
from streams.timestamps import TimeForm, read_time, read_times
from streams.tokens import tokenise
from streams.vocabulary import Encoder

SPACE = Rect(-180, -90, 180, 90)
ROWS = [
    {
        "created_at": 1517363399,
        "LONGITUDE": -122.5,
        "Lat": 38.0,
        "title": "Fire downtown",
        "body": "smoke, seen far away",
    },
    {"created_at": 1517363400, "LONGITUDE": 500.0, "Lat": 38.0, "title": "nowhere", "body": ""},
    {"created_at": 1517363401, "LONGITUDE": 7.25, "Lat": -3.5, "title": "Quiet", "body": None},
]
FORM = ObjectForm({"text": ("title", "body")}, row_ids=True, times=TimeForm("s"))


def write(path, rows):
    """Write rows in the format of the file's ending."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path, form):
    """Return the objects of a file as one batch, with their words, and the reasons of the rejects."""
    encoder = Encoder(track_words=True)
    (chunk,) = read_objects(path, space=SPACE, encoder=encoder, form=form)
    words = dict(encoder.new_words())
    batch = chunk.batch
    texts = [
        sorted(words[w] for w in batch.kw[batch.kw_off[i] : batch.kw_off[i + 1]].tolist()) for i in range(len(batch))
    ]
    return batch, texts, chunk.rejects.reason.to_list()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files_may_spell_objects_in_their_own_way(ending, tmp_path):
    """Common names are known in any case, texts are put together, records numbered (rejects too), seconds scaled."""
    batch, texts, reasons = read(write(tmp_path / f"o.{ending}", ROWS), FORM)
    assert batch.ids.to_list() == [0, 2]
    assert batch.ts.tolist() == [1517363399000, 1517363401000]
    assert (batch.x.tolist(), batch.y.tolist()) == ([-122.5, 7.25], [38.0, -3.5])
    assert texts == [sorted(tokenise("Fire downtown smoke, seen far away")), ["quiet"]]
    assert len(reasons) == 1
    assert "outside" in reasons[0]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("unit", "given", "ms"),
    [
        ("us", 1_500_999, 1500),
        ("us", -1, -1),
        ("ns", 1_772_348_400_000_999_999, 1_772_348_400_000),
        ("s", 2**61, None),
        ("s", "2018-01-31T01:49:59.650Z", 1517363399650),
    ],
)
def test_times_have_a_unit(ending, unit, given, ms, tmp_path):
    """Numbers count what is declared, cut off towards the past; moments are what they are; too large is a reject."""
    row = {"id": "a", "ts": given, "x": 1.0, "y": 1.0, "text": "one"}
    batch, _, reasons = read(write(tmp_path / f"o.{ending}", [row]), ObjectForm(times=TimeForm(unit)))
    assert batch.ts.tolist() == ([] if ms is None else [ms])
    assert bool(reasons) == (ms is None)


def test_units_are_the_same_for_one_time_and_for_a_column():
    """What a column of numbers gives at once, each text gives on its own; a moment among them takes no unit."""
    texts = ["1500999", "-1", "0", "2018-01-31T01:49:59.650Z"]
    for unit, expected in (
        ("us", [1500, -1, 0]),
        ("ns", [1, -1, 0]),
        ("s", [1500999000, -1000, 0]),
        ("ms", [1500999, -1, 0]),
    ):
        form = TimeForm(unit)
        assert [read_time(text, form) for text in texts] == [*expected, 1517363399650]
        assert read_times(pa.array(texts), form)[0].tolist() == [*expected, 1517363399650]
        assert read_times(pa.array(texts[:3]), form)[0].tolist() == expected


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("given", "form", "ms"),
    [
        ("12/06/2016 05:00:00 PM", TimeForm(pattern="%m/%d/%Y %I:%M:%S %p"), 1_481_043_600_000),
        (
            "12/06/2016 10:00:00 AM",
            TimeForm(pattern="%m/%d/%Y %I:%M:%S %p", zone="America/Edmonton"),
            1_481_043_600_000,
        ),
        ("06.12.2016", TimeForm(pattern="%m/%d/%Y"), None),
        (20161206, TimeForm(pattern="%Y%m%d"), 1_480_982_400_000),
        ("2016-12-06 10:00:00", TimeForm(zone="America/Edmonton"), 1_481_043_600_000),
        ("2016-12-06T17:00:00Z", TimeForm(zone="America/Edmonton"), 1_481_043_600_000),
        (1_481_043_600_000, TimeForm(zone="America/Edmonton"), 1_481_043_600_000),
    ],
)
def test_times_have_a_pattern_and_a_zone(ending, given, form, ms, tmp_path):
    """Texts are written as is declared, and mean the declared zone where they name none; numbers have no zone."""
    row = {"id": "a", "ts": given, "x": 1.0, "y": 1.0, "text": "one"}
    batch, _, reasons = read(write(tmp_path / f"o.{ending}", [row]), ObjectForm(times=form))
    assert batch.ts.tolist() == ([] if ms is None else [ms])
    assert bool(reasons) == (ms is None)


def test_times_of_parquet_without_a_zone_are_of_the_declared_one(tmp_path):
    """A timestamp that has a zone is what it is; a day begins at midnight there."""
    moment = datetime(2016, 12, 6, 10)
    rows = {"ts": [moment], "zoned": [moment.replace(tzinfo=UTC)], "day": [moment.date()]}
    table = pa.table({**rows, "id": ["a"], "x": [1.0], "y": [1.0], "text": ["one"]})
    pq.write_table(table, tmp_path / "o.parquet")
    for column, ms in (("ts", 1_481_043_600_000), ("zoned", 1_481_018_400_000), ("day", 1_481_007_600_000)):
        form = ObjectForm({"ts": (column,)}, times=TimeForm(zone="America/Edmonton"))
        assert read(tmp_path / "o.parquet", form)[0].ts.tolist() == [ms]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_seconds_may_have_a_fraction(ending, tmp_path):
    """1.0015 s is 1001 ms, whatever a float makes of it; as milliseconds it is a reject."""
    row = {"id": "a", "ts": 1.0015, "x": 1.0, "y": 1.0, "text": "one"}
    path = write(tmp_path / f"o.{ending}", [row])
    assert read(path, ObjectForm(times=TimeForm("s")))[0].ts.tolist() == [1001]
    assert len(read(path, ObjectForm())[2]) == 1


def test_what_is_not_clear_is_refused(tmp_path):
    """Two columns that may be the time, a declared one that is not there: an error says what to declare."""
    rows = [{"id": 1, "time": 1, "timestamp": 2, "x": 0.0, "y": 0.0, "text": "a"}]
    for ending in ("csv", "jsonl", "parquet"):
        path = write(tmp_path / f"o.{ending}", rows)
        with pytest.raises(InputError, match=r"'time' and 'timestamp' may both be ts; say which: columns = \{ ts = "):
            read(path, ObjectForm())
        assert read(path, ObjectForm({"ts": ("timestamp",)}))[0].ts.tolist() == [2]
    with pytest.raises(InputError, match=r"no column 'tme', which is declared to be ts \(nearest is 'time'\)"):
        read(tmp_path / "o.csv", ObjectForm({"ts": ("tme",)}))


def test_declared_columns_are_checked():
    """Unknown fields, several columns for a number, one column for two fields: refused, with the key."""
    with pytest.raises(DeclarationError, match=r"columns has 'lng' \(did you mean 'lon'\?\)"):
        ObjectFileSpout("o.csv", columns={"lng": "a"})
    with pytest.raises(DeclarationError, match=r"columns\.lon names 2 columns"):
        ObjectFileSpout("o.csv", columns={"lon": ["a", "b"]})
    with pytest.raises(DeclarationError, match="names 'a' more than once"):
        ObjectFileSpout("o.csv", columns={"lon": "a", "lat": "a"})
    with pytest.raises(DeclarationError, match="expected the name of a column"):
        ObjectFileSpout("o.csv", columns={"lon": 3})


def test_fields_inside_of_others_are_found_by_their_path(tmp_path):
    """A path leads through objects and arrays; a key with a dot in it is that key; what is not there is missing."""
    records = [
        {
            "id": 1,
            "meta": {"when": 5},
            "place": {"coordinates": [7.5, -3.0, 1.0]},
            "body": {"text": "Fire"},
            "a.b": "now",
        },
        {"id": 2, "meta": {"when": 6}, "place": {"coordinates": [7.5]}, "body": {"text": "x"}},
        {"id": 3, "meta": 6, "place": {"coordinates": [7.5, 1.0]}},
        {"id": 4, "meta": {"when": 6}, "place": {"coordinates": [8, 1]}, "body": None},
    ]
    (tmp_path / "o.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records), "utf-8")
    columns = {"ts": "meta.when", "lon": "place.coordinates.0", "lat": "place.coordinates.1"}
    form = ObjectForm({**{name: (path,) for name, path in columns.items()}, "text": ("body.text", "a.b")})
    [chunk] = read_objects([tmp_path / "o.jsonl"], space=SPACE, encoder=Encoder(), form=form)
    assert chunk.batch.ids.to_list() == [1, 4]
    assert (chunk.batch.x.tolist(), chunk.batch.y.tolist(), chunk.batch.ts.tolist()) == (
        [7.5, 8.0],
        [-3.0, 1.0],
        [5, 6],
    )
    assert sorted(chunk.batch.kw.tolist()) == sorted(Encoder().words(["fire", "now"]).tolist())
    assert list(zip(chunk.rejects.line.tolist(), chunk.rejects.reason.to_list(), strict=True)) == [
        (2, "no lat"),
        (3, "no ts"),
    ]
    assert has_longitudes([tmp_path / "o.jsonl"], SPACE, form)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("rows", [3, 900])
def test_a_date_and_a_time_of_day_are_one_time(tmp_path, ending, rows):
    """They are put together where both are texts, also where the time of day is missing."""
    path = tmp_path / f"o.{ending}"
    records = [
        {"id": n, "date": "01.03.2026", "time": "08:30", "x": 0.5, "y": 0.5, "text": "fire", "other": 1}
        for n in range(rows)
    ]
    if ending == "csv":
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in [records[0], *(r.values() for r in records)]))
    elif ending == "jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    else:
        pq.write_table(pa.Table.from_pylist(records), path)
    form = ObjectForm({"ts": ("date", "time")}, times=TimeForm(pattern="%d.%m.%Y %H:%M"))
    [chunk] = read_objects([path], space=SPACE, encoder=Encoder(), form=form)
    assert set(chunk.batch.ts.tolist()) == {1_772_353_800_000}
    assert len(chunk.batch) == rows


def test_a_date_and_a_time_of_day_that_are_no_texts_are_refused(tmp_path):
    """Types of Parquet cannot be put together without a guess."""
    table = pa.table({"id": [1], "d": [date(2026, 3, 1)], "t": ["08:30"], "x": [0.5], "y": [0.5], "text": ["fire"]})
    pq.write_table(table, tmp_path / "o.parquet")
    with pytest.raises(InputError, match="a date and a time of day are put together where both are strings"):
        list(
            read_objects([tmp_path / "o.parquet"], space=SPACE, encoder=Encoder(), form=ObjectForm({"ts": ("d", "t")}))
        )


def test_decimal_commas_are_named(tmp_path):
    """What a number looks like here is said to whoever writes it in another way."""
    (tmp_path / "o.csv").write_text('id,ts,lon,lat,text\n1,1,"-118,24",3.5,a\n2,1,west,3.5,a\n', "utf-8")
    [chunk] = read_objects([tmp_path / "o.csv"], space=SPACE, encoder=Encoder())
    assert chunk.rejects.reason.to_list() == [
        'lon is "-118,24", expected a number with a decimal point',
        'lon is "west", expected a number',
    ]


@pytest.mark.parametrize("bad", [0, 63, 64, 65, 200])
def test_what_objects_are_like_is_told_by_the_first_that_can_be_used(tmp_path, bad):
    """However many records before it cannot be, and whether there is one at all."""
    path, nothing = tmp_path / "late.csv", tmp_path / "nothing.csv"
    header, useless = "id,ts,lon,lat,text\n", ",,,,\n" * bad
    path.write_text(f"{header}{useless}1,5,0.5,0.5,fire\n")
    nothing.write_text(header + useless)
    form = ObjectForm()
    assert has_longitudes([nothing, path], SPACE, form) is True
    assert keyword_kind([path], SPACE, form) == "text"
    assert has_longitudes([nothing], SPACE, form) is None
