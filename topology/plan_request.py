"""What a topology says of its plan, and what can be wrong with that."""

from collections.abc import Iterator
from pathlib import Path

from streams.errors import DeclarationError, did_you_mean
from topology.declaration import Topology
from topology.references import resolve

__all__ = ["EVALUATOR", "is_automatic", "needs_plan", "plan_path", "plan_problems"]

#: The plan that is built from a sample; the same as giving none.
AUTO = "auto"

#: The bolt whose tasks a plan distributes to.
EVALUATOR = "evaluator"


def needs_plan(topology: Topology) -> bool:
    """Tell whether some operator follows a plan."""
    return any(
        getattr(resolve(c.operator, (c.kind, c.name, "operator"), topology.base, c.classes), "needs_plan", False)
        for c in topology.components
    )


def is_automatic(topology: Topology) -> bool:
    """Tell whether the plan is built from a sample at the start of the input."""
    return topology.settings.plan in (None, AUTO)


def plan_path(topology: Topology) -> Path:
    """Return the plan file that the topology names."""
    assert topology.settings.plan is not None
    return (topology.base or Path()) / topology.settings.plan


def plan_problems(topology: Topology) -> Iterator[DeclarationError]:
    """Yield what is wrong with the plan that a topology asks for."""
    if not needs_plan(topology):
        return
    from partitioners.builders.registry import PARTITIONERS  # with all their kernels: only where a plan is asked for

    asked = topology.settings.partitioner
    if not any(c.name == EVALUATOR for c in topology.components):
        yield DeclarationError("a plan distributes to the tasks of the bolt 'evaluator', but there is none", ("bolt",))
    if not is_automatic(topology):
        path = plan_path(topology)
        if not path.is_file():
            yield DeclarationError(f"{path}: no such plan file; make one with 'waterspout build'", ("topology", "plan"))
    elif asked is None:
        yield DeclarationError(
            "a router here needs a plan: give topology.plan, or [topology.partitioner]", ("topology",)
        )
    elif asked.kind not in PARTITIONERS:
        yield DeclarationError(
            f"unknown partitioner '{asked.kind}'{did_you_mean(asked.kind, PARTITIONERS)}; "
            f"expected one of: {', '.join(PARTITIONERS)}",
            ("topology", "partitioner", "kind"),
        )
