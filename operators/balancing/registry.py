"""Rebalancing policies by name: the shipped ones, and those of others by module or file."""

from collections.abc import Mapping
from types import MappingProxyType

from operators.balancing.dkm.policy import DKM
from operators.balancing.dskype.policy import DSKYPE
from operators.balancing.policy import Decision, NoSettings, Policy, View
from operators.balancing.random_policy import RANDOM
from operators.balancing.sstd.policy import SSTD
from operators.balancing.statistics import STATISTICS
from operators.balancing.tornado.policies import TORNADO_POLICIES
from operators.references import load_reference
from streams.errors import DeclarationError, did_you_mean

__all__ = ["POLICIES", "policy_of"]


def _nothing(_view: View) -> tuple[Decision, None]:
    """Leave the plan as it is."""
    return None, None


_ALL = (
    *TORNADO_POLICIES,
    DKM,
    DSKYPE,
    SSTD,
    RANDOM,
    Policy("none", "never changes the plan", "costs", NoSettings, _nothing),
)

#: Name -> policy.
POLICIES: Mapping[str, Policy] = MappingProxyType({policy.name: policy for policy in _ALL})


def policy_of(name: str) -> Policy:
    """Return the policy of a name or a reference; raise `DeclarationError` if there is none."""
    path = ("policy",)
    if name in POLICIES:
        return POLICIES[name]
    if ":" not in name:
        raise DeclarationError(
            f"unknown rebalancing policy '{name}'{did_you_mean(name, POLICIES)}; expected one of {', '.join(POLICIES)}; "
            "or your own as 'module:NAME' or 'file.py:NAME'",
            path,
        )
    found = load_reference(name, path)
    if not isinstance(found, Policy):
        kind = type(found).__name__
        raise DeclarationError(f"'{name}' is a {kind}, expected a Policy (operators.balancing.policy)", path)
    if found.statistics not in STATISTICS:
        raise DeclarationError(
            f"the policy '{name}' reads the statistics '{found.statistics}'{did_you_mean(found.statistics, STATISTICS)}, "
            f"expected one of: {', '.join(STATISTICS)}",
            path,
        )
    return found
