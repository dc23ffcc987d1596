"""Splitting and merging leaves of a QT-tree (SSTD, Section 5.3): the next version of the plan, for as many workers.

Leaves that are not touched keep their number in a split, and in a merge their order; queries and objects of theirs are routed
as before. Where a leaf is split by text, no objects are fetched: its keyword lists begin empty, and routers fill them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partitioners.columns import Floats, Ints, Workers
from partitioners.costs.query_distribution import MAX_LENGTH
from partitioners.plans.plan import successor
from partitioners.plans.qt_tree import LEAF, SPATIAL, TEXTUAL, QtTreePlan
from streams.columns import csr_places
from streams.errors import InputError

__all__ = [
    "AskedWords",
    "leaf_boxes",
    "mergeable",
    "merged",
    "quartered",
    "quarters",
    "split_by_space",
    "split_by_text",
]

Box = tuple[float, float, float, float]

#: So often a space is quartered at most: below this a quarter is finer than float64 tells apart in most spaces.
MAX_DEPTH = 40


@dataclass(frozen=True, slots=True, eq=False)
class AskedWords:
    """What SRQ and SKQ ask for in a region: all that a textual node needs to know of queries.

    Attributes:
        words: their keywords, ascending.
        shares: M_srq and M_skq, the probability of each keyword (words x 2).
        weight: Pr(type) * p_type of SRQ and of SKQ.
        lengths: the distribution of query lengths, as `query_distribution.RegionStatistics` has it.
    """

    words: Ints
    shares: Floats
    weight: Floats
    lengths: Floats

    @classmethod
    def none(cls) -> "AskedWords":
        """Return those of a region where nobody asks by keyword; objects are spread evenly then."""
        return cls(np.empty(0, np.int64), np.empty((0, 2)), np.zeros(2), np.zeros((2, 2, MAX_LENGTH + 1)))


def quartered(box: Box, space: Box) -> tuple[float, float] | None:
    """Return where a box is divided into quarters; None where these would be too small."""
    low_x, low_y, high_x, high_y = box
    x, y = low_x / 2 + high_x / 2, low_y / 2 + high_y / 2
    if not (low_x < x < high_x and low_y < y < high_y):
        return None
    return None if (high_x - low_x) * 2.0**MAX_DEPTH <= space[2] - space[0] else (x, y)


def quarters(box: Box, middle: tuple[float, float]) -> tuple[Box, Box, Box, Box]:
    """Return the four quarters of a box, in the order of children."""
    (low_x, low_y, high_x, high_y), (x, y) = box, middle
    return (low_x, low_y, x, y), (x, low_y, high_x, y), (low_x, y, x, high_y), (x, y, high_x, high_y)


def leaf_boxes(plan: QtTreePlan, outer: Box) -> Floats:
    """Return the box of each leaf in a tree whose root has the box `outer`, as its nodes are divided."""
    boxes = np.empty((len(plan.split), 4))
    boxes[0] = outer
    for node in np.flatnonzero(plan.split != LEAF).tolist():  # parents stand before their children
        low_x, low_y, high_x, high_y = boxes[node].tolist()
        x, y = plan.middle[node].tolist()
        whole = (low_x, low_y, high_x, high_y)
        first = plan.child[node]
        boxes[first : first + 4] = quarters(whole, (x, y)) if plan.split[node] == SPATIAL else [whole] * 4
    ends = np.flatnonzero(plan.split == LEAF)
    found = np.empty((plan.leaves, 4))
    found[plan.leaf[ends]] = boxes[ends]
    return found


def split_by_space(plan: QtTreePlan, leaf: int) -> QtTreePlan:
    """Return the next version, in which a leaf is four quarters; the first has its number, the others come last."""
    node = _node_of(plan, leaf)
    box: Box = tuple(plan.leaf_box[leaf].tolist())
    middle = quartered(box, plan.space.as_tuple())
    if middle is None:
        raise InputError(f"leaf {leaf} of a QT-tree is too small to be quartered")
    changed = _grown(plan, node, leaf, SPATIAL)
    changed["middle"][node] = middle
    changed["leaf_box"][[leaf, -3, -2, -1]] = quarters(box, middle)
    return successor(plan, **changed)


def split_by_text(plan: QtTreePlan, leaf: int, asked: AskedWords) -> QtTreePlan:
    """Return the next version, in which a leaf is four of the same place with empty keyword lists; numbers as by space."""
    node = _node_of(plan, leaf)
    if (np.diff(asked.words) <= 0).any():
        raise InputError("the keywords of a textual node do not ascend")
    changed = _grown(plan, node, leaf, TEXTUAL)
    changed["text"][node] = len(plan.word_off) - 1
    return successor(
        plan,
        **changed,
        word_off=np.append(plan.word_off, plan.word_off[-1] + len(asked.words)),
        word=np.append(plan.word, asked.words),
        shares=np.concatenate([plan.shares, asked.shares]),
        bits=np.append(plan.bits, np.zeros(len(asked.words), np.uint8)),
        held=np.concatenate([plan.held, np.zeros((1, 4, 2))]),
        objects=np.concatenate([plan.objects, np.zeros((1, 4))]),
        weight=np.concatenate([plan.weight, asked.weight[None]]),
        lengths=np.concatenate([plan.lengths, asked.lengths[None]]),
    )


def _node_of(plan: QtTreePlan, leaf: int) -> int:
    if not 0 <= leaf < plan.leaves:
        raise InputError(f"a QT-tree of {plan.leaves} leaves has no leaf {leaf}")
    return int(np.flatnonzero((plan.split == LEAF) & (plan.leaf == leaf))[0])


def _grown(plan: QtTreePlan, node: int, leaf: int, kind: int) -> dict[str, NDArray[Any]]:
    """Return the columns of a tree in which a leaf has four children, each with a quarter of its cost."""
    nodes, more = len(plan.split), np.arange(plan.leaves, plan.leaves + 3)
    columns: dict[str, NDArray[Any]] = {
        "split": np.append(plan.split, np.zeros(4, np.uint8)),
        "child": np.append(plan.child, np.zeros(4, np.int32)),
        "middle": np.concatenate([plan.middle, np.zeros((4, 2))]),
        "leaf": np.append(plan.leaf, [leaf, *more]).astype(np.int32),
        "text": np.append(plan.text, np.full(4, -1)).astype(np.int32),
        "leaf_worker": np.append(plan.leaf_worker, np.repeat(plan.leaf_worker[leaf], 3)),
        "leaf_cost": np.append(plan.leaf_cost, np.repeat(plan.leaf_cost[leaf] / 4, 3)),
        "leaf_box": np.concatenate([plan.leaf_box, np.repeat(plan.leaf_box[leaf][None], 3, axis=0)]),
    }
    columns["split"][node], columns["child"][node], columns["leaf"][node] = kind, nodes, -1
    columns["leaf_cost"][leaf] /= 4
    return columns


def mergeable(plan: QtTreePlan) -> Ints:
    """Return the nodes whose four children are leaves."""
    inner = np.flatnonzero(plan.split != LEAF)
    below = plan.split[plan.child[inner][:, None] + np.arange(4)]
    found: Ints = inner[(below == LEAF).all(1)]
    return found


def merged(plan: QtTreePlan, node: int, worker: int | None = None) -> tuple[QtTreePlan, Workers]:
    """Return the next version, in which a node is a leaf again, and the new number of each leaf.

    Its worker is the one of its dearest child, where none is given.
    """
    if node not in mergeable(plan):
        raise InputError(f"node {node} of a QT-tree cannot be merged; its children are not four leaves")
    gone = np.arange(plan.child[node], plan.child[node] + 4)
    four = plan.leaf[gone]
    stays = int(four.min())
    kept = np.setdiff1d(np.arange(plan.leaves), four[four != stays])
    place = np.empty(plan.leaves, np.int32)
    place[kept] = np.arange(len(kept))
    place[four] = place[stays]
    split, child, middle = plan.split.copy(), plan.child.copy(), plan.middle.copy()
    leaf, text = plan.leaf.copy(), plan.text.copy()
    child[child > gone[0]] -= 4
    split[node], child[node], middle[node], leaf[node] = LEAF, 0, 0.0, stays
    leaf[leaf >= 0] = place[leaf[leaf >= 0]]
    lists = np.arange(len(plan.word_off) - 1)
    if plan.split[node] == TEXTUAL:
        lists = np.delete(lists, text[node])
        text[text > text[node]] -= 1
        text[node] = -1
    cost, box, owner = plan.leaf_cost.copy(), plan.leaf_box.copy(), plan.leaf_worker.copy()
    owner[stays] = owner[four[cost[four].argmax()]] if worker is None else worker
    cost[stays], box[stays] = cost[four].sum(), np.append(box[four[0], :2], box[four[3], 2:])
    word_off, rows = csr_places(plan.word_off, lists)
    nodes: dict[str, NDArray[Any]] = {"split": split, "child": child, "middle": middle, "leaf": leaf, "text": text}
    following = successor(
        plan,
        **{name: np.delete(column, gone, axis=0) for name, column in nodes.items()},
        word_off=word_off, word=plan.word[rows], shares=plan.shares[rows], bits=plan.bits[rows],
        held=plan.held[lists], objects=plan.objects[lists], weight=plan.weight[lists], lengths=plan.lengths[lists],
        leaf_worker=owner[kept], leaf_cost=cost[kept], leaf_box=box[kept],
    )  # fmt: skip
    return following, place
