"""After plans have changed and come to rest, everybody holds what the last plan says, and nothing else."""

import dataclasses
import random

import numpy as np
import pytest
from adaptive_inputs import adaptive_topology
from latest_queries import LatestCore, latest_queries, latest_topology
from range_inputs import StopsAfter, random_objects, random_queries, write_lines

from operators.balancing import balancer
from operators.balancing.orders import loaded_plan
from operators.balancing.random_policy import RANDOM
from operators.evaluation.range_core import RangeCore
from operators.routing.textual_summary import TextualSummary, textual_changes
from partitioners import route_queries
from streams.batches import QueryBatch
from topology.planning import plan_of
from topology.verification import oracle_of
from topology.wiring import wire

#: Plans change up to this version; queries come and go in the first part of the input only.
LAST_VERSION = 4
EPOCHS = {"objects": 3, "queries": 100}
CUT = 40

#: One partitioner of each kind of plan.
KINDS = ("kd", "text", "replicate", "hash", "keyword-first", "qt-tree", "sop")


@pytest.fixture(autouse=True)
def comes_to_rest(monkeypatch):
    """Let the random policy change a plan a few times only."""
    calm = dataclasses.replace(
        RANDOM, decide=lambda view: RANDOM.decide(view) if view.plan.version < LAST_VERSION else (None, None)
    )
    monkeypatch.setattr(balancer, "policy_of", lambda _name: calm)


def inputs_of(folder, seed, queries):
    rng = random.Random(seed)
    return (
        write_lines(folder / "objects.jsonl", random_objects(rng, 240, 60)),
        write_lines(folder / "queries.jsonl", queries(rng, 20, 6)),
    )


def at_rest(topology):
    """Run most of the input; return the states of tasks by component, and what the queries that live are."""
    stopped = StopsAfter(wire(topology, plan_of(topology)), CUT, [])
    stopped.run()
    states = {}
    for spec in stopped.wiring.tasks:
        states.setdefault(spec.component, []).append(stopped.states[spec.id]["operator"])
    watermark = states["evaluator"][0]["watermark"]
    return states, {q.number for q in oracle_of(topology).registrations if q.end > watermark and q.ts < watermark}


def assert_holds_what_is_routed(states, core, living):
    """Each evaluator holds the queries that the plan in force sends to it, and nothing is under way any more."""
    queries = [core.saved_queries(state["core"]) for state in states["evaluator"]]
    plan = loaded_plan(states["balancer"][0]["plan"])
    whole = QueryBatch.concat([QueryBatch.empty(), *queries])
    _, first = np.unique(whole.number, return_index=True)
    whole = whole.take(first)
    off, workers = route_queries(plan, whole, "euclidean")
    assert set(whole.number.tolist()) == living
    for worker, (state, held) in enumerate(zip(states["evaluator"], queries, strict=True)):
        routed = {n for i, n in enumerate(whole.number.tolist()) if worker in workers[off[i] : off[i + 1]]}
        assert sorted(held.number.tolist()) == sorted(routed)
        moving = state["moving"]["handover"]
        assert moving["round"] is None
        assert (len(moving["left"]), moving["waiting"], len(moving["given"])) == (0, [], 0)
        assert [len(part) for part in moving["replaced"]] == [0, 0]
        assert len(state["ended"]) == 0
        assert set(state["core"].get("asleep", ())) == set()
        meetings = state["meetings"]
        assert meetings is None or set(meetings["numbers"].tolist()) <= routed
        assert state["next_meetings"] is None
    return plan, whole


@pytest.mark.parametrize("kind", KINDS)
def test_leaks_of_lists_there_are_none(tmp_path, kind):
    """Evaluators with memory, and mergers: no query that has moved away or ended is left anywhere."""
    topology = latest_topology(
        *inputs_of(tmp_path, 5, latest_queries), partitioner=kind, piece=1, mergers=2, epoch=EPOCHS, feedback=2,
        balancer={"seed": 3, "units": 1.0},
    )  # fmt: skip
    states, living = at_rest(topology)
    plan, _ = assert_holds_what_is_routed(states, LatestCore, living)
    assert plan.version > 1 or kind == "replicate"
    for state in states["merger"]:
        assert {key >> 16 for key in state["partial"]["keys"].tolist()} <= living
        assert set(state["said"]["numbers"].tolist()) <= living
        evaluators = {}
        for key in state["partial"]["keys"].tolist():
            evaluators.setdefault(key >> 16, set()).add(key & 0xFFFF)
        for number, senders in evaluators.items():
            holders = {
                w for w, one in enumerate(states["evaluator"]) if number in one["core"]["queries"].number.tolist()
            }
            assert plan.single_home or senders <= holders


@pytest.mark.parametrize("kind", KINDS)
def test_leaks_of_words_there_are_none(tmp_path, kind):
    """The routers' summaries are those of the queries that evaluators hold, counted anew."""
    topology = adaptive_topology(
        *inputs_of(tmp_path, 6, random_queries), partitioner={"kind": kind, "side": 8}, chunk=1, epoch=EPOCHS,
        balancer={"seed": 3, "units": 1.0}, feedback=2,
    )  # fmt: skip
    states, living = at_rest(topology)
    plan, whole = assert_holds_what_is_routed(states, RangeCore, living)
    assert plan.version > 1 or kind == "replicate"
    expected = TextualSummary(plan.workers)
    changes = textual_changes(whole, route_queries(plan, whole, "euclidean"))
    expected.apply([] if changes is None else [changes])
    for state in states["router"]:
        for part in ("every", "table"):
            assert sorted(state["textual_summary"][part].tolist()) == sorted(expected.snapshot()[part].tolist())
