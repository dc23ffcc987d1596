"""A checkpoint in memory, and its way into a store and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from streams.errors import InputError
from streams.event_log import EventLog
from streams.state import PackedState
from topology.checkpoints.manifest import (
    MANIFEST,
    MAX_FILE_BYTES,
    MAX_MANIFEST_BYTES,
    PARTS,
    Manifest,
    SavedFile,
    folder_name,
    pack_manifest,
    serial_of,
    unpack_manifest,
)
from topology.checkpoints.part_files import PartFiles, parts_in
from topology.checkpoints.state_files import check_file, read_file, write_file
from topology.checkpoints.store import Store, StoreError

__all__ = ["Checkpoint", "Reading", "Saved", "StateFile", "load_newest", "next_serial", "save", "whole_manifests"]

log = EventLog()

#: How much of a checkpoint's states is looked at: all is read and kept, all is read and forgotten, or only sizes are compared.
Reading = Literal["kept", "checked", "sized"]


@dataclass(frozen=True, slots=True)
class StateFile:
    """A state that its task's process has written into the checkpoint's folder.

    Attributes:
        file: in the folder.
        parts: those that the state refers to, by their keys.
        written: how many bytes were written for it, with those of new parts.
    """

    file: SavedFile
    parts: Mapping[str, SavedFile]
    written: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is to be saved after an epoch, each state packed already or written already; names as in `Manifest`."""

    epoch: int
    identity: Mapping[str, Any]
    parallelism: Mapping[str, int]
    states: Mapping[str, PackedState | StateFile]
    driver: PackedState
    sinks: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that was found whole: its manifest, the state of the driver and, where they were kept, those of tasks."""

    manifest: Manifest
    driver: dict[str, Any]
    states: Mapping[str, dict[str, Any]] | None = None


def next_serial(store: Store) -> int:
    """Return the number of a store's next checkpoint: none that was ever begun there has it."""
    return 1 + max((serial for folder in store.folders() if (serial := serial_of(folder)) is not None), default=-1)


def save(
    store: Store,
    serial: int,
    checkpoint: Checkpoint,
    keep: int,
    parts: PartFiles | None = None,
    most: int = MAX_FILE_BYTES,
) -> Manifest:
    """Write a checkpoint, the manifest last; then remove all but the newest `keep`, and what never became one."""
    folder = folder_name(serial)
    parts = parts if parts is not None else PartFiles(store, most)
    parts.look()
    referred: dict[str, SavedFile] = {}

    def written(name: str, state: PackedState | StateFile) -> SavedFile:
        if isinstance(state, StateFile):
            referred.update(state.parts)
            return state.file
        referred.update({key: parts.saved(part) for key, part in state.parts.items() if key not in referred})
        return write_file(store, folder, name, state.pieces, most, reuse=False)

    # Names of components may be any text, so files are numbered.
    tasks = {task: written(f"task-{i:05}.state", state) for i, (task, state) in enumerate(checkpoint.states.items())}
    manifest = Manifest(
        serial=serial,
        epoch=checkpoint.epoch,
        identity=checkpoint.identity,
        parallelism=checkpoint.parallelism,
        tasks=tasks,
        driver=written("driver.state", checkpoint.driver),
        sinks=checkpoint.sinks,
        parts=referred,
    )
    store.write(f"{folder}/{MANIFEST}", pack_manifest(manifest))
    store.sync()  # or a loss of power could take the folder of this one after those of older ones were removed
    _prune(store, manifest, keep)
    return manifest


def _prune(store: Store, newest: Manifest, keep: int) -> None:
    """Remove what is too old, what was begun before and has no manifest, and parts that no checkpoint refers to any more."""
    older = sorted((s for f in store.folders() if (s := serial_of(f)) is not None and s < newest.serial), reverse=True)
    kept = [newest]
    for serial in older:
        manifest = _manifest_of(store, serial) if len(kept) < keep else None
        if manifest is not None:
            kept.append(manifest)
        else:
            store.remove(folder_name(serial))
    needed = {file.name for manifest in kept for file in manifest.parts.values()}
    for name in store.sizes(PARTS):
        if name not in needed:
            store.remove(f"{PARTS}/{name}")


def _manifest_of(store: Store, serial: int) -> Manifest | None:
    try:
        return unpack_manifest(store.read(f"{folder_name(serial)}/{MANIFEST}", MAX_MANIFEST_BYTES))
    except InputError:
        return None


def whole_manifests(store: Store) -> list[Manifest]:
    """Return the manifests of a store that can be read, the oldest first; whether their files are whole was not looked at."""
    serials = sorted(s for f in store.folders() if (s := serial_of(f)) is not None)
    return [manifest for serial in serials if (manifest := _manifest_of(store, serial)) is not None]


def load_newest(
    store: Store,
    reading: Reading = "kept",
    parallelism: Mapping[str, int] | None = None,
    most: int = MAX_FILE_BYTES,
) -> Saved:
    """Return the newest checkpoint that is whole; one that is not is passed over with a warning that says why.

    Args:
        store: where.
        reading: what is done with the states of tasks.
        parallelism: states of a checkpoint with another are kept anyway, because they have to be divided anew.
        most: the largest file that may be read.
    """
    serials = sorted((s for f in store.folders() if (s := serial_of(f)) is not None), reverse=True)
    if not serials:
        raise StoreError(f"{store.url}: there are no checkpoints here; name the folder that topology.checkpoint names")
    reasons = []
    for serial in serials:
        try:
            return _load(store, serial, reading, parallelism, most)
        except InputError as error:
            reasons.append(str(error))
            log.warning("checkpoint_passed_over", checkpoint=f"{store.url}/{folder_name(serial)}", reason=str(error))
    raise StoreError(
        f"{store.url}: none of the {len(serials)} checkpoints here is whole (the newest: {reasons[0]}); start afresh"
    )


def _load(store: Store, serial: int, reading: Reading, parallelism: Mapping[str, int] | None, most: int) -> Saved:
    folder = folder_name(serial)
    try:
        manifest = unpack_manifest(store.read(f"{folder}/{MANIFEST}", MAX_MANIFEST_BYTES))
    except StoreError:
        raise
    except InputError as error:
        raise InputError(f"{MANIFEST} {error}") from error
    part_of = parts_in(store, manifest.parts, most)
    driver = read_file(store, folder, manifest.driver, most, part_of)
    if parallelism is not None and parallelism != manifest.parallelism:
        reading = "kept"
    if reading == "sized":
        _compare_sizes(store, folder, manifest.tasks)
        _compare_sizes(store, PARTS, manifest.parts)
        return Saved(manifest, driver)
    for file in manifest.parts.values():
        check_file(store, PARTS, file, most)
    if reading == "checked":
        for file in manifest.tasks.values():
            check_file(store, folder, file, most)
        return Saved(manifest, driver)
    states = {task: read_file(store, folder, file, most, part_of) for task, file in manifest.tasks.items()}
    return Saved(manifest, driver, states)


def _compare_sizes(store: Store, folder: str, files: Mapping[str, SavedFile]) -> None:
    there = store.sizes(folder)
    for file in files.values():
        if there.get(file.name) != file.size:
            raise InputError(
                f"{file.name} has {there.get(file.name, 'no')} bytes, expected {file.size}: it is torn or gone"
            )
