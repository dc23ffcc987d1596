"""The observer: what a run reports becomes frames that add up to the summary, and stay small."""

from collections import Counter

import numpy as np
import pytest
from adaptive_inputs import adaptive_topology, restless
from range_inputs import write_inputs

from service.view.frames import decode_frame
from service.view.observer import MOST_ALERTS, MOST_EVENTS, MOST_PLACES, Observer
from streams.errors import DeclarationError
from topology import run
from topology.messages import Report
from topology.wiring import wire


class Ticker:
    """A clock that goes on by a hundredth of a second whenever it is asked."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.01
        return self.now


class Frequent(Observer):
    """Makes frames after every few epochs, as the thread of a server would."""

    def __init__(self, every=3, kill_after=None):
        super().__init__(Ticker())
        self.shown, self._every, self._kill_after = [], every, kill_after

    def ack(self, epoch, pending):
        super().ack(epoch, pending)
        if epoch % self._every == 0:
            self.shown += self.frames()
        if epoch == self._kill_after:
            self._kill_after = None
            self.kill("evaluator[0]")


def restless_topology(folder, **settings):
    """A topology whose plan changes often."""
    return adaptive_topology(*write_inputs(folder, 11, objects=300), balancer=restless("random", 11), **settings)


def frames_by_kind(observer):
    """Return decoded frames by their kind."""
    found = {}
    for frame in [*observer.shown, *observer.frames()]:
        header, columns = decode_frame(frame)
        found.setdefault(header["frame"], []).append((header, columns))
    return found


def test_frames_add_up_to_the_summary(tmp_path):
    """Objects, results, costs of each evaluator, moves: all frames together say what the summary says at the end."""
    observer = Frequent()
    summary = run(restless_topology(tmp_path), watcher=observer).summary
    found = frames_by_kind(observer)
    ticks = [header for header, _ in found["tick"]]
    assert sum(tick["objects"] for tick in ticks) == ticks[-1]["totals"]["objects"] == summary["objects"]
    assert sum(tick["results"] for tick in ticks) == ticks[-1]["totals"]["results"] == summary["results"]
    assert ticks[-1]["totals"]["queries"] == summary["queries"]
    assert sum(tick["epochs"] for tick in ticks) == summary["epochs"]
    costs = sum(columns["costs"] for _, columns in found["tick"])
    assert costs.tolist() == [evaluator["cost"] for evaluator in summary["evaluators"]]
    moves = [event for tick in ticks for event in tick["events"] if event["what"] == "move"]
    assert moves
    key = ("epoch", "kind", "from", "to", "queries")
    told = Counter(
        (one["epoch"], one["kind"], int(one["from"][10:-1]), int(one["to"][10:-1]), one["queries_moved"])
        for one in summary["rebalances"]
    )
    assert Counter(tuple(move[name] for name in key) for move in moves) == told


def test_plans_come_before_what_names_them(tmp_path):
    """A page never has to ask for a plan that the run has just switched to; the first is that of the start."""
    observer = Frequent()
    run(restless_topology(tmp_path), watcher=observer)
    known = set()
    kinds = []
    for frame in observer.shown:
        header, columns = decode_frame(frame)
        kinds.append(header["frame"])
        if header["frame"] == "plan":
            known.add(header["serial"])
            assert len(columns["box"]) == 4 * (len(columns["off"]) - 1)
            assert columns["off"][-1] == len(columns["worker"])
        elif header["frame"] == "tick":
            assert header["serial"] in known
            assert {event["serial"] for event in header["events"] if event["what"] == "move"} <= known
    assert kinds[:3] == ["start", "plan", "tick"]
    assert len(known) > 3


def test_kill_is_shown_with_what_was_lost_and_totals_stay_true(tmp_path):
    """Fault, going back, recovery, in this order; what is counted twice is not added twice."""
    observer = Frequent(kill_after=25)
    topology = restless_topology(tmp_path, checkpoint={"directory": str(tmp_path / "saved"), "epochs": 7})
    summary = run(topology, watcher=observer).summary
    ticks = [header for header, _ in frames_by_kind(observer)["tick"]]
    events = [event for tick in ticks for event in tick["events"] if event["what"] != "move"]
    assert [event["what"] for event in events] == ["fault", "back", "recovered"]
    assert (events[0]["kind"], events[0]["task"]) == ("kill", "evaluator[0]")
    assert events[1]["lost"] == events[1]["epoch"] + 1 - events[1]["to"] > 0
    assert ticks[-1]["restarts"] == 1
    assert ticks[-1]["totals"]["objects"] == summary["objects"]
    assert ticks[-1]["totals"]["results"] == summary["results"]


def test_kill_is_refused_where_the_run_would_end(tmp_path):
    """Without checkpoints, for a task that is none, before the run has begun, and when too many wait."""
    observer = Observer(Ticker())
    with pytest.raises(DeclarationError, match="not begun"):
        observer.kill("evaluator[0]")
    observer.begin(wire(restless_topology(tmp_path)), {})
    with pytest.raises(DeclarationError, match="no checkpoints"):
        observer.kill("evaluator[0]")
    observer.begin(wire(restless_topology(tmp_path, checkpoint={"directory": str(tmp_path / "saved")})), {})
    with pytest.raises(DeclarationError, match=r"expected one of .*objects\[0\]"):
        observer.kill("evaluator[9]")
    for _ in range(8):
        observer.kill("evaluator[1]")
    with pytest.raises(DeclarationError, match="too many"):
        observer.kill("evaluator[1]")
    assert len(observer.faults()) == 8
    assert observer.faults() == ()


def test_frame_stays_small_whatever_is_reported(tmp_path):
    """A hundred thousand samples and ten thousand moves between two frames are thinned out, and counted."""
    observer = Observer(Ticker())
    observer.begin(wire(restless_topology(tmp_path)), {})
    observer.frames()
    places = np.arange(128, dtype="<u2").tobytes()
    seen = [{"event": "places", "what": what, "count": 10_000, "places": places} for what in ("objects", "alerts")]
    move = {
        "event": "rebalanced", "version": 2, "epoch": 1, "kind": "x", "from": 0, "to": 1, "queries_moved": 1, "why": "y",
    }  # fmt: skip
    for epoch in range(2_000):
        observer.report(Report(0, epoch, {"objects": 10_000}, events=[*seen, *([move] * 5)]))
        observer.ack(epoch, 1)
    (frame,) = observer.frames()
    header, columns = decode_frame(frame)
    assert len(frame) < 40_000
    assert (len(columns["objects"]), len(columns["alerts"])) == (2 * MOST_PLACES, 2 * MOST_ALERTS)
    assert (len(header["events"]), header["omitted"]) == (MOST_EVENTS, 10_000 - MOST_EVENTS)
    assert header["objects"] == 20_000_000


def test_run_without_objects_is_idle_and_says_so_once_a_second(tmp_path):
    """Frames stop where nothing is new; a sign of life stays."""
    observer = Observer(Ticker())
    observer.begin(wire(restless_topology(tmp_path)), {})
    observer.report(Report(0, 0, {"objects": 1}))
    observer.ack(0, 0)
    (*_, first) = observer.frames()
    states = [decode_frame(frame)[0]["state"] for _ in range(500) for frame in observer.frames()]
    assert decode_frame(first)[0]["state"] == "running"
    assert states[0] == "running"
    assert states[-1] == "idle"
    assert 3 <= len(states) <= 6


def test_run_that_takes_long_over_what_came_is_not_idle(tmp_path):
    """Kernels are compiled within the first epochs: that is work, though nothing comes meanwhile; then it is idle."""
    observer = Observer(Ticker())
    observer.begin(wire(restless_topology(tmp_path)), {})
    observer.report(Report(0, 0, {"objects": 1}))
    states = [decode_frame(frame)[0].get("state") for _ in range(500) for frame in observer.frames()]
    assert states[-1] == "working"
    observer.ack(0, 0)
    states = [decode_frame(frame)[0].get("state") for _ in range(500) for frame in observer.frames()]
    assert states[-1] == "idle"
