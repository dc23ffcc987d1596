"""Any partitioner with any index gives the oracle's results."""

import random

import pytest
from operators_for_tests import Witness
from range_inputs import CONF, assert_exact, assert_exact_after_restart, write_inputs, write_lines

from partitioners.builders.registry import PARTITIONERS
from partitioners.plans.plan import save
from streams.errors import DeclarationError
from topology import TopologyBuilder, extended_topology, run
from topology.local_runtime import LocalRuntime
from topology.planning import plan_of
from topology.wiring import wire

INDEXES = ("kag", "fast", "gi2", "brute")


def planned(
    objects, queries, kind, *, evaluators=3, routers=2, index="kag", plan=None, inject=(), router=None, **settings
):
    """Vary the shipped topology whose routers follow a plan that stays."""
    partitioner = {"partitioner": {"kind": kind, "side": settings.pop("side", 16)}} if kind else {}
    tables = {
        "topology": {
            "name": "planned", "metric": "euclidean",
            "epoch": {"objects": 9, "queries": 7}, **partitioner, **({"plan": plan} if plan else {}),
            **settings,
        },
        "spout": {"objects": {"path": objects}, "queries": {"path": queries}},
        "bolt": {
            "router": {"parallelism": routers, **(router or {})},
            "evaluator": {"parallelism": evaluators, "index": index},
            "sink": {"operator": "collect"},
        },
        "inject": list(inject),
    }  # fmt: skip
    without = ["topology.space"] if kind else ["topology.space", "topology.partitioner"]
    return extended_topology(CONF / "tornado-static.toml", tables, without=without)


@pytest.mark.parametrize("kind", sorted(PARTITIONERS))
@pytest.mark.parametrize("seed", range(4))
def test_every_partitioner_is_exact(tmp_path, kind, seed):
    """A plan built from the start of the input loses nothing and repeats nothing, whatever divides the work."""
    rng = random.Random(seed)
    topology = planned(
        *write_inputs(tmp_path, seed, objects=120, queries=80),
        kind,
        evaluators=rng.choice([1, 3, 5]),
        routers=rng.choice([1, 3]),
        index=rng.choice(INDEXES),
        max_pending=rng.choice([1, 4]),
    )
    assert_exact(topology, scheduler_seed=seed, delays=True)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("kind", ["kd", "text", "uniform", "replicate", "qt-tree", "kdt-tree"])
def test_partitioners_and_indexes_combine(tmp_path, kind, index):
    """Each index is exact under each of the plans that the papers compare, also with a hotspot in the input."""
    hotspot = {"kind": "condense", "at": [0.1, 0.1], "strength": 0.4, "start": 8}
    topology = planned(*write_inputs(tmp_path, 5), kind, index=index, inject=[hotspot])
    assert_exact(topology)


@pytest.mark.parametrize("kind", ["kd", "text", "qt-tree"])
@pytest.mark.parametrize("cut", [2, 8])
def test_planned_topology_goes_on_after_a_restart(tmp_path, kind, cut):
    """What evaluators remember of their plan is part of their state."""
    assert_exact_after_restart(planned(*write_inputs(tmp_path, 9, queries=80), kind), cut)


def test_plan_from_a_file_is_followed(tmp_path):
    """A plan that was saved gives the same run as the one that is built."""
    inputs = write_inputs(tmp_path, 6, objects=200)
    built = planned(*inputs, "kd")
    save(plan_of(built), tmp_path / "kd.plan")
    loaded = planned(*inputs, None, plan=tmp_path / "kd.plan")
    assert_exact(loaded)
    assert run(loaded).summary["evaluators"] == run(built).summary["evaluators"]


def test_space_plan_sends_each_object_once(tmp_path):
    """Tornado's partitions are disjoint: an object goes to one evaluator."""
    summary = run(planned(*write_inputs(tmp_path, 7), "kd")).summary
    assert summary["communication"] == 1.0


