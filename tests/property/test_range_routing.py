"""A-Grid, plain grid and R-tree against brute force over the boxes, on tilings of every make."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partitioners.builders.kd_decomposition import kd_decomposition
from partitioners.columns import Points, Regions
from partitioners.grids import a_grid as a_grid_module
from partitioners.grids.a_grid import AGrid
from partitioners.grids.adjacency import Adjacency, Side, corner_strip
from partitioners.grids.fine_grid import FineGrid
from partitioners.grids.plain_grid import PlainGrid
from partitioners.grids.r_tree import RTree
from partitioners.plans.broadcast import scrambled
from partitioners.plans.grid_plan import GridPlan
from streams.columns import sorted_rows
from streams.errors import InputError
from streams.geometry import Rect


@pytest.fixture(autouse=True, scope="module", params=[256, 3])
def _guide(request):
    """Run everything with a guide as fine as the grid, and with one so coarse that it is often wrong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(a_grid_module, "_BLOCKS", request.param)
        yield


def _kd(rng, columns, rows):
    return kd_decomposition(rng.integers(0, 9, (rows, columns)).astype(float), int(rng.integers(1, 40))).tolist()


def _guillotine(rng, box, stop=0.15):
    x0, y0, x1, y1 = box
    if box[:2] == box[2:] or rng.random() < stop:
        return [box]
    if y0 == y1 or (x0 < x1 and rng.random() < 0.5):
        cut = int(rng.integers(x0, x1))
        halves = (x0, y0, cut, y1), (cut + 1, y0, x1, y1)
    else:
        cut = int(rng.integers(y0, y1))
        halves = (x0, y0, x1, cut), (x0, cut + 1, x1, y1)
    return [part for half in halves for part in _guillotine(rng, half, stop)]


def _pinwheel(rng, box):
    """Five boxes around a centre, which no straight cut divides, turning either way; again inside of each."""
    x0, y0, x1, y1 = box
    if x1 - x0 < 2 or y1 - y0 < 2 or rng.random() < 0.15:
        return _guillotine(rng, box, 0.7)
    a, b = sorted(rng.choice(np.arange(x0, x1), 2, replace=False).tolist())
    c, d = sorted(rng.choice(np.arange(y0, y1), 2, replace=False).tolist())
    if rng.random() < 0.5:
        parts = [(x0, y0, b, c), (b + 1, y0, x1, d), (a + 1, d + 1, x1, y1), (x0, c + 1, a, y1)]
    else:
        parts = [(x0, y0, a, d), (a + 1, y0, x1, c), (b + 1, c + 1, x1, y1), (x0, d + 1, b, y1)]
    parts.append((a + 1, c + 1, b, d))
    return [small for part in parts for small in _pinwheel(rng, part)]


def _merged(rng, columns, rows):
    """Single cells and rectangles, merged pair by pair wherever two make a rectangle."""
    boxes = [(x, y, x, y) for y in range(rows) for x in range(columns)]
    for _ in range(int(rng.integers(0, 4 * len(boxes)))):
        i, j = rng.integers(0, len(boxes), 2).tolist()
        a, b = sorted((boxes[i], boxes[j]))
        beside = a[2] + 1 == b[0] and (a[1], a[3]) == (b[1], b[3])
        over = a[3] + 1 == b[1] and (a[0], a[2]) == (b[0], b[2])
        if i != j and (beside or over):
            boxes = [box for k, box in enumerate(boxes) if k not in (i, j)] + [(a[0], a[1], b[2], b[3])]
    return boxes


def _filled(rng, columns, rows):
    """Grow a rectangle of random size from a random free cell until none is left."""
    free, boxes = np.ones((rows, columns), bool), []
    while free.any():
        y0, x0 = (int(i) for i in rng.choice(np.argwhere(free)))
        x1, y1 = x0, y0
        for _ in range(int(rng.integers(0, 12))):
            wide = rng.random() < 0.5
            nx, ny = (x1 + 1, y1) if wide else (x1, y1 + 1)
            if nx < columns and ny < rows and free[y0 : ny + 1, x0 : nx + 1].all():
                x1, y1 = nx, ny
        free[y0 : y1 + 1, x0 : x1 + 1] = False
        boxes.append((x0, y0, x1, y1))
    return boxes


