"""The k best of a sliding window on the questions that people ask (`bench skype --workloads`), as ratios.

A core has a full window and its subscriptions before anything is measured; ours has let a part of the window pass as well. What
the paper's cores take is measured for seconds, right after the start, when hardly anything has to be evaluated again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.range_questions import Source
from benchmarks.report import Goal, Options, Report
from benchmarks.scored_questions import QUESTIONS, Question, key_of, scored
from benchmarks.skype_engine import BASELINE, OURS, PAPER, Measured, Parts, Scene, Setting, agree, measure_scene
from benchmarks.synthetic_stream import synthetic_objects
from streams.batches import ObjectBatch
from streams.geometry import Rect

__all__ = ["workloads"]

CORES: dict[str, Parts] = {"ours": OURS, "igpt_cskyband": PAPER, "ciq_kmax": BASELINE}
#: Turnovers of the window that ours has seen before it is measured, and those that are measured at most.
WARM, MEASURED = 0.5, 0.5


@dataclass(frozen=True, slots=True)
class Sizes:
    """Subscriptions, the window, and CPU seconds for which a core is measured at most."""

    subscriptions: int
    window: int
    seconds: float


FULL, QUICK = Sizes(5_000, 5_000, 0.5), Sizes(1_000, 1_000, 0.1)


def workloads(options: Options) -> Report:
    """Measure the cores on all workloads."""
    sizes = QUICK if options.quick else FULL
    sizes = replace(sizes, subscriptions=options.queries or sizes.subscriptions)
    messages = round((1 + WARM + MEASURED) * sizes.window)
    rows = synthetic_objects(max(messages, sizes.subscriptions), options.seed)
    source = Source(rows, Rect(0.0, 0.0, 1.0, 1.0), sizes.subscriptions, messages, options.seed)
    figures: dict[str, float] = {}
    table = []
    tiny = Sizes(50, min(200, sizes.window), 0.0)
    for question in (QUESTIONS["usual"], QUESTIONS["haversine"]):  # compiles
        _measured(question, replace(source, queries=tiny.subscriptions, objects=2 * tiny.window), tiny)
    for name, question in QUESTIONS.items():
        measured = _measured(question, source, sizes)
        ours = measured["ours"]
        over = min(ours.messages_per_s / one.messages_per_s for core, one in measured.items() if core != "ours")
        figures |= {f"{key_of(name)}_{core}_messages_per_s": one.messages_per_s for core, one in measured.items()}
        figures[f"{key_of(name)}_over_best"] = over
        table.append(
            (
                name, *(f"{one.messages_per_s:,.0f}" for one in measured.values()), f"{over:.1f}", f"{ours.changed:.1f}",
                f"{ours.searches:.2f}", f"{ours.bytes_per_subscription:.0f}", f"{ours.initialised_us:.1f}",
            )
        )  # fmt: skip
    figures["least_over_best"] = min(value for key, value in figures.items() if key.endswith("_over_best"))
    figures["world_over_city_time"] = (
        figures["city_ours_messages_per_s"] / figures["city_in_a_world_ours_messages_per_s"]
    )
    return Report(
        name="skype",
        data=f"synthetic stream, {sizes.subscriptions:,} subscriptions, a tenth of them where they have 40 words, a window of "
        f"{sizes.window:,}",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick else [Goal("least_over_best", at_least=1.0), Goal("world_over_city_time", at_most=1.3)],
        columns=("workload", *(f"{core.replace('_', '-')} messages/s" for core in CORES), "ours / best other", "changed",
                 "searches", "bytes", "init us"),
        rows=table,
        notes=(
            "one thread, CPU time; changed lists a message, re-evaluations a subscription in a turnover of the window, bytes "
            "and init us a subscription are those of ours; all changed the same lists",
        ),
    )  # fmt: skip


def _measured(question: Question, source: Source, sizes: Sizes) -> dict[str, Measured]:
    """Measure all cores on a question; raise where they have changed other lists."""
    asked = scored(question, source)
    setting = Setting(len(asked.queries), sizes.window, question.k, seed=source.seed, warm=WARM, seconds=sizes.seconds)

    def messages(first: int) -> Iterator[ObjectBatch]:
        for start in range(first, len(asked.objects), setting.epoch):
            yield asked.objects.slice(start, min(start + setting.epoch, len(asked.objects)))

    scene = Scene(asked.queries, messages, asked.words, asked.space, asked.metric)
    found = {
        core: measure_scene(parts, setting if parts is OURS else replace(setting, warm=0.0), scene)
        for core, parts in CORES.items()
    }
    agree(found)
    return found
