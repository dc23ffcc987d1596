"""Plan files: whole or refused."""

import hashlib
import struct

import msgpack
import numpy as np
import pytest

from partitioners import (
    FineGrid,
    GridPlan,
    HashPlan,
    ObjectSample,
    QuerySample,
    ReplicatePlan,
    Statistics,
    build_plan,
    load,
    save,
)
from partitioners.builders.kd_decomposition import kd_plan, uniform_plan
from partitioners.columns import Points, Regions
from partitioners.plans.frames import FRAME_HEAD, packed_array
from partitioners.plans.plan import FORMAT_VERSION, pack
from streams.errors import InputError
from streams.geometry import Rect

SPACE = Rect(0.0, 0.0, 2.0, 1.0)
BOX = np.array([[0, 0, 3, 3]])


def _file(body, version=FORMAT_VERSION, magic=b"WSPLAN\r\n"):
    head = magic + struct.pack("<H", version)
    raw = body if isinstance(body, bytes) else msgpack.packb(body)
    return head + hashlib.blake2b(head + raw, digest_size=32).digest() + raw


def _body(**changes):
    body = {"kind": "hash", "version": 1, "space": [0, 0, 1, 1], "workers": 3, "values": {}, "arrays": {}}
    return body | changes


def test_plan_file_notices_every_flipped_bit(tmp_path):
    """A plan with any bit of its file turned over is refused."""
    path = tmp_path / "a.plan"
    save(kd_plan(FineGrid(SPACE, 4, 3), np.arange(12.0).reshape(3, 4), 3), path)
    whole = path.read_bytes()
    assert load(path).workers == 3
    for place in range(len(whole)):
        for bit in range(8):
            broken = bytearray(whole)
            broken[place] ^= 1 << bit
            path.write_bytes(broken)
            with pytest.raises(InputError):
                load(path)


def test_assignment_from_before_there_were_costs_is_read_without_them(tmp_path):
    """A plan of an older make has no column of costs: its subscriptions are not priced, and all else is as it was."""
    rows = np.arange(3)
    queries = QuerySample(
        rows, *(np.zeros(3, np.uint8),) * 3, *(rows / 3,) * 6, rows + 1, rows, rows, np.arange(4), rows
    )
    objects = ObjectSample(rows / 3, rows / 3, np.arange(4), rows)
    plan = build_plan("kop", Statistics(FineGrid(SPACE, 4, 4), objects, queries), 2)
    body = msgpack.unpackb(pack(plan)[FRAME_HEAD:])
    del body["arrays"]["cost"]
    (path := tmp_path / "old.plan").write_bytes(_file(body))
    old = load(path)
    assert old.assigned.tolist() == plan.assigned.tolist()
    assert np.isnan(old.cost).all()
    assert len(old.cost) == 3
    body["arrays"]["cost"] = packed_array(np.zeros(2, np.float32))
    path.write_bytes(_file(body))
    with pytest.raises(InputError, match="a cost for each subscription"):
        load(path)


def test_plan_file_notices_every_missing_end(tmp_path):
    """A plan file that was cut off or lengthened anywhere is refused."""
    path = tmp_path / "a.plan"
    save(HashPlan(SPACE, 4), path)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"a\.plan"):
            load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(InputError, match="checksum"):
        load(path)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a plan file"),
        (b"id,ts,x,y\n1,2,3,4\n" * 9, "waterspout build"),
        (_file(_body(), version=7), "format 7, expected 1"),
        (_file(b"\xc1"), "not a plan of ours"),
        (_file(_body(kind="hsah")), r"unknown kind 'hsah' \(did you mean 'hash'\?\)"),
        (_file(_body(workers=0)), "0 workers"),
        (_file(_body(version=0)), "versions start at 1"),
        (_file(_body(space=[0, 0, 0, 1])), "is empty"),
        (_file(_body(values={"surprise": 1})), "not a plan of ours"),
        (_file(_body(arrays={"owner": ["|O", [1], b"12345678"]})), r"type '\|O'"),
        (_file(_body(arrays={"owner": ["<i4", [3], b"1234"]})), "4 bytes"),
        (_file(_body(arrays={"owner": ["<i4", [-1, -1], b"1234"]})), "4 bytes"),
    ],
)
def test_plan_file_of_another_make_is_refused_with_a_reason(tmp_path, data, says):
    """What is no plan of this version is refused, and the message names the file and the reason."""
    path = tmp_path / "b.plan"
    path.write_bytes(data)
    with pytest.raises(InputError, match=says) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_plan_file_that_is_not_there_is_an_input_error(tmp_path):
    """A missing file and a directory that cannot be written are input errors too."""
    with pytest.raises(InputError, match="cannot read the plan"):
        load(tmp_path / "none.plan")
    with pytest.raises(InputError, match="cannot write the plan"):
        save(HashPlan(SPACE, 1), tmp_path / "no" / "such" / "place.plan")


