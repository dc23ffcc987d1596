"""The shell commands in the documents run, as they stand, in an empty folder with the shipped files."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```", flags=re.M | re.S)
DOCUMENTS = [
    path
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
    if BLOCK.search(path.read_text("utf-8"))
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_shell_in_documents_runs(document, tmp_path):
    """The blocks of a document run one after the other; the first command that fails ends them."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "waterspout"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m waterspout "$@"\n')
    command.chmod(0o755)
    for name in ("conf", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    script = "\n".join(BLOCK.findall(document.read_text("utf-8")))
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
