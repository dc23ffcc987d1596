"""What pyproject.toml cannot say: the wheel carries the shipped topologies and sample data (`waterspout.shipped`)."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


class BuildWithShippedFiles(build_py):
    """Copies them into the package; an editable install finds them where they are."""

    def run(self) -> None:
        """Build the packages, then add the files."""
        super().run()
        if self.editable_mode:
            return
        for name in ("conf", "examples/data"):
            target = Path(self.build_lib) / "waterspout" / name
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))


setup(cmdclass={"build_py": BuildWithShippedFiles})
