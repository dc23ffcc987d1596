"""SSTD's standing queries (Sections 7.2, 7.4 and 7.5, Figures 7, 11, 12 and 13): objects/s on two cores by global index.

So many CRQ, CKQ or CTQ are registered, then objects come. All tasks run on the local runtime, in one thread, where the
processor time of each can be told: on two cores an epoch takes half of all work, or what its busiest task takes if that is
more. At full size the defaults also run on Ray, by the clock, transport and all. Measured are the epochs in which lists and
windows are full: the last slide of terms queries, in which each is answered once.
"""

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.pictures import checked_folder, drawn
from benchmarks.report import Goal, Options, Report
from benchmarks.sstd_stream import AREAS, DATA, SLIDE, WINDOW, Questions, SstdStream, drawn_at, varied
from benchmarks.sstd_topology import INDEXES, observe, plan_of_start, sstd_topology, two_cores_ms
from benchmarks.watched_epochs import EpochWatch
from topology import run as run_topology

__all__ = ["run"]

WORKERS = 4
#: Objects an epoch.
BATCH = 10_000
#: What is varied: the figure, the kind, the field of `Questions`, the values; the paper leaves Text out by then.
VARIED: Sequence[tuple[str, str, str, Sequence[float]]] = (
    ("Figure 11a: CRQ, log10 of the region", "crq", "area", (AREAS[0], AREAS[2], AREAS[4])),
    ("Figure 11b: CRQ, keywords", "crq", "keywords", (1, 2, 3)),
    ("Figure 12a: CKQ, keywords", "ckq", "keywords", (1, 2, 3)),
    ("Figure 12b: CTQ, log10 of the region", "ctq", "area", (AREAS[0], AREAS[2], AREAS[3])),
)
#: Times the default number of CRQ, and how many times fewer objects/s than are wanted with that may come with so many.
SIZES, FALL = (5, 20), 2.0
#: Processes on Ray, with an evaluator each.
PROCESSES = 2
#: Objects/s that are wanted with the default of each kind.
WANTED = {"crq": 500_000.0, "ckq": 150_000.0, "ctq": 40_000.0}


@dataclass(frozen=True, slots=True)
class Flow:
    """One run: objects/s on two cores and on one, candidates an object, copies of a query, efficiency by candidates."""

    objects_per_s: float
    on_one_core: float
    visited: float
    replication: float
    efficiency: float


def run(options: Options) -> Report:
    """Measure the figures; with `options.out` (a folder), draw them."""
    checked_folder(options.out)
    count = options.queries or (2_000 if options.quick else 200_000)
    stream = SstdStream(0, epochs=WINDOW + SLIDE, batch=500 if options.quick else BATCH, seed=options.seed)
    figures: dict[str, float] = {}
    rows: list[list[str]] = []
    series: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in WANTED:  # compiles every kernel
            _measure("qt-tree", replace(stream, batch=50, standing=(Questions(kind, 200),)), folder)
        for kind in WANTED:
            _noted("default", kind, "", "qt-tree", Questions(kind, count), stream, folder, figures, rows)
        for title, kind, field, values in VARIED:
            lines: dict[str, Any] = {}
            for value, index in itertools.product(values[1:2] if options.quick else values, _compared(options)):
                asked = varied(Questions(kind, count), field, value)
                one = _noted(title, kind, f"{field}_{value:g}", index, asked, stream, folder, figures, rows)
                lines.setdefault(index, []).append((drawn_at(field, value), one.objects_per_s))
            series[title] = lines
        for kind in () if options.quick else WANTED:
            _clocked(kind, Questions(kind, count), stream, folder, figures, rows)
        sizes = [(count, figures["qt-tree_crq_objects_per_s"])]
        for times in SIZES[:1] if options.quick else SIZES:
            one = _noted("Figure 13b: queries", "crq", f"{times}_times", "qt-tree", Questions("crq", times * count), stream,
                         folder, figures, rows)  # fmt: skip
            figures[f"crq_fall_at_{times}_times"] = figures["qt-tree_crq_objects_per_s"] / one.objects_per_s
            sizes.append((times * count, one.objects_per_s))
        series["Figure 13b: queries"] = {"qt-tree": sizes}
        for data in DATA[1:]:
            placed = replace(stream, data=data)
            _noted("Figure 7b: data", "crq", data, "qt-tree", Questions("crq", count), placed, folder, figures, rows)
    notes = (
        [f"drawn: {path}" for path in drawn("sstd-continuous", "objects/s", series, options.out)] if options.out else []
    )
    return Report(
        name="sstd-continuous",
        data=f"synthetic stream, {count:,} standing queries of one kind, {stream.batch:,} objects an epoch, {WORKERS} "
        f"evaluators; terms over {WINDOW} epochs, every {SLIDE}",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick else _goals(),
        columns=(
            "figure",
            "queries",
            "global index",
            "objects/s",
            "on one core",
            "visited",
            "replication",
            "efficiency",
        ),
        rows=rows,
        notes=[
            *notes,
            "objects/s on two cores without transport; visited: candidates an object",
            f"on Ray: by the clock, {PROCESSES} processes with an evaluator each; then by the busier one's processor time",
        ],
    )


