"""What a message proposes to declare of a file that nobody has described: all of it at once, and only what helps."""

import gzip
import json
import shlex
import subprocess
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streams.errors import InputError
from streams.files.file_blocks import DEFAULT_LIMITS, file_kind
from streams.files.object_form import ObjectForm
from streams.files.remedies import separator_remedy
from streams.geometry import Rect
from topology.amendments import columns_in
from topology.proposed_settings import missing_columns, proposed, wordless

EARTH = Rect(-180, -90, 180, 90)
NOON = 1_772_000_000


def proposal(path, form=None, **style):
    return proposed("objects", [path], EARTH, DEFAULT_LIMITS, form or ObjectForm(), **style)


def test_names_encoding_unit_and_order_are_proposed_at_once(tmp_path):
    """A file that needs four settings gets them in one message, not one at a time."""
    path = tmp_path / "brand.csv"
    rows = [f'A-{n},{NOON + n * 60 - 90 * (n % 3)},8.5,47.3,"Brand, Straße {n}"' for n in range(50)]
    path.write_text("\n".join(["incident_no,unix_time,long,lat,description", *rows, ""]), "latin-1")
    assert proposal(path) == (
        "--columns ts=unix_time,id=incident_no,text=description --set spout.objects.time_unit=s "
        "--set spout.objects.encoding=latin-1 --set spout.objects.lateness_ms=60000 "
        "(so 50 of the first 50 records can be used)"
    )


@pytest.mark.parametrize(("name", "separator"), [("brand.csv", ";"), ("brand.tsv", "\t"), ("brand.csv", "|")])
def test_files_without_commas_get_proposals_for_what_the_command_makes_of_them(tmp_path, name, separator):
    """A sheet as it is exported in German: encoding, names and times are said at once, and are those of the new file."""
    rows = [["Nr", "Zeit", "Länge", "Breite", "Meldung"]]
    east = "11,5" if separator == ";" else "11.5"
    rows += [[str(n), f"{n}.03.2026 08:00", east, "48.1", f"Brand, Straße {n}"] for n in range(1, 30)]
    path = tmp_path / name
    path.write_text("".join(separator.join(row) + "\n" for row in rows), "latin-1")
    said = proposal(path)
    assert said == (
        "--objects commas.csv --columns 'ts=Zeit,lon=Länge,lat=Breite,id=Nr,text=Meldung' "
        "--set 'spout.objects.time_format=%d.%m.%Y %H:%M' --set spout.objects.encoding=latin-1 "
        "(so 29 of the first 29 records can be used)"
    )
    known = tmp_path / "known.csv"
    known.write_text("id;ts;lon;lat;text\n1;1772000000000;11.5;48.1;fire\n")
    assert proposal(known) is None
    assert proposal(path, in_python=True) is None


@pytest.mark.parametrize("name", ["fires.geojson", "fires.json", "fires.json.gz"])
@pytest.mark.parametrize("collection", [True, False])
def test_json_as_a_whole_gets_proposals_for_what_the_command_makes_of_it(tmp_path, name, collection):
    """An array, or a collection of GeoJSON: the command works, and what it writes is what the proposal is about."""
    place = {"type": "Point", "coordinates": [-118.2, 34.0]}
    said = {"title": "Fire, Rauch ß"}
    features = [
        {"type": "Feature", "id": n, "geometry": place, "properties": {"when": f"2026-03-01T08:{n}:00Z", **said}}
        for n in range(10, 30)
    ]
    whole = {"type": "FeatureCollection", "crs": None, "features": features} if collection else features
    path = tmp_path / name
    data = json.dumps(whole, indent=1).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert proposal(path) == (
        "--objects fires.jsonl --columns ts=properties.when,lon=geometry.coordinates.0,lat=geometry.coordinates.1,"
        "text=properties.title (so 20 of the first 20 records can be used)"
    )
    with pytest.raises(InputError, match="a JSON object a line; of an array") as refused:
        file_kind(str(path))
    subprocess.run(str(refused.value).split("make one: ")[1], shell=True, check=True, cwd=tmp_path)
    assert list(map(json.loads, (tmp_path / "fires.jsonl").read_text().splitlines())) == features
    (tmp_path / "fires.jsonl").write_bytes(data)
    command, said = proposal(tmp_path / "fires.jsonl").split(", and --objects fires-lines.jsonl ")
    assert said == proposal(path).removeprefix("--objects fires.jsonl ")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert list(map(json.loads, (tmp_path / "fires-lines.jsonl").read_text().splitlines())) == features


