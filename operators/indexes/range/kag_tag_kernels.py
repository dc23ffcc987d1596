"""Tags and flags of KAG's postings: what they say of a query's further words; `kag_group_kernels` has the layout."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.indexes.range.kag_group_kernels import ABSENT, EXACT_TAGS, NO_WORD, ROUND, SHIFT, TAG_BITS, VERIFY
from streams.kernel import lean_kernel

Int = Any  # a machine integer, numpy's or Python's
Slots = NDArray[np.int32]
Postings = NDArray[np.uint32]


@lean_kernel
def _tag_of(word: Int) -> Int:
    return np.int32(word if word < EXACT_TAGS else min(EXACT_TAGS | (word & TAG_BITS), NO_WORD - 1))


@lean_kernel
def said(slots: Slots, traits: Any) -> Int:
    """Return the bits that are set in the traits of any of these queries."""
    bits = np.uint8(0)
    for i in range(slots.shape[0]):
        bits |= traits[slots[i]]
    return bits


@lean_kernel
def tag(
    slots: Slots, words: Slots, round_ones: NDArray[np.bool_], kw: Slots, pool: Slots, traits: Any, tags: Postings,
    flags: Postings,
) -> None:  # fmt: skip
    """Write the two tags of each posting and its flags.

    Where all words are asked for, the tags are the second and the third; tag 0 is present in every object. Where any will do,
    an object counts under the first of its words, so that those before it must be absent; the last tag always is. A query of
    any words that is filed by its place alone has word 0: no tag says more than the table.
    """
    for i in range(slots.shape[0]):
        slot = slots[i]
        more = kw[slot, 2] < -1
        kind = traits[slot] & 3
        doubt = kind == 2 and not round_ones[i]
        flag = ROUND if round_ones[i] else np.uint32(0)
        if traits[slot] & 4 == 0:
            second, third = kw[slot, 1], pool[-1 - kw[slot, 2]] if more else kw[slot, 2]
            doubt = doubt or more or second >= EXACT_TAGS or third >= EXACT_TAGS
            first_tag, second_tag = _tag_of(max(second, 0)), _tag_of(max(third, 0))
        elif words[i] == 0:
            doubt, first_tag, second_tag = True, np.int32(0), np.int32(0)
        else:
            flag |= ABSENT
            first_tag, second_tag = np.int32(NO_WORD), np.int32(NO_WORD)
            j = 0
            while True:
                own = pool[-2 - kw[slot, 2] + j - 1] if more and j >= 2 else kw[slot, j]
                if own == words[i]:
                    break
                if own >= EXACT_TAGS or j >= 2:
                    doubt = True
                elif j == 0:
                    first_tag = own
                else:
                    second_tag = own
                j += 1
        tags[i] = np.uint32(first_tag) | np.uint32(second_tag) << SHIFT
        flags[i] = flag | (VERIFY if doubt else np.uint32(0))


@lean_kernel
def _deeper(slot: Int, flag: Any, kw: Slots, pool: Slots, traits: Any) -> Any:
    """Return tags and flags of a posting whose group is that of its second word: the tags are the words behind that."""
    third, fourth, more = np.int32(max(kw[slot, 2], 0)), np.int32(0), kw[slot, 2] < -1
    if more:
        third, fourth = pool[-1 - kw[slot, 2]], pool[-kw[slot, 2]]
    doubt = traits[slot] & 3 == 2 and flag & ROUND == 0
    doubt = doubt or third >= EXACT_TAGS or fourth >= EXACT_TAGS or (more and pool[-2 - kw[slot, 2]] > 2)
    tags = np.uint32(_tag_of(third)) | np.uint32(_tag_of(fourth)) << SHIFT
    return tags, (flag & ~VERIFY) | (VERIFY if doubt else np.uint32(0))
