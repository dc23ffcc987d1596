"""The k best among objects that move and change on the questions that people ask (`bench dynamic --workloads`), as ratios.

Objects walk and change their words as in the other experiments, in the space of the workload. The paper's methods begin with
lists that are known, and are measured over fewer updates: what these cost does not depend on how many there were before.
"""

from dataclasses import dataclass, replace

from benchmarks.dynamic_engine import OURS, Measured, Parts, Scene, Setting, agree, known_lists, measure_scene
from benchmarks.dynamic_paper import AQF_GPCL, KMAX
from benchmarks.range_questions import Source
from benchmarks.report import Goal, Options, Report
from benchmarks.scored_questions import QUESTIONS, Question, key_of, scored
from benchmarks.synthetic_stream import synthetic_objects
from operators.indexes.dynamic.registry import PLANE_ONLY
from streams.geometry import Rect

__all__ = ["workloads"]

#: Ours, the paper's, and the better one of those that it compares itself with.
METHODS = (OURS, AQF_GPCL, Parts("igpt", "kmax"))


@dataclass(frozen=True, slots=True)
class Sizes:
    """Queries, objects, updates of an epoch, and CPU seconds for which a method is measured at most, after one epoch."""

    queries: int
    objects: int
    epoch: int
    seconds: float


FULL, QUICK = Sizes(2_000, 4_000, 200, 0.5), Sizes(500, 1_000, 100, 0.1)


def workloads(options: Options) -> Report:
    """Measure the methods on all workloads."""
    sizes = QUICK if options.quick else FULL
    sizes = replace(sizes, queries=options.queries or sizes.queries)
    rows = synthetic_objects(max(sizes.objects, sizes.queries), options.seed)
    source = Source(rows, Rect(0.0, 0.0, 1.0, 1.0), sizes.queries, sizes.objects, options.seed)
    figures: dict[str, float] = {}
    table = []
    for question in (QUESTIONS["usual"], QUESTIONS["haversine"]):  # compiles
        _measured(question, replace(source, queries=50, objects=200), replace(sizes, seconds=0.0))
    for name, question in QUESTIONS.items():
        measured = _measured(question, source, sizes)
        ours = measured[str(OURS)]
        over = min(ours.updates_per_s / one.updates_per_s for method, one in measured.items() if method != str(OURS))
        for method, one in measured.items():
            figures[f"{key_of(name)}_{method.replace('-', '_')}_updates_per_s"] = one.updates_per_s
        figures[f"{key_of(name)}_over_best"] = over
        table.append(
            (
                name, *(f"{one.updates_per_s:,.0f}" for one in measured.values()), f"{over:.1f}", f"{ours.changed:.1f}",
                f"{ours.searches:.3f}", f"{ours.bytes_per_query:.0f}",
            )
        )  # fmt: skip
    figures["least_over_best"] = min(value for key, value in figures.items() if key.endswith("_over_best"))
    ours_in = {
        where: figures[f"{key_of(where)}_pyramid_buffers_updates_per_s"] for where in ("city", "city in a world")
    }
    figures["world_over_city_time"] = ours_in["city"] / ours_in["city in a world"]
    return Report(
        name="dynamic",
        data=f"synthetic stream, {sizes.objects:,} objects that walk by 0.05 of the space, {sizes.queries:,} queries, a tenth "
        f"of them where they have 40 words, epochs of {sizes.epoch:,}",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick else [Goal("least_over_best", at_least=1.0)],
        columns=("workload", *(f"{method} updates/s" for method in METHODS), "ours / best other", "changed", "refills",
                 "bytes"),
        rows=table,
        notes=(
            "one thread, CPU time; changed lists and refills an update and bytes a query are those of ours; all have the same "
            "lists; the paper's refillers know no globe: with haversine its finders have ours; in a world objects walk across "
            "it, so that few are near a query of the city",
        ),
    )  # fmt: skip


def _measured(question: Question, source: Source, sizes: Sizes) -> dict[str, Measured]:
    """Measure all methods on a question; raise where they have other lists."""
    asked = scored(question, source)
    scene = Scene(asked.queries, asked.objects, asked.words, asked.space, asked.metric)
    setting = Setting(
        len(asked.objects), len(asked.queries), question.k, epoch=sizes.epoch, seconds=sizes.seconds, seed=source.seed,
        updates=len(asked.objects),
    )  # fmt: skip
    known = known_lists(setting, scene, KMAX * question.k)
    found = {}
    for parts in METHODS:
        used = (
            replace(parts, refill=OURS.refill) if asked.metric == "haversine" and parts.refill in PLANE_ONLY else parts
        )
        found[str(parts)] = measure_scene(used, setting, scene, None if used.refill == OURS.refill else known)
    agree(found)
    return found