@pytest.mark.parametrize(("east", "north"), [("easting", "northing"), ("x", "y")])
def test_a_space_is_proposed_for_places_in_a_plane(tmp_path, east, north):
    """Metres of a projection are nowhere in the space of all longitudes and latitudes."""
    path = tmp_path / "o.csv"
    rows = [f"{n},2026-03-01,{390_000 + 100 * n},{3_768_000 + 500 * n},fire" for n in range(10)]
    path.write_text("\n".join([f"id,ts,{east},{north},text", *rows, ""]))
    columns = "--columns x=easting,y=northing " if east == "easting" else ""
    said = "(so 10 of the first 10 records can be used; the space must have all places that will come)"
    assert proposal(path) == f"{columns}--set 'topology.space=[387000, 3765000, 394000, 3775000]' {said}"
    python = "columns={'x': 'easting', 'y': 'northing'}, " if columns else ""
    setting = "'topology.space=[387000, 3765000, 394000, 3775000]'"
    assert proposal(path, in_python=True) == f"{python}settings=[{setting}] {said}"
    path.write_text("id,ts,lon,lat,text\n" + "\n".join(rows))
    assert proposal(path) is None
    path.write_text(path.read_text().replace("2026-03-01", "1772348400").replace("lon,lat", f"{east},{north}") + "\n")
    if columns:
        seconds = "settings=['spout.objects.time_unit=s', " + setting + "]"
        assert proposal(path, in_python=True) == f"{python}{seconds} {said}"


def test_commands_never_write_what_they_read(tmp_path):
    """A file that is called as the command calls what it writes would be empty before it is read."""
    path = tmp_path / "commas.csv"
    path.write_text("nr;ts;lon;lat;text\n1;2026-01-01;8.5;47.3;fire\n")
    assert proposal(path) == "--objects more-commas.csv --columns id=nr (so 1 of the first 1 records can be used)"
    assert "> more-commas.csv" in separator_remedy(str(path), ";")


@pytest.mark.parametrize(("day", "clock"), [("date", "time"), ("Event Date", "event_time"), ("day_reported", "at")])
def test_a_date_and_a_time_of_day_are_put_together(tmp_path, day, clock):
    """A column called time is none of times where it has no days."""
    path = tmp_path / "o.csv"
    rows = [f"{n},2026-03-{n + 10},0{n}:30,8.5,47.3,fire" for n in range(8)]
    path.write_text("\n".join([f"id,{day},{clock},lon,lat,text", *rows, ""]))
    assert proposal(path) == f"--columns {shlex.quote(f'ts={day}+{clock}')} (so 8 of the first 8 records can be used)"


