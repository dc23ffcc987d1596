"""Workloads, statistics and plans on Spark, each against a plain single-process reference on the same input."""

import json
import math
from collections import Counter
from dataclasses import fields

import numpy as np
import pyarrow.parquet as pq
import pytest
from pipeline_reference import raw_rows, write_csv

from partitioners.columns import Points
from partitioners.costs.cell_costs import cell_costs
from partitioners.costs.query_distribution import SKQ, SRQ
from partitioners.costs.statistics import Statistics
from partitioners.plans.plan import load
from pipeline.moving_objects import MovingSpec, moving_states, state_lines
from pipeline.object_statistics import load_object_statistics, object_statistics
from pipeline.plans import build_plan, gather_statistics
from pipeline.prepared_rows import collected_rows, source_objects
from pipeline.preparing import prepare
from pipeline.query_counting import count_queries
from pipeline.query_lines import query_lines
from pipeline.query_statistics import QUERY_KINDS, cell_at, load_query_statistics, save_query_statistics
from pipeline.query_tables import QueryReading, initial_objects, query_table
from pipeline.session import spark_session
from pipeline.workload_files import moving_workload, workload
from pipeline.workload_spec import preset
from pipeline.workloads import Setting, blocks_of, draw_queries, draw_rows
from streams.batches import QueryBatch
from streams.errors import DeclarationError, InputError
from streams.files.object_files import read_objects
from streams.files.open_queries import OpenQueries
from streams.files.prepared import load_manifest, load_vocabulary, object_paths
from streams.files.query_files import read_queries
from streams.vocabulary import Encoder

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MASTER = "local[2]"
DEPTH = 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("statistics")
    write_csv(folder / "raw.csv", raw_rows(3000, seed=11))
    prepare([folder / "raw.csv"], folder / "data", master=MASTER, statistics=False)
    return folder / "data"


@pytest.fixture(scope="module")
def spark(data):
    return spark_session(MASTER)


@pytest.fixture(scope="module")
def objects(data):
    return [row for path in object_paths(data) for row in pq.read_table(path).to_pylist()]


@pytest.fixture(scope="module")
def mix(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("queries") / "mix.jsonl"
    workload(data, path, preset("sstd", count=600, keywords=(1, 3), area=0.02, k=(1, 20), seed=3), master=MASTER)
    return path


def cell_of(value, low, high, cells):
    return min(max(math.floor((value - low) * (cells / (high - low))), 0), cells - 1)


def place_of(x, y, space, side):
    column = cell_of(x, space.min_x, space.max_x, side)
    return cell_of(y, space.min_y, space.max_y, side) * side + column


@pytest.mark.parametrize("initial", [1000, None])
def test_object_statistics_equal_a_plain_count(data, objects, initial):
    """Objects by fine cell, by coarse cell and keyword, and P(lambda) of the first objects or of all."""
    found = object_statistics(data, initial=initial, side=50, keyword_side=8, master=MASTER)
    first = objects[:initial]
    space = load_manifest(data).space
    fine = Counter(place_of(row["x"], row["y"], space, 50) for row in first)
    pairs = Counter((place_of(r["x"], r["y"], space, 8), word) for r in first for word in r["keyword_ids"])
    words = Counter(word for row in first for word in row["keyword_ids"])
    assert found.objects == len(first)
    assert found.span_ms == first[-1]["ts"] - first[0]["ts"]
    assert found.in_cell.ravel().tolist() == [fine[cell] for cell in range(2500)]
    assert list(zip(found.cell.tolist(), found.keyword.tolist(), strict=True)) == sorted(pairs)
    assert found.count.tolist() == [pairs[key] for key in sorted(pairs)]
    ids = np.arange(len(load_vocabulary(data)) + 3)
    assert found.probabilities(ids).tolist() == [words[word] / len(first) for word in ids.tolist()]
    again = load_object_statistics(data)
    assert np.array_equal(again.count, found.count)
    facts = data / "statistics" / "objects.json"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"version": 7}))
    with pytest.raises(InputError, match="version 7"):
        load_object_statistics(data)


def test_workload_file_is_what_the_pure_functions_draw(data, objects, spark, tmp_path):
    """Spark only carries the work: the file is made of the same objects by the same functions, however it is divided."""
    spec = preset("skype", count=20_000, seed=8)
    assert workload(data, tmp_path / "a.jsonl", spec, master=MASTER) == 20_000
    manifest, vocabulary = load_manifest(data), load_vocabulary(data)
    table = source_objects(pq.read_table(object_paths(data)[0]))
    assert len(table) == len(objects)
    setting = Setting(manifest.space, manifest.first_ts, manifest.last_ts, vocabulary.df)
    wanted = b""
    for block in range(blocks_of(spec)):
        picked = table.take(draw_rows(spec, block, manifest.rows))
        wanted += query_lines(draw_queries(spec, setting, block, picked), vocabulary.words)
    assert (tmp_path / "a.jsonl").read_bytes() == wanted
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    try:
        spark.conf.set("spark.sql.files.maxPartitionBytes", "30000")
        workload(data, tmp_path / "b.jsonl.gz", spec, master=MASTER)
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)
    import gzip

    assert gzip.decompress((tmp_path / "b.jsonl.gz").read_bytes()) == wanted


