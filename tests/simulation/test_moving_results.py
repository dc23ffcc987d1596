"""Results that move between evaluators: none is lost or said twice, wherever the run stops and goes on."""

import pytest
from latest_queries import latest_topology, write_latest_inputs, wrong_lines
from range_inputs import GoesBackBehindEachEpoch

from streams.batches import RankedBatch
from topology.local_runtime import LocalRuntime
from topology.planning import plan_of
from topology.verification import verify_lines
from topology.wiring import wire

#: So many epochs are worked on one by one; the rest of the input follows without a stop.
CUT = 40

#: One partitioner of each kind of plan that can change.
KINDS = ("kd", "text", "hash", "keyword-first", "qt-tree", "sop")


@pytest.mark.parametrize("kind", KINDS)
def test_moving_results_are_part_of_the_state_behind_every_epoch(tmp_path, kind):
    """All tasks are made anew behind each epoch, from what they saved: nothing else of them may matter."""
    topology = latest_topology(
        *write_latest_inputs(tmp_path, 9, objects=100, queries=60), partitioner=kind, piece=4, mergers=2, feedback=2,
        epoch={"objects": 3, "queries": 4}, balancer={"seed": 3, "units": 1.0},
    )  # fmt: skip
    wiring = wire(topology, plan_of(topology))
    outputs = []
    forgetful = GoesBackBehindEachEpoch(wiring, CUT, outputs)
    forgetful.run()
    rest = LocalRuntime(wiring, snapshots=forgetful.states, on_report=lambda r: outputs.extend(r.outputs))
    rest.run()
    assert not (wrong := wrong_lines(topology, verify_lines(outputs))), wrong
    adoptions = [[b for b in batches if isinstance(b, RankedBatch)] for batches in forgetful.lagged]
    assert any(len(b.seq) for batches in adoptions for b in batches)
