"""The grid of objects, how fine it is, and what partial cell lists are for."""

from random import Random

import numpy as np
import pytest
from dynamic_model import DrawnChanges, PlainObjects, objects_batch
from topk_model import topk_batch, vocabulary

from operators.indexes.dynamic.cost_model import AS_PRINTED, Workload, best_side, expected_costs
from operators.indexes.dynamic.dynamic_lists import dynamic_topk
from operators.indexes.dynamic.object_grid import ObjectGrid
from operators.indexes.dynamic.object_grid_kernels import HAVE, KEY, LEAST, MOST
from operators.indexes.dynamic.object_table import ObjectTable
from operators.indexes.topk.frame import frame_of
from streams.batches import FOREVER, OP_DELETE, OP_UPSERT
from streams.errors import DeclarationError
from streams.geometry import Rect
from streams.scoring import unit_weights

SPACE = Rect(0.0, -1.0, 1.0, 3.0)


def test_weights_of_cells_are_exact_after_removals():
    """The largest and the least weight of each word in each cell, while objects move, change, vanish and come again."""
    words = vocabulary(1000)
    table, plain = ObjectTable(words), PlainObjects()
    grid = ObjectGrid(table, frame_of(SPACE, "euclidean"), 5)
    drawn = DrawnChanges(Random(3), SPACE, names=60)
    for _ in range(60):
        records = [drawn.record(plain.states) for _ in range(drawn.rng.randrange(1, 15))]
        plain.apply(records)
        objects = objects_batch(records)
        changes = table.compare(objects)
        grid.leave(changes.leaving)
        table.apply(objects, changes)
        grid.enter(changes.arriving)
        assert weights_of(grid, table) == plain_weights(plain, words)


def weights_of(grid, table):
    cells = grid.cells()
    held = np.flatnonzero(cells.entries[:, KEY] >= 0)
    word, cell = np.divmod(cells.entries[held, KEY], grid.n**2)
    rows = zip(cells.entries[held, HAVE].tolist(), *cells.weights[held][:, [MOST, LEAST]].T.tolist(), strict=True)
    return dict(zip(zip(cell.tolist(), table.words.raw[word].tolist(), strict=True), rows, strict=True))


def plain_weights(plain, words):
    found = {}
    for state in plain.states.values():
        cell = min(int((state["y"] + 1) / 4 * 5), 4) * 5 + min(int(state["x"] / 4 * 5), 4)
        kw = np.array(sorted(state["keywords"]), np.int64)
        weight = unit_weights(np.array([0, len(kw)], np.int32), kw, words)
        for word, one in zip(kw.tolist(), weight.tolist(), strict=True):
            found.setdefault((cell, word), []).append(one)
    return {key: (len(all_of_it), max(all_of_it), min(all_of_it)) for key, all_of_it in found.items()}


def test_cost_model_trades_recreation_for_checks():
    """What a finer grid saves and costs; n for the paper's largest data set, where the paper has 15.44."""
    load = Workload(objects=500_000, k=100, step=0.005)
    coarse, fine = expected_costs(np.array([4.0]), load), expected_costs(np.array([60.0]), load)
    assert coarse.check > fine.check
    assert coarse.recreate < fine.recreate
    assert coarse.trim < fine.trim
    assert coarse.scan > fine.scan
    assert best_side(load, AS_PRINTED) in (15, 16)
    assert best_side(Workload(objects=500_000, k=100), AS_PRINTED) == 13
    assert best_side(Workload(objects=10_000, k=100), AS_PRINTED) < 10
    for objects, k, measured in ((10_000, 100, 96), (10_000, 20, 96), (2_000, 100, 48)):
        assert 1 / 1.5 < best_side(Workload(objects=objects, k=k, step=0.07)) / measured < 1.5
    assert best_side(Workload(objects=0, k=1)) >= 1


def test_n_is_the_models_unless_it_is_given():
    """A grid is chosen when objects come, and again when there are many more."""
    words = vocabulary(0)
    models, given = (dynamic_topk("aqf", "gpcl", SPACE, "euclidean", words, None, o) for o in (None, {"n": 7}))
    drawn, plain, sides = DrawnChanges(Random(1), SPACE, names=3000), PlainObjects(), []
    query = drawn.query() | {"end": FOREVER}
    for index in (models, given):  # before somebody asks, there is no grid
        index.queries.insert(topk_batch([query]), np.inf)
        index.open(np.array([query["number"]]))
    for count in (1, 3000):
        records = [drawn.record(plain.states) for _ in range(count)]
        for index in (models, given):
            index.update(objects_batch(records))
        sides.append(models.refiller.n)
    assert given.refiller.n == 7
    assert sides[1] > sides[0]
    with pytest.raises(DeclarationError, match="n = 1000"):
        dynamic_topk("aqf", "gpcl", SPACE, "euclidean", words, None, {"n": 1000})


def test_partial_cell_lists_refill_from_few_cells():
    """Most lists that run short are filled from listed cells; a search of everything is the exception."""
    rng, examined, opened = Random(2), {}, {}
    drawn = DrawnChanges(rng, SPACE, names=400)
    drawn.keywords = lambda _least: frozenset(rng.sample(range(5), rng.randrange(1, 3)))
    queries = [drawn.query() | {"end": FOREVER, "k": 3, "alpha": 0.9} for _ in range(20)]
    first = [drawn.record({}) for _ in range(600)]
    updates = [[drawn.record({})] for _ in range(200)]
    for refill in ("gpcl", "gcl"):
        index = dynamic_topk("brute", refill, SPACE, "euclidean", vocabulary(1000), None, {"n": 12})
        index.update(objects_batch(first))
        index.queries.insert(topk_batch(queries), np.inf)
        index.open(np.array([query["number"] for query in queries], np.int64))
        index.fill()
        opened[refill] = index.refiller.recreated
        for records in updates:
            index.update(objects_batch(records))
        examined[refill] = index.refiller
    assert examined["gpcl"].searches == examined["gcl"].searches > 20
    assert examined["gpcl"].recreated - opened["gpcl"] < examined["gpcl"].searches / 4
    assert examined["gpcl"].checks < examined["gcl"].checks


def test_an_object_below_the_end_of_a_cell_list_refills_nothing():
    """A cell is listed by its bound, its best object is worse than one in a cell that is not: the paper's rule takes it."""
    space = Rect(0.0, 0.0, 1.0, 1.0)
    index = dynamic_topk("brute", "gpcl", space, "euclidean", vocabulary(), None, {"n": 5})
    at = {"next": (0.1, 0.0), "near": (0.3, 0.0), "listed": (0.599, 0.199), "unlisted": (0.41, 0.41)}
    record = {"ts": 0, "op": OP_UPSERT, "keywords": frozenset([1])}
    index.update(
        objects_batch([record | {"id": name, "seq": n, "x": x, "y": y} for n, (name, (x, y)) in enumerate(at.items())])
    )
    query = DrawnChanges(Random(1), space).query()
    query |= {"number": 0, "x": 0.0, "y": 0.0, "keywords": frozenset([1]), "k": 1, "alpha": 1.0, "end": FOREVER}
    index.queries.insert(topk_batch([query]), np.inf)
    index.open(np.array([0]))
    index.fill()
    for gone, left in (("near", "next"), ("next", "unlisted")):
        index.update(objects_batch([{"id": gone, "seq": 9, "ts": 0, "op": OP_DELETE}]))
        assert index.objects.ids(index.lists(np.array([0]))[1]).to_list() == [left]
    assert index.refiller.recreated == 2
