"""What is installed from a wheel runs on its own, outside of the repository."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: The surroundings of the tests, without a path to the checkout.
ALONE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"COLUMNS": "200"}


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (found,) = folder.glob("waterspout-*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """A Python of an environment that has the wheel, and from elsewhere only what it depends on."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", with_pip=True)
    made = folder / "venv" / "bin" / "python"
    run(made, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, env=ALONE)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    # Dependencies are borrowed, file by file: the environment of the tests has the checkout itself on its path too.
    theirs = Path(next(path for path in sys.path if path.endswith("site-packages")))
    for path in theirs.iterdir():
        if "waterspout" not in path.name and path.suffix != ".pth" and not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    return made


def test_wheel_carries_what_is_needed(wheel):
    """Topologies, sample data, outlines with their licences, pages with what they need, and that types are declared."""
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    assert "waterspout/conf/quickstart.toml" in names
    assert "waterspout/examples/data/flights_one_day.csv.gz" in names
    assert {
        f"service/view/page/dist/{name}" for name in ("index.html", "view.js", "index.css", "LICENSES.txt")
    } <= names
    assert not [name for name in names if "node_modules" in name]
    assert {
        f"reports/{name}"
        for name in ("outlines/outlines.npz", "outlines/LICENSE.world-atlas", "outlines/LICENSE.us-atlas", "page.css")
    } <= names
    assert {
        f"{name}/py.typed" for name in ("waterspout", "streams", "partitioners", "operators", "topology", "reports")
    } <= names
    assert not any(name.startswith(("tests/", "docs/")) for name in names)


def test_wheel_runs_outside_of_the_repository(python, tmp_path):
    """The quick start, a picture and a report, in an empty folder of an environment of its own."""

    def waterspout(*arguments):
        return run(python.parent / "waterspout", *arguments, cwd=tmp_path, env=ALONE)

    where = "import streams, reports, waterspout; print(*(m.__file__ for m in (streams, reports, waterspout)))"
    found = run(python, "-c", where, cwd=tmp_path, env=ALONE).split()
    assert all(Path(path).is_relative_to(python.parents[1]) for path in found)
    waterspout("init", "mine")
    few = ("--set", "spout.objects.limit=300")
    said = waterspout(
        "run", "mine/conf/quickstart.toml", *few, "--show", "2", "--results", "a.jsonl", "--summary", "a.json"
    )
    assert "300" in said
    waterspout("plot", "a.jsonl", "--topology", "mine/conf/quickstart.toml", "--out", "a.png")
    waterspout("report", "a.json", "--out", "a.html")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<style>" in (tmp_path / "a.html").read_text("utf-8")
    assert waterspout("--version").startswith("waterspout 0.2")
