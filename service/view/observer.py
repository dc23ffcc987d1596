"""The observer: adds up what a run reports into frames, a few a second, however fast the run is.

It is fed by the thread that drives the run, and asked for frames by another one. What it holds is bounded: a sample of places,
a number for each evaluator, the latest events. Times are arguments, so that nothing here looks at a clock.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.map_outlines import looks_geographic
from service.view.frames import encode_frame
from service.view.plan_shapes import plan_frame
from service.view.watched_plan import WatchedPlan
from streams.errors import DeclarationError
from topology.declaration import Topology
from topology.faults import Fault
from topology.lens import PLACES
from topology.messages import Report
from topology.summary import EVALUATOR, LatencyHistogram
from topology.wiring import Wiring

__all__ = ["MOST_EVENTS", "MOST_PLACES", "Clock", "Observer", "start_frame", "state_frame"]

#: Of one frame: places of objects, places of alerts, events. What is more is thinned out, or only counted.
MOST_PLACES, MOST_ALERTS, MOST_EVENTS = 1_500, 600, 100

#: Samples that are held until the next frame; what tasks show beyond them is only counted.
_MOST_SAMPLES = 512

#: Orders to kill or pause that may wait for the next epoch.
_MOST_FAULTS = 8

#: A run without objects for so many seconds is idle, or works on those that it has; one that shows nothing new is said to live
#: so often.
IDLE_SECONDS, SILENT_SECONDS = 2.0, 1.0


class Clock:
    """Seconds since the start of a run; what is asked before that is 0."""

    def __init__(self) -> None:
        self._start: float | None = None

    def since(self, now: float) -> float:
        """Return the seconds since the first time it was asked."""
        self._start = now if self._start is None else self._start
        return now - self._start


@dataclass(slots=True)
class _Gathered:
    """What has come since the last frame."""

    costs: list[float]
    epochs: int = 0
    objects: int = 0
    results: int = 0
    queries: int = 0
    cost_sum: float = 0.0
    peak_sum: float = 0.0
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    samples: dict[str, list[bytes]] = field(default_factory=lambda: {"objects": [], "alerts": []})
    events: list[dict[str, Any]] = field(default_factory=list)
    omitted: int = 0
    switched: bool = False


class Observer:
    """Watches one run (`topology.watching.Watcher`) and makes frames of it.

    Args:
        now: gives seconds; only differences matter.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._clock = Clock()
        self._wiring: Wiring | None = None
        self._faults: deque[Fault] = deque(maxlen=_MOST_FAULTS)
        self._totals = {"objects": 0, "results": 0, "queries": 0, "rejected": 0}
        self._epoch = self._pending = self._restarts = self._serial = 0
        self._first_at: dict[int, float] = {}
        self._epoch_costs: dict[int, dict[int, float]] = {}
        self._evaluator: dict[int, int] = {}
        self._spouts: frozenset[int] = frozenset()
        self._went_back_at: float | None = None
        self._objects_at = self._sent_at = 0.0
        self._plan = WatchedPlan(None)
        self._gathered = self._fresh()
        self._fresh_start = False

    # --- the run's side ----------------------------------------------------------------------------------------------

    def begin(self, wiring: Wiring, totals: Mapping[str, float]) -> None:
        """Learn what runs."""
        with self._lock:
            self._count_from(totals)
            self._wiring = wiring
            self._evaluator = {task.id: task.index for task in wiring.tasks if task.component == EVALUATOR}
            self._spouts = frozenset(task.id for task in wiring.spouts)
            self._plan = WatchedPlan(wiring.plan)
            self._gathered = self._fresh()
            self._gathered.switched = True
            self._fresh_start = True

    def _count_from(self, totals: Mapping[str, float]) -> None:
        self._totals = {name: int(totals.get(name, 0)) for name in self._totals}

    def _fresh(self) -> _Gathered:
        return _Gathered([0.0] * len(self._evaluator))

    def report(self, report: Report) -> None:
        """Take a report as it comes."""
        counts, task = report.counts, report.task
        with self._lock:
            gathered = self._gathered
            if task in self._evaluator:
                self._weigh(report, counts.get("cost", 0.0))
            elif task in self._spouts:
                self._arrived(report.epoch, counts)
            if "results" in counts:
                gathered.results += int(counts["results"])
            if "rejected" in counts:
                self._totals["rejected"] += int(counts["rejected"])
            for event in report.events:
                self._happened(event)

    def _arrived(self, epoch: int, counts: Mapping[str, float]) -> None:
        """Take what a spout has counted."""
        now = self._clock.since(self._now())
        self._first_at.setdefault(epoch, now)
        self._gathered.queries += int(counts.get("queries", 0))
        if objects := int(counts.get("objects", 0)):
            self._gathered.objects += objects
            self._objects_at = now

    def _weigh(self, report: Report, cost: float) -> None:
        """Take the cost of an evaluator; when all have reported an epoch, it is known how well the work was shared."""
        self._gathered.costs[self._evaluator[report.task]] += cost
        costs = self._epoch_costs.setdefault(report.epoch, {})
        costs[report.task] = cost
        if len(costs) == len(self._evaluator):
            del self._epoch_costs[report.epoch]
            self._gathered.cost_sum += sum(costs.values())
            self._gathered.peak_sum += max(costs.values())

    def _happened(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == PLACES:
            samples = self._gathered.samples[event["what"]]
            if len(samples) < _MOST_SAMPLES:
                samples.append(event["places"])
        elif kind == "rebalanced":
            move = {key: event[key] for key in ("epoch", "kind", "from", "to", "why", "version")}
            now = self._clock.since(self._now())
            self._event({"what": "move", "t": now, "queries": event["queries_moved"], **move})
        elif kind != "rebalancing" and self._plan.happened(event):
            self._gathered.switched = True

    def _event(self, event: dict[str, Any]) -> None:
        """Note what happened; of very many within one frame the first are shown."""
        event["t"] = round(event["t"], 3)
        if len(self._gathered.events) < MOST_EVENTS:
            self._gathered.events.append(event)
        else:
            self._gathered.omitted += 1

    def ack(self, epoch: int, pending: int) -> None:
        """Learn that an epoch is complete."""
        with self._lock:
            now = self._clock.since(self._now())
            self._epoch, self._pending = epoch, pending
            self._gathered.epochs += 1
            self._gathered.latency.add((now - self._first_at.pop(epoch, now)) * 1e3)
            if self._went_back_at is not None:
                ms = round((now - self._went_back_at) * 1e3, 1)
                self._event({"what": "recovered", "t": now, "epoch": epoch, "ms": ms})
                self._went_back_at = None

    def struck(self, fault: Fault) -> None:
        """Learn that something goes wrong on purpose."""
        with self._lock:
            now = self._clock.since(self._now())
            self._event({"what": "fault", "t": now, "epoch": self._epoch, "kind": fault.kind, "task": fault.task})

    def go_back(self, start: int, totals: Mapping[str, float]) -> None:
        """Learn that the run goes back; what was counted behind that epoch will be counted again."""
        with self._lock:
            self._count_from(totals)
            self._gathered.objects = self._gathered.results = self._gathered.queries = 0
            now = self._clock.since(self._now())
            self._restarts += 1
            self._first_at.clear()
            self._epoch_costs.clear()
            self._went_back_at = now
            self._event({"what": "back", "t": now, "epoch": self._epoch, "to": start, "lost": self._epoch + 1 - start})

    def faults(self) -> Sequence[Fault]:
        """Return what somebody wants to see going wrong."""
        if not self._faults:
            return ()
        with self._lock:
            found = tuple(self._faults)
            self._faults.clear()
        return found

    # --- the watcher's side ------------------------------------------------------------------------------------------

    def kill(self, task: str) -> None:
        """Have the process of a task ended after the next epoch; raise where the run would not survive it."""
        with self._lock:
            wiring = self._wiring
            if wiring is None:
                raise DeclarationError("the run has not begun yet; try again in a moment")
            if wiring.topology.settings.checkpoint is None:
                raise DeclarationError("this run takes no checkpoints, so it would end; declare [topology.checkpoint]")
            names = [spec.name for spec in wiring.tasks]
            if task not in names:
                raise DeclarationError(f"no task {task!r:.80} here; expected one of {', '.join(names[:8])} ...")
            if len(self._faults) == _MOST_FAULTS:
                raise DeclarationError("too many tasks are being killed already; wait until the run has recovered")
            self._faults.append(Fault("kill", task=task))

    def note(self, event: Mapping[str, Any]) -> None:
        """Show something that happened outside of the run on its time line, such as a hotspot."""
        with self._lock:
            self._event({**event, "t": self._clock.since(self._now()), "epoch": self._epoch})

    def end(self) -> None:
        """Show nothing any more: the run is over."""
        with self._lock:
            self._wiring = None

    def frames(self) -> list[bytes]:
        """Return what is to be shown now; at most three frames, none where there is nothing new."""
        with self._lock:
            wiring, begun = self._wiring, self._fresh_start
            if wiring is None:
                return []
            now = self._clock.since(self._now()) if not begun or self._gathered.epochs else 0.0
            news = self._gathered.epochs or self._gathered.events or begun
            if not news and now - self._sent_at < SILENT_SECONDS:
                return []
            gathered, self._gathered, self._fresh_start = self._gathered, self._fresh(), False
            span, self._sent_at = now - self._sent_at, now
            plan, self._serial = self._plan.plan, self._serial + gathered.switched
            for name in ("objects", "results", "queries"):
                self._totals[name] += getattr(gathered, name)
            tick = self._tick(gathered, now, span)
        shown = [start_frame(wiring.topology)] if begun else []
        if gathered.switched and plan is not None:
            shown.append(plan_frame(plan, self._serial, now))
        return [*shown, _tick_frame(tick, gathered)]

    def _tick(self, gathered: _Gathered, now: float, span: float) -> dict[str, Any]:
        borne = len(self._evaluator) * gathered.peak_sum
        quiet = "working" if self._first_at else "idle"  # kernels may be compiled for what is under way
        state = "running" if now - self._objects_at < IDLE_SECONDS else quiet
        for event in gathered.events:
            if event["what"] == "move":
                event["serial"] = self._serial
        return {
            "frame": "tick",
            "state": "recovering" if self._went_back_at is not None else state,
            "t": round(now, 3),
            "span": round(span, 4),
            "epoch": self._epoch,
            "epochs": gathered.epochs,
            "pending": self._pending,
            "restarts": self._restarts,
            "totals": dict(self._totals),
            "objects": gathered.objects,
            "results": gathered.results,
            "efficiency": round(gathered.cost_sum / borne, 4) if borne else None,
            "latency_ms": round(gathered.latency.percentile(50), 3) if gathered.epochs else None,
            "latency_ms_max": round(gathered.latency.max_ms, 3) if gathered.epochs else None,
            "serial": self._serial if self._plan.plan is not None else None,
            "events": gathered.events,
            "omitted": gathered.omitted,
        }


def start_frame(topology: Topology) -> bytes:
    """Return the frame that says what runs, or is going to."""
    settings = topology.settings
    space = settings.space
    tasks = [(c.name, f"{c.name}[{index}]") for c in topology.components for index in range(c.parallelism)]
    return encode_frame(
        {
            "frame": "start",
            "name": settings.name,
            "runtime": settings.runtime,
            "space": list(space.as_tuple()),
            "geographic": settings.measure == "haversine" or looks_geographic(space),
            "evaluators": [name for component, name in tasks if component == EVALUATOR],
            "tasks": [name for _, name in tasks],
            "checkpoints": settings.checkpoint is not None,
            "max_pending": settings.max_pending,
        }
    )


def _tick_frame(tick: dict[str, Any], gathered: _Gathered) -> bytes:
    columns = {
        "costs": np.array(gathered.costs, "<f4"),
        "objects": _thinned(gathered.samples["objects"], MOST_PLACES),
        "alerts": _thinned(gathered.samples["alerts"], MOST_ALERTS),
    }
    return encode_frame(tick, columns)


def _thinned(samples: Sequence[bytes], most: int) -> NDArray[np.uint16]:
    """Return places (x, y as parts of the space) of all samples, evenly thinned out to so many."""
    places = np.frombuffer(b"".join(samples), "<u2").reshape(-1, 2)
    if len(places) > most:
        places = places[np.arange(most) * len(places) // most]
    return places.ravel()


def state_frame(state: str, error: str | None = None) -> bytes:
    """Return the frame that says what a run has come to: ``starting``, ``ended``, ``stopped`` or ``failed``."""
    return encode_frame({"frame": "state", "state": state, "error": error})
