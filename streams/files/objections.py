"""Why records cannot be used: one reason a record, in a sentence that says what was found.

Reasons are made for the rejected rows only; everything else stays in columns.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Objections", "shown"]

#: How much of a value a reason repeats.
_MOST_SHOWN = 60


def shown(value: Any) -> str:
    """Return a value as JSON, shortened, for a message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        text = json.dumps(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


class Objections:
    """The first reason against each record of a block."""

    __slots__ = ("bad", "reasons")

    def __init__(self, rows: int) -> None:
        self.bad: NDArray[np.bool_] = np.zeros(rows, np.bool_)
        self.reasons: dict[int, str] = {}

    def note(self, rows: NDArray[np.bool_], reason: Callable[[int], str]) -> None:
        """Give these rows a reason, unless they have one."""
        if not rows.any():
            return
        for row in np.flatnonzero(rows & ~self.bad).tolist():
            self.reasons[row] = reason(row)
        self.bad |= rows

    def note_many(self, rows: NDArray[np.bool_], reasons: Callable[[NDArray[np.int64]], list[str]]) -> None:
        """As `note`, with the reasons of many rows made at once: a call a row would take longer than to read it."""
        if not rows.any():
            return
        fresh = np.flatnonzero(rows & ~self.bad)
        if len(fresh):
            self.reasons.update(zip(fresh.tolist(), reasons(fresh), strict=True))
            self.bad |= rows

    def note_row(self, row: int, reason: str) -> None:
        """Give one row a reason, unless it has one."""
        if not self.bad[row]:
            self.bad[row] = True
            self.reasons[row] = reason

    def take(self, rows: NDArray[np.int64]) -> "Objections":
        """Return the objections against these rows."""
        taken = Objections(len(rows))
        taken.bad = self.bad[rows]
        bad = np.flatnonzero(taken.bad)
        taken.reasons = {row: self.reasons[old] for row, old in zip(bad.tolist(), rows[bad].tolist(), strict=True)}
        return taken

    @classmethod
    def concat(cls, parts: list["Objections"]) -> "Objections":
        """Put the objections of blocks one after the other."""
        whole = cls(sum(len(part.bad) for part in parts))
        base = 0
        for part in parts:
            whole.bad[base : base + len(part.bad)] = part.bad
            whole.reasons.update((base + row, reason) for row, reason in part.reasons.items())
            base += len(part.bad)
        return whole
