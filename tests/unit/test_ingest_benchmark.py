"""The benchmark of files measures what it says, on any file of objects."""

from pathlib import Path

import pytest

from benchmarks import ingest
from benchmarks.report import Options
from streams.errors import InputError

SMALL = ingest._Sizes(objects=300, queries=200, matches=100, baseline=50, passes=1)
EARTHQUAKES = Path(__file__).parents[2] / "examples" / "data" / "earthquakes_week.csv.gz"


@pytest.mark.parametrize("data", [None, EARTHQUAKES], ids=["synthetic", "earthquakes"])
def test_ingest_benchmark_reports_every_format(monkeypatch, data):
    """Each format has its rate, the ratio to plain Python, and a line in the table; each goal has its figure."""
    monkeypatch.setattr(ingest, "QUICK", SMALL)
    report = ingest.run(Options(quick=True, seed=3, data=data))
    assert [row[0] for row in report.rows] == [
        "CSV, text", "JSONL, text", "Parquet, text", "Parquet, keyword ids", "CSV, up to 200 records late",
        "CSV, half of it rejected", "queries, JSONL", "matches to JSON lines",
    ]  # fmt: skip
    for name in ("csv_objects", "jsonl_objects", "parquet_objects", "parquet_ids_objects", "queries", "match_lines"):
        assert report.figures[f"{name}_per_s"] > 0
    assert {goal.figure for goal in report.goals} <= set(report.figures)
    assert "0 were rejected" in report.notes[0]
    assert report.as_json()["seed"] == 3


def test_ingest_benchmark_needs_the_columns_of_objects(tmp_path):
    """A file without text is refused with the column that it lacks."""
    path = tmp_path / "o.csv"
    path.write_text("id,ts,lon,lat\n1,0,0,0\n")
    with pytest.raises(InputError, match="has no column text; this benchmark needs id, ts, lon, lat and text"):
        ingest.run(Options(quick=True, data=path))
