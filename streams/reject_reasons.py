"""Why records were rejected, by kind: a reason repeats what was found, and is counted without it.

Rows are told apart by a hash of their bytes without numbers, quoted strings, lists and objects, in columns; only one row of
each kind is looked at as text.
"""

import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.batches import RejectBatch
from streams.reason_kernels import kind_hashes

__all__ = ["OTHER", "REASON", "reason_counts"]

#: What stands for reasons that are not counted one by one.
OTHER = "other reasons"

#: How the counters of a task that count a kind of reason begin.
REASON = "rejected: "

#: So many kinds of reasons are counted in one batch, each shown by so many characters.
MAX_KINDS = 50
MAX_LENGTH = 200

_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|$)')
_LIST = re.compile(r"[\[{][^\[\]{}]*(?:[\]}]|$)")
_NUMBER = re.compile(r"(?<!UTF)(?<!UTF-)[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def reason_counts(rejects: RejectBatch) -> dict[str, int]:
    """Return how many records were rejected for each kind of reason; of too many kinds, the rarest together."""
    texts = rejects.reason.values
    if not len(texts):
        return {}
    _, first, counts = np.unique(_hashes(texts), return_index=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    found: Counter[str] = Counter()
    for place in order[:MAX_KINDS].tolist():
        found[_kind(texts[int(first[place])].as_py())] += int(counts[place])
    if left := int(counts[order[MAX_KINDS:]].sum()):
        found[OTHER] += left
    return dict(found)


def _kind(reason: str) -> str:
    """Return a reason without what was found; what was expected is always the same."""
    found, expected, rest = reason.rpartition(", expected")
    if not expected:
        found, rest = reason, ""
    found = _STRING.sub('"..."', found)
    while (shorter := _LIST.sub("(...)", found)) != found:
        found = shorter
    text = f"{_NUMBER.sub('N', found.replace('(...)', '[...]'))}{expected}{rest}"
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}..."


def _hashes(texts: Any) -> NDArray[np.uint64]:
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    found = np.empty(len(texts), np.uint64)
    kind_hashes(np.frombuffer(texts.buffers()[2] or b"", np.uint8), offsets, found)
    return found
