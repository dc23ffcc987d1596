"""A main server puts subscriptions wherever the load is least: nobody else knows where, and every answer is exact."""

import json
import os
import random
from unittest import mock

import numpy as np
import pytest
from latest_queries import ASSIGNING, latest_topology, random_assigning_topology, write_latest_inputs, wrong_lines
from range_inputs import CONF, write_lines

from operators.evaluation.evaluator import Evaluator
from streams.errors import DeclarationError
from topology import extended_topology, run
from topology.toml import load_topology
from topology.verification import verified_run, verify_lines

#: More of them for a longer search: WATERSPOUT_SEEDS=5000 pytest tests/simulation/test_main_server.py
SEEDS = int(os.environ.get("WATERSPOUT_SEEDS", "40"))
BATCH = 10


def _wrong(topology, seed):
    outcome = run(topology, scheduler_seed=seed, delays=True)
    return wrong_lines(topology, verify_lines(outcome.collected)), outcome


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_assigned_subscriptions_are_answered_exactly_under_any_schedule(tmp_path, first):
    """Plans that know some subscriptions, moves of known and unknown ones, hotspots, lags: the lists are the oracle's."""
    for seed in range(first, min(first + BATCH, SEEDS)):
        (folder := tmp_path / str(seed)).mkdir()
        wrong, _ = _wrong(random_assigning_topology(folder, seed), seed)
        assert not wrong, f"seed {seed}: {wrong}"


@pytest.mark.parametrize("partitioner", ASSIGNING)
def test_subscriptions_that_no_plan_knows_move(tmp_path, partitioner):
    """A plan that knows one subscription of forty; the others are moved too, with their lists."""
    topology = latest_topology(
        *write_latest_inputs(tmp_path, 5, objects=300, queries=150), main_server="all", partitioner=partitioner, sample=1,
        balancer={"seed": 3}, evaluators=4,
    )  # fmt: skip
    wrong, outcome = _wrong(topology, 1)
    assert not wrong
    assert sum(one["queries_moved"] for one in outcome.summary["rebalances"]) > 20
    (server,) = [task for task in outcome.summary["tasks"] if task["task"] == "main[0]"]
    assert server["priced"] > 20
    assert [one["estimated"] for one in outcome.summary["evaluators"]] == [
        pytest.approx(server[f"estimated_cost:{worker}"], abs=1e-5) for worker in range(4)
    ]
    assert server["subscriptions_moved"] > 20


def test_it_is_noticed_if_takers_believe_that_what_they_are_given_was_theirs(tmp_path):
    """With itself for the home of a query that was given to it, a taker would not wait for the results of the giver."""
    routes = Evaluator._routes

    def mine(self, queries, _home):
        return routes(self, queries, self._context.index)

    with mock.patch.object(Evaluator, "_routes", mine):
        for seed in range(SEEDS):
            (folder := tmp_path / str(seed)).mkdir()
            if _wrong(random_assigning_topology(folder, seed), seed)[0]:
                return
    pytest.fail("no seed has noticed it")


def test_the_end_of_a_subscription_gives_its_cost_back(tmp_path):
    """When all subscriptions have ended, by themselves or by somebody, the main server counts no cost for anybody."""
    objects, queries = write_latest_inputs(tmp_path, 5, objects=120, queries=60)
    lines = [json.loads(line) for line in queries.read_text("utf-8").splitlines()]
    open_ended = {line["id"] for line in lines if line.get("continuous", True) and "ttl" not in line}
    left = open_ended - {line["id"] for line in lines if line["op"] == "unregister"}
    assert left
    write_lines(queries, [*lines, *({"op": "unregister", "id": name, "ts": 30} for name in sorted(left))])
    with objects.open("a", encoding="utf-8") as file:
        file.write('{"id": "last", "ts": 60, "x": 0.5, "y": 0.5, "keywords": []}\n')
    topology = latest_topology(
        objects, queries, main_server="all", partitioner="dkm-sks", sample=5, balancer={"seed": 3}
    )
    wrong, outcome = _wrong(topology, 1)
    assert not wrong
    (server,) = [task for task in outcome.summary["tasks"] if task["task"] == "main[0]"]
    estimated = [value for name, value in server.items() if name.startswith("estimated_cost:")]
    assert len(estimated) == 3
    assert np.allclose(estimated, 0.0, atol=1e-9)


def _drifting(folder):
    """Objects keep to the left half, then to the right one; subscriptions of all sizes are everywhere, and want anything."""
    rng = random.Random(1)
    objects = [
        {
            "id": n,
            "ts": n // 10,
            "x": round((0.5 if n > 1_200 else 0.0) + rng.random() / 2, 3),
            "y": round(rng.random(), 3),
        }
        | {"keywords": []}
        for n in range(4_000)
    ]
    queries = []
    for n in range(300):
        x, y, side = rng.random() * 0.9, rng.random() * 0.9, rng.choice([0.02, 0.05, 0.1, 0.3])
        rect = [round(edge, 3) for edge in (x, y, min(x + side, 1.0), min(y + side, 1.0))]
        queries.append(
            {"op": "register", "id": f"q{n}", "ts": 0, "type": "range", "region": {"rect": rect}, "keywords": []}
        )
    return write_lines(folder / "objects.jsonl", objects), write_lines(folder / "queries.jsonl", queries)