@pytest.mark.parametrize(
    ("days", "doubt"),
    [
        (("03/04", "03/05"), "; if '03/04/2026 08:00' is of 2026-04-03, time_format=%d/%m/%Y %H:%M"),
        (("03/03", "03/04"), "; if '03/04/2026 08:00' is of 2026-04-03, time_format=%d/%m/%Y %H:%M"),
        (("03/04", "03/13"), ""),
        (("03/12", "04/01"), ""),
        (("03/03", "04/04"), ""),
    ],
)
def test_dates_that_may_be_day_first_are_said_to_be(tmp_path, days, doubt):
    """A proposal is no guess: where neither a day nor the order tells days from months, both readings are named."""
    path = tmp_path / "o.csv"
    rows = [f"{n},{days[n // 5]}/2026 08:0{n % 5},8.5,47.3,fire" for n in range(10)]
    path.write_text("\n".join(["id,ts,lon,lat,text", *rows, ""]))
    assert proposal(path) == (
        f"--set 'spout.objects.time_format=%m/%d/%Y %H:%M' (so 10 of the first 10 records can be used{doubt})"
    )


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            {"_id": "t{n}", "created_at": "{t}", "geo": {"lat": 34.0, "lon": -118.2}, "name": "Bob", "msg": {"body": "Fire"}},
            "--columns lon=geo.lon,lat=geo.lat,id=_id,text=msg.body",
        ),
        (
            {"type": "Feature", "geometry": {"coordinates": [-118.2, 34.0]}, "properties": {"time": "{t}", "title": "Fire"}},
            "--columns ts=properties.time,lon=geometry.coordinates.0,lat=geometry.coordinates.1,text=properties.title "
            "--set spout.objects.id=row",
        ),
        ({"id": "{n}", "lon": 1, "lat": 2, "text": "Fire"}, "--set spout.objects.ts=row"),
    ],
)  # fmt: skip
def test_fields_are_found_deep_in_records(tmp_path, record, expected):
    """Paths into JSON, features, and records without identifiers or times."""
    path = tmp_path / "records.jsonl"
    text = json.dumps(record)
    path.write_text(
        "".join(text.replace("{n}", str(n)).replace("{t}", f"2026-03-01T08:00:{n}Z") + "\n" for n in range(10, 30))
    )
    assert proposal(path) == f"{expected} (so 20 of the first 20 records can be used)"


@pytest.mark.parametrize("slip", ["", "?", "NaN", "999"])
def test_some_places_that_are_none_hide_no_columns(tmp_path, slip):
    """One missing or wrong coordinate among many does not keep a column from being found; a column of slips is none."""
    rows = [f"{n},{NOON + n}000,{slip if n == 3 else 8.5},47.3,fire" for n in range(40)]
    path = tmp_path / "places.csv"
    path.write_text("\n".join(["id,ts,east,north,text", *rows, ""]))
    assert proposal(path) == "--columns lon=east,lat=north (so 39 of the first 40 records can be used)"
    path.write_text("\n".join(["id,ts,east,north,text", *(row.replace("8.5", slip) for row in rows), ""]))
    assert proposal(path) is None


def test_objects_without_words_are_told_which_column_may_have_them(tmp_path):
    """Records of JSON may do without words; where nothing matched, lists of words under another name are pointed at."""
    path = tmp_path / "tags.jsonl"
    record = {"id": 1, "ts": NOON, "lon": 8.5, "lat": 47.3, "tags": ["fire"]}
    path.write_text(f"{json.dumps(record)}\n" * 3)
    said = "none of the first 3 objects has a text or keywords"
    assert wordless([path], ObjectForm()) == f"{said}; try --columns keywords=tags"
    assert wordless([path], ObjectForm(), in_python=True) == f"{said}; try columns={{'keywords': 'tags'}}"
    assert wordless([path], ObjectForm(columns={"keywords": ("tags",)})) is None
    path.write_text(json.dumps({**record, "tags": 7}) + "\n")
    assert wordless([path], ObjectForm()) == said.replace("3 objects", "1 objects")


def test_other_times_are_no_texts(tmp_path):
    """Where all columns of words are read as one, dates with words in them are not among them."""
    path = tmp_path / "reports.csv"
    rows = [f"{n},03/{n}/2026 08:00 AM,03/{n}/2026 09:00 AM,8.5,47.3,kind {n % 2}" for n in range(10, 28)]
    path.write_text("\n".join(["key,created date,closed date,lon,lat,sort", *rows, ""]))
    assert "id=key,text=sort'" in proposal(path)


def test_times_without_values_are_numbered(tmp_path):
    """A column of times that is empty throughout is none."""
    path = tmp_path / "places.csv"
    path.write_text("id,ts,lon,lat,text\n" + "".join(f"{n},,1,2,taco bell\n" for n in range(5)))
    assert proposal(path) == "--set spout.objects.ts=row (so 5 of the first 5 records can be used)"


