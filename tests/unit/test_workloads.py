"""Drawing queries from objects, without Spark."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.keyword_draws import drawn_from_objects, drawn_from_ranks, drawn_uniformly
from pipeline.query_lines import query_lines
from pipeline.workload_spec import HOUR_MS, PRESETS, WorkloadSpec, preset
from pipeline.workloads import BLOCK, Setting, SourceObjects, blocks_of, draw_queries, draw_rows
from streams.batches import QUERY_TYPES
from streams.errors import DeclarationError
from streams.files.query_records import QueryRules, read_query
from streams.geometry import Rect

SPACE = Rect(-10.0, 40.0, 30.0, 60.0)
WORDS = tuple(f"word{rank}" for rank in range(50))


def objects(rows=1000, seed=3):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, rows)
    off = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    kw = np.concatenate([np.sort(rng.choice(50, n, replace=False)) for n in lengths]).astype(np.int64)
    return SourceObjects(rng.uniform(-10, 30, rows), rng.uniform(40, 60, rows), off, kw)


SETTING = Setting(SPACE, 1_000, 9_001_000, np.arange(50, 0, -1))


def drawn(spec, source, block=0):
    picked = source.take(draw_rows(spec, block, len(source)))
    return picked, draw_queries(spec, SETTING, block, picked)


def records(spec, source):
    lines = []
    for block in range(blocks_of(spec)):
        _, queries = drawn(spec, source, block)
        lines += query_lines(queries, WORDS).decode().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_workload_lines_are_valid_queries(name):
    """Every line of every paper's workload is accepted by the reader of queries, in order of time."""
    made = records(preset(name, count=600, seed=5), objects())
    assert [record["id"] for record in made] == [f"q{n}" for n in range(600)]
    assert [record["ts"] for record in made] == sorted(record["ts"] for record in made)
    rules = QueryRules(SPACE, "euclidean", 100)
    for record in made:
        assert not isinstance(read_query(record, rules), str), (record, read_query(record, rules))


def test_workload_takes_place_and_keywords_of_its_objects():
    """A range query is a rectangle of the wanted size around its object, with some of the object's keywords."""
    spec = WorkloadSpec("range", count=500, keywords=(2, 3), side=0.01)
    picked, queries = drawn(spec, objects())
    assert np.array_equal(queries.at[:, 0], picked.x)
    inner = (picked.x > -9.8) & (picked.x < 29.8) & (picked.y > 40.1) & (picked.y < 59.9)
    size = queries.rect[:, 2:] - queries.rect[:, :2]
    assert np.allclose(size[inner], [0.4, 0.2])
    assert (queries.rect[:, :2] >= [-10, 40]).all()
    assert (queries.rect[:, 2:] <= [30, 60]).all()
    for row in range(500):
        own = set(picked.kw[picked.kw_off[row] : picked.kw_off[row + 1]].tolist())
        asked = queries.kw[queries.kw_off[row] : queries.kw_off[row + 1]].tolist()
        assert asked == sorted(set(asked))
        if own:
            assert set(asked) <= own
            assert min(2, len(own)) <= len(asked) <= min(3, len(own))
        else:
            assert len(asked) == 1


def test_workload_block_depends_on_the_seed_and_the_block_alone():
    """Blocks made in another order, alone, or of a longer workload are the same; another seed is not."""
    source = objects()
    spec = WorkloadSpec("knn", count=2 * BLOCK + 10, keywords=(1, 5), k=(1, 10), seed=9)
    alone = query_lines(drawn(spec, source, 1)[1], WORDS)
    for block in (2, 0, 1):
        again = query_lines(drawn(spec, source, block)[1], WORDS)
    assert again == alone
    longer = WorkloadSpec("knn", count=5 * BLOCK, keywords=(1, 5), k=(1, 10), seed=9)
    assert query_lines(drawn(longer, source, 1)[1], WORDS) == alone
    other = WorkloadSpec("knn", count=5 * BLOCK, keywords=(1, 5), k=(1, 10), seed=10)
    assert query_lines(drawn(other, source, 1)[1], WORDS) != alone


def test_workload_condensed_shrinks_places_towards_the_centre():
    """Tornado's condensed workload has the same places, scaled about the centre of the space."""
    source = objects()
    _, normal = drawn(preset("tornado", count=300), source)
    _, condensed = drawn(preset("tornado-condensed", count=300, condensed=0.4), source)
    assert np.allclose(condensed.at, [10, 50] + (normal.at - [10, 50]) * 0.4)


def test_workload_selective_leaves_out_the_frequent_words():
    """Percentile 0.9 asks for none of the most frequent tenth, percentile 0 for the rarest word only."""
    source = objects()
    _, queries = drawn(preset("tornado-selective", count=400, selective=0.9), source)
    assert queries.kw.min() == 5
    assert queries.kw.max() == 49
    assert (np.diff(queries.kw_off) == 3).all()
    _, rarest = drawn(preset("tornado-selective", count=50, selective=0.0, keywords=(1, 1)), source)
    assert set(rarest.kw.tolist()) == {49}


def test_workload_zipf_prefers_low_ranks():
    """With a Zipf exponent the first rank is asked for most, and keywords of a query stay distinct."""
    _, queries = drawn(preset("skype-zipf", count=3000), objects())
    counts = np.bincount(queries.kw, minlength=50)
    assert counts.argmax() == 0
    assert counts[:5].sum() > counts[25:].sum()
    assert ((queries.alpha >= 0) & (queries.alpha <= 1)).all()
    assert set(queries.k.tolist()) == {20}


