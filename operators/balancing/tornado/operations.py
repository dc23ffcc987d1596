"""Tornado's load-balancing operations as values (Section 4.2, Figures 3 and 4).

Evaluators are named by worker. Each operation says who is involved, what it gains (C_r, Equation 4) and what it costs to
carry out (C_t, Equation 5); what it does to a plan is in `operators.balancing.tornado.plan_changes`.
"""

from dataclasses import dataclass

from operators.balancing.tornado.partition_loads import Split
from partitioners.grids.adjacency import Side

__all__ = ["BorderShift", "CornerShiftOperation", "Operation", "SplitMerge", "SplitOff", "axis_of"]


@dataclass(frozen=True, slots=True)
class SplitMerge:
    """Split X in two and merge two neighbours Y and Z that share a whole side (Figure 4).

    Attributes:
        giver: X, which keeps the other half.
        split: where X is cut.
        gives_low: whether X2, the half that moves, is the low one.
        taker: who gets X2: an idle worker (the paper's auxiliary evaluator), or else Z, which the merge frees.
        keeper: Y, which gets the box of Z.
        freed: Z.
        reduction: C_r.
        overhead: C_t.
    """

    giver: int
    split: Split
    gives_low: bool
    taker: int
    keeper: int
    freed: int
    reduction: float = 0.0
    overhead: float = 0.0

    @property
    def kind(self) -> str:
        """The name of the operation in a summary of a run."""
        return "split-merge"

    @property
    def workers(self) -> frozenset[int]:
        """All that are involved."""
        return frozenset((self.giver, self.taker, self.keeper, self.freed))


@dataclass(frozen=True, slots=True)
class SplitOff:
    """Split X in two and give one half to an idle worker: a split/merge where nobody has to be freed first.

    Attributes:
        giver, split, gives_low, taker, reduction, overhead: as in `SplitMerge`.
    """

    giver: int
    split: Split
    gives_low: bool
    taker: int
    reduction: float = 0.0
    overhead: float = 0.0

    @property
    def kind(self) -> str:
        """The name of the operation in a summary of a run."""
        return "split"

    @property
    def workers(self) -> frozenset[int]:
        """All that are involved."""
        return frozenset((self.giver, self.taker))


@dataclass(frozen=True, slots=True)
class BorderShift:
    """Move a border: those on one side give cells to those on the other (Figure 3a and b).

    Attributes:
        givers: the workers along one side, ascending; the paper's shift has one.
        takers: the workers along the other side, ascending; the paper's shift has one.
        side: where the takers are, seen from the givers.
        position: the last column or row before the border when it has moved; None where the giver has yet to choose it
            (`operators.balancing.tornado.shift_position`).
        reduction: C_r.
        overhead: C_t.
    """

    givers: tuple[int, ...]
    takers: tuple[int, ...]
    side: Side
    position: int | None
    reduction: float = 0.0
    overhead: float = 0.0

    @property
    def kind(self) -> str:
        """The name of the operation in a summary of a run: a horizontal shift moves a horizontal border."""
        return "vertical-shift" if axis_of(self.side) == 0 else "horizontal-shift"

    @property
    def workers(self) -> frozenset[int]:
        """All that are involved."""
        return frozenset(self.givers + self.takers)


@dataclass(frozen=True, slots=True)
class CornerShiftOperation:
    """Give the strip that continues a neighbour at a corner to that neighbour (Figure 3c).

    Attributes:
        giver, taker: the two workers.
        side: where the taker is, seen from the giver.
        reduction: C_r.
        overhead: C_t.
    """

    giver: int
    taker: int
    side: Side
    reduction: float = 0.0
    overhead: float = 0.0

    @property
    def kind(self) -> str:
        """The name of the operation in a summary of a run."""
        return "corner-shift"

    @property
    def workers(self) -> frozenset[int]:
        """All that are involved."""
        return frozenset((self.giver, self.taker))


Operation = SplitMerge | SplitOff | BorderShift | CornerShiftOperation


def axis_of(side: Side) -> int:
    """Return the axis along which a neighbour at this side lies: 0 for left and right, 1 for below and above."""
    return 0 if side in (Side.LEFT, Side.RIGHT) else 1
