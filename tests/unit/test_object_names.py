"""Identifiers of dynamic objects by slot."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from operators.indexes.dynamic.object_names import ObjectNames
from streams.columns import Ids

names = st.one_of(st.integers(-3, 6), st.sampled_from([2**63, -(2**63), "3", "o", ""]))


@given(st.lists(st.tuples(names, st.booleans()), max_size=30), st.lists(st.integers(0, 99), max_size=60))
def test_names_are_those_of_a_dict(steps, asked):
    """Whoever has come and not gone has a slot of its own and its identifier as given, whatever kinds there are."""
    table, expected = ObjectNames(), {}
    for name, stays in steps:
        if name not in expected:
            expected[name] = table.reserve(name)
        elif not stays:
            table.release([expected.pop(name)])
        if expected:
            told = [list(expected)[place % len(expected)] for place in asked]
            slots = np.array([expected[name] for name in told], np.int32)
            assert table.ids(slots).to_list() == told
            assert table.slots_of(Ids.of(told)).tolist() == slots.tolist()
    assert len(table) == len(expected) == len(set(expected.values()))
    assert table.held().tolist() == sorted(expected.values())
    assert table.slot_of("nobody") is None


def test_names_of_numbers_are_a_column_without_looking_them_up():
    """Where all identifiers are integers they are int64, also after one that is not has gone."""
    table = ObjectNames()
    slots = np.array([table.reserve(name) for name in (7, "seven", 8)], np.int32)
    assert table.ids(slots).kind == "json"
    table.release([int(slots[1])])
    found = table.ids(slots[[2, 0, 0]])
    assert (found.kind, found.values.tolist()) == ("int", [8, 7, 7])