def test_workload_refuses_what_it_cannot_write(data, tmp_path):
    """A name that is no query file, a folder that is not there, more moving objects than there are."""
    with pytest.raises(DeclarationError, match="no name for a query file"):
        workload(data, tmp_path / "a.csv", preset("tornado"), master=MASTER)
    with pytest.raises(InputError, match="no folder to write"):
        workload(data, tmp_path / "none" / "a.jsonl", preset("tornado"), master=MASTER)
    with pytest.raises(InputError, match="no manifest"):
        workload(tmp_path, tmp_path / "a.jsonl", preset("tornado"), master=MASTER)
    with pytest.raises(DeclarationError, match="ask for at most"):
        moving_workload(data, tmp_path / "a.jsonl", MovingSpec(objects=100_000), master=MASTER)


def test_moving_workload_is_readable_and_starts_from_the_data(data, spark, tmp_path):
    """The stream of states is read by the online reader without a reject and is what the pure functions make."""
    spec = MovingSpec(objects=200, updates=900, seed=6)
    assert moving_workload(data, tmp_path / "moving.jsonl", spec, master=MASTER) == 1100
    manifest, words = load_manifest(data), load_vocabulary(data).words
    rows = np.sort(np.random.default_rng([6, 3]).permutation(manifest.rows)[:200])
    source = collected_rows(spark, data, rows)
    states = moving_states(spec, manifest.space, source, manifest.first_ts)
    assert (tmp_path / "moving.jsonl").read_bytes() == b"".join(state_lines(part, words) for part in states)
    chunks = list(read_objects([tmp_path / "moving.jsonl"], space=manifest.space, encoder=Encoder()))
    assert sum(len(chunk.batch) for chunk in chunks) == 1100
    assert sum(len(chunk.rejects) for chunk in chunks) == 0


def reading(data):
    manifest = load_manifest(data)
    span = float(manifest.last_ts - manifest.first_ts)
    return QueryReading(manifest.space, "euclidean", span, load_vocabulary(data).words)


def kth_distance(query, objects, rank):
    wanted = {rank[word] for word in query["keywords"]}
    near = sorted(
        math.sqrt((row["x"] - query["at"][0]) ** 2 + (row["y"] - query["at"][1]) ** 2)
        for row in objects
        if wanted <= set(row["keyword_ids"])
    )
    return near[query["k"] - 1] if len(near) >= query["k"] else math.inf


def bounds_of(query, space, objects, rank):
    if "region" in query:
        return query["region"]["rect"]
    (x, y), far = query["at"], kth_distance(query, objects, rank)
    low = [max(x - far, space.min_x), max(y - far, space.min_y)]
    return [*low, min(x + far, space.max_x), min(y + far, space.max_y)]


def test_query_table_has_balls_of_the_nearest_objects(data, objects, spark, mix):
    """Bounds are the region, or enclose the ball of the kth nearest match among the first objects; numbers are lines."""
    space = load_manifest(data).space
    rank = {word: place for place, word in enumerate(load_vocabulary(data).words)}
    queries = [json.loads(line) for line in mix.read_text().splitlines()]
    table = query_table(spark, [mix], reading(data), initial_objects(spark, data, 2000)).toArrow().sort_by("number")
    assert table["number"].to_pylist() == list(range(600))
    assert table["reason"].null_count == 600
    for row, query in zip(table.to_pylist(), queries, strict=True):
        found = [row[name] for name in ("min_x", "min_y", "max_x", "max_y")]
        assert found == pytest.approx(bounds_of(query, space, objects[:2000], rank), rel=1e-12, abs=1e-12)
        assert row["keyword_ids"] == sorted(rank[word] for word in query.get("keywords", []))
        assert (row["continuous"], row["k"]) == (query.get("continuous", True), query.get("k", 0))


