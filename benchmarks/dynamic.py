"""The k best among half a million objects that move and change, for 250,000 queries, next to the paper's methods.

Ours in the size of the paper's TWITTER data, sustained over one update for each object: a short run hides most refills. Then
AQF-GPCL next to ours at a fifth of that size, how ours grows, and Figures 8 to 15 at a size that suits all methods.
"""

from dataclasses import replace

from benchmarks.dynamic_engine import OURS, Parts, Setting, measure
from benchmarks.dynamic_paper import AQF_GPCL, COLUMNS, METHODS, Book, growth, paper_figures
from benchmarks.dynamic_topology import DynamicStream, on_cores, on_ray
from benchmarks.dynamic_workloads import workloads
from benchmarks.pictures import checked_folder, drawn
from benchmarks.report import Goal, Options, Report

__all__ = ["run"]

#: k, updates/s and bytes a query that are to be reached on one core.
WANTED = ((100, 20_000.0, 3_200.0), (20, 35_000.0, 1_200.0))
OVER_PAPER = 100.0
TWO_CORES = 1.5
#: Updates of an epoch where AQF-GPCL is next to ours, which takes it minutes for a thousand.
EPOCH_NEXT_TO = 200
FIRST_LISTS_S = 60.0
#: Queries: of ours, of ours next to AQF-GPCL, and of the paper's figures. Objects are twice as many.
FULL, QUICK = (250_000, 50_000, 5_000), (10_000, 2_000, 1_000)


def run(options: Options) -> Report:
    """Measure ours at full size, the paper's next to it, and its figures, drawn in the folder `options.out`; or workloads."""
    if options.workloads:
        return workloads(options)
    checked_folder(options.out)
    quick = options.quick
    many, some, few = QUICK if quick else FULL
    many = options.queries or many
    _compile()
    book = Book()
    full = _setting(many, options.seed)
    for k, _, _ in WANTED:
        one = book.note(f"sustained, k = {k}", OURS, replace(full, k=k))
        book.figures[f"updates_per_s_k{k}"] = one.updates_per_s
        book.figures[f"bytes_per_query_k{k}"] = one.bytes_per_query
        book.figures[f"first_lists_s_k{k}"] = one.first_lists_s
    alone, both = on_cores(DynamicStream(2 * some, some, k=20, epochs=10, seed=options.seed))
    book.figures |= {"topology_one_core": alone, "topology_two_cores": both, "tasks_two_cores_over_one": both / alone}
    one_process, two = (
        on_ray(DynamicStream(2 * some, some, k=20, epochs=40, seed=options.seed), processes) for processes in (1, 2)
    )
    book.figures |= {
        "ray_one_core": one_process.by_clock,
        "ray_two_cores": two.by_clock,
        "two_cores_over_one": two.by_clock / one_process.by_clock,
        "busier_two_cores_over_one": two.by_busier / one_process.by_busier,
    }
    fifth = replace(_setting(some, options.seed), updates=EPOCH_NEXT_TO, epoch=EPOCH_NEXT_TO)
    paper = book.note("a fifth", AQF_GPCL, fifth)
    ours = book.note("a fifth", OURS, replace(fifth, updates=fifth.objects))
    book.figures["over_aqf_gpcl"] = ours.updates_per_s / paper.updates_per_s
    growth(book, replace(_setting(some, options.seed), updates=some if quick else 2 * some), quick=quick)
    # The paper's methods are measured over few updates: what they cost does not depend on how many there were before.
    paper_figures(
        book,
        replace(_setting(few, options.seed), updates=200 if quick else 2_000, epoch=200 if quick else 1_000),
        quick=quick,
    )
    pictures = []
    if options.out is not None:
        pictures += drawn("dynamic", "us an update", book.times, options.out)
        pictures += drawn("dynamic-memory", "bytes a query", book.sizes, options.out)
    return Report(
        name="dynamic",
        data=f"synthetic stream, {full.objects:,} objects that walk by 0.05 and change their words in half of the updates, "
        f"{full.queries:,} queries with 1 to 5 words, alpha 0 to 1, epochs of {full.epoch:,}",
        seed=options.seed,
        figures=book.figures,
        goals=[] if quick or options.queries is not None else _goals(),
        columns=COLUMNS,
        rows=book.rows,
        notes=(
            "one thread, CPU time; refills an update, and what one takes with the upkeep of cell lists, where there are any",
            "first lists of the paper's refillers are given, and not measured",
            f"conf/dynamic.toml, CPU time of its tasks without Ray, k = 20, {some:,} queries: {alone:,.0f} updates/s on one "
            f"core, {both:,.0f} on two",
            f"the same on Ray, by the clock: {one_process.by_clock:,.0f} updates/s in one process, {two.by_clock:,.0f} in two",
            *(f"drawn: {path}" for path in pictures),
        ),
    )


def _setting(queries: int, seed: int) -> Setting:
    return Setting(2 * queries, queries, seed=seed, seconds=1e9, updates=2 * queries)


def _compile() -> None:
    """Compile every kernel."""
    tiny = Setting(1_000, 200, k=10, seconds=1e9, updates=1_000, epoch=250)
    for parts in (*METHODS, Parts(OURS.index, "kmax"), Parts("aqf", OURS.refill)):
        measure(parts, tiny)


def _goals() -> list[Goal]:
    goals = [
        Goal("over_aqf_gpcl", at_least=OVER_PAPER),
        Goal("best_n_by_model", at_most=1.5),
        Goal("two_cores_over_one", at_least=TWO_CORES),
    ]
    for k, per_s, size in WANTED:
        goals.append(Goal(f"updates_per_s_k{k}", at_least=per_s))
        goals.append(Goal(f"bytes_per_query_k{k}", at_most=size))
        goals.append(Goal(f"first_lists_s_k{k}", at_most=FIRST_LISTS_S))
    return goals
