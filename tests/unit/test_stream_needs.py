"""Wirings that would lose or repeat tuples, refused before anything starts."""

from pathlib import Path

import pytest

from operators import Bolt, Spout
from streams.errors import DeclarationError
from topology import TopologyBuilder, extended_topology

CONF = Path(__file__).parents[2] / "conf"


def edge(component, stream, grouping, **more):
    return {"component": component, "stream": stream, "grouping": grouping, **more}


QUERIES, OBJECTS = edge("router", "queries", "direct"), edge("router", "objects", "direct")
ASKED, MOVED = edge("queries", "queries", "shuffle"), edge("objects", "objects", "shuffle")
RESULTS = edge("evaluator", "results", "global")


@pytest.mark.parametrize(
    ("bolts", "expected"),
    [
        (
            {"evaluator": {"inputs": [edge("router", "queries", "shuffle"), OBJECTS]}},
            "bolt 'evaluator' reads stream 'queries' of 'router' with the grouping 'shuffle', but 'router' names the task of "
            "each tuple there, so nothing would arrive; use 'direct'",
        ),
        (
            {"evaluator": {"inputs": [QUERIES, edge("objects", "objects", "shuffle")]}},
            "bolt 'evaluator' reads stream 'objects' of 'objects', which is no router, so with 2 tasks an object would meet "
            "some of its queries only; put a 'plan-router' or a 'broadcast-router' between them",
        ),
        (
            {"evaluator": {"inputs": [edge("queries", "queries", "all"), OBJECTS]}},
            "bolt 'evaluator' reads stream 'queries' of 'queries', which is no router",
        ),
        (
            {"evaluator": {"inputs": [QUERIES, edge("objects", "objects", "direct")]}},
            "with the grouping 'direct', but 'objects' names no task there, so nothing would arrive",
        ),
        (
            {"evaluator": {"parallelism": 1, "inputs": [QUERIES, edge("objects", "objects", "direct")]}},
            "with the grouping 'direct', but 'objects' names no task there, so nothing would arrive",
        ),
        (
            {"router": {"inputs": [edge("queries", "queries", "all"), MOVED]}},
            "bolt 'router' reads stream 'queries' of 'queries' with the grouping 'all', so every query would be registered "
            "several times; use 'shuffle' or set parallelism = 1",
        ),
        (
            {"router": {"inputs": [ASKED, edge("objects", "objects", "all")]}},
            "bolt 'router' reads stream 'objects' of 'objects' with the grouping 'all', so every object would be matched",
        ),
        (
            {"router": {"inputs": [ASKED, MOVED, edge("objects", "words", "shuffle")]}},
            "bolt 'router' reads stream 'words' of 'objects', which operator 'broadcast-router' would ignore; it reads: "
            "objects, queries",
        ),
        ({"evaluator": {"inputs": [OBJECTS]}}, "bolt 'evaluator' reads no stream 'queries', without which"),
        ({"evaluator": {"inputs": [QUERIES]}}, "bolt 'evaluator' reads no stream 'objects', without which"),
        (
            {"evaluator": {"inputs": [QUERIES, QUERIES, OBJECTS]}},
            "bolt 'evaluator' reads stream 'queries' of 'router' twice, so it would count twice",
        ),
        (
            {"evaluator": {"inputs": [QUERIES, {**OBJECTS, "feedback": True}]}},
            "bolt 'evaluator' reads stream 'objects' of 'router', whose tuples are for the epoch in which they were sent; "
            "leave 'feedback' out",
        ),
        (
            {
                "second": {"operator": "broadcast-router", "broadcast": "queries", "inputs": [MOVED]},
                "evaluator": {"inputs": [QUERIES, edge("second", "objects", "direct")]},
            },
            "bolt 'evaluator' reads the routers 'router' and 'second', which divide in different ways",
        ),
        (
            {"second": {"operator": "broadcast-router", "inputs": [edge("router", "objects", "direct")]}},
            "bolt 'second' reads stream 'objects' of 'router', which has routed them already",
        ),
        (
            {"sink": {"parallelism": 2, "inputs": [edge("evaluator", "results", "all")]}},
            "bolt 'sink' reads stream 'results' of 'evaluator' with the grouping 'all', so every result would be counted",
        ),
        (
            {"sink": {"inputs": [edge("evaluator", "results", "direct")]}},
            "bolt 'sink' reads stream 'results' of 'evaluator' with the grouping 'direct', but 'evaluator' names no task",
        ),
        (
            {"bad": {"operator": "rejects", "path": "bad.jsonl", "inputs": [RESULTS]}},
            "bolt 'bad' reads stream 'results' of 'evaluator', which operator 'rejects' would ignore",
        ),
    ],
)
def test_wiring_that_would_be_silently_wrong_is_refused(bolts, expected):
    """What is lost or repeated, why, and what to write instead, with the key."""
    with pytest.raises(DeclarationError) as caught:
        extended_topology(CONF / "quickstart.toml", {"bolt": bolts})
    assert expected in str(caught.value)
    assert ".inputs: bolt " in str(caught.value)


