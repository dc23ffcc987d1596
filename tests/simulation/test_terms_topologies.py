"""Frequent terms over several evaluators: every line is the oracle's, whatever plans do."""

import os

import pytest
from terms_inputs import random_terms_topology

from topology.testing import run_for_test

SEEDS = range(int(os.environ.get("WATERSPOUT_SEEDS", "24")))


@pytest.mark.parametrize("seed", SEEDS)
def test_terms_are_exact_under_any_plan_and_any_moves(tmp_path, seed):
    """Windows across several plans, queries that come late and move, evaluators that have a part of the objects or all."""
    run_for_test(random_terms_topology(tmp_path, seed), delays=True).assert_exact()
