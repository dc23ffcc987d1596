"""Skype's experiments (Section 8.1): the k best messages of a sliding window, in one task, in steady state, at our scale.

Subscriptions have one to five words, alpha from 0 to 1 and k = 20. Ours is `balls` with `rank` buffers over `keyword-grids`;
the paper's is IGPT with cSkyband, its baseline CIQ with kmax, over the same messages. They are slow, so they are looked at for
seconds, right after the start, when hardly anything has to be evaluated again: that is in their favour. Tables that compare
them under many parameters have a smaller size. All are exact: cores of one workload must change the same lists (`agree`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.pictures import checked_folder, drawn
from benchmarks.report import Goal, Options, Report
from benchmarks.skype_engine import OURS, Measured, Parts, Setting, agree, measure
from benchmarks.skype_workloads import CORES, workloads

__all__ = ["run"]

#: Rules of IGPT that can be switched off.
IGPT_RULES = ("prefix", "refined", "inner", "outer", "unseen", "skip", "early", "cells")
#: Figure 10: kmax as multiples of k, thresholds as parts of the kth score.
KMAX, RATIOS = (1, 2, 3, 4, 5, 6), (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)
#: Subscriptions from which on an epoch has so many messages, which come within a second on one core.
MANY, EPOCH_OF_MANY = 1_000_000, 8_000
#: What the parameters that are varied, and settings of IGPT, are for those who are slow: seconds, and turnovers before.
SLOW_SECONDS, SLOW_WARM = 4.0, 0.05

COLUMNS = (
    "experiment", "core", "subscriptions", "window", "epoch", "k", "messages/s", "arrival us", "expiry us", "lists us",
    "changed", "searches", "entries", "bytes", "init us", "turnovers",
)  # fmt: skip


@dataclass(slots=True)
class _Book:
    """What was measured so far; cores of one workload are held against each other as they come."""

    figures: dict[str, float] = field(default_factory=dict)
    rows: list[list[str]] = field(default_factory=list)
    series: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    seen: dict[Setting, dict[str, Measured]] = field(default_factory=dict)

    def note(self, title: str, name: str, parts: Parts, setting: Setting, at: float | None = None) -> Measured:
        """Measure a core; its figures are named after it. At a value of a parameter it is a point of a picture."""
        one = measure(parts, setting)
        alike = self.seen.setdefault(setting.workload, {})
        alike[name] = one
        agree(alike)
        for figure in ("messages_per_s", "take_us", "settle_us", "list_us", "initialised_us", "entries", "searches"):
            self.figures[f"{name}_{figure}"] = getattr(one, figure)
        self.figures[f"{name}_bytes_per_subscription"] = one.bytes_per_subscription
        if at is not None:
            self.series.setdefault(title, {}).setdefault(_described(parts, options=False), []).append(
                (at, one.message_us)
            )
        times = (one.take_us, one.settle_us, one.list_us, one.changed)
        self.rows.append(
            [
                title, _described(parts), f"{setting.subscriptions:,}", f"{setting.window:,}", f"{setting.epoch:,}",
                str(setting.k), f"{one.messages_per_s:,.0f}", *(f"{value:.1f}" for value in times), f"{one.searches:.2f}",
                f"{one.entries:.1f}", f"{one.bytes_per_subscription:.0f}", f"{one.initialised_us:.1f}", f"{one.turnovers:.2f}",
            ]
        )  # fmt: skip
        return one


def _described(parts: Parts, *, options: bool = True) -> str:
    given = ", ".join(f"{key}={value}" for key, value in {**parts.index_options, **parts.buffer_settings}.items())
    return f"{parts.index}-{parts.buffers}" + (f" {given}" if options and given else "")


def _slow(setting: Setting) -> Setting:
    return replace(setting, seconds=min(setting.seconds, SLOW_SECONDS), warm=SLOW_WARM)


def run(options: Options) -> Report:
    """Measure the figures of Section 8.1; with `options.out` (a folder), draw them. Or what cores do with other workloads."""
    if options.workloads:
        return workloads(options)
    checked_folder(options.out)
    quick = options.quick
    base = Setting(20_000, 10_000, seconds=1.0) if quick else Setting(200_000, 100_000)
    base = replace(base, subscriptions=options.queries or base.subscriptions, seed=options.seed)
    small = replace(
        base, subscriptions=max(base.subscriptions // 4, 1), window=base.window // 2, seconds=min(base.seconds, 4.0)
    )
    book = _Book()
    _warm_up(small)
    _default(book, base)
    _disseminations(book, base)
    _buffers(book, base)
    _tuning(book, small)
    _pruning(book, small)
    _varied(book, small, quick)
    _sizes(book, base, quick)
    pictures = drawn("skype", "us a message", book.series, options.out) if options.out is not None else []
    return Report(
        name="skype",
        data=f"synthetic stream, {base.subscriptions:,} subscriptions with 1 to 5 words, alpha 0 to 1, k = {base.k}, a window "
        f"of {base.window:,}, epochs of {base.epoch:,}",
        seed=options.seed,
        figures=book.figures,
        goals=_goals(quick or options.queries is not None),
        columns=COLUMNS,
        rows=book.rows,
        notes=(
            "one thread, CPU time; arrival is the paper's AMP, expiry (with re-evaluation) its EMP, lists are whole ones of "
            "all that have changed, once an epoch; 'changed' are lists a message, 'searches' re-evaluations a subscription in "
            "a turnover of the window, 'entries' messages in a buffer, 'turnovers' of the window until the end",
            *(f"drawn: {path}" for path in pictures),
        ),
    )  # fmt: skip


def _warm_up(setting: Setting) -> None:
    """Compile every kernel."""
    few = replace(setting, subscriptions=500, window=2_000, seconds=0.2)
    for parts in (*CORES.values(), replace(OURS, buffers="skyband")):
        measure(parts, few)


def _default(book: _Book, base: Setting) -> None:
    """The three with default parameters."""
    ours = book.note("default", "ours", OURS, base)
    for name, parts in list(CORES.items())[1:]:
        other = book.note("default", name, parts, replace(base, seconds=base.seconds / 2, warm=SLOW_WARM))
        book.figures[f"ours_over_{name}"] = ours.messages_per_s / other.messages_per_s


def _disseminations(book: _Book, base: Setting) -> None:
    """Figure 13: the indexes of subscriptions, all with our buffers."""
    for index in ("igpt", "ciq"):
        book.note("Figure 13: dissemination", f"{index}_rank", replace(OURS, index=index), _slow(base))


def _buffers(book: _Book, base: Setting) -> None:
    """Figure 14 and Table 4: rules for buffers, all with our dissemination."""
    for rule, settings in (("cskyband", {}), ("skyband", {"ratio": 0.95}), ("kmax", {})):
        parts = replace(OURS, buffers=rule, buffer_settings=settings)
        book.note("Figure 14, Table 4: buffers", f"balls_{rule}", parts, base)


def _tuning(book: _Book, small: Setting) -> None:
    """Figure 10: kmax and Skyband by their parameter, next to the rules that have none to tune."""
    for rule in ("rank", "cskyband"):
        book.note("Figure 10: tuning", f"tuned_{rule}", replace(OURS, buffers=rule), small)
    for rule, key, values in (("kmax", "factor", KMAX), ("skyband", "ratio", RATIOS)):
        for value in values:
            parts = replace(OURS, buffers=rule, buffer_settings={key: value})
            book.note(f"Figure 10 {rule}: tuning", f"tuned_{rule}_{value}", parts, small, float(value))


def _pruning(book: _Book, small: Setting) -> None:
    """Figures 11 and 12: groups of IGPT, and its rules switched off one at a time."""
    slow, igpt = _slow(small), replace(OURS, index="igpt")
    for groups in (5, 10, 20, 40):
        parts = replace(igpt, index_options={"groups": groups})
        book.note("Figure 11: groups", f"igpt_groups_{groups}", parts, slow, groups)
    book.note("Figure 12: pruning", "ipt", replace(OURS, index="ipt"), slow)
    for rule in IGPT_RULES:
        book.note("Figure 12: pruning", f"igpt_without_{rule}", replace(igpt, index_options={rule: False}), slow)


def _varied(book: _Book, small: Setting, quick: bool) -> None:
    """Figures 15, 16, 19 and 20, and alpha: the three, under parameters of subscriptions and of the window."""
    by_time = replace(small, by_time=True)
    for title, key, values, setting in (
        ("Figure 15: words", "most_words", (1, 5) if quick else (1, 2, 3, 4, 5), small),
        ("Figure 16: k", "k", (5, 50) if quick else (5, 10, 20, 50), small),
        ("Figure 19: even words", "even", (True,), small),
        ("Figure 20: window by time, k", "k", (20,) if quick else (10, 20, 50), by_time),
        ("alpha", "alpha", (0.1, 0.9) if quick else (0.1, 0.5, 0.9), small),
    ):
        for value in values:
            varied: dict[str, Any] = {key: value}
            for name, parts in CORES.items():
                where = replace(setting, **varied)
                called = f"{'by_time_' if setting.by_time else ''}{key}_{value}_{name}"
                at = None if key == "even" else float(value)
                book.note(title, called, parts, where if name == "ours" else _slow(where), at)


def _sizes(book: _Book, base: Setting, quick: bool) -> None:
    """Figures 17 and 18: ours by subscriptions and by window, up to a million of each."""
    n, w = base.subscriptions, base.window
    for count in (n // 2, 2 * n) if quick else (n // 2, 2 * n, 5 * n):
        where = _many(replace(base, subscriptions=count))
        book.note("Figure 17: subscriptions", f"subscriptions_{count}", OURS, where, count)
    for window in (w // 2, 2 * w):
        book.note("Figure 18: window", f"window_{window}", OURS, replace(base, window=window), window)
    if not quick:
        where = _many(replace(base, subscriptions=5 * n, window=10 * w, seconds=4 * base.seconds))
        book.note("Figure 18: window", f"subscriptions_{5 * n}_window_{10 * w}", OURS, where)


def _many(setting: Setting) -> Setting:
    """Return a setting whose epochs are as long as its subscriptions are many: a list is written once an epoch."""
    return replace(setting, together=EPOCH_OF_MANY) if setting.subscriptions >= MANY else setting


def _goals(partial: bool) -> Sequence[Goal]:
    """Return the goals of the full size; they are set for one of two noisy cores."""
    if partial:
        return []
    return [
        Goal("ours_messages_per_s", at_least=30_000),
        Goal("subscriptions_1000000_messages_per_s", at_least=8_000),
        Goal("subscriptions_1000000_window_1000000_messages_per_s", at_least=25_000),
        Goal("ours_over_igpt_cskyband", at_least=10.0),
        Goal("ours_over_ciq_kmax", at_least=40.0),
        Goal("ours_bytes_per_subscription", at_most=650.0),
        Goal("subscriptions_1000000_initialised_us", at_most=20.0),
    ]
