"""SSTD's snapshot queries (Sections 7.2, 7.3, 7.5, 7.7, Figures 7 to 10 and 13): latency and objects visited by global index.

Objects are kept, more arrive in epochs of a few milliseconds, and one question is asked in each epoch. All tasks run on the
local runtime, in one thread, where the processor time of each can be told: the latency of a question is that of its epoch along
the way of an object, the busiest task of every component (source, router, evaluator, merger, sink), as with a core for each; an
answer of two phases has its second in a later epoch, where another question has its first. Objects visited are candidates
that all evaluators examine: the same on every machine.

At last questions are asked by the clock while objects arrive, on Ray (`sstd_live`): from the moment one is due until its answer
is at the sink, by the wall clock, so other work on the machine counts too. With ``--quick`` that is on the local runtime.
"""

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.pictures import checked_folder, drawn
from benchmarks.report import Goal, Options, Report
from benchmarks.sstd_live import ASKED, RATE, live_answers
from benchmarks.sstd_stream import AREAS, DATA, Questions, SstdStream, drawn_at, varied
from benchmarks.sstd_topology import INDEXES, GlobalIndex, latency_ms, observe

__all__ = ["run"]

Floats = NDArray[np.float64]

WORKERS = 4
#: Theta: leaves of the QT-tree (Section 7.7).
LEAVES = (32, 64, 128, 256)
#: Questions of a series that are not measured: caches are cold.
COLD = 2
#: What is varied: the figure, the kind, the field of `Questions`, the values.
VARIED: Sequence[tuple[str, str, str, Sequence[float]]] = (
    ("Figure 8a: SRQ, log10 of the region", "srq", "area", (AREAS[0], AREAS[2], AREAS[4])),
    ("Figure 8b: SRQ, keywords", "srq", "keywords", (1, 2, 3)),
    ("Figure 9a: SKQ, k", "skq", "k", (10, 40)),
    ("Figure 9b: SKQ, keywords", "skq", "keywords", (1, 2, 3)),
    ("Figure 10a: STQ, log10 of the region", "stq", "area", (AREAS[0], AREAS[2], AREAS[4])),
    ("Figure 10b: STQ, k", "stq", "k", (10, 40)),
)


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """How questions of one kind were answered: milliseconds of each, and objects visited for one."""

    ms: Floats
    visited: float

    @property
    def median(self) -> float:
        """The median latency."""
        return float(np.median(self.ms))

    @property
    def worst(self) -> float:
        """The 99th percentile of the latency."""
        return float(np.percentile(self.ms, 99))


def run(options: Options) -> Report:
    """Measure the figures; with `options.out` (a folder), draw them."""
    checked_folder(options.out)
    kept = options.queries or (40_000 if options.quick else 2_000_000)
    count = 12 if options.quick else 120
    stream = SstdStream(kept, asked=_series(count), seed=options.seed)
    figures: dict[str, float] = {}
    rows: list[list[str]] = []
    series: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _measure("qt-tree", replace(stream, kept=2_000, asked=_series(3)), folder)  # compiles every kernel
        found = {index: _measure(index, stream, folder) for index in INDEXES}
        for title, kind, field, values in VARIED:
            _noted(title, kind, field, values, found, figures, rows, series)
        _compared(found, figures)
        some = replace(stream, asked=_series(count)[:3])
        series["Figure 7a: SRQ, log10 of the region"] = _by_data(some, folder, figures, rows)
        series["Figure 13a: SRQ, objects kept"] = _by_size(some, folder, figures, rows)
        defaults = tuple(Questions(kind, count) for kind in ("srq", "skq", "stq"))
        _by_leaves(replace(stream, asked=defaults), folder, figures, rows)
        _live(kept, options, folder, figures, rows)
    notes = (
        [f"drawn: {path}" for path in drawn("sstd-snapshot", "latency (ms)", series, options.out)]
        if options.out
        else []
    )
    return Report(
        name="sstd-snapshot",
        data=f"synthetic stream, {kept:,} objects kept, {stream.batch} more and a question an epoch, {WORKERS} evaluators, "
        f"{count - COLD} questions a point",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick else _goals(),
        columns=("figure", "at", "global index", "p50 ms", "p99 ms", "objects visited"),
        rows=rows,
        notes=[
            *notes,
            "latency: processor time of the busiest task of each component, with the objects of the epoch",
            f"live: {ASKED:g} questions/s by the clock while {RATE:,.0f} objects/s arrive (--quick: a twentieth), from when a "
            "question is due to its answer, wall time",
        ],
    )


def _goals() -> list[Goal]:
    return [
        bound
        for where in ("qt-tree", "live")
        for kind in ("srq", "skq")
        for bound in (Goal(f"{where}_{kind}_p50_ms", at_most=5.0), Goal(f"{where}_{kind}_p99_ms", at_most=25.0))
    ]


def _series(count: int) -> tuple[Questions, ...]:
    """Return the questions of all figures, each kind with each setting once."""
    found = []
    for _, kind, field, values in VARIED:
        found += [varied(Questions(kind, count), field, value) for value in values]
    return tuple(dict.fromkeys(found))


def _measure(index: str, stream: SstdStream, folder: Path) -> dict[Questions, Answered]:
    return _measured(INDEXES[index], stream, folder)


