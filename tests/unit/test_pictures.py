"""Pictures of plans, of alerts and of runs, over outlines that are shipped."""

import itertools
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partitioners.builders.registry import build_plan
from partitioners.costs.statistics import ObjectSample, QuerySample, Statistics
from partitioners.grids.fine_grid import FineGrid
from partitioners.plans.broadcast import HashPlan
from reports.alert_picture import alert_figure, alerts_of, draw_alerts, read_lines
from reports.load_picture import draw_loads, load_figure
from reports.map_outlines import WORLD, looks_geographic, outlines
from reports.plan_picture import ObjectDensity, draw_plan, plan_areas, prepared_points
from reports.plotting import plot_alerts
from reports.summary_files import checked_summary, read_summary
from streams.errors import DeclarationError, InputError
from streams.files.prepared import Manifest, ObjectFile, save_manifest
from streams.geometry import Rect
from topology.toml import load_topology

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
    x0, y0, x1, y1 = areas.box.T
    assert ((x0 >= -1e-9) & (x0 <= x1) & (x1 <= 2 + 1e-9)).all()
    assert ((y0 >= -1e-9) & (y0 <= y1) & (y1 <= 1 + 1e-9)).all()
    assert set(areas.worker.tolist()) == set(range(4)) or name == "dkm-sks"
    if name in ("uniform", "kd", "qt-tree", "kdt-tree", "hash"):
        assert ((x1 - x0) * (y1 - y0)).sum() == pytest.approx(2.0)
    if name in ("text", "text-tree"):
        assert areas.textual.all()
    draw_plan(plan, prepared_points(data), tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(PNG)


def test_object_density_counts_objects_by_cell_and_by_worker(data):
    """Each object is in its cell, those on the border of the space too, and with the workers that the plan sends it to."""
    density = ObjectDensity.of(build_plan("uniform", statistics(), 4), prepared_points(data))
    assert (density.heat.sum(), density.objects, density.sent.sum()) == (4.0, 4, 4)
    assert (density.heat[25, 12], density.heat[51, 12], density.heat[-1, -1]) == (1.0, 1.0, 1.0)
    assert ObjectDensity.of(HashPlan(SPACE, 3), prepared_points(data)).sent.tolist() == [4, 4, 4]


def entry(epoch, objects, costs):
    numbers = {"epochs": 1, "seconds": epoch / 10, "peak": max(costs, default=0), "latency_ms": 1.0, "busiest_ms": 1.0}
    return {"epoch": epoch, "objects": objects, "costs": costs, **numbers}


def summary(**changes):
    told = {
        "format": 2, "objects": 30, "queries": 2, "results": 3, "objects_per_s": 5.0, "latency_ms": {"p50": 1.0, "max": 4.0},
        "imbalance": {"start": 2.0, "end": 1.1}, "evaluators": [{"task": 0, "cost": 3}, {"task": 1, "cost": 4}],
        "timeline": [entry(0, 0, []), entry(0, 10, [1, 3]), entry(1, 20, [2, 2]), entry(2, 30, [3, 1]), entry(3, 30, [0, 0])],
        "rebalances": [{"epoch": 2, "kind": "split/merge", "from": 0, "to": 1, "queries_moved": 5, "ms": 1.0, "why": "a"}],
        "hotspots": [{"kind": "condense", "from": 12, "to": 25}],
    }  # fmt: skip
    return told | changes


def test_runs_are_drawn_on_shared_axes_with_their_hotspot(tmp_path):
    """The stream is measured in objects: efficiency is that of each slice, the hotspot is where it was."""
    figure = load_figure({"one": summary(), "other": summary(rebalances=[])})
    rate, efficiency, one, other = figure.axes
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
    assert efficiency.patches[0].get_data().values.tolist() == pytest.approx([4 / 6, 1.0, 4 / 6])
    assert efficiency.patches[0].get_data().edges.tolist() == [0.0, 10.0, 20.0, 30.0]
    assert [round(patch.get_x()) for patch in rate.patches if hasattr(patch, "get_x")] == [12]
    assert "1 changes of the plan" in one.get_title("left")
    assert "changes" not in other.get_title("left")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "other"]
    draw_loads({"one": summary()}, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
    empty = summary(timeline=[entry(0, 0, [])], objects=0, evaluators=[], rebalances=[])
    draw_loads({"nothing": empty}, tmp_path / "b.png")
    assert (tmp_path / "b.png").read_bytes().startswith(PNG)


def test_alerts_are_added_up_and_drawn(tmp_path):
    """Matches count one by one; of lists the last counts; what an object is not known of is left out."""
    lines = [
        {"query": "q1", "ts": 1, "object": "a"}, {"query": "q2", "ts": 1, "object": "a"},
        {"query": "near", "ts": 1, "objects": [["a", 0.1]]}, {"query": "near", "ts": 2, "objects": [["b", 0.1], [7, 0.2]]},
        {"query": "hot", "ts": 2, "terms": [["fire", 2]]}, {"query": "then", "ts": 2, "objects": ["b"]},
    ]  # fmt: skip
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    alerts = alerts_of(read_lines(tmp_path / "r.jsonl"))
    assert (alerts.told, alerts.lines) == ({"a": 2, "b": 2, "7": 1}, 6)
    assert alerts.lists == {"near": ["b", "7"], "then": ["b"]}
    asked = {
        "q1": {"region": {"rect": [0, 0, 5, 5]}}, "q2": {"region": {"circle": [0, 0, 9000]}}, "near": {"at": [1, 1]}
    }  # fmt: skip
    draw_alerts(
        alerts, {"a": (1.0, 2.0), "b": (3.0, 3.0)}, asked, WORLD, tmp_path / "a.png", on_map=True, metric="haversine"
    )
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
    draw_alerts(alerts_of([]), {}, {}, SPACE, tmp_path / "b.png", on_map=False)
    assert (tmp_path / "b.png").read_bytes().startswith(PNG)


def test_regions_of_every_form_are_drawn_in_their_shape():
    """Rings of polygons, holes too; a degree is as high as it is on the ground, so that a circle is one."""
    ring, hole = [[0, 50], [2, 50], [1, 52], [0, 50]], [[0.5, 50.5], [1, 50.5], [1, 51, 7], [0.5, 50.5]]
    asked = {
        "polygon": {"region": {"type": "Polygon", "coordinates": [ring, hole]}},
        "several": {"region": {"type": "MultiPolygon", "coordinates": [[ring], [hole]]}},
        "short": {"region": {"polygon": [ring]}},
        "circle": {"region": {"circle": [1, 51, 9000]}},
    }
    alerts = alerts_of([{"query": name, "ts": 1, "object": "a"} for name in asked])
    figure = alert_figure(alerts, {"a": (1.0, 51.0)}, asked, WORLD, on_map=True, metric="haversine")
    axes = figure.axes[0]
    drawn = sorted(type(patch).__name__ for patch in axes.patches)
    assert drawn == ["Ellipse"] + ["Polygon"] * 5
    assert axes.get_aspect() == pytest.approx(1 / np.cos(np.radians(51)), rel=0.01)
    circle = next(patch for patch in axes.patches if type(patch).__name__ == "Ellipse")
    assert circle.height * axes.get_aspect() == pytest.approx(circle.width, rel=0.01)
    plane = alert_figure(alerts, {"a": (1.0, 51.0)}, asked, Rect(0, 0, 100, 100), on_map=False)
    assert plane.axes[0].get_aspect() == 1.0


@pytest.mark.parametrize(
    "region",
    [
        {"rect": [-1.0, -1.0, 2.0, 2.0]},
        {"circle": [0.5, 0.5, 1.5]},
        {"polygon": [[[-1, -1], [2, -1], [2, 2], [-1, 2], [-1, -1]], [[0.4, 0.4], [0.6, 0.4], [0.6, 0.6], [0.4, 0.4]]]},
    ],
)
def test_borders_of_regions_are_in_the_picture(region):
    """A region wider than where its results are is shown whole; one beside which they would be a dot is not."""
    places = {"a": (0.0, 0.0), "b": (1.0, 1.0)}
    alerts = alerts_of([{"query": "q", "ts": 1, "object": name} for name in places])
    space = Rect(-1000.0, -1000.0, 1000.0, 1000.0)
    axes = alert_figure(alerts, places, {"q": {"region": region}}, space, on_map=False).axes[0]
    for low, high in (axes.get_xlim(), axes.get_ylim()):
        assert -2 < low < -1
        assert 2 < high < 3
    wide = {"q": {"region": {"rect": [-900, -900, 900, 900]}}}
    assert alert_figure(alerts, places, wide, space, on_map=False).axes[0].get_xlim()[1] < 2


@pytest.mark.parametrize("high", [0.1, 0.4, 0.8, 2.0])
def test_title_and_legend_of_alerts_are_in_the_picture_and_apart(high):
    """However flat the picture is, nothing is cut off at its edges, and the legend does not lie upon the name of the axis."""
    places = {"a": (0.0, 0.0), "b": (1.0, high)}
    alerts = alerts_of([{"query": "q", "ts": 1, "object": name} for name in places])
    figure = alert_figure(alerts, places, {"q": {"at": [0, 0]}}, Rect(-9, -9, 9, 9), on_map=False)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_title("left") == "2 results for 1 question"
    assert axes.get_tightbbox().y1 <= figure.bbox.y1
    legend, named = figure.legends[0].get_window_extent(), axes.xaxis.label.get_window_extent()
    assert figure.bbox.y0 <= legend.y0
    assert legend.y1 <= named.y0 + 1


@pytest.mark.parametrize(("wide", "on_map"), [(0.1, True), (0.0, False), (0.01, True)])
def test_numbers_below_narrow_pictures_do_not_overlap(wide, on_map):
    """Of what lies in a column, such as a road to the north, what is beside it is shown too, and few numbers below it."""
    places = {f"{n}": (-114.0 + wide * n / 9, 50.0 + n / 9) for n in range(10)}
    alerts = alerts_of([{"query": "q", "ts": 1, "object": name} for name in places])
    for space in (Rect(-180, -90, 180, 90), Rect(-114.02, 49, -113.8, 52)):
        figure = alert_figure(alerts, places, {}, space, on_map=on_map)
        figure.draw_without_rendering()
        axes = figure.axes[0]
        low, high = axes.get_xlim()
        shown = [tick.label1 for tick in axes.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
        boxes = [label.get_window_extent() for label in shown if label.get_text()]
        assert len(boxes) > 1
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


@pytest.mark.parametrize("ring", [[[179, 0], [-179, 0], [-179, 9], [179, 0]], [[179, 0], [181, 0], [181, 9], [179, 0]]])
def test_polygons_across_the_antimeridian_are_drawn_at_both_edges(ring):
    """Written with a jump or beyond 180, it is two degrees wide, at both edges of the map, and no band around the earth."""
    alerts = alerts_of([{"query": "q", "ts": 1, "object": "a"}])
    asked = {"q": {"region": {"polygon": [ring]}}}
    figure = alert_figure(alerts, {"a": (179.5, 1.0)}, asked, WORLD, on_map=True, metric="haversine")
    spans = sorted((p.get_xy()[:, 0].min(), p.get_xy()[:, 0].max()) for p in figure.axes[0].patches)
    assert spans == [(-181, -179), (179, 181)]
    plane = alert_figure(alerts, {"a": (179.5, 1.0)}, asked, WORLD, on_map=False)
    assert len(plane.axes[0].patches) == 1


def test_lists_in_tables_are_read_as_lines_are():
    """A row of a Parquet file has items with names."""
    row = {"query": "near", "ts": 1, "object": None, "objects": [{"id": "a", "value": 0.5}], "terms": None}
    assert alerts_of([row]).lists == {"near": ["a"]}


def test_outlines_lie_on_the_map_and_do_not_jump_across_it():
    """Land that crosses the edge of the map is there twice; a plane in kilometres is no map."""
    found = outlines()
    assert len(found.land) > 100
    assert len(found.states) > 400
    for line in (*found.land, *found.states):
        assert np.abs(line[:, 1]).max() <= 90.0
        assert line[:, 0].min() < 180.0
        assert line[:, 0].max() > -180.0
    assert max(np.abs(np.diff(line[:, 0])).max() for line in found.states) < 20.0
    assert looks_geographic(WORLD)
    assert not looks_geographic(Rect(0.0, 0.0, 12.0, 12.0))
    assert not looks_geographic(Rect(0.0, 0.0, 1000.0, 1000.0))


def test_pictures_refuse_what_they_cannot_draw(tmp_path, data):
    """A name that is no picture, a folder that is not there, a file that is no summary, or one of another version."""
    plan = HashPlan(SPACE, 2)
    with pytest.raises(DeclarationError, match="no name for a picture"):
        draw_plan(plan, None, tmp_path / "a.jpg")
    with pytest.raises(InputError, match="no folder to write"):
        draw_plan(plan, None, tmp_path / "none" / "a.png")
    with pytest.raises(InputError, match="cannot be read as a summary: no such file"):
        read_summary(tmp_path / "absent.json")
    (tmp_path / "text.json").write_text("no JSON")
    with pytest.raises(InputError, match=r"text\.json cannot be read as a summary"):
        read_summary(tmp_path / "text.json")
    with pytest.raises(InputError, match="is no summary: it has no 'objects'"):
        checked_summary({"queries": 1}, "one")
    with pytest.raises(InputError, match="by another version of waterspout"):
        checked_summary({"objects": 1, "timeline": []}, "old")
    with pytest.raises(InputError, match="is no whole summary: it has no 'timeline'"):
        checked_summary({k: v for k, v in summary().items() if k != "timeline"}, "cut")
    (tmp_path / "r.jsonl").write_text('{"ts": 1}\n')
    with pytest.raises(InputError, match="line 1 is no result"):
        alerts_of(read_lines(tmp_path / "r.jsonl"))
    (tmp_path / "r.jsonl").write_text("nothing\n")
    with pytest.raises(InputError, match="line 1: not JSON"):
        alerts_of(read_lines(tmp_path / "r.jsonl"))


def test_alerts_of_moving_objects_are_drawn_where_they_were_last(tmp_path):
    """Deletions have no place, and a plane in kilometres has no coast."""
    root = Path(__file__).parents[2]
    topology = load_topology(root / "conf" / "dynamic.toml")
    plot_alerts(
        alerts_of([{"query": "kitchen-0", "ts": 1, "objects": [["courier-215", 1.0]]}]), topology, tmp_path / "a.png"
    )
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
