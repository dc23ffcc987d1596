"""Immutable pieces of states, which checkpoints write once and refer to afterwards."""

import threading
from collections.abc import Callable
from typing import Any

from streams.errors import CodecError

__all__ = ["Part"]

_MAX_KEY = 1_000


class Part:
    """A piece of a state that never changes, known by a key that says what is in it.

    An operator may put one anywhere into what `snapshot` returns: a plan, a segment of old objects. Its value is asked for
    only when it has to be written, once for all checkpoints and all tasks of a process; `restore` gets a part with the
    same key, whose value is read when it is first asked for.

    Args:
        key: two parts with the same key have the same value, whoever made them: a number and a digest, say.
        make: returns the value, of which the same types may be made as of a state. It may be called later than
            `snapshot`, and by another thread, so it must depend on nothing that changes.
    """

    __slots__ = ("__weakref__", "_lock", "_make", "_value", "key")

    def __init__(self, key: str, make: Callable[[], Any]) -> None:
        if not isinstance(key, str) or not 0 < len(key) <= _MAX_KEY:
            raise CodecError(f"a part with the key {key!r:.100}, expected a text of 1 to {_MAX_KEY:,} characters")
        self.key = key
        self._make: Callable[[], Any] | None = make
        self._value: Any = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, key: str, value: Any) -> "Part":
        """Return a part whose value is at hand."""
        return cls(key, lambda: value)

    @property
    def value(self) -> Any:
        """Return the value; it is made once."""
        with self._lock:
            if self._make is not None:
                self._value = self._make()
                self._make = None
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __deepcopy__(self, _memo: Any) -> "Part":
        return self

    def __repr__(self) -> str:
        return f"Part({self.key!r})"
