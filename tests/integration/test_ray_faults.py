"""Declared faults on Ray: they happen once each, and the results are the oracle's."""

import pytest
import structlog
from adaptive_inputs import adaptive_topology
from range_inputs import lines_of, write_inputs

from streams.comparison import compare
from topology import InvalidTopologyError, run
from topology.disturbances import with_disturbances
from topology.verification import oracle_of

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster")]

FAULTS = (
    {"kind": "slow", "task": "sink", "epoch": 2, "duration": 10, "strength": 3},
    {"kind": "kill", "task": "evaluator[1]", "epoch": 20},
    {"kind": "pause", "task": "router", "epoch": 30, "duration": 200},
    {"kind": "corrupt", "epoch": 40},
    {"kind": "kill", "task": "sink", "epoch": 41},
)


def faulty_topology(folder, faults):
    """Tornado on three workers, with queries that move all the time."""
    topology = adaptive_topology(
        *write_inputs(folder, 21, objects=900, queries=200, last_ts=90), evaluators=3, tick=2, chunk=20,
        epoch={"objects": 10, "queries": 100}, balancer={"seed": 3}, max_pending=4,
        checkpoint={"directory": str(folder / "checkpoints"), "epochs": 5}, ray={"workers": 3},
    )  # fmt: skip
    return with_disturbances(topology, faults)


def test_declared_faults_change_no_result(tmp_path):
    """A slow sink, two workers killed, one stopped for a while, and a damaged checkpoint."""
    topology = faulty_topology(tmp_path, FAULTS)
    with structlog.testing.capture_logs() as logs:
        outcome = run(topology, runtime="ray")
    events = [log["event"] for log in logs]
    happened = sorted(log["kind"] for log in logs if log["event"] == "fault_injected")
    assert happened == ["corrupt", "kill", "kill", "pause"]  # damage waits while a checkpoint is being written
    assert "fault_never_happened" not in events
    assert outcome.summary["restarts"] == 2
    comparison = compare(oracle_of(topology), lines_of(outcome))
    assert comparison.ok, comparison


def test_lost_messages_are_for_the_local_runtime(tmp_path):
    """What declares them for Ray is told so before anything starts, also where the call names the runtime."""
    topology = faulty_topology(tmp_path, [{"kind": "drop", "strength": 0.5}])
    with pytest.raises(InvalidTopologyError, match=r"'drop' needs the local runtime.*set topology\.runtime = 'local'"):
        run(topology, runtime="ray")