def _measured(index: GlobalIndex, stream: SstdStream, folder: Path) -> dict[Questions, Answered]:
    seen = observe(index, stream, WORKERS, folder)
    taken = latency_ms(seen)
    found = {}
    for place, questions in enumerate(stream.asked):
        epochs = stream.epochs_of(place)
        warm = slice(epochs.start + COLD, epochs.stop)
        found[questions] = Answered(taken[warm], float(seen.cost[warm].sum(1).mean()))
    return found


def _row(rows: list[list[str]], figure: str, at: object, index: str, one: Answered) -> None:
    rows.append([figure, str(at), index, f"{one.median:.2f}", f"{one.worst:.2f}", f"{one.visited:,.0f}"])


def _noted(
    title: str, kind: str, field: str, values: Sequence[float], found: dict[str, dict[Questions, Answered]],
    figures: dict[str, float], rows: list[list[str]], series: dict[str, dict[str, Any]],
) -> None:  # fmt: skip
    """Note one figure: all global indexes for each value of a parameter."""
    for value, (index, answered) in itertools.product(values, found.items()):
        (one,) = (one for asked, one in answered.items() if asked == varied(Questions(kind, asked.count), field, value))
        _row(rows, f"{title.split(':')[0]}, {kind}", f"{field} {value:g}", index, one)
        figures[f"{index}_{kind}_{field}_{value:g}_p50_ms"] = one.median
        figures[f"{index}_{kind}_{field}_{value:g}_visited"] = one.visited
        series.setdefault(title, {}).setdefault(index, []).append((drawn_at(field, value), one.median))


def _compared(found: dict[str, dict[Questions, Answered]], figures: dict[str, float]) -> None:
    """Note the defaults of each kind, and how many times as much as the QT-tree the others take."""
    for index, answered in found.items():
        for kind in ("srq", "skq", "stq"):
            asked = next(asked for asked in answered if asked == Questions(kind, asked.count))
            one, ours = answered[asked], found["qt-tree"][asked]
            figures[f"{index}_{kind}_p50_ms"], figures[f"{index}_{kind}_p99_ms"] = one.median, one.worst
            if index != "qt-tree":
                figures[f"{index}_over_qt-tree_{kind}_ms"] = one.median / ours.median
                figures[f"{index}_over_qt-tree_{kind}_visited"] = one.visited / max(ours.visited, 1.0)


def _by_data(
    stream: SstdStream, folder: Path, figures: dict[str, float], rows: list[list[str]]
) -> dict[str, list[tuple[float, float]]]:
    """Figure 7(a): SRQ over other distributions of places."""
    drawn_lines: dict[str, list[tuple[float, float]]] = {}
    for data in DATA:
        for questions, one in _measure("qt-tree", replace(stream, data=data), folder).items():
            _row(rows, "Figure 7a, srq", f"area {questions.area:g}", f"qt-tree, {data}", one)
            figures[f"{data}_srq_area_{questions.area:g}_p50_ms"] = one.median
            figures[f"{data}_srq_area_{questions.area:g}_visited"] = one.visited
            drawn_lines.setdefault(data, []).append((drawn_at("area", questions.area), one.median))
    return drawn_lines


def _by_size(
    stream: SstdStream, folder: Path, figures: dict[str, float], rows: list[list[str]]
) -> dict[str, list[tuple[float, float]]]:
    """Figure 13(a): SRQ by the number of objects that are kept."""
    drawn_lines: dict[str, list[tuple[float, float]]] = {}
    default = replace(stream, asked=stream.asked[1:2])
    for kept, index in itertools.product((stream.kept // 4, stream.kept // 2, stream.kept), ("qt-tree", "quadtree")):
        ((_, one),) = _measure(index, replace(default, kept=kept), folder).items()
        _row(rows, "Figure 13a, srq", f"{kept:,} objects", index, one)
        figures[f"{index}_srq_kept_{kept}_p50_ms"] = one.median
        drawn_lines.setdefault(index, []).append((kept, one.median))
    return drawn_lines


def _by_leaves(stream: SstdStream, folder: Path, figures: dict[str, float], rows: list[list[str]]) -> None:
    """Section 7.7: all kinds by the number of leaves."""
    for leaves in LEAVES:
        for questions, one in _measured(replace(INDEXES["qt-tree"], leaves=leaves), stream, folder).items():
            _row(rows, f"Section 7.7, {questions.kind}", f"leaves {leaves}", "qt-tree", one)
            figures[f"leaves_{leaves}_{questions.kind}_p50_ms"] = one.median
            figures[f"leaves_{leaves}_{questions.kind}_visited"] = one.visited


def _live(kept: int, options: Options, folder: Path, figures: dict[str, float], rows: list[list[str]]) -> None:
    """Ask by the clock while objects arrive."""
    runtime, count, rate = ("local", 20, RATE / 20) if options.quick else ("ray", 1_000, RATE)
    found = live_answers(kept, count, options.seed, folder, runtime, rate)
    for kind in found.ms:
        half, worst = found.percentile(kind, 50), found.percentile(kind, 99)
        figures[f"live_{kind}_p50_ms"], figures[f"live_{kind}_p99_ms"] = half, worst
        rows.append([f"live, {kind}", f"{kept:,} objects", f"qt-tree, {runtime}", f"{half:.2f}", f"{worst:.2f}", ""])
