"""A hotspot in mid-run: who does the work, with a fixed plan and with one that adapts.

    python examples/hotspot.py [local|ray]

A day of flights and a week of earthquakes flow past four thousand standing questions; from nine in the morning on everything
draws together towards Los Angeles. Both begin with the plan that the first 2,000 objects suggest. The ten-line test below says
what should hold; docs/testing.md says more.
"""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from topology.testing import Trial, run_for_test

CONF = Path(__file__).parents[1] / "conf"
START, NIGHT = "2001-06-28T09:00:00Z", "2001-06-28T23:30:00Z"
HOTSPOT: dict[str, Any] = {"kind": "condense", "at": [-118.2, 34.0], "strength": 0.6, "start": START}
SETTINGS = ["topology.epoch.objects=400", "bolt.evaluator.parallelism=4", "topology.partitioner.sample=2000"]


def tried(name: str, runtime: str = "local") -> Trial:
    """Run one of the shipped topologies under the hotspot."""
    return run_for_test(CONF / f"{name}.toml", inject=[HOTSPOT], settings=SETTINGS, runtime=runtime)


def test_tornado_bears_a_hotspot() -> None:
    """Every alert is right, queries move, and ten epochs after the hotspot began the load is shared again."""
    trial = tried("tornado")
    trial.assert_exact()
    trial.assert_rebalanced()
    trial.assert_balanced(0.6, after=trial.epoch_at(START) + 10, until=trial.epoch_at(NIGHT))


def bars(trial: Trial, parts: int = 10) -> str:
    """Draw the share of the work that each evaluator has, over time; the hotspot begins at the arrow."""
    history = trial.timeline()
    start, end = trial.epoch_at(START), trial.epoch_at(NIGHT)
    lines = []
    for first, last in pairwise(round(end * i / parts) for i in range(parts + 1)):
        part = history.between(first, last)
        costs = part.costs.sum(0).tolist()
        shares = "  ".join(f"{'#' * round(16 * cost / max(sum(costs), 1)):<16}" for cost in costs)
        mark = "->" if first <= start < last else "  "
        lines.append(
            f"{mark} epochs {first:2}-{last - 1:<2}  efficiency {part.parallel_efficiency():.2f}  {shares}".rstrip()
        )
    return "\n".join(lines)


def main(runtime: str = "local") -> dict[str, float]:
    """Run both and return their parallel efficiency from ten epochs after the start of the hotspot on."""
    efficiency = {}
    for name in ("tornado-static", "tornado"):
        trial = tried(name, runtime)
        late = trial.timeline().between(trial.epoch_at(START) + 10, trial.epoch_at(NIGHT))
        efficiency[name] = late.parallel_efficiency()
        print(f"{name}: {trial.summary['results']:,} alerts, {len(trial.summary['rebalances'])} moves of queries")
        print(bars(trial))
        print(f"ten epochs after the hotspot began, the efficiency is {efficiency[name]:.2f}\n")
    return efficiency


if __name__ == "__main__":
    main(*sys.argv[1:])
    test_tornado_bears_a_hotspot()
    print("the test of the hotspot passes")
