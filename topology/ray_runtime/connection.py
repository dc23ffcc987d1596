"""One connection of a process with another: bytes to frames, frames to bytes, never waiting for the other side."""

import socket
import struct
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from streams.codec import Buffers

__all__ = ["Frame", "Lost", "Receiver", "Sender", "frame_head"]

_HEADER = struct.Struct("<QIIBBq")
_MAX_BUFFERS = 512
_READ_BYTES = 1 << 16
_JOIN_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Frame:
    """One message as it comes off a socket: from whom, for whom, of what kind, for which epoch, and its encoded body."""

    source: int
    target: int
    kind: int
    lag: int
    epoch: int
    body: memoryview


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection with a process ended."""

    peer: int
    reason: str


def frame_head(size: int, source: int, target: int, kind: int, lag: int, epoch: int) -> bytes:
    """Return the header of a frame whose body has so many bytes."""
    return _HEADER.pack(size, source, target, kind, lag, epoch)


class Sender:
    """The sending end, and what its socket has not taken yet.

    Attributes:
        held: how many bytes were put since the last push.
        since: when the first of them was put.
        blocked: the socket takes no more for now.
    """

    __slots__ = ("blocked", "connection", "held", "peer", "since", "waiting")

    def __init__(self, peer: int, connection: socket.socket) -> None:
        self.peer = peer
        self.connection = connection
        self.waiting: deque[bytes | memoryview] = deque()
        self.blocked = False
        self.held = 0
        self.since = 0.0

    def put(self, head: bytes, body: Buffers, size: int) -> None:
        """Queue a frame; a small one as one piece."""
        if size < _JOIN_BYTES:
            self.waiting.append(b"".join((head, *body)))
        else:
            self.waiting.append(head)
            self.waiting.extend(buffer for buffer in body if len(buffer))
        self.held += size + len(head)

    def push(self) -> bool:
        """Send as much as the socket takes; return whether that was all."""
        self.held = 0
        waiting = self.waiting
        while waiting:
            try:
                if len(waiting) == 1:
                    sent = self.connection.send(waiting[0])
                else:
                    sent = self.connection.sendmsg([waiting[i] for i in range(min(len(waiting), _MAX_BUFFERS))])
            except BlockingIOError:
                return False
            while waiting and sent >= len(waiting[0]):
                sent -= len(waiting.popleft())
            if sent:
                waiting[0] = memoryview(waiting[0])[sent:]
        return True


class Receiver:
    """The receiving end: bytes in, frames out.

    Small frames are copied out of one buffer that is read into again and again; a body that does not fit into what has
    come so far is read straight into memory of its own.

    Attributes:
        peer: who is at the other end; None until it has said so.
    """

    __slots__ = ("_begin", "_body", "_buffer", "_end", "_filled", "_head", "_limit", "connection", "peer", "since")

    def __init__(self, connection: socket.socket, limit: int, since: float) -> None:
        self.connection = connection
        self.since = since
        self.peer: int | None = None
        self._limit = limit
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._begin = self._end = 0  # what is in the buffer and was not made a frame of yet
        self._head: tuple[int, int, int, int, int, int] | None = None
        self._body: memoryview | None = None
        self._filled = 0

    def read(self) -> None:
        """Take what the socket has; raise when it has ended."""
        with suppress(BlockingIOError):
            if self._body is not None:
                got = self.connection.recv_into(self._body[self._filled :])
                self._filled += got
            else:
                got = self.connection.recv_into(self._buffer[self._end :])
                self._end += got
            if not got:
                raise ConnectionError("the connection was closed")

    def peel(self, size: int) -> memoryview | None:
        """Take so many bytes off the front, to be looked at before the next `read`; None while they are not here."""
        if self._end - self._begin < size:
            rest = bytes(self._buffer[self._begin : self._end])
            self._buffer[: len(rest)] = rest  # a beginning, shorter than a greeting or a header: room for what follows
            self._begin, self._end = 0, len(rest)
            return None
        self._begin += size
        return self._buffer[self._begin - size : self._begin]

    def frames(self, arrived: list[Frame | Lost]) -> None:
        """Append all frames that are complete."""
        while True:
            if self._head is None:
                front = self.peel(_HEADER.size)
                if front is None:
                    return
                self._head = _HEADER.unpack(front)
                if self._head[0] > self._limit:
                    raise ConnectionError(f"announced a frame of {self._head[0]} bytes; the limit is {self._limit}")
            size, source, target, kind, lag, epoch = self._head
            if self._body is None:
                here = min(size, self._end - self._begin)
                room: Any = np.empty(size, np.uint8)  # not a bytearray, whose zeros would be written over
                self._body, self._filled = memoryview(room), here
                self._body[:here] = self._buffer[self._begin : self._begin + here]
                self._begin += here
            if self._filled < size:
                return
            arrived.append(Frame(source, target, kind, lag, epoch, self._body))
            self._head = self._body = None
