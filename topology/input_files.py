"""The input of a topology, read as its spouts read it: for the oracle, and for plans that are built from a sample."""

import dataclasses
import itertools
from collections.abc import Iterator
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
from topology.metric import with_metric
from topology.object_vocabulary import vocabulary_beside
from topology.validation import make_operator
from topology.wiring import answers_of

__all__ = ["read_input", "vocabulary_of", "with_keywords", "with_vocabulary"]


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
