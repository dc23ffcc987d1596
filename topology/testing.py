"""Test a topology in ten lines: run it, disturb it, and assert that it stays exact and balanced.

    from topology.testing import run_for_test

    def test_tornado_bears_a_hotspot():
        hotspot = {"kind": "condense", "at": [-118.2, 34.0], "strength": 0.6, "start": "2001-06-28T09:00:00Z"}
        trial = run_for_test("conf/tornado.toml", inject=[hotspot], settings=["topology.epoch.objects=400"])
        trial.assert_exact()
        trial.assert_rebalanced()
        trial.assert_balanced(0.6, after=trial.epoch_at("2001-06-28T13:00:00Z"), until=trial.epoch_at("2001-06-28T23:30:00Z"))

Nothing here needs pytest. A failing assertion says what a person needs: the first differences, or who did what and when.
"""

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streams.batches import Batch
from streams.comparison import compare, explain
from streams.errors import DeclarationError
from streams.timestamps import TIME_EXPECTED, read_time
from topology.amendments import source_of
from topology.declaration import Topology
from topology.disturbances import Disturbance, with_disturbances
from topology.given import Given, Source, declared, with_sources
from topology.input_files import read_input
from topology.load_history import LoadHistory, Place
from topology.metric import with_metric
from topology.run import run
from topology.validation import make_operator, validate
from topology.verification import judged_lines, listening, oracle_of, verify_lines

__all__ = ["LoadHistory", "Trial", "run_for_test"]


