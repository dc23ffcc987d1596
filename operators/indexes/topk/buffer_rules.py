"""Rules for re-evaluation by name."""

from collections.abc import Callable, Mapping
from typing import Any

from operators.indexes.core.selection import made
from operators.indexes.topk.buffer_rule import RankRule, Rule
from operators.indexes.topk.buffers import Buffers
from operators.indexes.topk.k_skyband import CostBasedSkyband, Skyband
from operators.indexes.topk.kmax import Kmax

__all__ = ["BUFFER_RULES", "make_buffers"]

#: Name in a declaration -> what makes the rule, given its settings by keyword.
BUFFER_RULES: Mapping[str, Callable[..., Rule]] = {
    "rank": RankRule,
    "cskyband": CostBasedSkyband,
    "skyband": Skyband,
    "kmax": Kmax,
}


def make_buffers(name: str, **settings: Any) -> Buffers:
    """Make buffers without subscriptions.

    Args:
        name: one of `BUFFER_RULES`.
        settings: the rule's own, see its class; all have defaults.
    """
    return Buffers(made(name, BUFFER_RULES, "buffer rule", (), settings))
