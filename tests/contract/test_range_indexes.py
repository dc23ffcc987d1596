"""One suite over all range indexes: the same pairs as the definition, whatever comes in between."""

import math
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from checked_kernels import passes_with_checked_bounds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polygon_model import as_tuples, drawn_polygons, rings_of
from range_model import PlainIndex, PlainObject, PlainQuery, object_batch, pairs_of, query_batch

from benchmarks.range_index import from_file
from operators.indexes import INDEXES, CellRange, make_range_index
from operators.indexes.core import expiry, residuals, standing_queries
from operators.indexes.core.rare_columns import RARE_COLUMNS
from operators.indexes.range import keyed_lists, standing_index
from streams.batches import FOREVER, NO_WINDOW, OP_DELETE, OP_UNREGISTER, TYPE_KNN, TYPE_TERMS, TYPE_TOPK
from streams.codec import decode, encode
from streams.errors import DeclarationError, InputError
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_POLYGON, REGION_RECT, Rect
from streams.vocabulary import UNSEEN_BASE

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
SPACES = {"euclidean": Rect(0.0, -1.0, 1.0, 3.0), "haversine": Rect(-180.0, -90.0, 180.0, 90.0)}
PLAIN_PYTHON = os.environ.get("NUMBA_DISABLE_JIT") == "1"
EXAMPLES = int(os.environ.get("RANGE_INDEX_EXAMPLES", "500"))

every_index = pytest.mark.parametrize("name", list(INDEXES))
thorough = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

#: Small structures change shape early: options under which a handful of queries already splits, spreads and descends.
EAGER = {
    "kag": {"list_length": 1, "cells_per_posting": 2.0},
    "gi2": {"side": 4, "most_cells": 6},
    "fast": {"frequent": 2, "levels": 4},
    "brute": {},
}


def made(name, metric="euclidean", **options):
    return make_range_index(name, SPACES[metric], metric, (8, 8), **{**EAGER[name], **options})


# ---------------------------------------------------------------- what may come

FRACTIONS = [0.0, 1.0, 0.5, 0.25, 0.75, 0.125, 1 / 3, 2**-16, 1 - 2**-16, 2**-53, 1 - 2**-53]
SIDES = [0.0, 2**-40, 2**-16, 0.005, 1 / 64, 0.125, 0.5, 1.0, 3.0]
WORDS = [0, 1, 2, 3, 4, 7, 100_000, UNSEEN_BASE, UNSEEN_BASE + 5, 2**63 - 1]
TRIANGLE = (((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)),)
FAR_TIMES = [-(2**40), 2**40, 2**31, 2**62]


