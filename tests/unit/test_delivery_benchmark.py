"""The benchmark of results measures what it says, with every sink."""

from pathlib import Path

import pytest

from benchmarks import delivery
from benchmarks.report import Options
from streams.errors import RunError
from topology.cli.bench import bench

EARTHQUAKES = Path(__file__).parents[2] / "examples" / "data" / "earthquakes_week.csv.gz"


@pytest.fixture
def short(monkeypatch):
    """Runs of a moment."""
    measure = delivery.measure
    monkeypatch.setattr(delivery, "BATCH", 500)
    monkeypatch.setattr(delivery, "measure", lambda work, sink, s, folder: measure(work, sink, s / 50, folder))


@pytest.mark.parametrize("data", [None, EARTHQUAKES], ids=["synthetic", "earthquakes"])
def test_delivery_benchmark_reports_every_sink(short, data):
    """Each sink has its rates and a line in the table, all see as many results an object, and none is missing."""
    report = delivery.run(Options(quick=True, queries=2_000, data=data))
    assert [row[0] for row in report.rows] == ["count", "jsonl", "parquet"]
    for sink in ("count", "jsonl", "parquet"):
        assert report.figures[f"{sink}_results_per_s"] == pytest.approx(
            report.figures[f"{sink}_objects_per_s"] * float(report.rows[0][3]), rel=0.2
        )
    assert report.figures["results_per_object"] > 0
    assert report.figures["registration_s"] != 0
    assert report.as_json()["name"] == "delivery"


def test_delivery_benchmark_notices_what_is_missing(short, monkeypatch):
    """A run with fewer results than one index finds is refused."""
    monkeypatch.setattr(delivery, "_matches_by_batch", lambda workload, batch: (10**6,) * 10)
    with pytest.raises(RunError, match=r"count: .* but one index over all queries finds"):
        delivery.run(Options(quick=True, queries=2_000))


def test_delivery_benchmark_reads_a_file_of_the_current_folder(short, monkeypatch, capsys):
    """A relative path is meant from where the command is given, not from where the topology is declared."""
    monkeypatch.chdir(EARTHQUAKES.parent)
    bench("delivery", quick=True, queries=500, data=Path(EARTHQUAKES.name))
    assert "bench delivery: earthquakes_week.csv.gz, 500 queries" in capsys.readouterr().out