def test_workload_sstd_makes_six_queries_of_each_object():
    """The mix has SRQ, SKQ, STQ, CRQ, CKQ and CTQ in turn, at the place of one object, also across blocks."""
    spec = preset("sstd", count=BLOCK + 20)
    source = objects()
    rows = np.concatenate([draw_rows(spec, block, len(source)) for block in range(2)])
    assert all(len(set(rows[start : start + 6].tolist())) == 1 for start in range(0, len(rows) - 6, 6))
    made = [json.loads(line) for line in query_lines(drawn(spec, source)[1], WORDS).splitlines()[:6]]
    assert [(r["type"], r.get("continuous", True)) for r in made] == [
        ("range", False), ("knn", False), ("terms", False), ("range", True), ("knn", True), ("terms", True),
    ]  # fmt: skip
    assert [r.get("window") for r in made] == [72 * HOUR_MS] * 3 + [None, None, 72 * HOUR_MS]
    assert [r.get("ttl") for r in made] == [None] * 3 + [72 * HOUR_MS] * 3
    area = np.prod([made[0]["region"]["rect"][i + 2] - made[0]["region"]["rect"][i] for i in (0, 1)])
    assert area <= 0.0001 * 800 * (1 + 1e-9)


def test_workload_spreads_arrivals_over_the_time_span():
    """Spread queries arrive evenly until the end of the data, others are all there at its start."""
    _, spread = drawn(WorkloadSpec("range", count=900, spread=True), objects())
    assert (spread.ts[0], spread.ts[-1]) == (11_000, 9_001_000)
    assert (np.diff(spread.ts) == 10_000).all()
    _, start = drawn(WorkloadSpec("range", count=900), objects())
    assert set(start.ts.tolist()) == {1_000}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"type": "rnge"}, "did you mean 'range'"),
        ({"count": 0}, "count is 0"),
        ({"keywords": (3, 1)}, "keywords is"),
        ({"side": 0.0}, "side is 0.0"),
        ({"side": 0.1, "area": 0.1}, "no side with it"),
        ({"k": (0, 5)}, "k is"),
        ({"alpha": (0.5, 2.0)}, "alpha is"),
        ({"type": "topk", "continuous": False}, "no snapshot form"),
        ({"selective": 0.5, "zipf": 1.0}, "not both"),
        ({"duration_ms": (0, 5)}, "duration_ms is"),
    ],
)
def test_workload_spec_says_what_is_wrong(changes, sentence):
    """An impossible workload is refused with the value and what was expected."""
    with pytest.raises(DeclarationError, match=sentence):
        WorkloadSpec(**changes)


def test_workload_preset_knows_its_names():
    """An unknown preset or parameter is named with its nearest neighbour; a side replaces a preset's area."""
    with pytest.raises(DeclarationError, match="did you mean 'tornado'"):
        preset("tornad")
    with pytest.raises(DeclarationError, match="did you mean 'keywords'"):
        preset("tornado", keyword=(1, 1))
    assert preset("sstd", side=0.1).area is None
    assert preset("tornado", area=0.25).region_share() == 0.5


def test_workload_without_words_can_only_ask_for_terms():
    """Data without any keyword cannot answer for keywords."""
    bare = SourceObjects(np.zeros(5), np.full(5, 50.0), np.zeros(6, np.int32), np.empty(0, np.int64))
    nothing = Setting(SPACE, 0, 1, np.empty(0, np.int64))
    with pytest.raises(DeclarationError, match="no keywords"):
        draw_queries(WorkloadSpec("range", count=5), nothing, 0, bare)
    assert len(draw_queries(WorkloadSpec("terms", count=5), nothing, 0, bare).kw) == 0
    with pytest.raises(DeclarationError, match="objects to make them of"):
        draw_queries(WorkloadSpec("range", count=6), SETTING, 0, bare)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.integers(0, 30), max_size=8), max_size=20), st.integers(0, 9), st.integers(0, 2**32 - 1))
def test_keywords_drawn_from_objects_are_theirs(rows, wanted, seed):
    """As many as wanted or as there are, ascending, distinct, and of the object; one spare word for a bare object."""
    off = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    kw = np.array([word for row in rows for word in sorted(row)], np.int64)
    ask = np.full(len(rows), wanted, np.int64)
    got_off, got = drawn_from_objects(np.random.default_rng(seed), off, kw, ask, np.arange(1, 40))
    for i, row in enumerate(rows):
        mine = got[got_off[i] : got_off[i + 1]].tolist()
        assert mine == sorted(set(mine))
        if row:
            assert len(mine) == min(wanted, len(row))
            assert set(mine) <= row
        else:
            assert len(mine) == min(wanted, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 12), max_size=15), st.integers(1, 10), st.floats(0.1, 6.0), st.integers(0, 2**32 - 1))
def test_keywords_drawn_from_ranks_are_distinct_and_complete(wanted, words, exponent, seed):
    """Each row gets as many distinct ranks as it wants, or all there are, however skewed the weights are."""
    weights = np.arange(1, words + 1) ** -exponent
    off, values = drawn_from_ranks(np.random.default_rng(seed), weights, np.array(wanted, np.int64))
    assert np.diff(off).tolist() == [min(n, words) for n in wanted]
    for i in range(len(wanted)):
        mine = values[off[i] : off[i + 1]].tolist()
        assert mine == sorted(set(mine))
        assert not mine or (mine[0] >= 0 and mine[-1] < words)
    off, values = drawn_uniformly(np.random.default_rng(seed), 7, 7 + words, np.array(wanted, np.int64))
    assert not len(values) or (values.min() >= 7 and values.max() < 7 + words)


def test_workload_types_are_those_of_queries():
    """A workload's type is a query type or the mix."""
    assert set(QUERY_TYPES) | {"sstd"} == {spec.type for spec in PRESETS.values()} | {"terms"}