def test_dkm_restores_what_estimates_have_missed(tmp_path):
    """SOP's estimates are of objects that no longer come; a few of 300 subscriptions move, and the work is shared again."""
    found = {}
    for policy in ("none", "dkm"):
        topology = latest_topology(
            *_drifting(tmp_path), evaluators=4, partitioner="sop", main_server="all", sample=1_000, policy=policy, tick=2,
            epoch={"objects": 100, "queries": 1_000},
        )  # fmt: skip
        found[policy] = run(topology).summary
    assert found["dkm"]["parallel_efficiency"] > found["none"]["parallel_efficiency"] + 0.1
    assert found["dkm"]["imbalance"]["end"] < 1.1 < found["none"]["imbalance"]["end"]
    assert 0 < sum(one["queries_moved"] for one in found["dkm"]["rebalances"]) <= 40
    assert all("with a mean of" in one["why"] for one in found["dkm"]["rebalances"])


def _rare_words(folder):
    """Every subscription wants a word of its own, which one object in forty has."""
    rng = random.Random(4)

    def place():
        return round(rng.random(), 3), round(rng.random(), 3)

    objects = [
        {"id": n, "ts": n, "x": x, "y": y, "keywords": [f"w{rng.randrange(40)}"]}
        for n, (x, y) in enumerate(place() for _ in range(1_500))
    ]
    queries = [
        {"op": "register", "id": n, "ts": 0, "type": "knn", "at": list(place()), "k": 3, "keywords": [f"w{n}"]}
        for n in range(40)
    ]
    return write_lines(folder / "objects.jsonl", objects), write_lines(folder / "queries.jsonl", queries)


def test_objects_may_be_held_against_the_words_of_subscriptions_that_move(tmp_path):
    """A main server that withholds what no subscription of a worker wants; evaluators tell it whose words have moved."""
    objects, queries = _rare_words(tmp_path)
    shipped = load_topology(CONF / "dkm.toml").component("router")
    inputs = [
        {"component": i.component, "stream": i.stream, "grouping": i.grouping, "feedback": i.feedback}
        for i in shipped.inputs
    ]
    words = {"component": "evaluator", "stream": "keywords", "grouping": "all", "feedback": True}
    tables = {
        "topology": {"epoch": {"objects": 25}},
        "spout": {"objects": {"path": objects}, "queries": {"path": queries}},
        "bolt": {"router": {"textual_summary": True, "inputs": [*inputs, words]}, "balancer": {"policy": "random"}},
    }
    outcome, comparison = verified_run(extended_topology(CONF / "dkm.toml", tables))
    assert comparison.ok, comparison
    (server,) = [task for task in outcome.summary["tasks"] if task["task"] == "router[0]"]
    assert server["withheld"] > 0.5 * 4 * 1_500
    assert server["subscriptions_moved"] > 20
    tables["bolt"]["router"]["inputs"] = inputs
    with pytest.raises(DeclarationError, match="queries that a balancer moves take their keywords along"):
        extended_topology(CONF / "dkm.toml", tables)


DKM = sorted(CONF.glob("dkm*.toml"))


def _subscription(name, **changes):
    line = {
        "op": "register",
        "id": name,
        "ts": 0,
        "type": "knn",
        "at": [0.5, 0.5],
        "k": 2,
        "keywords": ["a"],
        "match": "any",
    }
    return line | changes


@pytest.mark.parametrize("path", DKM, ids=lambda path: path.stem)
@pytest.mark.parametrize("objects", [0, 10])
def test_bad_subscriptions_are_rejected_and_all_others_answered(tmp_path, path, objects):
    """More workers than subscriptions, objects or none for O_init; no k, k beyond the limit, a place outside of the space."""
    lines = [{"id": n, "ts": n, "x": n / 10, "y": n / 10, "keywords": ["a"]} for n in range(objects)]
    bad = ({"k": 0}, {"k": 1001}, {"at": [500, 0.5]})
    queries = [
        _subscription("good"), *(_subscription(str(n), **one) for n, one in enumerate(bad)),
        _subscription("all", k=1000, at=[-180, 90]),
    ]  # fmt: skip
    tables = {
        "spout": {
            "objects": {"path": write_lines(tmp_path / "objects.jsonl", lines)},
            "queries": {"path": write_lines(tmp_path / "queries.jsonl", queries)},
        },
        "bolt": {"evaluator": {"parallelism": 5}},
    }
    outcome, comparison = verified_run(extended_topology(path, tables))
    assert comparison.ok, comparison
    assert (outcome.summary["rejected"], outcome.summary["queries"]) == (3, 2)
    assert {one["reason"]: one["count"] for one in outcome.summary["reject_reasons"]} == {
        "k is N, expected an integer from 1 to 1000": 2,
        "at is [...], which is outside the space [...]": 1,
    }
    assert outcome.summary["results"] == (2 if objects else 0)
