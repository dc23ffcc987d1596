"""The knobs of Tornado's policies."""

from dataclasses import dataclass

from operators.balancing.tornado.partition_loads import KNOTS, MAX_KNOTS
from streams.errors import DeclarationError

__all__ = ["MAX_OPERATIONS", "TornadoSettings"]

#: A bound on the operations of a round.
MAX_OPERATIONS = 1024


@dataclass(frozen=True, slots=True)
class TornadoSettings:
    """The knobs of Tornado's policies.

    Attributes:
        beta: what moving one query costs, in units of cost (the paper's beta; Equation 5).
        operations: at most so many operations in one round; 0 leaves it to the policy (1 for `tornado-paper`).
        threshold: nothing is done while the largest cost is less than this many times the mean, which is that of all
            workers for `tornado`, as it can give work to idle ones, and of those with a partition for `tornado-paper`.
        minimal_cost: nothing is done while less than this was counted in all: too little to judge by.
        gain: `tornado` takes no operation whose C_r is less than this share of the mean cost.
        knots: how finely evaluators report where cost lies, as positions an axis; only `tornado` needs any.
        crowding: what adds up in the estimates of `tornado` are costs to the power of 1 / this: whoever gives half of its work
            away keeps less than the other half. 1 adds costs up, as the paper does.
    """

    beta: float = 1.0
    operations: int = 0
    threshold: float = 1.1
    minimal_cost: int = 1
    gain: float = 0.02
    knots: int = KNOTS
    crowding: float = 1.4

    def __post_init__(self) -> None:
        for name, low, high in (
            ("beta", 0.0, float("inf")),
            ("operations", 0, MAX_OPERATIONS),
            ("threshold", 1.0, float("inf")),
            ("minimal_cost", 0, 1 << 62),
            ("gain", 0.0, 1.0),
            ("knots", 0, MAX_KNOTS),
            ("crowding", 1.0, 4.0),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise DeclarationError(
                    f"'{name}' of a rebalancing policy is {value}; expected {low} to {high}", (name,)
                )
