"""Streams of moving objects, without Spark."""

import json

import numpy as np
import pytest

from pipeline.moving_objects import MovingSpec, moving_states, state_lines
from pipeline.workloads import SourceObjects
from streams.errors import DeclarationError
from streams.geometry import Rect

SPACE = Rect(0.0, 0.0, 1.0, 1.0)


def source(rows=40):
    rng = np.random.default_rng(1)
    kw = np.arange(rows, dtype=np.int64)
    return SourceObjects(rng.random(rows), rng.random(rows), np.arange(rows + 1, dtype=np.int32), kw)


def test_moving_objects_walk_by_a_step_inside_the_space():
    """Each update moves an object by the step along both axes, or is reflected at the border, and changes its words."""
    spec = MovingSpec(objects=40, updates=1000, step=0.05, rate=100)
    parts = list(moving_states(spec, SPACE, source()))
    place = {}
    total = 0
    for states in parts:
        for number, x, y in zip(states.object.tolist(), states.x.tolist(), states.y.tolist(), strict=True):
            assert 0 <= x <= 1
            assert 0 <= y <= 1
            if number in place:
                for new, old in ((x, place[number][0]), (y, place[number][1])):
                    free = 0.05 <= old <= 0.95
                    assert abs(abs(new - old) - 0.05) < 1e-12 if free else abs(new - old) <= 0.05 + 1e-12
            place[number] = (x, y)
            total += 1
    assert total == 1040
    ts = np.concatenate([states.ts for states in parts])
    assert np.array_equal(ts, np.arange(1040) * 10)
    words = np.concatenate([states.kw for states in parts[1:]])
    assert len(set(words.tolist())) > 20


def test_moving_objects_are_reproducible_and_readable():
    """The same seed gives the same lines; a line is an object of the contract, deletes carry their operation."""
    spec = MovingSpec(objects=40, updates=200, deletes=0.2, seed=4)
    words = [f"word {rank}" for rank in range(40)]
    lines = b"".join(state_lines(states, words) for states in moving_states(spec, SPACE, source(), 500))
    again = b"".join(state_lines(states, words) for states in moving_states(spec, SPACE, source(), 500))
    assert lines == again
    records = [json.loads(line) for line in lines.splitlines()]
    assert len(records) == 240
    assert records[0] == {"id": "o0", "ts": 500, "x": source().x[0], "y": source().y[0], "keywords": ["word 0"]}
    deletes = [record for record in records if record.get("op") == "delete"]
    assert 15 < len(deletes) < 70
    assert [record["ts"] for record in records] == sorted(record["ts"] for record in records)


def test_moving_spec_says_what_is_wrong():
    """Impossible numbers are refused."""
    for changes in ({"objects": 0}, {"updates": -1}, {"rate": 0.0}, {"step": -1.0}, {"deletes": 1.0}):
        with pytest.raises(DeclarationError, match="expected"):
            MovingSpec(**changes)
    with pytest.raises(DeclarationError, match="to start from"):
        list(moving_states(MovingSpec(objects=3), SPACE, source(4)))
