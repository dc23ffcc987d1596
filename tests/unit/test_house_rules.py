"""Rules of the house that no linter knows."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("streams", "partitioners", "operators", "topology", "pipeline", "benchmarks", "examples")
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_every_test_says_what_it_tests(path):
    """Each test function has a docstring."""
    tests = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.FunctionDef)]
    silent = [n.name for n in tests if n.name.startswith("test_") and not ast.get_docstring(n)]
    assert silent == []


def test_modules_stay_readable():
    """No module is longer than 400 lines; kernels, which must keep their helpers in their own file, may have 600."""
    lengths = {str(path.relative_to(ROOT)): path.read_text("utf-8").count("\n") for path in MODULES}
    assert {name: n for name, n in lengths.items() if n > (600 if "kernels" in name else 400)} == {}


def test_modules_are_not_drawers():
    """No module is named for what does not belong anywhere."""
    assert [p.name for p in MODULES if re.fullmatch(r"(utils?|common|helpers?|misc|manager)\.py", p.name)] == []


def test_nothing_shipped_unpickles():
    """No module of the packages imports pickle."""
    found = [
        p.name
        for p in MODULES
        if re.search(r"^\s*(import|from) (c?pickle|cloudpickle|marshal)\b", p.read_text("utf-8"), re.M)
    ]
    assert found == []


def test_what_make_installs_is_declared():
    """An extra that nobody declares is passed over by pip with a mere warning, and what it should bring is missing."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    wanted = re.findall(r"'\.\[([a-z,]+)\]'", (ROOT / "Makefile").read_text("utf-8"))
    assert wanted
    assert {extra for extras in wanted for extra in extras.split(",")} <= set(declared)