def test_query_table_numbers_files_in_the_order_given(data, spark, tmp_path):
    """As the spout of queries does, which reads one after the other, whatever their names."""
    line = '{"op":"register","id":"%s","ts":%d,"type":"knn","at":[10,45],"k":%d}\n'
    paths = [tmp_path / "z.jsonl", tmp_path / "a.jsonl"]
    paths[0].write_text(line % ("first", 0, 1) + line % ("second", 0, 2), "utf-8")
    paths[1].write_text(line % ("third", 1, 3), "utf-8")
    table = query_table(spark, paths, reading(data)).toArrow().sort_by("number")
    assert (table["number"].to_pylist(), table["k"].to_pylist()) == ([0, 1, 2], [1, 2, 3])
    chunks = read_queries(paths, space=load_manifest(data).space, encoder=Encoder(), open_queries=OpenQueries())
    online = QueryBatch.concat([chunk.batch for chunk in chunks])
    assert (online.number.tolist(), online.k.tolist()) == ([0, 1, 2], [1, 2, 3])


def test_query_table_counts_lines_that_cannot_be_used(data, spark, tmp_path):
    """A bad line keeps its number and says why; blank lines are no records, unregistrations no queries."""
    lines = [
        '{"op":"register","id":"a","ts":0,"type":"knn","at":[10,45],"k":1}',
        "",
        '{"op":"register","id":"b","ts":0,"type":"knn","at":[10,45],"k":0}',
        '{"op":"unregister","id":"a","ts":5}',
        '{"op":"register","id":"c","ts":6,"type":"topk","at":[10,45],"k":3,"alpha":0.5,"keywords":["x"]}',
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(lines))
    rows = query_table(spark, [tmp_path / "q.jsonl"], reading(data)).toArrow().sort_by("number").to_pylist()
    assert [(row["number"], row["type"], row["reason"] is None) for row in rows] == [
        (0, 1, True),
        (1, None, False),
        (3, 2, True),
    ]
    assert "k" in rows[1]["reason"]
    with pytest.raises(InputError, match="no query file"):
        query_table(spark, [object_paths(data)[0]], reading(data))


