"""Follows the log of results and passes each line on to those who wait for it: subscribers, and those who have asked.

All of it happens in the event loop, so a subscriber who has read the log to its end is attached without a gap: between
the last line that he reads there and the first that is pushed to him nothing else happens.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from operators.sinks.published import unpack_results
from service.registrations import Registrations
from service.subscriptions import Cursor, Policy, PushedFrame, Subscription
from streams.segment_log import ExpiredError, LogReader, first_position

__all__ = ["CursorError", "Hub", "Lines"]

#: About so many bytes of the log are read at a time: by the hub, and by one who is behind.
HUB_BYTES, BEHIND_BYTES = 4 << 20, 256 << 10

#: So many lines are handed to a subscriber's connection at a time.
MOST_LINES = 1_024

Lines = list[tuple[PushedFrame, int]]


class CursorError(Exception):
    """A cursor that is none of this log; `expired` where it was one, or may have been."""

    def __init__(self, text: str, reason: str, *, expired: bool) -> None:
        super().__init__(reason)
        self.text, self.reason, self.expired = text, reason, expired


class Hub:
    """Who waits for what, and what every standing list says now.

    Attributes:
        position: how far the log was passed on.
        subscriptions: those that are open.
        lines: how many lines were passed on.
    """

    def __init__(self, folder: Path, registrations: Registrations) -> None:
        self._folder, self._registrations = folder, registrations
        self._reader = LogReader(folder)
        self.position = 0
        self.lines = 0
        self.dropped = 0
        self.subscriptions: set[Subscription] = set()
        self._to_all: set[Subscription] = set()
        self._by_key: dict[bytes, set[Subscription]] = {}
        self._asked: dict[int, Future[bytes]] = {}
        self._current: dict[int, tuple[int, int, bytes]] = {}

    # --- the log ---------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Pass on what is new in the log."""
        while frames := self._reader.read(HUB_BYTES):
            for frame in frames:
                self._push(PushedFrame(unpack_results(frame), frame.end))

    def _push(self, frame: PushedFrame) -> None:
        self.position = frame.end
        self.lines += len(frame)
        if self._asked or self._registrations.listed:
            self._note_lists(frame)
        for subscription in self._to_all:
            subscription.offer(frame, range(len(frame)))
        if self._by_key:
            wanted = {one for key in frame.by_key.keys() & self._by_key.keys() for one in self._by_key[key]}
            for subscription in wanted:
                subscription.offer(frame, frame.rows_for(subscription.keys))

    def _note_lists(self, frame: PushedFrame) -> None:
        listed, asked = self._registrations.listed, self._asked
        for row, number in enumerate(frame.numbers):
            if number in listed:
                self._current[number] = (frame.position, row, frame.lines[row])
            if number in asked and not (future := asked.pop(number)).done():
                future.set_result(frame.lines[row])
        if len(self._current) > 2 * len(listed) + 1_024:
            self._current = {number: line for number, line in self._current.items() if number in listed}

    # --- lists -----------------------------------------------------------------------------------------------------

    def current(self, number: int) -> tuple[Cursor, bytes] | None:
        """Return the newest line of a standing list, and where it is."""
        found = self._current.get(number)
        return None if found is None else (Cursor(found[0], found[1]), found[2])

    def asked(self, number: int) -> Future[bytes]:
        """Return what will be the answer to a query; call `forget` when nobody waits for it any more.

        Any thread may call this, and must before the query can be read from the journal: the engine may be that fast.
        """
        return self._asked.setdefault(number, Future())

    def forget(self, number: int) -> None:
        """Wait no longer for an answer."""
        self._asked.pop(number, None)

    def snapshot(self) -> dict[str, Any]:
        """Return what is known of the log up to its position."""
        kept = [[number, *line] for number, line in self._current.items() if number in self._registrations.listed]
        return {"position": self.position, "current": kept}

    def restore(self, state: dict[str, Any] | None) -> None:
        """Go on from a snapshot, or from the start of the log."""
        self.position = state["position"] if state is not None else first_position(self._folder)
        for number, position, row, line in state["current"] if state is not None else ():
            self._current[number] = (position, row, line)
        self._reader.seek(self.position)
        try:
            self.follow()
        except ExpiredError as error:  # the machine went down, and what the snapshot knew of is lost
            self._reader.seek(error.first)
            self.follow()

    # --- subscribers -----------------------------------------------------------------------------------------------

    def cursor(self, text: str | None) -> Cursor:
        """Return the place that a client names, or the end of the log; raise `CursorError` for what is none."""
        if text is None:
            return Cursor(self.position)
        found = Cursor.parse(text)
        if found is None or found.position > self.position:
            raise CursorError(text, "it is none that this service has given", expired=False)
        first = first_position(self._folder)
        if found.position < first:
            raise CursorError(text, f"results before {first} are not kept any more", expired=True)
        if found.position < self.position:
            reader = LogReader(self._folder, found.position)
            try:
                frame = next(iter(reader), None)
            except ExpiredError as error:
                lost = f"what was there is lost, because the machine went down; results go on at {error.first}"
                raise CursorError(text, lost, expired=True) from error
            finally:
                reader.close()
            if frame is None or (found.row >= 0 and found.row >= len(unpack_results(frame))):
                raise CursorError(text, "it is none that this service has given", expired=False)
        return found

    def subscribe(self, keys: Iterable[bytes] | None, policy: Policy, limit: int, cursor: Cursor) -> Subscription:
        """Enter a subscriber, who reads from a cursor on."""
        subscription = Subscription(keys, policy, limit, cursor)
        self.subscriptions.add(subscription)
        if subscription.keys is None:
            self._to_all.add(subscription)
        for key in subscription.keys or ():
            self._by_key.setdefault(key, set()).add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Strike a subscriber out."""
        if subscription not in self.subscriptions:
            return
        self.subscriptions.discard(subscription)
        self._to_all.discard(subscription)
        self.dropped += subscription.dropped
        for key in subscription.keys or ():
            self._by_key[key].discard(subscription)
            if not self._by_key[key]:
                del self._by_key[key]

    async def read(self, subscription: Subscription) -> AsyncIterator[Lines]:
        """Yield what a subscriber is to get, in order, until he is sent away; raise `ExpiredError` where he came too late."""
        while not subscription.ended:
            if subscription.behind:
                lines = self._read_behind(subscription)
                if lines:
                    yield lines
                elif subscription.behind:
                    await asyncio.sleep(0)  # a stretch of the log that has nothing for him
            elif subscription.waiting:
                yield subscription.take(MOST_LINES)
            else:
                subscription.changed.clear()
                await subscription.changed.wait()

    def _read_behind(self, subscription: Subscription) -> Lines:
        """Read a stretch of the log for one who is behind; at its end, let lines be pushed to him."""
        lines: Lines = []
        cursor = subscription.cursor
        if cursor.position < self.position:
            reader = LogReader(self._folder, cursor.position)
            try:
                frames = reader.read(BEHIND_BYTES)
            finally:
                reader.close()
            for frame in frames:
                if frame.position >= self.position:
                    break
                pushed = PushedFrame(unpack_results(frame), frame.end)
                after = cursor.row if frame.position == cursor.position else -1
                lines += [(pushed, row) for row in pushed.rows_for(subscription.keys) if row > after]
                subscription.cursor = Cursor(frame.end)
            if not frames:
                raise ExpiredError(cursor.position, first_position(self._folder))
        if lines:
            subscription.sent += len(lines)
        if subscription.cursor.position >= self.position:
            subscription.behind = False
        return lines
