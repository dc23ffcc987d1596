"""Subscriptions as they were registered, by number, for bolts that keep their lists and match nothing."""

from operators.indexes.core.standing_queries import Slots, StandingQueries
from streams.batches import QueryBatch

__all__ = ["Definitions"]


class Definitions(StandingQueries):
    """A table of subscriptions, and when they end."""

    _shape = 2  # a place

    def _file(self, queries: QueryBatch, slots: Slots) -> None:
        """Have nothing to file."""

    def _unfile(self, slots: Slots) -> Slots:
        """Have nothing to remove."""
        return slots

    def _rebuild(self) -> None:
        """Stay as it is: slots are known elsewhere, and are used again."""
