"""Going on from a checkpoint: is it of this topology, what was its plan, and which state has each task."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from partitioners.plans.plan import Plan
from partitioners.plans.plan import unpack as unpack_plan
from streams.event_log import EventLog
from topology.checkpoints.identity import check_identity, parallelism_of
from topology.checkpoints.manifest import SavedFile, folder_name
from topology.checkpoints.part_files import parts_in
from topology.checkpoints.redistribution import redistributed
from topology.checkpoints.saved_state import Reading, Saved, load_newest
from topology.checkpoints.state_files import read_file
from topology.checkpoints.store import Store, open_store
from topology.declaration import Topology
from topology.plan_request import EVALUATOR
from topology.planning import plan_of
from topology.wiring import Wiring

__all__ = ["Resumption", "StateInStore", "resumption_of"]

log = EventLog()


@dataclass(frozen=True, slots=True)
class StateInStore:
    """Where the state of a task is, for a process that reads it itself.

    Attributes:
        place: the store, as `open_store` takes it.
        folder: of the checkpoint.
        file: with the state.
        parts: the files of all parts of the checkpoint, by their keys.
        most: the largest file that may be read.
    """

    place: str
    folder: str
    file: SavedFile
    parts: Mapping[str, SavedFile]
    most: int

    def read(self) -> dict[str, Any]:
        """Return the state; raise `InputError` where it cannot be read from here, or is not what was written."""
        store = open_store(self.place)
        state: dict[str, Any] = read_file(
            store, self.folder, self.file, self.most, parts_in(store, self.parts, self.most)
        )
        return state


@dataclass(frozen=True, slots=True)
class Resumption:
    """A checkpoint to go on from.

    Attributes:
        saved: the checkpoint.
        plan: the plan to go on with: the checkpoint's own, or one for another parallelism.
        store: where it is.
        most: the largest file that may be read.
    """

    saved: Saved
    plan: Plan | None
    store: Store
    most: int

    @property
    def driver(self) -> dict[str, Any]:
        """Return what the driver knew."""
        return self.saved.driver

    @property
    def start(self) -> int:
        """Return the epoch to go on with."""
        return self.saved.manifest.epoch + 1

    def states(self, wiring: Wiring) -> dict[int, dict[str, Any]]:
        """Return the state of each task, divided anew where there are more or fewer tasks than there were."""
        if parallelism_of(wiring.topology) != self.saved.manifest.parallelism:
            states: Mapping[str, dict[str, Any]] = redistributed(wiring, self.saved)
        else:
            assert self.saved.states is not None, "states were not kept"
            states = self.saved.states
        return {task.id: states[task.name] for task in wiring.tasks}

    def kept(self) -> "Resumption":
        """Return the same with all states read here, for processes that cannot read them."""
        manifest = self.saved.manifest
        part_of = parts_in(self.store, manifest.parts, self.most)
        folder = folder_name(manifest.serial)
        states = {
            task: read_file(self.store, folder, file, self.most, part_of) for task, file in manifest.tasks.items()
        }
        return replace(self, saved=replace(self.saved, states=states))

    def sources(self, wiring: Wiring) -> Mapping[int, StateInStore | dict[str, Any]]:
        """Return where each task's state is, or the state itself where it is at hand."""
        return self.states(wiring) if self.saved.states is not None else self._in_store(wiring)

    def _in_store(self, wiring: Wiring) -> dict[int, StateInStore]:
        manifest = self.saved.manifest
        folder, place = folder_name(manifest.serial), self.store.place
        return {
            task.id: StateInStore(place, folder, manifest.tasks[task.name], manifest.parts, self.most)
            for task in wiring.tasks
        }


def resumption_of(topology: Topology, store: Store, reading: Reading = "kept") -> Resumption:
    """Take the newest whole checkpoint of a store; raise unless this topology can go on from it."""
    most = topology.settings.limits.state_bytes
    saved = load_newest(store, reading, parallelism_of(topology), most)
    manifest = saved.manifest
    check_identity(topology, manifest.identity, manifest.parallelism, store.url)
    packed = saved.driver["plan"].value if saved.driver["plan"] is not None else None
    if packed is None or parallelism_of(topology).get(EVALUATOR) != manifest.parallelism.get(EVALUATOR):
        plan = plan_of(topology)
    else:
        importlib.import_module("partitioners.builders.registry")  # makes all classes of plans known
        plan = unpack_plan(packed, f"the plan in {store.url}")
    log.info("run_resumed", store=store.url, epoch=manifest.epoch + 1)
    return Resumption(saved, plan, store, most)
