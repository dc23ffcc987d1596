"""Several parts of a stream as one: in the order of the stamps that the server gave, so that it is the same the next time."""

from collections import deque
from collections.abc import Sequence

from operators.connectors.messages import Received

__all__ = ["Merge"]


class Merge:
    """Messages of several parts, each in order, that wait for each other; `parts` are in the order of those with one stamp."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._waiting: dict[str, deque[Received]] = {part: deque() for part in parts}
        self._dry: set[str] = set()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def waiting(self, part: str) -> int:
        """Return how many messages of a part wait."""
        return len(self._waiting[part])

    def add(self, message: Received) -> None:
        """Take the next message of a part."""
        self._waiting[message.part].append(message)
        self._dry.discard(message.part)

    def dry(self, part: str) -> None:
        """Note that a part has no more messages for now, so that nobody waits for it."""
        self._dry.add(part)

    def released(self, until: float = float("inf")) -> list[Received]:
        """Return what nothing can come before: all parts have a message, or are dry and get none stamped before `until`."""
        found: list[Received] = []
        while True:
            heads = [queue[0] for queue in self._waiting.values() if queue]
            if not heads:
                return found
            first = min(heads, key=lambda message: message.stamp)
            missing = [part for part, queue in self._waiting.items() if not queue]
            if any(part not in self._dry for part in missing) or (missing and first.stamp >= until):
                return found
            found.append(self._waiting[first.part].popleft())
