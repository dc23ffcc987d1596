"""The benchmark of indexes of the nearest measures all of them on the same lists and objects."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from benchmarks import BENCHMARKS, HAVE_WORKLOADS, knn_index, knn_workloads, object_index, object_workloads
from benchmarks.range_questions import WORKLOADS
from benchmarks.report import Options
from benchmarks.synthetic_stream import drawn_subscriptions, synthetic_objects
from operators.indexes.knn.registry import KNN_INDEXES
from operators.indexes.knn.standing_knn import StandingKnn
from operators.indexes.objects import make_object_index
from streams.batches import TYPE_KNN
from streams.errors import DeclarationError, InputError, RunError
from topology.cli.bench import bench

TINY = knn_index.Sizes(subscriptions=300, seen=400, objects=250, turns=2, seconds=0.01)
EARTHQUAKES = Path(__file__).parents[2] / "examples" / "data" / "earthquakes_week.csv.gz"


@pytest.fixture
def tiny(monkeypatch):
    """Few of everything."""
    monkeypatch.setattr(knn_index, "FULL", TINY)
    monkeypatch.setattr(knn_index, "QUICK", dataclasses.replace(TINY, seconds=1.0))
    monkeypatch.setattr(knn_index, "BATCH", 50)
    monkeypatch.setattr(knn_index, "BLOCK", 1000)
    monkeypatch.setattr(knn_index, "HANDED", 70)


def test_every_index_is_measured(tiny):
    """Each has a row, each goal its figure, and growth is that of the pyramid."""
    assert set(knn_index.NAMES) == set(KNN_INDEXES) - {"brute"}
    report = knn_index.run(Options(seed=2))
    assert [row[0] for row in report.rows] == [*(f"{name}, 300" for name in knn_index.NAMES), "pyramid, 2,400"]
    assert {goal.figure for goal in report.goals} <= set(report.figures)
    assert report.figures["growth_of_time"] > 0
    assert report.figures["growth_of_time_before"] > 0
    assert all(value > 0 for value in report.figures.values())
    assert report.as_json()["seed"] == 2


def test_indexes_are_handed_the_lists_that_were_seen(tiny, monkeypatch):
    """Whoever is measured has the balls of all objects seen before, and the same number of objects costs the same changes."""
    bounds, handed = [], []
    take, hand_over = knn_index._Turns.take, knn_index._hand_over

    def taken(turns, seconds, share):
        if not turns.changes:
            bounds.append(turns.index.bounds(turns.index.numbers()))
        take(turns, seconds, share)

    monkeypatch.setattr(knn_index._Turns, "take", taken)
    monkeypatch.setattr(knn_index, "_hand_over", lambda giver, taker: handed.append(1) or hand_over(giver, taker))
    report = knn_index.run(Options(quick=True, queries=200))
    assert len(handed) == 4
    assert len(bounds) == 5
    assert all(np.array_equal(bounds[0], other, equal_nan=True) for other in bounds)
    assert 0 < np.isfinite(bounds[0]).sum() < 200
    assert len({row[3] for row in report.rows}) == 1
    assert report.goals == []


def test_disagreement_is_noticed(tiny, monkeypatch):
    """An index that loses a change is not measured, but reported."""
    take = StandingKnn.take

    def forgetful(index, objects):
        changed = take(index, objects)
        return changed[:-1] if type(index._structure).__name__ == "SeaCnn" else changed

    monkeypatch.setattr(StandingKnn, "take", forgetful)
    with pytest.raises(RunError, match=r"batch 0 changed \d+ lists of 'sea-cnn', but \d+ of another index"):
        knn_index.run(Options(quick=True))


def test_rows_of_a_file_are_seen_first_and_measured_with_later(tiny, tmp_path):
    """Nine tenths come before; a file of a few rows is refused."""
    report = knn_index.run(Options(quick=True, data=EARTHQUAKES))
    assert report.data.startswith("earthquakes_week.csv.gz, 300 subscriptions, 1,5")
    assert len(report.rows) == 5
    short = tmp_path / "short.csv"
    short.write_text("id,ts,lon,lat,text\n1,0,0.5,0.5,rain\n2,0,1.5,0.7,snow\n")
    with pytest.raises(InputError, match="has 2 rows; expected at least 10"):
        knn_index.run(Options(quick=True, data=short))


def test_subscriptions_are_drawn_as_said():
    """At places of objects, for any of 1 to 3 of their keywords, k from 1 to 10."""
    objects = synthetic_objects(2000, 4)
    drawn = drawn_subscriptions(objects, 2000, 4)
    assert (drawn.shape[:, 0] == objects.x).all()
    assert (drawn.shape[:, 1] == objects.y).all()
    assert set(np.diff(drawn.kw_off).tolist()) == {1, 2, 3}
    assert set(drawn.k.tolist()) == set(range(1, 11))
    assert drawn.match_any.all()
    assert (drawn.type == TYPE_KNN).all()
    for row in range(0, 2000, 97):
        mine = drawn.kw[drawn.kw_off[row] : drawn.kw_off[row + 1]]
        assert np.isin(mine, objects.kw[objects.kw_off[row] : objects.kw_off[row + 1]]).all()


def test_every_workload_is_measured(monkeypatch):
    """Each sort of question has a row and its ratios."""
    monkeypatch.setattr(knn_workloads, "QUICK", TINY)
    report = knn_index.run(Options(quick=True, workloads=True, data=EARTHQUAKES))
    assert [row[0] for row in report.rows] == list(knn_workloads.QUESTIONS)
    assert all(value > 0 for value in report.figures.values())
    assert report.figures["least_over_best"] == min(
        value for key, value in report.figures.items() if key.endswith("_over_best") and key != "least_over_best"
    )


def test_every_workload_is_asked_of_kept_objects(monkeypatch):
    """Each sort of question has a row and its ratios, and indexes that disagree are noticed."""
    monkeypatch.setattr(object_workloads, "QUICK", (600, 10))
    report = object_index.run(Options(quick=True, workloads=True))
    assert [row[0] for row in report.rows] == list(WORKLOADS)
    assert all(value > 0 for value in report.figures.values())
    monkeypatch.setattr(object_workloads, "make_object_index", lambda name, *rest: _wrong(name, *rest))
    with pytest.raises(RunError, match="disagree about the answers"):
        object_index.run(Options(quick=True, workloads=True))


def _wrong(name, *rest):
    """Return an index which, if it is the R-tree, misses the first batch."""
    index = make_object_index(name, *rest)
    if name == "r-tree":
        add, index.add = index.add, lambda batch: add(batch.slice(1, len(batch)))
    return index


def test_workloads_are_refused_where_there_is_no_list_of_them():
    """A benchmark that would ignore `--workloads` says so, and names those that would not."""
    with pytest.raises(DeclarationError, match=r"bench range-index has no list of workloads; .* knn-index"):
        bench("range-index", workloads=True)
    for name, (module, _) in BENCHMARKS.items():
        source = (Path(__file__).parents[2] / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        assert ("options.workloads" in source) == (name in HAVE_WORKLOADS), name
