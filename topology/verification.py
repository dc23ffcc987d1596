"""A run next to the brute-force definition: read the whole input again, and compare every result."""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from operators.injected_input import InjectedQueries, injected_objects, whole_objects, whole_queries
from streams.batches import Batch
from streams.comparison import Comparison, compare
from streams.object_files import read_objects
from streams.oracle import Oracle
from streams.prepared import load_vocabulary
from streams.query_files import read_queries
from streams.query_ledger import QueryLedger
from streams.result_files import result_lines
from streams.vocabulary import Encoder, Vocabulary
from topology.amendments import source_of, with_listener
from topology.declaration import Topology
from topology.run import Outcome, run
from topology.validation import make_operator
from topology.wiring import wire

__all__ = ["oracle_of", "verified_run", "verify_lines"]

#: Results that a verified run may have: they are held in memory.
MAX_RESULTS = 500_000_000


def verified_run(topology: Topology, **options: Any) -> tuple[Outcome, Comparison]:
    """Run a topology and compare its results with the oracle's; `options` are those of `run`."""
    oracle = oracle_of(topology)
    limits = dataclasses.replace(topology.settings.limits, collected=MAX_RESULTS)
    settings = dataclasses.replace(topology.settings, limits=limits)
    listened = with_listener(dataclasses.replace(topology, settings=settings), "verification", "listen")
    outcome = run(listened, **options)
    return outcome, compare(oracle, verify_lines(outcome.collected))


def verify_lines(batches: Iterable[Batch]) -> Iterator[dict[str, Any]]:
    """Yield collected results as the lines of a results file, parsed again."""
    for batch in batches:
        for line in result_lines(batch).splitlines():  # type: ignore[arg-type]
            yield json.loads(line)


def oracle_of(topology: Topology) -> Oracle:
    """Read all input of a topology, as its spouts do, and return the oracle for it."""
    settings = topology.settings
    objects_spout = make_operator(source_of(topology, "leads"), topology)
    queries_spout = make_operator(source_of(topology, "follows"), topology)
    vocabulary = load_vocabulary(settings.vocabulary) if settings.vocabulary is not None else Vocabulary()
    encoder = Encoder(vocabulary, track_words=True)
    dynamic = objects_spout.dynamic
    chunks = read_objects(_paths(objects_spout.path), space=settings.space, encoder=encoder, dynamic=dynamic)
    objects = whole_objects(injected_objects(chunks, topology.injections, settings.space, encoder))
    if objects_spout.limit is not None:
        objects = objects.slice(0, objects_spout.limit)

    def queries_read() -> Iterator[Any]:
        return read_queries(
            _paths(queries_spout.path),
            space=settings.space,
            metric=settings.metric,
            encoder=Encoder(vocabulary),
            ledger=QueryLedger(),
            answers=wire(topology).answers or None,
        )

    queries = whole_queries(InjectedQueries(queries_read, queries_read, topology.injections, settings.space))
    return Oracle(
        objects,
        queries,
        space=settings.space,
        metric=settings.metric,
        vocabulary=vocabulary,
        words=dict(encoder.new_words()),
        window=settings.window,
        dynamic=dynamic,
    )


def _paths(path: Path | tuple[Path, ...]) -> list[Path]:
    return list(path) if isinstance(path, tuple) else [path]
