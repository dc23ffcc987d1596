"""Reasons for rejects, counted without the values that they repeat."""

import json

import pytest

from streams.batches import RejectBatch
from streams.files.objections import shown
from streams.reject_reasons import MAX_KINDS, MAX_LENGTH, OTHER, reason_counts
from topology.summary import MAX_REASONS, MAX_SHOWN_REASONS, RejectReasons


def counted(reasons):
    return reason_counts(RejectBatch.of("file", range(len(reasons)), reasons))


@pytest.mark.parametrize(
    ("values", "reason", "kind"),
    [
        ([1, 2], "line {} is not UTF-8", "line N is not UTF-8"),
        ([1, -2, 3.5, -1e-7, 4e30], "({}, 7) is outside the space [0, {}]", "(N, N) is outside the space [...]"),
        (["a", 'q"uote', "x" * 500, "[", "\\", ""], "x is {}, expected a number", 'x is "...", expected a number'),
        ([[], [1, [2]], {"a": [{}]}, ["x" * 500]], "id is {}, expected a string", "id is [...], expected a string"),
        (
            [5, 17],
            "ts {} is older than {}, which came before; expected",
            "ts N is older than N, which came before; expected",
        ),
        ([1], "ts is {}, expected ISO 8601, such as 2018-01-31", "ts is N, expected ISO 8601, such as 2018-01-31"),
    ],
)
def test_reasons_are_one_kind_whatever_they_repeat(values, reason, kind):
    """Numbers, strings, lists and objects, also cut short, do not make a reason another one."""
    assert counted([reason.replace("{}", shown(value)) for value in values]) == {kind: len(values)}


@pytest.mark.parametrize(
    "value",
    [
        lambda word, i: i * 7.5 - 300,
        lambda word, i: f"{word} of many",
        lambda word, i: f'say "{word}", then \\',
        lambda word, i: [word, {"of": [i, word]}, "]"],
        lambda word, i: {word: i},
        lambda word, i: [bool(i >> bit & 1) for bit in range(8)],
    ],
)
def test_more_values_than_kinds_are_one_kind(value):
    """However many different values reasons repeat, the limit of kinds is not reached."""
    words = [f"the {chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(MAX_KINDS * 3)]
    reasons = [f"x is {shown(value(word, i))}, expected a place" for i, word in enumerate(words)]
    assert list(counted(reasons).values()) == [MAX_KINDS * 3]
    assert OTHER not in counted(reasons)


def test_reasons_of_different_words_are_different_kinds():
    """What is wrong tells them apart, and counts are exact."""
    reasons = ["no x", "no y", "no x", "x is 1, expected a", "x is 1, expected b", "no x"]
    assert counted(reasons) == {"no x": 3, "no y": 1, "x is N, expected a": 1, "x is N, expected b": 1}
    assert counted([]) == {}


def test_reasons_of_a_part_of_a_batch_are_its_own():
    """A slice counts its own rows only."""
    batch = RejectBatch.of("file", range(7), ["no a", "no a", "no b", "no c", "no d", "no d", "no e"])
    assert reason_counts(batch.slice(3, 6)) == {"no c": 1, "no d": 2}


def test_kinds_of_reasons_have_a_limit():
    """Of too many kinds the rarest are counted together, and long ones are cut."""
    words = [f"no {chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(MAX_KINDS + 5)]
    found = counted([*words, *words[:MAX_KINDS]])
    assert len(found) == MAX_KINDS + 1
    assert found[OTHER] == 5
    assert sum(found.values()) == 2 * MAX_KINDS + 5
    assert len(next(iter(counted(["z" * 1000])))) == MAX_LENGTH + 3


def test_summary_of_reasons_has_a_limit():
    """The most frequent ones come first, all others are one line at the end, and nothing is lost."""
    reasons = RejectReasons()
    for i in range(MAX_REASONS + 10):
        reasons.add(f"reason {i}", 1 + (i == 7))
    told = reasons.most_frequent()
    assert told[0] == {"reason": "reason 7", "count": 2}
    assert (len(told), told[-1]["reason"]) == (MAX_SHOWN_REASONS + 1, OTHER)
    assert sum(one["count"] for one in told) == MAX_REASONS + 11
    again = RejectReasons()
    again.restore(json.loads(json.dumps(reasons.snapshot())))
    assert again.most_frequent() == told
    assert len(reasons.snapshot()) == MAX_REASONS + 1