@pytest.mark.parametrize(
    ("bolts", "expected"),
    [
        (
            {"query-router": {"inputs": [ASKED, edge("balancer", "orders", "all")]}},
            "reads stream 'orders' of 'balancer', whose tuples are for a later epoch; say 'feedback = true'",
        ),
        (
            {
                "query-router": {
                    "parallelism": 2,
                    "inputs": [ASKED, edge("balancer", "orders", "global", feedback=True)],
                }
            },
            "with the grouping 'global', so some routers would keep the old plan; use 'all'",
        ),
        (
            {"balancer": {"inputs": [edge("evaluator", "statistics", "global")]}},
            "bolt 'balancer' reads no stream 'replies', without which it has nothing to do",
        ),
        (
            {
                "balancer": {
                    "inputs": [edge("evaluator", "replies", "direct"), edge("evaluator", "statistics", "global")]
                }
            },
            "with the grouping 'direct', but 'evaluator' names no task there",
        ),
    ],
)
def test_wiring_of_a_balancer_is_checked(bolts, expected):
    """Orders reach all, in a later epoch; the balancer reads both of what evaluators send."""
    with pytest.raises(DeclarationError) as caught:
        extended_topology(CONF / "tornado.toml", {"bolt": bolts})
    assert expected in str(caught.value)


def test_one_evaluator_needs_no_router():
    """With one task every grouping brings everything to it."""
    direct = {"evaluator": {"parallelism": 1, "inputs": [ASKED, MOVED]}}
    tables = {"bolt": {**direct, "sink": {"operator": "collect"}}}
    found = extended_topology(CONF / "quickstart.toml", tables, without=["bolt.router"])
    assert found.component("evaluator").parallelism == 1


class _Source(Spout):
    outputs = {"objects": ("x",), "odd": ("x",)}  # noqa: RUF012

    def next_epoch(self, epoch, inputs, emit):
        """Emit nothing."""
        return False


class _Passes(Bolt):
    outputs = {"objects": ("x",), "queries": ("x",), "results": ("x",)}  # noqa: RUF012


@pytest.mark.parametrize("grouping", ["shuffle", "direct", "all_", "global_"])
def test_operators_that_say_nothing_take_everything(grouping):
    """A bolt or spout of one's own is wired as its author likes, also into a shipped bolt."""
    builder = TopologyBuilder("mine")
    builder.spout("source", _Source)
    mine = builder.bolt("mine", _Passes, parallelism=3)
    getattr(mine, grouping.removesuffix("_") if grouping == "all_" else grouping)("source", "odd")
    evaluator = builder.bolt("evaluator", "range-evaluator", parallelism=2)
    evaluator.all("mine", "objects").fields("mine", ["x"], "queries")
    builder.bolt("sink", "count").global_("evaluator", "results").global_("mine", "results")
    assert builder.build().component("mine").inputs
