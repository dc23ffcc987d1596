"""Skype's experiments (Section 8.1): the k best messages of a sliding window, in one task, in steady state, at our scale.

A core has subscriptions with one to five words, alpha from 0 to 1 and k = 20, initialised from a full window. Then messages
come in epochs of 1,000: dissemination, buffers, expiry, re-evaluation, and the lists that have changed, once an epoch. What is
measured comes after a warm-up, for a turnover of the window or as long as the clock allows; times are CPU times of the thread.
Ours is `balls` with `rank` buffers over `keyword-grids`; the paper's is IGPT with cSkyband, its baseline CIQ with
kmax, over the same messages. All are exact: those of a run must change the same lists.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.report import Goal, Options, Report
from benchmarks.skype_stream import SPACE, skype_messages, skype_subscriptions, skype_vocabulary
from operators.evaluation.answers import SENT_TOGETHER
from operators.evaluation.topk_core import TopkCore
from operators.indexes.topk.buffer_rules import make_buffers
from operators.indexes.topk.message_indexes import make_message_index
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from operators.indexes.topk.window_log import WindowLog
from streams.batches import ObjectBatch, QueryBatch
from streams.columns import union_of
from streams.errors import RunError
from streams.window import Window

__all__ = ["run"]

EPOCH = 1000
#: Rules of IGPT that can be switched off.
IGPT_RULES = ("prefix", "refined", "inner", "outer", "unseen", "skip", "early", "cells")
#: Subscriptions that are registered at a time.
REGISTERED = 50_000


@dataclass(frozen=True, slots=True)
class Parts:
    """What a core is made of."""

    index: str
    buffers: str
    messages: str
    index_options: Mapping[str, Any] = field(default_factory=dict)
    buffer_settings: Mapping[str, Any] = field(default_factory=dict)


OURS = Parts("balls", "rank", "keyword-grids")
PAPER = Parts("igpt", "cskyband", "keyword-grids")
BASELINE = Parts("ciq", "kmax", "keyword-grids")


@dataclass(frozen=True, slots=True)
class Setting:
    """A workload, and how long it is looked at.

    Attributes:
        seconds: at most so long, beyond the warm-up.
        window_ms: a window by time instead of by count; a message comes every millisecond.
    """

    subscriptions: int
    window: int
    k: int = 20
    most_words: int = 5
    seconds: float = 20.0
    warm: float = 1.0
    window_ms: bool = False
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """One core in one setting.

    Attributes:
        initialised_us: microseconds a subscription to register and to search the window for it.
        take_us, settle_us, list_us: a message; of arrival, of expiry and re-evaluation, and of the lists that have changed.
        changed: lists a message.
        searches: re-evaluations a subscription in a turnover of the window.
        entries: messages in a buffer, on average.
        prints: how many lists each epoch has changed.
    """

    initialised_us: float
    take_us: float
    settle_us: float
    list_us: float
    changed: float
    searches: float
    entries: float
    bytes_per_subscription: float
    prints: tuple[int, ...]

    @property
    def messages_per_s(self) -> float:
        """Messages a second, everything included."""
        return 1e6 / (self.take_us + self.settle_us + self.list_us)


# --- one core ---------------------------------------------------------------------------------------------------------


class Engine:
    """A core over a stream, with what it has done."""

    def __init__(self, parts: Parts, setting: Setting) -> None:
        words = skype_vocabulary(setting.seed)
        window = Window(ms=setting.window) if setting.window_ms else Window(objects=setting.window)
        table = ScoredSubscriptions(parts.index, SPACE, "euclidean", words, **parts.index_options)
        self.buffers = make_buffers(parts.buffers, **parts.buffer_settings)
        self.index = make_message_index(parts.messages, SPACE)
        self.log = WindowLog(window)
        self.table = table
        self.core = TopkCore(table, self.buffers, self.index, self.log, words)

    def register(self, subscriptions: QueryBatch, now: int) -> None:
        """Take subscriptions in, and search the window for them."""
        for start in range(0, len(subscriptions), REGISTERED):
            self.core.insert(subscriptions.slice(start, min(start + REGISTERED, len(subscriptions))))
            self.core.settle(now, None)

    @property
    def nbytes(self) -> int:
        """Bytes of subscriptions and buffers; the window is apart."""
        return self.table.nbytes + self.buffers.nbytes


def _batches(setting: Setting, messages: int) -> list[ObjectBatch]:
    whole = skype_messages(messages, setting.seed)
    return [whole.slice(start, min(start + EPOCH, messages)) for start in range(0, messages, EPOCH)]


def measure(parts: Parts, setting: Setting) -> Measured:
    """Fill the window, register, warm up, and look at what a message takes."""
    warm = round(setting.warm * setting.window)
    batches = _batches(setting, 2 * setting.window + warm)
    filling, rest = batches[: setting.window // EPOCH], batches[setting.window // EPOCH :]
    engine = Engine(parts, setting)
    subscriptions = skype_subscriptions(setting.subscriptions, setting.seed, k=setting.k, most_words=setting.most_words)
    for batch in filling:
        engine.core.take(batch)
        engine.core.settle(int(batch.ts[-1]), None)
    start = time.thread_time()
    engine.register(subscriptions, int(filling[-1].ts[-1]))
    initialised = time.thread_time() - start
    spent = np.zeros(3)
    counted, changed, searched, prints = 0, 0, 0, []
    deadline = time.thread_time() + setting.seconds * (1 + setting.warm)
    for number, batch in enumerate(rest):
        took, lists, searches = _step(engine, batch)
        if number * EPOCH < warm and time.thread_time() < deadline - setting.seconds:
            continue
        spent += took
        counted, changed, searched = counted + len(batch), changed + lists, searched + searches
        prints.append(lists)
        if time.thread_time() > deadline:
            break
    us = spent / counted * 1e6
    return Measured(
        initialised_us=initialised / setting.subscriptions * 1e6,
        take_us=us[0], settle_us=us[1], list_us=us[2], changed=changed / counted,
        searches=searched / setting.subscriptions * setting.window / counted,
        entries=_entries(engine), bytes_per_subscription=engine.nbytes / setting.subscriptions, prints=tuple(prints),
    )  # fmt: skip


def _step(engine: Engine, batch: ObjectBatch) -> tuple[np.ndarray[Any, np.dtype[np.float64]], int, int]:
    """Do an epoch; return seconds of arrival, of expiry with re-evaluation, and of lists; changed lists, and searches."""
    moments = [time.thread_time()]
    found = engine.core.take(batch)
    moments.append(time.thread_time())
    before = engine.core.searches
    more = engine.core.settle(int(batch.ts[-1]), None)
    moments.append(time.thread_time())
    changed = union_of(found.changed, more.changed)
    for start in range(0, len(changed), SENT_TOGETHER):
        engine.core.results(changed[start : start + SENT_TOGETHER])
    moments.append(time.thread_time())
    return np.diff(moments), len(changed), engine.core.searches - before


def _entries(engine: Engine) -> float:
    numbers = engine.core.numbers()[:10_000]
    return float(np.diff(engine.buffers.whole(engine.table.slots(numbers)).off).mean())


# --- the experiments --------------------------------------------------------------------------------------------------


def run(options: Options) -> Report:
    """Measure the figures of Section 8.1; with `options.out` (a folder), draw them."""
    quick = options.quick
    base = Setting(20_000, 10_000, seconds=2.0) if quick else Setting(200_000, 100_000, seed=options.seed)
    base = replace(base, subscriptions=options.queries or base.subscriptions, seed=options.seed)
    figures: dict[str, float] = {}
    rows: list[list[str]] = []
    _warm_up(base)
    ours = _note("default", OURS, base, figures, rows, "ours")
    rivals = replace(base, seconds=base.seconds / 2, warm=0.05)
    for name, parts in (("igpt_cskyband", PAPER), ("ciq_kmax", BASELINE)):
        other = _note("default", parts, rivals, figures, rows, name)
        figures[f"ours_over_{name}"] = ours.messages_per_s / other.messages_per_s
    _compare_disseminations(rivals, figures, rows)
    _compare_buffers(base, figures, rows)
    for title, key, values in _variations(base, quick):
        for value in values:
            varied: dict[str, Any] = {key: value}
            _note(title, OURS, replace(base, **varied), figures, rows, f"{key}_{value}")
    _note("Figure 20: window by time", OURS, replace(base, window_ms=True), figures, rows, "by_time")
    return Report(
        name="skype",
        data=f"synthetic stream, {base.subscriptions:,} subscriptions with 1 to 5 words, alpha 0 to 1, k = {base.k}, "
        f"a window of {base.window:,}",
        seed=options.seed,
        figures=figures,
        goals=_goals(quick or options.queries is not None),
        columns=(
            "experiment", "parts", "subscriptions", "window", "k", "messages/s", "arrival us", "expiry us", "lists us",
            "changed", "searches", "entries", "bytes", "init us",
        ),
        rows=rows,
        notes=(
            "one thread, CPU time, epochs of 1,000 messages, steady state; 'changed' are lists a message, 'searches' "
            "re-evaluations a subscription in a turnover of the window, 'entries' messages in a buffer",
        ),
    )  # fmt: skip


def _warm_up(setting: Setting) -> None:
    """Compile every kernel."""
    small = replace(setting, subscriptions=500, window=2_000, seconds=0.2)
    for parts in (OURS, PAPER, BASELINE, replace(OURS, buffers="skyband")):
        measure(parts, small)


def _note(
    title: str, parts: Parts, setting: Setting, figures: dict[str, float], rows: list[list[str]], name: str
) -> Measured:
    one = measure(parts, setting)
    figures[f"{name}_messages_per_s"] = one.messages_per_s
    figures[f"{name}_bytes_per_subscription"] = one.bytes_per_subscription
    figures[f"{name}_initialised_us"] = one.initialised_us
    figures[f"{name}_entries"] = one.entries
    figures[f"{name}_searches"] = one.searches
    described = "-".join([parts.index, parts.buffers, parts.messages])
    options = ", ".join(f"{key}={value}" for key, value in {**parts.index_options, **parts.buffer_settings}.items())
    rows.append(
        [
            title, f"{described} {options}".strip(), f"{setting.subscriptions:,}", f"{setting.window:,}", str(setting.k),
            f"{one.messages_per_s:,.0f}", f"{one.take_us:.1f}", f"{one.settle_us:.1f}", f"{one.list_us:.1f}",
            f"{one.changed:.1f}", f"{one.searches:.2f}", f"{one.entries:.1f}", f"{one.bytes_per_subscription:.0f}",
            f"{one.initialised_us:.1f}",
        ]
    )  # fmt: skip
    return one


def _compare_disseminations(setting: Setting, figures: dict[str, float], rows: list[list[str]]) -> None:
    """Figures 11 to 13: groups, pruning rules, and the indexes, all with our buffers."""
    variants: list[tuple[str, Parts]] = [
        ("Figure 13: dissemination", replace(OURS, index="igpt")),
        ("Figure 13: dissemination", replace(OURS, index="ciq")),
        ("Figure 12: pruning", replace(OURS, index="ipt")),
    ]
    variants += [
        ("Figure 11: groups", replace(OURS, index="igpt", index_options={"groups": groups})) for groups in (5, 20, 40)
    ]
    variants += [
        ("Figure 12: pruning", replace(OURS, index="igpt", index_options={rule: False})) for rule in IGPT_RULES
    ]
    for title, parts in variants:
        option = "_".join(f"{key}_{value}" for key, value in parts.index_options.items())
        _note(title, parts, setting, figures, rows, f"{parts.index}_{option}".strip("_"))


def _compare_buffers(setting: Setting, figures: dict[str, float], rows: list[list[str]]) -> None:
    """Figures 10 and 14, Table 4: rules for buffers, all with our dissemination."""
    variants = [("cskyband", {}), ("skyband", {"ratio": 0.95}), ("skyband", {"ratio": 1.0}), ("kmax", {})]
    for rule, settings in variants:
        parts = replace(OURS, buffers=rule, buffer_settings=settings)
        name = "_".join([rule, *(str(value) for value in settings.values())])
        _note("Figure 14: buffers", parts, setting, figures, rows, name)


def _variations(setting: Setting, quick: bool) -> Sequence[tuple[str, str, Sequence[int]]]:
    """Figures 15 to 18: what is varied."""
    n, w = setting.subscriptions, setting.window
    few = [
        ("Figure 15: words", "most_words", (1, 3)),
        ("Figure 16: k", "k", (5, 50)),
        ("Figure 17: subscriptions", "subscriptions", (n // 2, 2 * n)),
        ("Figure 18: window", "window", (w // 2, 2 * w)),
    ]
    return few if quick else [*few, ("Figure 17: subscriptions", "subscriptions", (5 * n,))]


def _goals(partial: bool) -> list[Goal]:
    """Return the goals of the full size; they are set for one of two noisy cores."""
    if partial:
        return []
    return [
        Goal("ours_messages_per_s", at_least=30_000),
        Goal("subscriptions_1000000_messages_per_s", at_least=8_000),
        Goal("ours_over_igpt_cskyband", at_least=10.0),
        Goal("ours_over_ciq_kmax", at_least=40.0),
        Goal("ours_bytes_per_subscription", at_most=650.0),
        Goal("subscriptions_1000000_initialised_us", at_most=20.0),
    ]


def agree(found: Mapping[str, Measured]) -> None:
    """Raise `RunError` where two cores have changed different numbers of lists in an epoch that both have seen."""
    longest = max(found.values(), key=lambda one: len(one.prints)).prints
    for name, one in found.items():
        for epoch, (count, expected) in enumerate(zip(one.prints, longest, strict=False)):
            if count != expected:
                raise RunError(f"epoch {epoch} changed {count} lists of '{name}', but {expected} of another core")
