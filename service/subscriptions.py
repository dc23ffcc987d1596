"""One who waits for results: which ones, how many may wait for him, and what happens to those beyond.

A slow reader must not slow the stream, nor grow memory. So what waits is bounded, and beyond the bound a policy decides:

    block         he reads on from the log at his own pace, and misses nothing as long as the log reaches back
    drop-oldest   the oldest of what waits is dropped, and counted
    latest-only   of each query only the newest line waits; those in between are dropped, and counted
    disconnect    he is sent away, and comes back with his last cursor
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from operators.sinks.published import ResultFrame
from streams.columns import Ids
from streams.files.json_text import json_ids

__all__ = ["POLICIES", "Cursor", "Policy", "PushedFrame", "Subscription", "key_of"]

Policy = Literal["block", "drop-oldest", "latest-only", "disconnect"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

#: Where the identifier of a query is in a line of results.
_BEFORE, _BEHIND = len(b'{"query":'), b',"ts":'


def key_of(name: int | str) -> bytes:
    """Return the identifier of a query as lines of results have it."""
    text: str = json_ids(Ids.of([name]))[0].as_py()
    return text.encode()


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in the log of results: behind line `row` of the frame at a position; -1: before its first one."""

    position: int
    row: int = -1

    def __str__(self) -> str:
        return f"{self.position}-{self.row}" if self.row >= 0 else str(self.position)

    @classmethod
    def parse(cls, text: str) -> "Cursor | None":
        """Return the cursor that a client sends back; None for what is none."""
        position, dash, row = text.partition("-")
        whole = (position, row) if dash else (position,)
        if not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in whole):
            return None
        return cls(int(position), int(row) if dash else -1)


class PushedFrame:
    """The results of an epoch on their way to subscribers: lines as they are, made ready once for all who get them."""

    def __init__(self, frame: ResultFrame, end: int) -> None:
        self.position, self.end = frame.position, end
        self.numbers: Sequence[int] = frame.number.tolist()
        self.lines: Sequence[bytes] = frame.lines.split(b"\n")[: len(frame)]

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def keys(self) -> Sequence[bytes]:
        """The identifier of each line's query."""
        return [line[_BEFORE : line.index(_BEHIND)] for line in self.lines]

    @cached_property
    def by_key(self) -> dict[bytes, list[int]]:
        """The rows of each query."""
        found: dict[bytes, list[int]] = {}
        for row, key in enumerate(self.keys):
            found.setdefault(key, []).append(row)
        return found

    @cached_property
    def messages(self) -> Sequence[bytes]:
        """The lines with their cursors in them."""
        position = self.position
        return [b'{"cursor":"%d-%d",%b' % (position, row, line[1:]) for row, line in enumerate(self.lines)]

    def rows_for(self, keys: frozenset[bytes] | None) -> Sequence[int]:
        """Return the rows that a subscription wants."""
        if keys is None:
            return range(len(self.lines))
        by_key = self.by_key
        if len(keys) == 1:
            return by_key.get(next(iter(keys)), ())
        return sorted(row for key in keys & by_key.keys() for row in by_key[key])


Chunk = tuple[PushedFrame, Sequence[int]]


class Subscription:
    """What waits for one reader.

    Attributes:
        keys: the queries that he wants, by their identifiers in lines; None: all.
        cursor: behind the last line that he has taken, or that he does not want.
        behind: he reads from the log; nothing waits for him.
        dropped: how many lines were dropped.
        sent: how many he has taken.
        ended: he is sent away, because too much waits for him.
    """

    def __init__(self, keys: Iterable[bytes] | None, policy: Policy, limit: int, cursor: Cursor) -> None:
        self.keys = None if keys is None else frozenset(keys)
        self.policy, self.limit, self.cursor = policy, limit, cursor
        self.behind = True
        self.dropped = self.sent = 0
        self.ended = False
        self._chunks: deque[Chunk] = deque()
        self._latest: OrderedDict[bytes, tuple[PushedFrame, int]] = OrderedDict()
        self.waiting = 0
        self.changed = asyncio.Event()

    def offer(self, frame: PushedFrame, rows: Sequence[int]) -> None:
        """Let lines wait, as far as the policy lets them."""
        if self.behind or self.ended or not rows:
            return
        if self.policy == "latest-only":
            self._offer_latest(frame, rows)
        else:
            self._chunks.append((frame, rows))
            self.waiting += len(rows)
            if self.waiting > self.limit:
                self._overflow()
        self.changed.set()

    def _offer_latest(self, frame: PushedFrame, rows: Sequence[int]) -> None:
        for row in rows:
            key = frame.keys[row]
            self.dropped += self._latest.pop(key, None) is not None
            self._latest[key] = (frame, row)
            if len(self._latest) > self.limit:
                self._latest.popitem(last=False)
                self.dropped += 1
        self.waiting = len(self._latest)

    def _overflow(self) -> None:
        if self.policy == "block":
            frame, rows = self._chunks[0]
            self.cursor = Cursor(frame.position, rows[0] - 1)
            self._chunks.clear()
            self.waiting, self.behind = 0, True
        elif self.policy == "disconnect":
            self._chunks.clear()
            self.waiting, self.ended = 0, True
        else:
            while self.waiting > self.limit:
                frame, rows = self._chunks.popleft()
                excess = min(self.waiting - self.limit, len(rows))
                self.dropped += excess
                self.waiting -= excess
                if excess < len(rows):
                    self._chunks.appendleft((frame, rows[excess:]))

    def take(self, most: int) -> list[tuple[PushedFrame, int]]:
        """Remove and return up to so many lines, oldest first."""
        taken: list[tuple[PushedFrame, int]] = []
        if self.policy == "latest-only":
            while self._latest and len(taken) < most:
                taken.append(self._latest.popitem(last=False)[1])
        while self._chunks and len(taken) < most:
            frame, rows = self._chunks.popleft()
            room = most - len(taken)
            if len(rows) > room:
                self._chunks.appendleft((frame, rows[room:]))
                rows = rows[:room]
            taken.extend((frame, row) for row in rows)
        self.waiting -= len(taken)
        if taken:
            self.note(taken)
        if not self.waiting:
            self.changed.clear()
        return taken

    def note(self, taken: Sequence[tuple[PushedFrame, int]]) -> None:
        """Count lines that go to the reader now."""
        self.sent += len(taken)
        last, row = taken[-1]
        self.cursor = max(self.cursor, Cursor(last.position, row))
