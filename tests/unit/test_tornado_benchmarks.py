"""The benchmarks of whole topologies measure what they say."""

import dataclasses

import numpy as np
import pytest

from benchmarks import adaptivity, hotspot_stream
from benchmarks.hotspot_stream import Hotspot
from benchmarks.report import Options
from streams.errors import InputError


@pytest.fixture
def small(monkeypatch):
    """A hotspot that takes a second."""

    def little(factor=0.4, queries=3_000, **options):
        return Hotspot(factor, queries, **{"batch": 1_000, "calm": 4, "hot": 24, **options})

    monkeypatch.setattr(adaptivity, "Hotspot", little)
    monkeypatch.setattr(hotspot_stream, "BLOCK", 2_000)
    monkeypatch.setattr(adaptivity, "ADAPTIVE", dataclasses.replace(adaptivity.ADAPTIVE, evaluators=3))
    monkeypatch.setattr(adaptivity, "CENTRALISED", dataclasses.replace(adaptivity.CENTRALISED, evaluators=3))
    monkeypatch.setattr(adaptivity, "STATIC", dataclasses.replace(adaptivity.STATIC, evaluators=3))


def test_adaptivity_reports_efficiency_bytes_and_pictures(small, tmp_path):
    """Each setup has a row, each goal its figure, and the load over time is drawn."""
    report = adaptivity.run(Options(quick=True, queries=3_000, out=tmp_path))
    assert [row[:2] for row in report.rows] == [
        ["0.4", "static"], ["0.4", "adaptive"], ["0.7", "static"], ["0.7", "adaptive"],
    ]  # fmt: skip
    assert {goal.figure for goal in report.goals} <= set(report.figures)
    assert 0 < report.figures["static_efficiency_0.4"] <= 1
    assert report.figures["centralised_over_distributed_bytes"] > 50
    assert len(list(tmp_path.glob("*.png"))) == 4
    assert report.as_json()["name"] == "adaptivity"


def test_adaptivity_refuses_a_folder_that_is_not_there(tmp_path):
    """Nothing is measured before that is known."""
    with pytest.raises(InputError, match="no such folder"):
        adaptivity.run(Options(quick=True, out=tmp_path / "none"))


def test_borne_is_what_the_definitions_say():
    """Efficiency counts epochs behind the settling only; the longest moving epoch is held against those before the switch."""
    hotspot = Hotspot(queries=0, calm=2, hot=24)
    cost = np.full((26, 2), 10.0)
    cost[:24] = [30, 10]
    moved, busy = np.zeros((26, 2)), np.full((26, 3), 2.0)
    moved[7] = [15, 15]
    busy[7, 2] = 5.0
    summary = {"rebalances": [{"epoch": 9}]}
    found = adaptivity.borne(hotspot_stream.Observed(summary, cost, moved, busy, np.full((26, 1), 4.0)), hotspot)
    assert found.efficiency == pytest.approx((2 * 40 + 2 * 20) / (2 * (30 + 30 + 10 + 10)))
    assert found.moving_cost == pytest.approx(45 / 30)
    assert found.moving_busy == pytest.approx(2.5)
    assert found.deciding_ms == 4.0