class Drawn:
    """Values drawn from one seed: special ones and any others, in equal parts."""

    def __init__(self, seed, metric, wild):
        self.random = Random(seed)
        self.metric, self.space, self.wild = metric, SPACES[metric], wild

    def fraction(self):
        return self.random.choice([self.random.choice(FRACTIONS), self.random.randrange(65) / 64, self.random.random()])

    def side(self):
        return self.random.choice([self.random.choice(SIDES), self.random.random(), self.random.random() / 50])

    def keywords(self):
        if self.random.random() < 0.1:
            return frozenset(range(k := self.random.randrange(4), k + 40))
        return frozenset(self.random.choice(WORDS) for _ in range(self.random.randrange(5)))

    def time(self):
        return self.random.choice(FAR_TIMES) if self.wild and self.random.random() < 0.2 else self.random.randrange(20)

    def place(self):
        s = self.space
        return s.min_x + self.fraction() * (s.max_x - s.min_x), s.min_y + self.fraction() * (s.max_y - s.min_y)

    def region(self):
        (x, y), space = self.place(), self.space
        kind = self.random.choice([REGION_RECT, REGION_RECT, REGION_CIRCLE, REGION_POLYGON, REGION_NONE])
        if kind == REGION_CIRCLE:
            return kind, (x, y, self.side() * (20_000_000.0 if self.metric == "haversine" else 1.0), 0.0)
        if kind == REGION_NONE:
            return kind, (0.0, 0.0, 0.0, 0.0)
        if kind == REGION_POLYGON:
            sides = self.side() * (space.max_x - space.min_x), self.side() * (space.max_y - space.min_y)
            self.polygons = as_tuples(drawn_polygons(self.random, x, y, *sides))
            return kind, rings_of(self.polygons).box()
        wide, high = self.side() * (space.max_x - space.min_x), self.side() * (space.max_y - space.min_y)
        return kind, (x, y, x + wide, y + high)

    def query(self, number, earlier):
        if earlier and self.random.random() < 0.25:
            return replace(self.random.choice(earlier), number=number)
        ts = self.time()
        end = FOREVER if self.random.random() < 0.5 else ts + self.random.randrange(12)
        rest = {}
        if self.wild and self.random.random() < 0.3:
            rest = self.random.choice(
                [
                    {"type": TYPE_KNN, "k": self.random.randrange(1, 99)},
                    {"type": TYPE_TOPK, "k": 2**20, "alpha": self.random.random()},
                    {"type": TYPE_TERMS, "k": 3, "window": 2**40, "slide": 7},
                    {"continuous": False, "window": 5},
                ]
            )
        self.polygons = ()
        if self.random.random() < 0.2:
            rest["none"] = self.keywords()
        region = self.region()
        rest["polygons"] = self.polygons
        return PlainQuery(number, *region, self.keywords(), self.random.random() < 0.4, ts, end, **rest)

    def object(self, queries):
        x, y = self.place()
        if queries and self.random.random() < 0.5:
            near = self.random.choice(queries)
            a, b, c, d = near.shape
            x = self.random.choice([a, c, math.nextafter(c, math.inf), math.nextafter(a, -math.inf)])
            y = self.random.choice([b, d, math.nextafter(d, math.inf), math.nextafter(b, -math.inf)])
            if near.polygons and self.random.random() < 0.5:
                x, y = self.on_edge(near.polygons)
        s = self.space
        x, y = min(max(x, s.min_x), s.max_x), min(max(y, s.min_y), s.max_y)
        return PlainObject(x, y, self.keywords() | self.keywords(), self.time())

    def on_edge(self, polygons):
        """Return a place on an edge, at a corner, or next to it."""
        ring = self.random.choice(self.random.choice(polygons))
        n, part = self.random.randrange(len(ring) - 1), self.random.choice([0.0, 0.5, self.random.random()])
        (ax, ay), (bx, by) = ring[n : n + 2]
        return ax + (bx - ax) * part, ay + (by - ay) * part

    def history(self, steps, batch):
        """Return operations: ("insert", queries), ("remove", numbers, ends), ("expire", now), and so on."""
        count, everything = 0, []
        stride = self.random.choice([1, 2**33]) if self.wild else 1
        for _ in range(steps):
            what = self.random.choice(
                ["insert", "insert", "remove", "end", "expire", "move", "save", "again", "hush", "wake"]
            )
            if what == "insert":
                size = self.random.randrange(batch + 1)
                fresh = []
                for n in range(count, count + size):
                    fresh.append(self.query(n * stride, fresh or everything))
                count += size
                everything += fresh
                yield what, fresh
            elif what in ("remove", "end", "hush", "wake"):
                some = [self.random.randrange(count + 1) * stride for _ in range(self.random.randrange(batch + 1))]
                yield what, some, [self.time() for _ in some]
            elif what == "expire":
                yield what, self.time()
            elif what == "move":
                a, b = sorted(self.random.choices(range(8), k=2))
                c, d = sorted(self.random.choices(range(8), k=2))
                yield what, CellRange(a, c, b, d), self.random.random() < 0.5
            elif what == "again" and everything:
                yield what, self.random.choice(everything)
            else:
                yield ("save",)
            yield "match", [self.object(everything) for _ in range(self.random.randrange(6))]


# ---------------------------------------------------------------- histories


def played(name, metric, history):
    """Play a history on an index and on the model, comparing as they go; return the index."""
    index, model = made(name, metric), PlainIndex(metric)
    for step, *arguments in history:
        PLAY[step](index, model, name, metric, *arguments)
        assert index.numbers().tolist() == sorted(model.queries)
        assert len(index) == len(model.queries)
        model.asleep &= set(model.queries)
        assert index.asleep().tolist() == sorted(model.asleep)
        assert index._table.sleeping == len(model.asleep)
    return index


def assert_whole(batch, queries):
    """All columns of the queries are as registered; identifiers are the numbers."""
    for name, column in vars_of(query_batch(queries)).items():
        assert vars_of(batch)[name].tolist() == column.tolist(), name
    assert batch.ids.to_list() == batch.number.tolist()


def vars_of(batch):
    return {name: getattr(batch, name) for name in type(batch).__dataclass_fields__ if name != "ids"}


def play_insert(index, model, name, metric, queries):
    index.insert(query_batch(queries))
    model.queries.update({q.number: q for q in queries})


