"""The input of a topology, read as its spouts read it: for the oracle, and for plans that are built from a sample."""

import dataclasses
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from operators.spouts.injected_input import InjectedQueries, injected_objects
from streams.errors import DeclarationError
from streams.files.object_files import keyword_kind, read_objects
from streams.files.open_queries import OpenQueries
from streams.files.prepared import shared_vocabulary
from streams.files.query_files import read_queries
from streams.tokens import are_tokens
from streams.vocabulary import Encoder, Vocabulary
from topology.amendments import source_of, with_options
from topology.declaration import Topology
from topology.kept_objects import kept_ms_of
from topology.metric import odd_distances, with_metric
from topology.object_vocabulary import vocabulary_beside
from topology.validation import make_operator
from topology.wiring import answers_of

__all__ = ["odd_input", "read_input", "vocabulary_of", "with_keywords", "with_vocabulary"]


#: Times that need no second look: 1990 up to 2100, in milliseconds.
_USUAL = range(631_152_000_000, 4_102_444_800_000)


def vocabulary_of(topology: Topology) -> Vocabulary:
    """Return the vocabulary that a topology's keywords are numbered by."""
    return shared_vocabulary(with_vocabulary(topology).settings.vocabulary)


def with_vocabulary(topology: Topology) -> Topology:
    """Return a topology that names the vocabulary of its objects, where they are prepared and it names none."""
    settings = topology.settings
    if settings.vocabulary is not None:
        return topology
    for component in topology.components:
        operator: Any = make_operator(component, topology) if component.kind == "spout" else None
        folder = vocabulary_beside(operator.files()) if getattr(operator, "takes_prepared", False) else None
        if folder is not None:
            return dataclasses.replace(topology, settings=dataclasses.replace(settings, vocabulary=folder))
    return topology


def with_keywords(topology: Topology) -> Topology:
    """Return a topology whose queries' keywords are read as those of its objects, where that is not declared.

    Texts are cut into words, and so are keywords of queries over them; over objects with given keywords they are taken whole.
    Prepared objects have ids: what their words are like, the first of their vocabulary show.
    """
    try:
        source, target = source_of(topology, "leads"), source_of(topology, "follows")
    except DeclarationError:
        return topology  # whoever brings a spout of their own decides for themselves
    objects, queries = make_operator(source, topology), make_operator(target, topology)
    if getattr(queries, "keywords", "given") is not None or not hasattr(objects, "form"):
        return topology
    kind = keyword_kind(objects.files(), topology.settings.space, objects.form)
    cut = kind == "text" or (kind == "ids" and are_tokens(vocabulary_of(topology).words))
    return with_options(topology, target.name, {"keywords": "text" if cut else "given"})


def odd_input(topology: Topology) -> list[str]:
    """Return what may be wrong with times and distances, each in a sentence with what to do."""
    return [odd for odd in (odd_times(topology), odd_distances(topology)) if odd is not None]


def odd_times(topology: Topology) -> str | None:
    """Say what may be wrong with the times of objects, where the first one is not of 1990 to 2100; None otherwise.

    Of objects that come from elsewhere than from files, nothing is known before they come.
    """
    try:
        source = source_of(topology, "leads")
    except DeclarationError:
        return None
    objects = make_operator(source, topology)
    limits = topology.settings.limits.reading()
    chunks = read_objects(
        objects.files(),
        space=topology.settings.space,
        encoder=Encoder(),
        chunk_rows=64,
        limits=limits,
        form=objects.form,
    )
    here = itertools.takewhile(
        lambda chunk: chunk.records or len(chunk.batch), chunks
    )  # a followed file may have nothing yet
    ts = next((int(chunk.batch.ts[0]) for chunk in here if len(chunk.batch)), None)
    if ts is None or _USUAL.start <= ts < _USUAL.stop:
        return None
    ticks = {"s": ts // 1000, "ms": ts, "us": ts * 1000}[objects.form.time_unit]
    units = [unit for unit, ms in (("s", ticks * 1000), ("ms", ticks), ("us", ticks // 1000)) if ms in _USUAL]
    remedy = (
        f"--set spout.{source.name}.time_unit={units[0]}" if units else "the column of times, or its unit (time_unit)"
    )
    return f"the first object is of {_moment(ts)}; if that is not right, try {remedy}"


def _moment(ts: int) -> str:
    try:
        return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ts):%Y-%m-%d}"
    except OverflowError:
        return "a year beyond 9999" if ts > 0 else "a year before 1"


def read_input(topology: Topology, encoder: Encoder | None = None) -> tuple[Iterator[Any], Iterator[Any]]:
    """Return readers of all objects and of all query operations, injections applied."""
    settings = topology.settings
    limits = settings.limits.reading()
    encoder = encoder or Encoder(vocabulary_of(topology), remember=limits.words)
    topology = with_keywords(with_metric(topology))
    objects = make_operator(source_of(topology, "leads"), topology)
    queries = make_operator(source_of(topology, "follows"), topology)
    chunks = read_objects(
        objects.files(),
        space=settings.space,
        encoder=encoder,
        dynamic=objects.dynamic,
        words=len(encoder.vocabulary),
        limits=limits,
        form=objects.form,
    )

    def queries_read() -> Iterator[Any]:
        return read_queries(
            queries.files(),
            space=settings.space,
            metric=topology.settings.measure,
            encoder=Encoder(encoder.vocabulary, remember=limits.words),
            open_queries=OpenQueries(limits.live_queries),
            answers=answers_of(topology) or None,
            kept_ms=kept_ms_of(topology),
            limits=limits,
            form=queries.form,
            tokenise=queries.cuts_keywords,
        )

    merged = InjectedQueries(queries_read, queries_read, topology.injections, settings.space)
    if objects.form.text.follow:
        chunks = itertools.takewhile(lambda chunk: chunk.records or len(chunk.batch), chunks)  # what has come so far
    return injected_objects(chunks, topology.injections, settings.space, encoder), iter(merged)
