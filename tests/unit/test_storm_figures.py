"""Storm's REST: every documented field is there, also before anything is counted, and windows tell what came within them."""

from types import SimpleNamespace

import pytest

from service.engine_process import EngineStatus
from service.figure_windows import KEPT, FigureWindows
from service.storm_figures import ALL_TIME, StormFigures, pretty
from topology.declaration import Component, Settings, Topology

#: The fields that Storm documents of each answer, as the tools that read them index them.
CLUSTER = (
    "stormVersion supervisors topologies slotsTotal slotsUsed slotsFree executorsTotal tasksTotal schedulerDisplayResource "
    "totalMem totalCpu availMem availCpu memAssignedPercentUtil cpuAssignedPercentUtil"
)
NIMBUS = "host port status nimbusUpTime nimbusUpTimeSeconds nimbusLogLink version"
SUPERVISOR = (
    "id host uptime uptimeSeconds slotsTotal slotsUsed slotsFree schedulerDisplayResource totalMem totalCpu usedMem usedCpu "
    "availMem availCpu version"
)
WORKER = (
    "supervisorId host port topologyId topologyName executorsTotal assignedMemOnHeap assignedMemOffHeap assignedCpu "
    "componentNumTasks uptime uptimeSeconds workerLogLink"
)
SUMMARY = (
    "id name status uptime uptimeSeconds tasksTotal workersTotal executorsTotal replicationCount requestedMemOnHeap "
    "requestedMemOffHeap requestedTotalMem requestedCpu assignedMemOnHeap assignedMemOffHeap assignedTotalMem assignedCpu "
    "schedulerDisplayResource"
)
TOPOLOGY = f"{SUMMARY} msgTimeout windowHint debug samplingPct topologyStats workers spouts bolts configuration window"
STATS = "windowPretty window emitted transferred completeLatency acked failed"
ERROR = "lastError errorHost errorPort errorTime errorLapsedSecs errorWorkerLogLink"
BOTH = f"executors emitted transferred tasks acked failed requestedMemOnHeap requestedMemOffHeap requestedCpu {ERROR}"
SPOUT = f"spoutId completeLatency {BOTH}"
BOLT = f"boltId capacity processLatency executeLatency executed {BOTH}"
COMPONENT = (
    "user id encodedId name executors tasks topologyId topologyStatus encodedTopologyId window componentType windowHint debug "
    "samplingPct eventLogLink profilingAndDebuggingCapable profileActionEnabled profilerActive componentErrors outputStats "
    "executorStats schedulerDisplayResource requestedMemOnHeap requestedMemOffHeap requestedCpu"
)
EXECUTOR = "id host port uptime uptimeSeconds workerLogLink emitted transferred acked failed"

COUNTS = {"executed": 500.0, "emitted": 40.0, "transferred": 80.0, "busy_ms": 250.0}


def _figures(times=1.0, acked=4):
    tasks = [["live", 0, {"emitted": 100.0 * times, "transferred": 200.0 * times}]]
    tasks += [["evaluator", index, {name: value * times for name, value in COUNTS.items()}] for index in range(2)]
    return {"tasks": tasks, "acked": acked, "latency_sum": 10.0 * acked, "latency": [], "rebalances": 0}


def _storm(figures=None, **status):
    components = (Component("live", "spout", "live"), Component("evaluator", "bolt", "range-evaluator", parallelism=2))
    live = Topology(Settings(name="a b"), components)
    service = SimpleNamespace(
        live=live, figures=figures or {}, windows=FigureWindows(), engine=SimpleNamespace(status=EngineStatus(**status))
    )
    return StormFigures(service), service


def _has(answer, fields):
    missing = set(fields.split()) - answer.keys()
    assert not missing


