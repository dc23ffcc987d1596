"""Makes the plain references next to this file importable from every test, and Hypothesis repeatable."""

import pytest
from hypothesis import settings

# No deadlines: the first call of a kernel compiles it, and time is not what tests are about.
settings.register_profile("waterspout", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("waterspout")


@pytest.fixture(scope="module")
def ray_cluster():
    """One Ray instance of our own for all tests of a module: starting it takes seconds."""
    import ray

    from topology.ray_runtime.cluster import connect

    connect(None)
    yield
    ray.shutdown()