def play_again(index, model, name, metric, query):
    if query.number in model.queries:
        with pytest.raises(InputError, match="already registered"):
            index.insert(query_batch([query]))
    else:
        play_insert(index, model, name, metric, [query])


def play_remove(index, model, name, metric, numbers, ends):
    assert index.remove(np.array(numbers, np.int64)) == len(set(numbers) & set(model.queries))
    for number in numbers:
        model.queries.pop(number, None)


def play_end(index, model, name, metric, numbers, ends):
    held = set(numbers) & set(model.queries)
    assert index.set_end(np.array(numbers, np.int64), np.array(ends, np.int64)) == len(held)
    for number, end in zip(numbers, ends, strict=True):
        if number in held:
            query = model.queries[number]
            model.queries[number] = replace(query, end=min(query.end, end))


def play_hush(index, model, name, metric, numbers, ends):
    held = set(numbers) & set(model.queries)
    assert index.hush(np.array(numbers, np.int64)) == len(held)
    model.asleep |= held


def play_wake(index, model, name, metric, numbers, ends):
    assert index.wake(np.array(numbers, np.int64)) == len(set(numbers) & set(model.queries))
    model.asleep -= set(numbers)


def play_expire(index, model, name, metric, now):
    ended = sorted(n for n, q in model.queries.items() if q.end <= now)
    assert sorted(index.expire(now).tolist()) == ended
    for number in ended:
        del model.queries[number]