def test_nothing_is_proposed_that_does_not_help(tmp_path):
    """A file that is read as it is, one in which nothing is recognised, and one that is followed get no proposal."""
    fine, strange = tmp_path / "fine.csv", tmp_path / "strange.csv"
    fine.write_text(f"id,ts,lon,lat,text\n1,{datetime(2026, 1, 1, tzinfo=UTC):%FT%TZ},1,2,fire\n")
    strange.write_text("alpha,beta\n1,2\n")
    assert proposal(fine) is None
    assert proposal(strange) is None
    late = tmp_path / "late.csv"
    late.write_text("id,ts,lon,lat,text\n1,2026-01-02,1,2,fire\n2,2026-01-01,1,2,fire\n")
    assert proposal(late) == "--set spout.objects.lateness_ms=86400000 (so 2 of the first 2 records can be used)"
    assert proposal(late, ObjectForm(lateness_ms=86_400_000)) is None


def test_names_with_commas_are_proposed_and_read_again(tmp_path):
    """A comma ends a name only where a field follows; a plus would divide it, so such a name is not proposed."""
    path = tmp_path / "odd.csv"
    path.write_text('"id, or not",time,lon,lat,Title,"Details, long"\n7,2026-01-01,1,2,Fire,a fire in the harbour\n')
    said = "id=id, or not,text=Title+Details, long"
    assert proposal(path) == f"--columns '{said}' (so 1 of the first 1 records can be used)"
    assert columns_in(said) == {"id": ["id, or not"], "text": ["Title", "Details, long"]}
    path.write_text('"id + more",time,lon,lat,text\n7,2026-01-01,1,2,fire\n')
    assert proposal(path) is None


@pytest.mark.parametrize(
    ("written", "pattern"),
    [
        ("{d:02}/{m:02}/2026 05:00:00 PM", "%m/%d/%Y %I:%M:%S %p"),
        ("{m:02}/{d:02}/2026 17:00", "%m/%d/%Y %H:%M"),
        ("{d}.{m}.2026", "%d.%m.%Y"),
        ("Wed, {d:02} Apr 2026 17:00:00 +0200", "%a, %d %b %Y %H:%M:%S %z"),
    ],
)
def test_patterns_of_times_are_proposed(tmp_path, written, pattern):
    """Of several that fit, the one that puts times in order; of two that both do, as day and month may, the other is named."""
    path = tmp_path / "dated.csv"
    days = [(4, day) for day in range(1, 13)]
    if pattern.startswith("%m/%d/%Y %I"):
        days = [(day, month) for month, day in days]  # in order only if the first number is the month
    rows = [f'{n},"{written.format(m=m, d=d)}",1,2,fire' for n, (m, d) in enumerate(days)]
    path.write_text("\n".join(["id,date,lon,lat,text", *rows, ""]))
    setting = shlex.quote(f"spout.objects.time_format={pattern}")
    said = proposal(path)
    assert said.startswith(f"--columns ts=date --set {setting} (so 12 of the first 12 records can be used")
    assert ("; if '" in said) == ("/" in pattern)


def test_longitude_and_latitude_are_exchanged_where_that_helps(tmp_path):
    """Calgary is at 114 W: as a latitude that is nowhere."""
    path = tmp_path / "calgary.csv"
    path.write_text("id,ts,lon,lat,text\n" + "".join(f"{n},2026-01-0{n},51.0,-114.1,fire\n" for n in range(1, 9)))
    assert proposal(path) == "--columns lon=lat,lat=lon (so 8 of the first 8 records can be used)"
    assert proposal(path, in_python=True).startswith("columns={'lon': 'lat', 'lat': 'lon'} (so 8")


def test_tables_get_proposals_too(tmp_path):
    """Types of Parquet say what a column is, its name what it is for; lists of words are keywords."""
    when = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 9)]
    table = {"incident": [f"i{n}" for n in range(8)], "start": when, "lat": [51.0] * 8, "lng": [-114.1] * 8}
    pq.write_table(pa.table({**table, "tags": [["fire", "smoke"]] * 8}), tmp_path / "o.parquet")
    expected = "--columns ts=start,id=incident,keywords=tags (so 8 of the first 8 records can be used)"
    assert proposal(tmp_path / "o.parquet") == expected
    table["number"] = table.pop("incident")
    pq.write_table(pa.table({**table, "remarks": ["a fire"] * 8}), tmp_path / "o.parquet")
    assert proposal(tmp_path / "o.parquet", in_python=True).startswith(
        "columns={'ts': 'start', 'id': 'number', 'text': 'remarks'} (so"
    )