def _tiling(kind, rng, columns, rows):
    whole = (0, 0, columns - 1, rows - 1)
    boxes = {
        "kd": lambda: _kd(rng, columns, rows),
        "guillotine": lambda: _guillotine(rng, whole),
        "pinwheel": lambda: _pinwheel(rng, whole),
        "merged": lambda: _merged(rng, columns, rows),
        "filled": lambda: _filled(rng, columns, rows),
        "cells": lambda: [(x, y, x, y) for y in range(rows) for x in range(columns)],
        "one": lambda: [whole],
    }[kind]()
    return rng.permutation(np.array(boxes, np.int32))


KINDS = ("kd", "guillotine", "pinwheel", "merged", "filled", "cells", "one")
worlds = st.tuples(
    st.sampled_from(KINDS), st.integers(0, 2**32 - 1), st.integers(1, 17), st.integers(1, 17)
)  # kind, seed, columns, rows


def _coordinates(rng, size, count):
    """Borders of cells, neighbours of borders in float64, edges and beyond, and anything between."""
    border = rng.integers(-1, size + 2, count).astype(float)
    shifted = np.stack([border, np.nextafter(border, -9), np.nextafter(border, 99), border + rng.random(count)])
    return shifted[rng.integers(0, 4, count), np.arange(count)]


def _ranges(rng, columns, rows, count):
    x = np.sort(_coordinates(rng, columns, 2 * count).reshape(2, -1), axis=0)
    y = np.sort(_coordinates(rng, rows, 2 * count).reshape(2, -1), axis=0)
    point = rng.random((2, count)) < 0.2
    return x[0], y[0], np.where(point[0], x[0], x[1]), np.where(point[1], y[0], y[1])


def _by_definition(boxes, columns, rows, low_x, low_y, high_x, high_y):
    """Return the partitions that own a point of a range; cells are unit squares, half-open but at the last edges."""
    if high_x < 0 or low_x > columns or high_y < 0 or low_y > rows or high_x < low_x or high_y < low_y:
        return []
    found = []
    for number, (x0, y0, x1, y1) in enumerate(boxes.tolist()):
        across = high_x >= x0 and (low_x < x1 + 1 or x1 == columns - 1)
        along = high_y >= y0 and (low_y < y1 + 1 or y1 == rows - 1)
        if across and along:
            found.append(number)
    return found


def _routers(grid, boxes):
    return (
        AGrid.of_boxes(grid, boxes),
        PlainGrid.of_boxes(grid, boxes),
        RTree.of_boxes(grid, boxes),
        RTree.of_boxes(grid, boxes, fanout=2),
    )


def _rows(routes):
    off, values = routes
    return [values[a:b].tolist() for a, b in pairwise(off.tolist())]


@settings(max_examples=300, deadline=None)
@given(world=worlds)
def test_range_routers_find_exactly_the_overlapping_partitions(world):
    """Every router returns the set of the definition, ascending, for ranges anywhere."""
    kind, seed, columns, rows = world
    rng = np.random.default_rng(seed)
    grid, boxes = FineGrid(Rect(0, 0, columns, rows), columns, rows), _tiling(kind, rng, columns, rows)
    bounds = _ranges(rng, columns, rows, 40)
    expected = [_by_definition(boxes, columns, rows, *one) for one in zip(*bounds, strict=True)]
    for router in _routers(grid, boxes):
        assert router.partitions == len(boxes)
        assert _rows(router.route_ranges(*bounds)) == expected


@settings(max_examples=100, deadline=None)
@given(world=worlds)
def test_range_routers_find_the_partition_of_every_point(world):
    """Every router sends a point to the partition that owns it, or that is nearest to one outside."""
    kind, seed, columns, rows = world
    rng = np.random.default_rng(seed)
    grid, boxes = FineGrid(Rect(0, 0, columns, rows), columns, rows), _tiling(kind, rng, columns, rows)
    x, y = _coordinates(rng, columns, 60), _coordinates(rng, rows, 60)
    near_x, near_y = np.clip(x, 0, columns), np.clip(y, 0, rows)
    expected = [_by_definition(boxes, columns, rows, *at, *at) for at in zip(near_x, near_y, strict=True)]
    for router in _routers(grid, boxes):
        assert [[p] for p in router.route_points(x, y).tolist()] == expected


