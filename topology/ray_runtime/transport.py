"""Frames between processes: one listener each, one connection for each pair, one reading thread for each connection.

A connection starts with a token that only the processes of this run know, and the run's generation; anything else is
closed unread. Readers always drain: back-pressure is the window of pending epochs alone, so tasks that send to each
other cannot block each other.
"""

import hmac
import queue
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from streams.codec import Buffers, size_of

__all__ = ["TOKEN_BYTES", "Endpoint", "Frame", "Lost"]

TOKEN_BYTES = 32
HANDSHAKE_SECONDS = 10.0
_HELLO = struct.Struct(f"<4s{TOKEN_BYTES}sII")
_MAGIC = b"WSP1"
_HEADER = struct.Struct("<QIBBq")
_MAX_BUFFERS = 512

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """One message as it comes off a socket: from which task, of what kind, for which epoch, and its encoded body."""

    source: int
    kind: int
    lag: int
    epoch: int
    body: bytearray


@dataclass(frozen=True, slots=True)
class Lost:
    """A connection ended."""

    source: int
    reason: str


class Endpoint:
    """A listener and the connections of one process, for one generation of a run.

    Everything that arrives is put into `inbox`. A reader belongs to the endpoint that accepted its connection, so one
    of an old generation can never reach a new inbox.
    """

    def __init__(self, host: str, token: bytes, generation: int, max_frame_bytes: int, me: int) -> None:
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._token, self._generation, self._max, self._me = token, generation, max_frame_bytes, me
        self._out: dict[int, socket.socket] = {}
        self._in: list[socket.socket] = []
        self._closed = False
        self._lock = threading.Lock()
        self._listener = socket.create_server((host, 0), backlog=512)
        self.address: Address = self._listener.getsockname()[:2]
        threading.Thread(target=self._accept, daemon=True, name="accept").start()

    # --- reading ---------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(connection,), daemon=True, name="read").start()

    def _read(self, connection: socket.socket) -> None:
        source = self._greet(connection)
        if source is None:
            connection.close()
            return
        with self._lock:
            if self._closed:
                connection.close()
                return
            self._in.append(connection)
        try:
            while True:
                size, sender, kind, lag, epoch = _HEADER.unpack(_exactly(connection, _HEADER.size))
                if size > self._max:
                    self.inbox.put(Lost(source, f"sent a frame of {size} bytes; the limit is {self._max}"))
                    return
                self.inbox.put(Frame(sender, kind, lag, epoch, _exactly(connection, size)))
        except OSError as error:
            if not self._closed:
                self.inbox.put(Lost(source, str(error) or type(error).__name__))
        finally:
            connection.close()

    def _greet(self, connection: socket.socket) -> int | None:
        """Return who is calling, or None for one that does not know the token or is of another generation."""
        try:
            connection.settimeout(HANDSHAKE_SECONDS)
            magic, token, generation, source = _HELLO.unpack(_exactly(connection, _HELLO.size))
            connection.settimeout(None)
        except (OSError, struct.error):
            return None
        known = hmac.compare_digest(token, self._token)
        return source if known and magic == _MAGIC and generation == self._generation else None

    # --- sending ---------------------------------------------------------------------------------------------------

    def connect(self, addresses: dict[int, Address], seconds: float = 30.0) -> None:
        """Open connections to other tasks, by their number."""
        for target, address in addresses.items():
            connection = socket.create_connection(address, timeout=seconds)
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(_HELLO.pack(_MAGIC, self._token, self._generation, self._me))
            self._out[target] = connection

    def send(self, target: int, kind: int, lag: int, epoch: int, body: Buffers) -> int:
        """Send one frame and return its size; blocks while the receiver's socket is full."""
        size = size_of(body)
        if size > self._max:
            raise OSError(
                f"a message of {size} bytes is larger than topology.limits.frame_bytes = {self._max}; "
                "use smaller epochs (topology.epoch.objects, .queries) or raise the limit"
            )
        _send_all(self._out[target], [_HEADER.pack(size, self._me, kind, lag, epoch), *body])
        return size

    def close(self) -> None:
        """End all connections; a thread that is blocked in one is freed."""
        with self._lock:
            self._closed = True
            sockets = [*self._out.values(), *self._in]
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


def _exactly(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        got = connection.recv_into(view)
        if not got:
            raise ConnectionError("the connection was closed")
        view = view[got:]
    return data


def _send_all(connection: socket.socket, buffers: Sequence[bytes | memoryview]) -> None:
    """Send buffers without joining them first."""
    views = [memoryview(buffer) for buffer in buffers if len(buffer)]
    first = 0
    while first < len(views):
        sent = connection.sendmsg(views[first : first + _MAX_BUFFERS])
        while first < len(views) and sent >= len(views[first]):
            sent -= len(views[first])
            first += 1
        if sent:
            views[first] = views[first][sent:]