def _goals() -> list[Goal]:
    wanted = [Goal(f"qt-tree_{kind}_objects_per_s", at_least=least) for kind, least in WANTED.items()]
    many = [Goal(f"qt-tree_crq_{times}_times_objects_per_s", at_least=WANTED["crq"] / FALL) for times in SIZES]
    return [*wanted, *(Goal(f"ray_{kind}_objects_per_s", at_least=least) for kind, least in WANTED.items()), *many]


def _compared(options: Options) -> list[str]:
    return ["qt-tree", "quadtree"] if options.quick else [name for name in INDEXES if name != "text"]


def _measure(index: str, stream: SstdStream, folder: Path) -> Flow:
    seen = observe(INDEXES[index], stream, WORKERS, folder)
    epochs = slice(stream.begin + WINDOW, stream.begin + WINDOW + SLIDE)
    busy, cost, count = seen.busy_ms[epochs], seen.cost[epochs], stream.batch * SLIDE
    return Flow(
        objects_per_s=count / two_cores_ms(busy).sum() * 1e3,
        on_one_core=count / busy.sum() * 1e3,
        visited=float(cost.sum() / count),
        replication=seen.summary["replication"],
        efficiency=float(cost.sum() / max(WORKERS * cost.max(1).sum(), 1.0)),
    )


def _clocked(
    kind: str, asked: Questions, stream: SstdStream, folder: Path, figures: dict[str, float], rows: list[list[str]]
) -> None:
    """Measure one kind of queries on Ray by the clock, transport and all, and note it."""
    stream, index = replace(stream, standing=(asked,)), INDEXES["qt-tree"]
    plan = plan_of_start(index, stream, PROCESSES)
    watch = EpochWatch(stream.begin + WINDOW - 1, stream.begin + WINDOW + SLIDE - 1)
    topology = sstd_topology(index, stream, plan, folder, ray={"workers": PROCESSES})
    run_topology(topology, runtime="ray", on_progress=watch)
    figures[f"ray_{kind}_objects_per_s"] = stream.batch * 1e3 / float(watch.took_ms().mean())
    busier = stream.batch * 1e3 / float(watch.worked_ms().max())
    figures[f"ray_{kind}_objects_per_s_of_busier"] = busier
    rows.append(
        ["on Ray", f"{asked.count:,} {kind}", "qt-tree", f"{figures[f'ray_{kind}_objects_per_s']:,.0f}", f"{busier:,.0f}", "-",
         "-", "-"]
    )  # fmt: skip


def _noted(
    title: str, kind: str, at: str, index: str, asked: Questions, stream: SstdStream, folder: Path,
    figures: dict[str, float], rows: list[list[str]],
) -> Flow:  # fmt: skip
    """Measure one kind of queries under one global index, and note it."""
    one = _measure(index, replace(stream, standing=(asked,)), folder)
    name = "_".join(filter(None, (index, kind, at)))
    figures[f"{name}_objects_per_s"], figures[f"{name}_visited"] = one.objects_per_s, one.visited
    words = " ".join(filter(None, (f"{asked.count:,}", kind, at.replace("_", " "))))
    rows.append(
        [
            title.split(":")[0], words, index, f"{one.objects_per_s:,.0f}", f"{one.on_one_core:,.0f}", f"{one.visited:,.1f}",
            f"{one.replication:.2f}", f"{one.efficiency:.3f}",
        ]
    )  # fmt: skip
    return one