def test_plan_for_another_number_of_workers_is_refused(tmp_path):
    """A plan is for so many evaluators; another number is an error that says what to do."""
    inputs = write_inputs(tmp_path, 8)
    save(plan_of(planned(*inputs, "kd", evaluators=3)), tmp_path / "three.plan")
    with pytest.raises(
        DeclarationError, match=r"the plan is for 3 workers, but the topology has 4 evaluators; .*parallelism = 3"
    ):
        run(planned(*inputs, None, plan=tmp_path / "three.plan", evaluators=4))


def test_plan_that_covers_the_space_is_followed_and_another_is_refused(tmp_path):
    """A plan of a larger space is exact, rebalancing included; one that ends within the topology's is refused with both."""
    inputs = write_inputs(tmp_path, 8)
    for kind in PARTITIONERS:
        save(plan_of(planned(*inputs, kind, space=[-0.5, -1.0, 1.5, 1.0])), tmp_path / "wide.plan")
        assert_exact(planned(*inputs, None, plan=tmp_path / "wide.plan"))
    save(plan_of(planned(*inputs, "kd", space=[0.0, 0.0, 1.0, 0.9])), tmp_path / "narrow.plan")
    spaces = r"the space \[0.0, 0.0, 1.0, 0.9\], which does not cover the topology's \[0.0, 0.0, 1.0, 1.0\]; build"
    with pytest.raises(DeclarationError, match=spaces):
        run(planned(*inputs, None, plan=tmp_path / "narrow.plan"))


@pytest.mark.parametrize(
    ("kind", "plan", "message"),
    [
        (None, None, "a router here needs a plan"),
        ("kdd", None, "unknown partitioner 'kdd' \\(did you mean 'kd'\\?\\)"),
        (None, "nowhere.plan", "no such plan file"),
    ],
)
def test_bad_requests_for_a_plan_are_refused_before_the_run(tmp_path, kind, plan, message):
    """What cannot give a plan is found in the declaration."""
    with pytest.raises(DeclarationError, match=message):
        planned(*write_inputs(tmp_path, 1), kind, plan=plan)


@pytest.mark.parametrize("router", [{}, {"textual_summary": True}, None])
def test_deletions_go_to_every_evaluator(tmp_path, router):
    """Whoever may know a deleted object is told, whatever the place and the keywords of the deletion, in input order."""
    rng = random.Random(4)
    records = [{"id": i, "ts": i, "x": rng.random(), "y": rng.random(), "text": "storm"} for i in range(30)]
    deleted = {7: {"id": 2, "ts": 7, "op": "delete"}, 20: {"id": 3, "ts": 20, "x": 0.9, "y": 0.9, "op": "delete"}}
    records = [deleted.get(i, record) for i, record in enumerate(records)]
    partitioner = {} if router is None else {"partitioner": {"kind": "kd", "side": 16}}
    builder = TopologyBuilder("planned", epoch={"objects": 9}, **partitioner)
    builder.spout("objects", "object-file", path=write_lines(tmp_path / "o.jsonl", records), dynamic=True)
    builder.spout("queries", "query-file", path=write_inputs(tmp_path, 1)[1])
    if router is None:
        bolt = builder.bolt("router", "broadcast-router", broadcast="queries")
    else:
        bolt = builder.bolt("router", "plan-router", **router)
    bolt.shuffle("objects", "objects").shuffle("queries", "queries")
    builder.bolt("evaluator", Witness, parallelism=3).direct("router", "objects").direct("router", "queries")
    topology = builder.build()
    seen = {}

    def on_report(report):
        for output in report.outputs:
            seen.setdefault(report.task, []).extend(seq for seq, _ in output["objects"])

    LocalRuntime(wire(topology, plan_of(topology)), on_report=on_report).run()
    assert len(seen) == 3
    for found in seen.values():
        assert {7, 20} <= set(found)
        assert found == sorted(found)
    assert sum(map(len, seen.values())) <= 28 + 2 * 3
