"""Pictures of plans and of summaries, without Spark."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partitioners.builders.registry import build_plan
from partitioners.costs.statistics import ObjectSample, QuerySample, Statistics
from partitioners.grids.fine_grid import FineGrid
from partitioners.plans.broadcast import HashPlan
from pipeline.plots import object_heat, plan_areas, plot_plan, plot_summary
from streams.errors import DeclarationError, InputError
from streams.files.prepared import Manifest, ObjectFile, save_manifest
from streams.geometry import Rect

SPACE = Rect(0.0, 0.0, 2.0, 1.0)
PNG = b"\x89PNG\r\n\x1a\n"


def statistics(rows=400):
    rng = np.random.default_rng(2)
    kw = np.sort(rng.choice(20, (rows, 3)), axis=1)
    off = np.arange(0, 3 * rows + 1, 3, dtype=np.int32)
    x, y = rng.uniform(0, 2, rows), rng.random(rows)
    objects = ObjectSample(x, y, off, kw.ravel().astype(np.int64), 1000.0)
    queries = QuerySample(
        number=np.arange(rows), type=np.zeros(rows, np.uint8), continuous=np.zeros(rows, np.bool_),
        match_any=np.zeros(rows, np.bool_), min_x=x * 0, min_y=y * 0, max_x=x * 0 + 2, max_y=y * 0 + 1, at_x=x, at_y=y,
        k=np.ones(rows, np.int32), alpha=np.zeros(rows), life_ms=np.full(rows, 10.0), kw_off=off, kw=objects.kw,
    )  # fmt: skip
    return Statistics(FineGrid(SPACE, 20, 10), objects, queries)


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data" / "objects").mkdir(parents=True)
    table = pa.table({"x": [0.1, 0.1, 1.9, 2.0], "y": [0.1, 0.2, 0.9, 1.0]})
    pq.write_table(table, tmp_path / "data" / "objects" / "part-00000.parquet")
    files = (ObjectFile("objects/part-00000.parquet", 4),)
    save_manifest(tmp_path / "data", Manifest(4, 0, SPACE, 0, 1, 0, "int64", False, None, {}, files))
    return tmp_path / "data"


@pytest.mark.parametrize(
    "name", ["uniform", "kd", "text", "hash", "keyword-first", "qt-tree", "text-tree", "kdt-tree", "dkm-sks", "kop"]
)
def test_plan_areas_cover_the_space_and_every_worker(name, data, tmp_path):
    """The areas of a plan lie in its space and name all its workers, and the picture is drawn."""
    plan = build_plan(name, statistics(), 4)
    areas = plan_areas(plan)
    for area in areas:
        assert -1e-9 <= area.box[0] <= area.box[2] <= 2 + 1e-9
        assert -1e-9 <= area.box[1] <= area.box[3] <= 1 + 1e-9
    workers = {worker for area in areas for worker in area.workers}
    assert workers == set(range(4)) or name == "dkm-sks"
    if name in ("uniform", "kd", "qt-tree", "kdt-tree", "hash"):
        sizes = sum((a.box[2] - a.box[0]) * (a.box[3] - a.box[1]) for a in areas)
        assert sizes == pytest.approx(2.0)
    if name in ("text", "text-tree"):
        assert all(area.textual for area in areas)
    plot_plan(plan, data, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(PNG)


def test_object_heat_counts_objects_by_cell(data):
    """The heat map has each object in its cell, those on the border of the space too."""
    heat = object_heat(data, SPACE, side=2)
    assert heat.tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_summary_is_drawn_with_and_without_a_timeline(tmp_path):
    """A run is drawn over time where the summary tells, by totals where it does not."""
    told = {
        "objects": 10, "queries": 2, "results": 3, "objects_per_s": 5.0, "imbalance": {"start": 2.0, "end": 1.1},
        "evaluators": [{"task": 0, "cost": 3}, {"task": 1, "cost": 4}], "latency_ms": {"p50": 1.0, "max": 4.0},
        "rebalances": [],
    }  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps(told))
    plot_summary(tmp_path / "a.json", tmp_path / "a.png")
    entries = [{"seconds": n, "objects": n * 5, "costs": [n, 1]} for n in range(4)]
    plot_summary(told | {"timeline": entries}, tmp_path / "b.png")
    first, second = (tmp_path / "a.png").read_bytes(), (tmp_path / "b.png").read_bytes()
    assert first.startswith(PNG)
    assert second.startswith(PNG)
    assert first != second
    entries = [entry | {"epoch": n, "epochs": 1} for n, entry in enumerate(entries)]
    changed = {"rebalances": [{"epoch": 2, "kind": "split/merge", "from": 0, "to": 1, "queries_moved": 5, "ms": 1.0}]}
    plot_summary(told | {"timeline": entries} | changed, tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(PNG)


def test_pictures_refuse_what_they_cannot_draw(tmp_path, data):
    """A name that is no picture, a folder that is not there, a file that is no summary."""
    plan = HashPlan(SPACE, 2)
    with pytest.raises(DeclarationError, match="no name for a picture"):
        plot_plan(plan, data, tmp_path / "a.jpg")
    with pytest.raises(InputError, match="no folder to write"):
        plot_plan(plan, data, tmp_path / "none" / "a.png")
    with pytest.raises(InputError, match="cannot be read as a summary"):
        plot_summary(tmp_path / "absent.json", tmp_path / "a.png")
    with pytest.raises(InputError, match="has no 'objects'"):
        plot_summary({"queries": 1}, tmp_path / "a.png")