def play_move(index, model, name, metric, cells, remove):
    space = SPACES[metric]
    other, rest = made(name, metric), PlainIndex(metric)
    batch = index.extract(cells, remove=remove)
    other.insert(batch)
    rest.queries = {n: model.queries[n] for n in batch.number.tolist()}
    assert_whole(batch, list(rest.queries.values()))
    other.hush(np.array(sorted(model.asleep), np.int64))
    rest.asleep = model.asleep
    columns, rows = np.meshgrid(
        np.arange(cells.min_column, cells.max_column + 1), np.arange(cells.min_row, cells.max_row + 1)
    )
    x = space.min_x + (columns.ravel() + 0.5) / 8 * (space.max_x - space.min_x)
    y = space.min_y + (rows.ravel() + 0.5) / 8 * (space.max_y - space.min_y)
    objects = [PlainObject(a, b, frozenset([1, 2, 3]), 5) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert pairs_of(other.match(object_batch(objects))) == model.pairs(objects) == rest.pairs(objects)
    if remove:
        model.queries = {n: q for n, q in model.queries.items() if n not in rest.queries}


def play_save(index, model, name, metric):
    """The index goes on as its own copy, so everything after a save also tests the restored one."""
    other = made(name, metric)
    other.restore(index.snapshot())
    assert_whole(other.queries(other.numbers()), [model.queries[n] for n in sorted(model.queries)])
    assert other.asleep().tolist() == sorted(model.asleep)
    assert other.cost() == index.cost()
    for a, b in zip(as_lists(other.load()), as_lists(index.load()), strict=True):
        assert a == b
    index.restore(other.snapshot())


def play_match(index, model, name, metric, objects):
    before = index.cost()
    found = pairs_of(index.match(object_batch(objects)))
    assert found == model.pairs(objects)
    after = index.cost()
    assert after.objects - before.objects == len(objects)
    assert after.matches - before.matches == len(found)
    assert after.candidates - before.candidates >= len(found)


def as_lists(load):
    return (
        load.cost_rows.tolist(), load.cost_columns.tolist(), load.cost,
        load.query_rows.tolist(), load.query_columns.tolist(), load.queries,
    )  # fmt: skip


PLAY = {
    "insert": play_insert, "again": play_again, "remove": play_remove, "end": play_end, "expire": play_expire,
    "move": play_move, "save": play_save, "match": play_match, "hush": play_hush, "wake": play_wake,
}  # fmt: skip


@pytest.fixture
def eager(monkeypatch):
    """Let lists be written anew and tables be rebuilt after a handful of removals."""
    monkeypatch.setattr(keyed_lists, "LEAST_DEAD", 3)
    monkeypatch.setattr(standing_queries, "SMALLEST_REBUILD", 6)
    monkeypatch.setattr(standing_queries, "CHUNK", 7)
    monkeypatch.setattr(standing_index, "CHUNK", 7)
    monkeypatch.setattr(expiry, "LEAST_WAITING", 2)
    monkeypatch.setattr(residuals, "SMALLEST_PACK", 8)


@every_index
@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
def test_index_agrees_with_the_definition_through_any_history(name, metric, eager):
    """Any mix of inserts, removals, lowered ends, expiry, moves and restores gives the pairs of the definition."""

    @thorough
    @given(st.integers(1, 9), st.integers(1, 24), st.booleans(), st.integers(0, 2**32))
    def check(steps, batch, wild, seed):
        played(name, metric, Drawn(seed, metric, wild).history(steps, batch))

    check()


# ---------------------------------------------------------------- special cases


def rect(number, a, b, c, d, keywords=(), **more):
    return PlainQuery(number, REGION_RECT, (a, b, c, d), frozenset(keywords), **more)


@every_index
def test_index_of_many_mixed_queries_agrees_with_brute_force(name):
    """Thousands of queries of all sizes with the default options give the pairs of brute force, before and after churn."""
    scale = 20 if PLAIN_PYTHON else 1
    drawn = Drawn(7, "euclidean", wild=False)
    queries = []
    for number in range(4000 // scale):
        queries.append(drawn.query(number, queries[-50:]))
    objects = object_batch([drawn.object(queries) for _ in range(300 // scale)])
    space = SPACES["euclidean"]
    index, brute = make_range_index(name, space), make_range_index("brute", space)
    for each in (index, brute):
        each.insert(query_batch(queries))
    assert pairs_of(index.match(objects)) == pairs_of(brute.match(objects))
    gone = np.arange(0, len(queries), 3)
    for each in (index, brute):
        assert each.remove(gone) == len(gone)
        each.insert(query_batch(queries).take(gone[::2]))
    assert pairs_of(index.match(objects)) == pairs_of(brute.match(objects))


@every_index
def test_index_holds_the_same_query_under_many_numbers(name):
    """Thousands of equal queries are each reported once, and the output space grows to hold them."""
    count = 300 if PLAIN_PYTHON else 9000
    index = made(name)
    index.insert(query_batch([rect(n, 0.2, 0.2, 0.4, 0.4, [1, 2]) for n in range(count)]))
    matches = index.match(object_batch([PlainObject(0.3, 0.3, frozenset([1, 2, 3]))] * 3))
    assert pairs_of(matches) == [(i, n) for i in range(3) for n in range(count)]
    assert index.remove(np.arange(1, count)) == count - 1
    assert pairs_of(index.match(object_batch([PlainObject(0.3, 0.3, frozenset([1, 2]))]))) == [(0, 0)]


@every_index
@pytest.mark.skipif(PLAIN_PYTHON, reason="as plain Python this would take minutes")
def test_index_holds_identical_queries_by_the_hundred_thousand(name):
    """One question is asked by 100,000: all are found at once, and those that are left when most go in any order."""
    count, space = 100_000, SPACES["euclidean"]
    one = query_batch([rect(0, 0.2, 0.2, 0.4, 0.4, [1, 2])])
    numbers = np.arange(count)
    everybody = replace(one.take(np.zeros(count, np.int64)), number=numbers, target=numbers)
    index = make_range_index(name, space)
    index.insert(everybody)
    there = object_batch([PlainObject(0.3, 0.3, frozenset([1, 2])), PlainObject(0.3, 0.3, frozenset([1]))])
    assert np.array_equal(np.sort(index.match(there).number), numbers)
    order = np.random.default_rng(2).permutation(count)
    for start in range(0, count - 1000, 9000):
        assert index.remove(order[start : start + 9000]) == 9000
    assert np.array_equal(np.sort(index.match(there).number), np.sort(order[99_000:]))


@every_index
@pytest.mark.parametrize("count", [1, 256, 257, 6000])
def test_index_decides_many_candidates_of_one_object_exactly(name, count):
    """Queries of five words around one place, of which every third has a word that the object has not, or ends before it."""
    count = min(count, 300) if PLAIN_PYTHON else count
    queries = []
    for n in range(count):
        step = n / 2**20
        words = [1, 2, 3, 4, 99 if n % 3 == 1 else 5]
        queries.append(rect(n, 0.2 - step, 0.2, 0.3 if n % 3 == 2 else 0.4 + step, 0.4, words))
    index, brute = made(name), made("brute")
    objects = object_batch([PlainObject(x, 0.3, frozenset([1, 2, 3, 4, 5, 6])) for x in (0.25, 0.3, 0.35, 0.4)])
    for each in (index, brute):
        each.insert(query_batch(queries))
    assert pairs_of(index.match(objects)) == pairs_of(brute.match(objects))
    assert len(index.match(objects)) > count


@every_index
def test_index_finds_circles_around_the_poles_and_the_date_line(name):
    """Circles of all sizes near poles and date line have the objects of the definition, at the limits of coordinates too."""
    random = Random(3)
    places = [
        *((lon, lat) for lon in (-180.0, -179.9999, 0.0, 180.0) for lat in (-90.0, -89.99, 89.99, 90.0)),
        *((side * (180 - random.random()), random.uniform(-90, 90)) for side in (1, -1) for _ in range(20)),
    ]
    radii = (0.0, 1.0, 1_200.0, 20_000.0, 900_000.0, 12_000_000.0)
    circles = [PlainQuery(n, REGION_CIRCLE, (*place, random.choice(radii), 0.0)) for n, place in enumerate(places * 4)]
    objects = object_batch([PlainObject(*place) for place in places])
    index, brute = made(name, "haversine"), made("brute", "haversine")
    for each in (index, brute):
        each.insert(query_batch(circles))
    assert pairs_of(index.match(objects)) == pairs_of(brute.match(objects))


@every_index
@pytest.mark.parametrize("match_any", [False, True])
def test_index_matches_queries_of_forty_words(name, match_any):
    """Forty words of which an object has none, one, all but one, all, or more; the places of words do not matter."""
    random = Random(4)
    queries = [
        replace(rect(n, 0.1, 0.1, 0.5, 0.5, random.sample(range(90), 40)), match_any=match_any) for n in range(60)
    ]
    sets = [set(), {1000}, set(range(90)), *({w} for w in range(0, 90, 9))]
    sets += [set(q.keywords) - {min(q.keywords)} for q in queries[:9]] + [set(q.keywords) for q in queries[:9]]
    objects = object_batch([PlainObject(x, 0.3, frozenset(words)) for words in sets for x in (0.3, 0.5, 0.6)])
    index, brute = made(name), made("brute")
    for each in (index, brute):
        each.insert(query_batch(queries))
    assert pairs_of(index.match(objects)) == pairs_of(brute.match(objects))
    gone = np.arange(0, 60, 2)
    assert index.remove(gone) == brute.remove(gone) == 30
    assert pairs_of(index.match(objects)) == pairs_of(brute.match(objects))


@every_index
def test_index_gives_memory_back_when_queries_and_words_are_gone(name):
    """After many queries with words of their own have come and gone, the index is about as small as at the start."""
    count = 600 if PLAIN_PYTHON else 20_000
    index = make_range_index(name, SPACES["euclidean"])
    fresh = index.nbytes
    random = Random(3)
    for round_ in range(3):
        numbers = range(round_ * count, (round_ + 1) * count)
        index.insert(
            query_batch(
                [
                    rect(n, x := random.random(), y := random.random(), x + 0.01, y + 0.01, [UNSEEN_BASE + n, n % 7])
                    for n in numbers
                ]
            )
        )
        full = index.nbytes
        assert index.remove(np.array(numbers, np.int64)) == count
    assert len(index) == 0
    if not PLAIN_PYTHON:
        assert index.nbytes < fresh + (full - fresh) / 2.5


@every_index
def test_index_goes_on_when_its_stamps_start_again(name):
    """Stamps that are about to wrap start again without a false match."""
    index = made(name)
    index.insert(query_batch([rect(1, 0.0, 0.0, 1.0, 1.0, [1, 2]), rect(2, 0.0, 0.0, 1.0, 1.0, [3])]))
    structure = index._structure
    owner = getattr(structure, "_lists", structure)
    objects = [PlainObject(0.5, 0.5, frozenset([1, 2])), PlainObject(0.5, 0.5, frozenset([1]))]
    for _ in range(3):
        if hasattr(owner, "_tick"):
            owner._tick = 2**31 - 4
        for _ in range(3):
            assert pairs_of(index.match(object_batch(objects))) == [(0, 1)]


@every_index
def test_index_takes_times_into_account_within_one_batch(name):
    """A query counts from its own time to its end, also when objects of the same batch lie on both sides."""
    index = made(name)
    index.insert(query_batch([rect(1, 0, 0, 1, 1, ts=5), rect(2, 0, 0, 1, 1, ts=0, end=6), rect(3, 0, 0, 1, 1)]))
    index.set_end(np.array([3]), np.array([5]))
    objects = [PlainObject(0.5, 0.5, frozenset(), ts) for ts in (4, 5, 6)]
    assert pairs_of(index.match(object_batch(objects))) == [(0, 2), (0, 3), (1, 1), (1, 2), (2, 1)]
    assert sorted(index.expire(6).tolist()) == [2, 3]
    assert pairs_of(index.match(object_batch(objects))) == [(1, 1), (2, 1)]


@every_index
def test_index_pays_for_rare_columns_only_where_a_query_uses_them(name):
    """An index of plain range queries has no memory for k, window and the like; one query that has them brings them all."""
    plain, mixed = made(name), made(name)
    queries = [rect(n, 0, 0, 1, 1, [1]) for n in range(100)]
    plain.insert(query_batch(queries))
    mixed.insert(query_batch([*queries[:-1], replace(queries[-1], k=5, window=60_000)]))
    assert mixed.nbytes - plain.nbytes == 100 * (4 + 8)
    saved = plain.snapshot()
    assert {name: len(saved[name]) for name in RARE_COLUMNS} == dict.fromkeys(RARE_COLUMNS, 0)
    assert mixed.queries(np.array([99, 0])).window.tolist() == [60_000, NO_WINDOW]


@every_index
def test_index_gives_a_used_slot_no_old_values(name):
    """A query in the place of one that has gone has its own k, and is awake."""
    index = made(name)
    index.insert(query_batch([rect(n, 0, 0, 1, 1, [1], k=7) for n in range(50)]))
    index.hush(np.arange(50))
    index.remove(np.arange(50))
    assert index._table.sleeping == 0
    index.insert(query_batch([rect(n, 0, 0, 1, 1, [1]) for n in range(50, 100)]))
    assert not index.queries(np.arange(100)).k.any()
    assert len(index.match(object_batch([PlainObject(0.5, 0.5, frozenset([1]))]))) == 50


@every_index
def test_index_keeps_what_is_rare_when_its_tables_grow_and_are_rebuilt(name, eager):
    """Values of k and sleep survive tables that are made larger, and smaller again."""
    index = made(name)
    for first in range(0, 400, 50):
        index.insert(query_batch([rect(n, 0, 0, 1, 1, [1], k=n) for n in range(first, first + 50)]))
    index.hush(np.arange(0, 400, 7))
    rows = len(index._table.traits)
    index.remove(np.arange(20, 400))
    assert len(index._table.traits) < rows
    assert index.queries(np.arange(400)).k.tolist() == list(range(20))
    assert index.asleep().tolist() == [0, 7, 14]
    matches = index.match(object_batch([PlainObject(0.5, 0.5, frozenset([1]))]))
    assert sorted(matches.number.tolist()) == [n for n in range(20) if n % 7]


@every_index
@pytest.mark.parametrize("side", [1, -1])
def test_index_finds_circles_across_the_date_line(name, side):
    """A circle beside the date line has the objects behind it, from the east and from the west."""
    index = made(name, "haversine")
    index.insert(query_batch([PlainQuery(1, REGION_CIRCLE, (side * 179.9, 10.0, 20_000.0, 0.0))]))
    near = [PlainObject(-side * 179.95, 10.0), PlainObject(side * 179.95, 10.0), PlainObject(-side * 179.0, 10.0)]
    assert pairs_of(index.match(object_batch(near))) == [(0, 1), (1, 1)]


@every_index
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("quanta", [1, 2, 100])
def test_index_finds_queries_that_barely_reach_into_the_next_cell(name, axis, quanta):
    """A query begins in the last quantum of a cell, the object is on its far edge: as far as the cell's queries reach."""
    space = SPACES["euclidean"]
    low, size = (space.min_x, space.min_y)[axis], (space.max_x - space.min_x, space.max_y - space.min_y)[axis]
    for cell in (4096, 8192, 32768):
        index = made(name)
        first, last = (low + (cell - 1 + 0.5) / 65536 * size, low + (cell - 1 + quanta + 0.5) / 65536 * size)
        other = (space.min_x + space.max_x) / 2 + 0.01, (space.min_y + space.max_y) / 2 + 0.01
        corner = [other[0], other[1], other[0], other[1]]
        corner[axis], corner[2 + axis] = first, last
        index.insert(query_batch([rect(n, *corner, [1]) for n in range(40)]))
        at = (last, other[1]) if axis == 0 else (other[0], last)
        assert len(index.match(object_batch([PlainObject(*at, frozenset([1]))]))) == 40


@every_index
def test_index_never_moves_an_end_up(name):
    """Of several ends the lowest stays, whatever the order in which they come."""
    index = made(name)
    index.insert(query_batch([rect(1, 0, 0, 1, 1, end=9)]))
    assert index.set_end(np.array([1, 1, 1, 7]), np.array([8, 4, 6, 1])) == 1
    assert index.set_end(np.array([1]), np.array([20])) == 1
    assert index.expire(3).tolist() == []
    assert index.expire(4).tolist() == [1]


@every_index
def test_index_counts_loads_over_the_fine_grid(name):
    """Rows and columns carry the candidates of their objects and the number of queries that overlap them."""
    index = made(name)
    index.insert(query_batch([rect(1, 0.0, -1.0, 0.3, 0.1, [1]), rect(2, 0.1, -1.0, 0.95, 3.0, [1])]))
    index.match(object_batch([PlainObject(0.2, -0.9, frozenset([1])), PlainObject(0.9, 2.9, frozenset([1]))]))
    load, cost = index.load(), index.cost()
    assert load.query_columns.tolist() == [2, 2, 2, 1, 1, 1, 1, 1]
    assert load.query_rows.tolist() == [2, 2, 2, 1, 1, 1, 1, 1]
    assert load.queries == 2
    assert load.cost == cost.candidates == load.cost_rows.sum() == load.cost_columns.sum()
    assert cost.matches == 3
    assert load.cost_rows[0] >= 2
    assert load.cost_columns[7] >= 1
    assert load.cost_rows[3:7].tolist() == load.cost_columns[3:7].tolist() == [0] * 4
    index.reset_cost()
    assert index.cost().candidates == index.load().cost == index.load().cost_rows.sum() == 0
    index.remove(np.array([2]))
    assert index.load().query_columns.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


@every_index
def test_index_ignores_deletions(name):
    """A deletion has no place: it matches nothing, and the objects around it keep theirs."""
    index = made(name)
    index.insert(query_batch([PlainQuery(1, REGION_NONE, (0.0, 0.0, 0.0, 0.0))]))
    batch = object_batch([PlainObject(0.5, 0.5)] * 3)
    batch = replace(batch, op=np.array([0, OP_DELETE, 0], np.uint8), x=np.array([0.5, np.nan, 0.5]))
    assert pairs_of(index.match(batch)) == [(0, 1), (2, 1)]


@every_index
def test_index_takes_arrays_that_look_into_a_message(name):
    """Read-only columns, as they come off the wire, are as good as any."""
    index = made(name)
    queries, objects = query_batch([rect(1, 0, 0, 1, 1, [1])]), object_batch([PlainObject(0.5, 0.5, frozenset([1]))])
    _, [(_, sent_queries), (_, sent_objects)] = decode(b"".join(encode([("q", queries), ("o", objects)])))
    assert not sent_objects.x.flags.writeable
    index.insert(sent_queries)
    assert pairs_of(index.match(sent_objects)) == [(0, 1)]
    assert index.remove(sent_queries.number) == 1


# ---------------------------------------------------------------- what is refused


@every_index
@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (rect(5, 0.5, 0.0, 0.4, 1.0), r"query 5 \(row 1 of the batch\) has a rectangle with min > max"),
        (rect(5, math.nan, 0.0, 0.4, 1.0), "has a rectangle with min > max or NaN"),
        (PlainQuery(5, REGION_CIRCLE, (0.5, 0.5, -1.0, 0.0)), "negative radius"),
        (PlainQuery(5, REGION_CIRCLE, (0.5, math.inf, 1.0, 0.0)), "not finite"),
        (PlainQuery(5, REGION_POLYGON, (0.0, 0.0, 1.0, 1.0)), "a polygon without rings"),
        (PlainQuery(5, REGION_RECT, (0.0, 0.0, 1.0, 1.0), polygons=(TRIANGLE,)), "rings without a polygon"),
        (PlainQuery(5, REGION_POLYGON, (5.0, 5.0, 6.0, 6.0), polygons=(TRIANGLE,)), "leave the box around them"),
        (PlainQuery(5, REGION_NONE, (0.0,) * 4, none=frozenset([-1])), "negative keyword id"),
        (PlainQuery(5, 9, (0.5, 0.5, 1.0, 0.0)), "unknown kind of region"),
        (rect(5, 0, 0, 1, 1, [-4]), "negative keyword id"),
        (rect(1, 0, 0, 1, 1), "occurs twice in one batch"),
    ],
)
def test_index_refuses_a_query_that_makes_no_sense(name, wrong, text):
    """The error names the query, and nothing of the batch has been added."""
    index = made(name)
    with pytest.raises(InputError, match=text):
        index.insert(query_batch([rect(1, 0, 0, 1, 1), wrong]))
    assert len(index) == 0
    assert 1 not in index


@every_index
def test_index_refuses_unregistrations_and_places_that_are_not_finite(name):
    """An unregistration belongs to set_end, an object at NaN to the rejects."""
    index = made(name)
    batch = query_batch([rect(1, 0, 0, 1, 1)])
    with pytest.raises(InputError, match="give its target to set_end"):
        index.insert(replace(batch, op=np.array([OP_UNREGISTER], np.uint8)))
    with pytest.raises(InputError, match=r"object 1 of the batch is at \(nan, 0.5\)"):
        index.match(object_batch([PlainObject(0.5, 0.5), PlainObject(math.nan, 0.5)]))


def test_names_and_options_are_checked_with_a_hint():
    """A typo in a name or an option that makes no sense is told with what was expected."""
    space = SPACES["euclidean"]
    with pytest.raises(DeclarationError, match="did you mean 'fast'"):
        make_range_index("fasst", space)
    with pytest.raises(DeclarationError, match="did you mean 'haversine'"):
        make_range_index("kag", space, "haversin")
    with pytest.raises(DeclarationError, match=r"option 'sides'.*did you mean 'side'"):
        make_range_index("gi2", space, sides=3)
    for name, option in (
        ("kag", {"cells_per_posting": 0.0}), ("kag", {"list_length": 0}), ("gi2", {"side": 0}),
        ("gi2", {"most_cells": 0}), ("fast", {"frequent": 0}), ("fast", {"levels": 20}),
    ):  # fmt: skip
        with pytest.raises(DeclarationError, match="expected a"):
            make_range_index(name, space, **option)
    with pytest.raises(DeclarationError, match="fine grid"):
        make_range_index("kag", space, fine_grid=(0, 5))


def test_cells_outside_of_the_fine_grid_are_refused():
    """A rectangle of cells has to be one, and to lie in the grid."""
    with pytest.raises(DeclarationError, match="not a rectangle"):
        CellRange(3, 0, 2, 0)
    with pytest.raises(DeclarationError, match="fine grid of 8 x 8"):
        made("kag").extract(CellRange(0, 0, 8, 0))


def test_a_snapshot_of_another_fine_grid_is_refused():
    """Aggregates of one grid mean nothing on another."""
    index = make_range_index("kag", SPACES["euclidean"], fine_grid=(4, 4))
    with pytest.raises(InputError, match="restore it with the grid it was made with"):
        index.restore(made("kag").snapshot())


# ---------------------------------------------------------------- the same in other conditions


@pytest.mark.skipif("RANGE_INDEX_EXAMPLES" in os.environ, reason="is itself one of the runs that this test starts")
@pytest.mark.timeout(900)  # everything is compiled anew
@pytest.mark.parametrize("setting", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_suite_passes_as_plain_python_and_with_checked_bounds(setting, checked_kernels):
    """The whole suite, on a smaller scale, holds without compilation and with every array access checked."""
    few = "4" if setting == "NUMBA_DISABLE_JIT" else "40"
    way = {setting: "1", "RANGE_INDEX_EXAMPLES": few}
    passes_with_checked_bounds(checked_kernels, __file__, "-W", "ignore", **way)


@pytest.mark.skipif(PLAIN_PYTHON, reason="as plain Python this would take minutes")
@pytest.mark.parametrize("file", ["storm_events_1950_1995.csv.gz", "simplegeo_places_nm_ut_nv_id.csv.gz"])
def test_indexes_agree_on_real_data(file):
    """100,000 queries drawn from real rows: every index gives the same pairs, brute force on a sample of the objects."""
    if not (DATA / file).exists():
        pytest.skip(f"{file} is not there: real data are not part of the repository")
    queries, objects, space = from_file(DATA / file, 100_000, 2000, seed=5)
    found = {}
    for name in INDEXES:
        index = make_range_index(name, space)
        index.insert(queries)
        found[name] = index.match(objects if name != "brute" else objects.slice(0, 20))
    pairs = {name: np.lexsort((m.number, m.object)) for name, m in found.items()}
    reference = found["kag"]
    assert len(reference) > len(objects)
    for name, matches in found.items():
        size = int(reference.off[len(matches.off) - 1])
        assert matches.off.tolist() == reference.off[: len(matches.off)].tolist(), name
        assert (matches.number[pairs[name]] == reference.number[pairs["kag"]][:size]).all(), name