@pytest.mark.parametrize("figures", [None, _figures()])
def test_documented_fields_are_there(figures):
    """Before the first figures as well as behind them; numbers in texts are numbers."""
    storm, _ = _storm(figures)
    _has(storm.cluster(), CLUSTER)
    _has(storm.nimbuses()["nimbuses"][0], NIMBUS)
    _has(storm.supervisors()["supervisors"][0], SUPERVISOR)
    _has(storm.workers()[0], WORKER)
    _has(storm.brief(), SUMMARY)
    whole = storm.topology(ALL_TIME)
    _has(whole, TOPOLOGY)
    for stats in whole["topologyStats"]:
        _has(stats, STATS)
    assert [one["window"] for one in whole["topologyStats"]] == ["600", "10800", "86400", ALL_TIME]
    (spout,), (bolt,) = whole["spouts"], whole["bolts"]
    _has(spout, SPOUT)
    _has(bolt, BOLT)
    for name, sort, stats in (("live", "spoutSummary", SPOUT), ("evaluator", "boltStats", BOLT)):
        one = storm.component(name, "600")
        _has(one, f"{COMPONENT} {sort}")
        assert len(one[sort]) == 4
        _has(one["executorStats"][0], EXECUTOR)
        assert {"completeLatency", "executeLatency"} & one[sort][0].keys() <= set(stats.split())
    metrics = storm.metrics(ALL_TIME)
    _has(metrics["spouts"][0], "id emitted transferred acked failed complete_ms_avg")
    _has(metrics["bolts"][0], "id emitted transferred acked failed process_ms_avg executed executed_ms_avg")
    assert float(bolt["capacity"]) >= 0.0
    assert float(spout["completeLatency"]) >= 0.0


def test_figures_are_those_of_all_tasks():
    """Counts are added up, latencies are means, a bolt that works half of the time has the capacity 0.5."""
    storm, service = _storm(_figures(times=40.0))
    service.engine.status.started_at -= 20.0
    (bolt,) = storm.topology(ALL_TIME)["bolts"]
    assert (bolt["executed"], bolt["emitted"], bolt["transferred"]) == (40_000, 3_200, 6_400)
    assert (bolt["executeLatency"], bolt["capacity"]) == ("0.500", "0.500")
    assert [one["executed"] for one in storm.component("evaluator", ALL_TIME)["executorStats"]] == [20_000, 20_000]
    assert storm.topology(ALL_TIME)["topologyStats"][-1]["completeLatency"] == "10.000"
    assert storm.topology(ALL_TIME)["topologyStats"][-1]["acked"] == 4_000


def test_windows_tell_what_came_within_them(monkeypatch):
    """Of a run of a thousand seconds, six hundred; and all of it where it is younger than the window."""
    now = 5_000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    storm, service = _storm()
    service.engine.status.started_at -= 1_000.0
    for second in range(0, 1_001, 5):
        now = 5_000.0 + second
        service.figures = _figures(times=second, acked=second)
        service.windows.note(now, service.figures)
    (bolt,) = storm.topology("600")["bolts"]
    assert bolt["executed"] == 2 * 500 * 600
    assert bolt["capacity"] == "0.250"
    assert storm.topology("10800")["bolts"][0]["executed"] == 2 * 500 * 1_000
    assert storm.topology("600")["windowHint"] == "10m 0s"


def test_windows_are_bounded_and_forget_an_earlier_engine():
    """However long a run takes; and figures that begin anew have nothing before them."""
    windows = FigureWindows()
    for second in range(100_000):
        windows.note(second, {"acked": second})
    assert all(len(kept) <= KEPT + 1 for kept in windows._kept.values())
    seconds, before = windows.before(99_999, 600)
    assert 600 <= seconds < 620
    assert before["acked"] == 99_999 - seconds
    windows.note(100_000, {"acked": 1})
    assert windows.before(100_001, 600) == (600.0, None)


def test_error_is_that_of_the_task_that_it_names():
    """Storm shows the last error at its component."""
    error = "task evaluator[1] failed in epoch 3:\nValueError: no"
    storm, _ = _storm(state="failed", error=error)
    whole = storm.topology(ALL_TIME)
    assert whole["status"] == "INACTIVE"
    assert (whole["bolts"][0]["lastError"], whole["spouts"][0]["lastError"]) == (error, "")
    assert storm.component("evaluator", ALL_TIME)["componentErrors"][0]["error"] == error


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (365, "6m 5s"), (10_800, "3h 0m 0s"), (86_461, "1d 0h 1m 1s")]
)
def test_times_are_written_as_storm_does(seconds, text):
    """Without what leads and is none."""
    assert pretty(seconds) == text
