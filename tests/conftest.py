"""Makes the plain references next to this file importable from every test, and Hypothesis repeatable."""

import os
import sys

import pytest
from hypothesis import settings

# No deadlines: the first call of a kernel compiles it, and time is not what tests are about.
settings.register_profile("waterspout", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("waterspout")


@pytest.fixture(scope="session")
def checked_kernels(tmp_path_factory):
    """A folder for kernels that check their bounds, one for all processes that share the work of a run."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "checked-kernels"


@pytest.fixture(scope="module")
def ray_cluster():
    """One Ray instance of our own for all tests of a module: starting it takes seconds."""
    import ray

    from topology.ray_runtime.cluster import connect

    connect(None)
    yield
    ray.shutdown()


@pytest.fixture
def waterspout(monkeypatch, capsys):
    """Run the command in this process; return exit code, standard output and standard error."""
    from waterspout.command_line import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["waterspout", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return call
