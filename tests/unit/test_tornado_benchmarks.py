"""The benchmarks of whole topologies measure what they say."""

import dataclasses
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import adaptivity, hotspot_stream, tornado, tornado_stream
from benchmarks.hotspot_stream import Hotspot
from benchmarks.observed import Observed
from benchmarks.report import Options
from benchmarks.tornado_stream import MemorySpout, Workload, objects_of, queries_of
from operators import Epoch
from streams.errors import InputError, RunError


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
    found = adaptivity.borne(Observed(summary, cost, moved, busy, np.full((26, 1), 4.0), busy, np.zeros(26)), hotspot)
    assert found.efficiency == pytest.approx((2 * 40 + 2 * 20) / (2 * (30 + 30 + 10 + 10)))
    assert found.moving_cost == pytest.approx(45 / 30)
    assert found.moving_busy == found.settled_busy == pytest.approx(2.5)
    assert found.deciding_ms == 4.0


TINY = Workload(queries=600, objects=2_000)


@pytest.fixture
def tiny(monkeypatch):
    """Few objects, and the local runtime in the place of Ray."""
    measure = tornado.measure
    monkeypatch.setattr(tornado, "BATCH", 200)
    monkeypatch.setattr(tornado, "_OwnRay", nullcontext)
    monkeypatch.setattr(tornado, "measure", lambda setup, work, _, s: measure(setup, _little(work), "local", s / 50))


def _little(workload):
    return dataclasses.replace(workload, objects=TINY.objects)


def test_tornado_measures_every_alternative(tiny):
    """Each alternative has a row on both runtimes, each goal its figure, and no result is missing in any run."""
    report = tornado.run(Options(queries=TINY.queries))
    named = [(row[0], row[1], row[2]) for row in report.rows]
    assert [("6ab", name, on) for name in tornado.ALTERNATIVES for on in ("local", "ray")] == named[:12]
    assert {row[0] for row in report.rows} == {"6ab", "6c", "8a", "8b", "8c", "10"}
    assert len(set(named)) == len(named)
    assert {goal.figure for goal in report.goals} <= set(report.figures)
    sent = {row[1]: float(row[-1]) for row in report.rows}
    assert sent["rare_0_summaries"] == 0.0
    assert sent["rare_0"] == sent["rare_100"] == 1.0
    assert sent["text"] > 1.0


def test_tornado_notices_what_is_missing(tiny, monkeypatch):
    """A run with fewer results than one index finds is refused."""
    monkeypatch.setattr(tornado, "matches_by_batch", lambda workload, batch: np.full(10, 10**6))
    with pytest.raises(RunError, match="but one index over all queries finds"):
        tornado.run(Options(quick=True, queries=TINY.queries))


def test_stream_of_tornado_has_the_skew_that_it_claims():
    """About 79% of places lie in one quarter, of objects and of queries; regions there have half the side."""
    work = Workload(queries=20_000, objects=20_000)
    objects, queries = objects_of(work), queries_of(work)
    x, y = queries.shape[:, [0, 2]].mean(1), queries.shape[:, [1, 3]].mean(1)
    for east, north in ((objects.x, objects.y), (x, y)):
        assert 0.74 < ((east > 0.5) & (north > 0.5)).mean() < 0.85
    sides = queries.shape[:, 2] - queries.shape[:, 0]
    assert set(np.round(sides, 9)) == {work.side, work.side / 2}


@pytest.mark.parametrize("keywords", [0, 1, 3, 7])
@pytest.mark.parametrize("percentile", [0, 10, 100])
def test_queries_of_tornado_have_the_keywords_that_were_asked_for(keywords, percentile):
    """So many, distinct and ascending, and as rare as wanted."""
    queries = queries_of(Workload(queries=2_000, objects=1, keywords=keywords, percentile=percentile))
    counts = np.diff(queries.kw_off)
    assert set(counts.tolist()) == ({1, 2, 3} if keywords == 0 else {keywords})
    inside = np.ones(len(queries.kw) - 1, np.bool_)
    inside[queries.kw_off[1:-1] - 1] = False
    assert (np.diff(queries.kw)[inside] > 0).all()
    words = tornado_stream.VOCABULARY
    least = {0: words, 10: words * 9 // 10, 100: 0}[percentile]
    assert queries.kw.min() >= least
    assert (queries.kw.max() >= words) == (percentile == 0)


def test_spout_measures_at_least_an_epoch_however_slow_the_machine_is():
    """Time that is up before the first measured epoch is complete gives no rate at all."""
    spout = MemorySpout(TINY, batch=200, seconds=0.0, warm_up=1)
    counted = Counter()
    spout.open(SimpleNamespace(count=lambda name, much: counted.update({name: much})))
    at = spout._registering + 1
    spout.ack(at)
    assert not spout._is_over(Epoch(at + 1))
    spout.ack(at + 1)
    assert spout._is_over(Epoch(at + 2))
    assert counted["measured_objects"] == 200
    assert counted["measured_s"] > 0
