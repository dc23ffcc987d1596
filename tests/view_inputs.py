"""Frames of a run that never was, and a watcher that keeps what it is told, for tests of the live view."""

import numpy as np

from service.view.frames import encode_frame
from service.view.watched_plan import WatchedPlan
from topology.faults import Fault
from topology.lens import PLAN, PREPARED, SWITCHED


def tick(number, *, span=0.1, serial=1, events=(), objects=10):
    """The frame of one moment; its places are its number, so that one can tell whose they are."""
    header = {
        "frame": "tick", "state": "running", "t": round((number + 1) * span, 3), "span": span, "epoch": number, "epochs": 1,
        "pending": number % 5, "restarts": 0, "totals": {"objects": 0, "results": 0, "queries": 0, "rejected": 0},
        "objects": objects, "results": 2, "alerts": 1, "efficiency": 0.5, "latency_ms": 1.0,
        "latency_ms_max": float(number % 7),
        "serial": serial, "events": list(events), "omitted": 0,
    }  # fmt: skip
    places = np.array([number % 60_000, 5], "<u2")
    costs = np.array([1.0, 3.0], "<f4")
    return encode_frame(header, {"costs": costs, "busy_ms": costs, "objects": places, "alerts": places})


def plan(serial):
    """The frame of a plan."""
    return encode_frame({"frame": "plan", "serial": serial, "version": serial, "t": 0.0}, {})


START = encode_frame({"frame": "start", "name": "x"})


class Recorder:
    """A watcher that keeps everything."""

    def __init__(self, kill_after=None):
        self.events, self.plans, self.backs, self.faults_struck = [], [], [], []
        self.acked, self._kill_after = 0, kill_after

    def begin(self, wiring, totals):
        self.plan = WatchedPlan(wiring.plan)
        self.totals = [dict(totals)]

    def report(self, report):
        for event in report.events:
            self.events.append((report.epoch, event))
            if event["event"] in (PLAN, PREPARED, SWITCHED) and self.plan.happened(event):
                self.plans.append(self.plan.plan.version)

    def ack(self, epoch, pending):
        self.acked += 1

    def struck(self, fault):
        self.faults_struck.append(fault)

    def go_back(self, start, totals):
        self.backs.append(start)
        self.totals.append(dict(totals))

    def faults(self):
        if self._kill_after is not None and self.acked >= self._kill_after:
            self._kill_after = None
            return [Fault("kill", task="evaluator[1]")]
        return ()
