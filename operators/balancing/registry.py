"""Rebalancing policies by name."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from operators.balancing.policy import Policy
from operators.balancing.tornado.cells import decide_centralised
from operators.balancing.tornado.decision import decide
from operators.balancing.tornado.random_moves import decide_at_random
from operators.balancing.tornado.settings import PolicySettings
from operators.balancing.tornado.tornado_paper import decide_as_paper
from streams.errors import DeclarationError, did_you_mean

__all__ = ["POLICIES", "policy_of"]


def _nothing(statistics: Sequence[Any], plan: Any, settings: PolicySettings) -> tuple[Any, ...]:
    """Leave the plan as it is."""
    return ()


_ALL: tuple[Policy[Any, Any, Any], ...] = (
    Policy("tornado", "Tornado: several operations a round, on summaries of evaluators", "summaries", decide),
    Policy("tornado-paper", "Tornado as published: one operation a round", "summaries", decide_as_paper),
    Policy("tornado-centralised", "tornado, on statistics of every cell (Figure 9b)", "cells", decide_centralised),
    Policy("random", "any valid operations, by lot: for tests", "none", decide_at_random),
    Policy("none", "never changes the plan", "none", _nothing),
)

#: Name -> policy.
POLICIES: Mapping[str, Policy[Any, Any, Any]] = MappingProxyType({policy.name: policy for policy in _ALL})


def policy_of(name: str) -> Policy[Any, Any, Any]:
    """Return the policy of a name; raise `DeclarationError` if there is none."""
    if name not in POLICIES:
        raise DeclarationError(
            f"unknown rebalancing policy '{name}'{did_you_mean(name, POLICIES)}; expected one of {', '.join(POLICIES)}"
        )
    return POLICIES[name]
