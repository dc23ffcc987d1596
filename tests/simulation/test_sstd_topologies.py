"""SSTD in all its forms gives what the definition says, through plans that change while questions are asked."""

import os

import pytest
from sstd_inputs import random_sstd_topology

from topology.testing import run_for_test

SEEDS = range(int(os.environ.get("WATERSPOUT_SEEDS", "24")))


@pytest.mark.parametrize("seed", SEEDS)
def test_sstd_is_exact_under_any_plan_and_any_moves(tmp_path, seed):
    """Six kinds of questions, kept objects, windows across several plans, 1 to 4 evaluators: as brute force has it."""
    run_for_test(random_sstd_topology(tmp_path, seed)).assert_exact()