@settings(max_examples=100, deadline=None)
@given(world=worlds)
def test_range_routers_agree_with_points_where_cells_are_no_round_numbers(world):
    """On a space whose borders float64 cannot hold, a point inside of a range is at one of the range's partitions."""
    kind, seed, columns, rows = world
    rng = np.random.default_rng(seed)
    space = Rect(-180.0, -90.1, 180.0, 89.9)
    grid, boxes = FineGrid(space, columns, rows), _tiling(kind, rng, columns, rows)
    x = np.sort(space.min_x + rng.integers(0, columns + 1, (3, 50)) * (360.0 / columns), axis=0)
    y = np.sort(space.min_y + rng.integers(0, rows + 1, (3, 50)) * (180.0 / rows), axis=0)
    x, y = np.clip(x, space.min_x, space.max_x), np.clip(y, space.min_y, space.max_y)
    first, *others = _routers(grid, boxes)
    found, owner = _rows(first.route_ranges(x[0], y[0], x[2], y[2])), first.route_points(x[1], y[1]).tolist()
    assert all(p in row for p, row in zip(owner, found, strict=True))
    for router in others:
        assert _rows(router.route_ranges(x[0], y[0], x[2], y[2])) == found
        assert router.route_points(x[1], y[1]).tolist() == owner


def _parted(rng, grid, boxes, workers):
    """Return a plan whose boxes divide their keywords, some into one part only; with ranges that leave gaps to the hash."""
    parts = []
    for _ in boxes:
        count = int(rng.integers(1, 4))
        start = np.sort(rng.choice(12, int(rng.integers(0, 5)) if count > 1 else 0, replace=False))
        part = rng.integers(-1, count, len(start)).astype(np.int32)
        parts.append((start, part, rng.integers(0, workers, count).astype(np.int32)))
    return GridPlan.of_parts(grid, boxes, parts, workers, anchored=bool(rng.integers(2)))


def _plan(rng, grid, boxes):
    """Return a plan over these boxes: with a worker for each in order or not, anchored or not, or divided by keywords."""
    workers = int(rng.integers(1, 9))
    match int(rng.integers(3)):
        case 0:
            return GridPlan.of_boxes(grid, boxes, np.arange(len(boxes)), len(boxes))
        case 1:
            worker = rng.integers(0, workers, len(boxes))
            return GridPlan.of_boxes(grid, boxes, worker, workers, anchored=bool(rng.integers(2)))
        case _:
            return _parted(rng, grid, boxes, workers)


def _workers_by_definition(plan, boxes, words, by_all, otherwise):
    """Return the workers of a row by the rules of keyword parts; `otherwise` gives the parts of a row without keywords."""
    found = set()
    for b in boxes:
        first, parts = int(plan.part_off[b]), int(plan.part_off[b + 1] - plan.part_off[b])
        low, high = plan.range_off[b : b + 2].tolist()
        for word in words if by_all else words[-1:]:
            said = [
                part
                for at, part in zip(plan.range_start[low:high], plan.range_part[low:high], strict=True)
                if at <= word
            ]
            part = said[-1] if said and said[-1] >= 0 else scrambled(np.array([word]), parts)[0]
            found.add(int(plan.part_worker[first + int(part)]))
        if not words:
            found |= {int(plan.part_worker[first + part]) for part in otherwise(parts)}
    return sorted(found)


