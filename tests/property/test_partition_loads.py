"""Summaries of evaluators against brute force over the cells, and their way over the wire."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rebalancing_model import random_field, random_plan

from operators.balancing.tornado import (
    CellStatistics,
    cells_from_batch,
    cells_to_batch,
    loads_from_batch,
    loads_to_batch,
)
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.plan_changes import halves
from partitioners.grids.adjacency import corner_strip
from streams.batches import TupleBatch
from streams.codec import decode, encode
from streams.errors import InputError


@st.composite
def worlds(draw):
    """A field with costs of any size, and a plan for it."""
    columns, rows = draw(st.integers(1, 14)), draw(st.integers(1, 14))
    plan = random_plan(draw(st.integers(0, 10**6)), columns, rows, draw(st.integers(1, 8)), draw(st.integers(1, 20)))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    most = draw(st.sampled_from([1, 9, 10**9]))
    return random_field(random, rows, columns, draw(st.integers(0, 25)), most), plan


def _cuts(box):
    for axis in (0, 1):
        for position in range(box[axis], box[axis + 2]):
            yield axis, position, *halves(box, axis, position)


@given(worlds())
def test_load_counts_what_is_there(world):
    """Cost and queries are those of the box; there is a split unless it is a single cell."""
    field, plan = world
    for load in field.loads(plan):
        box = Partitions.of(plan).boxes[load.worker]
        assert load.cost == field.cost_of(box)
        assert load.queries == len(field.queries_of(box))
        assert load.version == plan.version
        assert (load.split is None) == (box[:2] == box[2:])


@given(worlds())
def test_split_divides_as_evenly_as_any_cut(world):
    """Over all positions of both axes none has a smaller difference; what it says of the parts is exact."""
    field, plan = world
    for load in field.loads(plan):
        box, split = Partitions.of(plan).boxes[load.worker], load.split
        if split is None:
            continue
        differences = [abs(field.cost_of(low) - field.cost_of(high)) for _, _, low, high in _cuts(box)]
        assert abs(split.low_cost - split.high_cost) == min(differences)
        low, high = halves(box, split.axis, split.position)
        assert (split.low_cost, split.high_cost) == (field.cost_of(low), field.cost_of(high))
        assert (split.low_queries, split.high_queries) == (len(field.queries_of(low)), len(field.queries_of(high)))


@given(worlds())
def test_corners_say_what_a_strip_holds(world):
    """Cost and queries of each strip are exact, and there are at most eight."""
    field, plan = world
    boxes = Partitions.of(plan).boxes
    for load in field.loads(plan):
        assert len(load.corners) <= 8
        for corner in load.corners:
            strip, _, _ = corner_strip(boxes[load.worker], boxes[corner.taker], corner.side)
            assert (corner.cost, corner.queries) == (field.cost_of(strip), len(field.queries_of(strip)))


@given(worlds(), st.integers(0, 15))
def test_knots_are_exact_and_evenly_spread(world, count):
    """What a knot says of both sides is exact; without a dear line between them, knots are a share of the cost apart."""
    field, plan = world
    for load in field.loads(plan, count):
        box = Partitions.of(plan).boxes[load.worker]
        for axis, knots in enumerate(load.knots):
            positions = [knot.position for knot in knots]
            assert positions == sorted(set(positions))
            assert len(positions) <= count
            if box[axis + 2] - box[axis] <= count:
                assert positions == list(range(box[axis], box[axis + 2]))
            for knot in knots:
                low, high = halves(box, axis, knot.position)
                assert knot.low_cost == field.cost_of(low)
                assert (knot.low_queries, knot.high_queries) == tuple(len(field.queries_of(p)) for p in (low, high))
            lines = [field.cost_of(_line(box, axis, place)) for place in range(box[axis], box[axis + 2] + 1)]
            steps = np.diff([0, *(knot.low_cost for knot in knots), load.cost])
            if count:
                assert max(steps) <= load.cost / (count + 1) + 1 + 2 * max(lines)


def _line(box, axis, place):
    line = list(box)
    line[axis] = line[axis + 2] = place
    return line


@given(worlds(), st.integers(0, 9))
def test_loads_come_back_from_the_wire(world, knots):
    """What is written, encoded, decoded and read is the same; batches may be put one after the other."""
    field, plan = world
    loads = field.loads(plan, knots)
    batches = [_sent(loads_to_batch([load])) for load in loads]
    assert loads_from_batch(TupleBatch.concat(batches)) == tuple(loads)
    assert loads_from_batch(_sent(loads_to_batch(loads))) == tuple(loads)


@given(worlds())
def test_cells_come_back_from_the_wire(world):
    """Statistics of cells survive as well, and give the loads that evaluators make themselves."""
    field, plan = world
    boxes = Partitions.of(plan).boxes
    cells = [CellStatistics.of_load(field.load(boxes[worker]), plan, worker) for worker in sorted(boxes)]
    back = cells_from_batch(TupleBatch.concat([_sent(cells_to_batch([one])) for one in cells]))
    assert [one.load(plan, 5) for one in back] == field.loads(plan, 5)
    assert all(np.array_equal(a.cost, b.cost) for a, b in zip(cells, back, strict=True))


def _sent(batch):
    (_, [(_, received)]) = decode(b"".join(bytes(part) for part in encode([("statistics", batch)])))
    return received


@given(st.lists(st.integers(0, 40), max_size=60), st.booleans())
def test_other_numbers_are_read_or_refused(values, wide):
    """Any numbers are an `InputError`, or statistics that are written as these very numbers."""
    given_ = np.array(values, np.int64 if wide else np.uint32)
    for read, write in ((loads_from_batch, loads_to_batch), (cells_from_batch, cells_to_batch)):
        try:
            found = read(TupleBatch(("value",), (given_,)))
        except InputError:
            continue
        assert write(found).columns[0].tolist() == values


@given(worlds(), st.data())
def test_cut_off_statistics_are_refused(world, data):
    """A message that ends too early is an error that says so."""
    field, plan = world
    box = Partitions.of(plan).boxes[int(plan.part_worker[0])]
    cells = CellStatistics.of_load(field.load(box), plan, int(plan.part_worker[0]))
    for batch, read in (
        (loads_to_batch(field.loads(plan)[:1]), loads_from_batch),
        (cells_to_batch([cells]), cells_from_batch),
    ):
        short = batch.slice(0, data.draw(st.integers(1, len(batch) - 1)))
        with pytest.raises(InputError, match="cut off"):
            read(short)
