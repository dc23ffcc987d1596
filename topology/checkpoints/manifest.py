"""The manifest of a checkpoint: the file that makes it count.

It is written last, and names every file with its size and checksum, so that what is missing, torn or changed is found. It is
JSON, for a person to read, behind a checksum of its own; the states themselves are packed by `streams.state`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from streams.errors import InputError

__all__ = [
    "FORMAT_VERSION", "MANIFEST", "MAX_FILE_BYTES", "MAX_MANIFEST_BYTES", "PARTS", "Manifest", "SavedFile", "checksum",
    "folder_name", "pack_manifest", "serial_of", "unpack_manifest",
]  # fmt: skip

FORMAT_VERSION = 4
MANIFEST = "manifest.json"
#: The folder of the parts that several checkpoints share.
PARTS = "parts"

#: The largest file of a checkpoint, where `topology.limits.state_bytes` does not say: a state, a part, what the driver knows.
MAX_FILE_BYTES = 1 << 40
MAX_MANIFEST_BYTES = 1 << 26
_SERIAL_DIGITS = 9


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file of a checkpoint."""

    name: str
    size: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint is of.

    Attributes:
        serial: counts the checkpoints of a store, over all runs; the largest is the newest.
        epoch: the last epoch that is in it; -1 for the start of a run.
        identity: what of the topology must be the same for a run to go on from here.
        parallelism: how many tasks each component had.
        tasks: the file of each task, by the task's name.
        driver: the file with what the driver knew: counters, collected results, the plan.
        sinks: how far the files of sinks were written, for a person to read.
        parts: the file of each part that the states refer to, by the part's key; these are in `PARTS`.
    """

    serial: int
    epoch: int
    identity: Mapping[str, Any]
    parallelism: Mapping[str, int]
    tasks: Mapping[str, SavedFile]
    driver: SavedFile
    sinks: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, SavedFile] = field(default_factory=dict)


def folder_name(serial: int) -> str:
    """Return the folder of a checkpoint."""
    return f"{serial:0{_SERIAL_DIGITS}}"


def serial_of(folder: str) -> int | None:
    """Return the number of a checkpoint's folder; None for a folder that is none of ours."""
    return int(folder) if len(folder) >= _SERIAL_DIGITS and folder.isascii() and folder.isdigit() else None


def checksum(data: bytes | memoryview) -> str:
    """Return the SHA-256 checksum of a file: with the instructions that processors have for it, the cheapest of its kind."""
    return hashlib.sha256(data).hexdigest()


def _canonical(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogatepass")


def pack_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as the bytes of its file."""
    body = asdict(manifest)
    whole = {"format": FORMAT_VERSION, "checksum": checksum(_canonical(body)), "checkpoint": body}
    packed = json.dumps(whole, indent=1, sort_keys=True).encode()
    if len(packed) > MAX_MANIFEST_BYTES:
        raise InputError(f"a manifest of {len(packed):,} bytes is more than {MAX_MANIFEST_BYTES:,}")
    return packed


def unpack_manifest(data: bytes) -> Manifest:
    """Return the manifest of a file; raise `InputError` that says what is wrong with anything else."""
    try:
        whole = json.loads(data)
        if whole["format"] != FORMAT_VERSION:
            raise InputError(
                f"has format {whole['format']}, expected {FORMAT_VERSION}; use the release that wrote it, or start afresh"
            )
        body = whole["checkpoint"]
        if whole["checksum"] != checksum(_canonical(body)):
            raise InputError("is damaged: its checksum differs")
        tasks, parts = (
            {name: SavedFile(**entry) for name, entry in body.pop(kind).items()} for kind in ("tasks", "parts")
        )
        return Manifest(**body | {"driver": SavedFile(**body["driver"])}, tasks=tasks, parts=parts)
    except InputError:
        raise
    except Exception as error:  # whatever a file of another make trips over: it is one and the same fault
        raise InputError(f"is no manifest of ours: {type(error).__name__}: {error}") from error
