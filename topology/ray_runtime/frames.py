"""Messages, reports and grants as frames, and back."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

import msgpack

from streams.codec import Buffers, decode, encode, size_of
from streams.errors import CodecError, DeclarationError, InputError, RunError, TaskFailedError, WaterspoutError
from streams.state import PackedState, Part, pack_part, unpack_state
from topology.checkpoints.manifest import SavedFile
from topology.checkpoints.saved_state import StateFile
from topology.failure import speaks_for_itself, task_failure
from topology.messages import Message, Report
from topology.ray_runtime.state_writer import Written
from topology.ray_runtime.transport import Frame

__all__ = [
    "DATA",
    "DRIVER",
    "FAILED",
    "GRANT",
    "LOST",
    "MARK",
    "MARKED",
    "PRINTED",
    "REPORT",
    "SAVED",
    "WRITTEN",
    "Grant",
]

#: Kinds of frame. `LOST`: a worker has lost another one. `MARK` names the epoch of a checkpoint, which a
#: worker confirms with `MARKED`; `SAVED` brings the state of a task after that epoch, `WRITTEN` the name of the file with it.
#: `PRINTED` brings what operators have printed.
DATA, REPORT, GRANT, FAILED, LOST, MARK, MARKED, SAVED, WRITTEN, PRINTED = range(10)

#: The number under which the driver is known; workers and tasks have smaller ones.
DRIVER = 2**32 - 1

_HEAD_SIZE = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Grant:
    """What the driver sends a worker's spouts: how far they may go, which epoch is the final one, how many are complete.

    From the epoch `dry` on they emit nothing any more. `saved` is the epoch of the newest checkpoint.
    """

    limit: int
    final: int | None
    acked: int
    dry: int | None = None
    saved: int | None = None


#: What became of a task: the name of an error, and its text (for an operator's own, the traceback).
Failure = tuple[str, str]
OPERATOR = ""


def describe_failure(task: str, epoch: int, error: BaseException) -> Failure:
    """Return what to send the driver of an exception."""
    if speaks_for_itself(error):
        return type(error).__name__, str(error)
    return OPERATOR, task_failure(task, epoch, error).details


def failure_error(task: str, epoch: int, failure: Failure) -> WaterspoutError:
    """Return the error that a failure ends the run with."""
    name, text = failure
    if name == OPERATOR:
        return TaskFailedError(task, epoch, text)
    named = {cls.__name__: cls for cls in (InputError, DeclarationError, CodecError)}
    return named.get(name, RunError)(text)


def pack_message(message: Message) -> Buffers:
    """Return the body of a data frame; source, target, lag and epoch travel in the frame's header."""
    return encode(message.parts, [message.watermark, message.final])


def unpack_message(frame: Frame) -> Message:
    """Return the message of a data frame."""
    (watermark, final), parts = decode(frame.body)
    return Message(frame.source, frame.target, frame.lag, frame.epoch, watermark, final, parts)  # type: ignore[arg-type]


def pack_reports(reports: Sequence[Report], limit: int) -> list[Buffers]:
    """Return the body of a frame with reports of several tasks and epochs, or several where one would be too large."""
    body = _report_body(reports)
    if len(reports) == 1 or size_of(body) <= limit:
        return [body]
    half = len(reports) // 2
    return pack_reports(reports[:half], limit) + pack_reports(reports[half:], limit)


def _report_body(reports: Sequence[Report]) -> Buffers:
    parts: list[Any] = []
    heads = []
    for number, report in enumerate(reports):
        texts = []
        for place, output in enumerate(report.outputs):
            if isinstance(output, bytes):
                texts.append([place, output])
            else:
                parts.append((number, output))
        events = list(report.events)
        heads.append([report.task, report.epoch, report.counts, report.exhausted, report.feedback, texts, events])
    return encode(parts, heads)


def unpack_reports(frame: Frame) -> list[Report]:
    """Return the reports of a frame, their outputs in the order in which they were handed over."""
    heads, parts = decode(frame.body)
    outputs: list[list[Any]] = [[] for _ in heads]
    for number, batch in parts:
        outputs[number].append(batch)  # type: ignore[index]  # labels of reports are numbers
    reports = []
    for handed, (task, epoch, counts, exhausted, feedback, texts, events) in zip(outputs, heads, strict=True):
        for place, text in texts:
            handed.insert(place, text)
        reports.append(Report(task, epoch, counts, exhausted, feedback, handed, events))
    return reports


def pack_grant(grant: Grant) -> Buffers:
    """Return the body of a frame with a grant."""
    return encode([], [grant.limit, grant.final, grant.acked, grant.dry, grant.saved])


def unpack_grant(frame: Frame) -> Grant:
    """Return the grant of a frame."""
    return Grant(*decode(frame.body)[0])


def pack_plain(values: Any) -> Buffers:
    """Return the body of a frame without batches."""
    return encode([], values)


def unpack_plain(frame: Frame) -> Any:
    """Return what `pack_plain` was given."""
    return decode(frame.body)[0]


def pack_saved(task: int, packed: PackedState, positions: Mapping[str, int]) -> Buffers:
    """Return the body of a frame with the packed state of a task, and all its parts."""
    parts = [(key, pack_part(part)) for key, part in packed.parts.items()]
    sizes = [[key, size_of(pieces)] for key, pieces in parts]
    head: bytes = msgpack.packb([task, dict(positions), packed.size, sizes])
    return [_HEAD_SIZE.pack(len(head)), head, *packed.pieces, *(piece for _, pieces in parts for piece in pieces)]


def unpack_saved(frame: Frame) -> tuple[int, PackedState, dict[str, int]]:
    """Return the task, its packed state where it lies in the frame, and how far a sink's file is written."""
    body = memoryview(frame.body)
    try:
        (size,) = _HEAD_SIZE.unpack_from(body)
        end = _HEAD_SIZE.size + size
        task, positions, length, sizes = msgpack.unpackb(body[_HEAD_SIZE.size : end])
        place = end + length
        parts = {}
        for key, part_size in sizes:
            parts[key] = Part(key, partial(unpack_state, body[place : place + part_size]))
            place += part_size
        if place != len(body):
            raise CodecError(f"a frame with a state of {len(body)} bytes, expected {place}")
        return int(task), PackedState([body[end : end + length]], parts), dict(positions)
    except (struct.error, ValueError, TypeError, msgpack.UnpackException) as error:
        raise CodecError(f"a frame with a state that cannot be read: {error}") from error


def pack_written(written: Written) -> Buffers:
    """Return the body of a frame that says which file a state is in."""
    state = None
    if written.state is not None:
        parts = {key: astuple(file) for key, file in written.state.parts.items()}
        state = [astuple(written.state.file), parts, written.state.written]
    return pack_plain([written.task, dict(written.positions), state, written.failure])


def unpack_written(frame: Frame) -> Written:
    """Return what a worker has written."""
    task, positions, state, failure = unpack_plain(frame)
    if state is None:
        return Written(task, frame.epoch, positions, None, failure)
    file, parts, size = state
    found = StateFile(SavedFile(*file), {key: SavedFile(*part) for key, part in parts.items()}, size)
    return Written(task, frame.epoch, positions, found)
