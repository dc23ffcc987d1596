"""HTTP whose heads have an end: who sends one byte now and then holds no connection for ever, who sends many no memory."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HEAD_BYTES", "HEAD_SECONDS", "TimedHeads"]

#: How long the head of a request may take, from its first byte, or from the connection for the first one.
HEAD_SECONDS = 30.0

#: A head that is not whole after so many bytes is refused.
HEAD_BYTES = 1 << 16

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class TimedHeads(HttpToolsProtocol):
    """Uvicorn's protocol, which ends connections that are silent between two requests, but waits for the rest of a head."""

    head_seconds = HEAD_SECONDS
    _head: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head that is not whole yet."""
        super().data_received(data)
        self._head_bytes = self._head_bytes + len(data) if self._head is not None else 0
        if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        """Wait for the rest of this head."""
        super().on_message_begin()
        self._expect()

    def on_headers_complete(self) -> None:
        """Leave the body to whoever reads it."""
        self._forget()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._forget()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(self.head_seconds, self._too_slow)

    def _forget(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _too_slow(self) -> None:
        self._head = None
        self.transport.close()
