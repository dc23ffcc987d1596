"""When load is uneven for so long that something should be done: what policies that read plain costs have in common."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from operators.balancing.policy import View
from partitioners.columns import Floats
from streams.errors import DeclarationError

__all__ = ["IMPATIENT", "at_least_one", "overloaded", "rested", "sustained"]

#: Settings under which `sustained` waits for nothing: whatever is uneven now is.
IMPATIENT: Mapping[str, Any] = {"threshold": 1.0, "reports": 1, "patience": 1}


def at_least_one(settings: Any, *names: str) -> None:
    """Raise unless these settings are 1 or more."""
    for name in names:
        if not getattr(settings, name) >= 1:
            raise DeclarationError(f"{name} = {getattr(settings, name)}, expected 1 or more", (name,))


def sustained(view: View) -> tuple[Floats | None, dict[str, Any]]:
    """Return the load of each worker where it has stayed uneven for long enough, else None; and what to remember.

    The load is the mean of the last `reports` reports; it is uneven where the largest is above `threshold` times the mean, and
    must be so in `patience` reports, one after the other.
    """
    settings = view.settings
    memory = view.state or {"costs": [], "above": 0}
    # Reports are in the order of workers: the balancer waits until there is one of each.
    costs = [*memory["costs"], [int(report.cost) for report in view.reports]][-settings.reports :]
    load = np.mean(np.array(costs, np.float64), axis=0)
    if len(costs) < settings.reports or load.max() <= settings.threshold * load.mean():
        return None, {"costs": costs, "above": 0}
    above = memory["above"] + 1
    return (load if above >= settings.patience else None), {"costs": costs, "above": above}


def overloaded(load: Floats, threshold: float) -> list[int]:
    """Return the workers that are clearly above the mean."""
    return np.flatnonzero(load > (1.0 + threshold) / 2 * load.mean()).tolist()


def rested(memory: dict[str, Any], *, changed: bool) -> dict[str, Any]:
    """Return what to remember after a decision.

    Under another plan all costs are other ones; and if nothing can be done, it is no use to ask again at once.
    """
    return {"costs": [] if changed else memory["costs"], "above": 0}
