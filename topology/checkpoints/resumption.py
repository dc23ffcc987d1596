"""Going on from a checkpoint: is it of this topology, what was its plan, and which state has each task."""

import importlib
from dataclasses import dataclass
from typing import Any

import structlog

from partitioners.plans.plan import Plan
from partitioners.plans.plan import unpack as unpack_plan
from topology.checkpoints.identity import check_identity, parallelism_of
from topology.checkpoints.redistribution import redistributed
from topology.checkpoints.saved_state import Saved, load_newest
from topology.checkpoints.store import Store
from topology.declaration import Topology
from topology.plan_request import EVALUATOR
from topology.planning import plan_of
from topology.wiring import Wiring

__all__ = ["Resumption", "resumption_of"]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Resumption:
    """A checkpoint to go on from.

    Attributes:
        saved: the checkpoint.
        plan: the plan to go on with: the checkpoint's own, or one for another parallelism.
        place: the store's name.
    """

    saved: Saved
    plan: Plan | None
    place: str

    @property
    def driver(self) -> dict[str, Any]:
        """Return what the driver knew."""
        return self.saved.driver

    def states(self, wiring: Wiring) -> dict[int, dict[str, Any]]:
        """Return the state of each task, divided anew where there are more or fewer tasks than there were."""
        states = self.saved.states
        if parallelism_of(wiring.topology) != self.saved.manifest.parallelism:
            states = redistributed(wiring, self.saved)
        return {task.id: states[task.name] for task in wiring.tasks}


def resumption_of(topology: Topology, store: Store) -> Resumption:
    """Take the newest whole checkpoint of a store; raise unless this topology can go on from it."""
    saved = load_newest(store)
    manifest = saved.manifest
    check_identity(topology, manifest.identity, manifest.parallelism, store.url)
    packed = saved.driver["plan"]
    if packed is None or parallelism_of(topology).get(EVALUATOR) != manifest.parallelism.get(EVALUATOR):
        plan = plan_of(topology)
    else:
        importlib.import_module("partitioners.builders.registry")  # makes all classes of plans known
        plan = unpack_plan(packed, f"the plan in {store.url}")
    log.info("run_resumed", store=store.url, epoch=manifest.epoch + 1)
    return Resumption(saved, plan, store.url)
