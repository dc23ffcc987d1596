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
from collections.abc import Mapping
from contextlib import suppress

from streams.codec import Buffers, size_of
from streams.errors import RunError
from topology.ray_runtime.connection import Frame, Lost, Receiver, Sender, frame_head

__all__ = ["TOKEN_BYTES", "Address", "Endpoint", "Frame", "Lost"]

TOKEN_BYTES = 32
HANDSHAKE_SECONDS = 10.0
MAX_STRANGERS = 256
_HELLO = struct.Struct(f"<4s{TOKEN_BYTES}sII")
_MAGIC = b"WSP1"
_HELD_BYTES = 1 << 16
#: How long a small frame may be held back by a process that has work to do.
HOLD_SECONDS = 0.001
#: A connection on which nothing came for so many seconds is probed, so often, so far apart.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}

Address = tuple[str, int]


class Endpoint:
    """A listener and the connections of one process, for one generation of a run.

    One thread calls `poll` and `send`; others may only `wake` it. A new generation gets a new endpoint, so what a
    connection of an old one still holds can reach nobody.

    Attributes:
        sent: how many frames were handed in.
        received: how many have come.
    """

    def __init__(self, host: str, token: bytes, generation: int, max_frame_bytes: int, me: int) -> None:
        self.me = me
        self.max_frame_bytes = max_frame_bytes
        self.hello = _HELLO.pack(_MAGIC, token, generation, me)
        self._token, self._generation = token, generation
        self._out: dict[int, Sender] = {}
        self._in: dict[socket.socket, Receiver] = {}
        self._lost: list[Lost] = []
        self.sent = self.received = 0
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
        """Wait for something to happen, at most so long; return what has arrived.

        What is held back leaves before a wait. Where there is none (0 seconds: the caller has more to do) it may stay a
        little longer: to wake a peer costs more than a small frame, and may cost this process its core.
        """
        for sender in self._out.values():
            if sender.held and (seconds != 0 or time.monotonic() - sender.since >= HOLD_SECONDS):
                self._push_or_lose(sender)
        arrived: list[Frame | Lost] = []
        called = False
        for key, events in self._selector.select(0 if self._lost else seconds):
            connection = key.fileobj
            if connection is self._listener:
                called = True
            elif connection is self._wake_in:
                with suppress(BlockingIOError):
                    self._wake_in.recv(4096)
            elif isinstance(key.data, Receiver):
                self._read(key.data, arrived)
            else:
                self._serve(key.data, events)
        if called:  # last: who has said who it is, while this process was at work, is no stranger
            self._accept()
        self.received += len(arrived)
        arrived.extend(self._lost)
        self._lost.clear()
        return arrived

    def wake(self) -> None:
        """Make a `poll` in another thread return."""
        with suppress(OSError):
            self._wake_out.send(b"\0")

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            _keep_alive(connection)
            self._turn_strangers_away()
            receiver = self._in[connection] = Receiver(connection, self.max_frame_bytes, time.monotonic())
            self._selector.register(connection, selectors.EVENT_READ, receiver)

    def _turn_strangers_away(self) -> None:
        """Close those who have not said who they are for too long, and everybody unknown when there are too many."""
        strangers = [receiver for receiver in self._in.values() if receiver.peer is None]
        latest = time.monotonic() - (HANDSHAKE_SECONDS if len(strangers) < MAX_STRANGERS else 0)
        for receiver in strangers:
            if receiver.since <= latest:
                self._drop(receiver)

    def _drop(self, receiver: Receiver) -> None:
        self._in.pop(receiver.connection, None)
        with suppress(KeyError, ValueError):
            self._selector.unregister(receiver.connection)
        receiver.connection.close()

    def _read(self, receiver: Receiver, arrived: list[Frame | Lost]) -> None:
        try:
            receiver.read()
            if receiver.peer is None and not self._greet(receiver):
                return
            receiver.frames(arrived)
        except OSError as error:
            if receiver.peer is not None:
                arrived.append(Lost(receiver.peer, str(error) or type(error).__name__))
            self._drop(receiver)

    def _greet(self, receiver: Receiver) -> bool:
        """Learn who is calling; raise for one that does not know the token or is of another generation."""
        hello = receiver.peel(_HELLO.size)
        if hello is None:
            return False
        magic, token, generation, peer = _HELLO.unpack(hello)
        if not hmac.compare_digest(token, self._token) or magic != _MAGIC or generation != self._generation:
            raise ConnectionError("a caller without the token of this run")
        receiver.peer = peer
        return True

    # --- sending ---------------------------------------------------------------------------------------------------

    def connect(self, addresses: Mapping[int, Address], seconds: float = 30.0) -> None:
        """Open connections to other processes, by their number."""
        for peer, address in addresses.items():
            connection = socket.create_connection(address, timeout=seconds)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(connection)
            connection.sendall(self.hello)
            connection.setblocking(False)
            sender = Sender(peer, connection)
            self._out[peer] = sender
            self._selector.register(connection, selectors.EVENT_READ, sender)

    def send(self, peer: int, source: int, target: int, kind: int, lag: int, epoch: int, body: Buffers) -> int:
        """Send one frame, or queue what the socket does not take yet; return its size.

        Small frames are held back until a `poll`, so that a worker which has several tasks to serve sends their
        messages together: a system call and a wake-up for many of them.
        """
        size = size_of(body)
        if size > self.max_frame_bytes:
            raise RunError(
                f"a message of {size} bytes is larger than topology.limits.frame_bytes = {self.max_frame_bytes}; "
                "use smaller epochs (topology.epoch.objects, .queries) or raise the limit"
            )
        self.sent += 1
        sender = self._out[peer]
        if not sender.held:
            sender.since = time.monotonic()
        sender.put(frame_head(size, source, target, kind, lag, epoch), body, size)
        if sender.held >= _HELD_BYTES:
            self._push_or_lose(sender)
        return size

    def push(self) -> None:
        """Send what is held back now."""
        for sender in self._out.values():
            if sender.held:
                self._push_or_lose(sender)

    def _push_or_lose(self, sender: Sender) -> None:
        """Send what is queued; the end of a connection is told by the next `poll`, to one place, whenever it shows."""
        try:
            self._push(sender)
        except OSError as error:
            self._give_up(sender, error)

    def _push(self, sender: Sender) -> None:
        blocked = not sender.push()
        if blocked != sender.blocked:
            sender.blocked = blocked
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if blocked else 0)
            self._selector.modify(sender.connection, wanted, sender)

    def _serve(self, sender: Sender, events: int) -> None:
        """Send on where a socket takes more; receivers never answer, so something to read is the end of a connection."""
        try:
            if events & selectors.EVENT_READ and not sender.connection.recv(1):
                raise ConnectionError("the connection was closed")
            if events & selectors.EVENT_WRITE:
                self._push(sender)
        except BlockingIOError:
            pass
        except OSError as error:
            self._give_up(sender, error)

    def _give_up(self, sender: Sender, error: OSError) -> None:
        self._lost.append(Lost(sender.peer, str(error) or type(error).__name__))
        sender.waiting.clear()
        with suppress(KeyError, ValueError):
            self._selector.unregister(sender.connection)

    @property
    def quiet(self) -> bool:
        """Tell whether nothing is left to send."""
        return not any(sender.waiting for sender in self._out.values())

    def flush(self, seconds: float) -> None:
        """Wait until everything queued is with the kernel."""
        deadline = time.monotonic() + seconds
        while not self.quiet and time.monotonic() < deadline:
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


def _keep_alive(connection: socket.socket) -> None:
    """Let the system see to it that the other machine is there: one that is cut off sends no end of file."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # not every system has all of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