@settings(max_examples=200, deadline=None)
@given(world=worlds)
def test_grid_plan_routes_by_its_definition(world):
    """Points and ranges of any grid plan, also outside of the space, go where boxes and keyword parts say."""
    kind, seed, columns, rows = world
    rng = np.random.default_rng(seed)
    grid = FineGrid(Rect(0, 0, columns, rows), columns, rows)
    plan = _plan(rng, grid, _tiling(kind, rng, columns, rows))
    whole, space = range(len(plan.boxes)), (columns, rows)
    row = np.repeat(np.arange(30), rng.integers(0, 4, 30))
    kw_off, kw = sorted_rows(row, rng.integers(0, 14, len(row)), 30)
    words = _rows((kw_off, kw))

    def near(low_x, low_y, high_x, high_y):
        edges = np.clip([low_x, high_x], 0, columns), np.clip([low_y, high_y], 0, rows)
        return _by_definition(plan.boxes, *space, edges[0][0], edges[1][0], edges[0][1], edges[1][1])

    x, y = _coordinates(rng, columns, 30), _coordinates(rng, rows, 30)
    hashed = x.view(np.int64) ^ (y.view(np.int64) >> 7)
    found = _rows(plan.route_points(Points.of(x, y, kw_off, kw)))
    for i in range(30):
        boxes = whole if plan.anchored else near(x[i], y[i], x[i], y[i])
        scattered = hashed[i : i + 1]
        assert found[i] == _workers_by_definition(
            plan, boxes, words[i], True, lambda parts, h=scattered: scrambled(h, parts)
        )
    bounds = _ranges(rng, columns, rows, 30)
    match_any = rng.random(30) < 0.5
    found = _rows(plan.route_regions(Regions.of(bounds, kw_off, kw, match_any, at=(x, y))))
    for i, edges in enumerate(zip(*bounds, strict=True)):
        boxes = near(x[i], y[i], x[i], y[i]) if plan.anchored else near(*edges)
        assert found[i] == _workers_by_definition(plan, boxes, words[i], match_any[i], range)


def _algorithm_1(boxes, columns, rows, box):
    """Tornado's Algorithm 1 to the letter (mirrored): a stack, dominant cells, marks; and how often it looked."""
    owner = np.zeros((rows, columns), int)
    for number, (x0, y0, x1, y1) in enumerate(boxes.tolist()):
        owner[y0 : y1 + 1, x0 : x1 + 1] = number

    def dominant(cell):
        x, y = cell
        if x > box[2] or y > box[3]:
            return cell
        p = boxes[owner[y, x]]
        return max(p[0], box[0]), max(p[1], box[1])

    stack, visited, looks = [(box[0], box[1])], set(), 0
    while stack:
        x, y = stack.pop()
        looks += 1
        if x <= box[2] and y <= box[3] and owner[y, x] not in visited:
            p = owner[y, x]
            visited.add(int(p))
            stack += [dominant((x, boxes[p, 3] + 1)), dominant((boxes[p, 2] + 1, y))]
    return sorted(visited), looks


@settings(max_examples=200, deadline=None)
@given(world=worlds)
def test_a_grid_gives_what_algorithm_1_gives(world):
    """The paper's algorithm misses no partition of any tiling, in 2 N_p + 1 looks, and ours finds the same."""
    kind, seed, columns, rows = world
    rng = np.random.default_rng(seed)
    boxes = _tiling(kind, rng, columns, rows)
    x, y = np.sort(rng.integers(0, columns, (2, 20)), axis=0), np.sort(rng.integers(0, rows, (2, 20)), axis=0)
    a_grid = AGrid.of_boxes(FineGrid(Rect(0, 0, columns, rows), columns, rows), boxes)
    found = _rows(a_grid.route_ranges(x[0] + 0.5, y[0] + 0.5, x[1] + 0.5, y[1] + 0.5))
    for row, box in zip(found, zip(x[0], y[0], x[1], y[1], strict=True), strict=True):
        literal, looks = _algorithm_1(boxes, columns, rows, box)
        assert row == literal == _by_definition(boxes, columns, rows, *(edge + 0.5 for edge in box))
        assert looks == 2 * len(row) + 1


