"""Hotspots in the input: what they do to it, and that the results stay those of the oracle."""

import random

import numpy as np
import pytest
from range_inputs import WORDS, assert_exact, assert_exact_after_restart, range_topology, write_inputs, write_lines

from topology import run
from topology.verification import oracle_of


def random_injection(rng):
    kind = rng.choice(["condense", "objects", "queries", "keyword", "rate"])
    options = {"kind": kind, "start": rng.randrange(0, 20), "duration": rng.randrange(1, 15), "seed": rng.randrange(99)}
    if kind == "condense":
        options |= {"at": [rng.random(), rng.random()], "strength": rng.choice([0.0, 0.4, 1.0]), "share": rng.random()}
    elif kind == "objects":
        options |= {"region": [0.25, 0.25, 0.5, 0.75], "strength": rng.choice([0.5, 2, 3.7])}
    elif kind == "queries":
        options |= {"region": [0.5, 0, 1, 0.5], "strength": rng.choice([1, 20])}
    elif kind == "keyword":
        options |= {"keyword": rng.choice([*WORDS, "NEW"]), "share": 0.5}
    else:
        options |= {"strength": rng.choice([1, 4.5]), "share": 0.7}
    return options


@pytest.mark.parametrize("seed", range(40))
def test_results_under_injection_equal_the_oracle(tmp_path, seed):
    """A seed picks input, injections, epoch sizes, parallelism and schedule."""
    rng = random.Random(seed)
    topology = range_topology(
        *write_inputs(tmp_path, seed),
        spouts=rng.choice([1, 3]),
        evaluators=rng.choice([1, 3]),
        epoch={"objects": rng.choice([1, 7, 1000]), "queries": rng.choice([2, 1000])},
        inject=[random_injection(rng) for _ in range(rng.randrange(1, 4))],
    )
    assert_exact(topology, scheduler_seed=seed, delays=True)


@pytest.mark.parametrize("cut", [1, 4, 9])
def test_injection_goes_on_after_a_restore(tmp_path, cut):
    """A run that is taken up again in the middle of a hotspot injects what is left of it, once."""
    rng = random.Random(7)
    hotspots = [random_injection(rng) for _ in range(3)] + [
        {"kind": "queries", "region": [0, 0, 1, 1], "start": 0, "duration": 25, "strength": 30}
    ]
    topology = range_topology(*write_inputs(tmp_path, 7), epoch={"objects": 7, "queries": 5}, inject=hotspots)
    assert_exact_after_restart(topology, cut)


@pytest.fixture
def steady(tmp_path):
    """A thousand objects on a diagonal, one a millisecond, and one query for everything."""
    things = [{"id": i, "ts": i, "x": i / 1000, "y": i / 1000, "keywords": ["ape"]} for i in range(1000)]
    asked = [
        {
            "op": "register",
            "id": "all",
            "ts": 0,
            "type": "range",
            "region": {"rect": [0, 0, 0.1, 0.1]},
            "keywords": ["ape"],
        }
    ]
    return write_lines(tmp_path / "o.jsonl", things), write_lines(tmp_path / "q.jsonl", asked)


def objects_of(steady, **injection):
    return oracle_of(range_topology(*steady, inject=[injection])).objects


def test_condense_shrinks_places_towards_a_point(steady):
    """Within its time, a place keeps the given share of its distance; outside nothing moves."""
    objects = objects_of(steady, kind="condense", at=[0.0, 0.0], strength=0.4, start=500, duration=100)
    plain = np.arange(1000) / 1000
    inside = (objects.ts >= 500) & (objects.ts < 600)
    assert np.array_equal(objects.x, np.where(inside, plain * 0.4, plain))


def test_share_touches_that_part(steady):
    """A share of a half moves about half of the objects, and always the same ones."""
    moved = objects_of(steady, kind="condense", at=[0.0, 0.0], strength=0.0, share=0.5, seed=4)
    again = objects_of(steady, kind="condense", at=[0.0, 0.0], strength=0.0, share=0.5, seed=4)
    assert 400 < np.count_nonzero(moved.x == 0) < 600
    assert np.array_equal(moved.x, again.x)


def test_objects_are_added_in_the_region(steady):
    """Two and a half extra objects for each, with ids of their own, all in the region, in the order of time."""
    objects = objects_of(steady, kind="objects", region=[0.9, 0.1, 1.0, 0.2], strength=2.5)
    extra = [i for i, name in enumerate(objects.ids.to_list()) if str(name).startswith("inject-")]
    assert 2300 < len(extra) < 2700
    assert len(set(objects.ids.to_list())) == len(objects)
    assert (objects.x[extra] >= 0.9).all()
    assert (objects.y[extra] <= 0.2).all()
    assert np.array_equal(objects.seq, np.arange(len(objects)))
    assert (np.diff(objects.ts) >= 0).all()


def test_rate_repeats_objects_where_they_are(steady):
    """Each object comes four times over."""
    objects = objects_of(steady, kind="rate", strength=3)
    assert np.array_equal(objects.x, np.repeat(np.arange(1000) / 1000, 4))


def test_keyword_joins_the_others(steady):
    """A burst of a keyword is found by those who asked for it."""
    injection = {"kind": "keyword", "keyword": "Fire", "start": 10, "duration": 5}
    queries = write_lines(
        steady[1],
        [
            {
                "op": "register",
                "id": "f",
                "ts": 0,
                "type": "range",
                "region": {"rect": [0, 0, 1, 1]},
                "keywords": ["fire", "ape"],
            }
        ],
    )
    assert run(range_topology(steady[0], queries, inject=[injection])).summary["results"] == 5


def test_queries_are_added_in_the_region(steady):
    """Forty queries come over time, at places of the region, and end with the injection."""
    injection = {"kind": "queries", "region": [0.5, 0.5, 0.6, 0.6], "strength": 40, "start": 100, "duration": 800}
    topology = range_topology(*steady, inject=[injection])
    assert run(topology).summary["queries"] == 41
    extra = [q for q in oracle_of(topology).registrations if str(q.id).startswith("inject-")]
    assert len(extra) == 40
    assert [q.ts for q in extra] == sorted(q.ts for q in extra)
    assert all(q.end == 900 for q in extra)
    assert_exact(topology)
