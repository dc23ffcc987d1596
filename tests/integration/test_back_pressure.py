"""A task that cannot keep up: spouts wait for it, what is under way stays within the window, the summary shows who it is."""

import time
from dataclasses import dataclass
from typing import ClassVar

import pytest

from operators import Bolt, Spout
from topology import TopologyBuilder, run

EPOCHS, WINDOW, SLOW_SECONDS = 40, 5, 0.01


@dataclass
class CountingSpout(Spout):
    """Emits, an epoch, how many epochs it has begun and not yet heard to be complete."""

    outputs: ClassVar = {"default": ("ahead",)}

    def open(self, context):
        self._acked = 0

    def next_epoch(self, epoch, inputs, emit):
        emit(epoch.number + 1 - self._acked)
        return epoch.number < EPOCHS

    def ack(self, epoch):
        self._acked = epoch + 1


@dataclass
class Step(Bolt):
    """Passes tuples on, and takes its time."""

    outputs: ClassVar = {"default": ("ahead",)}

    seconds: float = 0.0

    def execute_epoch(self, epoch, inputs, emit):
        time.sleep(self.seconds)
        for batch in inputs.batches("default"):
            emit.batch(batch)


@dataclass
class Last(Step):
    """Hands tuples to the program that started the run."""

    outputs: ClassVar = {}

    def open(self, context):
        self._context = context

    def execute_epoch(self, epoch, inputs, emit):
        time.sleep(self.seconds)
        for batch in inputs.batches("default"):
            self._context.output(batch)


@pytest.mark.parametrize("slow", ["evaluator", "sink"])
@pytest.mark.parametrize("runtime", ["local", pytest.param("ray", marks=pytest.mark.ray)])
def test_slow_task_holds_the_spouts_back(request, runtime, slow):
    """They fill the window and no more, though they could do all of their input at once."""
    if runtime == "ray":
        request.getfixturevalue("ray_cluster")
    builder = TopologyBuilder("pressed", max_pending=WINDOW, ray={"workers": 3})
    builder.spout("source", CountingSpout)
    builder.bolt("evaluator", Step, seconds=SLOW_SECONDS if slow == "evaluator" else 0.0).shuffle("source")
    builder.bolt("sink", Last, seconds=SLOW_SECONDS if slow == "sink" else 0.0).global_("evaluator")
    pending = []
    outcome = run(builder.build(), runtime=runtime, on_progress=lambda progress: pending.append(progress.pending))
    ahead = [value for batch in outcome.collected for value in batch.column("ahead").tolist()]
    assert len(ahead) >= EPOCHS
    assert max(ahead) == WINDOW
    assert max(pending) <= WINDOW
    capacities = {task["task"]: task["capacity"] for task in outcome.summary["tasks"]}
    assert max(capacities, key=capacities.get) == f"{slow}[0]"