@settings(max_examples=150, deadline=None)
@given(world=worlds, other=st.sampled_from(KINDS))
def test_a_grid_with_other_boxes_is_the_one_made_of_them(world, other):
    """Repainting what changed gives the same cells and the same map as painting everything, and leaves the old alone."""
    kind, seed, columns, rows = world
    rng = np.random.default_rng(seed)
    grid = FineGrid(Rect(0, 0, columns, rows), columns, rows)
    old, new = _tiling(kind, rng, columns, rows), _tiling(other, rng, columns, rows)
    before = AGrid.of_boxes(grid, old)
    cells = before.owner.copy()
    after, fresh = before.with_boxes(new), AGrid.of_boxes(grid, new)
    for name in ("boxes", "owner", "table", "beside", "guide"):
        assert np.array_equal(getattr(after, name), getattr(fresh, name))
        assert not getattr(after, name).flags.writeable
    assert np.array_equal(before.owner, cells)


@settings(max_examples=150, deadline=None)
@given(world=worlds, edge=st.integers(0, 3), step=st.sampled_from([-1, 1]))
def test_a_grid_refuses_boxes_that_are_no_tiling(world, edge, step):
    """Moving one edge of one box leaves a gap or an overlap, which is noticed; or the box is impossible by itself."""
    kind, seed, columns, rows = world
    rng = np.random.default_rng(seed)
    grid = FineGrid(Rect(0, 0, columns, rows), columns, rows)
    boxes = _tiling(kind, rng, columns, rows)
    a_grid = AGrid.of_boxes(grid, boxes)
    broken = boxes.copy()
    broken[rng.integers(len(boxes)), edge] += step
    for make in (a_grid.with_boxes, lambda b: AGrid.of_boxes(grid, b)):
        with pytest.raises(InputError):
            make(broken)


def _borders(owner, rows, columns, p):
    """Find the neighbours of a partition cell by cell."""
    cells = owner.reshape(rows, columns)
    found = set()
    for y, x in np.argwhere(cells == p).tolist():
        for side, dx, dy in ((Side.LEFT, -1, 0), (Side.RIGHT, 1, 0), (Side.BELOW, 0, -1), (Side.ABOVE, 0, 1)):
            if 0 <= x + dx < columns and 0 <= y + dy < rows and cells[y + dy, x + dx] != p:
                found.add((int(cells[y + dy, x + dx]), side))
    return found


def _joined(a, b):
    both = (min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))
    area = sum((box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (a, b))
    return both if (both[2] - both[0] + 1) * (both[3] - both[1] + 1) == area else None


def _strips(giver, taker):
    """Try every cut across the giver: the parts that the taker can take so that both stay rectangles."""
    x0, y0, x1, y1 = giver
    parts = [(x0, y0, x, y1) for x in range(x0, x1)] + [(x + 1, y0, x1, y1) for x in range(x0, x1)]
    parts += [(x0, y0, x1, y) for y in range(y0, y1)] + [(x0, y + 1, x1, y1) for y in range(y0, y1)]
    return [part for part in parts if _joined(part, taker)]


@settings(max_examples=100, deadline=None)
@given(world=worlds)
def test_neighbours_are_those_that_share_a_border_and_say_what_can_move(world):
    """Neighbours, mergeable ones and corner shifts are what trying every cell and every cut finds."""
    kind, seed, columns, rows = world
    boxes = _tiling(kind, np.random.default_rng(seed), columns, rows)
    grid = FineGrid(Rect(0, 0, columns, rows), columns, rows)
    a_grid = AGrid.of_boxes(grid, boxes)
    for p in range(min(len(boxes), 12)):
        near = a_grid.neighbours(p)
        assert {(n.partition, n.side) for n in near} == _borders(a_grid.owner, rows, columns, p)
        assert len(near) == len({n.partition for n in near})
        assert sum(n.adjacency is Adjacency.CORNER for n in near) <= 8
        for n in near:
            giver, taker = tuple(boxes[p].tolist()), tuple(boxes[n.partition].tolist())
            assert n.mergeable == (_joined(giver, taker) is not None)
            strips = _strips(giver, taker)
            if n.adjacency is Adjacency.CORNER:
                strip, rest, grown = corner_strip(giver, taker, n.side)
                assert strips == [strip]
                shifted = boxes.copy()
                shifted[p], shifted[n.partition] = rest, grown
                after = a_grid.with_boxes(shifted)
                assert np.array_equal(after.table, AGrid.of_boxes(grid, shifted).table)
            elif n.adjacency is Adjacency.PART:
                assert strips == []
