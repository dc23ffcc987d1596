"""What evaluators need that follow the states of objects: all records at each task; and who cannot follow any."""

from operators.operator import TaskContext
from streams.errors import DeclarationError

__all__ = ["check_no_states", "check_states"]


def check_states(context: TaskContext) -> None:
    """Raise `DeclarationError` where a task would not have the states of all objects."""
    plan = context.plan
    if context.window is not None:
        raise DeclarationError(
            f"'{context.component}' follows the current states of objects, over which there is no sliding window; leave "
            "topology.window out, or use a topk-evaluator"
        )
    if not context.dynamic:
        raise DeclarationError(
            f"'{context.component}' follows objects that change, but no spout of objects says that they do; set dynamic = "
            "true on it"
        )
    where = f"'{context.component}' keeps the states of all objects in each task, but"
    if plan is not None and plan.workers > 1 and not (plan.single_home and not plan.reads_words):
        raise DeclarationError(
            f"{where} a plan of the kind '{plan.kind}' sends it some of them only; use the partitioner hash or dkm-sks"
        )
    if plan is not None and "replies" in context.targets and not hasattr(plan, "with_moved"):
        raise DeclarationError(
            f"{where} under a plan of the kind '{plan.kind}' a task whose places have all moved away is sent none; use the "
            "partitioner hash, or leave the balancer out"
        )


def check_no_states(context: TaskContext) -> None:
    """Raise `DeclarationError` where lists of the nearest would have to follow states."""
    if context.dynamic:
        raise DeclarationError(
            f"'{context.component}' keeps the nearest records, but a spout declares its objects dynamic, and states end; use a "
            "dynamic-evaluator, or leave dynamic out"
        )
