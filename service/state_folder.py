"""The folder of a service: all that must outlast a process.

    lock           held by the service
    topology.json  the topology that is served
    plan           the plan that its routers follow at first
    journal/       what was accepted, in order; the engine follows it
    results/       what was found, in order; subscribers follow it
    checkpoints/   states of the engine, from which it goes on
    rehearsal/     made-up records and what came of them, until the engine has compiled what it needs
    service.state  what the service itself knew at some place of the journal, so that this need not be read from its start

Nothing of the journal is deleted that the oldest kept checkpoint, or `service.state`, still needs.
"""

import contextlib
import dataclasses
import json
import os
import secrets
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from streams.codec import unpack_plain
from streams.errors import DeclarationError, InputError
from streams.segment_log import LogReader, first_position, held_lock
from topology.checkpoints.identity import check_identity, identity_of, parallelism_of
from topology.checkpoints.manifest import MANIFEST, MAX_MANIFEST_BYTES, Manifest, unpack_manifest
from topology.checkpoints.store import Store, StoreError, open_store
from topology.declaration import Topology
from topology.live import live_topology
from topology.plan_request import is_automatic, needs_plan
from topology.toml import dump_topology, parse_topology

__all__ = ["Reach", "StateFolder"]

_TOPOLOGY = "topology.json"
_KNOWN = "service.state"
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class Reach:
    """How far back checkpoints need the journal and the log of results."""

    journal: int
    results: int


class StateFolder:
    """Names of files, and what is in the small ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal, self.results = path / "journal", path / "results"
        self.checkpoints, self.plan = path / "checkpoints", path / "plan.bin"
        self.rehearsal = path / "rehearsal"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other services out of the folder; raise where one is there, and stays."""
        self._make()
        with held_lock(self.path / _LOCK):
            yield

    def _make(self) -> None:
        try:
            for folder in (self.path, self.journal, self.results, self.checkpoints):
                folder.mkdir(parents=True, exist_ok=True)
            os.chmod(self.path, 0o700)  # what is in it is what users have sent
        except OSError as error:
            raise InputError(
                f"{self.path}: {error.strerror}; name a folder that can be written with --state"
            ) from error

    def prepare(self, declared: Topology) -> None:
        """Make the folder, or check that it is one of this topology; remember the topology for the engine."""
        self._make()
        self._check(declared)
        base = str((declared.base or Path()).absolute())
        text = json.dumps({"base": base, "topology": dump_topology(declared)})
        _replace(self.path / _TOPOLOGY, text.encode())

    def _check(self, declared: Topology) -> None:
        """Raise where what is here is of another topology: its states and its journal would be read for what they are not."""
        live = self.planned(self.live(declared))
        manifests = self._manifests(live)
        try:
            if manifests:
                newest = max(manifests, key=lambda manifest: manifest.serial)
                check_identity(live, newest.identity, newest.parallelism, str(self.path))
            elif LogReader(self.journal, first_position(self.journal)).read(1) and (self.path / _TOPOLOGY).exists():
                before = self.planned(self.live(self.declared()))
                check_identity(live, identity_of(before), parallelism_of(before), str(self.path))
            else:
                self.plan.unlink(missing_ok=True)  # nothing depends on it yet, and it may be of another topology
        except DeclarationError as error:
            raise InputError(f"{error}; name another folder with --state for that") from None

    def planned(self, live: Topology) -> Topology:
        """Return a topology with the plan of the folder, where it needs one of its own."""
        if not (needs_plan(live) and is_automatic(live)):
            return live
        return dataclasses.replace(live, settings=dataclasses.replace(live.settings, plan=str(self.plan.absolute())))

    def declared(self) -> Topology:
        """Return the topology as it was declared."""
        found = json.loads((self.path / _TOPOLOGY).read_bytes())
        return parse_topology(found["topology"], base=Path(found["base"]), check=False)

    def live(self, declared: Topology) -> Topology:
        """Return the topology that the engine runs; its plan may still be missing."""
        return live_topology(declared, self.journal.absolute(), self.results.absolute(), self.checkpoints.absolute())

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def reach(self, live: Topology) -> Reach | None:
        """Return how far back the kept checkpoints reach; None where there is none."""
        found = [_reach_of(manifest) for manifest in self._manifests(live)]
        if not found:
            return None
        return Reach(min(one.journal for one in found), min(one.results for one in found))

    def _manifests(self, live: Topology) -> list[Manifest]:
        assert live.settings.checkpoint is not None
        store = open_store(live.settings.checkpoint.directory, live.base)
        return [known for folder in store.folders() if (known := _manifest_of(store, folder)) is not None]

    # --- what the service knew -------------------------------------------------------------------------------------

    def save(self, known: Any) -> None:
        """Write what the service knows, whole or not at all."""
        body = msgpack.packb(known)
        _replace(self.path / _KNOWN, zlib.crc32(body).to_bytes(4, "little") + body)

    def saved(self) -> Any:
        """Return what was written last; None where nothing was."""
        try:
            data = (self.path / _KNOWN).read_bytes()
        except FileNotFoundError:
            return None
        if len(data) < 4 or zlib.crc32(data[4:]) != int.from_bytes(data[:4], "little"):
            raise InputError(
                f"{self.path / _KNOWN} is damaged; bring it back from a copy, or start with an empty folder"
            )
        return unpack_plain(data[4:])


def _manifest_of(store: Store, folder: str) -> Manifest | None:
    try:
        return unpack_manifest(store.read(f"{folder}/{MANIFEST}", MAX_MANIFEST_BYTES))
    except (StoreError, InputError):
        return None  # not written to its end, or going


def _reach_of(manifest: Manifest) -> Reach:
    journal = [sink["position"] for task, sink in manifest.sinks.items() if task.startswith("live")]
    results = [sink["position"] for task, sink in manifest.sinks.items() if not task.startswith("live")]
    return Reach(min(journal, default=0), min(results, default=0))


def _replace(path: Path, data: bytes) -> None:
    """Write a file under another name, durably, and give it its own then."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
