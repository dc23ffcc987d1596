"""Workers that die on Ray: the run goes back to its last checkpoint, and nothing is lost or said twice."""

import os
import signal
from itertools import count

import pytest
from adaptive_inputs import adaptive_topology
from range_inputs import lines_of, write_inputs

from streams.comparison import compare
from streams.errors import RunError
from topology import run
from topology.ray_runtime import driver
from topology.verification import oracle_of

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
    with pytest.raises(RunError, match=r"evaluator\[0\].*given up after 1 restarts"):
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
