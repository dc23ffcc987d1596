"""Frames between processes: one listener each, one connection for each pair, one thread for all of them.

A connection starts with a token that only the processes of this run know, and the run's generation; anything else is
closed. Nothing here blocks on a peer: what a socket does not take at once waits in a queue while reading goes on, so tasks
that send to each other cannot block each other. The queues are bounded by the window of pending epochs.
"""

import hmac
import selectors
import socket
import struct
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from streams.codec import Buffers, size_of

__all__ = ["TOKEN_BYTES", "Address", "Endpoint", "Frame", "Lost"]

TOKEN_BYTES = 32
HANDSHAKE_SECONDS = 10.0
MAX_STRANGERS = 256
_HELLO = struct.Struct(f"<4s{TOKEN_BYTES}sII")
_MAGIC = b"WSP1"
_HEADER = struct.Struct("<QIBBq")
_MAX_BUFFERS = 512
_READ_BYTES = 1 << 16
_JOIN_BYTES = 1 << 16
_HELD_BYTES = 1 << 16

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """One message as it comes off a socket: from which task, of what kind, for which epoch, and its encoded body."""

    source: int
    kind: int
    lag: int
    epoch: int
    body: bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Lost:
    """A connection ended."""

    source: int
    reason: str


class Endpoint:
    """A listener and the connections of one process, for one generation of a run.

    One thread calls `poll` and `send`; others may only `wake` it. A new generation gets a new endpoint, so what a
    connection of an old one still holds can reach nobody.
    """

    def __init__(self, host: str, token: bytes, generation: int, max_frame_bytes: int, me: int) -> None:
        self.me = me
        self.max_frame_bytes = max_frame_bytes
        self.hello = _HELLO.pack(_MAGIC, token, generation, me)
        self._token, self._generation = token, generation
        self._out: dict[int, _Sender] = {}
        self._in: dict[socket.socket, _Receiver] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server((host, 0), backlog=512)
        self._listener.setblocking(False)
        self.address: Address = self._listener.getsockname()[:2]
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_in, selectors.EVENT_READ)

    # --- reading ---------------------------------------------------------------------------------------------------

    def poll(self, seconds: float | None = None) -> list[Frame | Lost]:
        """Send what is held back, then wait for something to happen, at most so long; return what has arrived."""
        arrived: list[Frame | Lost] = []
        self._push_held(arrived)
        if arrived:
            return arrived
        for key, events in self._selector.select(seconds):
            connection = key.fileobj
            if connection is self._listener:
                self._accept()
            elif connection is self._wake_in:
                with suppress(BlockingIOError):
                    self._wake_in.recv(4096)
            elif isinstance(key.data, _Receiver):
                self._read(key.data, arrived)
            else:
                self._serve(key.data, events, arrived)
        return arrived

    def wake(self) -> None:
        """Make a `poll` in another thread return."""
        with suppress(OSError):
            self._wake_out.send(b"\0")

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._turn_strangers_away()
            receiver = self._in[connection] = _Receiver(connection, self.max_frame_bytes, time.monotonic())
            self._selector.register(connection, selectors.EVENT_READ, receiver)

    def _turn_strangers_away(self) -> None:
        """Close those who have not said who they are for too long, and everybody unknown when there are too many."""
        strangers = [receiver for receiver in self._in.values() if receiver.source is None]
        latest = time.monotonic() - (HANDSHAKE_SECONDS if len(strangers) < MAX_STRANGERS else 0)
        for receiver in strangers:
            if receiver.since <= latest:
                self._drop(receiver)

    def _drop(self, receiver: "_Receiver") -> None:
        self._in.pop(receiver.connection, None)
        with suppress(KeyError, ValueError):
            self._selector.unregister(receiver.connection)
        receiver.connection.close()

    def _read(self, receiver: "_Receiver", arrived: list[Frame | Lost]) -> None:
        try:
            receiver.read()
            if receiver.source is None and not self._greet(receiver):
                return
            receiver.frames(arrived)
        except OSError as error:
            if receiver.source is not None:
                arrived.append(Lost(receiver.source, str(error) or type(error).__name__))
            self._drop(receiver)

    def _greet(self, receiver: "_Receiver") -> bool:
        """Learn who is calling; raise for one that does not know the token or is of another generation."""
        hello = receiver.peel(_HELLO.size)
        if hello is None:
            return False
        magic, token, generation, source = _HELLO.unpack(hello)
        if not hmac.compare_digest(token, self._token) or magic != _MAGIC or generation != self._generation:
            raise ConnectionError("a caller without the token of this run")
        receiver.source = source
        return True

    # --- sending ---------------------------------------------------------------------------------------------------

    def connect(self, addresses: dict[int, Address], seconds: float = 30.0) -> None:
        """Open connections to other tasks, by their number."""
        for target, address in addresses.items():
            connection = socket.create_connection(address, timeout=seconds)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(self.hello)
            connection.setblocking(False)
            sender = _Sender(target, connection)
            self._out[target] = sender
            self._selector.register(connection, selectors.EVENT_READ, sender)

    def send(self, target: int, kind: int, lag: int, epoch: int, body: Buffers) -> int:
        """Send one frame, or queue what the socket does not take yet; return its size.

        Small frames are held back until the next `poll`, so that a task which has several epochs to work on sends their
        messages together: a system call and a wake-up for many of them.
        """
        size = size_of(body)
        if size > self.max_frame_bytes:
            raise OSError(
                f"a message of {size} bytes is larger than topology.limits.frame_bytes = {self.max_frame_bytes}; "
                "use smaller epochs (topology.epoch.objects, .queries) or raise the limit"
            )
        sender = self._out[target]
        buffers: Buffers = [_HEADER.pack(size, self.me, kind, lag, epoch), *body]
        sender.waiting.extend([b"".join(buffers)] if size < _JOIN_BYTES else [b for b in buffers if len(b)])
        sender.held += size
        if sender.held >= _HELD_BYTES:
            self._push(sender)
        return size

    def _push_held(self, arrived: list[Frame | Lost]) -> None:
        for sender in self._out.values():
            if sender.held:
                try:
                    self._push(sender)
                except OSError as error:
                    self._give_up(sender, error, arrived)

    def _push(self, sender: "_Sender") -> None:
        sender.held = 0
        blocked = not sender.push()
        if blocked != sender.blocked:
            sender.blocked = blocked
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if blocked else 0)
            self._selector.modify(sender.connection, wanted, sender)

    def _serve(self, sender: "_Sender", events: int, arrived: list[Frame | Lost]) -> None:
        """Send on where a socket takes more; receivers never answer, so something to read is the end of a connection."""
        try:
            if events & selectors.EVENT_READ and not sender.connection.recv(1):
                raise ConnectionError("the connection was closed")
            if events & selectors.EVENT_WRITE:
                self._push(sender)
        except BlockingIOError:
            pass
        except OSError as error:
            self._give_up(sender, error, arrived)

    def _give_up(self, sender: "_Sender", error: OSError, arrived: list[Frame | Lost]) -> None:
        arrived.append(Lost(sender.target, str(error) or type(error).__name__))
        sender.waiting.clear()
        with suppress(KeyError, ValueError):
            self._selector.unregister(sender.connection)

    def flush(self, seconds: float) -> None:
        """Wait until everything queued is with the kernel."""
        deadline = time.monotonic() + seconds
        while any(sender.waiting for sender in self._out.values()) and time.monotonic() < deadline:
            self.poll(0.05)

    def close(self) -> None:
        """End all connections."""
        for connection in [*(s.connection for s in self._out.values()), *self._in, self._listener]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()


