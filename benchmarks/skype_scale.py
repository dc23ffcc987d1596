"""Skype in the paper's own setting (Section 8.2): five million subscriptions, k = 20, a window of a million, on two cores.

Two tasks have half of the subscriptions each, by number, and all of the window, as `conf/skype.toml` with two evaluators. They
run one after the other, an epoch at a time, in one thread, so that the processor time of each can be told: what two cores take
for an epoch is the slower task. (The paper: nearly 1,300 messages a second with ten nodes.) What passes messages on to both
and takes their lists is apart. Memory is that of the process, with the part of the stream that is under way.

What is measured comes after a full turnover of the window. The baseline, in the same run, is the same system with a tenth of
the subscriptions: what ten times as many cost.
"""

import resource
import time
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.report import Goal, Options, Report, resident_gb
from benchmarks.skype_engine import OURS, Setting, epochs_of, filled
from benchmarks.skype_stream import skype_subscriptions

__all__ = ["run"]

#: A task is a core.
TASKS = 2
#: Subscriptions of the baseline, as a divisor.
BASELINE = 10
#: Messages that are measured, as a part of the window.
MEASURED = 0.1

PAPER_PER_S = 1_300.0  # Section 8.2


@dataclass(frozen=True, slots=True)
class _Scale:
    """One size: microseconds a message on two cores, by stage for the sum of both tasks, and what it takes to get there."""

    message_us: float
    one_core_us: float
    stages_us: tuple[float, float, float]
    changed: float
    searches: float
    bytes_per_subscription: float
    loading_s: float
    rss_gb: float
    peak_gb: float


def run(options: Options) -> Report:
    """Measure a tenth of the subscriptions, then all of them."""
    size = options.queries or (50_000 if options.quick else 5_000_000)
    setting = Setting(size, 10_000 if options.quick else 1_000_000, seed=options.seed)
    goals = [Goal("messages_per_s", at_least=13_000), Goal("rss_gb", at_most=16.0)]
    sizes = (max(size // BASELINE, TASKS), size)
    found = [_measured(replace(setting, subscriptions=count)) for count in sizes]
    baseline, one = found
    figures = {
        "messages_per_s": 1e6 / one.message_us,
        "one_core_messages_per_s": 1e6 / one.one_core_us,
        "bytes_per_subscription": one.bytes_per_subscription,
        "loading_s": one.loading_s,
        "rss_gb": one.rss_gb,
        "peak_gb": one.peak_gb,
        "baseline_messages_per_s": 1e6 / baseline.message_us,
        "growth_of_time": one.one_core_us / baseline.one_core_us,
        "over_paper": 1e6 / one.message_us / PAPER_PER_S,
    }
    return Report(
        name="skype-scale",
        data=f"synthetic stream, {size:,} subscriptions with 1 to 5 words, k = {setting.k}, a window of {setting.window:,}, "
        f"epochs of {setting.epoch:,}, {TASKS} tasks",
        seed=options.seed,
        figures=figures,
        goals=[] if options.quick or options.queries is not None else goals,
        columns=(
            "subscriptions", "messages/s", "one core", "arrival us", "expiry us", "lists us", "changed", "searches", "bytes",
            "load s", "GB", "peak GB",
        ),
        rows=[_row(count, of) for count, of in zip(sizes, found, strict=True)],
        notes=(
            "messages/s: of the slower task in each epoch, by processor time; one core: both tasks one after the other; "
            "arrival, expiry and lists are the sums of both tasks",
        ),
    )  # fmt: skip


def _row(count: int, of: _Scale) -> list[str]:
    return [
        f"{count:,}", f"{1e6 / of.message_us:,.0f}", f"{1e6 / of.one_core_us:,.0f}", *(f"{us:.1f}" for us in of.stages_us),
        f"{of.changed:.1f}", f"{of.searches:.2f}", f"{of.bytes_per_subscription:.0f}", f"{of.loading_s:.0f}",
        f"{of.rss_gb:.2f}", f"{of.peak_gb:.2f}",
    ]  # fmt: skip


def _measured(setting: Setting) -> _Scale:
    began = time.thread_time()
    whole = skype_subscriptions(setting.subscriptions, setting.seed, k=setting.k)
    halves = [whole.take(np.flatnonzero(whole.number % TASKS == task)) for task in range(TASKS)]
    engines = [filled(OURS, setting, half)[0] for half in halves]
    del whole, halves
    loading = time.thread_time() - began
    spent, changed, counted, searched = np.zeros((0, TASKS, 3)), 0, 0, 0
    seen, wanted = 0, round(MEASURED * setting.window)
    for batch in epochs_of(setting, setting.window):
        if not counted:
            searched = sum(engine.core.searches for engine in engines)
        steps = [engine.step(batch) for engine in engines]
        seen += len(batch)
        if seen > setting.window:
            spent = np.concatenate([spent, np.array([[took for took, _ in steps]])])
            counted, changed = counted + len(batch), changed + sum(lists for _, (lists, _) in steps)
            if counted >= wanted:
                break
    searches = sum(engine.core.searches for engine in engines) - searched
    return _Scale(
        message_us=float(spent.sum(2).max(1).sum() / counted * 1e6),
        one_core_us=float(spent.sum() / counted * 1e6),
        stages_us=tuple((spent.sum((0, 1)) / counted * 1e6).tolist()),
        changed=changed / counted,
        searches=searches / setting.subscriptions * setting.window / counted,
        bytes_per_subscription=sum(engine.nbytes for engine in engines) / setting.subscriptions,
        loading_s=loading,
        rss_gb=resident_gb(),
        peak_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    )
