"""Indexes of kept objects on the questions that people ask (`bench object-index --workloads`), as ratios.

The workloads are those of range indexes (`benchmarks.range_questions`) the other way round: the objects are kept, and the
queries are asked once, all of them in one call: which objects are inside (SRQ), and which are the nearest to its centre (SKQ).
"""

import time
from typing import Any

import numpy as np

from benchmarks.range_questions import WORKLOADS, Source, Workload, centred
from benchmarks.report import Goal, Options, Report
from benchmarks.synthetic_stream import synthetic_objects
from operators.indexes.objects import Requests, make_object_index
from streams.columns import sorted_rows
from streams.errors import RunError
from streams.geometry import Rect

__all__ = ["workloads"]

NAMES = ("segments", "r-tree")
BATCH, K = 1000, 10
#: Objects that are kept, and questions of each workload.
FULL, QUICK = (1_000_000, 400), (20_000, 40)


def workloads(options: Options) -> Report:
    """Measure both indexes on all workloads."""
    objects, questions = QUICK if options.quick else FULL
    objects = options.queries or objects
    source = Source(
        synthetic_objects(objects, options.seed), Rect(0.0, 0.0, 1.0, 1.0), 10 * questions, objects, options.seed
    )
    figures: dict[str, float] = {}
    table = []
    for name, make in WORKLOADS.items():
        workload = make(source)
        micros, matches = _measured(workload, questions)
        key = name.replace(",", "").replace(" ", "_")
        for kind in ("srq", "skq"):
            for index in NAMES:
                figures[f"{key}_{index.replace('-', '_')}_{kind}_us"] = micros[index, kind]
            figures[f"{key}_{kind}_over_r_tree"] = micros["r-tree", kind] / micros["segments", kind]
        table.append(_row(name, micros, matches))
    figures["least_over_r_tree"] = min(value for key, value in figures.items() if key.endswith("_over_r_tree"))
    return Report(
        name="object-index",
        data=f"synthetic stream, {objects:,} objects, {questions:,} questions of each workload",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick else [Goal("least_over_r_tree", at_least=1.0)],
        columns=("workload", *(f"{index} {kind} us" for kind in ("srq", "skq") for index in NAMES), "srq ratio",
                 "skq ratio", "objects inside"),
        rows=table,
        notes=(f"one thread, CPU time a question, all in one call; k = {K}; both gave the same answers",),
    )  # fmt: skip


def _measured(workload: Workload, questions: int) -> tuple[dict[tuple[str, str], float], float]:
    """Return microseconds a question by index and kind, and how many objects are inside a region on average."""
    inside, nearest = _requests(workload, questions)
    micros: dict[tuple[str, str], float] = {}
    answers: dict[str, list[Any]] = {}
    for name in NAMES:
        index = make_object_index(name, workload.space, workload.metric)
        for start in range(0, len(workload.objects), BATCH):
            index.add(workload.objects.slice(start, start + BATCH))
        index.srq(inside.slice(0, 1))  # compiles
        index.skq(nearest.slice(0, 1))
        answers[name] = []
        for kind, ask, requests in (("srq", index.srq, inside), ("skq", index.skq, nearest)):
            begin = time.thread_time_ns()
            found = ask(requests)
            micros[name, kind] = (time.thread_time_ns() - begin) / 1e3 / len(requests)
            rows = np.repeat(np.arange(len(requests)), np.diff(found.off))
            answers[name].append((found.off, found.seq[np.lexsort((found.seq, rows))]))
    for one, other in zip(*answers.values(), strict=True):
        if not all(map(np.array_equal, one, other)):
            raise RunError("the indexes disagree about the answers of a workload")
    return micros, len(answers[NAMES[0]][0][1]) / len(inside)


def _requests(workload: Workload, questions: int) -> tuple[Requests, Requests]:
    """Return the first queries of a workload as questions: for what is inside, and for what is nearest to the centre."""
    asked = workload.queries.slice(0, questions)
    count, objects = len(asked), len(workload.objects)
    row = np.repeat(np.arange(count), np.diff(asked.kw_off))
    off, kw = sorted_rows(row, asked.kw, count)
    which = (np.zeros(count, np.int64), np.full(count, objects), np.full(count, K, np.int32), np.full(count, np.inf))
    inside = Requests(asked.region, asked.shape, asked.match_any, *which, off, kw)
    places = centred(asked)
    return inside, Requests(places.region, places.shape, asked.match_any, *which, off, kw)


def _row(name: str, micros: dict[tuple[str, str], float], matches: float) -> tuple[str, ...]:
    cells = (f"{micros[index, kind]:,.0f}" for kind in ("srq", "skq") for index in NAMES)
    ratios = (f"{micros['r-tree', kind] / micros['segments', kind]:.1f}" for kind in ("srq", "skq"))
    return (name, *cells, *ratios, f"{matches:,.1f}")