def test_plan_file_is_replaced_whole(tmp_path):
    """Saving over a plan leaves the new plan and no partial file."""
    path = tmp_path / "a.plan"
    save(HashPlan(SPACE, 2), path)
    save(ReplicatePlan(SPACE, 5, version=3), path)
    assert (load(path).kind, load(path).workers, load(path).version) == ("replicate", 5, 3)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.plan"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"boxes": np.array([[0, 0, 1, 1]])}, "column 2, row 0 belongs to 0 partitions"),
        (
            {"boxes": np.array([[0, 0, 3, 2], [0, 2, 3, 3]]), "worker": np.array([0, 1])},
            "row 2 belongs to 2 partitions",
        ),
        ({"boxes": np.array([[0, 0, 4, 3]])}, "expected 0..3"),
        ({"boxes": np.array([[2, 0, 1, 3]])}, "ends before it begins"),
        ({"boxes": np.empty((0, 4), np.int32), "worker": np.empty(0, np.int32)}, "expected 1 to 65,535 rows"),
        ({"worker": np.array([2])}, "expected 0..1"),
        ({"worker": np.array([0, 1])}, "offsets"),
    ],
)
def test_grid_plan_that_covers_no_space_exactly_is_refused(changes, says):
    """Gaps, overlaps, boxes outside of the grid and workers that do not exist are errors."""
    parts = {"grid": FineGrid(SPACE, 4, 4), "boxes": BOX, "worker": np.array([0]), "workers": 2} | changes
    with pytest.raises(InputError, match=says):
        GridPlan.of_boxes(**parts)


@pytest.mark.parametrize(
    ("start", "part", "says"),
    [([0, 5], [0, 2], "part that its box does not have"), ([5, 0], [0, 1], "do not ascend"), ([0], [-2], "part")],
)
def test_grid_plan_with_impossible_keyword_ranges_is_refused(start, part, says):
    """Keyword ranges must ascend and name parts of their box."""
    parts = [(np.array(start), np.array(part, np.int32), np.array([0, 1], np.int32))]
    with pytest.raises(InputError, match=says):
        GridPlan.of_parts(FineGrid(SPACE, 4, 4), BOX, parts, 2)


def test_plan_columns_are_the_plans_own():
    """A plan's arrays are read-only copies: neither the builder's array nor the plan's can change it."""
    boxes, worker = BOX.astype(np.int32), np.array([1], np.int32)
    plan = GridPlan.of_boxes(FineGrid(SPACE, 4, 4), boxes, worker, 2)
    worker[0] = 0
    assert plan.part_worker.tolist() == [1]
    with pytest.raises(ValueError, match="read-only"):
        plan.part_worker[0] = 0


def test_points_and_regions_refuse_columns_of_different_lengths():
    """What plans route is checked when it is made, because kernels do not check."""
    none = np.empty(0, np.int64)
    with pytest.raises(InputError, match="'y' has 1 rows"):
        Points.of(np.zeros(2), np.zeros(1), np.zeros(3, np.int32), none)
    with pytest.raises(InputError, match="offsets"):
        Points.of(np.zeros(1), np.zeros(1), np.array([0, 4], np.int32), none)
    with pytest.raises(InputError, match="expected 2"):
        Points.of(np.zeros(2), np.zeros(2), np.zeros(2, np.int32), none)
    z = np.zeros(1)
    with pytest.raises(InputError, match="match_any"):
        Regions.of((z, z, z, z), np.zeros(2, np.int32), none, np.zeros(2, np.bool_))


def test_uniform_plan_divides_the_space_equally():
    """Boxes of a uniform plan have the same number of cells where the number of workers allows."""
    for workers in (1, 2, 4, 6, 8, 12):
        plan = uniform_plan(FineGrid(SPACE, 24, 24), workers)
        area = (plan.boxes[:, 2] - plan.boxes[:, 0] + 1) * (plan.boxes[:, 3] - plan.boxes[:, 1] + 1)
        assert area.tolist() == [24 * 24 // workers] * workers
        assert sorted(plan.part_worker.tolist()) == list(range(workers))
