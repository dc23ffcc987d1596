"""What Storm's REST interface says of a service: its documented fields, with the figures of the run.

A task is an executor, the engine is the one worker, on one supervisor. Nothing is scheduled by memory or processors, so what is
requested is 0; what is there and what is used is the machine's. What Storm counts by stream is not counted here.
"""

import os
import platform
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from service.figure_windows import WINDOWS, Figures
from service.service import Service

__all__ = ["ALL_TIME", "StormFigures", "pretty"]

#: States of an engine by Storm's names.
_STATES = {"starting": "ACTIVE", "running": "ACTIVE", "failed": "INACTIVE", "ended": "KILLED"}

ALL_TIME = ":all-time"

#: The task that an error names, as runtimes word it.
_FAILED_TASK = re.compile(r"task (.+)\[\d+\] failed")

_REQUESTED = {"requestedMemOnHeap": 0.0, "requestedMemOffHeap": 0.0, "requestedCpu": 0.0}
_NO_ERROR = {
    "lastError": "", "errorHost": "", "errorPort": None, "errorTime": None, "errorLapsedSecs": None,
    "errorWorkerLogLink": "",
}  # fmt: skip

Counts = Mapping[str, float]
Fields = dict[str, Any]


def pretty(seconds: float) -> str:
    """Return a time as Storm writes it: ``1d 2h 3m 4s``, without what leads and is none."""
    whole = int(seconds)
    parts = [(whole // 86_400, "d"), (whole // 3_600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    first = next((place for place, (value, _) in enumerate(parts) if value), 3)
    return " ".join(f"{value}{unit}" for value, unit in parts[first:])


def _ms(whole: float, count: float) -> str:
    """Return a mean as Storm writes latencies: milliseconds, as text."""
    return f"{whole / count:.3f}" if count else "0.000"


def _added(all_counts: Iterable[Counts]) -> dict[str, float]:
    whole: dict[str, float] = {}
    for counts in all_counts:
        for key, value in counts.items():
            whole[key] = whole.get(key, 0.0) + value
    return whole


def _tasks(figures: Figures | None) -> dict[tuple[str, int], Counts]:
    return {} if figures is None else {(owner, index): counts for owner, index, counts in figures.get("tasks", ())}


class StormFigures:
    """A service in Storm's words."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def name(self) -> str:
        """The topology's name, which is its id too."""
        return self._service.live.settings.name

    @property
    def _uptime(self) -> Fields:
        seconds = max(int(time.time() - self._service.engine.status.started_at), 0)
        return {"uptime": pretty(seconds), "uptimeSeconds": seconds}

    @property
    def _executors(self) -> int:
        return sum(component.parallelism for component in self._service.live.components)

    @property
    def status(self) -> str:
        """What the topology does, as Storm has it."""
        return _STATES[self._service.engine.status.state]

    # --- the cluster -----------------------------------------------------------------------------------------------

    def cluster(self) -> Fields:
        """Return the summary of the cluster."""
        total, available, used = self._memory_mb()
        cores = 100.0 * (os.cpu_count() or 1)
        return {
            "stormVersion": "waterspout", "supervisors": 1, "topologies": 1, "slotsTotal": 1, "slotsUsed": 1,
            "slotsFree": 0, "executorsTotal": self._executors, "tasksTotal": self._executors,
            "schedulerDisplayResource": False, "totalMem": total, "availMem": available, "totalCpu": cores,
            "availCpu": cores, "memAssignedPercentUtil": round(100.0 * used / total, 2), "cpuAssignedPercentUtil": 0.0,
        }  # fmt: skip

    def _memory_mb(self) -> tuple[float, float, float]:
        """Return the memory of the machine, what is free of it, and what the engine has, in MB."""
        page = os.sysconf("SC_PAGE_SIZE") / 2**20
        pid = self._service.engine.status.pid
        try:
            used = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        except (OSError, IndexError, ValueError):
            used = 0
        total, free = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_AVPHYS_PAGES")
        return round(total * page, 1), round(free * page, 1), round(used * page, 1)

    def nimbuses(self) -> Fields:
        """Return the one that leads: the service."""
        uptime = self._uptime
        one = {
            "host": platform.node(), "port": 0, "status": "Leader", "version": "waterspout", "nimbusLogLink": "",
            "nimbusUpTime": uptime["uptime"], "nimbusUpTimeSeconds": str(uptime["uptimeSeconds"]),
        }  # fmt: skip
        return {"nimbuses": [one]}

    def supervisors(self) -> Fields:
        """Return the one machine."""
        total, available, used = self._memory_mb()
        cores = 100.0 * (os.cpu_count() or 1)
        one = {
            "id": platform.node(), "host": platform.node(), **self._uptime, "slotsTotal": 1, "slotsUsed": 1,
            "slotsFree": 0, "schedulerDisplayResource": False, "totalMem": total, "usedMem": used, "availMem": available,
            "totalCpu": cores, "usedCpu": 0.0, "availCpu": cores, "version": "waterspout",
        }  # fmt: skip
        return {"supervisors": [one], "schedulerDisplayResource": False}

    def workers(self) -> list[Fields]:
        """Return the one worker: the engine."""
        _, _, used = self._memory_mb()
        tasks = {component.name: component.parallelism for component in self._service.live.components}
        return [
            {
                "supervisorId": platform.node(), "host": platform.node(), "port": 0, "topologyId": self.name,
                "topologyName": self.name, "executorsTotal": self._executors, "assignedMemOnHeap": used,
                "assignedMemOffHeap": 0.0, "assignedCpu": 0.0, "componentNumTasks": tasks, **self._uptime,
                "workerLogLink": "",
            }
        ]  # fmt: skip

    def configuration(self) -> Fields:
        """Return what Storm's configuration has a name for."""
        settings = self._service.live.settings
        return {
            "storm.id": self.name, "topology.name": self.name, "topology.workers": 1,
            "topology.max.spout.pending": settings.max_pending, "topology.message.timeout.secs": 0,
        }  # fmt: skip

    # --- the topology ----------------------------------------------------------------------------------------------

    def brief(self) -> Fields:
        """Return the summary of the topology."""
        _, _, used = self._memory_mb()
        return {
            "id": self.name, "encodedId": quote(self.name, safe=""), "name": self.name, "owner": "",
            "status": self.status, **self._uptime, "tasksTotal": self._executors, "executorsTotal": self._executors,
            "workersTotal": 1, "replicationCount": 1, "schedulerDisplayResource": False, **_REQUESTED,
            "requestedTotalMem": 0.0, "assignedMemOnHeap": used, "assignedMemOffHeap": 0.0, "assignedTotalMem": used,
            "assignedCpu": 0.0,
        }  # fmt: skip

    def topology(self, window: str) -> Fields:
        """Return the topology with its components."""
        components = self._service.live.components
        return {
            **self.brief(), "msgTimeout": 0, "debug": False, "samplingPct": 0.0, "window": window,
            "windowHint": self._hint(window), "topologyStats": [self._whole(one) for one in self._windows()],
            "workers": self.workers(),
            "spouts": [self.brief_component(c.name, window) for c in components if c.kind == "spout"],
            "bolts": [self.brief_component(c.name, window) for c in components if c.kind == "bolt"],
            "configuration": self.configuration(),
        }  # fmt: skip

    def brief_component(self, name: str, window: str) -> Fields:
        """Return a spout or a bolt as the topology lists it."""
        found = self._service.live.component(name)
        sort = "spoutId" if found.kind == "spout" else "boltId"
        return {
            sort: name, "id": name, "encodedSpoutId" if found.kind == "spout" else "encodedBoltId": quote(name, safe=""),
            "componentType": found.kind, "tasks": found.parallelism, "executors": found.parallelism,
            **self._figures(name, window), **_REQUESTED, **_NO_ERROR, "lastError": self._error(name),
        }  # fmt: skip

    def component(self, name: str, window: str) -> Fields:
        """Return a spout or a bolt and its executors."""
        found = self._service.live.component(name)
        stats = [{**self._figures(name, one), **self._window(one)} for one in self._windows()]
        uptime, error = self._uptime, self._error(name)
        told = {"errorHost": platform.node(), "errorPort": 0, "errorTime": 0, "errorLapsedSecs": 0, "error": error}
        executors = [
            {
                "id": f"[{index}-{index}]", "encodedId": quote(f"[{index}-{index}]", safe=""), "host": platform.node(),
                "port": 0, "workerLogLink": "", **uptime, **self._figures(name, window, index),
            }
            for index in range(found.parallelism)
        ]  # fmt: skip
        return {
            **self.brief_component(name, window), "name": self.name, "user": "", "encodedId": quote(name, safe=""),
            "topologyId": self.name, "encodedTopologyId": quote(self.name, safe=""), "topologyStatus": self.status,
            "schedulerDisplayResource": False, "window": window, "windowHint": self._hint(window), "debug": False,
            "samplingPct": 0.0, "eventLogLink": "", "profilingAndDebuggingCapable": False,
            "profileActionEnabled": False, "profilerActive": [],
            "componentErrors": [{**told, "errorWorkerLogLink": ""}] if error else [],
            ("spoutSummary" if found.kind == "spout" else "boltStats"): stats,
            "inputStats": [], "outputStats": [], "executorStats": executors,
        }  # fmt: skip

    def metrics(self, window: str) -> Fields:
        """Return figures by component; those that Storm has by stream are those of all streams together."""
        shown: dict[str, list[Fields]] = {"spouts": [], "bolts": []}
        for component in self._service.live.components:
            figures = self._figures(component.name, window)
            by_stream = {key: [_of_all(figures[key])] for key in ("emitted", "transferred", "acked", "failed")}
            if component.kind == "spout":
                by_stream["complete_ms_avg"] = [_of_all(figures["completeLatency"])]
            else:
                by_stream["executed"] = [_of_all(figures["executed"])]
                by_stream["executed_ms_avg"] = [_of_all(figures["executeLatency"])]
                by_stream["process_ms_avg"] = [_of_all(figures["processLatency"])]
            shown[f"{component.kind}s"].append({"id": component.name, **by_stream})
        return {"window": window, "window-hint": self._hint(window), **shown}

    # --- figures ---------------------------------------------------------------------------------------------------

    def _windows(self) -> list[str]:
        return [*map(str, WINDOWS), ALL_TIME]

    @staticmethod
    def _hint(window: str) -> str:
        return "All time" if window == ALL_TIME else pretty(int(window))

    def _window(self, window: str) -> Fields:
        return {"window": window, "windowPretty": self._hint(window)}

    def _within(self, window: str) -> tuple[float, Figures | None]:
        """Return how many seconds a window has, and the figures at its begin."""
        if window == ALL_TIME:
            return float(max(self._uptime["uptimeSeconds"], 1)), None
        seconds, before = self._service.windows.before(time.monotonic(), int(window))
        return min(seconds, float(max(self._uptime["uptimeSeconds"], 1))), before

    def _counts(self, name: str, before: Figures | None, index: int | None) -> dict[str, float]:
        """Return what the tasks of a component have counted since then, or one of them."""
        then, now = _tasks(before), _tasks(self._service.figures)
        wanted = [key for key in now if key[0] == name and index in (None, key[1])]
        grown = _added(now[key] for key in wanted)
        for key, value in _added(then[key] for key in wanted if key in then).items():
            grown[key] = grown.get(key, 0.0) - value
        return grown

    def _figures(self, name: str, window: str, index: int | None = None) -> Fields:
        seconds, before = self._within(window)
        counts = self._counts(name, before, index)
        found = self._service.live.component(name)
        emitted, executed = int(counts.get("emitted", 0)), int(counts.get("executed", 0))
        shared: Fields = {"emitted": emitted, "transferred": int(counts.get("transferred", 0)), "failed": 0}
        if found.kind == "spout":
            return {**shared, "acked": emitted, "completeLatency": self._latency(before)}
        busy = counts.get("busy_ms", 0.0)
        executors = found.parallelism if index is None else 1
        latency = _ms(busy, executed)
        return {
            **shared, "executed": executed, "acked": executed, "executeLatency": latency, "processLatency": latency,
            "capacity": f"{busy / 1e3 / (seconds * executors):.3f}",
        }  # fmt: skip

    def _latency(self, before: Figures | None) -> str:
        now, then = self._service.figures, before or {}
        acked = now.get("acked", 0) - then.get("acked", 0)
        return _ms(now.get("latency_sum", 0.0) - then.get("latency_sum", 0.0), acked)

    def _whole(self, window: str) -> Fields:
        """Return the figures of the whole topology."""
        _, before = self._within(window)
        all_counts = {c.name: self._counts(c.name, before, None) for c in self._service.live.components}
        spouts = [c.name for c in self._service.live.components if c.kind == "spout"]
        whole = _added(all_counts.values())
        return {
            **self._window(window), "emitted": int(whole.get("emitted", 0)),
            "transferred": int(whole.get("transferred", 0)), "completeLatency": self._latency(before),
            "acked": int(sum(all_counts[name].get("emitted", 0) for name in spouts)), "failed": 0,
        }  # fmt: skip

    def _error(self, name: str) -> str:
        """Return the error of a component, where one has ended the run."""
        status = self._service.engine.status
        found = _FAILED_TASK.match(status.error or "")
        return status.error or "" if found is not None and found[1] == name else ""


def _of_all(value: Any) -> Fields:
    return {"stream_id": "default", "value": value}
