"""A checkpoint in memory, and its way into a store and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from streams.errors import CodecError, InputError
from streams.state import unpack_state
from topology.checkpoints.manifest import (
    MANIFEST,
    MAX_FILE_BYTES,
    MAX_MANIFEST_BYTES,
    Manifest,
    SavedFile,
    checksum,
    folder_name,
    pack_manifest,
    serial_of,
    unpack_manifest,
)
from topology.checkpoints.store import Store, StoreError

__all__ = ["Checkpoint", "Saved", "load_newest", "next_serial", "save"]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is to be saved after an epoch, each state packed already; names as in `Manifest`."""

    epoch: int
    identity: Mapping[str, Any]
    parallelism: Mapping[str, int]
    states: Mapping[str, bytes | memoryview]
    driver: bytes
    sinks: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that was found whole: its manifest, and the states of tasks (by name) and driver."""

    manifest: Manifest
    states: Mapping[str, dict[str, Any]]
    driver: dict[str, Any]


def next_serial(store: Store) -> int:
    """Return the number of a store's next checkpoint: none that was ever begun there has it."""
    return 1 + max((serial for folder in store.folders() if (serial := serial_of(folder)) is not None), default=-1)


def save(store: Store, serial: int, checkpoint: Checkpoint, keep: int) -> Manifest:
    """Write a checkpoint, the manifest last; then remove all but the newest `keep`, and what never became one."""
    folder = folder_name(serial)

    def written(name: str, data: bytes | memoryview) -> SavedFile:
        if len(data) > MAX_FILE_BYTES:
            raise StoreError(
                f"{name} has {len(data):,} bytes, more than a checkpoint may hold ({MAX_FILE_BYTES:,}); use more tasks"
            )
        store.write(f"{folder}/{name}", data)
        return SavedFile(name, len(data), checksum(data))

    # Names of components may be any text, so files are numbered.
    tasks = {task: written(f"task-{i:05}.state", data) for i, (task, data) in enumerate(checkpoint.states.items())}
    manifest = Manifest(
        serial=serial,
        epoch=checkpoint.epoch,
        identity=checkpoint.identity,
        parallelism=checkpoint.parallelism,
        tasks=tasks,
        driver=written("driver.state", checkpoint.driver),
        sinks=checkpoint.sinks,
    )
    store.write(f"{folder}/{MANIFEST}", pack_manifest(manifest))
    _prune(store, serial, keep)
    return manifest


def _prune(store: Store, newest: int, keep: int) -> None:
    """Remove what is too old, and what was begun before and has no manifest."""
    older = sorted((s for f in store.folders() if (s := serial_of(f)) is not None and s < newest), reverse=True)
    kept = 1
    for serial in older:
        if kept < keep and _has_manifest(store, serial):
            kept += 1
        else:
            store.remove(folder_name(serial))


def _has_manifest(store: Store, serial: int) -> bool:
    try:
        unpack_manifest(store.read(f"{folder_name(serial)}/{MANIFEST}", MAX_MANIFEST_BYTES))
    except InputError:
        return False
    return True


def load_newest(store: Store) -> Saved:
    """Return the newest checkpoint that is whole; one that is not is passed over with a warning that says why."""
    serials = sorted((s for f in store.folders() if (s := serial_of(f)) is not None), reverse=True)
    if not serials:
        raise StoreError(f"{store.url}: there are no checkpoints here; name the folder that topology.checkpoint names")
    for serial in serials:
        try:
            return _load(store, serial)
        except InputError as error:
            log.warning("checkpoint_passed_over", checkpoint=f"{store.url}/{folder_name(serial)}", reason=str(error))
    raise StoreError(
        f"{store.url}: none of the {len(serials)} checkpoints here is whole (the log says why); start afresh"
    )


def _load(store: Store, serial: int) -> Saved:
    folder = folder_name(serial)
    try:
        manifest = unpack_manifest(store.read(f"{folder}/{MANIFEST}", MAX_MANIFEST_BYTES))
    except StoreError:
        raise
    except InputError as error:
        raise InputError(f"{MANIFEST} {error}") from error
    states = {task: _state(store, folder, file) for task, file in manifest.tasks.items()}
    return Saved(manifest, states, _state(store, folder, manifest.driver))


def _state(store: Store, folder: str, file: SavedFile) -> dict[str, Any]:
    data = store.read(f"{folder}/{file.name}", MAX_FILE_BYTES)
    if len(data) != file.size:
        raise InputError(f"{file.name} has {len(data)} bytes, expected {file.size}: it is torn")
    if checksum(data) != file.checksum:
        raise InputError(f"{file.name} is damaged: its checksum differs")
    try:
        state: dict[str, Any] = unpack_state(data)
    except CodecError as error:
        raise InputError(f"{file.name}: {error}") from error
    return state
