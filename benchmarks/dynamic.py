"""The k best among half a million objects that move and change, for 250,000 queries, next to the paper's methods.

Ours in the size of the paper's TWITTER data, sustained over one update for each object: a short run hides most refills. Then,
at a fifth of that size, AQF-GPCL in the same run; and Figures 8 to 15 at a size that all methods can be measured at.
"""

from dataclasses import replace

from benchmarks.dynamic_engine import Measured, Parts, Setting, measure
from benchmarks.dynamic_paper import AQF_GPCL, COLUMNS, Book, paper_figures
from benchmarks.pictures import checked_folder, drawn
from benchmarks.report import Goal, Options, Report

__all__ = ["run"]

OURS = Parts("pyramid", "buffers")
#: k, updates/s and bytes a query that are to be reached on one core.
WANTED = ((100, 20_000.0, 3_200.0), (20, 35_000.0, 1_200.0))
OVER_PAPER = 100.0
FIRST_LISTS_S = 60.0


def run(options: Options) -> Report:
    """Measure ours at full size, the paper's next to it, and its figures; with `options.out` (a folder), draw them."""
    checked_folder(options.out)
    quick = options.quick
    queries = options.queries or (5_000 if quick else 250_000)
    full = Setting(2 * queries, queries, seed=options.seed, seconds=1e9, updates=2 * queries)
    small = Setting(4_000, 2_000, seed=options.seed, seconds=0.5 if quick else 4.0)
    fifth = replace(full, objects=full.objects // 5, queries=full.queries // 5, seconds=2.0 if quick else 20.0)
    for parts in (OURS, AQF_GPCL):  # compile every kernel
        measure(parts, replace(small, objects=500, queries=200, seconds=0.1))
    book = Book()
    for k, _, _ in WANTED:
        _note(book, k, book.note(f"sustained, k = {k}", OURS, replace(full, k=k)))
    ours = book.note("a fifth", OURS, fifth)
    paper = book.note("a fifth", AQF_GPCL, fifth)
    book.figures["over_aqf_gpcl"] = ours.updates_per_s / paper.updates_per_s
    paper_figures(book, replace(small, objects=5 * small.objects, queries=5 * small.queries), small, OURS, quick=quick)
    pictures = drawn("dynamic", "us an update", book.series, options.out) if options.out is not None else []
    return Report(
        name="dynamic",
        data=f"synthetic stream, {full.objects:,} objects that walk by 0.05 and change their words in half of the updates, "
        f"{full.queries:,} queries with 1 to 5 words, alpha 0 to 1, epochs of {full.epoch:,}",
        seed=options.seed,
        figures=book.figures,
        goals=[] if quick or options.queries is not None else _goals(),
        columns=COLUMNS,
        rows=book.rows,
        notes=("one thread, CPU time; searches are refills an update", *(f"drawn: {path}" for path in pictures)),
    )


def _note(book: Book, k: int, one: Measured) -> None:
    book.figures[f"updates_per_s_k{k}"] = one.updates_per_s
    book.figures[f"bytes_per_query_k{k}"] = one.bytes_per_query
    book.figures[f"first_lists_s_k{k}"] = one.first_lists_s


def _goals() -> list[Goal]:
    goals = [Goal("over_aqf_gpcl", at_least=OVER_PAPER), Goal("best_n_by_model", at_most=1.5)]
    for k, per_s, size in WANTED:
        goals.append(Goal(f"updates_per_s_k{k}", at_least=per_s))
        goals.append(Goal(f"bytes_per_query_k{k}", at_most=size))
        goals.append(Goal(f"first_lists_s_k{k}", at_most=FIRST_LISTS_S))
    return goals
