"""What a rebalancing policy is: a pure function from statistics and a plan to operations.

A policy sees nothing but its arguments: the same statistics, plan and settings give the same operations wherever and
whenever they are looked at, so that every decision of a run can be replayed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from operators.balancing.tornado.settings import PolicySettings

__all__ = ["Decide", "Policy", "StatisticsKind"]

S = TypeVar("S")
P = TypeVar("P")
O = TypeVar("O")  # noqa: E741 - statistics, plan, operation
S_contra = TypeVar("S_contra", contravariant=True)
P_contra = TypeVar("P_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)

#: What evaluators send: summaries, statistics of every cell, or nothing.
StatisticsKind = Literal["summaries", "cells", "none"]


class Decide(Protocol[S_contra, P_contra, O_co]):
    """The function of a policy."""

    def __call__(self, statistics: Sequence[S_contra], plan: P_contra, settings: PolicySettings) -> tuple[O_co, ...]:
        """Return what is to be done, in this order; nothing where it is not worth it."""


@dataclass(frozen=True, slots=True)
class Policy(Generic[S, P, O]):
    """A policy by name.

    Attributes:
        name: its name in a declaration.
        about: one line for a reader.
        statistics: what its evaluators send.
        decide: the decision.
    """

    name: str
    about: str
    statistics: StatisticsKind
    decide: Decide[S, P, O]
