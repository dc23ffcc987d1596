"""Messages, reports and grants as frames, and back."""

from dataclasses import dataclass
from typing import Any

from streams.codec import Buffers, decode, encode
from topology.messages import Message, Report
from topology.ray_runtime.transport import Frame

__all__ = ["DATA", "DRIVER", "FAILED", "GRANT", "REPORT", "Grant"]

#: Kinds of frame.
DATA, REPORT, GRANT, FAILED = range(4)

#: The number under which the driver is known; tasks have smaller ones.
DRIVER = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Grant:
    """What the driver tells a spout: how far it may go, which epoch is the final one, which epochs are complete."""

    limit: int
    final: int | None
    acked: int


def pack_message(message: Message) -> Buffers:
    """Return the body of a data frame; source, target, lag and epoch travel in the frame's header."""
    return encode(message.parts, [message.watermark, message.final])


def unpack_message(frame: Frame, target: int) -> Message:
    """Return the message of a data frame."""
    (watermark, final), parts = decode(frame.body)
    return Message(frame.source, target, frame.lag, frame.epoch, watermark, final, parts)  # type: ignore[arg-type]


def pack_report(report: Report) -> Buffers:
    """Return the body of a report."""
    batches = [("output", output) for output in report.outputs if not isinstance(output, bytes)]
    order = [None if isinstance(output, bytes) else 0 for output in report.outputs]
    texts = [output for output in report.outputs if isinstance(output, bytes)]
    return encode(batches, [dict(report.counts), report.exhausted, report.feedback, order, texts])


def unpack_report(frame: Frame) -> Report:
    """Return the report of a frame."""
    (counts, exhausted, feedback, order, texts), batches = decode(frame.body)
    next_batch, next_text = iter(batches), iter(texts)
    outputs: list[Any] = [next(next_text) if place is None else next(next_batch)[1] for place in order]
    return Report(frame.source, frame.epoch, counts, exhausted, feedback, outputs)


def pack_plain(values: Any) -> Buffers:
    """Return the body of a frame without batches."""
    return encode([], values)


def unpack_plain(frame: Frame) -> Any:
    """Return what `pack_plain` was given."""
    return decode(frame.body)[0]
