"""The experiments of the paper on dynamic objects (Section VIII-B, Figures 8 to 15), at our scale.

What is compared: AQF-GPCL and AQF-GCL, the paper's; IGPT-kmax and CIQ-kmax, the related work that it compares itself with; and
ours. All are exact: those of one workload must have the same lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from benchmarks.dynamic_engine import Measured, Parts, Setting, agree, measure

__all__ = ["AQF_GPCL", "BASELINES", "COLUMNS", "Book", "paper_figures"]

AQF_GPCL, AQF_GCL = Parts("aqf", "gpcl"), Parts("aqf", "gcl")
BASELINES = (AQF_GPCL, AQF_GCL, Parts("igpt", "kmax"), Parts("ciq", "kmax"))

COLUMNS = (
    "experiment", "method", "objects", "queries", "k", "updates/s", "us", "finding us", "refilling us", "searches", "changed",
    "finder B", "refiller B", "n", "first lists s",
)  # fmt: skip


@dataclass(slots=True)
class Book:
    """What was measured so far; methods of one workload are held against each other as they come."""

    figures: dict[str, float] = field(default_factory=dict)
    rows: list[list[str]] = field(default_factory=list)
    series: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    seen: dict[Setting, dict[str, Measured]] = field(default_factory=dict)

    def note(self, title: str, parts: Parts, setting: Setting, at: float | None = None) -> Measured:
        """Measure a method. At a value of a parameter it is a point of a picture, otherwise its figures are named after it."""
        one = measure(parts, setting)
        alike = self.seen.setdefault(setting.workload, {})
        alike[str(parts)] = one
        agree(alike)
        name = str(parts).replace("-", "_")
        if at is None:
            for figure in ("updates_per_s", "find_us", "refill_us", "bytes_per_query"):
                self.figures[f"{name}_{figure}"] = getattr(one, figure)
        else:
            self.series.setdefault(title, {}).setdefault(str(parts), []).append((at, one.update_us))
        self.rows.append(
            [
                title, str(parts), f"{setting.objects:,}", f"{setting.queries:,}", str(setting.k), f"{one.updates_per_s:,.0f}",
                *(f"{value:.1f}" for value in (one.update_us, one.find_us, one.refill_us)), f"{one.searches:.3f}",
                f"{one.changed:.1f}", f"{one.finder_bytes:.0f}", f"{one.refiller_bytes:.0f}", str(one.n or "-"),
                f"{one.first_lists_s:.1f}",
            ]
        )  # fmt: skip
        return one


def paper_figures(book: Book, base: Setting, small: Setting, ours: Parts, *, quick: bool) -> None:
    """Measure Figures 8 to 15: the first three with the base workload, those over a parameter with a smaller one."""
    for parts in (*BASELINES, ours):
        book.note("Figure 8: overall", parts, base)
    for index in ("aqf", "igpt", "ciq", ours.index):
        book.note("Figure 9: finding", Parts(index, "kmax"), base)
    for refill in ("kmax", "gcl", "gpcl", ours.refill):
        book.note("Figure 10: refilling", Parts("aqf", refill), base)
    methods = (*BASELINES, ours)
    step = 2 if quick else 1
    _varied(book, "Figure 11: k", methods, [(k, replace(small, k=k)) for k in (10, 20, 50, 100, 200)[::step]])
    _varied(book, "Figure 12: keywords", methods, [(w, replace(small, most_words=w)) for w in (1, 2, 3, 4, 5)[::step]])
    shares = (0.5, 1.0, 1.5, 2.0, 2.5)[::step]
    counts = [(share * small.objects, replace(small, objects=int(share * small.objects))) for share in shares]
    _varied(book, "Figure 13: objects", methods, counts)
    counts = [(share * small.queries, replace(small, queries=int(share * small.queries))) for share in shares]
    _varied(book, "Figure 14: queries", methods, counts)
    alphas = (0.1, 0.3, 0.5, 0.7, 0.9)[::step]
    _varied(book, "Figure 15a: alpha", methods, [(alpha, replace(small, alpha=alpha)) for alpha in alphas])
    _sides(book, small, quick)


def _varied(book: Book, title: str, methods: Sequence[Parts], settings: Sequence[tuple[float, Setting]]) -> None:
    for at, setting in settings:
        for parts in methods:
            book.note(title, parts, setting, at)


def _sides(book: Book, setting: Setting, quick: bool) -> None:
    """Figure 15b: cells to a side, next to what the cost model says."""
    sides = (6, 10, 16, 24) if quick else (4, 6, 8, 10, 12, 14, 16, 20, 24, 32)
    times = {}
    for n in sides:
        parts = replace(AQF_GPCL, index_options={"n": n}, refill_options={"n": n})
        one = book.note("Figure 15b: n", parts, setting, n)
        times[n] = one.refill_us
    model = book.note("Figure 15b: the model's n", AQF_GPCL, setting, 0).n
    best = min(times, key=lambda n: times[n])
    book.figures["model_n"], book.figures["best_n"] = model, best
    book.figures["best_n_by_model"] = max(best / model, model / best)
