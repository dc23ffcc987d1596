"""Adaptivity (Tornado, section 5.4, Figures 9a and 9b): a hotspot in mid-run, with balancing and without.

The stream is calm, then all places shrink towards the centre of the space. Costs are candidates examined, so every figure but
the busy time is the same on any machine. Where each evaluator has a core of its own, the one with the largest cost sets the
pace: throughput goes with 1 / largest cost, and with the same work in all that is the parallel efficiency.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.hotspot_stream import Hotspot, observe
from benchmarks.observed import Observed
from benchmarks.report import Goal, Options, Report
from benchmarks.tornado_topology import Setup
from streams.errors import InputError

__all__ = ["run"]

Floats = NDArray[np.float64]

EVALUATORS = 8
FACTORS = (0.4, 0.5, 0.6, 0.7)
#: Epochs that the balancer is given to bear a hotspot.
SETTLING = 20

STATIC = Setup(evaluators=EVALUATORS)
ADAPTIVE = Setup(evaluators=EVALUATORS, textual_summary=True, policy="tornado")
PAPER = Setup(evaluators=EVALUATORS, textual_summary=True, policy="tornado-paper")
CENTRALISED = Setup(evaluators=EVALUATORS, textual_summary=True, policy="tornado-centralised")


@dataclass(frozen=True, slots=True)
class Borne:
    """How a run bore its hotspot, once it was given time to settle.

    Attributes:
        efficiency: parallel efficiency of the epochs behind the settling.
        peak: the largest cost of an evaluator in each of these epochs, added up.
        moving_cost: the longest epoch of the hotspot in which queries moved, over the median epoch before the plan
            first changed; the length is the largest cost of an evaluator plus the queries that it gave and took.
        moving_busy: the same by the processor time of the slowest router or evaluator.
        settled_cost, settled_busy: the longest such epoch over the median of all epochs of the hotspot, most of which are
            those of a plan that has adapted.
        deciding_ms: the longest time that the balancer worked on an epoch.
    """

    efficiency: float
    peak: float
    moving_cost: float
    moving_busy: float
    settled_cost: float
    settled_busy: float
    deciding_ms: float


def borne(observed: Observed, hotspot: Hotspot) -> Borne:
    """Judge a run."""
    hot = slice(hotspot.start, hotspot.start + hotspot.hot)
    late = observed.cost[hotspot.start + SETTLING : hotspot.start + hotspot.hot]
    work = (observed.cost + observed.moved).max(1)[hot]
    busy = observed.busy_ms.max(1)[hot]
    moving = observed.moved[hot].sum(1) > 0
    changes = [one["epoch"] - hotspot.start for one in observed.summary["rebalances"] if one["epoch"] > hotspot.start]
    before = slice(0, min(changes, default=hotspot.hot))

    def longest(lengths: Floats, usual: Floats) -> float:
        return float(lengths[moving].max() / np.median(usual)) if moving.any() else 0.0

    return Borne(
        efficiency=float(late.sum() / (late.shape[1] * late.max(1).sum())),
        peak=float(late.max(1).sum()),
        moving_cost=longest(work, work[before]),
        moving_busy=longest(busy, busy[before]),
        settled_cost=longest(work, work),
        settled_busy=longest(busy, busy),
        deciding_ms=float(observed.deciding_ms[hot].max(initial=0.0)),
    )


def run(options: Options) -> Report:
    """Measure every factor; with `options.out` (a folder), draw the load over time."""
    if options.out is not None and not options.out.is_dir():
        raise InputError(f"--out {options.out}: no such folder; make it first")
    queries = options.queries or 100_000
    figures: dict[str, float] = {}
    rows: list[list[str]] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        _measure_bytes(Hotspot(queries=queries, calm=8, hot=12, seed=options.seed), Path(folder), figures)
        for factor in FACTORS[:1] + FACTORS[-1:] if options.quick else FACTORS:
            hotspot = Hotspot(factor, queries, seed=options.seed)
            _measure_factor(hotspot, options, Path(folder), figures, rows, notes)
    ratio = figures["centralised_bytes"] / figures["distributed_bytes"]
    figures["centralised_over_distributed_bytes"] = ratio
    notes.append(
        f"statistics to the balancer in 20 epochs: {figures['distributed_bytes']:,.0f} bytes by partition, "
        f"{figures['centralised_bytes']:,.0f} as cells ({ratio:,.0f} x)"
    )
    notes.append(
        f"the longest epoch in which queries moved, by cost and by processor time: "
        f"{figures['moving_over_usual_cost']:.2f} and {figures['moving_over_usual_busy']:.2f} x the median of the hotspot "
        f"before the plan changed, {figures['moving_over_settled_cost']:.2f} and {figures['moving_over_settled_busy']:.2f} x "
        f"that of the whole hotspot; the balancer decided for up to {figures['deciding_ms']:.0f} ms, for which no object waits"
    )
    worst = min(value for name, value in figures.items() if name.startswith("adaptive_efficiency"))
    figures["adaptive_efficiency_worst"] = worst
    return Report(
        name="adaptivity",
        data=f"synthetic stream, {queries:,} queries, {EVALUATORS} evaluators, {Hotspot().batch:,} objects an epoch, "
        f"{Hotspot().calm} calm epochs and {Hotspot().hot} condensed",
        seed=options.seed,
        figures=figures,
        goals=[
            Goal("adaptive_efficiency_worst", at_least=0.85),
            Goal("static_over_adaptive_cost_0.4", at_least=2.0),
            Goal("centralised_over_distributed_bytes", at_least=50.0),
            Goal("moving_over_usual_cost", at_most=2.0),
            Goal("moving_over_usual_busy", at_most=2.0),
            Goal("moving_over_settled_busy", at_most=2.0),
        ],
        columns=("factor", "setup", "efficiency", "largest cost", "moves", "moved", "moving"),
        rows=rows,
        notes=notes,
    )


def _measure_bytes(hotspot: Hotspot, folder: Path, figures: dict[str, float]) -> None:
    """Figure 9b: what evaluators send to the balancer, by partition and by cell; this also compiles all kernels."""
    for name, setup in (("distributed", ADAPTIVE), ("centralised", CENTRALISED)):
        tasks = observe(setup, hotspot, folder).summary["tasks"]
        told = next(task for task in tasks if task["task"] == "balancer[0]")
        figures[f"{name}_bytes"] = float(told["statistics_bytes"])


def _measure_factor(
    hotspot: Hotspot, options: Options, folder: Path, figures: dict[str, float], rows: list[list[str]], notes: list[str]
) -> None:
    """Figure 9a: static, adaptive, and with the paper's own one operation a round."""
    setups = {"static": STATIC, "adaptive": ADAPTIVE, **({} if options.quick else {"paper": PAPER})}
    found: dict[str, Borne] = {}
    results = set()
    for name, setup in setups.items():
        observed = observe(setup, hotspot, folder)
        results.add(observed.summary["results"])
        one = found[name] = borne(observed, hotspot)
        moves = observed.summary["rebalances"]
        rows.append(
            [
                f"{hotspot.factor:g}", name, f"{one.efficiency:.3f}", f"{one.peak:,.0f}", f"{len(moves)}",
                f"{sum(move['queries_moved'] for move in moves):,}", f"{one.moving_cost:.2f}" if moves else "",
            ]
        )  # fmt: skip
        figures[f"{name}_efficiency_{hotspot.factor:g}"] = one.efficiency
        if options.out is not None and name != "paper":
            notes.append(f"drawn: {_drawn(observed, options.out / f'adaptivity-{hotspot.factor:g}-{name}.png')}")
    if len(results) != 1:
        raise AssertionError(f"balancing changed the results: {sorted(results)}")
    figures[f"static_over_adaptive_cost_{hotspot.factor:g}"] = found["static"].peak / found["adaptive"].peak
    for name in ("cost", "busy"):
        ratio = getattr(found["adaptive"], f"moving_{name}")
        figures[f"moving_over_usual_{name}"] = max(ratio, figures.get(f"moving_over_usual_{name}", 0.0))
    for figure, value in (
        ("moving_over_settled_cost", found["adaptive"].settled_cost),
        ("moving_over_settled_busy", found["adaptive"].settled_busy),
        ("deciding_ms", found["adaptive"].deciding_ms),
    ):
        figures[figure] = max(value, figures.get(figure, 0.0))


def _drawn(observed: Observed, path: Path) -> Path:
    from reports.load_picture import draw_loads  # brings matplotlib

    draw_loads({path.stem: observed.summary}, path)
    return path
