"""Checkpoints: the state of a whole run after an epoch, kept so that the run can go on from there after a full stop.

`collection` marks epochs and collects the states of tasks while the flow goes on, or the names of the files (`state_files`)
that they write themselves; `background` writes the rest into a `store`, each immutable part of a state once (`part_files`);
a `manifest`, written last, makes them count (`saved_state`). `resumption` takes the newest whole one, sees that it is of the
same topology (`identity`), and divides states anew where the parallelism is another (`redistribution`). `run_record` is what
the driver adds: counters and collected results.
"""

from topology.checkpoints.collection import Checkpoints
from topology.checkpoints.resumption import Resumption, StateInStore, resumption_of
from topology.checkpoints.run_record import RunRecord
from topology.checkpoints.saved_state import Checkpoint, Reading, Saved, StateFile, load_newest, save
from topology.checkpoints.store import ArrowStore, FolderStore, Store, StoreError, open_store, same_place

__all__ = [
    "ArrowStore",
    "Checkpoint",
    "Checkpoints",
    "FolderStore",
    "Reading",
    "Resumption",
    "RunRecord",
    "Saved",
    "StateFile",
    "StateInStore",
    "Store",
    "StoreError",
    "load_newest",
    "open_store",
    "resumption_of",
    "same_place",
    "save",
]
