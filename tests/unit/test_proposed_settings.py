"""What a message proposes to declare of a file that nobody has described: all of it at once, and only what helps."""

import json
from datetime import UTC, datetime

import pytest

from streams.files.file_blocks import DEFAULT_LIMITS
from streams.files.object_form import ObjectForm
from streams.geometry import Rect
from topology.proposed_settings import proposed

EARTH = Rect(-180, -90, 180, 90)
NOON = 1_772_000_000


def proposal(path, form=None):
    return proposed("objects", [path], EARTH, DEFAULT_LIMITS, form or ObjectForm())


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


def test_names_that_no_option_can_hold_are_not_proposed(tmp_path):
    """A comma in the name of a column would be read as the end of it."""
    path = tmp_path / "odd.csv"
    path.write_text('"id, or not",time,lon,lat,text\n7,2026-01-01,1,2,fire\n')
    assert proposal(path) is None