def run_for_test(
    topology: Given,
    *,
    inject: Sequence[Disturbance] = (),
    settings: Sequence[str] = (),
    objects: Source | None = None,
    queries: Source | None = None,
    runtime: str | None = None,
    seed: int | None = None,
    delays: bool = False,
) -> "Trial":
    """Run a topology to its end and return what came of it, ready for assertions.

    Args:
        topology: a TOML file, a topology, or a builder.
        inject: hotspots and faults beside those that the topology declares: the keys of an ``[[inject]]`` table each.
        settings: overrides such as ``bolt.evaluator.parallelism=8``.
        objects: what to read instead of the declared objects: a file, or records as a JSONL file has them.
        queries: the same for query operations.
        runtime: ``local`` or ``ray``; as declared where it is not given.
        seed: the order in which the local runtime serves its tasks; the topology's own seed where it is not given.
        delays: on the local runtime, messages overtake each other as on a network.
    """
    wanted = declared(topology, settings, check=objects is None and queries is None)
    folder = tempfile.TemporaryDirectory(prefix="waterspout-")
    wanted = with_disturbances(with_sources(wanted, Path(folder.name), objects, queries), inject)
    wanted = with_metric(wanted)
    validate(wanted)
    outcome = run(listening(wanted), runtime=runtime, scheduler_seed=seed, delays=delays)
    return Trial(wanted, outcome.summary, outcome.collected, folder)


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A run that has ended, and what can be asserted of it.

    Attributes:
        topology: what was run, with its hotspots and faults.
        summary: as `waterspout run --summary` writes it.
        collected: the batches of results.
    """

    topology: Topology
    summary: Mapping[str, Any]
    collected: Sequence[Batch]
    _folder: Any = None  # of given records; it goes when the trial does

    def __repr__(self) -> str:
        told = ", ".join(f"{self.summary[name]:,} {name}" for name in ("objects", "queries", "results", "rejected"))
        return f"Trial({self.topology.settings.name}: {told})"

    def lines(self) -> list[dict[str, Any]]:
        """Return the results as the lines of a results file."""
        return list(verify_lines(self.collected))

    def timeline(self) -> LoadHistory:
        """Return columns over time: epoch, objects, costs by evaluator, efficiency, latency."""
        return LoadHistory.of(self.summary)

    def epoch_at(self, ts: int | str) -> int:
        """Return the first epoch with an object of that event time (milliseconds or ISO 8601) or later.

        That is how an assertion speaks of "20 epochs after the hotspot began": ``after=trial.epoch_at(start) + 20``.
        """
        ms = read_time(str(ts))
        if ms is None:
            raise DeclarationError(f"ts = {ts!r}, expected {TIME_EXPECTED}")
        limit = make_operator(source_of(self.topology, "leads"), self.topology).limit
        before = sum(int(np.count_nonzero(chunk.batch.ts < ms)) for chunk in read_input(self.topology)[0])
        before = before if limit is None else min(before, limit)
        history = self.timeline()
        place = int(np.searchsorted(np.cumsum(history.objects), before, side="right"))
        return int(history.epoch[place]) if place < len(history) else history.end

    def assert_exact(self) -> None:
        """Assert that the results are those of the brute-force oracle, which reads the same input with all injections."""
        __tracebackhide__ = True
        comparison = compare(oracle_of(self.topology), judged_lines(self.collected))
        if not comparison.ok:
            raise AssertionError(explain(comparison))

    def assert_balanced(self, efficiency: float = 0.8, *, after: Place = 0, until: Place = 1.0) -> None:
        """Assert a parallel efficiency: 1 is perfect, 1 / evaluators is one evaluator bearing all.

        Args:
            efficiency: the least that is enough.
            after: from where on: an epoch (a whole number), or a share of the run from 0.0 to 1.0.
            until: up to where, in the same way; an epoch is excluded.
        """
        __tracebackhide__ = True
        if not self.summary["evaluators"]:
            raise DeclarationError(
                f"'{self.topology.settings.name}' has no bolt 'evaluator' whose load could be balanced"
            )
        part = self.timeline().between(after, until)
        found = part.parallel_efficiency()
        if found < efficiency:
            raise AssertionError(
                f"parallel efficiency {found:.3f} in epochs {part.epoch[0]} to {part.end - 1}, "
                f"expected at least {efficiency}\n{self._loads(part)}\n"
                f"over time, all epochs:\n{self.timeline().described()}\n{self._rebalances()}"
            )

    def assert_rebalanced(self, at_least: int = 1, *, kinds: Collection[str] | None = None) -> None:
        """Assert that the plan was changed while running, so many times, by operations of these kinds (None: of any)."""
        __tracebackhide__ = True
        if isinstance(kinds, str):
            raise DeclarationError(f"kinds = '{kinds}', expected a list of kinds, such as ['{kinds}']")
        told = self.summary["rebalances"]
        counted = [one for one in told if kinds is None or one["kind"] in kinds]
        if len(counted) < at_least:
            of_kinds = f" of kind {' or '.join(sorted(kinds))}" if kinds is not None else ""
            raise AssertionError(
                f"{len(counted)} rebalances{of_kinds}, expected at least {at_least}\n{self._rebalances()}\n"
                f"load over time:\n{self.timeline().described()}"
            )

    def _loads(self, part: LoadHistory) -> str:
        """Return a bar for each evaluator."""
        costs = part.costs.sum(0).tolist()
        most = max(*costs, 1)
        names = [one["task"] for one in self.summary["evaluators"]]
        wide = max(map(len, names))
        return "\n".join(
            f"  {name:<{wide}}  {'#' * round(40 * cost / most):<40}  {cost:,}"
            for name, cost in zip(names, costs, strict=True)
        )

    def _rebalances(self, most: int = 20) -> str:
        """Return a line for each rebalance."""
        told = self.summary["rebalances"]
        lines = [f"rebalances: {len(told) or 'none'}", *(f"  {_line(one)}" for one in told[:most])]
        return "\n".join([*lines, "  ..."] if len(told) > most else lines)


def _line(rebalance: Mapping[str, Any]) -> str:
    return ", ".join(_items(rebalance))


def _items(rebalance: Mapping[str, Any]) -> Iterable[str]:
    for key, value in rebalance.items():
        yield f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
