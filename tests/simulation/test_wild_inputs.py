"""Inputs and settings that nobody would think of, drawn from a seed: results are those of the oracle, also of resumed runs."""

import pytest
from wild_simulation import WILD_MODES, WILD_TOPOLOGIES, simulate_wild

#: A seed in each mode; `make simulate` runs as many as one likes.
SEEDS = dict(zip(WILD_MODES, (1, 2), strict=True))


@pytest.mark.parametrize("mode", WILD_MODES)
@pytest.mark.parametrize("name", WILD_TOPOLOGIES)
def test_topology_bears_wild_inputs(tmp_path, name, mode):
    """Epochs of one object or of all, times of one instant or of years, poles, lives of no instant, identifiers used again.

    The indexes are those that are declared: others have tests of their own, and kernels that take long to compile.
    """
    simulate_wild(tmp_path, name, SEEDS[mode], mode, indexes=False)
