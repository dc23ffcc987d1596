"""The experiments of the paper on dynamic objects (Section VIII-B, Figures 8 to 15), at our scale.

What is compared: AQF-GPCL and AQF-GCL, the paper's; IGPT-kmax and CIQ-kmax, the related work that it compares itself with; and
ours. All are exact: those of one workload must have the same lists. Growth tables show ours alone, at sizes of its own.
"""

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from benchmarks.dynamic_engine import OURS, Known, Measured, Parts, Setting, agree, known_lists, measure, scene_of

__all__ = ["AQF_GPCL", "BASELINES", "COLUMNS", "METHODS", "Book", "growth", "paper_figures"]

AQF_GPCL, AQF_GCL = Parts("aqf", "gpcl"), Parts("aqf", "gcl")
BASELINES = (AQF_GPCL, AQF_GCL, Parts("igpt", "kmax"), Parts("ciq", "kmax"))
METHODS = (*BASELINES, OURS)
#: What lists have room for at most, as a multiple of k: kmax of the refiller of that name.
KMAX = 3

COLUMNS = (
    "experiment", "at", "method", "objects", "queries", "k", "words", "updates", "updates/s", "us", "finding us",
    "refilling us", "refills", "us a refill", "changed", "finder B", "refiller B", "n", "first lists s",
)  # fmt: skip

Points = dict[str, dict[str, list[tuple[float, float]]]]


@dataclass(slots=True)
class Book:
    """What was measured so far; methods of one workload are held against each other as they come.

    Attributes:
        times, sizes: what pictures show, microseconds an update and bytes a query: by title and method, points.
    """

    figures: dict[str, float] = field(default_factory=dict)
    rows: list[list[str]] = field(default_factory=list)
    times: Points = field(default_factory=dict)
    sizes: Points = field(default_factory=dict)
    _seen: dict[Setting, dict[str, Measured]] = field(default_factory=dict)
    _known: dict[Setting, Known] = field(default_factory=dict)

    def note(self, title: str, parts: Parts, setting: Setting, at: float = 0.0) -> Measured:
        """Measure a method at a value of the parameter that is varied."""
        one = measure(parts, setting, None if parts.refill == OURS.refill else self._lists_of(parts, setting))
        gc.collect()  # the index is large, and a part of cycles that are looked for once in a long while only
        alike = self._seen.setdefault(setting.workload, {})
        alike[str(parts)] = one
        agree(alike)
        for points, value in ((self.times, one.update_us), (self.sizes, one.bytes_per_query)):
            points.setdefault(title, {}).setdefault(str(parts), []).append((at, value))
        self.rows.append(
            [
                title, f"{at:g}" if at else "-", str(parts), f"{setting.objects:,}", f"{setting.queries:,}",
                str(setting.k), f"1-{setting.most_words}", f"{one.updates:,}", f"{one.updates_per_s:,.0f}",
                *(f"{value:.1f}" for value in (one.update_us, one.find_us, one.refill_us)), f"{one.searches:.3f}",
                f"{one.short_us / one.searches:.0f}" if one.searches else "-", f"{one.changed:.1f}",
                f"{one.finder_bytes:.0f}", f"{one.refiller_bytes:.0f}", str(one.n or "-"), f"{one.first_lists_s:.1f}",
            ]
        )  # fmt: skip
        return one

    def _lists_of(self, parts: Parts, setting: Setting) -> Known:
        """Return the lists that a refiller of the paper begins with; those that were asked for last are kept."""
        room = (KMAX if parts.refill == "kmax" else 1) * setting.k
        begun = replace(setting.workload, k=room)
        if begun not in self._known:
            self._known = {begun: known_lists(setting, scene_of(setting), room)}
        return self._known[begun]


def growth(book: Book, base: Setting, *, quick: bool) -> None:
    """Measure how ours grows with k, keywords of queries, objects and queries."""
    step = 2 if quick else 1
    shares = (0.25, 0.5, 1.0, 2.0)[::step]
    for k in (10, 20, 50, 100, 200)[::step]:
        book.note("growth: k", OURS, replace(base, k=k), k)
    for words in (1, 2, 3, 4, 5)[::step]:
        book.note("growth: keywords", OURS, replace(base, most_words=words), words)
    for share in shares:
        book.note("growth: objects", OURS, replace(base, objects=int(share * base.objects)), share * base.objects)
    for share in shares:
        book.note("growth: queries", OURS, replace(base, queries=int(share * base.queries)), share * base.queries)


def paper_figures(book: Book, base: Setting, *, quick: bool) -> None:
    """Measure Figures 8 to 15: the first three with the base workload, the others with one of its parameters varied."""
    _compared(book, base)
    step = 2 if quick else 1
    shares = (0.5, 1.0, 1.5, 2.0, 2.5)[::step]
    objects = [int(share * base.objects) for share in shares]
    queries = [int(share * base.queries) for share in shares]
    alphas = (0.1, 0.3, 0.5, 0.7, 0.9)[::step]
    _varied(book, "Figure 11: k", [(k, replace(base, k=k)) for k in (10, 20, 50, 100, 200)[::step]])
    _varied(
        book, "Figure 12: keywords", [(words, replace(base, most_words=words)) for words in (1, 2, 3, 4, 5)[::step]]
    )
    _varied(book, "Figure 13: objects", [(count, replace(base, objects=count)) for count in objects])
    _varied(book, "Figure 14: queries", [(count, replace(base, queries=count)) for count in queries])
    _varied(book, "Figure 15a: alpha", [(alpha, replace(base, alpha=alpha)) for alpha in alphas])
    _sides(book, base, quick)


def _compared(book: Book, base: Setting) -> None:
    """Figures 8 to 10: overall, finders with one refiller, refillers with one finder."""
    for parts in METHODS:
        one = book.note("Figure 8: overall", parts, base)
        book.figures[f"{str(parts).replace('-', '_')}_us"] = one.update_us
    for index in ("aqf", "igpt", "ciq", OURS.index):
        one = book.note("Figure 9: finding", Parts(index, "kmax"), base)
        book.figures[f"finding_{index}_us"] = one.find_us
    for refill in ("kmax", "gcl", "gpcl", OURS.refill):
        one = book.note("Figure 10: refilling", Parts("aqf", refill), base)
        book.figures[f"refilling_{refill}_us"] = one.refill_us


def _varied(book: Book, title: str, settings: Sequence[tuple[float, Setting]]) -> None:
    for at, setting in settings:
        for parts in METHODS:
            book.note(title, parts, setting, at)


def _sides(book: Book, setting: Setting, quick: bool) -> None:
    """Figure 15b: cells to a side, next to what the cost model says."""
    sides = (8, 16, 32, 64, 96, 128) if quick else (4, 8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192)
    times = {}
    for n in sides:
        parts = replace(AQF_GPCL, refill_options={"n": n})
        times[n] = book.note("Figure 15b: n", parts, setting, n).update_us
    model = book.note("the model's n", AQF_GPCL, setting).n
    best = min(times, key=lambda n: times[n])
    book.figures["model_n"], book.figures["best_n"] = model, best
    book.figures["best_n_by_model"] = max(best / model, model / best)