class _Sender:
    """One connection to a task, and what it has not taken yet."""

    __slots__ = ("blocked", "connection", "held", "target", "waiting")

    def __init__(self, target: int, connection: socket.socket) -> None:
        self.target = target
        self.connection = connection
        self.waiting: deque[bytes | memoryview] = deque()
        self.blocked = False
        self.held = 0

    def push(self) -> bool:
        """Send as much as the socket takes; return whether that was all."""
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


class _Receiver:
    """One connection from a task: bytes in, frames out. A large body is read straight into its own buffer."""

    __slots__ = ("_body", "_filled", "_head", "_limit", "_small", "connection", "since", "source")

    def __init__(self, connection: socket.socket, limit: int, since: float) -> None:
        self.connection = connection
        self.since = since
        self.source: int | None = None
        self._limit = limit
        self._small = bytearray()
        self._head: tuple[int, int, int, int, int] | None = None
        self._body: bytearray | None = None
        self._filled = 0

    def read(self) -> None:
        """Take what the socket has; raise when it has ended."""
        with suppress(BlockingIOError):
            if self._body is not None:
                got = self.connection.recv_into(memoryview(self._body)[self._filled :])
                self._filled += got
            else:
                chunk = self.connection.recv(_READ_BYTES)
                got = len(chunk)
                self._small += chunk
            if not got:
                raise ConnectionError("the connection was closed")

    def peel(self, size: int) -> bytes | None:
        """Take so many bytes off the front, or None while they are not here."""
        if len(self._small) < size:
            return None
        front = bytes(self._small[:size])
        del self._small[:size]
        return front

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
            size, source, kind, lag, epoch = self._head
            if self._body is None:
                if len(self._small) >= size:
                    self._body, self._filled = self._small[:size], size
                    del self._small[:size]
                else:
                    self._body = bytearray(size)
                    self._filled = len(self._small)
                    self._body[: self._filled] = self._small
                    self._small.clear()
            if self._filled < size:
                return
            arrived.append(Frame(source, kind, lag, epoch, self._body))
            self._head = self._body = None
