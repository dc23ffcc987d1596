"""What the service and the engine send each other: short messages over a local socket, msgpack behind their length."""

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator
from typing import IO, Any

import msgpack

from streams.codec import unpack_plain
from streams.errors import CodecError

__all__ = ["MAX_MESSAGE_BYTES", "EngineChannel", "ServiceGoneError", "pack_message", "read_message"]

#: The largest message; what is larger goes through files.
MAX_MESSAGE_BYTES = 64 << 20

_LENGTH = struct.Struct("<I")


def pack_message(kind: str, *values: Any) -> bytes:
    """Return a message as bytes."""
    body: bytes = msgpack.packb([kind, *values])
    if len(body) > MAX_MESSAGE_BYTES:
        raise CodecError(f"a message '{kind}' of {len(body):,} bytes, more than {MAX_MESSAGE_BYTES:,}")
    return _LENGTH.pack(len(body)) + body


async def read_message(reader: asyncio.StreamReader) -> list[Any] | None:
    """Return the next message; None at the end."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > MAX_MESSAGE_BYTES:
            raise CodecError(f"a message of {length:,} bytes is announced, more than {MAX_MESSAGE_BYTES:,}")
        message: list[Any] = unpack_plain(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return message


class ServiceGoneError(OSError):
    """There is nobody any more to send a message to."""


class EngineChannel:
    """The engine's end: any thread sends, one receives."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = threading.Lock()

    def send(self, kind: str, *values: Any) -> None:
        """Send a message; it waits where the service does not read."""
        data = pack_message(kind, *values)
        try:
            with self._sending:
                self._socket.sendall(data)
        except OSError as error:
            raise ServiceGoneError(*error.args) from None

    def messages(self) -> Iterator[list[Any]]:
        """Yield messages until the service is gone."""
        file = self._socket.makefile("rb")
        while len(head := _read(file, _LENGTH.size)) == _LENGTH.size:
            (length,) = _LENGTH.unpack(head)
            if len(body := _read(file, length)) < length:
                return
            yield unpack_plain(body)


def _read(file: IO[bytes], count: int) -> bytes:
    """Return so many bytes, or fewer where a service that is killed resets the connection."""
    try:
        return file.read(count)
    except ConnectionError:
        return b""
