"""Wirings of evaluators that would lose or mix up results are refused before anything starts."""

import dataclasses
from typing import ClassVar

import pytest
from adaptive_inputs import adaptive_topology
from latest_queries import LatestEvaluator, latest_topology, write_latest_inputs
from range_inputs import write_inputs

from streams.errors import DeclarationError
from topology import TopologyBuilder, run
from topology.validation import InvalidTopologyError, validate


@pytest.fixture
def topology(tmp_path):
    """Evaluators with memory, a balancer, mergers, a sink."""
    return latest_topology(*write_latest_inputs(tmp_path, 1, objects=2, queries=2))


def changed(topology, name, **fields):
    """Return a topology in which one component is declared otherwise."""
    components = [dataclasses.replace(c, **fields) if c.name == name else c for c in topology.components]
    return dataclasses.replace(topology, components=tuple(components))


def refusal(topology):
    """Return why a topology is refused."""
    with pytest.raises(InvalidTopologyError) as refused:
        validate(topology)
    return str(refused.value)


def inputs_of(topology, name, *, without=(), **renamed):
    found = [item for item in topology.component(name).inputs if item.stream not in without]
    return tuple(dataclasses.replace(item, stream=renamed.get(item.stream, item.stream)) for item in found)


@pytest.mark.parametrize("stream", ["transfer", "adoption"])
def test_evaluator_under_a_balancer_reads_what_moves(topology, stream):
    """Otherwise queries, or their results, would be lost at the first change of the plan."""
    said = refusal(changed(topology, "evaluator", inputs=inputs_of(topology, "evaluator", without=[stream])))
    assert f"bolt.evaluator.inputs: it follows a balancer, but does not read its own stream '{stream}'" in said


class ForgetfulCore:
    """Results that live, and no way to move them."""

    remembers: ClassVar = True
    ordered: ClassVar = True


class ForgetfulEvaluator(LatestEvaluator):
    """Has a core whose results cannot move."""

    core_class: ClassVar = ForgetfulCore


def test_core_without_adopt_is_refused_under_a_balancer(topology):
    """Its results would be gone when a query moves."""
    reference = topology.component("evaluator").operator
    said = refusal(changed(topology, "evaluator", classes={reference: ForgetfulEvaluator}))
    assert "ForgetfulCore has no method 'adopt'" in said
    assert "leave the balancer out" in said


def test_merger_of_terms_is_refused_behind_rankings(topology):
    """What it would add up are no counts."""
    said = refusal(changed(topology, "merger", operator="terms-merger"))
    assert "which operator 'terms-merger' would ignore" in said
    assert "counts" in said


def test_merger_is_refused_behind_range_evaluators(tmp_path):
    """Matches are no lists."""
    objects, queries = write_latest_inputs(tmp_path, 1, objects=2, queries=2)
    builder = TopologyBuilder("mixed")
    builder.spout("objects", "object-file", path=objects)
    builder.spout("queries", "query-file", path=queries)
    builder.bolt("router", "broadcast-router").shuffle("objects", "objects").shuffle("queries", "queries")
    builder.bolt("evaluator", "range-evaluator").direct("router", "queries").direct("router", "objects")
    builder.bolt("merger", "ranked-merger").fields("evaluator", ["number"], "rankings")
    builder.bolt("sink", "count").global_("merger", "results")
    with pytest.raises(InvalidTopologyError, match=r"reads stream 'rankings' of 'evaluator', which nobody emits"):
        builder.build()


def test_sink_is_refused_in_front_of_the_merger(topology):
    """It would write what single evaluators know."""
    inputs = [
        dataclasses.replace(item, component="evaluator", stream="rankings")
        for item in topology.component("sink").inputs
    ]
    assert "put a 'ranked-merger' between them" in refusal(changed(topology, "sink", inputs=tuple(inputs)))


@pytest.mark.parametrize("grouping", ["shuffle", "all"])
def test_mergers_that_would_share_a_query_are_refused(topology, grouping):
    """The lists of one query belong together."""
    inputs = [dataclasses.replace(item, grouping=grouping, fields=()) for item in topology.component("merger").inputs]
    said = refusal(changed(topology, "merger", inputs=tuple(inputs), parallelism=2))
    assert "the lists of one query would reach several mergers" in said


def test_mergers_group_by_number_alone(topology):
    """Grouped by anything else, the lists of one query are spread."""
    inputs = [dataclasses.replace(item, fields=("ts",)) for item in topology.component("merger").inputs]
    assert "set fields = ['number']" in refusal(changed(topology, "merger", inputs=tuple(inputs), parallelism=2))


def test_policy_that_evaluators_cannot_report_to_is_refused(topology):
    """Tornado decides by cells of a grid, and this core counts by none."""
    said = refusal(changed(topology, "balancer", options={"policy": "tornado"}))
    assert "bolt.balancer.policy: the policy 'tornado' decides by 'partitions', which count work by place" in said
    assert "random, none" in said


def test_policy_that_cannot_change_the_plan_is_refused_with_the_remedy(tmp_path):
    """Tornado moves borders; a plan by hash has none."""
    inputs = write_inputs(tmp_path, 1, objects=2, queries=2)
    with pytest.raises(
        DeclarationError, match=r"the policy 'tornado' cannot change this plan: .* use the partitioner 'kd'"
    ):
        run(adaptive_topology(*inputs, partitioner={"kind": "hash"}, policy="tornado"))
