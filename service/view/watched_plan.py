"""The plan of a run as somebody who watches it knows it: from what the balancer shows, change by change."""

import importlib
from collections.abc import Mapping
from typing import Any

from partitioners.plans.plan import Plan, unpack
from partitioners.plans.plan_change import changed, unpack_change
from streams.errors import InputError
from topology.lens import PLAN, PREPARED, SWITCHED

__all__ = ["WatchedPlan"]


class WatchedPlan:
    """Follows the events of a lens.

    Attributes:
        plan: the one in force; None where there is none, or it is too large to be shown.
        changes: how often another one came into force.
        known: whether there is a plan that cannot be shown.
    """

    def __init__(self, plan: Plan | None) -> None:
        self.plan = plan
        self.changes = 0
        self.known = True
        self._next: Plan | None = None

    def happened(self, event: Mapping[str, Any]) -> bool:
        """Take an event; tell whether another plan is in force now."""
        kind = event["event"]
        if kind == PLAN:
            return self._shown(event)
        if kind == PREPARED:
            self._prepare(event["change"])
        elif kind == SWITCHED and self._next is not None:
            self.plan, self._next = self._next, None
            self.changes += 1
            return True
        elif kind == SWITCHED:
            self.plan, self.known = None, False
        return False

    def _shown(self, event: Mapping[str, Any]) -> bool:
        """Take what a balancer shows when it starts, from the beginning or from the state of a checkpoint."""
        before = self.plan
        if before is None or before.version != event["version"]:
            self.plan = _unpacked(event["packed"])
            self.known = self.plan is not None
        self._next = _unpacked(event["next_packed"])
        other = self.plan is not before
        self.changes += other
        return other

    def _prepare(self, packed: bytes | None) -> None:
        """Work out the next plan; one that the balancer has shown already stays."""
        if packed is None or self.plan is None:
            self._next = None
            return
        change = unpack_change(packed, "the change of a plan that is watched")
        if self._next is not None and self._next.version == change.after:
            return
        try:
            self._next = changed(self.plan, change)
        except InputError:  # of a plan that was not seen: what is in force next cannot be shown
            self._next = None


def _unpacked(packed: bytes | None) -> Plan | None:
    if packed is None:
        return None
    importlib.import_module("partitioners.builders.registry")  # makes all classes of plans known
    return unpack(packed)
