"""Leaves that move, split and merge in mid-run (policy sstd): results stay those of the oracle."""

import pytest
from adaptive_inputs import adaptive_topology
from range_inputs import assert_exact, assert_exact_after_restart, write_inputs

from streams.errors import DeclarationError
from topology import run

HOTSPOT = {"kind": "condense", "at": [0.1, 0.1], "strength": 0.1, "start": 8}


def balanced(tmp_path, kind, *, methods="pm,fm,fg", seed=1, options=None, **given):
    """A topology whose leaves are moved at the least excuse."""
    inputs = write_inputs(tmp_path, seed, objects=260, queries=80)
    settings = {
        "threshold": 1.0, "methods": methods, "reports": 1, "remembered": 1, "doubt": 0.0, "gain": 0.02, "rest": 1,
        "leaves": 8, "cells": 64,
    }  # fmt: skip
    return adaptive_topology(
        *inputs,
        policy="sstd",
        partitioner={"kind": kind, "options": options or {}},
        balancer={**settings, **given},
        summary=kind == "kd",
        router={"learn": kind != "kd"},
        inject=[HOTSPOT],
    )


@pytest.mark.parametrize(
    ("kind", "methods", "options"),
    [
        ("qt-tree", "pm,fm,fg", {"leaves": 4}),
        ("quadtree", "fg", {"leaves": 4}),
        ("text-tree", "fg", {"leaves": 7}),
        ("quadtree", "pm", {"leaves": 16}),
        ("kd", "pm,fm", {"pieces": 4}),
    ],
)
def test_leaves_that_move_and_split_are_exact(tmp_path, kind, methods, options):
    """Whatever the plan and the methods; routers of trees learn meanwhile."""
    topology = balanced(tmp_path, kind, methods=methods, options=options)
    assert_exact(topology, scheduler_seed=2, delays=True)
    summary = run(topology).summary
    balancer = next(task for task in summary["tasks"] if task["task"] == "balancer[0]")
    assert balancer["rebalances"] > 0
    # Where leaves are divided by text, all workers may have all queries, so that none moves.
    kinds = {one["kind"] for one in summary["rebalances"]}
    assert kinds or kind == "text-tree"
    assert kinds <= set(methods.split(","))
    assert all("above lambda" in one["why"] for one in summary["rebalances"])


def test_splits_grow_the_tree_in_mid_run(tmp_path):
    """FG has more leaves to give away than the plan was built with, and loads are measured where that is asked for."""
    topology = balanced(tmp_path, "quadtree", methods="fg", options={"leaves": 4}, measured=True)
    assert_exact(topology)
    givers = {(one["from"], one["to"]) for one in run(topology).summary["rebalances"]}
    assert len(givers) > 1


def test_what_evaluators_counted_is_part_of_their_state(tmp_path):
    """A run that is cut and goes on balances on."""
    assert_exact_after_restart(balanced(tmp_path, "quadtree", options={"leaves": 4}), 14)


def test_plans_without_places_are_refused(tmp_path):
    """The policy says which partitioners it is for."""
    with pytest.raises(
        DeclarationError, match=r"the policy 'sstd' cannot change this plan: it moves leaves.*kind 'hash'"
    ):
        run(
            adaptive_topology(
                *write_inputs(tmp_path, 1), policy="sstd", partitioner={"kind": "hash"}, balancer={}, summary=False
            )
        )
