"""How long the evaluators of a topology keep objects, which is how far back the windows of its queries may reach."""

from topology.declaration import Topology
from topology.validation import make_operator

__all__ = ["kept_ms_of"]


def kept_ms_of(topology: Topology) -> int | None:
    """Return how long objects are kept, by whoever keeps them longest; None where nobody does."""
    operators = [make_operator(component, topology) for component in topology.components]
    kept = (getattr(operator, "kept_ms", None) for operator in operators)
    return max((ms for ms in kept if ms is not None), default=None)