def test_query_statistics_equal_a_plain_count(data, objects, spark, mix, tmp_path):
    """For every cell of the quadtree J: p, E_obj, M_srq, M_skq, numbers of keywords and windows."""
    manifest = load_manifest(data)
    space = manifest.space
    rank = {word: place for place, word in enumerate(load_vocabulary(data).words)}
    queries = [json.loads(line) for line in mix.read_text().splitlines()]
    table = query_table(spark, [mix], reading(data), initial_objects(spark, data))
    found = count_queries(spark, data, table, space, DEPTH)
    save_query_statistics(found, tmp_path / "j")
    found = load_query_statistics(tmp_path / "j")
    kinds = [{"range": 0, "knn": 1, "terms": 2}[q["type"]] + 3 * q.get("continuous", True) for q in queries]
    assert found.totals.tolist() == [kinds.count(kind) for kind in range(6)]
    assert found.prior().tolist() == [kinds.count(kind) / 600 for kind in range(6)]
    boxes = [bounds_of(query, space, objects, rank) for query in queries]
    span = manifest.last_ts - manifest.first_ts
    for level in range(DEPTH + 1):
        side = 1 << level
        for row in range(side):
            for column in range(side):
                x = space.min_x + (column + 0.5) * (space.max_x - space.min_x) / side
                y = space.min_y + (row + 0.5) * (space.max_y - space.min_y) / side
                cell = cell_at(found, level, x, y)
                here = [
                    i
                    for i, (x0, y0, x1, y1) in enumerate(boxes)
                    if cell_of(x0, space.min_x, space.max_x, side)
                    <= column
                    <= cell_of(x1, space.min_x, space.max_x, side)
                    and cell_of(y0, space.min_y, space.max_y, side)
                    <= row
                    <= cell_of(y1, space.min_y, space.max_y, side)
                ]
                counts = Counter(kinds[i] for i in here)
                assert found.overlap(cell).tolist() == [counts[k] / kinds.count(k) for k in range(6)]
                inside = sum(place_of(o["x"], o["y"], space, side) == row * side + column for o in objects)
                assert found.arrival_rate(cell) == inside / span
                for kind in (SRQ, SKQ):
                    mine = [queries[i] for i in here if kinds[i] == kind]
                    words = Counter(rank[word] for query in mine for word in query["keywords"])
                    _same(found.keywords(cell, kind), words)
                    _same(found.lengths(cell, kind), Counter(len(query["keywords"]) for query in mine))
                for kind in range(6):
                    windows = Counter(queries[i].get("ttl", queries[i].get("window")) for i in here if kinds[i] == kind)
                    _same(found.windows(cell, kind), windows)
    facts = tmp_path / "j" / "query_statistics.json"
    facts.write_text(facts.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(InputError, match="version 2"):
        load_query_statistics(tmp_path / "j")
    assert QUERY_KINDS == ("srq", "skq", "stq", "crq", "ckq", "ctq")


def _same(found, counts):
    keys, shares = found
    total = sum(counts.values())
    assert keys.tolist() == sorted(counts)
    assert shares.tolist() == [counts[key] / total for key in sorted(counts)]


def online(data, mix):
    """Read objects and queries as the online plane does."""
    space = load_manifest(data).space
    encoder = Encoder(load_vocabulary(data))
    chunks = list(read_objects(object_paths(data), space=space, encoder=encoder))
    asked = list(read_queries([mix], space=space, encoder=encoder, open_queries=OpenQueries()))
    return type(chunks[0].batch).concat([c.batch for c in chunks]), type(asked[0].batch).concat(
        [c.batch for c in asked]
    )


def test_gathered_statistics_equal_those_of_the_online_plane(data, spark, mix):
    """Samples that hold everything are what the online plane takes from the same files."""
    objects, queries = online(data, mix)
    wanted = Statistics.of_batches(objects, queries, load_manifest(data).space, side=40)
    found = gather_statistics(spark, data, [mix], side=40, costs=True)
    for name in ("x", "y", "kw_off", "kw"):
        assert np.array_equal(getattr(found.statistics.objects, name), getattr(wanted.objects, name)), name
    assert found.statistics.objects.span_ms == wanted.objects.span_ms
    for name in (f.name for f in fields(found.statistics.queries)):
        assert np.array_equal(getattr(found.statistics.queries, name), getattr(wanted.queries, name)), name
    assert (found.objects, found.queries, found.rejected_queries) == (len(objects), 600, 0)
    costs = cell_costs(wanted.grid, wanted.objects, wanted.queries)
    assert np.array_equal(found.statistics.cell_cost, costs)


def test_gathered_samples_are_bounded_and_cells_are_counted_in_full(data, objects, spark, mix):
    """Smaller samples are evenly spaced, and counts by cell are still of all objects."""
    found = gather_statistics(spark, data, [mix], side=10, max_objects=100, max_queries=50).statistics
    assert len(found.objects) == 100
    assert len(found.queries) == 50
    rows = [n * len(objects) // 100 for n in range(100)]
    assert found.objects.x.tolist() == [objects[row]["x"] for row in rows]
    space = load_manifest(data).space
    counts = Counter(place_of(row["x"], row["y"], space, 10) for row in objects)
    assert found.cell_objects.ravel().tolist() == [counts[cell] for cell in range(100)]
    with pytest.raises(DeclarationError, match="samples of 0 objects"):
        gather_statistics(spark, data, [], max_objects=0)


@pytest.mark.parametrize(
    ("kind", "options"), [("qt-tree", {"leaves": 16}), ("kd", {}), ("dkm-sks", {}), ("kdt-tree", {}), ("uniform", {})]
)
def test_plan_is_built_and_written(data, mix, tmp_path, kind, options):
    """A plan of every family comes back from its file with the workers that were asked for, and covers its objects."""
    told = []
    built = build_plan(
        kind, data, [mix], tmp_path / "a.plan", workers=4, options=options, side=64, master=MASTER,
        progress=lambda step, share: told.append(share),
    )  # fmt: skip
    plan = load(tmp_path / "a.plan")
    assert (plan.kind, plan.workers, plan.space) == (built.plan.kind, 4, load_manifest(data).space)
    source = source_objects(pq.read_table(object_paths(data)[0]))
    off, workers = plan.route_points(Points.of(source.x, source.y, source.kw_off, source.kw))
    assert (np.diff(off) >= 1).all()
    assert workers.max() <= 3
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_plan_refuses_what_it_does_not_know(data, mix, tmp_path):
    """An unknown partitioner or option is named with its nearest neighbour, before or after the data is read."""
    with pytest.raises(DeclarationError, match="did you mean 'qt-tree'"):
        build_plan("qt_tree", data, [mix], tmp_path / "a.plan", workers=4, master=MASTER)
    with pytest.raises(DeclarationError, match="did you mean 'leaves'"):
        build_plan("qt-tree", data, [], tmp_path / "a.plan", workers=4, options={"leavs": 9}, master=MASTER)
    with pytest.raises(InputError, match="names no file"):
        build_plan("kd", data, [tmp_path / "absent.jsonl"], tmp_path / "a.plan", workers=4, master=MASTER)
    with pytest.raises(InputError, match="no folder to write"):
        build_plan("kd", data, [mix], tmp_path / "none" / "a.plan", workers=4, master=MASTER)
    with pytest.raises(DeclarationError, match="unknown metric"):
        build_plan("kd", data, [mix], tmp_path / "a.plan", workers=4, metric="manhattan", master=MASTER)
