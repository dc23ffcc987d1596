"""Rebalancing policies by name."""

from collections.abc import Mapping
from types import MappingProxyType

from operators.balancing.policy import Decision, NoSettings, Policy, View
from operators.balancing.random_policy import RANDOM
from operators.balancing.tornado.policies import TORNADO_POLICIES
from streams.errors import DeclarationError, did_you_mean

__all__ = ["POLICIES", "policy_of"]


def _nothing(_view: View) -> tuple[Decision, None]:
    """Leave the plan as it is."""
    return None, None


_ALL = (
    *TORNADO_POLICIES,
    RANDOM,
    Policy("none", "never changes the plan", "costs", NoSettings, _nothing),
)

#: Name -> policy.
POLICIES: Mapping[str, Policy] = MappingProxyType({policy.name: policy for policy in _ALL})


def policy_of(name: str) -> Policy:
    """Return the policy of a name; raise `DeclarationError` if there is none."""
    if name not in POLICIES:
        raise DeclarationError(
            f"unknown rebalancing policy '{name}'{did_you_mean(name, POLICIES)}; expected one of {', '.join(POLICIES)}"
        )
    return POLICIES[name]