def test_lateness_has_room_and_files_from_the_newest_on_are_put_in_order(tmp_path):
    """The rest of a file may be later than its head; where the newest come first, everything is."""
    path = tmp_path / "late.csv"
    moments = [datetime(2026, 1, 1, hour % 24, tzinfo=UTC) for hour in (5, 3, 6, 7, 8, 9, 12)]
    path.write_text("id,ts,lon,lat,text\n" + "".join(f"{n},{t:%FT%TZ},1,2,fire\n" for n, t in enumerate(moments)))
    assert proposal(path).startswith("--set spout.objects.lateness_ms=21600000 (so 7 of")
    newest = sorted(moments, reverse=True)
    path.write_text("id,ts,lon,lat,text\n" + "".join(f"{n},{t:%FT%TZ},1,2,fire\n" for n, t in enumerate(newest)))
    assert proposal(path).startswith("--set spout.objects.lateness_ms=315360000000 (so 7 of")


def test_declared_columns_that_no_record_has_are_told(tmp_path):
    """In JSON lines a misspelt path is silence, so it is said, with the nearest that there is."""
    path = tmp_path / "o.jsonl"
    path.write_text('{"id": 1, "properties": {"text": "fire"}}\n{"id": 2}\n')
    assert missing_columns([path], ObjectForm({"text": ("properties.text",)})) is None
    assert missing_columns([path], ObjectForm({"text": ("properties.txt",)})) == (
        f"none of the first 2 records of {path} has 'properties.txt', which is declared to be text "
        "(did you mean 'properties.text'?)"
    )


def test_times_and_texts_are_found_under_names_that_say_nothing(tmp_path):
    """Values that can be nothing but times are, in any unit and form; without likely prose, all texts that vary are read."""
    path = tmp_path / "calls.csv"
    rows = [f'c{n},11/0{n}/2025 05:0{n}:00 PM,fire {n},"Mission St, {n}",1,2,open' for n in range(1, 9)]
    path.write_text("\n".join(["Call Number,Received DtTm,Kind,Street,lon,lat,Lot", *rows, ""]))
    assert proposal(path) == (
        "--columns 'ts=Received DtTm,id=Call Number,text=Kind+Street' "
        "--set 'spout.objects.time_format=%m/%d/%Y %I:%M:%S %p' (so 8 of the first 8 records can be used; "
        "if '11/01/2025 05:01:00 PM' is of 2025-01-11, time_format=%d/%m/%Y %I:%M:%S %p)"
    )
    path.write_text("Call Number,q,Kind,lon,lat\n" + "".join(f"c{n},{NOON + n},fire,1,2\n" for n in range(8)))
    assert proposal(path) == (
        "--columns 'ts=q,id=Call Number,text=Kind' --set spout.objects.time_unit=s (so 8 of the first 8 records can be used)"
    )


def test_order_from_the_newest_on_tells_day_from_month(tmp_path):
    """With the month first all days follow each other; with the day first there would be a jump."""
    path = tmp_path / "newest.csv"
    days = ["02/04/2026", "02/03/2026", "02/02/2026", "02/01/2026", "01/12/2026", "01/11/2026"]
    path.write_text("id,date,lon,lat,text\n" + "".join(f"{n},{day},1,2,fire\n" for n, day in enumerate(days)))
    assert "time_format=%m/%d/%Y --set" in str(proposal(path))


def test_first_time_may_be_none(tmp_path):
    """The first that can be read tells the unit."""
    path = tmp_path / "gap.csv"
    rows = ["0,unknown,1,2,fire", *(f"{n},{NOON + n},1,2,fire" for n in range(1, 9))]
    path.write_text("\n".join(["id,time,lon,lat,Kind", *rows, ""]))
    assert (
        proposal(path)
        == "--columns text=Kind --set spout.objects.time_unit=s (so 8 of the first 9 records can be used)"
    )
