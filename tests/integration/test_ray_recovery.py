"""Workers that die on Ray: the run goes back to its last checkpoint, and nothing is lost or said twice."""

import json
import os
import signal
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest
import structlog
from adaptive_inputs import adaptive_topology
from latest_queries import latest_topology, write_latest_inputs, wrong_lines
from range_inputs import lines_of, write_inputs

from benchmarks.recovery import Trial, ray_restart_seconds
from benchmarks.tornado_stream import Workload, objects_of, queries_of
from benchmarks.tornado_topology import Setup, plan_from_start
from streams.comparison import compare
from streams.errors import RunError
from topology import run
from topology.ray_runtime import driver
from topology.ray_runtime.fleet import WorkerLostError
from topology.verification import oracle_of, verify_lines

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]


class Saboteur(driver.RayRuntime):
    """Sends signals to the workers of tasks when so many epochs are complete."""

    plan = ()

    def _listen(self, endpoint, seconds, conductor):
        super()._listen(endpoint, seconds, conductor)
        for number, (epoch, name, what) in enumerate(self.plan):
            if conductor.acked >= epoch and number not in self.done:
                self.done.add(number)
                task = next(task.id for task in self.wiring.tasks if task.name == name)
                os.kill(self._fleet._pids[self._fleet.placement.worker_of[task]][1], what)


@pytest.fixture
def sabotage(monkeypatch):
    """Return what makes runs on Ray suffer from (epoch, task, signal)."""

    def plan(*faults):
        monkeypatch.setattr(Saboteur, "plan", faults)
        monkeypatch.setattr(Saboteur, "done", set(), raising=False)
        monkeypatch.setattr("topology.ray_runtime.RayRuntime", Saboteur)

    return plan


def adaptive(tmp_path, max_restarts=10, **ray):
    """Tornado on four workers, with queries that move all the time."""
    return adaptive_topology(
        *write_inputs(tmp_path, 21, objects=900, queries=200, last_ts=90), evaluators=3, tick=2, chunk=20,
        epoch={"objects": 10, "queries": 100}, balancer={"seed": 3}, max_pending=4,
        checkpoint={"directory": str(tmp_path / "checkpoints"), "epochs": 7, "max_restarts": max_restarts},
        ray={"workers": 4, "silent_seconds": 1.0, **ray},
    )  # fmt: skip


def assert_exact_with(topology, restarts):
    outcome = run(topology, runtime="ray")
    assert outcome.summary["restarts"] == restarts
    assert outcome.summary["objects"] == 900
    comparison = compare(oracle_of(topology), lines_of(outcome))
    assert comparison.ok, comparison


def test_killed_workers_cost_nothing_but_time(tmp_path, sabotage):
    """Whatever its task, and in the middle of a rebalancing: the results are the oracle's."""
    tasks = ("objects[0]", "router[1]", "evaluator[2]", "balancer[0]", "sink[0]")
    sabotage(*((11 + 9 * number, task, signal.SIGKILL) for number, task in enumerate(tasks)))
    assert_exact_with(adaptive(tmp_path, workers=100), len(tasks))


class Interceptor(driver.RayRuntime):
    """Kills when results are on their way in the newest checkpoint: the worker that gave them, later the other evaluators'."""

    struck: ClassVar = []
    due: ClassVar = (10, 25)  # at the earliest, one in each generation

    def __init__(self, *args, on_report, **kwargs):
        super().__init__(*args, on_report=self._heard, **kwargs)
        self.heard, self.given = on_report, {}

    def _heard(self, report):
        self.heard(report)
        if report.counts.get("results_given"):
            self.given[report.epoch] = report.task

    def _listen(self, endpoint, seconds, conductor):
        super()._listen(endpoint, seconds, conductor)
        strikes = self._fleet._generation - 1
        if strikes == len(self.due) or conductor.acked < self.due[strikes] or self._checkpoints._writer.busy:
            return
        with suppress(FileNotFoundError):  # it may be removed at this moment
            newest = max(Path(self._checkpoints.store.url).glob("0*/manifest.json"))
            saved = json.loads(newest.read_text("utf-8"))["checkpoint"]["epoch"]
            lag = self.wiring.topology.settings.epoch.feedback
            for giver in [task for epoch, task in self.given.items() if epoch <= saved < epoch + lag][:1]:
                self._strike_at(giver)

    def _strike_at(self, giver):
        evaluators = [task.id for task in self.wiring.tasks_of("evaluator")]
        lost = [task for task in evaluators if (task == giver) == (not self.struck)]
        self.struck.append(lost)
        workers = sorted({self._fleet.placement.worker_of[task] for task in lost})
        for worker in workers:
            os.kill(self._fleet._pids[worker][1], signal.SIGKILL)
        raise WorkerLostError("intercepted", workers)  # at once, before there is a newer checkpoint


def test_results_on_their_way_outlive_the_workers_that_give_and_adopt_them(tmp_path, monkeypatch):
    """Evaluators with memory, whose queries move with their results all the time: no list is lost, stale or there twice."""
    monkeypatch.setattr(Interceptor, "struck", [])
    monkeypatch.setattr("topology.ray_runtime.RayRuntime", Interceptor)
    topology = latest_topology(
        *write_latest_inputs(tmp_path, 21, objects=600, queries=150, last_ts=90), tick=1, piece=50, mergers=2, feedback=3,
        epoch={"objects": 5, "queries": 100}, balancer={"seed": 3}, max_pending=2,
        checkpoint={"directory": str(tmp_path / "checkpoints"), "epochs": 1}, ray={"workers": 4, "silent_seconds": 1.0},
    )  # fmt: skip
    outcome = run(topology, runtime="ray")
    assert len(Interceptor.struck) == outcome.summary["restarts"] == 2
    assert outcome.summary["objects"] == 600
    assert not wrong_lines(topology, verify_lines(outcome.collected))


