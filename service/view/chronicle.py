"""The chronicle of a run: what was shown, kept so that one can go back through the whole run, coarser with age.

The newest moments are kept as they came. Older ones are joined two by two, those again, and so on: a run of a month has two
thousand moments. Of plans and events there are bounded numbers too: of too many, every second old plan goes, and the oldest
events.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.view.frames import Header, decode_frame, encode_frame

__all__ = ["Chronicle", "Moment"]

#: Moments that are kept as they came, and those of each coarser level.
FINEST, COARSER = 300, 96

#: Places of objects and of alerts that a moment keeps.
KEPT_OBJECTS, KEPT_ALERTS = 400, 200

MOST_PLANS, MOST_EVENTS = 200, 2_000

#: A process that was started again goes on so much later on the time line.
RESTART_SECONDS = 1.0

Places = NDArray[np.uint16]
Floats = NDArray[np.float32]

#: What a curve shows of a moment, in the order of columns.
CURVES = ("t", "objects", "results", "efficiency", "latency_ms", "pending")


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """Some time of a run: what came in and out of it, what each evaluator worked, a sample of places."""

    t: float
    span: float
    epoch: int
    objects: int
    results: int
    efficiency: float
    weight: float
    latency_ms: float
    pending: int
    serial: int | None
    costs: Floats
    object_places: Places
    alert_places: Places

    @classmethod
    def of(cls, tick: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> "Moment":
        """Take what a frame says."""
        worked = tick["efficiency"] is not None
        return cls(
            tick["t"],
            tick["span"],
            tick["epoch"],
            tick["objects"],
            tick["results"],
            tick["efficiency"] if worked else 1.0,
            float(columns["costs"].sum()) if worked else 0.0,
            tick["latency_ms_max"] or 0.0,
            tick["pending"],
            tick["serial"],
            columns["costs"].copy(),
            _thinned(columns["objects"], KEPT_OBJECTS),
            _thinned(columns["alerts"], KEPT_ALERTS),
        )

    def joined(self, later: "Moment") -> "Moment":
        """Return this moment and the one behind it as one; efficiency is weighed by work."""
        weight = self.weight + later.weight
        shared = (self.efficiency * self.weight + later.efficiency * later.weight) / weight if weight else 1.0
        same = self.costs.shape == later.costs.shape
        return Moment(
            later.t,
            self.span + later.span,
            later.epoch,
            self.objects + later.objects,
            self.results + later.results,
            shared,
            weight,
            max(self.latency_ms, later.latency_ms),
            max(self.pending, later.pending),
            later.serial,
            self.costs + later.costs if same else later.costs,
            _thinned(np.concatenate([self.object_places, later.object_places]), KEPT_OBJECTS),
            _thinned(np.concatenate([self.alert_places, later.alert_places]), KEPT_ALERTS),
        )

    def header(self) -> Header:
        """Return its numbers by name."""
        return {
            "t": self.t, "span": round(self.span, 4), "epoch": self.epoch, "objects": self.objects,
            "results": self.results, "efficiency": round(self.efficiency, 4), "latency_ms": round(self.latency_ms, 3),
            "pending": self.pending, "serial": self.serial,
        }  # fmt: skip


class Chronicle:
    """Takes the frames of a run in their order.

    Attributes:
        state: what the run is doing: ``starting``, ``running``, ``idle``, ``recovering``, ``ended``, ``stopped`` or ``failed``.
        error: what a failed run has failed with.
    """

    def __init__(self) -> None:
        self.state = "starting"
        self.error: str | None = None
        self._start: Header | None = None
        self._tick: Header | None = None
        self._levels: list[deque[Moment]] = [deque()]
        self._plans: dict[int, bytes] = {}
        self._events: deque[Header] = deque(maxlen=MOST_EVENTS)
        self._happened = 0
        self._late = 0.0
        self._later = 0

    def take(self, frame: bytes) -> bytes:
        """Take a frame; return it as it is to be shown.

        A run whose process was started again counts from the start; here its time and its plans go on.
        """
        header, columns = decode_frame(frame)
        kind = header["frame"]
        if self._late and kind in ("tick", "plan"):
            frame = self._shifted(header, columns)
        if kind == "start":
            self._begin(header)
        elif kind == "plan":
            self._keep_plan(header["serial"], frame)
        elif kind == "state":
            self.state, self.error = header["state"], header["error"]
        elif kind == "tick":
            self.state, self.error, self._tick = header["state"], None, header
            self._happened += len(header["events"]) + header["omitted"]
            self._events.extend(header["events"])
            if header["span"] > 0:
                self._remember(Moment.of(header, columns))
        return frame

    def _begin(self, header: Header) -> None:
        """Take what runs; where something ran before, put the new run behind it."""
        if self._tick is not None:
            self._late = self._tick["t"] + RESTART_SECONDS
            self._later = max(self._plans, default=0)
        self._start = header

    def _shifted(self, header: Header, columns: Mapping[str, NDArray[Any]]) -> bytes:
        header["t"] = round(header["t"] + self._late, 3)
        if header["serial"] is not None:
            header["serial"] += self._later
        for event in header.get("events", ()):
            event["t"] = round(event["t"] + self._late, 3)
            if "serial" in event:
                event["serial"] += self._later
        return encode_frame(header, columns)

    def _remember(self, moment: Moment) -> None:
        self._levels[0].append(moment)
        for number, level in enumerate(self._levels):
            if len(level) <= (COARSER if number else FINEST):
                break
            joined = level.popleft().joined(level.popleft())
            if number + 1 == len(self._levels):
                self._levels.append(deque())
            self._levels[number + 1].append(joined)

    def _keep_plan(self, serial: int, frame: bytes) -> None:
        self._plans[serial] = frame
        if len(self._plans) > MOST_PLANS:
            old = list(self._plans)[: MOST_PLANS // 2]
            for serial_gone in old[1::2]:
                del self._plans[serial_gone]

    def moments(self) -> Iterator[Moment]:
        """Return all that is remembered, in the order of time."""
        for level in reversed(self._levels):
            yield from level

    def plan(self, serial: int) -> bytes | None:
        """Return the frame of a plan, or of the last one before it that is kept; None where there is none."""
        if serial in self._plans:
            return self._plans[serial]
        before = [kept for kept in self._plans if kept < serial]
        return self._plans[max(before)] if before else None

    def hello(self) -> list[bytes]:
        """Return what somebody needs who begins to watch: what runs, its curves and events so far, and the plan in force."""
        moments = list(self.moments())
        width = max((len(moment.costs) for moment in moments), default=0)
        header = {
            "frame": "hello",
            "state": self.state,
            "error": self.error,
            "start": self._start,
            "tick": self._tick,
            "events": list(self._events),
            "happened": self._happened,
            "evaluators": width,
        }
        rows = [(m.t, _rate(m.objects, m), _rate(m.results, m), m.efficiency, m.latency_ms, m.pending) for m in moments]
        columns: dict[str, NDArray[Any]] = {
            f"curve_{name}": np.array([row[place] for row in rows], "<f4") for place, name in enumerate(CURVES)
        }
        costs = [m.costs / max(m.span, 1e-3) if len(m.costs) == width else np.zeros(width, "<f4") for m in moments]
        columns["curve_costs"] = np.concatenate(costs).astype("<f4") if costs else np.empty(0, "<f4")
        shown = [encode_frame(header, columns)]
        if self._tick is not None and self._tick["serial"] is not None:
            plan = self.plan(self._tick["serial"])
            shown += [plan] if plan is not None else []
        return shown

    def at(self, t: float) -> bytes | None:
        """Return the moment that was at so many seconds since the start of the run; None before there is any."""
        found: Moment | None = None
        for moment in self.moments():
            found = moment
            if moment.t >= t:
                break
        if found is None:
            return None
        columns: dict[str, NDArray[Any]] = {
            "costs": found.costs,
            "objects": found.object_places,
            "alerts": found.alert_places,
        }
        return encode_frame({"frame": "moment", **found.header()}, columns)


def _rate(count: int, moment: Moment) -> float:
    return count / moment.span if moment.span > 0 else 0.0


def _thinned(places: NDArray[Any], most: int) -> Places:
    """Return at most so many places, evenly chosen; a column of x, y, x, y, ..."""
    pairs = places.reshape(-1, 2)
    if len(pairs) > most:
        pairs = pairs[np.arange(most) * len(pairs) // most]
    return pairs.astype("<u2").ravel()
