"""What is installed from a wheel runs on its own, outside of the repository."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A wheel of this checkout, unpacked as an installation does."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("waterspout-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def test_wheel_runs_the_quick_start_outside_of_the_repository(installed, tmp_path):
    """Topologies and sample data come with it; nothing is taken from the checkout; types are declared."""
    assert (installed / "waterspout" / "py.typed").is_file()

    def command(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "200"}
        called = [sys.executable, "-m", "waterspout", *arguments]
        done = subprocess.run(called, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    command("init", "mine")
    assert "300" in command("run", "mine/conf/quickstart.toml", "--set", "spout.objects.limit=300", "--show", "2")
    where = "import streams, topology, waterspout; print(streams.__file__, topology.__file__, waterspout.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
    ).stdout.split()  # fmt: skip
    assert all(Path(path).is_relative_to(installed) for path in found)
