"""One suite over all range indexes: the same pairs as the definition, whatever comes in between."""

import gzip
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from range_model import PlainIndex, PlainObject, PlainQuery, object_batch, pairs_of, query_batch

from operators.indexes import INDEXES, CellRange, make_range_index
from streams.batches import FOREVER, OP_DELETE, OP_UNREGISTER
from streams.errors import DeclarationError, InputError
from streams.geometry import REGION_CIRCLE, REGION_NONE, REGION_RECT, Rect
from streams.vocabulary import UNSEEN_BASE, Encoder

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
SPACES = {"euclidean": Rect(0.0, -1.0, 1.0, 3.0), "haversine": Rect(-180.0, -90.0, 180.0, 90.0)}
PLAIN_PYTHON = os.environ.get("NUMBA_DISABLE_JIT") == "1"
EXAMPLES = int(os.environ.get("RANGE_INDEX_EXAMPLES", "300"))

every_index = pytest.mark.parametrize("name", list(INDEXES))
thorough = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
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
        kind = self.random.choice([REGION_RECT, REGION_RECT, REGION_CIRCLE, REGION_NONE])
        if kind == REGION_CIRCLE:
            return kind, (x, y, self.side() * (20_000_000.0 if self.metric == "haversine" else 1.0), 0.0)
        if kind == REGION_NONE:
            return kind, (0.0, 0.0, 0.0, 0.0)
        wide, high = self.side() * (space.max_x - space.min_x), self.side() * (space.max_y - space.min_y)
        return kind, (x, y, x + wide, y + high)

    def query(self, number, earlier):
        if earlier and self.random.random() < 0.25:
            return replace(self.random.choice(earlier), number=number)
        ts = self.time()
        end = FOREVER if self.random.random() < 0.5 else ts + self.random.randrange(12)
        return PlainQuery(number, *self.region(), self.keywords(), self.random.random() < 0.4, ts, end)

    def object(self, queries):
        x, y = self.place()
        if queries and self.random.random() < 0.5:
            a, b, c, d = self.random.choice(queries).shape
            x = self.random.choice([a, c, math.nextafter(c, math.inf), math.nextafter(a, -math.inf)])
            y = self.random.choice([b, d, math.nextafter(d, math.inf), math.nextafter(b, -math.inf)])
        s = self.space
        x, y = min(max(x, s.min_x), s.max_x), min(max(y, s.min_y), s.max_y)
        return PlainObject(x, y, self.keywords() | self.keywords(), self.time())

    def history(self, steps, batch):
        """Return operations: ("insert", queries), ("remove", numbers, ends), ("expire", now), and so on."""
        count, everything = 0, []
        stride = self.random.choice([1, 2**33]) if self.wild else 1
        for _ in range(steps):
            what = self.random.choice(["insert", "insert", "remove", "end", "expire", "move", "save", "again"])
            if what == "insert":
                size = self.random.randrange(batch + 1)
                fresh = []
                for n in range(count, count + size):
                    fresh.append(self.query(n * stride, fresh or everything))
                count += size
                everything += fresh
                yield what, fresh
            elif what in ("remove", "end"):
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
    return index


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
    assert other.numbers().tolist() == index.numbers().tolist()
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
    "move": play_move, "save": play_save, "match": play_match,
}  # fmt: skip


@every_index
@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
def test_index_agrees_with_the_definition_through_any_history(name, metric):
    """Any mix of inserts, removals, lowered ends, expiry, moves and restores gives the pairs of the definition."""

    @thorough
    @given(st.integers(1, 9), st.integers(1, 24), st.booleans(), st.integers(0, 2**32))
    def check(steps, batch, wild, seed):
        played(name, metric, Drawn(seed, metric, wild).history(steps, batch))

    check()
