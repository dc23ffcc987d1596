"""Tells whether a run stands still: everybody waits, and nothing is under way that could wake anybody.

It must not happen: a message was lost, or a wake-up. It is looked for where nothing was received for long though epochs are
under way, so that such a run goes back to its checkpoint, or ends with a reason, instead of waiting for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Standing", "stands_still"]


@dataclass(frozen=True, slots=True)
class Standing:
    """What one process does at a moment.

    Attributes:
        waits: it waits for frames, has nothing to send and nothing to write.
        sent: frames that it has sent since the generation began.
        received: frames that it has received.
    """

    waits: bool
    sent: int
    received: int


def stands_still(first: Sequence[Standing], second: Sequence[Standing]) -> bool:
    """Tell from two looks at all processes, one after the other, whether none of them will ever do anything again.

    Processes are looked at one by one, so what one look sees may never have been true at once. If everything that was ever
    sent had been received at the first look, and nothing was sent or received until the second, nothing was under way
    between them (Mattern's four counters).
    """
    looks = (first, second)
    counts = {count for look in looks for count in (sum(s.sent for s in look), sum(s.received for s in look))}
    return len(counts) == 1 and all(s.waits for look in looks for s in look)