def test_several_workers_that_die_at_once_are_one_restart(tmp_path, sabotage):
    """Two evaluators and the router of queries."""
    tasks = ("evaluator[0]", "evaluator[1]", "query-router[0]")
    sabotage(*((25, task, signal.SIGKILL) for task in tasks))
    assert_exact_with(adaptive(tmp_path), 1)


def test_a_worker_that_is_stopped_is_replaced(tmp_path, sabotage):
    """It sends no end of file and would do harm if it woke up: it is found by its silence and ended."""
    sabotage((25, "evaluator[1]", signal.SIGSTOP))
    assert_exact_with(adaptive(tmp_path), 1)


def test_workers_that_die_again_and_again_end_the_run(tmp_path, sabotage):
    """After so many restarts the run ends with what happened, and can be resumed."""
    sabotage(*((20 + number, "evaluator[0]", signal.SIGKILL) for number in range(9)))
    topology = adaptive(tmp_path, max_restarts=1)
    with pytest.raises(RunError, match=r"evaluator\[0\].*given up after 1 restarts.*with --resume .*checkpoints$"):
        run(topology, runtime="ray")
    outcome = run(topology, runtime="local", resume=tmp_path / "checkpoints")
    comparison = compare(oracle_of(topology), lines_of(outcome))
    assert comparison.ok, comparison


def test_a_run_on_ray_goes_on_from_a_local_one(tmp_path):
    """Checkpoints know no runtime."""
    topology = adaptive(tmp_path)
    epochs = count()
    run(topology, runtime="local", should_stop=lambda: next(epochs) > 300)
    outcome = run(topology, runtime="ray", resume=tmp_path / "checkpoints")
    comparison = compare(oracle_of(topology), lines_of(outcome))
    assert comparison.ok, comparison


def checkpoint_logs(logs):
    return [log for log in logs if log["event"] == "checkpoint_written"]


def test_states_go_from_workers_to_the_store_and_back(tmp_path, sabotage):
    """A folder that all workers reach: no state passes through the driver, neither when it is saved nor when it is needed."""
    sabotage((25, "evaluator[1]", signal.SIGKILL))
    topology = adaptive(tmp_path)
    with structlog.testing.capture_logs() as logs:
        assert_exact_with(topology, 1)
    assert len(checkpoint_logs(logs)) > 3
    assert {log["handed"] for log in checkpoint_logs(logs)} == {0}
    assert not [log for log in logs if log["event"] in ("states_unread", "states_go_through_the_driver")]
    assert not list((tmp_path / "checkpoints").glob("probe-*"))


def test_states_go_through_the_driver_where_workers_do_not_reach_the_store(tmp_path, sabotage):
    """The memory of a process is another one in each worker: what is saved is sent, and so is what is restored."""
    sabotage((25, "evaluator[1]", signal.SIGKILL))
    topology = adaptive(tmp_path)
    settings = topology.settings
    checkpoint = replace(settings.checkpoint, directory=f"memory://{tmp_path.name}")
    topology = replace(topology, settings=replace(settings, checkpoint=checkpoint))
    with structlog.testing.capture_logs() as logs:
        assert_exact_with(topology, 1)
    assert all(log["handed"] > 0 for log in checkpoint_logs(logs))
    assert [log["event"] for log in logs if log["event"] == "states_unread"] == ["states_unread"] * 2


def test_damage_that_a_worker_finds_takes_the_run_to_the_checkpoint_before(tmp_path, monkeypatch):
    """Sizes are right, so the driver sees nothing; a worker that reads its state does."""
    damaged = []

    class Damaging(Saboteur):
        """Flips a byte of an evaluator's state in the newest checkpoint, then kills a worker."""

        def _listen(self, endpoint, seconds, conductor):
            driver.RayRuntime._listen(self, endpoint, seconds, conductor)
            ready = self._checkpoints.written and self._checkpoints._writer.saved > 3
            if ready and not damaged:
                newest = max((tmp_path / "checkpoints").glob("0*/manifest.json")).parent
                path = max(newest.glob("task-*.state"), key=lambda path: path.stat().st_size)
                data = path.read_bytes()
                path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
                damaged.append(newest.name)
                os.kill(next(iter(self._fleet._pids.values()))[1], signal.SIGKILL)

    monkeypatch.setattr("topology.ray_runtime.RayRuntime", Damaging)
    with structlog.testing.capture_logs() as logs:
        assert_exact_with(adaptive(tmp_path), 1)
    passed = [log["checkpoint"] for log in logs if log["event"] == "checkpoint_passed_over"]
    assert any(one.endswith(damaged[0]) for one in passed)
    assert [log["event"] for log in logs if log["event"] == "states_unread"] == ["states_unread"]


def test_the_benchmark_of_recovery_restarts_a_worker_of_the_runtime(tmp_path):
    """What is held against a recovery is how long Ray takes for the very worker that a run has, plan included."""
    workload = Workload(queries=2_000, seed=1)
    trial = Trial(workload, plan_from_start(Setup(), objects_of(workload), queries_of(workload)), tmp_path)
    assert ray_restart_seconds(trial.topology(1, saving=False), trial.plan, times=1) > 0
