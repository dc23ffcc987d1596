"""A run next to the brute-force definition: read the whole input again, and compare every result."""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Any

from operators.spouts.injected_input import whole_objects, whole_queries
from streams.batches import Batch
from streams.comparison import Comparison, compare
from streams.errors import DeclarationError, brief
from streams.files.result_files import result_lines
from streams.oracle import Oracle
from streams.vocabulary import Encoder
from topology.amendments import result_sink, source_of, with_listener
from topology.declaration import Topology
from topology.input_files import read_input, vocabulary_of
from topology.metric import with_metric
from topology.run import Outcome, run
from topology.validation import make_operator

__all__ = ["judged_lines", "listening", "oracle_of", "verified_run", "verify_lines"]

#: Results that a verified run may have: they are held in memory.
MAX_RESULTS = 500_000_000


def verified_run(topology: Topology, **options: Any) -> tuple[Outcome, Comparison]:
    """Run a topology and compare its results with the oracle's; `options` are those of `run`."""
    topology = with_metric(topology)
    oracle = oracle_of(topology)
    outcome = run(listening(topology), **options)
    return outcome, compare(oracle, judged_lines(outcome.collected))


def listening(topology: Topology) -> Topology:
    """Return a topology that hands all its results over, once: one with a collecting sink does so already."""
    limits = dataclasses.replace(topology.settings.limits, collected=MAX_RESULTS)
    settings = dataclasses.replace(topology.settings, limits=limits)
    roomy = dataclasses.replace(topology, settings=settings)
    return roomy if result_sink(topology).operator == "collect" else with_listener(roomy, "verification", "listen")


def verify_lines(batches: Iterable[Batch]) -> Iterator[dict[str, Any]]:
    """Yield collected results as the lines of a results file, parsed again."""
    for batch in batches:
        for line in result_lines(batch).splitlines():  # type: ignore[arg-type]
            yield json.loads(line)


def judged_lines(batches: Iterable[Batch]) -> Iterator[dict[str, Any]]:
    """Yield collected results as lines that the oracle can judge; raise `DeclarationError` for others."""
    for line in verify_lines(batches):
        if "query" not in line or "ts" not in line or not line.keys() & {"object", "objects", "terms"}:
            raise DeclarationError(
                f"the sink reads lines such as {brief(line)}, which are no results of queries, so there is nothing to compare "
                "them with; a bolt that passes results on emits query, ts and object (or objects, or terms)"
            )
        yield line


def oracle_of(topology: Topology) -> Oracle:
    """Read all input of a topology, as its spouts do, and return the oracle for it."""
    topology = with_metric(topology)
    settings = topology.settings
    spout = make_operator(source_of(topology, "leads"), topology)
    encoder = Encoder(vocabulary_of(topology), track_words=True)
    objects, queries = read_input(topology, encoder)
    all_objects = whole_objects(objects)
    return Oracle(
        all_objects if spout.limit is None else all_objects.slice(0, spout.limit),
        whole_queries(queries),
        space=settings.space,
        metric=settings.measure,
        vocabulary=encoder.vocabulary,
        words=dict(encoder.new_words()),
        window=settings.window,
        dynamic=spout.dynamic,
    )
