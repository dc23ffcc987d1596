"""Tornado's operations and decisions on random fields and tilings, against brute force over the cells."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rebalancing_model import OPERATIONS, moved_boxes, next_plan, random_field, random_plan

from operators.balancing.tornado import (
    BorderShift,
    CellStatistics,
    CornerShiftOperation,
    SplitMerge,
    apply,
    candidates,
    moves,
    shift_position,
)
from operators.balancing.tornado.borders import borders_of
from operators.balancing.tornado.estimates import FieldEstimate
from operators.balancing.tornado.partitions import Partitions
from operators.balancing.tornado.plan_changes import changed
from operators.balancing.tornado.proposals import Draft, proposals
from operators.balancing.tornado.random_moves import decide_at_random, valid_operations
from operators.balancing.tornado.settings import TornadoSettings
from partitioners.grids.adjacency import Adjacency, Side, neighbours_of

#: No threshold, no least gain: every operation that helps at all is of interest.
EAGER = TornadoSettings(beta=0.0, threshold=1.0, gain=0.0)


@st.composite
def worlds(draw):
    """A field, and a plan for it: partitions on up to 12 x 12 cells and some idle workers."""
    columns, rows = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    workers = draw(st.integers(1, 9))
    plan = random_plan(draw(st.integers(0, 10**6)), columns, rows, workers, draw(st.integers(1, 24)))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    return random_field(random, rows, columns, draw(st.integers(0, 25))), plan


def _owners(plan):
    """Return the worker of each cell."""
    return plan.part_worker[plan.a_grid.owner].reshape(plan.rows, plan.columns)


def _union(one, other):
    box = (min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3]))
    return box if _cells(box) == _cells(one) + _cells(other) else None


def _cells(box):
    return (box[2] - box[0] + 1) * (box[3] - box[1] + 1)


@given(worlds(), st.floats(0, 2))
def test_candidates_reduce_by_what_brute_force_finds(world, beta):
    """C_r of split/merges and corner shifts is the fall of the largest cost involved; C_t is beta times what moves."""
    field, plan = world
    for operation in candidates(field.loads(plan), plan, beta):
        if isinstance(operation, BorderShift):
            continue
        before, after = field.costs(plan), field.costs(apply(plan, [operation]))
        largest = [max(costs[w] for w in operation.workers if w in costs) for costs in (before, after)]
        assert operation.reduction == largest[0] - largest[1] > 0
        moved = sum(len(field.queries_of(box)) for box in moved_boxes(plan, operation) if box is not None)
        assert operation.overhead == beta * moved


@given(worlds())
def test_candidates_leave_out_nothing_of_the_paper(world):
    """Every split with every merge, every shift and every corner shift that helps is among the candidates."""
    field, plan = world
    boxes, costs = Partitions.of(plan).boxes, field.costs(plan)
    found = candidates(field.loads(plan), plan, 1.0)
    splits = {s.worker: s.split for s in field.loads(plan) if s.split is not None}
    pairs = [{y, z} for y in boxes for z in boxes if y < z and _union(boxes[y], boxes[z]) is not None]
    expected = {
        (x, *sorted(pair))
        for x, split in splits.items()
        for pair in pairs
        if x not in pair and max(split.low_cost, split.high_cost, sum(costs[w] for w in pair)) < costs[x]
    }
    assert {(o.giver, *sorted((o.keeper, o.freed))) for o in found if isinstance(o, SplitMerge)} == expected
    shifts = {(o.givers[0], o.takers[0]) for o in found if isinstance(o, BorderShift)}
    wide = {w: (boxes[w][2] > boxes[w][0], boxes[w][3] > boxes[w][1]) for w in boxes}
    assert shifts == {
        (a, b)
        for pair in pairs
        for a, b in (tuple(pair), tuple(pair)[::-1])
        if costs[a] > costs[b] and wide[a][0 if boxes[a][1] == boxes[b][1] and boxes[a][3] == boxes[b][3] else 1]
    }
    corners = {(o.giver, o.taker, o.side) for o in found if isinstance(o, CornerShiftOperation)}
    helpful = set()
    for giver in boxes:
        for n in neighbours_of(plan.boxes, Partitions.of(plan).numbers[giver]):
            if n.adjacency is Adjacency.CORNER:
                taker = int(plan.part_worker[n.partition])
                after = field.costs(apply(plan, [CornerShiftOperation(giver, taker, n.side)]))
                if max(after[giver], after[taker]) < costs[giver]:
                    helpful.add((giver, taker, n.side))
    assert corners == helpful


@given(worlds())
def test_candidates_estimate_shifts_as_the_paper_does(world):
    """C_r is half of the difference, C_t the share of the queries that goes with that share of the cost."""
    field, plan = world
    costs, queries = field.costs(plan), {s.worker: s.queries for s in field.loads(plan)}
    for operation in candidates(field.loads(plan), plan, 2.0):
        if isinstance(operation, BorderShift):
            a, b = costs[operation.givers[0]], costs[operation.takers[0]]
            assert operation.position is None
            assert operation.reduction == a - (a + b) / 2
            assert np.isclose(operation.overhead, 2.0 * queries[operation.givers[0]] * (a - (a + b) / 2) / a)


@given(worlds(), st.integers(0, 200), st.sampled_from(list(Side)), st.data())
def test_shift_position_minimises_the_larger_cost(world, taker_cost, side, data):
    """No other position divides the cost of giver and taker more evenly, and of equal ones it moves the least."""
    field, plan = world
    boxes = Partitions.of(plan).boxes
    box = boxes[data.draw(st.sampled_from(sorted(boxes)))]
    axis = 0 if side in (Side.LEFT, Side.RIGHT) else 1
    choices = []
    for position in range(box[axis], box[axis + 2]):
        low, high = list(box), list(box)
        low[axis + 2], high[axis] = position, position + 1
        given_, kept = (high, low) if side in (Side.RIGHT, Side.ABOVE) else (low, high)
        larger = max(field.cost_of(kept), taker_cost + field.cost_of(given_))
        if larger < max(field.cost_of(box), taker_cost):
            choices.append((larger, _cells(given_), position))
    expected = min(choices)[-1] if choices else None
    assert shift_position(field.load(box), box, side, taker_cost) == expected


@given(worlds())
def test_borders_have_whole_sides_on_both_sides(world):
    """What lies along a border covers the same extent on both sides, and pairs that can merge have one of their own."""
    _, plan = world
    boxes = Partitions.of(plan).boxes
    for border in borders_of(boxes):
        axis, across = border.axis, 1 - border.axis
        assert all(boxes[w][axis + 2] == border.position for w in border.low)
        assert all(boxes[w][axis] == border.position + 1 for w in border.high)
        sides = [
            sorted(i for w in side for i in range(boxes[w][across], boxes[w][across + 2] + 1))
            for side in (border.low, border.high)
        ]
        assert sides[0] == sides[1] == list(range(sides[0][0], sides[0][-1] + 1))
    whole = {frozenset(b.low + b.high) for b in borders_of(boxes) if b.whole}
    assert whole == {frozenset((y, z)) for y in boxes for z in boxes if y < z and _union(boxes[y], boxes[z])}


@given(worlds(), st.integers(0, 12))
def test_field_estimate_bounds_hold_for_any_box(world, knots):
    """Whatever box is asked for, its cost and its queries stay within the bounds, and bands at knots are exact."""
    field, plan = world
    boxes = Partitions.of(plan).boxes
    estimate = FieldEstimate({s.worker: s for s in field.loads(plan, knots)}, boxes)
    random = np.random.default_rng(knots)
    for _ in range(20):
        x = sorted(random.integers(0, plan.columns, 2).tolist())
        y = sorted(random.integers(0, plan.rows, 2).tolist())
        box = (x[0], y[0], x[1], y[1])
        assert estimate.cost_at_most(box) >= field.cost_of(box)
        assert estimate.queries_at_most(box) >= len(field.queries_of(box))
    for box in boxes.values():
        assert estimate.cost_at_most(box) == field.cost_of(box)
        assert estimate.queries_at_most(box) == len(field.queries_of(box))
        if knots >= max(plan.columns, plan.rows):
            for axis in (0, 1):
                bands = [list(box) for _ in range(box[axis], box[axis + 2] + 1)]
                for place, band in enumerate(bands):
                    band[axis + 2] = box[axis] + place
                assert np.allclose(estimate.running(box, axis)[1:], [field.cost_of(band) for band in bands])


@given(worlds())
def test_proposals_on_counted_boxes_are_exact(world):
    """Before anything has moved, with a knot at every line, C_r is what brute force finds wherever one band moves."""
    field, plan = world
    partitions, loads = Partitions.of(plan), {s.worker: s for s in field.loads(plan)}
    costs = field.costs(plan)
    draft = Draft(
        partitions.boxes,
        {worker: float(cost) for worker, cost in costs.items()},
        partitions.idle,
        loads,
        FieldEstimate(loads, partitions.boxes),
        frozenset(loads),
    )
    for proposal in proposals(draft):
        operation = proposal.operation
        after = changed(partitions.boxes, operation)
        if isinstance(operation, SplitMerge):
            kept, freed = (
                draft.field.queries_at_most(partitions.boxes[w]) for w in (operation.keeper, operation.freed)
            )
            assert freed <= kept  # of two that merge, the one with fewer queries gives them away
        if isinstance(operation, BorderShift) and len(operation.takers) > 1:
            continue
        expected = {worker: field.cost_of(after[worker]) for worker in proposal.costs}
        assert np.allclose([proposal.costs[w] for w in expected], list(expected.values()))
        before = max(costs.get(worker, 0) for worker in operation.workers)
        assert np.isclose(proposal.reduction, before - max(expected.values()))


@settings(max_examples=60)
@given(worlds(), st.sampled_from(["tornado", "tornado-paper"]), st.sampled_from([0.0, 0.2]), st.integers(0, 12))
def test_decisions_never_make_it_worse_and_come_to_rest(world, name, beta, knots):
    """Costs in descending order fall with every round that moves something, until nothing is decided any more."""
    field, plan = world
    how = TornadoSettings(beta=beta, threshold=1.0, gain=0.0, knots=knots, minimal_cost=0)
    for _ in range(200):
        operations, following = next_plan(field, plan, name, how)
        assert all(operation.reduction > operation.overhead for operation in operations)
        if not moves(plan, following):
            break
        before, after = (sorted(field.costs(p).values(), reverse=True) for p in (plan, following))
        idle = len(after) - len(before)
        assert after < before + [0] * idle
        assert following.version == plan.version + 1
        plan = following
    else:
        raise AssertionError("no rest after 200 rounds")


@given(worlds(), st.integers(1, 6))
def test_decisions_of_the_paper_involve_nobody_twice(world, limit):
    """With several operations a round, no worker is in two of them, and all can be applied in any order."""
    field, plan = world
    how = TornadoSettings(beta=0.1, threshold=1.0, operations=limit)
    operations = OPERATIONS["tornado-paper"](field.loads(plan), plan, how)
    assert len(operations) <= limit
    involved = [worker for operation in operations for worker in operation.workers]
    assert len(involved) == len(set(involved))
    placed = [o for o in operations if not isinstance(o, BorderShift)]
    there, back = apply(plan, placed), apply(plan, placed[::-1])
    assert np.array_equal(_owners(there), _owners(back))


@given(worlds())
def test_decisions_are_the_same_from_cells(world):
    """The centralised variant decides what the distributed one does."""
    field, plan = world
    boxes = Partitions.of(plan).boxes
    cells = [CellStatistics.of_load(field.load(boxes[worker]), plan, worker) for worker in sorted(boxes)]
    assert [c.load(plan, 7) for c in cells] == field.loads(plan, 7)
    expected = OPERATIONS["tornado"](field.loads(plan), plan, EAGER)
    assert OPERATIONS["tornado-centralised"](cells, plan, EAGER) == expected


@given(worlds(), st.integers(0, 10**6), st.integers(1, 8))
def test_random_moves_are_valid_and_repeatable(world, seed, count):
    """Any number of random operations gives a plan that covers the space, the same for the same seed."""
    _, plan = world
    operations = decide_at_random(plan, seed, count)
    assert operations == decide_at_random(plan, seed, count)
    assert bool(operations) == bool(
        valid_operations(Partitions.of(plan).boxes, Partitions.of(plan).idle, np.random.default_rng(0))
    )
    new = apply(plan, operations)
    Partitions.of(new)
    assert new.version == plan.version + 1


@given(worlds(), st.integers(0, 10**6))
def test_moves_are_the_cells_that_change_hands(world, seed):
    """Every cell with another worker is in exactly one move, with its giver and its taker; no other cell is."""
    _, plan = world
    new = apply(plan, decide_at_random(plan, seed, 5))
    owners, covered = _owners(plan).copy(), np.zeros((plan.rows, plan.columns), int)
    for giver, taker, (x0, y0, x1, y1) in moves(plan, new):
        part = (slice(y0, y1 + 1), slice(x0, x1 + 1))
        assert giver != taker
        assert (owners[part] == giver).all()
        owners[part] = taker
        covered[part] += 1
    assert np.array_equal(owners, _owners(new))
    assert np.array_equal(covered, (_owners(plan) != _owners(new)).astype(int))


@given(worlds(), st.integers(0, 10**6))
def test_partitions_keep_their_numbers(world, seed):
    """A worker that has a partition before and after has the same one."""
    _, plan = world
    new = apply(plan, decide_at_random(plan, seed, 1))
    before, after = Partitions.of(plan).numbers, Partitions.of(new).numbers
    freed = {int(w) for w in before if before[w] != after.get(w)}
    (operation,) = decide_at_random(plan, seed, 1) or (None,)
    assert freed <= ({operation.freed} if isinstance(operation, SplitMerge) else set())
