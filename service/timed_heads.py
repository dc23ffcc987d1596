"""HTTP whose heads must come in time: who sends one byte now and then holds no connection for ever."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HEAD_SECONDS", "TimedHeads"]

#: How long the head of a request may take, from its first byte, or from the connection for the first one.
HEAD_SECONDS = 30.0


class TimedHeads(HttpToolsProtocol):
    """Uvicorn's protocol, which ends connections that are silent between two requests, but waits for the rest of a head."""

    head_seconds = HEAD_SECONDS
    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self._expect()

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
