"""What an operator needs of the streams that it reads, so that a wiring which loses or repeats tuples is refused beforehand.

An operator that says nothing takes every stream in every way; that is what one of your own does until you say more.
"""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ANY_STREAM", "DIVIDING", "EVALUATOR_READS", "ROUTER_READS", "SINK_READS", "Need"]

#: Stands for every stream that is not named.
ANY_STREAM = "*"

#: The groupings that send each tuple to one task.
DIVIDING = ("shuffle", "none", "local-or-shuffle", "fields", "partial-key", "global", "custom")


@dataclass(frozen=True, slots=True)
class Need:
    """What a bolt needs of one stream.

    Attributes:
        groupings: those that bring its tasks what they need; none: all. With a single task any will do.
        why: what another grouping, or another emitter, would do.
        routed: whether the emitter must be one that names the task of each tuple (a router), or must not be one.
        feedback: whether the stream arrives in a later epoch; None: it may.
        required: whether the bolt can do nothing without it.
        refused: why the bolt cannot take this stream at all, and what to do instead.
    """

    groupings: tuple[str, ...] = ()
    why: str = ""
    routed: bool | None = None
    feedback: bool | None = None
    required: bool = False
    refused: str = ""


#: What sinks read: whole results, from wherever they come.
SINK_READS: Mapping[str, Need] = {
    ANY_STREAM: Need(DIVIDING, "every result would be counted several times"),
    "rankings": Need(refused="holds what single evaluators know; put a 'ranked-merger' between them"),
    "counts": Need(refused="holds what single evaluators have counted; put a 'terms-merger' between them"),
}

#: What routers read: each tuple at one of them.
ROUTER_READS: Mapping[str, Need] = {
    "objects": Need(DIVIDING, "every object would be matched several times", routed=False),
    "queries": Need(DIVIDING, "every query would be registered several times", routed=False),
}

#: What evaluators read, whatever kind of query they answer.
EVALUATOR_READS: Mapping[str, Need] = {
    "queries": Need(
        ("direct",), "a query would meet some of its objects only", routed=True, feedback=False, required=True
    ),
    "objects": Need(
        ("direct",), "an object would meet some of its queries only", routed=True, feedback=False, required=True
    ),
    "orders": Need(("all",), "some evaluators would keep the old plan", feedback=True),
    "transfer": Need(("direct",), "queries would move to the wrong evaluator", feedback=True),
    "bounds": Need(("direct",), "bounds would move to the wrong evaluator", feedback=True),
    "adoption": Need(("direct",), "results would move to the wrong evaluator", feedback=True),
}
