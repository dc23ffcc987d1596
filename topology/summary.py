"""What a run says of itself: counters of all tasks added up into the summary of the contract."""

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from streams.reject_reasons import OTHER, REASON
from topology.messages import Report
from topology.timeline import Timeline
from topology.wiring import Wiring

__all__ = ["EVALUATOR", "SUMMARY_FORMAT", "LatencyHistogram", "Tally"]

#: Of summary files; another number where what they hold means something else.
SUMMARY_FORMAT = 2

#: The component whose costs make imbalance and efficiency: the one that matches.
EVALUATOR = "evaluator"

#: The summary lists so many moves at most; the counter `rebalances` of the balancer counts on.
MAX_REBALANCES = 10_000

#: So many kinds of reasons for rejects are counted one by one, and so many of them are in the summary.
MAX_REASONS = 1_000
MAX_SHOWN_REASONS = 20


class LatencyHistogram:
    """Latencies in buckets that grow by 2%, so that memory does not grow with the run."""

    _GROWTH = math.log(1.02)

    def __init__(self) -> None:
        self._buckets: dict[int, int] = defaultdict(int)
        self.count = 0
        self.max_ms = 0.0

    def add(self, ms: float) -> None:
        """Count one latency."""
        self._buckets[math.ceil(math.log(max(ms, 1e-3)) / self._GROWTH)] += 1
        self.count += 1
        self.max_ms = max(self.max_ms, ms)

    def percentile(self, percent: float) -> float:
        """Return a latency that so many percent do not exceed, to 2%."""
        left = self.count * percent / 100
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min(math.exp(bucket * self._GROWTH), self.max_ms)
        return self.max_ms

    def as_dict(self) -> dict[str, float]:
        """Return the percentiles of the summary."""
        named = {f"p{p}": round(self.percentile(p), 3) for p in (50, 95, 99)}
        return {**named, "max": round(self.max_ms, 3)}

    def snapshot(self) -> dict[str, Any]:
        """Return the buckets."""
        return {"buckets": dict(self._buckets), "max_ms": self.max_ms}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the buckets of a snapshot."""
        self._buckets = defaultdict(int, state["buckets"])
        self.count, self.max_ms = sum(self._buckets.values()), state["max_ms"]


class RejectReasons:
    """How many records were rejected for each kind of reason; of too many kinds, the later ones together."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, reason: str, count: int) -> None:
        """Count records."""
        known = reason in self._counts or len(self._counts) < MAX_REASONS
        self._counts[reason if known else OTHER] = self._counts.get(reason if known else OTHER, 0) + count

    def most_frequent(self) -> list[dict[str, Any]]:
        """Return the most frequent kinds with their counts, and last all others together."""
        named = sorted(
            (item for item in self._counts.items() if item[0] != OTHER), key=lambda item: (-item[1], item[0])
        )
        left = self._counts.get(OTHER, 0) + sum(count for _, count in named[MAX_SHOWN_REASONS:])
        shown = [*named[:MAX_SHOWN_REASONS], *([(OTHER, left)] if left else [])]
        return [{"reason": reason, "count": count} for reason, count in shown]

    def snapshot(self) -> dict[str, int]:
        """Return the counts."""
        return dict(self._counts)

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on with the counts of a snapshot."""
        self._counts = dict(state)


class Tally:
    """Adds up reports. `clock` gives seconds; only differences matter."""

    def __init__(self, wiring: Wiring, clock: Callable[[], float]) -> None:
        self._wiring = wiring
        self._clock = clock
        self._names = {task.id: task for task in wiring.tasks}
        self._spouts = {task.id for task in wiring.spouts}
        self._evaluators = sum(task.component == EVALUATOR for task in wiring.tasks)
        self._started_at: float | None = None
        self._first_at: dict[int, float] = {}
        self._costs: dict[int, dict[int, float]] = {}
        self._cost_sum = self._cost_peak_sum = 0.0
        self._imbalance: dict[str, float] = {}
        self.counts: dict[int, dict[str, float]] = {task.id: defaultdict(float) for task in wiring.tasks}
        self.totals: dict[str, float] = defaultdict(float)
        self.latency = LatencyHistogram()
        self._timeline = Timeline()
        self._reasons = RejectReasons()
        self.epochs = 0
        self.seconds = 0.0
        self.restarts = 0
        self._rebalances: list[dict[str, Any]] = []
        self._round_began = 0.0

    def report(self, report: Report) -> None:
        """Take one report; the first starts the clock, so that starting processes is not counted as running."""
        if self._started_at is None:
            self._started_at = self._clock() - report.counts.get("busy_ms", 0.0) / 1e3
        if report.task in self._spouts:
            self._first_at.setdefault(report.epoch, self._clock())
        own = self.counts[report.task]
        for name, by in report.counts.items():
            if name.startswith(REASON):
                self._reasons.add(name.removeprefix(REASON), int(by))
            else:
                own[name] += by
                self.totals[name] += by
        for event in report.events:
            self._happened(event)
        if self._names[report.task].component == EVALUATOR:
            costs = self._costs.setdefault(report.epoch, {})
            costs[report.task] = report.counts.get("cost", 0.0)
            if len(costs) == self._evaluators:
                self._weigh(report.epoch, self._costs.pop(report.epoch))
        objects, busy_ms = report.counts.get("objects", 0), report.counts.get("busy_ms", 0.0)
        self._timeline.report(report.epoch, int(objects), busy_ms)

    def _happened(self, event: Mapping[str, Any]) -> None:
        """Take what a balancer reports: that a round begins, and then which queries it has moved."""
        if event["event"] == "rebalancing":
            self._round_began = self._clock()
        elif event["event"] == "rebalanced" and len(self._rebalances) < MAX_REBALANCES:
            self._rebalances.append(
                {
                    "epoch": event["epoch"],
                    "kind": event["kind"],
                    "from": f"{EVALUATOR}[{event['from']}]",
                    "to": f"{EVALUATOR}[{event['to']}]",
                    "queries_moved": event["queries_moved"],
                    "ms": round((self._clock() - self._round_began) * 1e3, 3),
                    "why": event["why"],
                }
            )

    def ack(self, epoch: int) -> None:
        """Note that an epoch is complete."""
        now = self._clock()
        self.epochs += 1
        self.seconds = now - (self._started_at or now)
        latency_ms = (now - self._first_at.pop(epoch, now)) * 1e3
        self.latency.add(latency_ms)
        self._timeline.ack(epoch, self.seconds, latency_ms)

    def copy(self) -> "Tally":
        """Return a tally that goes on by itself."""
        return copy.deepcopy(self, {id(shared): shared for shared in (self._wiring, self._clock)})

    def snapshot(self) -> dict[str, Any]:
        """Return all that was counted; every epoch of which a report has come must be complete."""
        return {
            "counts": {task.name: dict(self.counts[task.id]) for task in self._wiring.tasks},
            "totals": dict(self.totals),
            "costs": [self._cost_sum, self._cost_peak_sum],
            "imbalance": dict(self._imbalance),
            "latency": self.latency.snapshot(),
            "timeline": self._timeline.snapshot(),
            "rebalances": list(self._rebalances),
            "reasons": self._reasons.snapshot(),
            "epochs": self.epochs,
            "seconds": self.seconds,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a snapshot; what tasks counted that are no more is the first one's of their component."""
        ids = {task.name: task.id for task in self._wiring.tasks}
        for name, counts in state["counts"].items():
            own = self.counts[ids[name] if name in ids else ids[f"{name.rpartition('[')[0]}[0]"]]
            for key, value in counts.items():
                own[key] += value
        self.totals = defaultdict(float, state["totals"])
        self._cost_sum, self._cost_peak_sum = state["costs"]
        self._imbalance = dict(state["imbalance"])
        self.latency.restore(state["latency"])
        self._timeline.restore(state["timeline"])
        self._rebalances = list(state["rebalances"])
        self._reasons.restore(state.get("reasons", {}))
        self.epochs, self.seconds = state["epochs"], state["seconds"]
        self._started_at = self._clock() - self.seconds

    def _estimated(self, worker: int) -> dict[str, float]:
        """Return what a main server has estimated for an evaluator, beside its real cost; without one, nothing."""
        name = f"estimated_cost:{worker}"
        return {"estimated": round(self.totals[name], 6)} if name in self.totals else {}

    def _storm_metrics(self, counts: dict[str, float]) -> dict[str, float]:
        """Return a task's counters, and Storm's two measures of how busy it is."""
        busy, executed = counts.get("busy_ms", 0.0), counts.get("executed", 0.0)
        measures = {
            "execute_latency_ms": busy / executed if executed else 0.0,
            "capacity": busy / (self.seconds * 1e3) if self.seconds else 0.0,
        }
        return {name: _number(value) for name, value in sorted({**counts, **measures}.items())}

    def _weigh(self, epoch: int, costs: dict[int, float]) -> None:
        """Take the costs of all evaluators in one epoch."""
        self._timeline.weigh(epoch, [costs[task] for task in sorted(costs)])
        total, peak = sum(costs.values()), max(costs.values())
        self._cost_sum += total
        self._cost_peak_sum += peak
        if total:
            imbalance = peak * len(costs) / total
            self._imbalance.setdefault("start", imbalance)
            self._imbalance["peak"] = max(self._imbalance.get("peak", 1.0), imbalance)
            self._imbalance["end"] = imbalance

    def summary(self) -> dict[str, Any]:
        """Return the summary file's object."""
        totals = self.totals
        evaluators = [task for task in self._wiring.tasks if task.component == EVALUATOR]
        objects, queries = int(totals["objects"]), int(totals["queries"])
        spread = len(evaluators) * self._cost_peak_sum
        return {
            "format": SUMMARY_FORMAT,
            "objects": objects,
            "queries": queries,
            "results": int(totals["results"]),
            "rejected": int(totals["rejected"]),
            "rejected_objects": int(totals["objects_rejected"]),
            "rejected_queries": int(totals["queries_rejected"]),
            "reject_reasons": self._reasons.most_frequent(),
            "seconds": round(self.seconds, 6),
            "objects_per_s": round(objects / self.seconds, 1) if self.seconds else 0.0,
            "latency_ms": self.latency.as_dict(),
            "epochs": self.epochs,
            "evaluators": [
                {
                    "task": task.name,
                    "objects": int(self.counts[task.id]["objects_in"]),
                    "queries": int(self.counts[task.id]["queries_in"]),
                    "cost": int(self.counts[task.id]["cost"]),
                    **self._estimated(task.index),
                }
                for task in evaluators
            ],
            "imbalance": {key: round(self._imbalance.get(key, 1.0), 4) for key in ("start", "peak", "end")},
            "parallel_efficiency": round(self._cost_sum / spread, 4) if spread else 1.0,
            "rebalances": list(self._rebalances),
            "restarts": self.restarts,
            "replication": round(sum(self.counts[t.id]["queries_in"] for t in evaluators) / queries, 4)
            if queries
            else 0.0,
            "communication": round(sum(self.counts[t.id]["objects_in"] for t in evaluators) / objects, 4)
            if objects
            else 0.0,
            "timeline": self._timeline.as_list(),
            "tasks": [{"task": task.name, **self._storm_metrics(self.counts[task.id])} for task in self._wiring.tasks],
        }


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else round(value, 6)
