"""Workloads of the k best by distance and text: the questions that people ask, beside those that an index was made for.

They are those of range indexes (`benchmarks.range_questions`) as far as they make sense with a score: the place of a query is
the centre of a region, alpha is drawn from 0 to 1 where it is not what makes the workload.
"""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.range_questions import WORKLOADS, Source, centred
from streams.batches import TYPE_TOPK, ObjectBatch, QueryBatch
from streams.columns import Ids, sorted_rows
from streams.geometry import Metric, Rect
from streams.vocabulary import Vocabulary

__all__ = ["QUESTIONS", "Question", "Scored", "key_of", "scored"]


@dataclass(frozen=True, slots=True)
class Question:
    """A workload of range indexes with a k and an alpha; without an alpha, each query has its own."""

    workload: str
    k: int = 20
    alpha: float | None = None


QUESTIONS = {
    "usual": Question("usual"),
    "k = 100": Question("usual", k=100),
    "nearly all text": Question("usual", alpha=0.05),
    "nearly all distance": Question("usual", alpha=0.95),
    "city": Question("city"),
    "city in a world": Question("city in a world"),
    "few words": Question("few words"),
    "few words, zipf": Question("few words, zipf"),
    "haversine": Question("haversine circles"),
    "one keyword": Question("one keyword"),
    "long texts": Question("long texts"),
    "identical": Question("identical"),
    "40 words": Question("40 words, any"),
}


def key_of(name: str) -> str:
    """Return the name of a workload as the names of figures have it."""
    return name.replace(" = ", "_").replace(",", "").replace(" ", "_")


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Queries, objects in the order in which they come, the statistics of their words, and where they are."""

    queries: QueryBatch
    objects: ObjectBatch
    words: Vocabulary
    space: Rect
    metric: Metric


def scored(question: Question, source: Source) -> Scored:
    """Return the queries and objects of a question, drawn from the rows of a source."""
    workload = WORKLOADS[question.workload](source)
    count, objects = len(workload.queries), workload.objects
    off, kw = sorted_rows(np.repeat(np.arange(count), np.diff(workload.queries.kw_off)), workload.queries.kw, count)
    alpha = source.random(6).random(count) if question.alpha is None else np.full(count, question.alpha)
    queries = replace(
        centred(workload.queries), type=np.full(count, TYPE_TOPK, np.uint8), k=np.full(count, question.k, np.int32),
        alpha=alpha, match_any=np.zeros(count, np.bool_), kw_off=off, kw=kw,
    )  # fmt: skip
    seq = np.arange(len(objects))
    known = 1 + int(max(objects.kw.max(initial=0), queries.kw.max(initial=0)))
    frequency = np.bincount(objects.kw, minlength=known)
    words = Vocabulary(tuple(f"w{word}" for word in range(known)), frequency, len(objects))
    ordered = replace(objects, seq=seq, ts=seq, ids=Ids("int", seq))
    return Scored(queries, ordered, words, workload.space, workload.metric)
